//! Questions to people, as they meet them: the inbox, an answer, and the death of whoever asked
//! (spec 05, 08).

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use tetrarch_tests::{Fleet, wait};

use crate::acting;

/// What `inbox` lists: question and text.
fn inbox(fleet: &Fleet, more: &[&str]) -> Vec<(String, String)> {
    let listed = fleet.json(&[&["inbox"], more].concat());
    let text = |question: &Value, field: &str| question[field].as_str().unwrap().to_owned();
    let all = listed.as_array().unwrap().iter();
    all.map(|question| (text(question, "id"), text(question, "text"))).collect()
}

fn asked(fleet: &Fleet, words: &str) -> String {
    wait::until("the question is in the inbox", || {
        inbox(fleet, &[]).into_iter().find(|(_, text)| text == words).map(|(id, _)| id)
    })
}

#[test]
fn answer_reaches_its_asking_agent_even_after_a_crash() {
    let fleet = Fleet::up();
    let plan = json!({
        "project": "curious",
        "output": "T1.1",
        "goal": {"title": "Wonder"},
        "phases": [{"id": "P1", "name": "Ask", "tasks": [
            {"id": "T1.1", "name": "wonder", "profile": "wondering", "acceptance": ["it was told"]},
        ]}],
        "profiles": {"wondering": {"argv": acting(&["wonder"]), "wall": "60s"}},
    });
    let plan = fleet.file("curious.json", &plan.to_string());
    let mut command = fleet.command(["inbox", "--watch", "-o", "json"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let mut shown = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(shown.next().unwrap().unwrap(), "[]");
    let next: Value = serde_json::from_str(&shown.next().unwrap().unwrap()).unwrap();
    assert_eq!(next[0]["text"], "Which one?", "it is seen without being asked for");
    watching.kill().unwrap();
    watching.wait().unwrap();
    let which = asked(&fleet, "Which one?");
    let shown = fleet.ok(["inbox"]);
    assert!(shown.contains("A | B") && shown.contains("open"), "{shown}");
    assert!(inbox(&fleet, &["--as", "somebody"]).is_empty(), "it is put to the goal's owner");
    assert_eq!(inbox(&fleet, &["--as", "somebody", "--everyone"]).len(), 1);
    fleet.ok(["answer", &which, "B"]);

    // Its session dies of the answer, and the next one is not kept waiting for it again.
    let when = asked(&fleet, "And when?");
    let late = fleet.run(["answer", &which, "A"]);
    assert_eq!(late.code, Some(5), "{}", late.err);
    assert!(late.err.contains("was answered by"), "{}", late.err);
    fleet.ok(["answer", &when, "now"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(told, json!({"epoch": 2, "which": "B", "when": "now"}));

    assert!(inbox(&fleet, &[]).is_empty());
    assert_eq!(inbox(&fleet, &["--closed"]).len(), 3, "one was asked by both sessions");
    let unknown = fleet.run(["answer", "qst_01JD8Z5W6T4QK3M9X2V7B1N0AC", "A"]);
    assert_eq!(unknown.code, Some(3), "{}", unknown.err);
    fleet.ok(["doctor", "--check-ledger"]);
    replayed(&fleet, &which);
}

/// The fleet as it was when a question was asked, and as it is.
fn replayed(fleet: &Fleet, question: &str) {
    let asked = fleet.ok(["events", "--kind", "question", "-o", "json"]);
    let asked: Value = serde_json::from_str(asked.lines().next().unwrap()).unwrap();
    let seq = asked["seq"].to_string();
    let then = fleet.ok(["replay", "--at", &seq]);
    assert!(then.contains(question) && then.contains("awaiting-input"), "{then}");
    let then = fleet.json(&["replay", "--at", &seq]);
    let goal = |value: &Value| {
        let records = value["records"].as_object().unwrap();
        let state = records.iter().find(|(key, _)| key.contains(".goal_state."));
        (records.len(), state.unwrap().1["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(goal(&then).1, "active");
    // Until a moment means before it.
    let moment = then["time"].as_str().unwrap();
    let before = fleet.run(["replay", "--at", moment]);
    assert!(before.out.contains("after entry") && !before.out.contains(question), "{}", before.out);
    let ledger = fleet.json(&["status"])["ledger"]["last"].to_string();
    let now = fleet.json(&["replay", "--at", &ledger]);
    assert_eq!(goal(&now).1, "completed");
    assert!(goal(&now).0 > goal(&then).0, "what was made since is there too");
    for beyond in ["0", "99999999"] {
        let none = fleet.run(["replay", "--at", beyond]);
        assert_eq!(none.code, Some(3), "{}", none.err);
    }
}
