//! Streams, publishes with expected sequences, and reads without a consumer.

use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::error::{PublishError, ReadError};
use tetrarch_bus::topology::{self, TopologyError};
use tetrarch_bus::{Bus, HeaderMap};

use super::Fixture;

async fn put(bus: &Bus, subject: &str, text: &'static str) -> u64 {
    bus.publish_expect(subject, HeaderMap::new(), text.into(), None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_the_streams_again_is_quick_and_changes_nothing() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let before = configs(&bus).await;
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        topology::apply(&bus, 1).await.unwrap();
        quickest = quickest.min(start.elapsed());
    }
    assert_eq!(configs(&bus).await, before);
    assert!(quickest < Duration::from_millis(50), "{quickest:?}");
}

async fn configs(bus: &Bus) -> Vec<(Config, String)> {
    let mut configs = Vec::new();
    for wanted in topology::streams(1) {
        let stream = bus.jetstream().get_stream(&wanted.name).await.unwrap();
        let info = stream.cached_info();
        configs.push((info.config.clone(), info.created.to_string()));
    }
    configs
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_setting_is_corrected_and_an_unchangeable_one_is_an_error() {
    let fixture = Fixture::start().await;
    let bus = fixture.bus(&CredentialHolder::Control).await;
    let mut wanted = topology::streams(1);
    wanted.retain(|config| config.name == "MAIL");
    let mut changed = wanted.remove(0);
    changed.max_age = Duration::from_secs(3600);
    bus.jetstream().create_stream(changed.clone()).await.unwrap();
    topology::apply(&bus, 1).await.unwrap();
    let stream = bus.jetstream().get_stream("MAIL").await.unwrap();
    assert_eq!(stream.cached_info().config.max_age, Duration::from_secs(7 * 24 * 3600));

    bus.jetstream().delete_stream("MAIL").await.unwrap();
    changed.max_consumers = 1000;
    bus.jetstream().create_stream(changed).await.unwrap();
    let error = topology::apply(&bus, 1).await.unwrap_err();
    assert!(
        matches!(error, TopologyError::Unchangeable { setting: "max_consumers", .. }),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn expected_sequence_fences_and_names_the_last_one() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let publish = |text: &'static str, expect| {
        let bus = bus.clone();
        async move { bus.publish_expect("ledger.main", HeaderMap::new(), text.into(), expect).await }
    };
    let first = publish("a", Some(0)).await.unwrap();
    let error = publish("b", Some(0)).await.unwrap_err();
    assert_eq!(error, PublishError::WrongLast { subject: "ledger.main".to_owned(), last: first });
    let second = publish("b", Some(first)).await.unwrap();
    assert!(second > first);
    let message = bus.last_by_subject("LEDGER", "ledger.main").await.unwrap().unwrap();
    assert_eq!((message.seq, message.payload.as_ref()), (second, b"b".as_slice()));
    assert!(message.time_unix_ms > 1_600_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_differ_from_unknown_outcomes() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let publish = |subject: &'static str, size: usize| {
        let bus = bus.clone();
        async move { bus.publish_expect(subject, HeaderMap::new(), vec![0; size].into(), None).await }
    };
    let error = publish("plan.unheard.x", 1).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused { code: 503, .. }), "{error}");
    let error = publish("nobody.at.all", 1).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused { code: 403, .. }), "{error}");
    let error = publish("ledger.main", 2 * 1024 * 1024).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused { code: 413, .. }), "{error}");
    let error = publish("mail.GO.PO-x", 300 * 1024).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused { code: 10054, .. }), "{error}");
    assert_eq!(bus.stream_last_seq("LEDGER").await.unwrap(), 0);
    assert_eq!(bus.stream_last_seq("MAIL").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_publishes_are_stored_in_order() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut waiting = Vec::new();
    for number in 0..500u32 {
        let payload = number.to_string().into();
        waiting.push(bus.start_publish("run.a.r1", HeaderMap::new(), payload, None).await.unwrap());
    }
    let mut seqs = Vec::new();
    for ack in waiting {
        seqs.push(ack.stored().await.unwrap());
    }
    assert!(seqs.is_sorted());
    let read = bus.next_by_subject_batch("RUNS", "run.a.r1", 0, 1000).await.unwrap();
    let texts: Vec<String> =
        read.iter().map(|m| String::from_utf8_lossy(&m.payload).into_owned()).collect();
    let wanted: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(texts, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_hold_filtered_messages_from_the_position() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut own = Vec::new();
    for _ in 0..5 {
        put(&bus, "mail.PO-b.GO", "other").await;
        own.push(put(&bus, "mail.PO-a.GO", "mine").await);
        put(&bus, "ctl.PO-a.GO", "control").await;
    }
    let read = |start, batch| bus.next_by_subject_batch("MAIL", "mail.PO-a.>", start, batch);
    let seqs = |messages: Vec<tetrarch_bus::client::RawMessage>| {
        messages.iter().map(|message| message.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(read(0, 100).await.unwrap()), own);
    assert_eq!(seqs(read(own[1] + 1, 2).await.unwrap()), own[2..4]);
    assert_eq!(seqs(read(own[4] + 1, 10).await.unwrap()), Vec::<u64>::new());
    assert_eq!(bus.get_seq("MAIL", own[0]).await.unwrap().unwrap().subject, "mail.PO-a.GO");
    assert!(bus.get_seq("MAIL", 9_999).await.unwrap().is_none());
    assert!(bus.last_by_subject("MAIL", "mail.PO-c.GO").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn last_message_of_each_subject_is_read_up_to_the_server_bound() {
    let (_fixture, bus) = Fixture::with_streams().await;
    put(&bus, "cursor.PO-a", "1").await;
    put(&bus, "cursor.PO-b", "2").await;
    put(&bus, "cursor.PO-a", "3").await;
    let read = bus.last_per_subject("CURSORS", &["cursor.*"]).await.unwrap();
    let found: Vec<(&str, &[u8])> =
        read.iter().map(|m| (m.subject.as_str(), m.payload.as_ref())).collect();
    assert_eq!(found, [("cursor.PO-b", b"2".as_slice()), ("cursor.PO-a", b"3".as_slice())]);

    for hundred in 0..11 {
        let mut waiting = Vec::new();
        for number in 0..100 {
            let subject = format!("cursor.PO-x{hundred}-{number}");
            let started = bus.start_publish(&subject, HeaderMap::new(), "x".into(), None).await;
            waiting.push(started.unwrap());
        }
        for ack in waiting {
            ack.stored().await.unwrap();
        }
    }
    let error = bus.last_per_subject("CURSORS", &["cursor.*"]).await.unwrap_err();
    assert!(matches!(error, ReadError::Refused { code: 413, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_key_value_client_reads_state() {
    let (_fixture, bus) = Fixture::with_streams().await;
    put(&bus, "$KV.STATE.agent.PO-a", "{}").await;
    let state = bus.jetstream().get_key_value("STATE").await.unwrap();
    let value = state.get("agent.PO-a").await.unwrap().unwrap();
    assert_eq!(value.as_ref(), b"{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_cannot_forge_its_sequence_time_or_subject() {
    let (fixture, control) = Fixture::with_streams().await;
    let sender = fixture.bus(&CredentialHolder::External("PO-demo".parse().unwrap())).await;
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("Nats-Stream", "LEDGER"),
        ("Nats-Subject", "mail.GO.human:ada"),
        ("Nats-Sequence", "77"),
        ("Nats-Time-Stamp", "2001-01-01T00:00:00Z"),
        ("Nats-Last-Sequence", "66"),
        ("Nats-Num-Pending", "55"),
    ] {
        headers.insert(name, value);
    }
    let subject = "mail.GO.PO-demo";
    for _ in 0..2 {
        sender.publish_expect(subject, headers.clone(), "{}".into(), None).await.unwrap();
    }
    let mut read = control.next_by_subject_batch("MAIL", "mail.>", 0, 10).await.unwrap();
    read.push(control.last_by_subject("MAIL", subject).await.unwrap().unwrap());
    read.push(control.get_seq("MAIL", 1).await.unwrap().unwrap());
    let seen: Vec<(u64, &str)> = read.iter().map(|it| (it.seq, it.subject.as_str())).collect();
    assert_eq!(seen, [(1, subject), (2, subject), (2, subject), (1, subject)]);
    assert!(read.iter().all(|it| it.time_unix_ms > 1_700_000_000_000), "{read:?}");
    assert_eq!(read[0].header("Nats-Num-Pending"), Some("1"));
}
