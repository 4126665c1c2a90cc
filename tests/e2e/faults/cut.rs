//! Hosts and owners cut off from the bus: what is sent is lost without a word, as on a link that
//! died (spec 10, Faults). Each part is a network namespace of its own, the bus is where they meet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tetrarch_bus::journal::last_checkpoint;
use tetrarch_core::agent::Agent;
use tetrarch_core::id::AgentId;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::namespaces::{Part, alone, hub};
use tetrarch_tests::{Cluster, Fleet, Ledger, Program, wait};

use super::block_on;
use crate::chaos::number;
use crate::{acting, journal_of};

/// Short enough for a test, long enough for a busy machine.
const WINDOW: Duration = Duration::from_millis(600);
/// A connection that hears nothing is given up after two unanswered pings, 5 s apart; what is meant
/// here is that it is noticed at all, and not after minutes.
const NOTICED_WITHIN: Duration = Duration::from_secs(25);

/// A fleet whose bus and first host are at the hub.
struct Scene {
    fleet: Fleet,
    _bus: Cluster,
}

impl Scene {
    fn new() -> Self {
        hub();
        let fleet = Fleet::prepared()
            .with_env("TETRARCH_LIVENESS_WINDOW", format!("{}ms", WINDOW.as_millis()));
        let bus = Cluster::start_at(&fleet, &["10.0.0.1".to_owned()], &[Vec::new()]);
        let fleet = fleet.on(&bus, 1);
        Self { fleet, _bus: bus }
    }

    /// Starts a command in a part and waits until it is ready.
    fn there(&self, part: &Part, args: &[&str]) -> Program {
        let mut program = Program::start(&mut part.command(&self.fleet.command(args)));
        program.line(|line| line.trim() == "ready");
        program
    }
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

fn on(agent: &Agent) -> &str {
    agent.placement.as_ref().map_or("", |placement| placement.host.as_str())
}

/// A plan with one task that makes six steps, and after the third waits for the gate.
fn walking(fleet: &Fleet) -> (PathBuf, PathBuf, PathBuf) {
    let (witness, gate) = (fleet.cwd().join("witness"), fleet.cwd().join("gate"));
    let argv = acting(&["walk", witness.to_str().unwrap(), gate.to_str().unwrap(), "6"]);
    let task = json!({"id": "T1.1", "name": "walk", "profile": "walk", "maxAttempts": 1,
                      "acceptance": ["every step is made once"]});
    let plan = json!({
        "project": "cut",
        "output": "T1.1",
        "goal": {"title": "Outlive a cut"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [task]}],
        "profiles": {"walk": {"argv": argv, "wall": "5m"}},
    });
    (fleet.file("cut.json", &plan.to_string()), witness, gate)
}

#[test]
fn work_of_a_partitioned_host_goes_on_elsewhere_once() {
    alone("faults::cut::work_of_a_partitioned_host_goes_on_elsewhere_once", || {
        block_on(a_host_cut_off());
    });
}

