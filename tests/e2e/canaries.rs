//! Secrets of every source, said by programs and by servers of models in every encoding: none is in any byte that is
//! stored, logged or printed (spec 09, Secrets; docs/decisions/0088).

use std::path::Path;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use serde_json::{Value, json};
use tetrarch_bus::subject::pattern::{
    ARTIFACTS, CURSORS, DEAD, LEDGER, MAIL, PLANS, REQUESTS, RUNS, STATE,
};
use tetrarch_bus::tail::StreamBytes;
use tetrarch_tests::model::{ModelServer, once, said};
use tetrarch_tests::{Ended, Fleet, plain_entry};

use crate::acting;

/// What stands for a secret.
const MARK: &str = "[redacted:secret]";

/// A secret of each source, in letters that encodings write in ways of their own.
fn canaries() -> [(&'static str, String); 5] {
    ["passed", "env", "credential", "file", "command"]
        .map(|source| (source, format!("c4nary \"{source}\"/?>~ü+7=&%é\\{}", "Zq9_".repeat(5))))
}

/// What may be nowhere: a secret in each encoding, without what is before and after it.
fn encoded(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let each = |form: fn(u8) -> String| bytes.iter().map(|byte| form(*byte)).collect::<String>();
    let json = json!(secret).to_string();
    let units = |unit: fn(u16) -> String| secret.encode_utf16().map(unit).collect::<String>();
    let mut forms = vec![
        secret.to_owned(),
        HEXLOWER.encode(bytes),
        HEXUPPER.encode(bytes),
        each(|byte| format!("%{byte:02x}")),
        each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        }),
        json[1..json.len() - 1].to_owned(),
        units(|unit| format!("\\u{unit:04x}")),
    ];
    for before in 0..3 {
        let text = [&[0; 2][..before], bytes].concat();
        let own = (before * 8).div_ceil(6)..text.len() * 8 / 6;
        for encoding in [BASE64_NOPAD, BASE64URL_NOPAD] {
            forms.push(encoding.encode(&text)[own.clone()].to_owned());
        }
    }
    forms
}

