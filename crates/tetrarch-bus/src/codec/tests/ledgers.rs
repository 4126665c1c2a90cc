//! What the system writes for itself: entries, records, plan events, cursors, journals, leases.

use prost::Message as _;
use serde_json::Value;
use tetrarch_core::budget::{Counter, Spend};
use tetrarch_core::converse::{Call, Recorded};
use tetrarch_core::cursor::{Claim, Cursor, Positions, Trials};
use tetrarch_core::held::{Held, Unread};
use tetrarch_core::id::AgentId;
use tetrarch_core::journal::{BudgetNote, JournalEntry, JournalEvent};
use tetrarch_core::ledger::{Entry, Event, EventKind, Record, RecordKey, Seal};
use tetrarch_core::limits::{COMMIT_BYTES_MAX, RECORD_BYTES_MAX, SNAPSHOT_PART_BYTES};
use tetrarch_core::mail::MailBody;
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::snapshot::Snapshot;
use tetrarch_core::time::BusTime;
use tetrarch_core::verb::{Stage, Verb};

use super::samples::planning::review;
use super::samples::{TRACE, id, limits, mail, plan_event, records, result, usage, words};
use crate::codec::packed::unpack;
use crate::codec::*;
use crate::proto::v1 as pb;
use crate::subject::Subject;
use crate::subject::key::parse_record_key;

fn place(key: &RecordKey) -> String {
    Subject::State(key.clone()).to_string()
}

fn entry(full: bool) -> Entry {
    let event = |kind| Event {
        kind,
        actor: id("GO"),
        agent: full.then(|| id("W:~")),
        run: full.then(|| id("run_~")),
        epic: full.then(|| id("goal_~")),
        node: full.then(|| id("S1.2.3")),
        request: full.then(|| id("~")),
        reason: "three of three".to_owned(),
        rule: "03".to_owned(),
    };
    let seal = Seal {
        agent: id("W:~"),
        session: id("~"),
        epoch: 2,
        run: full.then(|| id("run_~")),
        ends: full.then(|| id("run_~")),
        blames: full,
    };
    let records = records(full);
    Entry {
        commit: id("~"),
        epoch: 7,
        at: BusTime(123),
        intake_seq: u64::MAX,
        events: EventKind::ALL.into_iter().map(event).collect(),
        held: Vec::new(),
        dropped: records.iter().map(tetrarch_core::ledger::Record::key).collect(),
        records,
        seals: vec![seal],
        mail: vec![mail(full, MailBody::Info { text: "x".to_owned() })],
        plans: vec![PlanEvent { nodes: Vec::new(), ..plan_event(full) }],
        reviews: vec![review(full)],
    }
}

/// A snapshot's record.
pub(super) fn snapshot(full: bool) -> Snapshot {
    Snapshot {
        through: 9,
        epoch: 2,
        intake_seq: 7,
        at: BusTime(1),
        records: 3,
        bytes: 4_000,
        parts: words("a b"),
        before: if full { words("c") } else { Vec::new() },
    }
}

#[test]
fn entry_round_trips() {
    for full in [true, false] {
        let entry = entry(full);
        let bytes = encode_entry(&entry).unwrap();
        assert_eq!(decode_entry(&bytes).unwrap(), entry);
        assert_eq!(encode_entry(&entry).unwrap(), bytes, "the same entry, the same bytes");
    }
}

#[test]
fn records_round_trip_as_state_values() {
    for record in [records(true), records(false)].concat() {
        let key = record.key();
        let bytes = record_json(&record, 17).unwrap();
        assert_eq!(record_from_json(&place(&key), &bytes).unwrap(), (record, 17), "{key:?}");
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["ledgerSeq"], "17");
        assert_eq!(value["schemaVersion"], 1);
        assert_eq!(value["minReaderVersion"], Value::Null, "every version reads it");
        let root = matches!(key, RecordKey::Agent(_)).then_some("GO");
        assert_eq!(value["root"].as_str(), root, "{key:?}");
        let mut newer = value.clone();
        newer["addedLater"] = Value::Bool(true);
        assert!(record_from_json(&place(&key), newer.to_string().as_bytes()).is_ok(), "{key:?}");
        newer["minReaderVersion"] = 2.into();
        let got = record_from_json(&place(&key), newer.to_string().as_bytes());
        assert!(matches!(got, Err(CodecError::TooNew { needs: 2, reads: 1, .. })), "{got:?}");
    }
}

