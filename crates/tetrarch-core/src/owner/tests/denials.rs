//! Whoever asks too often, or for more than the mode allows: denied each time, told of once.

use super::fleet::{Fleet, human, id, po, project, reasons, request, success, tasks, topics, wish};
use crate::agent::Mode;
use crate::error::DenialReason;
use crate::request::{Op, Report};
use crate::role::Role;

#[test]
fn agent_requesting_thousands_gets_three_and_one_alert() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let before = fleet.ledger.len();
    for _ in 0..1_000 {
        fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker)]));
    }
    assert_eq!(fleet.agent(&po()).slots.len(), 3);
    assert_eq!(fleet.agent(&po()).denials.count, 997);
    let told = |fleet: &Fleet, to: &str| {
        let entries = fleet.ledger[before..].iter();
        entries
            .flat_map(|entry| topics(entry, &id(to)))
            .filter(|it| *it == "governor.violation")
            .count()
    };
    assert_eq!(told(&fleet, "GO"), 1, "its orchestrator is told, once");

    let worker_of = fleet.agent(&po()).slots[0].child.clone();
    fleet.report(&worker_of, Report::Ready);
    for _ in 0..200 {
        let answer = fleet.spawn(&worker_of, request(epic, "-", vec![wish(Role::Worker)]));
        assert_eq!(reasons(&answer), [DenialReason::RoleNotAllowed]);
    }
    assert_eq!(told(&fleet, "PO-demo"), 1, "another asks: another alert");
    assert_eq!(told(&fleet, "GO"), 1);
}

#[test]
fn solo_plan_is_worked_by_one_agent_at_a_time_that_has_none() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(5));
    fleet.op(&human(), Op::ProjectMode { project: project(), mode: Mode::Solo });
    let asked =
        |fleet: &mut Fleet, on, role| fleet.spawn(&po(), request(epic, on, vec![wish(role)]));
    let answer = asked(&mut fleet, "-", Role::Worker);
    assert_eq!(answer.denied[0].reason, DenialReason::ChildrenLimitExceeded);
    let answer = asked(&mut fleet, "T1.1", Role::Specialist);
    let specialist = answer.spawned[0].agent.clone();
    fleet.report(&specialist, Report::Ready);
    let (beside, below) =
        (asked(&mut fleet, "T1.2", Role::Worker), fleet.sponsored(epic, &specialist));
    for answer in [beside, below] {
        assert_eq!(answer.denied[0].reason, DenialReason::ChildrenLimitExceeded);
    }
    fleet.end(&specialist, success("done"));
    assert_eq!(asked(&mut fleet, "T1.2", Role::Worker).spawned.len(), 1);
}
