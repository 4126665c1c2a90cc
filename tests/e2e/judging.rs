//! A project whose orchestrator judges by a model (docs/decisions/0052), against a model server that answers as it is
//! scripted: a bare goal is planned and its results are reviewed; whatever the model says, the goal is reached.

use serde_json::{Value, json};
use tetrarch_tests::model::{ModelServer, said};
use tetrarch_tests::{Fleet, Program, wait};

/// The key that only the server is shown.
const KEY: &str = "sk-test-0123456789";
/// The variable that holds it.
const VARIABLE: &str = "JUDGE_TEST_KEY";
/// What the planner is told of every goal, and nobody else.
const PLANNING: &str = "tasksOfPhase";

fn fleet() -> Fleet {
    Fleet::prepared().with_env(VARIABLE, KEY).started()
}

/// The profile of an orchestrator that judges by the model of a server.
fn judge(server: &ModelServer, variable: &str) -> Value {
    json!({
        "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{}/v1", server.url()),
        "keyFrom": format!("env:{variable}"), "wall": "60s",
    })
}

/// A program that says a line, and nothing else.
fn saying(line: &str) -> Value {
    json!({"argv": ["echo", line], "wall": "60s"})
}

/// Runs a plan file whose goal has this title, in a project of its own.
fn goal(fleet: &Fleet, title: &str, more: &Value) -> Program {
    let mut file = json!({"project": title, "goal": {"title": title}});
    for (key, value) in more.as_object().unwrap() {
        file[key] = value.clone();
    }
    let file = fleet.file(&format!("{title}.json"), &file.to_string());
    fleet.spawn(["run", file.to_str().unwrap()])
}