#[test]
fn snapshot_part_round_trips() {
    let placed: Vec<_> = records(true).into_iter().zip(5..).collect();
    let mut part = PartBuilder::default();
    assert!(part.is_empty());
    for (record, seq) in &placed {
        part.add(record, *seq).unwrap();
    }
    assert!(!part.is_full());
    let bytes = part.take();
    assert!(part.is_empty());
    let contents = PartContents { records: placed.clone(), held: Vec::new() };
    assert_eq!(decode_part(&bytes).unwrap(), contents);
    assert!(decode_part(&bytes[..bytes.len() - 1]).is_err(), "cut short");
    let (record, _) = &placed[4];
    while !part.is_full() {
        part.add(record, 1).unwrap();
    }
    let size = part.take().len();
    assert!((SNAPSHOT_PART_BYTES..SNAPSHOT_PART_BYTES * 2).contains(&size), "{size}");
}

#[test]
fn value_under_another_records_key_is_refused() {
    let record = records(true).remove(0);
    let bytes = record_json(&record, 1).unwrap();
    let key = RecordKey::Agent(AgentId::Go);
    let error = record_from_json(&place(&key), &bytes).unwrap_err();
    assert!(matches!(&error, CodecError::Field { field, .. } if field == "agent.GO"), "{error}");
    let key = parse_record_key("host.h1").unwrap();
    let error = record_from_json(&place(&key), &bytes).unwrap_err();
    assert_eq!(error.to_string(), "name is missing");
}

#[test]
fn unknown_word_in_a_record_is_named() {
    let record = records(true).remove(0);
    let mut value: Value = serde_json::from_slice(&record_json(&record, 1).unwrap()).unwrap();
    value["liveness"] = "asleep".into();
    let error = record_from_json(&place(&record.key()), value.to_string().as_bytes()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("liveness:") && text.contains("offline"), "{text}");
}

#[test]
fn newer_entry_version_differs_from_a_broken_entry() {
    let mut message =
        pb::Entry::decode(&*unpack(&encode_entry(&entry(true)).unwrap()).unwrap()).unwrap();
    message.records[3].key = String::new();
    message.records[3].min_reader_version = 9;
    let got = decode_entry(&message.encode_to_vec());
    assert!(matches!(got, Err(CodecError::TooNew { needs: 9, .. })), "{got:?}");
    message.records[3].min_reader_version = 1;
    message.records[3].record = None;
    let got = decode_entry(&message.encode_to_vec());
    assert!(matches!(got, Err(CodecError::TooNew { .. })), "{got:?}");
}

#[test]
fn undecodable_record_leaves_its_entry_readable() {
    let whole = entry(true);
    let sound = pb::Entry::decode(&*unpack(&encode_entry(&whole).unwrap()).unwrap()).unwrap();
    let spoiled = |spoil: &dyn Fn(&mut pb::Entry)| {
        let mut message = sound.clone();
        spoil(&mut message);
        decode_entry(&message.encode_to_vec())
    };
    let newer = Unread::Newer { needs: 9, reads: 1 };
    let got = spoiled(&|message| message.records[3].min_reader_version = 9).unwrap();
    let key = whole.records[3].key();
    let name = sound.records[3].key.clone();
    assert_eq!(got.held, [Held { name, key: Some(key), why: newer.clone() }]);
    assert_eq!(got.records.len() + 1, whole.records.len());
    assert!(encode_entry(&got).is_err(), "it would be lost");
    let got = spoiled(&|message| {
        let future = pb::Record {
            key: "dream.x".to_owned(),
            min_reader_version: 9,
            ..pb::Record::default()
        };
        message.records.push(future);
        message.dropped.push("dream.y".to_owned());
        message.events[0].kind = "dream.dreamt".to_owned();
    });
    let got = got.unwrap();
    assert_eq!(got.held, [Held { name: "dream.x".to_owned(), key: None, why: newer }]);
    let rest = (got.events.len(), &got.records, &got.dropped);
    assert_eq!(rest, (whole.events.len() - 1, &whole.records, &whole.dropped));
    let broken = |key: &'static str| {
        move |message: &mut pb::Entry| {
            message.records[1].record = Some(pb::record::Record::Host(pb::Host::default()));
            message.records[1].key = key.to_owned();
        }
    };
    let got = spoiled(&broken("host.h1")).unwrap();
    let [Held { name, key: Some(_), why: Unread::Undecodable { reason } }] = &got.held[..] else {
        panic!("{:?}", got.held)
    };
    assert!(name == "host.h1" && reason.contains("name"), "{name}: {reason}");
    for key in ["", "dream.x", "host", "host.a b", ".."] {
        let error = spoiled(&broken(key)).unwrap_err();
        assert!(error.to_string().starts_with("records[1]"), "{key}: {error}");
    }
    assert!(spoiled(&|message| message.dropped.push("host.a b".to_owned())).is_err());
}