/// Nothing of the canaries is in these bytes; gives how often one was hidden there.
fn clean(canaries: &[(&'static str, Vec<String>)], bytes: &[u8], place: &str) -> usize {
    let text = String::from_utf8_lossy(bytes);
    for (source, forms) in canaries {
        for form in forms {
            let at = text.find(form.as_str());
            let around = at.map(|at| &text[text.floor_char_boundary(at.saturating_sub(200))..at]);
            assert!(at.is_none(), "{place} has {form} of {source} after {around:?}");
        }
    }
    text.matches(MARK).count()
}

fn files_are_clean(canaries: &[(&'static str, Vec<String>)], dir: &Path) -> usize {
    let mut looked = 0;
    for entry in ignore::WalkBuilder::new(dir).standard_filters(false).build() {
        let entry = entry.unwrap();
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            clean(canaries, &std::fs::read(entry.path()).unwrap(), &entry.path().to_string_lossy());
            looked += 1;
        }
    }
    looked
}

/// How often a secret was hidden in each stream, all of whose messages are clean.
async fn streams_are_clean(fleet: &Fleet, canaries: &[(&'static str, Vec<String>)]) {
    let bus = fleet.control().await;
    for stream in [ARTIFACTS, CURSORS, DEAD, LEDGER, MAIL, PLANS, REQUESTS, RUNS, STATE] {
        let (mut texts, mut hidden) = (StreamBytes::of(&bus, stream), 0);
        while let Some(body) = texts.next().await {
            // Within a packed entry nobody would find anything.
            let body = if stream == LEDGER { plain_entry(&body) } else { body.to_vec() };
            hidden += clean(canaries, &body, stream);
        }
        if [ARTIFACTS, LEDGER, MAIL, REQUESTS, RUNS, STATE].contains(&stream) {
            assert!(hidden > 0, "nothing was said in {stream}");
        }
    }
}

/// Runs a goal; gives what was printed.
fn goal(fleet: &Fleet, name: &str, plan: &Value) -> Ended {
    let file = fleet.file(&format!("{name}.json"), &plan.to_string());
    fleet.run(["run", file.to_str().unwrap()])
}

/// A goal whose model says its key, whose program then says all keys and ends as it is told.
fn telling(server: &ModelServer, how: &str, backwards: &[String]) -> Value {
    let model = |key: &str| {
        json!({
            "runner": "llm", "provider": "openai", "model": "scripted", "keyFrom": key, "wall": "60s",
            "baseUrl": format!("{}/v1", server.url()),
        })
    };
    let words: Vec<&str> =
        ["canary", how].into_iter().chain(backwards.iter().map(String::as_str)).collect();
    let task = |id: &str, profile: &str, deps: &[&str]| {
        json!({"id": id, "name": profile, "objective": profile, "profile": profile, "acceptance": ["it is said"],
               "deps": deps})
    };
    json!({
        "project": format!("telling-{how}"),
        "output": "T1.3",
        "goal": {"title": format!("tell {how}")},
        "phases": [{"id": "P1", "name": "Tell", "tasks": [
            task("T1.1", "by-env", &[]), task("T1.2", "by-credential", &[]), task("T1.3", "program", &["T1.1", "T1.2"]),
        ]}],
        "profiles": {
            "by-env": model("env:CANARY_ENV"),
            "by-credential": model("credential:canary"),
            "program": {"argv": acting(&words), "passEnv": ["CANARY_GIVEN"], "wall": "60s"},
        },
    })
}

/// What the server of the planner and of the models says: each repeats its key, first in an error, then in an answer.
fn scripts(canaries: &[(&'static str, Vec<String>)]) -> Vec<Value> {
    let all = |source: &str| {
        let (_, forms) = canaries.iter().find(|(named, _)| *named == source).unwrap();
        forms.join(" and ")
    };
    let mut scripts = Vec::new();
    for source in ["file", "command"] {
        let words = format!("planned by {source}");
        let plan = json!({"output": "T1.1", "phases": [{"id": "P1", "name": all(source), "tasks": [
            {"id": "T1.1", "name": source, "objective": all(source), "acceptance": [all(source)]},
        ]}]});
        let error = json!({"error": {"message": all(source), "type": "x"}, "status": 500});
        scripts.push(once(&words, &error, &json!({})));
        scripts.push(said(&words, &plan.to_string()));
    }
    for source in ["env", "credential"] {
        let words = format!("by-{source}");
        let error = json!({"error": {"message": all(source), "type": "x"}, "status": 500});
        scripts.push(once(&words, &error, &json!({})));
        let mut answer = said(&words, &all(source));
        answer["chunkSize"] = json!(4);
        scripts.push(answer);
    }
    scripts
}

#[test]
fn no_secret_of_any_source_is_stored_logged_or_printed() {
    let secrets = canaries();
    let of = |source: &str| &secrets.iter().find(|(named, _)| *named == source).unwrap().1;
    let forms = secrets.clone().map(|(source, secret)| (source, encoded(&secret)));
    let server = ModelServer::start(&scripts(&forms));
    let fleet = Fleet::prepared();
    let [_, file, command] = ["credential", "file", "command"].map(|source| {
        fleet.file(if source == "credential" { "canary" } else { source }, of(source))
    });
    let work = fleet.cwd().join("work");
    let mut fleet = [
        ("CANARY_GIVEN", of("passed").as_str()),
        ("CANARY_ENV", of("env")),
        ("CREDENTIALS_DIRECTORY", fleet.cwd().to_str().unwrap()),
        ("TETRARCH_HOST_WORKSPACE_DIR", work.to_str().unwrap()),
        ("TETRARCH_PLANNER_ENABLED", "true"),
        ("TETRARCH_PLANNER_PROVIDER", "openai"),
        ("TETRARCH_PLANNER_MODEL", "scripted"),
        ("TETRARCH_PLANNER_BASE_URL", &format!("{}/v1", server.url())),
        ("TETRARCH_PLANNER_KEY_FROM", &format!("file:{}", file.display())),
        ("TETRARCH_TELEMETRY_LOG", "debug"),
    ]
    .into_iter()
    .fold(fleet, |fleet, (name, value)| fleet.with_env(name, value))
    .started();
    let mut printed = Vec::new();
    let planned = |fleet: &Fleet, source: &str| {
        let profile = json!({"argv": ["echo", "it is done"], "wall": "60s"});
        let plan = json!({"project": source, "goal": {"title": format!("planned by {source}")},
                          "profiles": {"default": profile}});
        goal(fleet, source, &plan)
    };
    let backwards =
        ["env", "credential"].map(|source| of(source).chars().rev().collect::<String>());
    for (how, code) in [("done", 0), ("failed", 1), ("code", 1)] {
        let ended = goal(&fleet, how, &telling(&server, how, &backwards));
        assert_eq!(ended.code, Some(code), "{how}: {}{}", ended.out, ended.err);
        printed.extend([ended.out, ended.err]);
    }
    let ended = planned(&fleet, "file");
    printed.extend([ended.out, ended.err]);
    for told in [
        &["events"][..],
        &["get", "goals", "-o", "json"],
        &["inbox"],
        &["get", "runs", "-o", "yaml"],
    ] {
        printed.push(fleet.ok(told));
    }
    let ended = fleet.stop();
    printed.extend([ended.out, ended.err]);
    fleet =
        fleet.with_env("TETRARCH_PLANNER_KEY_FROM", format!("command:cat {}", command.display()));
    fleet.start();
    let ended = planned(&fleet, "command");
    printed.extend([ended.out, ended.err]);
    let hidden: usize =
        printed.iter().map(|text| clean(&forms, text.as_bytes(), "what was printed")).sum();
    assert!(hidden > 0, "{printed:?}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(streams_are_clean(&fleet, &forms));
    let ended = fleet.stop();
    clean(&forms, [ended.out, ended.err].concat().as_bytes(), "the log");
    assert!(files_are_clean(&forms, &fleet.data_dir()) > 10);
}
