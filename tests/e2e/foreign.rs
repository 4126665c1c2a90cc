//! A program in another language, with nothing but its NATS client, is an agent: what it gets,
//! what it is refused, and that nothing it sends stops anybody (spec 02, From outside).

use std::path::PathBuf;
use std::process::Command;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_tests::{Ended, Fleet, Ledger, Program, python, wait};

use crate::{acting, script, sleeping};

/// Adds `PO-foreign` with the command people use, and runs a story of `foreign.py` as it.
fn foreign(fleet: &Fleet, story: &str) -> Value {
    let said = fleet.ok(["agent", "add", "PO-foreign", "--external"]);
    let credential = said
        .split_whitespace()
        .map(|word| PathBuf::from(word.trim_matches('\'')))
        .find(|path| path.extension().is_some_and(|end| end == "creds") && path.is_file())
        .unwrap_or_else(|| panic!("no credential in\n{said}"));
    assert!(said.contains(&fleet.url()), "{said}");
    let profile = sleeping(fleet, "60");
    let letter = json!({"name": "letter", "argv": acting(&["letter"])});
    let letter = fleet.file("letter.json", &letter.to_string());
    let mortal = json!({"name": "mortal", "argv": acting(&["mortal"])});
    let mortal = fleet.file("mortal.json", &mortal.to_string());
    let files = [&profile, &letter, &mortal].map(|file| file.to_str().unwrap());
    fleet.ok(["profile", "apply", "foreign"].into_iter().chain(files));
    let mut command = Command::new(python());
    command.arg(script("foreign.py")).arg(fleet.url()).arg(credential).args(["PO-foreign", story]);
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_client_gets_three_spawns_no_fourth_and_every_version() {
    let fleet = Fleet::up();
    let saw = foreign(&fleet, "story");
    let names = saw["accepted"].as_array().unwrap();
    assert_eq!(names.len(), 3);
    assert_eq!(saw["denied"]["reason"], "children_limit_exceeded");
    assert_eq!((&saw["denied"]["limit"], &saw["denied"]["current"]), (&"3".into(), &"3".into()));
    assert!(saw["suggestion"].as_str().unwrap().contains("plan.review_needed"), "{saw}");
    let versions: Vec<u64> =
        saw["versions"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
    let whole: Vec<u64> = (1..=versions.len() as u64).collect();
    assert_eq!(versions, whole, "from 1 on, without gap or repeat");
    assert!(versions.len() >= 4);
    assert_eq!(saw["missed"]["all"], json!(whole), "the consumer of every plan");
    assert_eq!(saw["missed"]["second"], json!(&whole[2..]), "behind version 2");
    assert_eq!(saw["missed"]["none"], json!(whole), "behind version 0");

    let running = wait::until("three processes", || {
        let running = fleet.agents();
        (running.len() == 3).then_some(running)
    });
    for process in running {
        assert!(names.contains(&process.agent.as_deref().into()), "{process:?} in {names:?}");
        assert!(process.command.starts_with("sleep"), "{process:?}");
    }
    let listed = fleet.json(&["get", "agents", "--project", "foreign"]);
    let workers = listed.as_array().unwrap().iter();
    assert_eq!(workers.filter(|a| a["id"].as_str().unwrap().starts_with("W:")).count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_foreign_message_is_answered_or_dead_lettered_and_stops_nobody() {
    let mut fleet = Fleet::up();
    let control = fleet.control().await;
    let mut dead = control.client().subscribe("dead.*").await.unwrap();
    let seen = foreign(&fleet, "hostile");
    let said = &seen["said"];
    // Each with a word of the answer, wherever in it the reason stands.
    let expected = [
        ("unknown_field", "invalid_request", "nonsense"),
        ("unknown_inside", "invalid_request", "shell"),
        ("wrong_role", "invalid_request", "emperor"),
        ("claims_another", "invalid_request", "sender"),
        ("for_another", "unknown_epic", "GO"),
        ("bad_name", "invalid_request", "goal_nonsense"),
        ("long_reason", "invalid_request", "2048"),
        ("oversized", "10054", "size exceeds"),
        ("unknown_op", "invalid_request", "coffee.make"),
        ("unknown_op_field", "invalid_request", "colour"),
        ("not_for_agents", "E_UNAUTHORIZED", "human"),
        ("wrong_epoch", "unauthorized", "epoch"),
    ];
    for (name, reason, word) in expected {
        let answer = said[name].to_string();
        assert!(answer.contains(reason) && answer.contains(word), "{name}: {answer}");
    }
    let refused = said["server_refused"].as_array().unwrap();
    assert_eq!(refused.len(), said["forbidden"].as_u64().unwrap() as usize, "{refused:?}");
    assert!(
        refused.iter().all(|error| error.as_str().unwrap().to_lowercase().contains("permission"))
    );

    // The letter with an unknown topic is set aside with its reason; the next one arrives.
    wait::soon("the letter with an unknown topic is dead", async {
        loop {
            let letter = dead.next().await.unwrap();
            let headers = format!("{:?}", letter.headers);
            if headers.contains("weather.report") {
                return;
            }
        }
    })
    .await;
    let listed = fleet.json(&["mail", "dead"]);
    let found = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|letter| letter["reason"].as_str().unwrap().contains("weather.report"));
    assert!(found.unwrap()["subject"].as_str().unwrap().starts_with("mail."), "{listed}");

    unharmed(&mut fleet, said["child"].as_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn respelled_repeated_request_gets_the_same_answer() {
    let fleet = Fleet::up();
    let seen = foreign(&fleet, "again");
    let answers = seen["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 5, "{seen}");
    assert!(answers[0]["epic"].is_string() && answers[0]["error"].is_null(), "{seen}");
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{seen}");
    assert_eq!(seen["duplicates"], json!([false, false, false, false, true, false]));
    assert_eq!(seen["reads"][0]["agent"], seen["reads"][1]["agent"], "{seen}");
    assert_eq!(seen["unreadable"], json!([seen["request"], null]));
    assert_eq!(fleet.json(&["get", "goals"]).as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_subjects_and_headers_stop_nobody() {
    let mut fleet = Fleet::up();
    let seen = foreign(&fleet, "bytes");
    unharmed(&mut fleet, seen["child"].as_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_gets_mail_receipts_even_when_the_reader_dies_of_it() {
    let fleet = Fleet::up();
    let told = foreign(&fleet, "receipts")["told"].take();
    let stages = |name: &str| -> Vec<String> {
        let all = told[name].as_array().unwrap().iter();
        all.map(|mail| format!("{} {}", mail["topic"], mail["body"]["stage"])).collect()
    };
    assert_eq!(stages("child"), [r#""receipt" "delivered""#, r#""receipt" "consumed""#]);
    assert_eq!(told["child"][0]["body"]["of"]["message"], "PO-foreign.child", "{told}");
    assert_eq!(stages("go"), [r#""receipt" "consumed""#]);
    assert_eq!(stages("after"), [r#""receipt" "consumed""#], "a notice of a notice is none");
    let [dead] = &told["unknown"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&dead["topic"], &dead["body"]["to"]), (&"mail.dead".into(), &"GO".into()));
    assert!(dead["body"]["reason"].as_str().unwrap().contains("op.<name>"), "{dead}");

    // People ask in the same way.
    let sent = fleet.ok(["mail", "send", "GO", "hello", "--receipt", "--wait", "20s"]);
    assert!(sent.contains("consumed"), "{sent}");
    let sent = fleet.json(&["mail", "send", "HO@h1", "hello", "--receipt", "--wait", "20s"]);
    assert_eq!(sent["stage"], "consumed", "{sent}");
    let listed = fleet.json(&["mail", "list"]);
    let receipts = listed.as_array().unwrap().iter();
    let receipts = receipts.filter(|mail| mail["mail"]["topic"] == "receipt").count();
    assert_eq!(receipts, 3, "{listed}");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// Everybody still works: nothing was restarted, the child runs and the records are whole.
async fn unharmed(fleet: &mut Fleet, child: &str) {
    let mut ledger = Ledger::follow(&fleet.control().await);
    let child = child.parse().unwrap();
    ledger
        .until("the child runs", |records| {
            let agent = records.agents.get(&child)?;
            (agent.liveness.as_str() == "active").then_some(())
        })
        .await;
    fleet.ok(["doctor", "--check-ledger"]);
    let ended = fleet.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains("restarting it"), "{}", ended.err);
    assert_eq!(fleet.processes(), []);
}
