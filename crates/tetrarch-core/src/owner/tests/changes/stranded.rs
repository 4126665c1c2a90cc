//! Orders to merge whose host did not come back.

use super::{
    applied, apply, approve, ask, change, deny, made, orders, refused, says, status, working,
};
use crate::change::{Change, ChangeStatus};
use crate::id::AgentId;
use crate::ledger::EventKind;
use crate::obstacle::{ObstacleKind, Telemetry, of_fleet};
use crate::owner::tests::fleet::{Fleet, id};
use crate::owner::{Input, next_deadline};
use crate::request::Report;
use crate::time::BusTime;

/// A change that h1 was ordered to merge before it went.
fn stranded() -> (Fleet, AgentId, Change) {
    let (mut fleet, _, [worker, _]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    ask(&mut fleet, approve(&waits));
    let (entry, _) = ask(&mut fleet, apply(&waits));
    let first = orders(&entry)[0].1.host_epoch;
    assert_eq!(first, fleet.agent(&id("HO@h1")).epoch);
    refused(&mut fleet, deny(&waits), "applying");
    fleet.report(&id("HO@h1"), Report::Gone { cause: "stopped".to_owned() });
    (fleet, worker, waits)
}

#[test]
fn order_of_a_lost_host_may_be_denied_and_is_not_repeated() {
    let (mut fleet, _, waits) = stranded();
    let found = of_fleet(&fleet.records, &Telemetry::default());
    assert!(found.iter().any(|it| it.kind == ObstacleKind::ChangeWaiting), "{found:?}");
    let (_, answer) = ask(&mut fleet, deny(&waits));
    assert_eq!(answer.error, None, "{answer:?}");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Denied);
    let entry = fleet.join("h1", "life2", 20);
    assert!(orders(&entry).is_empty(), "{:?}", entry.mail);
    let said = says(&mut fleet, &waits, applied());
    assert!(!said.tells(EventKind::Refused));
    assert_eq!(status(&fleet, &waits), ChangeStatus::Denied);
}

#[test]
fn order_of_an_absent_host_expires_with_its_change() {
    let (mut fleet, _, waits) = stranded();
    assert!(
        next_deadline(&fleet.records, &fleet.policy, fleet.now).is_some_and(|at| at <= waits.until)
    );
    fleet.now = BusTime(waits.until.0 - 1);
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applying);
    fleet.now = waits.until;
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Expired);
    assert!(fleet.records.changes[&waits.id].reason.starts_with("its host was ordered"));
}

#[test]
fn order_is_repeated_for_the_hosts_new_life() {
    let (mut fleet, _, waits) = stranded();
    let entry = fleet.join("h1", "life2", 20);
    let again = orders(&entry);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1.host_epoch, fleet.agent(&id("HO@h1")).epoch);
    refused(&mut fleet, deny(&waits), "applying");
    fleet.now = waits.until;
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applying, "its host is at it");
}
