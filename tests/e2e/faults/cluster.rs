//! Three servers that form a cluster, and the leader of the ledger's stream killed every 20 s while
//! a plan runs: it finishes, every step is made once, nothing that was acknowledged is lost.
//! `CLUSTER_KILLS` says how often (1), `CLUSTER_STREAM` whose leader (LEDGER); what it measured is told on a line
//! that begins `cluster`.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::pattern::{LEDGER, RUNS};
use tetrarch_bus::topology;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_tests::namespaces::{Part, alone, hub};
use tetrarch_tests::{Cluster, Fleet, Ledger, Program, wait};
use tokio::sync::oneshot;

use super::{block_on, skipped};
use crate::chaos::{assert_each_once, finished, number, paced};

/// Between two kills.
const KILL_EVERY: Duration = Duration::from_secs(20);
/// Longest time in which nothing is acknowledged: an election takes 4 to 9 s, another may follow,
/// and clients ask again every few seconds.
const SILENT_AT_MOST: Duration = Duration::from_secs(25);
/// Between two looks whether a step was made.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for the goal after the last kill.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Steps of each task: two follow one another, and a step takes 150 ms.
const STEPS: usize = 30;
/// More of them for each further kill.
const STEPS_PER_KILL: usize = 70;

/// A fleet on three servers, its window long enough for an election.
fn fleet_on_three() -> (Fleet, Cluster) {
    let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", "6s");
    let cluster = Cluster::start(&fleet, 3);
    (fleet.on(&cluster, 3), cluster)
}

/// What its measuring is told of.
#[derive(Debug, Default)]
struct Measured {
    /// From each kill to the first commit that was acknowledged.
    silent: Vec<f64>,
    /// From each to its stream's new leader, by the servers' logs.
    chosen: Vec<Option<f64>>,
}

/// The longest times in which no step was made, until it is told that it is over.
async fn standstills(witness: PathBuf, mut over: oneshot::Receiver<()>) -> Vec<f64> {
    let size = || -> u64 {
        let files = std::fs::read_dir(&witness).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    };
    let (mut found, mut known, mut since) = (Vec::new(), 0, Instant::now());
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while over.try_recv().is_err() {
        looks.tick().await;
        let now = size();
        if now > known {
            found.extend((known > 0).then(|| since.elapsed().as_secs_f64()));
            (known, since) = (now, Instant::now());
        }
    }
    found.retain(|seconds| *seconds > 1.0);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_finishes_while_the_ledger_leader_is_killed_repeatedly() {
    let (fleet, mut cluster) = fleet_on_three();
    let kills = number("CLUSTER_KILLS", 1);
    let (_owner, _host) = (fleet.owner(), fleet.host("h1"));
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let steps = STEPS + STEPS_PER_KILL * usize::try_from(kills - 1).unwrap();
    let plan = paced(&fleet, &witness, steps);
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap()]);
    watching.line(|line| line.contains("in_progress"));
    let control = fleet.control().await;
    let goal = tokio::spawn(finished(control.clone()));
    let (done, over) = oneshot::channel();
    let steady = tokio::spawn(standstills(witness.clone(), over));
    let stream = std::env::var("CLUSTER_STREAM").unwrap_or_else(|_| LEDGER.to_owned());
    let mut measured = Measured::default();
    let mut beats = tokio::time::interval(KILL_EVERY);
    for kill in 1..=kills {
        beats.tick().await;
        let leader = cluster.leader(&control, &stream).await;
        let (killed, clock) = (Instant::now(), SystemTime::now());
        cluster.kill(leader);
        acknowledged(&fleet, kill);
        let silent = killed.elapsed();
        assert!(silent < SILENT_AT_MOST, "nothing was acknowledged for {silent:?}");
        measured.silent.push(silent.as_secs_f64());
        measured.chosen.push(cluster.chosen(&stream, clock));
        cluster.restart(leader);
    }
    let records = tokio::time::timeout(SETTLED_WITHIN.max(KILL_EVERY * 3), goal).await;
    let records = records.unwrap_or_else(|_| panic!("no result; {measured:?}")).unwrap();
    // Whoever looks may have ended.
    let _ended = done.send(());
    let standstills = steady.await.unwrap();
    for state in records.node_states.values().flat_map(|states| states.values()) {
        assert_eq!(state.status, NodeStatus::Done, "{}", state.id);
    }
    let kept = |records: &Records| {
        let all = records.profiles.keys();
        let kept = all.filter(|(_, name)| name.as_str().starts_with("kept-")).count();
        (kept as u64 == kills).then_some(())
    };
    Ledger::follow(&control).until("all that was acknowledged", kept).await;
    assert_each_once(&witness, steps);
    let ended = watching.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    wait::until("the ledger is read", || {
        (fleet.run(["doctor", "--check-ledger"]).code == Some(0)).then_some(())
    });
    let Measured { silent, chosen } = measured;
    tell(
        json!({"silent_seconds": silent, "chosen_seconds": chosen, "no_step_seconds": standstills}),
    );
}

