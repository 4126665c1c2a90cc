//! The amnesia guard on a real server: a ledger that was made anew, an older copy of it, STATE gone
//! too, and going on after a human accepted it (spec 02, Amnesia guard).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::path::Path;

use tetrarch_bus::commit::Committer;
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::pattern::{LEDGER, MAIL, REQUESTS, STATE};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::{Bus, HeaderMap, topology};
use tetrarch_core::id::HumanName;
use tetrarch_core::ledger::{Entry, EventKind};
use tetrarch_engine::{Acceptance, Accepted, EngineError, accept_ledger};
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Owner, Server, agreeing, settled};

const LONG_SECS: u32 = 600;

async fn owner(server: &Server, instance: &str, data_dir: &Path) -> Owner {
    let mut config = Owner::config(instance, LONG_SECS);
    config.data_dir = Some(data_dir.to_owned());
    Owner::start(server, config).await
}

/// Owners that come and go, so that the ledger has a few entries and all of it is in STATE.
async fn lived(server: &Server, data_dir: &Path, lives: usize) {
    for life in 0..lives {
        let mut owner = owner(server, &format!("life-{life}"), data_dir).await;
        owner.until_ready().await;
        settled(&server.control().await).await;
        owner.stop().await;
    }
}

async fn entries(bus: &Bus) -> Vec<Entry> {
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(bus, 1, last, 0).await;
    items.into_iter().map(|item| item.entry.unwrap()).collect()
}

/// Replaces the ledger by one that has only these entries.
async fn replaced(bus: &Bus, kept: &[Entry]) {
    bus.jetstream().delete_stream(LEDGER).await.unwrap();
    topology::apply(bus, 1).await.unwrap();
    let mut last = 0;
    for entry in kept {
        last = Committer::new(bus.clone(), last, entry.epoch).commit(entry).await.unwrap();
    }
}