async fn a_host_cut_off() {
    let scene = Scene::new();
    let fleet = &scene.fleet;
    let _owner = fleet.owner();
    let _near = fleet.host("h1");
    fleet.ok(["project", "create", "cut"]);
    let part = Part::join(2);
    let mut far = scene.there(&part, &["host", "--name", "h2", "--capacity", "640"]);
    let (plan, witness, gate) = walking(fleet);
    let running = fleet.spawn(["run", "--quiet", plan.to_str().unwrap()]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let placed = |records: &Records| {
        let worker = worker(records)?;
        Some((on(worker).to_owned(), journal_of(worker)?))
    };
    let (place, run) = ledger.until("a worker", placed).await;
    assert_eq!(place, "h2");
    let third = Some(r#"{"done":3}"#);
    wait::soon("the third step's checkpoint", async {
        while last_checkpoint(&control, &run).await.unwrap().as_deref() != third {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let cut_off = fleet.agents().into_iter().find(|agent| agent.command.contains("walk")).unwrap();

    part.cut();
    let cut = Instant::now();
    far.line(|line| line.contains("all programs are frozen"));
    let frozen = cut.elapsed();
    let replaced = |records: &Records| {
        let worker = worker(records)?;
        (worker.epoch == 2 && on(worker) == "h1").then_some(())
    };
    ledger.until("the worker's next session", replaced).await;
    let moved = cut.elapsed();
    assert!(frozen < moved, "frozen before it goes on elsewhere: {frozen:?}, {moved:?}");
    let hosts = ["HO@h1", "HO@h2"].map(|ho| ledger.records.agents[&ho.parse().unwrap()].liveness);
    assert_eq!(hosts, [Liveness::Active, Liveness::Offline]);
    // What is frozen does not see that the gate is open.
    std::fs::write(&gate, "open").unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let there = || fleet.agents().into_iter().any(|agent| agent == cut_off);
    assert!(there(), "it is frozen, not gone: only its host may end it");

    let mut noticed = Duration::ZERO;
    if number("HALF_OPEN", 0) > 0 {
        far.line(|line| line.contains("lost the bus"));
        noticed = cut.elapsed();
        assert!(noticed < NOTICED_WITHIN, "{noticed:?}");
    }
    part.mend();
    let mended = Instant::now();
    let ended = far.ended();
    let over = mended.elapsed();
    assert_ne!(ended.code, Some(0), "it has lost its lease: {}", ended.err);
    assert!(
        ended.err.contains("lost the lease") || ended.err.contains("was lost to"),
        "{}",
        ended.err
    );
    assert!(!there(), "what it ran is gone with it");
    assert!(over < NOTICED_WITHIN, "{over:?}");
    let made = std::fs::read_to_string(witness).unwrap();
    assert_eq!(made, "1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n", "each step once, in order");
    fleet.ok(["doctor", "--check-ledger"]);
    tell(
        "a host",
        &[("frozen", frozen), ("replaced", moved), ("noticed", noticed), ("ended", over)],
    );
}

#[test]
fn partitioned_owner_commits_nothing_and_the_standby_takes_over() {
    alone("faults::cut::partitioned_owner_commits_nothing_and_the_standby_takes_over", || {
        block_on(an_owner_cut_off());
    });
}

async fn an_owner_cut_off() {
    let scene = Scene::new();
    let fleet = &scene.fleet;
    let part = Part::join(2);
    let owner = scene.there(&part, &["serve", "--global"]);
    let _host = fleet.host("h1");
    let far = fleet.cwd().join("far");
    let mut standby = fleet.command(["serve", "--global"]);
    let credential = fleet.credentials(&tetrarch_bus::creds::CredentialHolder::Control);
    standby.arg("--data-dir").arg(far).arg("--credentials").arg(credential);
    let mut standby = Program::start(&mut standby);
    fleet.ok(["project", "create", "before"]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);

    part.cut();
    let cut = Instant::now();
    let second =
        |records: &Records| records.agents.get(&AgentId::Go).filter(|go| go.epoch == 2).map(drop);
    ledger.until("the standby's first commit", second).await;
    let taken_over = cut.elapsed();
    standby.line(|line| line.trim() == "ready");
    let ended = owner.ended();
    let stepped_down = cut.elapsed();
    assert_ne!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("no renewal was acknowledged in time"), "{}", ended.err);
    part.mend();
    fleet.ok(["project", "create", "after"]);
    let both = |records: &Records| (records.projects.len() == 2).then_some(records.epoch);
    assert_eq!(ledger.until("both projects", both).await, 2, "nobody else has committed");
    let lost = ledger.events(tetrarch_core::ledger::EventKind::HostLeft);
    assert!(lost.is_empty(), "the host was heard all the time: {lost:?}");
    fleet.ok(["doctor", "--check-ledger"]);
    tell("an owner", &[("stepped down", stepped_down), ("taken over", taken_over)]);
}

#[expect(clippy::print_stdout, reason = "what was measured is for whoever runs it")]
fn tell(who: &str, measured: &[(&str, Duration)]) {
    let seconds: Vec<_> =
        measured.iter().map(|(what, took)| json!({*what: took.as_secs_f64()})).collect();
    println!("cut {}", json!({"who": who, "seconds": seconds}));
}
