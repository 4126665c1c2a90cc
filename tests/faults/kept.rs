//! What an ended run leaves for people (spec 06, Journal): its journal as an artifact, also when the owner
//! dies between storing it and saying so, and read as before when the stream does not have it any more.

use std::collections::BTreeMap;

use tetrarch_bus::subject::pattern::RUNS;
use tetrarch_core::id::RunId;
use tetrarch_core::records::Records;
use tetrarch_failpoint::{Failpoint, ProcessRole};

use crate::case::{Fault, Turn};
use crate::stage::{Stage, until_gone};

/// Where each journal is kept, once all runs have ended and all are.
fn kept(records: &Records) -> Option<BTreeMap<RunId, String>> {
    let all = records.run_status.values();
    let kept: Option<BTreeMap<RunId, String>> =
        all.map(|status| Some((status.id, status.archive.clone()?))).collect();
    kept.filter(|kept| !kept.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_is_archived_by_the_next_owner_and_read_from_there() {
    let mut stage = Stage::start().await;
    let follower = stage.follower(ProcessRole::Owner).await;
    let running = stage.begin(&[(Failpoint::JournalArchived, Fault::Kill)], Turn::Dies);
    until_gone(stage.reached(Failpoint::JournalArchived));
    stage.settle(running);
    if let Some((owner, before)) = follower {
        stage.until_back(&owner, before).await;
    }
    let kept = stage.ledger.until("every run's journal is kept", kept).await;
    assert_eq!(kept.len(), 2, "one died, one went on: {kept:?}");
    for (run, sha256) in kept {
        let run_name = run.to_string();
        let logs = |more: &[&str]| {
            let args = [&["logs", run_name.as_str()], more].concat();
            stage.fleet.ok(args)
        };
        let (all, end) = (logs(&[]), logs(&["--tail", "2"]));
        assert!(all.contains("starting") && all.ends_with(&end), "{all}\n{end}");
        assert_eq!(end.lines().count(), 2, "{end}");
        assert!(end.contains("  ended  "), "{end}");
        let described = |output: &[&str]| {
            let args = [&["describe", run_name.as_str()], output].concat();
            stage.fleet.ok(args)
        };
        let sheet = described(&["-o", "yaml"]);
        let subject = format!("run.*.{run}");
        stage.control.purge(RUNS, Some(&subject), None).await.unwrap();
        assert_eq!(logs(&[]), all);
        assert_eq!(logs(&["--follow"]), all, "nothing follows");
        assert_eq!(logs(&["--tail", "2"]), end);
        let archived = format!("{sha256}/{run}");
        assert_eq!(stage.fleet.ok(["logs", &archived]), all, "by its archive");
        assert!(stage.fleet.ok(["logs", &sha256]).contains(&all), "beside those it shares with");
        assert_eq!(described(&["-o", "yaml"]), sheet);
        let told = described(&[]);
        assert!(told.contains(&sha256) && told.contains("  starting  "), "{told}");
        let lines = stage.fleet.ok(["artifact", "get", &sha256]);
        let own = lines.split_once(&format!("{{\"run\":\"{run}\"}}\n")).unwrap().1;
        let own = own.lines().take_while(|line| line.starts_with("{\"seq\":"));
        // An entry may hold what happened after it, too.
        let events = own.map(|line| {
            let stored: serde_json::Value = serde_json::from_str(line).unwrap();
            1 + stored["entry"]["then"].as_array().map_or(0, Vec::len)
        });
        assert_eq!(events.sum::<usize>(), all.lines().count(), "{lines}");
    }
    stage.end();
}
