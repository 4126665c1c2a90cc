//! Processes die, and the fleet goes on from where they were (spec 04, Crash recovery).

use serde_json::json;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger};

use crate::acting;

fn plan(argv: &[String]) -> serde_json::Value {
    json!({
        "project": "mortal",
        "output": "T1.1",
        "goal": {"title": "Outlive a process"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            {"id": "T1.1", "name": "steps", "profile": "steps", "maxAttempts": 1,
             "acceptance": ["every step is made once"]},
        ]}],
        "profiles": {"steps": {"argv": argv, "wall": "60s"}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_goes_on_from_its_checkpoint() {
    let fleet = Fleet::up();
    let witness = fleet.cwd().join("witness");
    let argv = acting(&["steps", witness.to_str().unwrap(), "7"]);
    let file = fleet.file("mortal.json", &plan(&argv).to_string());
    let ended = fleet.run(["run", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("\"epoch\":3"), "two deaths, three sessions: {}", ended.out);
    let made = std::fs::read_to_string(witness).unwrap();
    assert_eq!(made, "1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n7 3\n", "each step once, in order");

    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let node = "T1.1".parse().unwrap();
    let done = |status| status == NodeStatus::Done;
    let attempts = ledger
        .until("the node is done", |records| {
            let state = records.node_states.values().find_map(|states| states.get(&node))?;
            done(state.status).then_some(state.attempts)
        })
        .await;
    assert_eq!(attempts, 1, "a death is no failed attempt");
    let mut states: Vec<RunState> =
        ledger.records.run_status.values().map(|status| status.state).collect();
    states.sort();
    assert_eq!(states, [RunState::Done, RunState::Orphaned, RunState::Orphaned]);
    let worker = ledger.records.agents.values().find(|agent| agent.work.is_some()).unwrap();
    assert_eq!((worker.epoch, worker.liveness), (3, Liveness::Terminated));
    let replaced = ledger.events(EventKind::AgentReplaced);
    assert_eq!(replaced.len(), 2);
    assert!(replaced.iter().all(|event| event.reason.contains("signal 9")), "{replaced:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}