/// A follower that stands still takes nothing and closes nothing: whoever is connected to it has to find that out.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_stands_still_holds_nobody() {
    if number("CLUSTER_PAUSES", 0) == 0 {
        return skipped("CLUSTER_PAUSES is not set");
    }
    let (fleet, cluster) = fleet_on_three();
    let control = fleet.control().await;
    topology::apply(&control, 3).await.unwrap();
    let (leader, runs) =
        (cluster.leader(&control, LEDGER).await, cluster.leader(&control, RUNS).await);
    let follower = (0..3).find(|at| *at != leader && *at != runs).unwrap();
    // Their first connection is to the one that will stand still.
    let url = cluster.url(follower);
    let start = |args: &[&str]| {
        let mut program = Program::start(fleet.command(args).args(["--url", &url]));
        program.line(|line| line.trim() == "ready");
        program
    };
    let (owner, host) = (start(&["serve", "--global"]), start(&["host", "--name", "h1"]));
    // The owner ends when its lease does, and this one goes on.
    let mut standby = fleet.command(["serve", "--global", "--url", &cluster.url(leader)]);
    standby.arg("--credentials").arg(fleet.credentials(&CredentialHolder::Control));
    let _standby = Program::start(standby.arg("--data-dir").arg(fleet.cwd().join("standby")));
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = paced(&fleet, &witness, STEPS);
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap()]);
    watching.line(|line| line.contains("in_progress"));
    let (done, over) = oneshot::channel();
    let steady = tokio::spawn(standstills(witness.clone(), over));
    let goal = tokio::spawn(finished(control.clone()));
    cluster.signal(follower, Signal::STOP);
    let records = tokio::time::timeout(2 * SETTLED_WITHIN, goal).await;
    cluster.signal(follower, Signal::CONT);
    let Ok(records) = records else { said_and_failed([owner, host, watching]) };
    drop(records.unwrap());
    // Whoever looks may have ended.
    let _ended = done.send(());
    tell(json!({"no_step_seconds": steady.await.unwrap()}));
    assert_each_once(&witness, STEPS);
    assert_eq!(watching.ended().code, Some(0));
}

/// Longest time that a command takes to say that the bus has no leader.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn every_command_ends_with_a_reason_when_no_stream_has_a_leader() {
    let (fleet, mut cluster) = fleet_on_three();
    let (_owner, _host) = (fleet.owner(), fleet.host("h1"));
    fleet.ok(["project", "create", "led"]);
    cluster.kill(1);
    cluster.kill(2);
    for line in [
        "status",
        "get agents",
        "get hosts",
        "tree",
        "inbox",
        "project create led2",
        "goal list",
        "mail list",
        "events",
        "audit",
        "why HO@h1",
        "host drain h1 --reason disks --yes",
        "doctor",
    ] {
        let began = Instant::now();
        let ended = fleet.run(line.split(' '));
        let took = began.elapsed();
        assert!(took < TOLD_WITHIN, "{line}: {took:?}: {}", ended.err);
        // A server that was not the leader answers reads, for a while; nobody takes what is written.
        let writes = line.starts_with("project") || line.starts_with("host");
        assert!(!writes || ended.code == Some(6), "{line}: {}", ended.err);
        let told = line == "doctor" || ended.err.contains("more than half of its servers");
        assert!(ended.code == Some(0) || told, "{line}: {}", ended.err);
    }
}

#[test]
fn partitioned_server_blocks_nobody() {
    if number("CLUSTER_CUTS", 0) == 0 {
        skipped("CLUSTER_CUTS is not set");
        return;
    }
    alone("faults::cluster::partitioned_server_blocks_nobody", || {
        block_on(a_server_cut_off());
    });
}

/// Clients reach all three; those that use the one that is cut off have to find that out.
async fn a_server_cut_off() {
    hub();
    let parts = [11, 12, 13].map(Part::join);
    let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", "6s");
    let addresses: Vec<String> = parts.iter().map(Part::address).collect();
    let within: Vec<Vec<String>> = parts.iter().map(Part::within).collect();
    let cluster = Cluster::start_at(&fleet, &addresses, &within);
    let fleet = fleet.on(&cluster, 3);
    let at = |server: usize| cluster.url(server);
    // The first connection of each is to the server that will be cut off.
    let start = |args: &[&str]| {
        let mut program = Program::start(fleet.command(args).args(["--url", &at(0)]));
        program.line(|line| line.trim() == "ready");
        program
    };
    let owner = start(&["serve", "--global"]);
    let host = start(&["host", "--name", "h1"]);
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = paced(&fleet, &witness, STEPS);
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap(), "--url", &at(0)]);
    watching.line(|line| line.contains("in_progress"));

    let others = fleet.with_env("TETRARCH_BUS_URL", [at(1), at(2)].join(","));
    let goal = tokio::spawn(finished(others.control().await));
    parts[0].cut_from(&parts[1]);
    parts[0].cut_from(&parts[2]);
    let cut = Instant::now();
    let records = tokio::time::timeout(SETTLED_WITHIN, goal).await;
    let Ok(records) = records else { said_and_failed([owner, host, watching]) };
    drop(records.unwrap());
    let ended = watching.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_each_once(&witness, STEPS);
    others.ok(["doctor", "--check-ledger"]);
    tell(json!({"seconds": cut.elapsed().as_secs_f64()}));
}

/// Owner, host and `run` did not come to a result.
fn said_and_failed(programs: [Program; 3]) -> ! {
    let said = programs.map(|program| {
        program.signal(Signal::TERM);
        program.ended().err
    });
    panic!("no result; owner, host and run said:\n{}", said.join("\n---\n"));
}

/// Has the owner commit something, however long the bus is without a leader.
fn acknowledged(fleet: &Fleet, kill: u64) {
    let name = format!("kept-{kill}");
    let file = fleet.file("kept.toml", &format!("name = '{name}'\nargv = ['true']\n"));
    wait::until("a commit", || {
        let ended = fleet.run(["profile", "apply", "chaos", file.to_str().unwrap()]);
        (ended.code == Some(0)).then_some(())
    });
}

#[expect(clippy::print_stdout, reason = "what was measured is for whoever runs it")]
fn tell(measured: Value) {
    println!("cluster {measured}");
}
