//! Ended runs' journals are kept as artifacts, each noted once with what it ended with.

use super::fleet::{Fleet, po, success, tasks};
use crate::id::{AgentId, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{ARCHIVE_GATHERS, ARCHIVED_MAX, ENDED_KEPT, JOURNAL_ENDS_WITHIN};
use crate::owner::{Archived, Failures, Input, Unarchived};
use crate::records::Records;
use crate::request::{Op, Report};
use crate::run::RunState;
use crate::time::BusTime;

fn unarchived(records: &Records, now: BusTime) -> Vec<Unarchived> {
    crate::owner::unarchived(records, &Failures::default(), now)
}

fn kept(run: RunId, digit: &str) -> Input {
    Input::Archived(Archived { run, sha256: digit.repeat(64) })
}

/// A fleet with a worker at work.
fn working() -> (Fleet, AgentId, RunId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let agent = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&agent);
    (fleet, agent, run)
}

#[test]
fn ended_run_is_archived_and_overdue_after_its_writers_grace() {
    let (mut fleet, agent, run) = working();
    let session = fleet.agent(&agent).session.unwrap();
    assert_eq!(unarchived(&fleet.records, fleet.now), [], "it has not ended");
    fleet.end(&agent, success("done"));
    let since = fleet.records.run_status[&run].since;
    let found = |now: BusTime| unarchived(&fleet.records, now);
    let due = |overdue| Unarchived { run, agent: agent.clone(), session, epoch: 1, overdue };
    assert_eq!(found(since), [due(false)]);
    assert_eq!(found(BusTime((since + JOURNAL_ENDS_WITHIN).0 - 1)), [due(false)]);
    assert_eq!(found(since + JOURNAL_ENDS_WITHIN), [due(true)]);
    let entry = fleet.one(kept(run, "a"));
    assert_eq!(entry.records.len(), 1, "{:?}", entry.records);
    assert!(entry.events.is_empty() && entry.mail.is_empty() && entry.seals.is_empty());
    assert_eq!(unarchived(&fleet.records, since + JOURNAL_ENDS_WITHIN), []);
    let status = &fleet.records.run_status[&run];
    assert_eq!((status.archive.clone(), status.since), (Some("a".repeat(64)), since));
}

#[test]
fn archive_location_is_recorded_once_for_ended_runs_only() {
    let (mut fleet, agent, run) = working();
    let before = fleet.ledger.len();
    assert!(fleet.one(kept(run, "a")).records.is_empty(), "it has not ended");
    fleet.end(&agent, success("done"));
    fleet.one(kept(run, "b"));
    assert!(fleet.one(kept(run, "c")).records.is_empty(), "another owner was first");
    assert_eq!(fleet.records.run_status[&run].archive, Some("b".repeat(64)));
    assert!(fleet.ledger.len() > before);
    fleet.now = BusTime(fleet.now.0 + ENDED_KEPT.0 + 1);
    let entry = fleet.one(Input::Tick);
    let milestone = entry.events.iter().find(|event| event.kind == EventKind::RunArchived);
    let reason = &milestone.unwrap().reason;
    assert!(reason.ends_with(&format!("its journal is artifact {}", "b".repeat(64))), "{reason}");
    assert!(fleet.one(kept(run, "b")).records.is_empty(), "it is forgotten");
    assert_eq!(unarchived(&fleet.records, fleet.now), []);
}

#[test]
fn lost_and_abandoned_runs_are_archived_too() {
    let (mut fleet, agent, lost) = working();
    fleet.report(&agent, Report::Crashed { cause: "signal 9".to_owned() });
    let next = fleet.run_of(&agent);
    let runs = |fleet: &Fleet| {
        unarchived(&fleet.records, fleet.now).into_iter().map(|it| it.run).collect::<Vec<_>>()
    };
    assert_eq!(runs(&fleet), [lost]);
    fleet.one(kept(lost, "a"));
    fleet.op(&super::fleet::human(), Op::AgentRetire { agent: po(), reason: String::new() });
    assert_eq!(fleet.records.run_status[&next].state, RunState::Orphaned);
    assert_eq!(runs(&fleet), [next], "nobody goes on from it");
}

