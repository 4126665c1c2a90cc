//! Journals: order, fencing, and what a successor finds.

use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::cursor::read_cursor;
use tetrarch_bus::journal::{
    JournalError, JournalName, JournalWriter, Writer, finally_left, journal_end, last_checkpoint,
    move_old, read_journal,
};
use tetrarch_bus::subject::pattern::RUNS;
use tetrarch_bus::topology;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{RunId, SessionId, Ulid};
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::ledger::{Entry, Seal};

use super::{batch, empty_entry, outbox, seal, worker};

const RUN: RunId = RunId(Ulid(77));

fn writer(epoch: u64) -> Writer {
    Writer { run: RUN, agent: worker(1), session: SessionId(Ulid(epoch.into())), epoch }
}

fn at(mail: u64, ctl: u64) -> Positions {
    Positions { mail, ctl }
}

fn checkpoint(state: &str) -> JournalEvent {
    JournalEvent::Checkpoint { state: state.to_owned() }
}

async fn entries(bus: &Bus) -> Vec<JournalEntry> {
    let found = read_journal(bus, &writer(1).journal(), 1).await.unwrap();
    found.into_iter().map(|it| it.entry.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn successor_continues_at_the_end_of_the_journal() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut first = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    first.append(at(1, 0), checkpoint("{\"n\":1}")).await.unwrap();
    first.append(at(2, 0), JournalEvent::Unblocked).await.unwrap();
    let mut second = JournalWriter::open(bus.clone(), writer(2)).await.unwrap();
    second.append(at(3, 1), checkpoint("{\"n\":2}")).await.unwrap();
    second.append(at(3, 2), JournalEvent::Unblocked).await.unwrap();
    let found = entries(&bus).await;
    let told: Vec<(u64, u64)> = found.iter().map(|entry| (entry.index, entry.epoch)).collect();
    assert_eq!(told, [(1, 1), (2, 1), (3, 2), (4, 2)]);
    assert_eq!(last_checkpoint(&bus, &writer(1).journal()).await.unwrap().unwrap(), "{\"n\":2}");
    let other = JournalName { agent: worker(1), run: RunId(Ulid(78)) };
    assert_eq!(last_checkpoint(&bus, &other).await.unwrap(), None);
    let fenced = first.append(at(9, 9), JournalEvent::Unblocked).await;
    assert!(matches!(fenced, Err(JournalError::Fenced { .. })), "{fenced:?}");
    let zombie = JournalWriter::open(bus.clone(), writer(1)).await;
    assert!(matches!(zombie, Err(JournalError::Fenced { .. })), "{zombie:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn seal_ends_the_old_journal_and_keeps_its_positions() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = Entry { seals: vec![seal(&worker(1), 1)], ..empty_entry(1, 1) };
    outbox(&bus).publish(&batch(1, &[first])).await.unwrap();
    let mut old = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    old.append(at(5, 8), JournalEvent::Unblocked).await.unwrap();
    let order = Seal { ends: Some(RUN), ..seal(&worker(1), 2) };
    let second = Entry { seals: vec![order], ..empty_entry(2, 1) };
    outbox(&bus).publish(&batch(2, std::slice::from_ref(&second))).await.unwrap();
    outbox(&bus).publish(&batch(2, &[second])).await.unwrap();
    let (cursor, _) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    assert_eq!((cursor.epoch, cursor.positions), (2, at(5, 8)));
    let found = entries(&bus).await;
    assert_eq!(found.len(), 2, "it ends once");
    assert!(matches!(found[1].event, JournalEvent::Ended { .. }));
    assert_eq!((found[1].epoch, found[1].positions), (2, at(5, 8)));
    let zombie = old.append(at(9, 9), JournalEvent::Unblocked).await;
    assert!(matches!(zombie, Err(JournalError::Fenced { .. })), "{zombie:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entry_with_a_lost_answer_is_written_once() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut journal = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    let Writer { run, agent, session, epoch } = writer(1);
    let event = JournalEvent::Unblocked;
    let lost = JournalEntry {
        run,
        agent,
        session,
        epoch,
        index: 1,
        positions: at(1, 1),
        event,
        then: vec![],
    };
    let payload = codec::encode_journal(&lost).unwrap().into();
    let subject = writer(1).journal().subject().to_string();
    let landed = bus.publish_expect(&subject, Default::default(), payload, Some(0)).await.unwrap();
    assert_eq!(journal.append(at(1, 1), JournalEvent::Unblocked).await.unwrap(), landed);
    journal.append(at(2, 2), JournalEvent::Unblocked).await.unwrap();
    assert_eq!(entries(&bus).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_append_is_finished_first() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut journal = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    server.pause().await;
    let wait = std::time::Duration::from_millis(50);
    let dropped = tokio::time::timeout(wait, journal.append(at(1, 0), checkpoint("{}"))).await;
    assert!(dropped.is_err(), "{dropped:?}");
    server.resume();
    journal.append(at(2, 0), JournalEvent::Unblocked).await.unwrap();
    let found: Vec<Positions> = entries(&bus).await.into_iter().map(|e| e.positions).collect();
    assert_eq!(found, [at(1, 0), at(2, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_a_run_is_read_from_its_ended_journal() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut old = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    old.append(at(1, 0), checkpoint("{\"n\":1}")).await.unwrap();
    let name = writer(1).journal();
    let mut reading = Box::pin(finally_left(&bus, &name));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut reading).await;
    assert!(early.is_err(), "a replica that lags shows no more than this: {early:?}");
    old.append(at(2, 0), checkpoint("{\"n\":2}")).await.unwrap();
    let order = Seal { ends: Some(RUN), ..seal(&worker(1), 2) };
    let entry = Entry { seals: vec![order], ..empty_entry(2, 1) };
    outbox(&bus).publish(&batch(2, &[entry])).await.unwrap();
    let found = tetrarch_tests::wait::soon("the last one", reading).await.unwrap();
    assert_eq!(found.checkpoint.as_deref(), Some("{\"n\":2}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_journal_is_found_among_others() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let other = Writer { run: RunId(Ulid(78)), ..writer(1) };
    let mut other = JournalWriter::open(bus.clone(), other).await.unwrap();
    assert_eq!(journal_end(&bus, &writer(1).journal(), 20).await.unwrap(), []);
    let mut journal = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    for place in 1..=45u64 {
        for _ in 0..place % 4 {
            other.append(at(0, 0), JournalEvent::Unblocked).await.unwrap();
        }
        journal.append(at(place, 0), JournalEvent::Unblocked).await.unwrap();
        let whole = entries(&bus).await;
        let expected = whole.get(whole.len().saturating_sub(20)..).unwrap();
        assert_eq!(
            journal_end(&bus, &writer(1).journal(), 20).await.unwrap(),
            expected,
            "of {place}"
        );
    }
    other.append(at(0, 0), JournalEvent::Unblocked).await.unwrap();
    let end = journal_end(&bus, &writer(1).journal(), 1).await.unwrap();
    assert_eq!(end.iter().map(|entry| entry.index).collect::<Vec<_>>(), [45]);
    // Whoever may write a journal may also write one whose places do not grow.
    let mut odd = end[0].clone();
    odd.index = 3;
    let payload = codec::encode_journal(&odd).unwrap().into();
    let subject = writer(1).journal().subject().to_string();
    bus.publish_expect(&subject, Default::default(), payload, None).await.unwrap();
    let end = journal_end(&bus, &writer(1).journal(), 2).await.unwrap();
    assert_eq!(end, [odd], "what is not the end is not taken for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_of_the_earlier_layout_are_moved_once_and_whole() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut config = bus.jetstream().get_stream(RUNS).await.unwrap().cached_info().config.clone();
    config.subjects = vec!["run.*".to_owned(), "run.*.*".to_owned()];
    bus.jetstream().update_stream(&config).await.unwrap();
    let writer = writer(1);
    let old = format!("run.{RUN}");
    let mut put = Vec::new();
    for index in 1..=600 {
        let Writer { run, agent, session, epoch } = writer.clone();
        let (positions, event) = (at(index, 0), checkpoint("{}"));
        let entry =
            JournalEntry { run, agent, session, epoch, index, positions, event, then: vec![] };
        let payload = codec::encode_journal(&entry).unwrap();
        // The first ones were moved before somebody cut it off.
        if index <= 3 {
            let subject = writer.journal().subject().to_string();
            bus.publish_expect(&subject, Default::default(), payload.clone().into(), None)
                .await
                .unwrap();
        }
        bus.publish_expect(&old, Default::default(), payload.into(), None).await.unwrap();
        put.push(entry);
    }
    bus.publish_expect("run.nonsense", Default::default(), "?".into(), None).await.unwrap();
    topology::apply(&bus, 1).await.unwrap();
    assert_eq!(move_old(&bus).await.unwrap(), 2);
    assert_eq!(entries(&bus).await, put);
    assert!(bus.last_by_subject(RUNS, &old).await.unwrap().is_none());
    assert_eq!(move_old(&bus).await.unwrap(), 0);
}
