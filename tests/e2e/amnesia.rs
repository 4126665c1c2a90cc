//! A ledger that lost its end, as people meet it: the owner stops and says what to do, a human
//! decides, and the fleet goes on (spec 02, Amnesia guard).

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::commit::Committer;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::lease::Renewals;
use tetrarch_bus::subject::pattern::{CURSORS, LEASES, LEDGER, RUNS};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::topology;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::HumanName;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::records::Records;
use tetrarch_tests::{Fleet, Ledger, Process, wait};

use crate::failover::owner_of;
use crate::storm::run_to_its_end;

#[tokio::test(flavor = "multi_thread")]
async fn older_ledger_copy_waits_for_a_human_and_then_goes_on() {
    let mut fleet = Fleet::up();
    run_to_its_end(&fleet, "before");
    let control = fleet.control().await;
    let last = control.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(&control, 1, last, 0).await;
    kill_process(owner_of(&fleet), Signal::STOP).unwrap();
    let paused = owner_of(&fleet);
    control.jetstream().delete_stream(LEDGER).await.unwrap();
    topology::apply(&control, 1).await.unwrap();
    let half = last / 2;
    let mut at = 0;
    for item in items.into_iter().take(usize::try_from(half).unwrap()) {
        let entry = item.entry.unwrap();
        at = Committer::new(control.clone(), at, entry.epoch).commit(&entry).await.unwrap();
    }
    kill_process(paused, Signal::KILL).unwrap();

    let looked = fleet.run(["doctor", "-o", "json"]);
    assert_eq!(looked.code, Some(1), "{}{}", looked.out, looked.err);
    let hint = format!("tetrarch doctor --accept-ledger {half}");
    assert!(looked.out.contains(&hint), "{}", looked.out);
    // Only who has the control plane's credential can, and only who looked.
    let human = fleet.credentials(&CredentialHolder::Human(HumanName::new("ada").unwrap()));
    let (url, accepting) = (fleet.url(), half.to_string());
    let mut denied =
        fleet.command(["doctor", "--accept-ledger", &accepting, "--yes", "--url", &url]);
    let denied = denied.arg("--credentials").arg(human).output().unwrap();
    assert!(!denied.status.success(), "{}", String::from_utf8_lossy(&denied.stdout));
    let wrong = fleet.run(["doctor", "--accept-ledger", &last.to_string(), "--yes"]);
    assert_eq!(wrong.code, Some(5), "{}{}", wrong.out, wrong.err);
    let shows = format!("cannot accept the ledger through {last}: its last sequence is {half}");
    assert!(wrong.err.contains(&shows), "{}", wrong.err);
    let said = fleet.ok(["doctor", "--accept-ledger", &accepting, "--yes"]);
    assert!(said.contains(&format!("accepted the ledger through {half}")), "{said}");
    assert!(said.contains(&format!("{} sequences were filled", last - half)), "{said}");

    wait::until("an owner again", || {
        let ledger = fleet.json(&["status"])["ledger"].clone();
        // Its first entry is out as soon as there is one.
        (ledger["last"].as_u64() > Some(last + 1) && ledger["last"] == ledger["published"])
            .then_some(())
    });
    fleet.ok(["project", "create", "meanwhile"]);
    run_to_its_end(&fleet, "after");
    fleet.ok(["doctor", "--check-ledger"]);
    let projects = fleet.json(&["status"])["projects"].to_string();
    for name in ["before", "meanwhile", "after"] {
        assert!(projects.contains(name), "{name} in {projects}");
    }
    let ended = fleet.stop();
    assert!(ended.err.contains("the ledger is not the one that was written to"), "{}", ended.err);
}

#[test]
fn refused_ledger_is_accepted_while_no_fleet_can_start() {
    let mut fleet = Fleet::up();
    run_to_its_end(&fleet, "before");
    fleet.stop();
    let memory = fleet.data_dir().join("ledger.memory");
    std::fs::write(&memory, "half a f").unwrap();
    let up = fleet.run(["up"]);
    assert_ne!(up.code, Some(0), "{}", up.err);
    assert!(up.err.contains("tetrarch doctor --accept-ledger"), "{}", up.err);

    let last = fleet.json(&["status"])["ledger"]["last"].to_string();
    let asked = fleet.run(["doctor", "--accept-ledger", &last]);
    assert_eq!(asked.code, Some(2), "{}", asked.err);
    assert!(asked.err.contains("of which nothing is known to be lost"), "{}", asked.err);
    let said = fleet.ok(["doctor", "--accept-ledger", &last, "--yes"]);
    assert!(said.contains(&format!("accepted the ledger through {last}")), "{said}");
    fleet.start();
    fleet.ok(["doctor", "--check-ledger"]);
    run_to_its_end(&fleet, "after");
}

