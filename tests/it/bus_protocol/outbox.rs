//! The outbox: repeated from any entry on, it ends in the same.

use std::collections::BTreeMap;
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::client::RawMessage;
use tetrarch_bus::codec;
use tetrarch_bus::state::{self, OwnerMeta, Select};
use tetrarch_bus::subject::{KeyKind, Subject, pattern};
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{HostName, Principal, RunId, SessionId, Ulid};
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::ledger::{Entry, Record, RecordKey, Seal};

use super::{batch, empty_entry, epic, host, info, outbox, plan_event, seal, worker};

async fn stream(bus: &Bus, name: &str) -> Vec<RawMessage> {
    bus.next_by_subject_batch(name, ">", 1, 1_000).await.unwrap()
}

async fn versions(bus: &Bus) -> Vec<(String, u32)> {
    let events = stream(bus, pattern::PLANS).await;
    let version = |m: &RawMessage| codec::decode_plan_event(&m.payload).unwrap().version;
    events.iter().map(|message| (message.subject.clone(), version(message))).collect()
}

fn work() -> Vec<Entry> {
    let to = Principal::from(worker(1));
    (0..5u32)
        .map(|index| Entry {
            intake_seq: u64::from(index) + 10,
            records: vec![host("a", index + 1), host(&format!("h{index}"), 1)],
            mail: vec![info(&to, &format!("{index}.0")), info(&to, &format!("{index}.1"))],
            plans: vec![plan_event(epic(1), index + 1), plan_event(epic(2), index + 1)],
            seals: if index == 0 { vec![seal(&worker(1), 1)] } else { Vec::new() },
            dropped: if index == 4 { vec![key("h0")] } else { Vec::new() },
            ..empty_entry(u128::from(index) + 1, 1)
        })
        .collect()
}

fn key(host: &str) -> RecordKey {
    RecordKey::Host(HostName::new(host).unwrap())
}

