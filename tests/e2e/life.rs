//! An installation stopped and started again: the same records, the same work, nothing left
//! behind (spec 02, The managed server).

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::NodeId;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::acting;

fn status(records: &Records, node: NodeId) -> Option<NodeStatus> {
    records.node_states.values().find_map(|states| Some(states.get(&node)?.status))
}

/// What people see of the records, without what moves by itself.
fn seen(fleet: &Fleet) -> Vec<Value> {
    ["goals", "nodes", "runs"].map(|what| fleet.json(&["get", what])).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_stopped_by_ctrl_c_resumes_with_the_same_records() {
    let mut fleet = Fleet::up();
    let gate = fleet.cwd().join("gate");
    let node = |id: &str, name: &str, profile: &str, deps: &[&str]| json!({"id": id, "name": name, "profile": profile, "deps": deps, "acceptance": ["done"]});
    let plan = json!({
        "project": "lasting",
        "output": "T1.3",
        "goal": {"title": "Outlive the fleet"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            node("T1.1", "first", "quick", &[]),
            node("T1.2", "half done", "gate", &["T1.1"]),
            node("T1.3", "last", "last", &["T1.2"]),
        ]}],
        "profiles": {
            "quick": {"argv": ["echo", "one"]},
            "gate": {"argv": acting(&["gate", gate.to_str().unwrap()]), "wall": "60s"},
            "last": {"argv": ["echo", "it went on"]},
        },
    });
    let plan = fleet.file("lasting.json", &plan.to_string());
    let mut running = fleet.spawn(["run", plan.to_str().unwrap()]);
    running.line(|line| line.contains("T1.2") && line.contains("in_progress"));
    wait::until("the program at the gate", || (fleet.agents().len() == 1).then_some(()));
    running.signal(Signal::INT);
    let interrupted = running.ended();
    assert_eq!(interrupted.code, Some(130), "{}", interrupted.err);
    assert!(interrupted.err.contains("plan show"), "says how to go on: {}", interrupted.err);
    assert_eq!(fleet.agents().len(), 1, "who came only to watch takes nothing along");

    let before = fleet.json(&["get", "goals"]);
    let ended = fleet.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(fleet.processes(), [], "no process is left behind");

    fleet.start();
    let after = fleet.json(&["get", "goals"]);
    assert_eq!(before[0]["id"], after[0]["id"]);
    assert_eq!(before.as_array().unwrap().len(), after.as_array().unwrap().len());
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let (first, half) = ("T1.1".parse().unwrap(), "T1.2".parse().unwrap());
    let done = |records: &Records| (status(records, first)? == NodeStatus::Done).then_some(());
    ledger.until("what was done is still done", done).await;
    std::fs::write(gate, "open").unwrap();
    let result = ledger
        .until("the half-done plan is finished", |records| {
            let goal = records.goal_states.values().next()?;
            let result = goal.result.clone()?;
            (goal.status == GoalStatus::Completed).then_some(result)
        })
        .await;
    assert_eq!(result.deliverable, "it went on");
    assert_eq!(status(&ledger.records, half), Some(NodeStatus::Done));
    let runs = ledger.records.runs.values();
    assert_eq!(runs.filter(|run| run.node == first).count(), 1, "done once, not again");
    fleet.ok(["doctor", "--check-ledger"]);

    // Once more, with nothing to do: exactly the same is there.
    let before = wait::until("the journals of all runs are kept", || {
        let seen = seen(&fleet);
        let runs = seen[2].as_array()?;
        runs.iter().all(|run| run.to_string().contains("\"archive\":")).then_some(seen)
    });
    let ended = fleet.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    fleet.start();
    assert_eq!(seen(&fleet), before);
    fleet.ok(["doctor", "--check-ledger"]);
    fleet.ok(["status"]);
    fleet.stop();
    assert_eq!(fleet.processes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_fleet_starts_one_and_stops_it_again() {
    let fleet = Fleet::prepared();
    let plan = json!({
        "output": "T1.1",
        "goal": {"title": "By itself"},
        "phases": [{"id": "P1", "name": "One", "tasks": [
            {"id": "T1.1", "name": "say", "task": "say", "profile": "say", "acceptance": ["said"]},
        ]}],
        "profiles": {"say": {"argv": ["sh", "-c", "echo $TETRARCH_TASK; (sleep 60 &)"]}},
    });
    let plan = fleet.file("alone.json", &plan.to_string());
    let ended = fleet.run(["run", "--quiet", plan.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, "say\n");
    assert_eq!(fleet.processes(), [], "not even what an agent left running");
}
