//! Reading a part of a stream to its end while what it holds goes away.

use std::sync::atomic::Ordering;

use async_nats::HeaderMap;
use futures::future::join_all;
use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::STATE;
use tetrarch_core::id::HumanName;

use super::soon;

/// Messages of the part; a reader asks for a thousand at once.
const MESSAGES: usize = 6_000;
/// Readings while they go: each begins a little earlier.
const READINGS: usize = 2;

async fn store(bus: &Bus, keys: &[String]) {
    for some in keys.chunks(500) {
        let stored =
            some.iter().map(|key| bus.publish_expect(key, HeaderMap::new(), "{}".into(), None));
        for outcome in join_all(stored).await {
            outcome.unwrap();
        }
    }
}

/// The server counts what is still to come when it sends a message, and what it counted may be gone
/// before it is sent: the last message of a long life said that there was more, and its reader waited
/// for ever.
#[tokio::test(flavor = "multi_thread")]
async fn partial_stream_read_ends_despite_trimming() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let keys: Vec<String> = (0..MESSAGES).map(|key| format!("$KV.STATE.project.p{key}")).collect();
    for reading in 0..READINGS {
        store(&bus, &keys).await;
        let last = bus.stream_last_seq(STATE).await.unwrap();
        store(&bus, &["$KV.STATE.host.stays".to_owned()]).await;
        let parts = 4 * (reading as u64 + 1);
        let purge = async {
            for part in 1..=parts {
                let through = last - MESSAGES as u64 + MESSAGES as u64 * part / parts;
                bus.purge(STATE, Some("$KV.STATE.project.*"), Some(through)).await.unwrap();
            }
        };
        let read = soon("the end of a part", read_records(&bus, &[Select::Kind(KeyKind::Project)]));
        let (read, ()) = tokio::join!(read, purge);
        read.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_of_two_record_kinds_is_sent_only_these() {
    let server = tetrarch_tests::server().await;
    let control = server.control().await;
    for (kind, count) in [("project", 700), ("host", 700), ("plan", 4_000)] {
        let keys: Vec<String> = (0..count).map(|key| format!("$KV.STATE.{kind}.k{key}")).collect();
        store(&control, &keys).await;
    }
    let person = server.bus(&CredentialHolder::Human(HumanName::new("ada").unwrap())).await;
    let statistics = person.client().statistics();
    let before = statistics.in_messages.load(Ordering::Relaxed);
    let wanted = [KeyKind::Project, KeyKind::Host].map(Select::Kind);
    let read = soon("both kinds", read_records(&person, &wanted)).await.unwrap();
    let sent = statistics.in_messages.load(Ordering::Relaxed) - before;
    assert_eq!(read.records.len() + read.unreadable.len(), 1_400);
    assert!(sent < 2_000, "{sent} messages for 1,400 records");
}
