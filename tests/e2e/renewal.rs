//! A human has agents go on in their next session: by a rotation, and by replacing one that hangs
//! (spec 04, Rotation and Crash recovery).

use std::path::PathBuf;

use futures::StreamExt;
use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_bus::journal::{JournalName, last_checkpoint};
use tetrarch_core::agent::Agent;
use tetrarch_core::ledger::{Event, EventKind};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::{acting, journal_of};

/// A fleet whose one worker stands after its third step of six.
struct Standing {
    fleet: Fleet,
    running: Program,
    ledger: Ledger,
    witness: PathBuf,
    worker: String,
    session: String,
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

impl Standing {
    async fn start(act: &str) -> Self {
        let fleet = Fleet::up();
        let witness = fleet.cwd().join("witness");
        let plan = json!({
            "project": "renewed",
            "output": "T1.1",
            "goal": {"title": "Outlive a session"},
            "phases": [{"id": "P1", "name": "Go on", "tasks": [
                {"id": "T1.1", "name": "steps", "profile": "steps", "maxAttempts": 1,
                 "acceptance": ["every step is made once"]},
            ]}],
            "profiles": {"steps": {"argv": acting(&[act, witness.to_str().unwrap(), "6"])}},
        });
        let file = fleet.file("plan.json", &plan.to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        let control = fleet.control().await;
        let mut ledger = Ledger::follow(&control);
        let active = |records: &Records| {
            let worker = worker(records).filter(|it| it.liveness == Liveness::Active)?;
            let session = worker.session?.to_string();
            Some((worker.id.to_string(), session, journal_of(worker)?))
        };
        let (worker, session, run) = ledger.until("an active worker", active).await;
        let standing = Self { fleet, running, ledger, witness, worker, session };
        standing.third_step(run).await;
        standing
    }

    async fn third_step(&self, run: JournalName) {
        let control = self.fleet.control().await;
        let mut entries = control.client().subscribe(run.subject().to_string()).await.unwrap();
        control.client().flush().await.unwrap();
        wait::soon("the third step's checkpoint", async {
            let third = |state: String| {
                serde_json::from_str::<Value>(&state).is_ok_and(|state| state["done"] == 3)
            };
            while !last_checkpoint(&control, &run).await.unwrap().is_some_and(third) {
                entries.next().await.unwrap();
            }
        })
        .await;
    }

    /// Waits for the end of it all: every step once, the later ones by the next session alone, and
    /// a death of nobody.
    async fn finish(mut self) -> (Fleet, Ledger, String) {
        let ended = self.running.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let made = std::fs::read_to_string(&self.witness).unwrap();
        assert_eq!(made, "1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n", "each step once, in order");
        let over = |records: &Records| {
            let worker = worker(records)?;
            (worker.liveness == Liveness::Terminated).then_some(worker.epoch)
        };
        assert_eq!(self.ledger.until("its end", over).await, 2);
        let records = &self.ledger.records;
        let mut states: Vec<RunState> =
            records.run_status.values().map(|status| status.state).collect();
        states.sort();
        assert_eq!(states, [RunState::Done, RunState::Orphaned]);
        let charged = records.agents.values().map(|agent| agent.circuit.failures.times().len());
        assert_eq!(charged.sum::<usize>(), 0, "who asks is not charged");
        for kind in [EventKind::AgentEnding, EventKind::AgentReplaced] {
            let of_worker = |event: &&&Event| {
                event.agent.as_ref().is_some_and(|agent| agent.to_string() == self.worker)
            };
            assert_eq!(self.ledger.events(kind).iter().filter(of_worker).count(), 1, "{kind}");
        }
        self.fleet.ok(["doctor", "--check-ledger"]);
        (self.fleet, self.ledger, ended.out)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_worker_resumes_from_its_checkpoint() {
    let standing = Standing::start("turn").await;
    let Standing { fleet, worker, .. } = &standing;
    let answer = fleet.json(&["agent", "rotate", worker, "--reason", "a full context"]);
    assert_eq!(answer["epoch"], 1, "{answer}");
    let (fleet, ledger, out) = standing.finish().await;
    assert!(out.contains("a full context"), "its successor was told why: {out}");
    let rotated = |event: &&&Event| event.reason.ends_with(": rotated");
    let liveness = ledger.events(EventKind::AgentLiveness);
    assert_eq!(liveness.iter().filter(rotated).count(), 1, "{liveness:?}");
    let worker = worker_of(&ledger);
    let late = fleet.run(["agent", "rotate", &worker]);
    assert_eq!(late.code, Some(5), "it has ended: {}", late.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_of_a_stopped_fleet_resumes_from_its_boundary() {
    let mut standing = Standing::start("turn").await;
    let stopped = standing.fleet.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.err);
    let made = std::fs::read_to_string(&standing.witness).unwrap();
    assert_eq!(made, "1 1\n2 1\n3 1\n");
    standing.fleet.start();
    let ended = standing.running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let made = std::fs::read_to_string(&standing.witness).unwrap();
    assert_eq!(made, "1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n", "each step once, in order");
    assert!(ended.out.contains("its host stops"), "its successor was told why: {}", ended.out);
    standing.fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_with_a_deaf_worker_ends_at_the_second_request() {
    let mut standing = Standing::start("deaf").await;
    let mut up = standing.fleet.take_up();
    // Its terminal is closed.
    up.signal(Signal::HUP);
    up.line(|line| line.contains("agents have 30s to reach a boundary"));
    assert_eq!(standing.fleet.agents().len(), 1, "it has its time");
    up.signal(Signal::TERM);
    let ended = up.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(standing.fleet.agents().is_empty(), "{:?}", standing.fleet.agents());
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_project_orchestrator_goes_on_in_its_next_session() {
    let mut standing = Standing::start("turn").await;
    for (epoch, verb) in [(2, "rotate"), (3, "replace")] {
        standing.fleet.json(&["agent", verb, "PO-renewed"]);
        let active = move |records: &Records| {
            let po = records.agents.get(&"PO-renewed".parse().unwrap())?;
            (po.epoch == epoch && po.liveness == Liveness::Active).then_some(())
        };
        standing.ledger.until("its next session", active).await;
    }
    standing.fleet.json(&["agent", "rotate", &standing.worker, "--reason", "a full context"]);
    standing.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deaf_worker_is_killed_and_replaced() {
    let standing = Standing::start("deaf").await;
    let Standing { fleet, worker, session, .. } = &standing;
    let before = fleet.agents();
    assert_eq!(before.len(), 1, "{before:?}");
    let answer = fleet.json(&["agent", "replace", worker]);
    assert_eq!(answer["session"], session.as_str(), "{answer}");
    let first = session.clone();
    let (fleet, ledger, _) = standing.finish().await;
    assert!(fleet.agents().is_empty(), "{:?}", fleet.agents());
    let worker = worker_of(&ledger);
    let again = fleet.json(&["agent", "replace", &worker, "--session", &first]);
    assert_eq!(again["epoch"], 2, "its successor: {again}");
    let late = fleet.run(["agent", "replace", &worker]);
    assert_eq!(late.code, Some(5), "it has ended: {}", late.err);
}

fn worker_of(ledger: &Ledger) -> String {
    worker(&ledger.records).unwrap().id.to_string()
}
