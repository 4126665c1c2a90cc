//! What a turn hears of the work that was done for it.

use serde_json::json;

use super::conversing::{apply, delegated, fleet, io, last_due, moved, said, say, turn};
use super::fleet::{human, node, po, success};
use crate::brief::{Outcome, RunResult, Usage};
use crate::conversation::TurnStatus;
use crate::error::DenialReason;
use crate::goal::GoalStatus;
use crate::id::Principal;
use crate::plan::Blocker;
use crate::request::conversations::TurnSay;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::request::{Op, Report};

#[test]
fn guard_sees_how_often_work_was_tried_and_what_it_used() {
    let mut fleet = fleet();
    let graph = json!({"name": "g", "nodes": [
        {"name": "work", "entry": "spawn", "edges": [
            {"to": "again", "guard": "attempt == 2 && budget.turns == 3 && budget.tokens == 7"},
            {"to": "once"},
        ]},
        {"name": "again", "entry": {"answer": "at last: {result}"}, "terminal": true},
        {"name": "once", "entry": "answer", "terminal": true},
    ]});
    assert_eq!(apply(&mut fleet, &graph).error, None);
    say(&mut fleet, TurnSay { graph: Some("g".parse().unwrap()), ..said("main", "count") });
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    let epic = turn(&fleet, "main", 1).epic.unwrap();
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, RunResult::ended(Outcome::Failure, "no disk"));
    let worker = fleet.worker(epic, "T1.1");
    let usage = Usage { tokens_in: 5, tokens_out: 2, turns: 3, ..Usage::default() };
    fleet.end(&worker, RunResult { usage, ..success("7") });
    fleet.report(&po(), Report::Result { run: None, epic: Some(epic), result: success("7") });
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).answer, "at last: 7");
}

#[test]
fn work_that_will_not_be_tried_again_fails_the_turn_and_ends_its_goal() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    for _attempt in 0..2 {
        assert!(turn(&fleet, "main", 1).working);
        let worker = fleet.worker(epic, "T1.1");
        fleet.end(&worker, RunResult::ended(Outcome::Failure, "no disk"));
    }
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Cancelled);
    assert_eq!(last_due(&fleet).outcome, "failure");
    moved(&mut fleet);
    let turn = turn(&fleet, "main", 1);
    assert_eq!(turn.status, TurnStatus::Done);
    assert!(turn.answer.starts_with("That was not done: "), "{}", turn.answer);
    assert!(turn.answer.contains("no disk"), "{}", turn.answer);
}

#[test]
fn work_that_no_agent_may_do_fails_the_turn() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    let detail = "the parent has no broom".to_owned();
    let kind = DenialReason::ToolNotAllowed.as_str().to_owned();
    let blocker = Blocker { kind, detail, needs: String::new() };
    fleet.op(&Principal::Agent(po()), Op::WorkBlock { epic, node: node("T1.1"), blocker });
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).answer, "That was not done: the parent has no broom");
}

#[test]
fn cancelled_goal_ends_its_turn() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    let cancel = GoalOp { epic, verb: GoalVerb::Cancel, reason: String::new() };
    fleet.op(&human(), Op::Goal(cancel));
    assert_eq!(last_due(&fleet).outcome, "cancelled");
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).answer, "That was not done: the goal was cancelled");
}
