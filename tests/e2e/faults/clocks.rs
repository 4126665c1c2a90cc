//! Clocks that differ and jump (spec 10, Faults): no fence, liveness or lease decision may notice.
//! A time namespace shifts what `Instant` reads; the wall clock is moved by libfaketime where that
//! is installed, since the kernel has no namespace for it.

use std::path::PathBuf;
use std::process::Command;

use tetrarch_core::ledger::EventKind;
use tetrarch_core::records::Records;
use tetrarch_tests::namespaces::alone;
use tetrarch_tests::{Cluster, Fleet, Ledger, Program};

use super::{block_on, skipped};
use crate::chaos::{assert_each_once, paced};

/// Ten days, in seconds.
const FAR: &str = "864000";
/// Steps of a task: three seconds.
const STEPS: usize = 20;
/// Where distributions keep the library.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

#[test]
fn processes_with_clocks_days_apart_agree() {
    alone("faults::clocks::processes_with_clocks_days_apart_agree", || {
        block_on(async {
            let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", "600ms");
            let bus = Cluster::start(&fleet, 1);
            let fleet = fleet.on(&bus, 1);
            let _owner = ready(&mut fleet.command(["serve", "--global"]));
            let host = fleet.command(["host", "--name", "h1", "--capacity", "64"]);
            let _host = ready(&mut days_ahead(&host));
            undisturbed(&fleet, || {}).await;
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clock_jump_has_no_effect() {
    let variable = std::env::var_os("TETRARCH_LIBFAKETIME").map(PathBuf::from);
    let known = LIBRARIES.iter().map(PathBuf::from).find(|path| path.is_file());
    let Some(library) = variable.or(known) else {
        skipped("wall_clock_jump_has_no_effect needs libfaketime, which is not installed");
        return;
    };
    let prepared = Fleet::prepared();
    let clock = prepared.file("clock", "+0s\n");
    let fleet = prepared.with_env("TETRARCH_LIVENESS_WINDOW", "600ms");
    let bus = Cluster::start(&fleet, 1);
    let fleet = fleet
        .on(&bus, 1)
        .with_env("LD_PRELOAD", library.to_str().unwrap())
        .with_env("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap())
        .with_env("FAKETIME_NO_CACHE", "1")
        .with_env("DONT_FAKE_MONOTONIC", "1");
    let _owner = ready(&mut fleet.command(["serve", "--global"]));
    let _host = ready(&mut fleet.command(["host", "--name", "h1", "--capacity", "64"]));
    let jump = |to: &str| std::fs::write(&clock, format!("{to}\n")).unwrap();
    undisturbed(&fleet, || jump("+3600s")).await;
    jump("-3600s");
    fleet.ok(["project", "create", "after"]);
    fleet.ok(["doctor", "--check-ledger"]);
}

/// A command whose process has clocks of its own.
fn days_ahead(command: &Command) -> Command {
    let mut ahead = Command::new("unshare");
    ahead.args(["--time", "--monotonic", FAR, "--boottime", FAR]);
    ahead.arg(command.get_program()).args(command.get_args()).env_clear();
    ahead.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        ahead.current_dir(dir);
    }
    ahead
}

fn ready(command: &mut Command) -> Program {
    let mut program = Program::start(command);
    program.line(|line| line.trim() == "ready");
    program
}

/// A plan runs while `jump` is done: each step once, nobody thought lost, the owner the same.
async fn undisturbed(fleet: &Fleet, jump: impl FnOnce()) {
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = paced(fleet, &witness, STEPS);
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap()]);
    watching.line(|line| line.contains("in_progress"));
    jump();
    let ended = watching.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_each_once(&witness, STEPS);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let done = |records: &Records| {
        let mut goals = records.goal_states.values();
        goals.any(|goal| goal.result.is_some()).then_some(records.epoch)
    };
    assert_eq!(ledger.until("the result", done).await, 1, "the owner is the same");
    let lost =
        [EventKind::HostLeft, EventKind::AgentReplaced].map(|kind| ledger.events(kind).len());
    assert_eq!(lost, [0, 0]);
    fleet.ok(["doctor", "--check-ledger"]);
}
