//! A spawn request that waits for a slot: shown, kept over the death of the owner, admitted when there is one (spec 03,
//! Spawn protocol).

use rustix::process::{Signal, kill_process};
use serde_json::json;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger};

use crate::acting;
use crate::failover::owner_of;

#[tokio::test(flavor = "multi_thread")]
async fn queued_spawn_is_shown_and_admitted_when_a_slot_is_free() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "queue", "--mode", "tight"]);
    let gate = fleet.cwd().join("gate");
    let plan = json!({
        "project": "queue",
        "output": "T1.2",
        "goal": {"title": "One slot"},
        "phases": [{"id": "P1", "name": "Work", "tasks": [
            {"id": "T1.1", "name": "It holds the slot", "profile": "held", "acceptance": ["it ends"]},
            {"id": "T1.2", "name": "It comes after", "acceptance": ["it ends"], "deps": ["T1.1"]},
        ]}],
        "profiles": {
            "held": {"argv": acting(&["gate", gate.to_str().unwrap()]), "wall": "60s"},
            "default": {"argv": ["true"]},
        },
    });
    let plan = fleet.file("queue.json", &plan.to_string());
    let running = fleet.spawn(["run", "--quiet", plan.to_str().unwrap()]);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let epic = ledger
        .until("the slot is held", |records| {
            let running = |run: RunState| run == RunState::Running;
            let status = records.run_status.values().find(|status| running(status.state))?;
            records.runs.get(&status.id).map(|run| run.epic)
        })
        .await
        .to_string();

    let spawn = ["spawn", "PO-queue", "worker", "--task", "more", "--epic", &epic];
    let denied = fleet.run(spawn);
    assert_eq!(denied.code, Some(4), "{}{}", denied.out, denied.err);
    let queued = fleet.run(spawn.into_iter().chain(["--queue"]));
    assert_eq!(queued.code, Some(0), "{}{}", queued.out, queued.err);
    assert!(queued.out.contains("queued"), "{}", queued.out);
    assert!(queued.out.contains("1 of 1 slots are held"), "{}", queued.out);
    let tree = fleet.ok(["tree", "--project", "queue"]);
    let shown =
        tree.lines().find(|line| line.contains("request ")).unwrap_or_else(|| panic!("{tree}"));
    assert!(shown.contains("queued") && shown.contains("children_limit_exceeded"), "{tree}");
    let told = fleet.json(&["describe", "PO-queue"]);
    assert_eq!(told["queued"].as_array().map(Vec::len), Some(1), "{told}");

    kill_process(owner_of(&fleet), Signal::KILL).unwrap();
    std::fs::write(&gate, "open").unwrap();
    let admitted = |records: &tetrarch_core::records::Records| {
        let mut workers = records.agents.values().filter(|it| Role::of(&it.id) == Role::Worker);
        workers.find(|it| it.requested_by.agent().is_none()).map(|it| it.id.clone())
    };
    ledger.until("the queued worker", admitted).await;
    assert!(!fleet.ok(["tree"]).contains("request "), "nothing waits any more");
    assert_eq!(running.ended().code, Some(0));
    fleet.ok(["doctor", "--check-ledger"]);
}