async fn refused(server: &Server, data_dir: &Path) -> String {
    let stopped = owner(server, "refusing", data_dir).await;
    let ended = soon("a refusal", stopped.task).await.unwrap();
    assert!(!*stopped.ready.borrow(), "it never was ready");
    match ended {
        Err(why @ EngineError::Amnesia { .. }) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn accepted(server: &Server, seq: u64, data_dir: &Path) -> Result<Accepted, EngineError> {
    let acceptance = Acceptance {
        seq,
        by: HumanName::new("ada").unwrap(),
        instance: "doctor".to_owned(),
        address: "here".to_owned(),
        data_dir: data_dir.to_owned(),
    };
    accept_ledger(server.control().await, acceptance).await
}

#[tokio::test(flavor = "multi_thread")]
async fn older_copy_is_refused_and_accepted_with_surviving_state() {
    let server = tetrarch_tests::server().await;
    let dir = tempfile::tempdir().unwrap();
    lived(&server, dir.path(), 3).await;
    let bus = server.control().await;
    let whole = entries(&bus).await;
    let high = whole.len() as u64;
    assert!(high >= 3);
    replaced(&bus, &whole[..1]).await;
    let why = refused(&server, dir.path()).await;
    assert!(why.contains("remembered by STATE"), "{why}");

    for wrong in [0, 2, high] {
        let error = accepted(&server, wrong, dir.path()).await.unwrap_err();
        assert!(matches!(error, EngineError::NotThat { last: 1, .. }), "{error}");
    }
    let done = accepted(&server, 1, dir.path()).await.unwrap();
    assert_eq!((done.filled, done.last), (high - 1, high + 1), "{done:?}");
    assert!(done.restored > 0, "{done:?}");
    let again = accepted(&server, done.last, dir.path()).await.unwrap();
    assert_eq!(again, Accepted { because: None, filled: 0, restored: 0, last: done.last });

    let mut next = owner(&server, "next", dir.path()).await;
    next.until_ready().await;
    let records = agreeing(&bus).await;
    assert_eq!(records.epoch, records.agents.values().next().unwrap().epoch);
    assert!(records.epoch > 3, "no epoch is given twice: {}", records.epoch);
    next.stop().await;
    let told = entries(&bus).await;
    let told = told.iter().flat_map(|entry| &entry.events);
    let told: Vec<_> = told.filter(|event| event.kind == EventKind::LedgerAccepted).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].actor.to_string(), "human:ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_directory_alone_detects_an_older_copy() {
    let server = tetrarch_tests::server().await;
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    lived(&server, dir.path(), 2).await;
    let bus = server.control().await;
    let high = bus.stream_last_seq(LEDGER).await.unwrap();
    for stream in [LEDGER, STATE, MAIL, REQUESTS] {
        bus.jetstream().delete_stream(stream).await.unwrap();
    }
    topology::apply(&bus, 1).await.unwrap();
    let why = refused(&server, dir.path()).await;
    assert!(why.contains("remembered by the data directory"), "{why}");
    let done = accepted(&server, 0, dir.path()).await.unwrap();
    assert_eq!((done.filled, done.restored, done.last), (high, 0, high + 1));
    let mut next = owner(&server, "next", dir.path()).await;
    next.until_ready().await;
    let records = agreeing(&bus).await;
    assert_eq!(records.agents.len(), 1, "it begins with nothing but the owner");
    next.stop().await;
    // A machine that never was the owner takes over: STATE tells it.
    let mut other = owner(&server, "other", elsewhere.path()).await;
    other.until_ready().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_state_is_rebuilt_from_the_ledger() {
    let server = tetrarch_tests::server().await;
    let dir = tempfile::tempdir().unwrap();
    lived(&server, dir.path(), 3).await;
    let bus = server.control().await;
    bus.jetstream().delete_stream(STATE).await.unwrap();
    let mut next = owner(&server, "next", dir.path()).await;
    next.until_ready().await;
    agreeing(&bus).await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_the_data_directory_is_no_new_installation() {
    let server = tetrarch_tests::server().await;
    let dir = tempfile::tempdir().unwrap();
    lived(&server, dir.path(), 1).await;
    let bus = server.control().await;
    std::fs::write(dir.path().join("ledger.memory"), "\u{0}\u{0}").unwrap();
    let stopped = owner(&server, "next", dir.path()).await;
    let ended = soon("a refusal", stopped.task).await.unwrap();
    assert!(matches!(ended, Err(EngineError::Memory { .. })), "{ended:?}");
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let done = accepted(&server, last, dir.path()).await.unwrap();
    assert_eq!((done.filled, done.last), (0, last + 1));
    let mut next = owner(&server, "next", dir.path()).await;
    next.until_ready().await;
    agreeing(&bus).await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_is_not_accepted_beside_a_running_owner() {
    let server = tetrarch_tests::server().await;
    let dir = tempfile::tempdir().unwrap();
    let mut working = owner(&server, "working", dir.path()).await;
    working.until_ready().await;
    let refused = accepted(&server, 1, dir.path()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Held { .. }), "{refused}");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_requests_stream_is_read_from_its_beginning() {
    let server = tetrarch_tests::server().await;
    let dir = tempfile::tempdir().unwrap();
    let bus = server.control().await;
    let mut first = owner(&server, "first", dir.path()).await;
    first.until_ready().await;
    let ask = async |number: u64| {
        let subject = "op.project.create.human:ada";
        let body = format!(
            "{{\"requestId\":\"01JD8Z5W6T4QK3M9X2V7B1N{number:03}\",\"project\":\"p{number}\",\"external\":true}}"
        );
        let sent = bus.publish_expect(subject, HeaderMap::new(), body.into_bytes().into(), None);
        sent.await.unwrap()
    };
    let decided = async |sequence: u64| {
        let known = async {
            while load_meta(&bus).await.unwrap().is_none_or(|meta| meta.intake_seq != sequence) {}
        };
        soon("the requests' decisions", known).await;
    };
    let mut asked = 0;
    for number in 0..5 {
        asked = ask(number).await;
    }
    decided(asked).await;
    first.stop().await;
    bus.jetstream().delete_stream(REQUESTS).await.unwrap();
    topology::apply(&bus, 1).await.unwrap();
    let mut second = owner(&server, "second", dir.path()).await;
    second.until_ready().await;
    decided(0).await;
    assert_eq!(ask(10).await, 1);
    decided(1).await;
    second.stop().await;
    // What was asked while nobody listened is not passed over.
    assert_eq!(ask(11).await, 2);
    let mut third = owner(&server, "third", dir.path()).await;
    third.until_ready().await;
    decided(2).await;
    let records = agreeing(&bus).await;
    assert_eq!(records.projects.len(), 7);
    third.stop().await;
    let told = entries(&bus).await;
    let alerts = told.iter().flat_map(|entry| &entry.events);
    let alerts = alerts.filter(|event| event.reason.starts_with("stream.shrank: REQUESTS"));
    assert_eq!(alerts.count(), 1, "people are told once");
}
