//! Whoever asks too often: denied each time, told of once.

use super::fleet::{Fleet, id, po, reasons, request, tasks, topics, wish};
use crate::error::DenialReason;
use crate::request::Report;
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