/// So many runs that ended a millisecond after one that did.
fn ended_after(records: &mut Records, run: RunId, count: usize) {
    let (sample, status) = (records.runs[&run].clone(), records.run_status[&run].clone());
    for number in 1..=count as u128 {
        let mut id = run;
        id.0.0 ^= number;
        let since = BusTime(status.since.0 + 1);
        let status = crate::run::RunStatus { id, since, ..status.clone() };
        records.put(Record::Run(Box::new(crate::run::Run { id, ..sample.clone() })));
        records.put(Record::RunStatus(Box::new(status)));
    }
}

#[test]
fn journals_wait_for_company_until_a_time_or_a_number() {
    let (mut fleet, agent, run) = working();
    let at = |fleet: &Fleet, failures: &Failures| {
        crate::owner::archiving_at(&fleet.records, failures, fleet.now)
    };
    let mut failures = Failures::default();
    assert_eq!(at(&fleet, &failures), None, "nothing is there to keep");
    fleet.end(&agent, success("done"));
    let gathered = fleet.records.run_status[&run].since + ARCHIVE_GATHERS;
    assert_eq!(at(&fleet, &failures), Some(gathered));
    ended_after(&mut fleet.records, run, ARCHIVED_MAX - 2);
    assert_eq!(at(&fleet, &failures), Some(gathered), "the longest of them all");
    // What failed is tried again at its time, and is no company until then.
    failures.note(&[run], &[], fleet.now);
    assert_eq!(at(&fleet, &failures), Some(BusTime(fleet.now.0 + 1_000)));
    ended_after(&mut fleet.records, run, ARCHIVED_MAX - 1);
    assert_eq!(at(&fleet, &failures), Some(BusTime(fleet.now.0 + 1_000)));
    ended_after(&mut fleet.records, run, ARCHIVED_MAX);
    assert_eq!(at(&fleet, &failures), Some(fleet.now), "no more would share an artifact");
    fleet.now = gathered;
    assert!(at(&fleet, &Failures::default()) <= Some(fleet.now));
}

#[test]
fn archiving_is_portioned_oldest_end_first() {
    let (mut fleet, agent, run) = working();
    fleet.end(&agent, success("done"));
    ended_after(&mut fleet.records, run, ARCHIVED_MAX);
    let found = unarchived(&fleet.records, fleet.now);
    assert_eq!((found.len(), found[0].run), (ARCHIVED_MAX, run));
    let tried: Vec<RunId> = found.iter().map(|it| it.run).collect();
    let mut failures = Failures::default();
    let mut now = fleet.now;
    for wait in [1_000, 2_000, 4_000] {
        failures.note(&tried, &[], now);
        let others = crate::owner::unarchived(&fleet.records, &failures, now);
        assert_eq!(others.len(), 1, "what always fails holds no place: {others:?}");
        let at =
            |ms| crate::owner::unarchived(&fleet.records, &failures, BusTime(now.0 + ms)).len();
        assert_eq!((at(wait - 1), at(wait)), (1, ARCHIVED_MAX));
        now = BusTime(now.0 + wait);
    }
    for _ in 0..40 {
        failures.note(&tried, &[], now);
    }
    let late = BusTime(now.0 + 300_000);
    assert_eq!(crate::owner::unarchived(&fleet.records, &failures, late).len(), ARCHIVED_MAX);
    let first = [Archived { run, sha256: "a".repeat(64) }];
    failures.note(&[run], &first, now);
    let due = crate::owner::unarchived(&fleet.records, &failures, now);
    assert_eq!(due[0].run, run, "of what is kept no failure is remembered");
}
