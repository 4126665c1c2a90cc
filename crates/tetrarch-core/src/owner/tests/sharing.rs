//! Records that keep others, since nobody looks for those by themselves: decisions on requests of agents, and
//! the first launch of an assignment (spec 02, Few messages).

use super::fleet::{Fleet, human, po, request, tasks, wish};
use crate::dispatch::{DispatchMode, DispatchOutcome};
use crate::ledger::{Decision, Entry, Record, RecordKey};
use crate::limits::RECORD_BYTES_MAX;
use crate::owner::{Input, weight};
use crate::request::{Op, Request, RequestBody};
use crate::role::Role;
use crate::time::{BusTime, Millis};

fn decisions(entry: &Entry) -> Vec<Decision> {
    let decided = entry.records.iter().filter_map(|record| {
        if let Record::Decision(decision) = record { Some((**decision).clone()) } else { None }
    });
    decided.collect()
}

/// A fleet, and requests of its orchestrator, each for one worker.
fn asked(count: usize) -> (Fleet, Vec<Request>) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let ask = |_| {
        let wanted = request(epic, "-", vec![wish(Role::Worker)]);
        fleet.ask(&po().into(), RequestBody::Spawn(wanted))
    };
    let asked = (0..count).map(ask).collect();
    (fleet, asked)
}

fn inputs(asked: &[Request]) -> Vec<Input> {
    asked.iter().map(|request| Input::Request(Box::new(request.clone()))).collect()
}

#[test]
fn decisions_of_one_commit_on_requests_of_agents_share_a_record() {
    let (mut fleet, asked) = asked(3);
    let before = fleet.records.decisions.len();
    let retired =
        fleet.ask(&human(), RequestBody::Op(Op::ProjectRetire { project: "x".parse().unwrap() }));
    let mut all = inputs(&asked);
    all.insert(1, Input::Request(Box::new(retired.clone())));
    let entry = fleet.group(all);
    let decided = decisions(&entry);
    let kept = |request: &Request| decided.iter().find(|it| it.request == request.id);
    assert_eq!(decided.len(), 2, "{decided:?}");
    assert_eq!(kept(&asked[0]).unwrap().also.len(), 2);
    assert_eq!(kept(&retired).unwrap().also, [], "people look for theirs");
    assert_eq!(fleet.records.decisions.len(), before + 4, "each is known by its own id");

    for (again, first) in inputs(&asked).into_iter().zip(0..) {
        let entry = fleet.one(again);
        let answers = entry.mail.iter().filter(|mail| mail.correlation == Some(asked[first].id));
        assert_eq!(answers.count(), 1, "{entry:?}");
        assert_eq!(decisions(&entry), [], "it was decided before");
    }
}

#[test]
fn shared_record_is_bounded_and_forgotten_as_one() {
    let (mut fleet, asked) = asked(100);
    let entry = fleet.group(inputs(&asked));
    let decided = decisions(&entry);
    assert!(decided.len() > 1 && decided.len() < 10, "{}", decided.len());
    for decision in &decided {
        assert!(weight::decision(decision) <= RECORD_BYTES_MAX / 2);
    }
    let each = decided.iter().flat_map(|decision| decision.clone().each());
    assert_eq!(each.count(), asked.len());
    fleet.policy.kept.decisions = Millis(1_000);
    fleet.now = BusTime(fleet.now.0 + 1_001);
    let entry = fleet.one(Input::Tick);
    assert!(fleet.records.decisions.is_empty());
    let dropped = |key: &RecordKey| matches!(key, RecordKey::Decision(_));
    let dropped = entry.dropped.iter().filter(|key| dropped(key)).count();
    assert!(dropped < 20, "{dropped}");
}

#[test]
fn first_launch_is_kept_in_its_assignment_and_a_later_one_by_itself() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let of = fleet.agent(&worker).work.as_ref().unwrap().assignment;
    let launch = fleet.records.assignments[&of].launch.clone().unwrap();
    assert_eq!((launch.mode, launch.outcome), (DispatchMode::Spawn, DispatchOutcome::Ok));
    assert_eq!(fleet.records.dispatches[&launch.id], *launch);
    let written = |fleet: &Fleet| {
        let records = fleet.ledger.iter().flat_map(|entry| &entry.records);
        records.filter(|record| matches!(record, Record::Dispatch(_))).count()
    };
    assert_eq!(written(&fleet), 0);
    let cause = "signal 9".to_owned();
    fleet.report(&worker, crate::request::Report::Crashed { cause });
    assert_eq!(written(&fleet), 1, "its second launch");
    assert_eq!(fleet.records.assignments[&of].launch, Some(launch), "the first one stays");
    assert_eq!(fleet.records.dispatched_for(of).count(), 2);
}
