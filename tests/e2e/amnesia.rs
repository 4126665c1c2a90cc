//! A ledger that lost its end, as people meet it: the owner stops and says what to do, a human
//! decides, and the fleet goes on (spec 02, Amnesia guard).

use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};
use tetrarch_bus::commit::Committer;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::pattern::{LEASES, LEDGER};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::topology;
use tetrarch_core::id::HumanName;
use tetrarch_tests::{Fleet, wait};

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

/// The directory of a name, however deep.
fn below(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut directories = entries.filter(|path| path.is_dir());
    directories.find_map(|path| if path.ends_with(name) { Some(path) } else { below(&path, name) })
}