#[test]
fn fleet_whose_leases_are_lost_starts_at_once() {
    let mut fleet = Fleet::up();
    run_to_its_end(&fleet, "before");
    fleet.stop();
    let streams = fleet.data_dir().join("nats/store/jetstream");
    let lost = below(&streams, LEASES).unwrap();
    std::fs::remove_dir_all(lost).unwrap();
    fleet.start();
    run_to_its_end(&fleet, "after");
    fleet.ok(["doctor", "--check-ledger"]);
    let ended = fleet.stop();
    assert!(!ended.err.contains("restarting it"), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_journals_and_cursors_are_told_and_the_work_goes_on() {
    let mut fleet = Fleet::up();
    let plan = json!({
        "project": "lossy",
        "goal": {"title": "Sleep a little"},
        "phases": [{"id": "P1", "name": "Sleep", "tasks": [
            {"id": "T1.1", "name": "sleep", "profile": "sleep", "acceptance": ["it is slept"]},
        ]}],
        "profiles": {"sleep": {"argv": ["sleep", "3"]}},
    });
    let plan = fleet.file("sleep.json", &plan.to_string());
    fleet.ok(["goal", "create", "--project", "lossy", plan.to_str().unwrap()]);
    let runs = || fleet.json(&["get", "runs"]).to_string().contains("running");
    wait::until("a run", || runs().then_some(()));
    kill_everything(&fleet, |_| true);
    let streams = fleet.data_dir().join("nats/store/jetstream");
    for lost in [RUNS, CURSORS] {
        std::fs::remove_dir_all(below(&streams, lost).unwrap()).unwrap();
    }
    fleet.start();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let done = |records: &Records| {
        let mut goals = records.goal_states.values();
        goals.any(|goal| goal.status == GoalStatus::Completed).then_some(())
    };
    ledger.until("the goal", done).await;
    let told: Vec<String> =
        ledger.events(EventKind::Alert).iter().map(|event| event.reason.clone()).collect();
    for words in ["RUNS lacks the journals of 1 runs", "CURSORS lacks those of 1 agents"] {
        assert!(told.iter().any(|told| told.contains(words)), "{words}: {told:?}");
    }
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn surviving_host_ends_agents_unknown_to_a_restored_copy() {
    let mut fleet = Fleet::up();
    let second = fleet.second_host("h2");
    run_to_its_end(&fleet, "before");
    fleet.stop();
    let (data, copy) = (fleet.data_dir(), fleet.cwd().join("copy"));
    let copied = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
        assert!(copied.success());
    };
    copied(&data, &copy);
    fleet.start();
    run_to_its_end(&fleet, "forgotten");
    // It can only know better what it was told: the second renewal is sent when the first is acknowledged.
    let mut renewals = Renewals::listen(&fleet.control().await).await.unwrap();
    for _ in 0..2 {
        while renewals.next().await.host.as_str() != "h2" {}
    }
    let is_far = |process: &Process| {
        process.command.contains("/far") || process.command.contains("--life h2.")
    };
    kill_everything(&fleet, |process| !is_far(process));
    std::fs::remove_dir_all(&data).unwrap();
    copied(&copy, &data);
    fleet.start();
    let ended = second.ended();
    assert_ne!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("the bus is an older copy of itself"), "{}", ended.err);
    run_to_its_end(&fleet, "after");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// Kills what is wanted until there is none of it.
fn kill_everything(fleet: &Fleet, wanted: impl Fn(&Process) -> bool) {
    wait::until("the end of everything", || {
        let left = fleet.processes().into_iter().filter(&wanted);
        let killed = left.map(|process| {
            let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
            // It may have ended by itself.
            let _gone = kill_process(pid, Signal::KILL);
        });
        (killed.count() == 0).then_some(())
    });
}

/// The directory of a name, however deep.
fn below(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut directories = entries.filter(|path| path.is_dir());
    directories.find_map(|path| if path.ends_with(name) { Some(path) } else { below(&path, name) })
}
