//! Two owners, one ledger (spec 04, The GO lease): the standby takes over, the one that was only
//! paused finds out and stops.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::id::AgentId;
use tetrarch_tests::{Fleet, Ledger, Program, wait};

/// The lease's time to live and what a commit takes, with room for a busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(6);

/// The process that owns a fleet's ledger.
pub(crate) fn owner_of(fleet: &Fleet) -> Pid {
    let all = fleet.processes();
    let owner = all.iter().find(|process| process.command.contains(" serve --global"));
    Pid::from_raw(i32::try_from(owner.unwrap().pid).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_owner_is_replaced_by_the_standby_and_commits_nothing_more() {
    let fleet = Fleet::up();
    let first = owner_of(&fleet);
    let mut standby = fleet.command(["serve", "--global", "--url", &fleet.url()]);
    standby.arg("--credentials").arg(fleet.credentials(&CredentialHolder::Control));
    standby.arg("--data-dir").arg(fleet.cwd().join("far"));
    let mut standby = Program::start(&mut standby);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let epoch = |ledger: &Ledger| ledger.records.agents.get(&AgentId::Go).map(|go| go.epoch);
    ledger.until("the first owner", |records| records.agents.get(&AgentId::Go).map(drop)).await;
    assert_eq!(epoch(&ledger), Some(1));
    fleet.ok(["project", "create", "before"]);

    kill_process(first, Signal::STOP).unwrap();
    let paused = Instant::now();
    let second = |records: &tetrarch_core::records::Records| {
        records.agents.get(&AgentId::Go).filter(|go| go.epoch == 2).map(drop)
    };
    ledger.until("the standby's first commit", second).await;
    assert!(paused.elapsed() < TAKEN_OVER_WITHIN, "it took {:?}", paused.elapsed());
    standby.line(|line| line.trim() == "ready");
    fleet.ok(["project", "create", "meanwhile"]);

    kill_process(first, Signal::CONT).unwrap();
    let ended = || rustix::process::test_kill_process(first).is_err().then_some(());
    wait::until("the end of the owner that was paused", ended);
    fleet.ok(["project", "create", "after"]);
    let known = |records: &tetrarch_core::records::Records| {
        (records.projects.len() == 3).then_some(records.epoch)
    };
    assert_eq!(ledger.until("all three projects", known).await, 2, "nobody else has committed");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn owner_ending_during_host_start_is_restarted() {
    let fleet = Fleet::prepared();
    let mut up = Program::start(&mut fleet.command(["up", "--name", "h1"]));
    wait::until("a host that comes up", || {
        fleet.processes().into_iter().find(|process| process.command.contains(" host "))
    });
    kill_process(owner_of(&fleet), Signal::KILL).unwrap();
    up.line(|line| line.starts_with("ready"));
    up.signal(Signal::INT);
    assert_eq!(up.ended().code, Some(0));
}