#[test]
fn placeholder_of_an_oversized_record_is_no_record() {
    for (why, needs) in [
        (Unread::Newer { needs: 9, reads: 1 }, 9),
        (Unread::Undecodable { reason: String::new() }, 1),
    ] {
        for record in records(true) {
            let key = record.key();
            let name = crate::subject::key::record_key(&key);
            let held = Held { name, key: Some(key.clone()), why: why.clone() };
            let bytes = held_json(&held, 17).unwrap();
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["minReaderVersion"], needs);
            assert!(record_from_json(&place(&key), &bytes).is_err(), "{key:?}");
        }
    }
    let foreign = r#"{"minReaderVersion":9}"#;
    let got = record_from_json("$KV.STATE.dream.x", foreign.as_bytes());
    assert!(matches!(got, Err(CodecError::TooNew { needs: 9, .. })), "{got:?}");
}

#[test]
fn version_0_assignment_is_upgraded() {
    let mut known = records(true).into_iter();
    let record = known.find(|record| matches!(record, Record::Assignment(_))).unwrap();
    let mut value: Value = serde_json::from_slice(&record_json(&record, 1).unwrap()).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove("recovery").unwrap();
    let read =
        |value: &Value| record_from_json(&place(&record.key()), value.to_string().as_bytes());
    assert_eq!(read(&value).unwrap_err().to_string(), "recovery is missing");
    value.as_object_mut().unwrap().remove("schemaVersion").unwrap();
    let (Record::Assignment(read), 1) = read(&value).unwrap() else { panic!("it is one") };
    assert_eq!(read.recovery.dispatched, read.updated);
}

#[test]
fn oversized_entry_or_record_is_refused_by_name() {
    let mut large = entry(false);
    large.events[0].reason = "x".repeat(COMMIT_BYTES_MAX);
    let got = encode_entry(&large);
    assert!(matches!(&got, Err(CodecError::TooLarge { what, .. }) if what == "commit"), "{got:?}");
    let got = decode_entry(&vec![0; COMMIT_BYTES_MAX + 1]);
    assert!(matches!(got, Err(CodecError::TooLarge { .. })), "{got:?}");
    let mut large = entry(false);
    if let Some(tetrarch_core::ledger::Record::Host(host)) = large.records.get_mut(1) {
        host.address = "x".repeat(RECORD_BYTES_MAX);
    }
    let got = encode_entry(&large);
    assert!(matches!(&got, Err(CodecError::TooLarge { what, .. }) if what == "host.h1"), "{got:?}");
}

#[test]
fn plan_events_round_trip_and_ignore_unknown_fields() {
    for full in [true, false] {
        let event = plan_event(full);
        let bytes = encode_plan_event(&event).unwrap();
        assert_eq!(decode_plan_event(&bytes).unwrap(), event);
    }
    let bytes = encode_plan_event(&plan_event(true)).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["traceId"], TRACE.split('-').nth(1).unwrap());
    assert_eq!(value["workspaceId"], "demo");
    value["nodes"][0]["colour"] = "red".into();
    assert!(decode_plan_event(value.to_string().as_bytes()).is_ok());
}

#[test]
fn cursors_round_trip() {
    for full in [true, false] {
        let claim = Claim { host: id("h1"), host_epoch: 3, instance: "i".to_owned() };
        let cursor = Cursor {
            agent: id("W:~"),
            session: id("~"),
            epoch: 2,
            positions: Positions { mail: u64::MAX, ctl: 0 },
            run: full.then(|| id("run_~")),
            claim: full.then_some(claim),
            trials: if full {
                Trials { in_hand: [7, u64::MAX].into(), failures: [(8, 1), (u64::MAX, 6)].into() }
            } else {
                Trials::default()
            },
            receipts: full.then_some(u64::MAX),
        };
        let bytes = encode_cursor(&cursor).unwrap();
        assert_eq!(decode_cursor(&bytes).unwrap(), cursor);
    }
}