async fn hosts(bus: &Bus) -> BTreeMap<String, (u32, u64)> {
    let loaded = state::load(bus).await;
    assert!(loaded.unreadable.is_empty());
    loaded
        .records
        .into_iter()
        .map(|(record, seq)| {
            let Record::Host(host) = record else { panic!("{record:?}") };
            (host.name.to_string(), (host.capacity, seq))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_makes_everything_visible() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    outbox(&bus).publish(&batch(7, &work())).await.unwrap();

    let sealed = tetrarch_bus::cursor::read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    assert_eq!((sealed.0.epoch, sealed.0.claim), (1, None));

    let mail = stream(&bus, pattern::MAIL).await;
    let order: Vec<String> =
        mail.iter().map(|m| m.header("Tetrarch-Seq").unwrap().to_owned()).collect();
    let expected: Vec<String> =
        (7..12).flat_map(|seq| [format!("{seq}.0"), format!("{seq}.1")]).collect();
    assert_eq!(order, expected, "what a recipient gets only grows");

    let found = hosts(&bus).await;
    assert_eq!(found["a"], (5, 11));
    assert_eq!(found["h1"], (1, 8));
    assert!(!found.contains_key("h0"), "dropped");
    let expected = OwnerMeta {
        outbox_through: 11,
        intake_seq: 14,
        owner_epoch: 1,
        ledger_created: "then".to_owned(),
        ledger_high: 11,
        server: "s".to_owned(),
    };
    assert_eq!(state::load(&bus).await.meta, Some(expected));

    let selected = state::read_records(&bus, &[Select::One(key("a"))]).await.unwrap();
    assert_eq!(selected.records.len(), 1);
    let selected = state::read_records(&bus, &[Select::Kind(KeyKind::Host)]).await.unwrap();
    assert_eq!(selected.records.len(), 5);
    let none = state::read_records(&bus, &[Select::OfEpic(KeyKind::Node, epic(1))]).await.unwrap();
    assert!(none.records.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_any_part_changes_nothing() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let all = batch(7, &work());
    outbox(&bus).publish(&all[..3]).await.unwrap();
    // A new owner repeats from further back, and the old one's last batch lands late.
    outbox(&bus).publish(&all[1..]).await.unwrap();
    let before = (versions(&bus).await, hosts(&bus).await, stream(&bus, pattern::MAIL).await.len());
    let cursors = stream(&bus, pattern::CURSORS).await.len();
    for from in 0..all.len() {
        outbox(&bus).publish(&all[..=from]).await.unwrap();
        outbox(&bus).publish(&all[from..]).await.unwrap();
    }
    let after = (versions(&bus).await, hosts(&bus).await, stream(&bus, pattern::MAIL).await.len());
    assert_eq!(after, before);
    assert_eq!(stream(&bus, pattern::CURSORS).await.len(), cursors, "sealed once");
    assert_eq!(before.2, 10, "known again by their ids");
    assert_eq!(state::load(&bus).await.meta.unwrap().outbox_through, 11);

    for number in [1, 2] {
        let created = Subject::PlanCreated(epic(number)).to_string();
        let updated = Subject::PlanUpdated(epic(number)).to_string();
        let of = |subject: &str| -> Vec<u32> {
            before.0.iter().filter(|(s, _)| s == subject).map(|(_, v)| *v).collect()
        };
        assert_eq!(of(&created), [1]);
        assert_eq!(of(&updated), [2, 3, 4, 5], "no repeat, no gap");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_owners_leave_one_line_of_versions() {
    let server = tetrarch_tests::server().await;
    let (one, two) = (server.control().await, server.control().await);
    let entries: Vec<Entry> = (0..40u32)
        .map(|index| Entry {
            plans: vec![plan_event(epic(1), index + 1)],
            records: vec![host("a", index)],
            ..empty_entry(u128::from(index) + 1, 1)
        })
        .collect();
    let all = batch(1, &entries);
    let publish = async |bus: &Bus| {
        let mut outbox = outbox(bus);
        for some in all.chunks(3) {
            outbox.publish(some).await.unwrap();
        }
    };
    tokio::join!(publish(&one), publish(&two));
    let versions: Vec<u32> = versions(&one).await.into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions, (1..=40).collect::<Vec<u32>>());
    assert_eq!(hosts(&one).await["a"], (39, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_owner_does_not_restore_a_dropped_record() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let born = Entry { records: vec![host("a", 1)], ..empty_entry(1, 1) };
    let gone = Entry { dropped: vec![key("a")], ..empty_entry(2, 1) };
    outbox(&bus).publish(&batch(1, &[born.clone(), gone])).await.unwrap();
    outbox(&bus).publish(&batch(1, &[born])).await.unwrap();
    assert!(hosts(&bus).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn outbox_survives_a_server_restart() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let all = batch(1, &work());
    let mut outbox = outbox(&bus);
    outbox.publish(&all[..1]).await.unwrap();
    server.kill().await;
    let publishing = tokio::spawn(async move { outbox.publish(&all[1..]).await });
    server.restart().await;
    super::soon("publishing", publishing).await.unwrap().unwrap();
    assert_eq!(versions(&bus).await.len(), 10);
    assert_eq!(stream(&bus, pattern::MAIL).await.len(), 10);
    assert_eq!(hosts(&bus).await["a"], (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_records_than_one_answer_holds_are_read() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let records = (0..1_100).map(|index| host(&format!("h{index}"), 1)).collect();
    let many = Entry { records, ..empty_entry(1, 1) };
    outbox(&bus).publish(&batch(1, &[many])).await.unwrap();
    let selected = state::read_records(&bus, &[Select::Kind(KeyKind::Host)]).await.unwrap();
    assert_eq!(selected.records.len(), 1_100);
    assert_eq!(hosts(&bus).await.len(), 1_100);
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_record_is_handed_on() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    outbox(&bus)
        .publish(&batch(1, &[Entry { records: vec![host("a", 1)], ..empty_entry(1, 1) }]))
        .await
        .unwrap();
    let subject = Subject::State(key("b")).to_string();
    let revision =
        bus.publish_expect(&subject, Default::default(), "{]".into(), None).await.unwrap();
    let loaded = state::load(&bus).await;
    assert_eq!(loaded.records.len(), 1);
    assert_eq!(loaded.unreadable.len(), 1);
    assert_eq!(
        (&loaded.unreadable[0].subject, loaded.unreadable[0].revision),
        (&subject, revision)
    );
    assert_eq!(loaded.revisions[&subject], revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_with_the_highest_sequence_ends_normally() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let run = RunId(Ulid(1));
    let forged = JournalEntry {
        run,
        agent: worker(1),
        session: SessionId(Ulid(1)),
        epoch: 1,
        index: u64::MAX,
        positions: Positions { mail: u64::MAX, ctl: u64::MAX },
        event: JournalEvent::Log { text: "any host may write here".to_owned() },
        then: vec![],
    };
    let subject = Subject::Run { agent: worker(1), run }.to_string();
    let payload = codec::encode_journal(&forged).unwrap().into();
    bus.publish_expect(&subject, Default::default(), payload, None).await.unwrap();
    let next = Seal { ends: Some(run), ..seal(&worker(1), 2) };
    let sealing = Entry { seals: vec![next], ..empty_entry(1, 1) };
    outbox(&bus).publish(&batch(1, &[sealing])).await.unwrap();
    let journal = stream(&bus, pattern::RUNS).await;
    let last = codec::decode_journal(&journal.last().unwrap().payload).unwrap();
    assert_eq!((last.epoch, last.index), (2, u64::MAX));
    assert!(matches!(last.event, JournalEvent::Ended { .. }), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn record_behind_its_mail_is_waited_for() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let empty = |commit| empty_entry(commit, 1);
    outbox(&bus).publish(&batch(6, &[empty(1)])).await.unwrap();
    let none = state::record_after(&bus, key("a"), 6).await.unwrap();
    assert_eq!(none, None, "everything up to there is recorded, and it is not");

    let mut reading = Box::pin(state::record_after(&bus, key("a"), 11));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut reading).await;
    assert!(early.is_err(), "nobody can know yet: {early:?}");
    outbox(&bus).publish(&batch(7, &work())).await.unwrap();
    let found = tetrarch_tests::wait::soon("the record", reading).await.unwrap();
    assert_eq!(found.map(|record| record.key()), Some(key("a")));

    let dropped = state::record_after(&bus, key("h0"), 11).await.unwrap();
    assert_eq!(dropped, None);
}
