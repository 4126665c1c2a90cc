//! The disk of the managed bus runs full (spec 10, Faults): what was acknowledged is there, what is
//! asked is refused with why, and when there is room again everything goes on by itself.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::records::Records;
use tetrarch_tests::namespaces::{alone, small_disk};
use tetrarch_tests::{Fleet, Ledger, wait};

use super::block_on;
use crate::chaos::{assert_each_once, paced};

/// The disk of the bus.
const DISK_MIB: u32 = 64;
/// What is left when it is only low: less than work is taken with, more than the server needs.
const LEFT: u64 = 8 * 1024 * 1024;
/// Steps of a task: six seconds.
const STEPS: usize = 40;
/// A refusal comes at once; a server that cannot store does not answer for 15 s.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn full_disk_loses_nothing_is_reported_and_recovers() {
    alone("faults::disk::full_disk_loses_nothing_is_reported_and_recovers", || {
        block_on(a_full_disk());
    });
}

async fn a_full_disk() {
    let fleet = Fleet::prepared();
    let store = fleet.data_dir().join("nats/store");
    small_disk(&store, DISK_MIB);
    let fleet = fleet.started();
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = paced(&fleet, &witness, STEPS);
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap()]);
    watching.line(|line| line.contains("in_progress"));
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);

    let ballast = Ballast::leaving(&store, LEFT);
    let mut late = fleet.spawn(["run", "--quiet", late_plan(&fleet).to_str().unwrap()]);
    late.close_input();
    let denied = |records: &Records| (records.goals.len() == 2).then_some(());
    ledger.until("the second plan", denied).await;
    while ledger.events(EventKind::SpawnDenied).is_empty() {
        ledger.until_next("a refusal").await;
    }
    let why = ledger.events(EventKind::SpawnDenied)[0].reason.clone();
    assert!(why.contains("the disk of the bus is full"), "{why}");
    assert!(why.contains("free some") && why.contains(store.to_str().unwrap()), "{why}");

    let acknowledged = until_refused(&fleet, &ballast);
    let refused = kept(&fleet, acknowledged + 1);
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    assert!(refused.err.contains("the disk of the bus is full"), "{}", refused.err);
    assert!(refused.err.contains("next: free some disk space there"), "{}", refused.err);
    assert!(refused.took < REFUSED_WITHIN, "{:?}", refused.took);
    assert_eq!(fleet.run(["status"]).code, Some(0), "what is there can still be read");
    let looked = fleet.run(["doctor"]);
    assert_eq!(looked.code, Some(1), "{}{}", looked.out, looked.err);
    assert!(looked.out.contains("the disk of the bus is full"), "{}", looked.out);

    let server = pid_of(&fleet, "nats-server");
    drop(ballast);
    let freed = Instant::now();
    wait::until("another server", || (pid_of(&fleet, "nats-server")? != server?).then_some(()));
    wait::until("a commit", || (kept(&fleet, acknowledged + 1).code == Some(0)).then_some(()));
    let recovered = freed.elapsed();
    let both = |records: &Records| {
        let mut goals = records.goal_states.values();
        let kept = (0..=acknowledged + 1).all(|one| {
            let name = format!("kept-{one}");
            records.profiles.keys().any(|(_, profile)| profile.as_str() == name)
        });
        (goals.all(|goal| goal.status == GoalStatus::Completed) && kept).then_some(())
    };
    Ledger::follow(&control).until("both plans, and all that was acknowledged", both).await;
    assert_each_once(&witness, STEPS);
    assert_eq!(watching.ended().code, Some(0));
    assert_eq!(late.ended().code, Some(0));
    fleet.ok(["doctor", "--check-ledger"]);
    tell(acknowledged, recovered);
}

fn late_plan(fleet: &Fleet) -> PathBuf {
    let task = json!({"id": "T1.1", "name": "late", "profile": "late", "acceptance": ["said"]});
    let plan = json!({
        "project": "late",
        "output": "T1.1",
        "goal": {"title": "Wait for room"},
        "phases": [{"id": "P1", "name": "One", "tasks": [task]}],
        "profiles": {"late": {"argv": ["echo", "late"]}},
    });
    fleet.file("late.json", &plan.to_string())
}

/// Asks the owner to keep something.
fn kept(fleet: &Fleet, number: usize) -> tetrarch_tests::Ended {
    let text = format!("name = 'kept-{number}'\nargv = ['true']\n");
    let file = fleet.file("kept.toml", &text);
    fleet.run(["profile", "apply", "chaos", file.to_str().unwrap()])
}

/// Takes all room there is until something is refused; gives the number of the last that was not.
fn until_refused(fleet: &Fleet, ballast: &Ballast) -> usize {
    assert_eq!(kept(fleet, 0).code, Some(0), "there is a little room left");
    for number in 1..20 {
        ballast.take_all();
        if kept(fleet, number).code != Some(0) {
            return number - 1;
        }
    }
    panic!("nothing was refused on a full disk");
}

fn pid_of(fleet: &Fleet, program: &str) -> Option<u32> {
    let all = fleet.processes();
    all.iter().find(|process| process.command.contains(program)).map(|process| process.pid)
}

/// A file that takes the room of others.
struct Ballast(PathBuf);

impl Ballast {
    /// Takes all but some bytes.
    fn leaving(disk: &Path, left: u64) -> Self {
        let found = rustix::fs::statvfs(disk).unwrap();
        let ballast = Self(disk.join("ballast"));
        let bytes = (found.f_bavail * found.f_frsize).saturating_sub(left);
        std::fs::write(&ballast.0, vec![0; usize::try_from(bytes).unwrap()]).unwrap();
        ballast
    }

    fn take_all(&self) {
        let mut file = File::options().append(true).open(&self.0).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "what was measured is for whoever runs it")]
fn tell(acknowledged: usize, recovered: Duration) {
    let seconds = recovered.as_secs_f64();
    println!("disk {}", json!({"acknowledged": acknowledged + 1, "recovered_seconds": seconds}));
}