fn journal_events() -> Vec<JournalEvent> {
    let spend = || Spend { tokens: 7, cost_micro: 8, turns: 9 };
    let text = || "t\n".to_owned();
    vec![
        JournalEvent::Starting { host: text() },
        JournalEvent::Started { pid: Some(1), isolation: text() },
        JournalEvent::Started { pid: None, isolation: String::new() },
        JournalEvent::Progress { text: text(), done: Some(0), total: Some(9) },
        JournalEvent::Progress { text: String::new(), done: None, total: None },
        JournalEvent::Log { text: text() },
        JournalEvent::Usage(usage()),
        JournalEvent::Checkpoint { state: "{\"at\":1}".to_owned() },
        JournalEvent::Ask { question: text(), options: words("yes no") },
        JournalEvent::Spawn { request: id("~") },
        JournalEvent::Mail { topic: text(), from: text() },
        JournalEvent::Update { update: "{}".to_owned() },
        JournalEvent::Blocked { reason: text() },
        JournalEvent::Unblocked,
        JournalEvent::Budget(BudgetNote::Before { spent: spend() }),
        JournalEvent::Budget(BudgetNote::SetAside { call: text(), worst: spend() }),
        JournalEvent::Budget(BudgetNote::Spent { call: text(), used: Spend::default() }),
        JournalEvent::Budget(BudgetNote::Warning {
            counter: Counter::CostMicro,
            used: 8,
            limit: 10,
        }),
        JournalEvent::Budget(BudgetNote::Raised {
            limit: limits(),
            by: id("human:ada"),
            reason: text(),
        }),
        JournalEvent::Returned { times: 2, errors: text() },
        JournalEvent::Verb {
            id: id("~"),
            verb: Verb::Steer,
            stage: Stage::Refused,
            by: text(),
            text: text(),
        },
        JournalEvent::Conversed(Box::new(Recorded::Turn {
            step: 1,
            text: text(),
            calls: vec![Call { id: text(), tool: text(), arguments: "{}".to_owned() }],
            is_cut: true,
        })),
        JournalEvent::Conversed(Box::new(Recorded::Intent { step: 1, index: 2, tool: text() })),
        JournalEvent::Conversed(Box::new(Recorded::Answer {
            step: 1,
            index: 2,
            text: text(),
            is_error: true,
            letter: 7,
        })),
        JournalEvent::Conversed(Box::new(Recorded::Heard { text: text(), letter: 8 })),
        JournalEvent::Conversed(Box::new(Recorded::Summary { step: 1, text: text(), letter: 9 })),
        JournalEvent::Stopping { reason: text() },
        JournalEvent::Result(Box::new(result())),
        JournalEvent::Ended { cause: text() },
    ]
}

#[test]
fn journal_entries_round_trip() {
    for event in journal_events() {
        let entry = JournalEntry {
            run: id("run_~"),
            agent: id("W:~"),
            session: id("~"),
            epoch: 2,
            index: 5,
            positions: Positions { mail: 1, ctl: 2 },
            event,
            then: vec![],
        };
        let bytes = encode_journal(&entry).unwrap();
        assert_eq!(decode_journal(&bytes).unwrap(), entry);
        let all = JournalEntry { then: journal_events(), ..entry.clone() };
        let read = decode_journal(&encode_journal(&all).unwrap()).unwrap();
        assert_eq!(read, all);
        let each: Vec<JournalEntry> = read.each().collect();
        assert_eq!(each.len(), 1 + journal_events().len());
        assert_eq!(each[0], entry);
        assert_eq!(each.last().unwrap().event, *all.last());
    }
    let head = r#"{"run":"run_~","agent":"W:~","session":"~","epoch":2,"index":5"#;
    let head = head.replace('~', super::samples::U);
    let unknown = decode_journal(format!("{head},\"danced\":{{}}}}").as_bytes());
    assert!(unknown.unwrap_err().to_string().starts_with("event:"));
    let foreign = format!("{head},\"checkpoint\":{{\"state\":{{\"at\":1}}}}}}");
    let state = JournalEvent::Checkpoint { state: "{\"at\":1}".to_owned() };
    assert_eq!(decode_journal(foreign.as_bytes()).unwrap().event, state);
}
