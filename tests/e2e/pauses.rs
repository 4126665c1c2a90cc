//! Processes stand still for a while and go on: what is short costs nothing, what is long costs no
//! more than it must (spec 04, The five states, The sweeper).

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Event, EventKind};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::deaths::{TwoHosts, WINDOW};
use crate::failover::owner_of;
use crate::sleeping;

/// How long an owner stands still that has lost its lease when it is let go, in windows: four times
/// what makes a host offline. `OWNER_PAUSE_SECONDS` makes it another time, a minute for instance.
const LONG: u32 = 12;
/// As long as it keeps its lease, in windows: more than what makes a host offline.
const SHORT: u32 = 4;
/// How long wrong declarations are waited for, in windows: three must have been listened to.
const AFTERWARDS: u32 = 6;

/// What became of an agent's liveness, in words.
fn moves(ledger: &Ledger, agent: &AgentId) -> Vec<String> {
    let events = ledger.events(EventKind::AgentLiveness).into_iter();
    let of = events.filter(|event| event.agent.as_ref() == Some(agent));
    of.map(|event| event.reason.split(':').next().unwrap_or_default().to_owned()).collect()
}

fn worker(records: &Records) -> AgentId {
    let mut workers = records.agents.keys().filter(|id| Role::of(id) == Role::Worker);
    workers.next().unwrap().clone()
}

fn assert_nobody_lost(ledger: &Ledger) {
    let offline = |event: &&&Event| event.reason.contains("-> offline");
    let all = ledger.events(EventKind::AgentLiveness);
    assert_eq!(all.iter().filter(offline).count(), 0, "{all:?}");
    for kind in [EventKind::AgentReplaced, EventKind::HostLeft] {
        assert!(ledger.events(kind).is_empty(), "{:?}", ledger.events(kind));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_below_one_window_costs_nothing() {
    let mut two = TwoHosts::start().await;
    let agents = two.fleet.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    let pid = Pid::from_raw(i32::try_from(agents[0].pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    two.ledger.during(WINDOW * 3 / 4).await;
    kill_process(pid, Signal::CONT).unwrap();
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_eq!(moves(&two.ledger, &worker(&two.ledger.records)), ["register -> active"]);
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_paused_one_and_a_half_windows_turns_stale_then_active() {
    let mut two = TwoHosts::start().await;
    let host: AgentId = "HO@h2".parse().unwrap();
    let is = |liveness: Liveness| {
        let host = host.clone();
        move |records: &Records| (records.agents.get(&host)?.liveness == liveness).then_some(())
    };
    let agents = two.fleet.agents();
    let before = moves(&two.ledger, &host).len();
    let stopped = Instant::now();
    two.signal(Signal::STOP);
    two.ledger.until("a stale host", is(Liveness::Stale)).await;
    two.ledger.during((WINDOW * 3 / 2).saturating_sub(stopped.elapsed())).await;
    two.signal(Signal::CONT);
    two.ledger.until("an active host", is(Liveness::Active)).await;
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_eq!(moves(&two.ledger, &host)[before..], ["active -> stale", "stale -> active"]);
    assert_eq!(moves(&two.ledger, &worker(&two.ledger.records)), ["register -> active"]);
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}

/// Lets the owner, the sweeper in it, stand still with nobody to take over.
async fn pause_the_owner(two: &mut TwoHosts, length: Duration) {
    let owner = owner_of(&two.fleet);
    kill_process(owner, Signal::STOP).unwrap();
    let stopped = Instant::now();
    // What it had committed may still be on its way here.
    two.ledger.during(WINDOW / 2).await;
    let committed = two.ledger.entries.len();
    two.ledger.during(length.saturating_sub(stopped.elapsed())).await;
    assert_eq!(two.ledger.entries.len(), committed, "nobody else commits");
    kill_process(owner, Signal::CONT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_paused_for_long_declares_nobody_on_resume() {
    let seconds = std::env::var("OWNER_PAUSE_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut two = TwoHosts::start().await;
    let agents = two.fleet.agents();
    pause_the_owner(&mut two, seconds.map_or(WINDOW * LONG, Duration::from_secs)).await;
    let next = |records: &Records| (records.epoch == 2).then_some(());
    two.ledger.until("the owner that comes after it", next).await;
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_owner_keeping_its_lease_declares_nobody() {
    // However late it was renewed last, and however busy the machine is, the lease outlives the pause.
    let mut two = TwoHosts::start_with("TETRARCH_RETENTION_GO_TTL", "30s").await;
    let agents = two.fleet.agents();
    pause_the_owner(&mut two, WINDOW * SHORT).await;
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_eq!(two.ledger.records.epoch, 1, "it is the owner still");
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}

/// The server process of a fleet.
fn bus_of(fleet: &Fleet) -> Pid {
    let all = fleet.processes();
    let bus = all.iter().find(|process| {
        process.command.split(' ').next().is_some_and(|program| program.ends_with("nats-server"))
    });
    Pid::from_raw(i32::try_from(bus.unwrap().pid).unwrap()).unwrap()
}

/// Whether a process stands still, by a signal or by its control group.
fn stands_still(pid: u32) -> bool {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read(format!("/proc/{pid}/stat"));
    let stopped = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
    let mounts = read("/proc/self/mountinfo".to_owned());
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let mount = mount.and_then(|line| line.split(' ').nth(4)).unwrap_or_default();
    let groups = read(format!("/proc/{pid}/cgroup"));
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let events = read(format!("{mount}{group}/cgroup.events"));
    stopped || events.lines().any(|line| line == "frozen 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn bus_outage_longer_than_offline_costs_no_session() {
    let mut two = TwoHosts::start().await;
    let agents = two.fleet.agents();
    let bus = bus_of(&two.fleet);
    kill_process(bus, Signal::STOP).unwrap();
    let away = Instant::now();
    let frozen = || stands_still(agents[0].pid).then_some(());
    wait::until("the worker stands still, as its host cannot know whose it is", frozen);
    two.ledger.during((WINDOW * LONG).saturating_sub(away.elapsed())).await;
    kill_process(bus, Signal::CONT).unwrap();
    let thawed = || (!stands_still(agents[0].pid)).then_some(());
    wait::until("the worker goes on", thawed);
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_bus_crashes_cost_no_session() {
    let mut two = TwoHosts::start().await;
    let agents = two.fleet.agents();
    sleeping(&two.fleet, "1");
    for _ in 0..3 {
        let bus = bus_of(&two.fleet);
        kill_process(bus, Signal::KILL).unwrap();
        wait::until("another server", || {
            let all = two.fleet.processes();
            let servers = all.iter().filter(|process| process.command.contains("nats-server"));
            servers
                .map(|process| process.pid)
                .find(|pid| i32::try_from(*pid) != Ok(bus.as_raw_nonzero().get()))
        });
        // What is asked is decided: the owner is back as well.
        two.fleet.ok(["profile", "apply", "mortal", "sleeping.toml"]);
    }
    two.ledger.during(WINDOW * AFTERWARDS).await;
    assert_nobody_lost(&two.ledger);
    assert_eq!(two.fleet.agents(), agents, "the same process");
    two.finish(1);
}
