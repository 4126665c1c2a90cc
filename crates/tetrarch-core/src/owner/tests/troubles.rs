//! What is wrong on the bus: what people are told, where reading goes on, and what an accepted
//! ledger is given back.

use std::collections::BTreeMap;

use super::fleet::{Fleet, create, human, tasks};
use crate::id::{AgentId, CommitId, RunId, Ulid};
use crate::ledger::{Entry, Event, EventKind, Record, RecordKey};
use crate::owner::{Frame, Input, restoring};
use crate::records::Records;
use crate::request::{Op, RequestBody};
use crate::share::{Backlog, Holder};
use crate::time::BusTime;
use crate::trouble::{NoCommit, Trouble};

#[test]
fn each_trouble_is_one_alert_with_its_numbers() {
    let mut fleet = Fleet::ready();
    let reason = "why".to_owned();
    for (trouble, words) in [
        (
            Trouble::InboxShrank { inboxes: 3, position: 70, last: 5 },
            "stream.shrank: MAIL ends at 5",
        ),
        (
            Trouble::JournalsLost { runs: 2, first: RunId(Ulid(7)) },
            "stream.shrank: RUNS lacks the journals of 2 runs",
        ),
        (
            Trouble::CursorsLost { agents: 2, first: AgentId::Go },
            "stream.shrank: CURSORS lacks those of 2 agents that have begun, GO among them",
        ),
        (
            Trouble::NoCommits {
                cause: NoCommit::Deposed,
                count: 2,
                first: 9,
                reason: reason.clone(),
            },
            "ledger.invalid: 2 messages of the ledger, the first at 9,",
        ),
        (Trouble::StateMended { written: 2, dropped: 1, reason }, "state.mended: STATE differed"),
        (
            Trouble::OverShare {
                senders: vec![(Holder::Own(human()), 12), (Holder::Host("h1".parse().unwrap()), 3)],
                rate: 100,
            },
            "share.exceeded: 2 senders asked for more than 100 a second, and what was beyond that was \
             not decided on: human:Shai (12), HO@h1 (3)",
        ),
        (
            Trouble::MailDropped { senders: vec![(human(), 12)] },
            "mail.dropped: mail was dropped that went to agents that there are none of, or that filled \
             MAIL: of human:Shai (12)",
        ),
        (
            Trouble::JournalsDropped { agent: "PO-out".parse().unwrap(), entries: 70_000 },
            "journals.dropped: the journals of PO-out filled RUNS and were dropped, 70000 entries",
        ),
        (
            Trouble::MailUnread {
                backlogs: vec![Backlog { reader: AgentId::Go, from: human(), count: 10_001 }],
            },
            "mail.unread: agents have more than 10000 messages of one sender unread, whose requests are \
             refused until they are read: GO has 10001 of human:Shai",
        ),
    ] {
        let entry = fleet.one(Input::Trouble(trouble));
        let [told] = &entry.events[..] else { panic!("{entry:?}") };
        assert_eq!(told.kind, EventKind::Alert);
        assert!(told.reason.starts_with(words), "{told:?}");
    }
}

#[test]
fn sequence_restarts_with_a_recreated_request_stream() {
    let mut fleet = Fleet::ready();
    let decided = fleet.records.intake_seq;
    assert!(decided > 1);
    let moved = fleet.one(Input::Trouble(Trouble::IntakeShrank { decided, last: 1 }));
    assert_eq!((moved.intake_seq, fleet.records.intake_seq), (1, 1));
    let mut asked = fleet.ask(&human(), RequestBody::Op(Op::ProjectCreate(create(false))));
    asked.seq = 2;
    let after = fleet.one(Input::Request(Box::new(asked)));
    assert_eq!((after.intake_seq, fleet.records.intake_seq), (2, 2));
}

fn images(records: &Records, keys: &[RecordKey]) -> BTreeMap<RecordKey, Record> {
    let all = records.agents.values().map(|agent| Record::Agent(Box::new(agent.clone())));
    let hosts = records.hosts.values().map(|host| Record::Host(host.clone()));
    let all = all.chain(hosts).map(|record| (record.key(), record));
    all.filter(|(key, _)| !keys.contains(key)).collect()
}

#[test]
fn accepted_ledger_gets_back_what_state_still_has() {
    let (fleet, _) = Fleet::with_goal(tasks(2));
    let state = images(&fleet.records, &[]);
    let keys: Vec<RecordKey> = state.keys().cloned().collect();
    let known = images(&fleet.records, &keys[..1]);
    let event = Event {
        kind: EventKind::LedgerAccepted,
        actor: human(),
        agent: None,
        run: None,
        epic: None,
        node: None,
        request: None,
        reason: "through 7".to_owned(),
        rule: "02 Amnesia guard".to_owned(),
    };
    let frame = Frame { epoch: fleet.records.epoch, at: BusTime(9), intake_seq: 4, event };
    let commit = |place| CommitId(Ulid(place as u128 + 1));
    let fold = |ledger: &BTreeMap<RecordKey, Record>, entries: &[Entry]| {
        let mut after = ledger.clone();
        for entry in entries {
            assert!(entry.tells(EventKind::LedgerAccepted));
            entry.dropped.iter().for_each(|key| drop(after.remove(key)));
            after.extend(entry.records.iter().map(|record| (record.key(), record.clone())));
        }
        after
    };
    for (ledger, state) in [
        (BTreeMap::new(), state.clone()),
        (known.clone(), state.clone()),
        (state.clone(), known),
        (state.clone(), BTreeMap::new()),
        (state.clone(), state.clone()),
    ] {
        let entries = restoring(&ledger, &state, &frame, commit);
        assert!(!entries.is_empty(), "that it was accepted is told in any case");
        assert_eq!(fold(&ledger, &entries), state);
    }
    let whole = restoring(&BTreeMap::new(), &state, &frame, commit);
    let mut records = Records::default();
    for entry in &whole {
        records.apply(entry);
    }
    assert_eq!(records.agents, fleet.records.agents);
}

#[test]
fn restored_records_are_split_to_fit_entries() {
    let (fleet, _) = Fleet::with_goal(tasks(1));
    let mut state = BTreeMap::new();
    let sample = fleet.records.profiles.iter().next().map(|(key, profile)| (key.clone(), profile));
    let ((project, _), sample) = sample.unwrap();
    for number in 0..20 {
        let name = crate::id::ProfileName::new(&format!("p{number}")).unwrap();
        let profile = crate::agent::Profile { name, prompt: "x".repeat(40_000), ..sample.clone() };
        let record = Record::Profile(project.clone(), Box::new(profile));
        state.insert(record.key(), record);
    }
    let actor = human();
    let event = Event {
        kind: EventKind::LedgerAccepted,
        actor,
        agent: None,
        run: None,
        epic: None,
        node: None,
        request: None,
        reason: String::new(),
        rule: String::new(),
    };
    let frame = Frame { epoch: 1, at: BusTime(1), intake_seq: 0, event };
    let entries =
        restoring(&BTreeMap::new(), &state, &frame, |place| CommitId(Ulid(place as u128)));
    let counts: Vec<usize> = entries.iter().map(|entry| entry.records.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 20);
    assert!(counts.iter().all(|count| (1..=8).contains(count)), "{counts:?}");
    let ids: std::collections::BTreeSet<_> = entries.iter().map(|entry| entry.commit).collect();
    assert_eq!(ids.len(), entries.len());
}
