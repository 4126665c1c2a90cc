//! What the results and errors of a real program come to, on one fleet.

use std::path::Path;

use serde_json::{Value, json};
use tetrarch_core::records::Records;
use tetrarch_core::run::{Run, RunState};
use tetrarch_tests::model::{ModelServer, once};
use tetrarch_tests::{Ledger, Program, wait};

use crate::gate::{self, Repository};

use super::{Coder, KEY, VARIABLE, fleet, plan_of, profile_of, says, then, usage};

/// How a run ends: its words, or a part of the error.
type Ending = Result<&'static str, &'static str>;

/// What differs between the programs.
pub(in super::super) struct Endings {
    /// How the model gives its typed result.
    pub(in super::super) typed: Value,
    /// How a run ends that is told once that there are too many requests.
    pub(in super::super) too_many: Ending,
    /// Tasks that are not for it.
    pub(in super::super) skipped: &'static [&'static str],
    /// Tokens in and out of a greeting, its other calls with it.
    pub(in super::super) greeting: (u64, u64),
}

fn error(status: u16) -> Value {
    json!({"error": {"message": "no", "type": "x"}, "status": status, "retryAfter": 1})
}

/// What the server says to each of the tasks below.
fn scripts(coder: &Coder, endings: &Endings) -> Vec<Value> {
    let mut scripts = vec![
        says("does not satisfy the schema", "4"),
        then("written", "it is written"),
        then("changed", "it is changed"),
        says("a greeting", "hello back"),
        coder.runs("a change", "changed", "echo four >> a"),
        coder.runs("a file", "written", "env > env.txt; echo hi > made.txt"),
        endings.typed.clone(),
        says("a number", "four"),
        json!({"match": {"userMessage": "no key"}, "response": error(401)}),
        once("too many", &error(429), &json!({})),
        says("too many", "let in"),
        coder.runs("too dear", "dear", "sleep 60"),
    ];
    scripts.extend(dear(coder));
    scripts
}

/// The words of a task whose model never has enough.
const DEAR: &str = "dear again and again";
/// Its grant in tokens, which some of its calls take.
const GRANT: u64 = 30_000;

/// It runs one command after the other, each for 2,010 tokens.
fn dear(coder: &Coder) -> Vec<Value> {
    let command = |number: usize| {
        let mut response = coder.command(&format!("more-{number}"), "true");
        response["usage"] = usage(10, 2000);
        response
    };
    let next = |number: usize| json!({"match": {"toolCallId": format!("more-{number}")}, "response": command(number + 1)});
    let first = json!({"match": {"userMessage": DEAR}, "response": command(0)});
    (0..15).map(next).chain([first]).collect()
}

/// The tasks: their words, what their profile and their node have besides, and how they end.
fn rows(repository: &Path, endings: &Endings) -> Vec<(&'static str, Value, Value, Ending)> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let none = || json!({});
    let apart = json!({"tools": ["run"], "workspace": repository, "worktree": "isolated"});
    vec![
        ("a greeting", none(), none(), Ok("hello back")),
        ("a file", json!({"tools": ["run"]}), none(), Ok("it is written")),
        ("a change", apart, none(), Ok("it is changed")),
        ("by schema", none(), json!({"outputSchema": schema}), Ok("{\"n\":4}")),
        // What its tool for results does not take is in its last words, which are handed back once.
        ("a number", none(), json!({"outputSchema": {"type": "integer"}}), Ok("4")),
        ("too many", none(), none(), endings.too_many),
        ("no key", none(), none(), Err("HTTP 401")),
        (
            "too dear",
            json!({"tools": ["run"], "budget": {"tokens": 10}}),
            none(),
            Err("budget_exceeded"),
        ),
        (
            DEAR,
            json!({"tools": ["run"], "budget": {"tokens": GRANT}}),
            none(),
            Err("budget_exceeded"),
        ),
        ("no address", json!({"baseUrl": "nowhere"}), none(), Err("is no http or https address")),
        ("no variable", json!({"keyFrom": "env:NOT_SET"}), none(), Err("NOT_SET")),
    ]
}

