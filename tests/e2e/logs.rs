//! What a run did and does, as people read it (spec 06, the journal; spec 08, `logs`).

use serde_json::json;
use tetrarch_tests::{Fleet, wait};

#[test]
fn run_log_is_followed_to_its_end_and_read_afterwards() {
    let fleet = Fleet::up();
    let go_on = fleet.cwd().join("go-on");
    let script =
        format!("echo first; while [ ! -e {} ]; do sleep 0.05; done; echo second", go_on.display());
    let plan = json!({
        "project": "told",
        "goal": {"title": "Say two words"},
        "phases": [{"id": "P1", "name": "Say", "tasks": [
            {"id": "T1.1", "name": "Say", "profile": "say", "acceptance": ["both are said"]}
        ]}],
        "profiles": {"say": {"argv": ["sh", "-c", script], "wall": "60s"}},
    });
    let plan = fleet.file("told.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let (run, agent) = wait::until("a run", || {
        let runs = fleet.json(&["get", "runs"]);
        let run = runs.as_array()?.first()?;
        Some((run["id"].as_str()?.to_owned(), run["agent"].as_str()?.to_owned()))
    });
    let mut following = fleet.spawn(["logs", &agent, "--follow"]);
    following.line(|line| line.contains("log") && line.trim_end().ends_with("first"));
    std::fs::write(go_on, "").unwrap();
    let followed = following.ended();
    assert_eq!(followed.code, Some(0), "{}", followed.err);
    assert!(followed.out.contains("second") && followed.out.contains("ended"), "{}", followed.out);
    assert_eq!(running.ended().code, Some(0));

    let whole = fleet.ok(["logs", &run]);
    assert!(whole.contains("starting") && whole.contains("second"), "{whole}");
    let moments: Vec<&str> = whole.lines().filter_map(|line| line.split("  ").next()).collect();
    let is_moment =
        |text: &&str| text.len() == "2026-11-22T08:00:00.000Z".len() && text.ends_with('Z');
    assert!(moments.len() > 3 && moments.iter().all(is_moment) && moments.is_sorted(), "{whole}");
    let last = fleet.ok(["logs", &run, "--tail", "1", "-o", "json"]);
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert!(last["ended"].is_object() && last["run"] == run.as_str(), "{last}");
    assert_eq!(last["time"].as_str(), moments.last().copied(), "{last}");
    let none = fleet.run(["logs", "W:00000000000000000000000009"]);
    assert_eq!(none.code, Some(3), "{}", none.err);
    assert!(none.err.contains("get agents"), "{}", none.err);
    let orchestrator = fleet.run(["logs", "PO-told"]);
    assert!(orchestrator.err.contains("has no runs"), "{}", orchestrator.err);
}
