//! Too many deaths: below one parent, or of one task (spec 04, Restart intensity).

use super::fleet::{Fleet, human, po, reply, request, tasks, topics, wish};
use crate::error::ErrorCode;
use crate::id::AgentId;
use crate::ledger::Entry;
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::obstacle::{ObstacleKind, Telemetry, of_fleet};
use crate::owner::{Input, is_due};
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;

fn launches(entry: &Entry) -> usize {
    entry.mail.iter().filter(|mail| matches!(mail.body, MailBody::Launch(_))).count()
}

/// A worker that dies this often, each time in its next session.
fn dies(fleet: &mut Fleet, worker: &AgentId, times: usize) -> Entry {
    let mut last = None;
    for _ in 0..times {
        let cause = "signal 11".to_owned();
        last = Some(fleet.report(worker, Report::Crashed { cause }));
    }
    last.unwrap()
}

#[test]
fn too_many_deaths_open_the_parents_circuit_with_one_alert() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let (worker, other) = (fleet.worker(epic, "T1.1"), fleet.worker(epic, "T1.2"));
    let borne = dies(&mut fleet, &worker, 3);
    assert_eq!(launches(&borne), 1, "three are borne");
    assert!(!fleet.agent(&po()).circuit.is_open());

    let entry = dies(&mut fleet, &worker, 1);
    assert!(fleet.agent(&po()).circuit.is_open());
    assert_eq!(fleet.agent(&po()).circuit.cause, "signal 11");
    assert_eq!(launches(&entry), 0);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline, "it waits");
    let alerts = |entry: &Entry| {
        entry.events.iter().filter(|e| e.reason.starts_with("circuit.open")).count()
    };
    assert_eq!(alerts(&entry), 1);
    assert_eq!(topics(&entry, &other), Vec::<String>::new(), "the others go on");
    assert_eq!(fleet.agent(&other).liveness, Liveness::Active);
    let answer = fleet.spawn(&po(), request(epic, "T1.3", vec![wish(Role::Worker)]));
    assert_eq!(answer.denied[0].reason.as_str(), "circuit_open");

    let later = dies(&mut fleet, &other, 1);
    assert_eq!(alerts(&later), 0, "it is open already");
    assert_eq!(launches(&later), 0);
    assert!(!is_due(&fleet.records, &fleet.policy), "nobody is taken while it is open");
    let held = of_fleet(&fleet.records, &Telemetry { owner: true, halted: None });
    let circuits: Vec<_> = held.iter().filter(|it| it.kind == ObstacleKind::CircuitOpen).collect();
    assert_eq!(circuits[0].nodes.len(), 3, "it says what it holds: {held:?}");

    let close = || Op::CircuitClose { agent: po() };
    assert_eq!(fleet.op(&other.clone().into(), close()).error, Some(ErrorCode::Unauthorized));
    let closing = fleet.asking(&human(), RequestBody::Op(close()));
    let closed = fleet.one(closing);
    assert_eq!(reply(&closed).error, None);
    assert!(topics(&closed, &po()).contains(&"info".to_owned()), "it is told, and asks again");
    assert!(is_due(&fleet.records, &fleet.policy));
    let again = fleet.one(Input::Tick);
    assert_eq!(launches(&again), 2, "what was held goes on");
    let attempts = ["T1.1", "T1.2"].map(|on| fleet.node(epic, on).attempts);
    assert_eq!(attempts, [1, 1], "and has lost no attempt");
    assert!(fleet.spawn(&po(), request(epic, "T1.3", vec![wish(Role::Worker)])).accepted());
    assert_eq!(fleet.op(&human(), close()).error, Some(ErrorCode::Conflict), "it is closed");
}

#[test]
fn repeatedly_failing_task_opens_the_circuit_at_any_pace() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let slowly = |fleet: &mut Fleet| {
        fleet.now.0 += 10 * fleet.policy.intensity.window.0;
        dies(fleet, &worker, 1)
    };
    for _ in 0..3 {
        slowly(&mut fleet);
        assert!(!fleet.agent(&po()).circuit.is_open());
    }
    let entry = slowly(&mut fleet);
    assert!(fleet.agent(&po()).circuit.is_open());
    let told = entry.events.iter().find(|event| event.reason.starts_with("circuit.open")).unwrap();
    assert!(told.reason.contains("too many failures of one task"), "{}", told.reason);
    assert_eq!(topics(&entry, &AgentId::Go), Vec::<String>::new(), "GO is not written to");
}

#[test]
fn ancestors_are_told_of_an_open_circuit() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let entry = dies(&mut fleet, &child, 4);
    assert!(fleet.agent(&specialist).circuit.is_open());
    assert!(topics(&entry, &po()).contains(&"circuit.open".to_owned()), "{entry:?}");
}
