//! Budgets through the whole owner: carved out at admission, settled at the end, charged for
//! what is lost.

use super::fleet::{Fleet, create, human, po, request, success, tasks, wish};
use crate::brief::{RunResult, Usage};
use crate::budget::{Limits, Spend};
use crate::id::EpicId;
use crate::request::{Op, Report};
use crate::role::Role;
use crate::run::RunEvent;

fn used(tokens_in: u64) -> Usage {
    Usage { tokens_in, ..Usage::default() }
}

/// A fleet whose project may spend 90 tokens, with three tasks.
fn ninety() -> (Fleet, EpicId) {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let budget = Limits { tokens: Some(90), ..Limits::default() };
    fleet
        .op(&human(), Op::ProjectCreate(crate::request::ProjectCreate { budget, ..create(false) }));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    (fleet, epic)
}

#[test]
fn shares_are_equal_and_the_unspent_comes_back() {
    let (mut fleet, epic) = ninety();
    let first = fleet.worker(epic, "T1.1");
    assert_eq!(fleet.agent(&first).account.limit.tokens, Some(30));
    assert_eq!(fleet.agent(&po()).account.reserved.tokens, 30);
    let second = fleet.worker(epic, "T1.2");
    assert_eq!(fleet.agent(&second).account.limit.tokens, Some(30));
    fleet.end(&first, RunResult { usage: used(10), ..success("cheap") });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.reserved.tokens, account.spent.tokens), (30, 10));
    assert_eq!(account.tokens().free(), Some(50));
    let brief = &fleet.records.runs[&fleet.run_of(&second)].brief;
    assert_eq!(brief.budget.tokens, Some(30));
}

#[test]
fn what_one_request_grants_is_not_free_for_its_next_child() {
    let (mut fleet, epic) = ninety();
    let mut half = wish(Role::Worker);
    half.budget.tokens = Some(50);
    let answer = fleet.spawn(&po(), request(epic, "-", vec![half; 2]));
    assert_eq!((answer.spawned.len(), answer.denied.len()), (1, 1));
    assert_eq!((answer.denied[0].limit, answer.denied[0].current), (Some(40), Some(50)));
}

#[test]
fn a_lost_run_is_charged_with_what_is_known_of_it() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&agent);
    let moved =
        |event, tokens| Report::Run { run, event, reason: String::new(), usage: used(tokens) };
    fleet.report(&agent, moved(RunEvent::ExternalBlocked, 7));
    fleet.report(&agent, moved(RunEvent::Unblocked, 3));
    assert_eq!(fleet.records.run_status[&run].usage, used(7), "counters only grow");
    fleet.join("h1", "life2", 20);
    let again = fleet.run_of(&agent);
    assert_ne!(again, run);
    assert_eq!(fleet.agent(&agent).account.spent.tokens, 7);
    fleet.report(&agent, Report::Ready);
    fleet.end(&agent, RunResult { usage: used(5), ..success("done") });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent.tokens, account.reserved), (12, Spend::default()));
}

#[test]
fn a_sponsored_childs_grant_is_carved_out_of_its_specialists() {
    let (mut fleet, epic) = ninety();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let answer = fleet.sponsored(epic, &specialist);
    let child = answer.spawned[0].agent.clone();
    assert_eq!(fleet.agent(&child).account.limit.tokens, Some(10));
    assert_eq!(fleet.agent(&specialist).account.reserved.tokens, 10);
    fleet.report(&child, Report::Ready);
    fleet.end(&child, RunResult { usage: used(4), ..success("part") });
    assert_eq!(fleet.agent(&specialist).account.spent.tokens, 4);
    fleet.end(&specialist, RunResult { usage: used(2), ..success("whole") });
    assert_eq!(fleet.agent(&po()).account.spent.tokens, 6);
}