/// Results, errors and a change that is approved, each with its outcome; usage is charged, and the key is in no record.
pub(in super::super) async fn outcomes(coder: &Coder, endings: Endings) {
    let Some(program) = coder.installed() else { return };
    let (server, fleet) = (ModelServer::start(&scripts(coder, &endings)), fleet());
    let work = fleet.cwd().join("work");
    let repository = Repository::new(&fleet);
    let mut rows = rows(&repository.0, &endings);
    rows.retain(|(words, ..)| !endings.skipped.contains(words));
    let start = |(words, more, task, _): &(&str, Value, Value, Ending)| -> Program {
        let profile = profile_of(coder, &program, &server, &work, more);
        let name = words.replace(' ', "-");
        let plan = plan_of(&name, words, profile, task);
        let file = fleet.file(&format!("{name}.json"), &plan.to_string());
        fleet.spawn(["run", file.to_str().unwrap()])
    };
    let running: Vec<Program> = rows.iter().map(start).collect();
    for ((words, .., expected), program) in rows.iter().zip(running) {
        let ended = program.ended();
        match expected {
            Ok(text) => assert_eq!(
                (ended.out.trim(), ended.code),
                (*text, Some(0)),
                "{words}: {}",
                ended.err
            ),
            Err(why) => {
                // Where a key would go is looked at before anything starts.
                let code = if *words == "no address" { 2 } else { 1 };
                assert_eq!(ended.code, Some(code), "{words}: {}{}", ended.out, ended.err);
                assert!(ended.err.contains(why), "{words}: {}", ended.err);
            }
        }
    }
    assert_eq!(std::fs::read_to_string(work.join("made.txt")).unwrap(), "hi\n");
    fleet.ok(["approve", &gate::id(&gate::change(&fleet, "T1.1")), "--apply"]);
    let merged = std::fs::read_to_string(repository.0.join("a")).unwrap();
    assert_eq!(merged, "one\ntwo\nthree\nfour\n", "its change is merged when it is approved");
    let told =
        server.got().iter().map(Value::to_string).any(|it| it.contains("give it again, once"));
    assert!(told, "it is told what is wrong with its result");
    let mut ledger = Ledger::follow(&fleet.control().await);
    let used = ledger
        .until("the greeting is done", |records| {
            let is = |it: &&Run| it.brief.goal.contains("a greeting");
            let run = records.runs.values().find(is)?.id;
            let status = records.run_status.get(&run)?;
            (status.state == RunState::Done).then_some(status.usage)
        })
        .await;
    assert!(charged_within_its_grant(&mut ledger).await > 4000, "some calls were made");
    let environment = std::fs::read_to_string(work.join("env.txt")).unwrap();
    assert!(!environment.contains(KEY), "the key is the host's: {environment}");
    let charged = ((used.tokens_in, used.tokens_out), used.turns, used.cost_micro > 0);
    assert_eq!(charged, (endings.greeting, 1, true), "{used:?}");
    wait::until("all of them are gone", || fleet.agents().is_empty().then_some(()));
    let out = fleet.ok(["events", "-o", "json"]);
    assert!(!out.contains(KEY), "the key of {VARIABLE} is in no record");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// What the run with the small grant was charged: no more than that.
async fn charged_within_its_grant(ledger: &mut Ledger) -> u64 {
    let ended = |records: &Records| {
        let is = |it: &&Run| it.brief.goal.contains(DEAR);
        let run = records.runs.values().find(is)?.id;
        let status = records.run_status.get(&run)?;
        status.state.is_terminal().then_some(status.usage.spend().tokens)
    };
    let charged = ledger.until("the dear run has ended", ended).await;
    assert!(charged <= GRANT, "{charged} of {GRANT}");
    charged
}
