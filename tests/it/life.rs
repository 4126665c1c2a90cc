//! A life of many entries leaves no more behind than a short one: snapshots, trimming and
//! forgetting (spec 02, Snapshots). The long form is a benchmark: `cargo bench --bench life`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use tetrarch_bus::snapshot;
use tetrarch_bus::state::{load, load_meta};
use tetrarch_bus::subject::pattern::{ARTIFACTS, LEDGER};
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::check::{check, check_entry};
use tetrarch_core::ledger::{EventKind, Record};
use tetrarch_core::records::Records;
use tetrarch_core::time::Millis;
use tetrarch_tests::life::{Life, Look};
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Owner, Server};

const LIFE: Life =
    Life { entries: 6_000, look_every: 1_000, snapshot_every: 500, kept: Millis(500) };

/// Everything that STATE tells of.
async fn present(server: &Server) -> Records {
    let bus = server.control().await;
    let loaded = load(&bus).await;
    let mut records = Records::default();
    let meta = loaded.meta.unwrap();
    records.epoch = meta.owner_epoch;
    records.intake_seq = meta.intake_seq;
    loaded.records.into_iter().for_each(|(record, _)| records.put(record));
    records
}

/// The latest snapshot with the ledger after it, each entry checked on its way.
async fn replayed(server: &Server) -> Records {
    let bus = server.control().await;
    let base = snapshot::base(&bus).await.unwrap();
    assert!(base.through > 0, "the ledger is trimmed");
    let mut records = base.folded();
    assert_eq!(check(&records), []);
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    for item in read_ledger(&bus, base.through + 1, last, base.epoch).await {
        let entry = item.entry.unwrap();
        assert_eq!(check_entry(&records, item.seq, &entry), []);
        records.apply(&entry);
    }
    records
}

fn is_bounded(looks: &[Look]) {
    let (early, late) = (&looks[1], &looks[looks.len() - 1]);
    assert!(late.kept < late.entries / 2, "{looks:#?}");
    // What is dropped leaves a marker for two minutes, which is longer than this life.
    assert!(late.disk < early.disk + 40 * 1024, "{looks:#?}");
    assert!(late.memory < early.memory + 60 * 1024, "{looks:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_life_leaves_no_more_behind_than_a_short_one() {
    let server = tetrarch_tests::server().await;
    let looks = LIFE.live(&server, |_| {}).await;
    is_bounded(&looks);
    // It forgets nothing more, so what it makes visible stays as it is.
    let mut owner = Owner::start(&server, Owner::config("after", 10)).await;
    owner.until_ready().await;
    let agreeing = async {
        loop {
            let replayed = replayed(&server).await;
            if present(&server).await == replayed {
                return replayed;
            }
        }
    };
    let replayed = soon("STATE and ledger that agree", agreeing).await;
    owner.stop().await;
    assert_eq!(check(&replayed), []);
    let told = replayed.snapshot.unwrap();
    let bus = server.control().await;
    let parts = told.parts.len() as u64;
    let held = bus.stream_messages(ARTIFACTS).await.unwrap();
    // Of each part one description and, as small as it is, few chunks; of one before it the same.
    assert!(held <= 40 * (parts + told.before.len() as u64), "{held} for {parts} parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn trimmed_ledger_is_no_amnesia_and_its_past_is_reported() {
    let server = tetrarch_tests::server().await;
    let life = Life { entries: 1_200, look_every: 1_200, ..LIFE };
    life.live(&server, |_| {}).await;
    let bus = server.control().await;
    let before = bus.stream_extent(LEDGER).await.unwrap();
    assert!(before.first > 1);
    // All but the last snapshot's tail goes: nothing of it is needed to begin.
    let kept = snapshot::latest(&bus).await.unwrap().unwrap();
    bus.purge(LEDGER, None, Some(kept.through)).await.unwrap();
    let mut owner = Owner::start(&server, Owner::config("next", 10)).await;
    owner.until_ready().await;
    // Its first commit is in; that STATE has it takes a moment more.
    let reached = async {
        while load_meta(&bus).await.unwrap().unwrap().ledger_high < before.last {
            tokio::task::yield_now().await;
        }
    };
    soon("STATE that knows the ledger's end", reached).await;
    owner.stop().await;
    let records = replayed(&server).await;
    assert_eq!(check(&records), []);
    // A later one may have been in the ledger alone, and takes its place once STATE has it.
    let latest = snapshot::latest(&bus).await.unwrap().unwrap();
    assert!(latest.through >= kept.through, "{latest:?} after {kept:?}");
    let reached = soon("the snapshot", snapshot::read(&bus, &latest)).await.unwrap();
    assert_eq!(reached.through, latest.through);
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(&bus, 1, last, 0).await;
    let told = items.iter().filter_map(|item| item.entry.as_ref().ok()).any(|entry| {
        let told = entry.events.iter().any(|event| event.kind == EventKind::LedgerSnapshot);
        told && entry.records.iter().any(|record| matches!(record, Record::Snapshot(_)))
    });
    assert!(told, "an entry of the ledger tells of the snapshot");
}
