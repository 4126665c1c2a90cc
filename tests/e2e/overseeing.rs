//! The overseer with real programs and short timings (spec 05, The tick): one that says nothing is asked,
//! then replaced, then put to people, whose answer lets the plan end; one that answers goes on.

use serde_json::{Value, json};
use tetrarch_tests::{Fleet, wait};

use crate::acting;

/// A fleet whose overseer is in a hurry.
fn hurried() -> Fleet {
    let keys = [
        ("TICK_EVERY", "1s"),
        ("IDLE_AFTER", "1s"),
        ("MAX_RETRIES", "1"),
        ("MIN_RESEND_INTERVAL", "1s"),
        ("BACKOFF", "base=1s,max=1s"),
    ];
    let fleet = Fleet::prepared();
    let set = |fleet: Fleet, (key, value): (&str, &str)| {
        fleet.with_env(&format!("TETRARCH_OVERSEER_{key}"), value)
    };
    keys.into_iter().fold(fleet, set).started()
}

fn plan(act: &[&str]) -> String {
    let plan = json!({
        "project": "watched",
        "output": "T1.1",
        "goal": {"title": "Come to an end"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            {"id": "T1.1", "name": "open it", "profile": "acting", "acceptance": ["it is open"]},
        ]}],
        "profiles": {"acting": {"argv": acting(act), "wall": "120s"}},
    });
    plan.to_string()
}

#[test]
fn silent_agent_is_asked_replaced_and_escalated_to_people() {
    let fleet = hurried();
    let witness = fleet.cwd().join("witness");
    let plan = fleet.file("watched.json", &plan(&["silent", witness.to_str().unwrap()]));
    let running = fleet.spawn(["run", "--wait", plan.to_str().unwrap()]);
    wait::until("status names it", || {
        let stalled = fleet.json(&["status"])["stalled"].clone();
        stalled.as_array().unwrap().iter().any(|it| it["node"] == json!("T1.1")).then_some(())
    });
    let question = wait::until("people are asked", || {
        let listed = fleet.json(&["inbox"]);
        listed.as_array().unwrap().first().cloned()
    });
    let text = question["text"].as_str().unwrap();
    assert!(text.starts_with("T1.1 (open it) does not go on"), "{text}");
    assert!(text.contains("Tried: a status request"), "{text}");
    assert_eq!(question["options"], json!(["try again", "cancel"]));
    let started = std::fs::read_to_string(&witness).unwrap();
    let agents: Vec<&str> = started.lines().collect();
    assert_eq!(agents.len(), 2, "one more agent was tried before: {agents:?}");
    assert_ne!(agents[0], agents[1]);
    wait::until("its program is gone", || fleet.agents().is_empty().then_some(()));

    for (agent, last) in [(agents[0], "reassign: "), (agents[1], "escalate: ")] {
        let why = fleet.ok(["why", agent]);
        assert!(why.contains("nudge: no activity for") && why.contains(last), "{why}");
        assert!(why.contains("its journal shows work"), "{why}");
    }
    let id = question["id"].as_str().unwrap();
    let refused = fleet.run(["answer", id, "the key is in the vault"]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(refused.err.contains("try again | cancel"), "{}", refused.err);
    fleet.ok(["answer", id, "the key is in the vault", "--other"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out.trim(), "opened");
    assert_eq!(fleet.ok(["tick"]).trim(), "nothing stands still");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn answering_agent_goes_on() {
    let fleet = hurried();
    let plan = fleet.file("watched.json", &plan(&["asked"]));
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(told, json!({"epoch": 1, "asked": 2}), "the same session, asked anew each time");
    assert_eq!(fleet.json(&["inbox"]), json!([]));
    fleet.ok(["doctor", "--check-ledger"]);
}
