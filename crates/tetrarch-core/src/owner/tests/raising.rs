//! Grants that are raised while their runs go on: who may, out of whose grant, and who hears of it.

use super::fleet::{Fleet, create, human, id, po, reply, success, tasks, topics};
use crate::brief::{Outcome, RunResult, Usage};
use crate::budget::{Limits, Spend};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, Principal};
use crate::ledger::{Entry, EventKind};
use crate::mail::{Lane, MailBody, OpReply};
use crate::owner::Input;
use crate::request::{BudgetOp, Op, Report, RequestBody};
use crate::role::Role;
use crate::run::RunEvent;

/// A fleet whose project may spend 90 tokens and 9 turns, with three tasks.
fn ninety() -> (Fleet, EpicId) {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let budget = Limits { tokens: Some(90), cost_micro: None, turns: Some(9) };
    fleet
        .op(&human(), Op::ProjectCreate(crate::request::ProjectCreate { budget, ..create(false) }));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    (fleet, epic)
}

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn raise(agent: &AgentId, more: Spend) -> Op {
    Op::Budget(BudgetOp::Raise { agent: agent.clone(), more, reason: "it is near".to_owned() })
}

fn raised(fleet: &mut Fleet, agent: &AgentId, more: Spend) -> Entry {
    let input = fleet.asking(&human(), RequestBody::Op(raise(agent, more)));
    fleet.one(input)
}

#[track_caller]
fn refused(fleet: &mut Fleet, agent: &AgentId, more: Spend, code: ErrorCode) -> String {
    let before = fleet.records.agents.clone();
    let entry = raised(fleet, agent, more);
    let OpReply { error, detail, .. } = reply(&entry);
    assert_eq!((error, fleet.records.agents == before), (Some(code), true), "{detail}");
    assert_eq!(topics(&entry, agent), [""; 0]);
    detail
}

#[test]
fn raise_comes_from_the_parent_and_returns_with_the_rest() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let entry = raised(&mut fleet, &agent, Spend { turns: 1, ..tokens(20) });
    let answer = reply(&entry);
    assert_eq!((answer.error, answer.agent.as_ref()), (None, Some(&agent)));
    assert!(answer.detail.contains("20 tokens, 1 turns more, 50 tokens, 4 turns in all"));
    let data = answer.data.unwrap();
    assert_eq!(data, r#"{"grant":{"tokens":50,"costMicro":null,"turns":4}}"#);

    let limit = Limits { tokens: Some(50), cost_micro: None, turns: Some(4) };
    assert_eq!(fleet.agent(&agent).account.limit, limit);
    let parent = fleet.agent(&po());
    assert_eq!(parent.slots[0].grant, limit);
    assert_eq!(parent.account.reserved, Spend { turns: 4, ..tokens(50) });
    assert_eq!(parent.account.tokens().free(), Some(40));

    let used = Usage { tokens_in: 45, ..Usage::default() };
    fleet.end(&agent, RunResult { usage: used, ..success("done") });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent, account.reserved), (tokens(45), Spend::default()));
}

#[test]
fn raise_is_sent_on_the_control_lane_and_audited() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let entry = raised(&mut fleet, &agent, tokens(20));
    let letter = entry.mail.iter().find(|mail| mail.to.agent() == Some(&agent)).unwrap();
    let MailBody::BudgetRaised(told) = &letter.body else { panic!("{letter:?}") };
    assert_eq!((letter.body.lane(), letter.body.topic()), (Lane::Ctl, "budget.raised"));
    assert_eq!((told.limit.tokens, &told.by), (Some(50), &human()));
    assert_eq!(told.reason, "it is near");
    let event = entry.events.iter().find(|event| event.kind == EventKind::Budget).unwrap();
    assert_eq!((event.actor.clone(), event.agent.as_ref()), (human(), Some(&agent)));
    assert_eq!(event.run, Some(fleet.run_of(&agent)));
    let words = "human:Shai granted 20 tokens more, 50 tokens, 3 turns in all: it is near";
    assert_eq!(event.reason, words);
}

#[test]
fn repeated_raise_counts_once_and_two_people_raise_twice() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let request = fleet.ask(&human(), RequestBody::Op(raise(&agent, tokens(20))));
    let first = reply(&fleet.one(Input::Request(Box::new(request.clone()))));
    let again = fleet.one(Input::Request(Box::new(request)));
    assert_eq!(reply(&again), first);
    assert_eq!(topics(&again, &agent), [""; 0]);
    assert_eq!(fleet.agent(&agent).account.limit.tokens, Some(50));
    let grace = Principal::Human(crate::id::HumanName::new("Grace").unwrap());
    assert_eq!(fleet.op(&grace, raise(&agent, tokens(20))).error, None);
    assert_eq!(fleet.agent(&agent).account.limit.tokens, Some(70));
}