fn finish(fields: &Value) -> Value {
    json!({"toolCalls": [{"id": "c0", "name": "finish", "arguments": fields}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
}

/// The events of a kind, as their words.
fn told(fleet: &Fleet, kind: &str) -> Vec<String> {
    let all = fleet.ok(["events"]);
    all.lines().filter(|line| line.contains(kind)).map(str::to_owned).collect()
}

fn provenance(fleet: &Fleet, title: &str) -> Value {
    let goals = fleet.json(&["get", "goals"]);
    let named = |goal: &&Value| goal["goal"]["title"] == *title || goal["title"] == *title;
    let goal = goals.as_array().unwrap().iter().find(named).unwrap_or_else(|| panic!("{goals}"));
    let id = goal["id"].as_str().or_else(|| goal["goal"]["id"].as_str()).unwrap();
    fleet.json(&["plan", "provenance", id])[0].clone()
}

#[test]
fn bare_goal_is_planned_and_reviewed_by_its_orchestrators_model() {
    let secret = format!("sk-{}", "x9Y".repeat(12));
    let plan = json!({"phases": [{"id": "P1", "name": "all of it", "tasks": [
        {"id": "T1.1", "name": "begin", "acceptance": ["it is begun"], "keyFacts": [format!("use {secret}")]},
        {"id": "T1.2", "name": "end", "acceptance": ["it is ended"], "deps": ["T1.1"]},
    ]}], "output": "T1.2"});
    let maybe = finish(&json!({"outcome": "success", "verdict": {"verdict": "maybe"}}));
    let pass =
        finish(&json!({"outcome": "success", "verdict": {"verdict": "pass", "findings": []}}));
    let short =
        json!({"verdict": "needs_changes", "findings": [{"where": "end", "what": "too short"}]});
    let turn = |words: &str, n: u64, response: &Value| json!({"match": {"userMessage": words, "turnIndex": n}, "response": response});
    let server = ModelServer::start(&[
        said(PLANNING, &plan.to_string()),
        turn("Review T1.1", 0, &maybe),
        turn("Review T1.1", 1, &pass),
        json!({"match": {"userMessage": "Review T1.2", "sequenceIndex": 0},
            "response": {"content": format!("```json\n{short}\n```")}}),
        turn("Review T1.2", 0, &pass),
    ]);
    let fleet = fleet();
    let profiles =
        json!({"profiles": {"default": saying("done"), "orchestrator": judge(&server, VARIABLE)}});
    let ended = goal(&fleet, "tidy", &profiles).ended();
    assert_eq!((ended.out.trim(), ended.code), ("done", Some(0)), "{}", ended.err);
    let planned = provenance(&fleet, "tidy");
    assert_eq!(planned["status"], "accepted", "{planned}");
    assert_eq!(planned["model"], "openai scripted, profile orchestrator");
    assert!(!planned.to_string().contains(&secret), "{planned}");
    assert!(planned.to_string().contains("use [redacted:api_key]"), "{planned}");
    let verdicts = told(&fleet, "review.verdict");
    let with = |words: &str| verdicts.iter().filter(|line| line.contains(words)).count();
    assert_eq!((verdicts.len(), with("pass"), with("too short")), (3, 2, 1), "{verdicts:?}");
    let asked = server.got();
    let corrected = asked.iter().filter(|body| body["messages"].to_string().contains("/verdict: "));
    assert_eq!(
        (asked.len(), corrected.count()),
        (5, 1),
        "a plan, and each result, once: {asked:?}"
    );
    let agents = fleet.json(&["get", "agents"]);
    let po = agents.as_array().unwrap().iter().find(|agent| agent["id"] == "PO-tidy");
    let turns = po.map(|po| &po["account"]["spent"]["turns"]);
    assert_eq!(turns, Some(&json!(5)), "the plan and each turn of its reviews are counted: {po:?}");
    assert_eq!(planned["used"]["turns"], 1, "{planned}");
    assert!(!fleet.ok(["events"]).contains(&secret));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn goal_with_a_garbage_model_falls_back_to_the_default_way() {
    let server = ModelServer::start(&[
        said("That answer is not valid", "Well."),
        said(PLANNING, "I would begin with the beginning."),
        said("the verdict of the review", "Yes, fine."),
        said("Review T1.1", "It looks fine to me."),
    ]);
    let fleet = fleet();
    let passing = r#"{"type":"result","outcome":"success","deliverable":"done","verdict":{"verdict":"pass"}}"#;
    let profiles = |variable: &str| json!({"profiles": {"default": saying(passing), "orchestrator": judge(&server, variable)}});
    let mut reviewed = profiles(VARIABLE);
    reviewed["output"] = json!("T1.1");
    reviewed["phases"] = json!([{"id": "P1", "name": "all", "tasks": [
        {"id": "T1.1", "name": "do it", "acceptance": ["it is done"], "review": true, "maxAttempts": 1},
    ]}]);
    let rows = [
        ("bare", &profiles(VARIABLE)),
        ("keyless", &profiles("NO_SUCH_KEY")),
        ("known", &reviewed),
    ];
    let running = rows.map(|(title, more)| (title, goal(&fleet, title, more)));
    for (title, program) in running {
        let ended = program.ended();
        assert_eq!((ended.out.trim(), ended.code), ("done", Some(0)), "{title}: {}", ended.err);
    }
    let bare = provenance(&fleet, "bare");
    assert_eq!((&bare["status"], &bare["attempts"]), (&json!("refused"), &json!(3)), "{bare}");
    let keyless = provenance(&fleet, "keyless");
    assert_eq!(keyless["status"], "refused", "{keyless}");
    assert!(
        keyless["problems"].to_string().contains("variable NO_SUCH_KEY is missing"),
        "{keyless}"
    );
    let verdicts = told(&fleet, "review.verdict");
    assert_eq!(verdicts.len(), 2, "{verdicts:?}");
    assert!(
        verdicts[0].contains("no verdict by profile orchestrator: the verdict of"),
        "{verdicts:?}"
    );
    assert!(verdicts[1].contains("pass"), "{verdicts:?}");
    let asked = server.got();
    let reviews = asked.iter().filter(|body| body["messages"].to_string().contains("Review T1.1"));
    assert_eq!(reviews.count(), 3, "two repairs: {asked:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn review_resumes_after_crashes_and_its_verdict_counts_once() {
    let pass = json!({"content": json!({"verdict": "pass"}).to_string()});
    // Nothing is answered while the first host and the first orchestrator live.
    let slow = json!({
        "match": {"userMessage": "Review T1.1", "sequenceIndex": 0},
        "response": pass, "chaos": {"latencyMs": 30_000},
    });
    let server = ModelServer::start(&[
        slow,
        json!({"match": {"userMessage": "Review T1.1"}, "response": pass}),
    ]);
    let mut fleet = fleet();
    let plan = json!({
        "phases": [{"id": "P1", "name": "all", "tasks": [
            {"id": "T1.1", "name": "do it", "acceptance": ["it is done"], "review": true},
        ]}],
        "profiles": {"default": saying("done"), "orchestrator": judge(&server, VARIABLE)},
    });
    let running = goal(&fleet, "cut-off", &plan);
    wait::until("the review is under way", || {
        let agents = fleet.json(&["get", "agents"]);
        let mut all = agents.as_array()?.iter();
        all.any(|it| {
            it["id"].as_str().is_some_and(|id| id.starts_with("R:")) && it["liveness"] == "active"
        })
        .then_some(())
    });
    fleet.stop();
    drop(running);
    fleet.start();
    let reached = || fleet.json(&["get", "goals"]).to_string().contains("completed").then_some(());
    wait::until("the goal is reached", reached);
    assert_eq!(told(&fleet, "review.verdict").len(), 1);
    let runs = fleet.json(&["get", "runs"]);
    let reviews =
        runs.as_array().unwrap().iter().filter(|run| run.to_string().contains("R:general"));
    assert_eq!(reviews.count(), 2, "its reviewer went on in a next session: {runs}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn review_by_exit_code_takes_no_verdict_from_what_it_prints() {
    let fleet = Fleet::up();
    let verdict = json!({"type": "result", "outcome": "success", "deliverable": "reviewed",
        "verdict": {"verdict": "pass", "findings": []}});
    let plan = json!({"title": "Printed", "project": "printed", "phases": [{"id": "P1", "name": "all", "tasks": [{
        "id": "T1.1", "name": "work", "run": format!("echo '{verdict}' > report.txt; echo nothing"),
        "review": {"run": "cat report.txt; exit 1"}, "maxAttempts": 1,
    }]}]});
    let ended = fleet.run(["run", fleet.file("printed.json", &plan.to_string()).to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("the verdict is not pass"), "{}", ended.err);
}