#[test]
fn agent_may_not_raise_a_grant() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    for asks in [po(), agent.clone(), id("GO"), id("HO@h1")] {
        let op = raise(&agent, tokens(1));
        assert_eq!(
            fleet.op(&asks.clone().into(), op).error,
            Some(ErrorCode::Unauthorized),
            "{asks}"
        );
    }
    assert_eq!(fleet.agent(&agent).account.limit.tokens, Some(30));
}

#[test]
fn raise_is_limited_to_what_is_free() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let why = refused(&mut fleet, &agent, tokens(61), ErrorCode::BudgetExceeded);
    let numbers = "61 more tokens were requested for";
    assert!(why.contains(numbers) && why.contains("60 are free: PO-demo has limit 90, current 30"));
    assert!(why.ends_with("raise PO-demo by 1 tokens first"), "{why}");
    assert_eq!(reply(&raised(&mut fleet, &agent, tokens(60))).error, None);
    assert_eq!(fleet.agent(&po()).account.tokens().free(), Some(0));
    let why =
        refused(&mut fleet, &agent, Spend { turns: 7, ..tokens(1) }, ErrorCode::BudgetExceeded);
    assert!(why.ends_with("raise PO-demo by 1 tokens, 1 turns first"), "{why}");
}

#[test]
fn refusal_names_whom_to_raise_top_down() {
    let (mut fleet, epic) = ninety();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    let why = refused(&mut fleet, &child, tokens(100), ErrorCode::BudgetExceeded);
    let steps = format!("raise PO-demo by 20 tokens, then {specialist} by 80 tokens first");
    assert!(why.ends_with(&steps), "{why}");
    for (who, more) in [(po(), 20), (specialist.clone(), 80), (child.clone(), 100)] {
        assert_eq!(reply(&raised(&mut fleet, &who, tokens(more))).error, None, "{who}");
    }
    assert_eq!(fleet.agent(&child).account.limit.tokens, Some(110));
    assert_eq!(fleet.agent(&specialist).account.tokens().free(), Some(0));
    assert_eq!(fleet.agent(&po()).account.limit.tokens, Some(110), "nobody is above a project");
}

#[test]
fn impossible_raise_is_refused_with_the_reason() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let invalid = ErrorCode::InvalidRequest;
    let cost = Spend { cost_micro: 1, ..Spend::default() };
    assert!(refused(&mut fleet, &agent, cost, invalid).contains("cost is not limited"));
    assert!(refused(&mut fleet, &agent, tokens(0), invalid).contains("nothing to add"));
    assert!(refused(&mut fleet, &po(), tokens(u64::MAX), invalid).contains("exceeds the maximum"));
    assert!(refused(&mut fleet, &id("GO"), tokens(1), invalid).contains("is not limited"));
    let nobody = AgentId::Worker(crate::id::Ulid(7));
    refused(&mut fleet, &nobody, tokens(1), ErrorCode::NotFound);

    let run = fleet.run_of(&agent);
    let (event, reason) = (RunEvent::CancelRequested, "budget_exceeded".to_owned());
    fleet.report(&agent, Report::Run { run, event, reason, usage: Usage::default() });
    let why = refused(&mut fleet, &agent, tokens(1), ErrorCode::Conflict);
    assert!(why.contains("is ending"), "{why}");
    fleet.end(&agent, RunResult::ended(Outcome::BudgetExceeded, "30 of 30 tokens are used"));
    assert!(refused(&mut fleet, &agent, tokens(1), ErrorCode::Conflict).contains("has ended"));
}

#[test]
fn next_session_keeps_the_raised_grant() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let first = fleet.run_of(&agent);
    raised(&mut fleet, &agent, tokens(20));
    assert_eq!(fleet.records.runs[&first].brief.budget.tokens, Some(30), "a definition stays");
    fleet.report(&agent, Report::Crashed { cause: "signal 9".to_owned() });
    let next = &fleet.records.runs[&fleet.run_of(&agent)];
    assert_eq!((next.continues, next.brief.budget.tokens), (Some(first), Some(50)));
    let launched = fleet.ledger.last().unwrap().mail.iter().any(|mail| {
        let MailBody::Launch(launch) = &mail.body else { return false };
        let crate::mail::Duty::Run(run) = &launch.duty else { return false };
        run.brief.budget.tokens == Some(50)
    });
    assert!(launched, "its launch says another grant");
}
