//! Budgets through the whole owner: carved out at admission, settled at the end, charged for
//! what is lost.

use serde_json::json;

use super::fleet::{Fleet, create, human, po, reply, request, success, task, tasks, topics, wish};
use crate::brief::{Outcome, RunResult, Usage};
use crate::budget::{Counter, Limits, Spend};
use crate::id::{AgentId, EpicId, RunId};
use crate::limits::{JOURNAL_ENDS_WITHIN, OWED_MAX};
use crate::owner::{Input, RunDefaults, Settlement, unsettled};
use crate::request::{Op, ProjectCreate, Report};
use crate::role::Role;
use crate::run::RunEvent;
use crate::time::{BusTime, Millis};

fn used(tokens_in: u64) -> Usage {
    Usage { tokens_in, ..Usage::default() }
}

/// A fleet whose project may spend 90 tokens, with three tasks.
fn ninety() -> (Fleet, EpicId) {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let budget = Limits { tokens: Some(90), ..Limits::default() };
    fleet.op(&human(), Op::ProjectCreate(ProjectCreate { budget, ..create(false) }));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    (fleet, epic)
}

#[test]
fn shares_are_equal_and_unspent_budget_returns() {
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
fn child_stopped_by_its_parent_gives_its_grant_back() {
    let (mut fleet, epic) = ninety();
    let worker = fleet.worker(epic, "T1.1");
    assert_eq!(fleet.agent(&po()).account.reserved.tokens, 30);
    let op = Op::AgentRetire { agent: worker.clone(), reason: "wrong way".to_owned() };
    assert_eq!(fleet.op(&po().into(), op).error, None);
    let stopped = RunResult::ended(Outcome::Cancelled, "wrong way");
    fleet.end(&worker, RunResult { usage: used(10), ..stopped });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.reserved.tokens, account.spent.tokens), (0, 10));
    assert_eq!(account.tokens().free(), Some(80));
}

#[test]
fn run_of_which_nobody_says_how_much_has_the_installations_limits() {
    let limits = |tokens, turns| Limits { tokens, turns, ..Limits::default() };
    let run = RunDefaults { budget: limits(Some(70), Some(7)), wall: Some(Millis(9_000)) };
    let model = json!({"runner": "llm", "provider": "openai", "model": "m"});
    let own = json!({"runner": "llm", "provider": "openai", "model": "m", "budget": {"turns": 2}, "wall": "3s"});
    for (profile, project, granted, wall) in [
        (model.clone(), Limits::default(), run.budget, 9_000),
        (own, Limits::default(), limits(Some(70), Some(2)), 3_000),
        (json!({"argv": ["work"]}), Limits::default(), Limits::default(), 9_000),
        (model, limits(Some(90), None), limits(Some(30), Some(7)), 9_000),
    ] {
        let mut fleet = Fleet::new();
        fleet.policy.run = run;
        fleet.join("h1", "life1", 20);
        let project = ProjectCreate { budget: project, ..create(false) };
        fleet.op(&human(), Op::ProjectCreate(project));
        fleet.report(&po(), Report::Ready);
        let mut plan = json!({"goal": {"title": "x"}, "profiles": {"default": profile}});
        plan["phases"] = json!([{"id": "P1", "name": "P", "tasks": [task("T1.1", json!({}))]}]);
        let epic = fleet.goal(plan.clone());
        let worker = fleet.worker(epic, "T1.1");
        let brief = &fleet.records.runs[&fleet.run_of(&worker)].brief;
        assert_eq!((brief.budget, brief.wall), (granted, Some(Millis(wall))), "{plan}");
    }
}

#[test]
fn budget_granted_by_one_request_is_not_free_for_the_next_child() {
    let (mut fleet, epic) = ninety();
    let mut half = wish(Role::Worker);
    half.budget.tokens = Some(50);
    let answer = fleet.spawn(&po(), request(epic, "-", vec![half; 2]));
    assert_eq!((answer.spawned.len(), answer.denied.len()), (1, 1));
    assert_eq!((answer.denied[0].limit, answer.denied[0].current), (Some(40), Some(50)));
}

#[test]
fn lost_run_is_charged_its_known_usage() {
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
    fleet.one(journal(&agent, run, 7, true));
    fleet.report(&agent, Report::Ready);
    fleet.end(&agent, RunResult { usage: used(5), ..success("done") });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent.tokens, account.reserved), (12, Spend::default()));
}

#[test]
fn sponsored_childs_grant_comes_from_its_specialist() {
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

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn journal(holder: &AgentId, run: RunId, charge: u64, ended: bool) -> Input {
    let (holder, charge) = (holder.clone(), tokens(charge));
    Input::Settled(vec![Settlement { holder, run, charge, ended }])
}

#[test]
fn lost_runs_journal_settles_it_beside_its_next_session() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let lost = fleet.run_of(&agent);
    fleet.report(&agent, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(unsettled(&fleet.records), [(agent.clone(), lost)]);
    fleet.one(journal(&agent, lost, 11, true));
    assert_eq!(unsettled(&fleet.records), []);
    assert_eq!(fleet.agent(&agent).account.spent, tokens(11));
    fleet.one(journal(&agent, lost, 11, true));
    assert_eq!(fleet.agent(&agent).account.spent, tokens(11), "it was settled twice");
    fleet.report(&agent, Report::Ready);
    fleet.end(&agent, RunResult { usage: used(5), ..success("done") });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent, account.reserved), (tokens(16), Spend::default()));
}

#[test]
fn ended_childs_slot_is_freed_at_once_and_its_grant_when_settled() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let lost = fleet.run_of(&agent);
    fleet.report(&agent, Report::Crashed { cause: "signal 9".to_owned() });
    fleet.report(&agent, Report::Ready);
    fleet.end(&agent, RunResult { usage: used(5), ..success("done") });
    let parent = fleet.agent(&po());
    assert_eq!((parent.slots_held(), parent.account.reserved.tokens), (0, 30));
    assert_eq!(parent.account.tokens().free(), Some(60));
    assert_eq!(unsettled(&fleet.records), [(po(), lost)]);

    fleet.one(journal(&agent, lost, 11, true));
    assert_eq!(unsettled(&fleet.records).len(), 1, "its parent's record waits for it, not its own");
    let since = fleet.records.run_status[&lost].since;
    fleet.now = BusTime((since + JOURNAL_ENDS_WITHIN).0 - 1);
    fleet.one(journal(&po(), lost, 11, false));
    assert_eq!(unsettled(&fleet.records).len(), 1, "its process may still be on its way out");
    fleet.now = since + JOURNAL_ENDS_WITHIN;
    fleet.one(journal(&po(), lost, 11, false));
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent, account.tokens().free()), (tokens(16), Some(74)));
    assert_eq!(unsettled(&fleet.records), []);
}

#[test]
fn unsettled_usage_below_an_ended_agent_is_settled_above_it() {
    let (mut fleet, epic) = ninety();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let lost = fleet.run_of(&child);
    fleet.end(&specialist, RunResult { usage: used(2), ..success("whole") });
    assert_eq!(unsettled(&fleet.records), [(po(), lost)]);
    assert_eq!(fleet.agent(&po()).account.reserved.tokens, 30);
    fleet.one(journal(&po(), lost, 7, true));
    let account = fleet.agent(&po()).account;
    assert_eq!((account.spent, account.reserved), (tokens(9), Spend::default()));
}

#[test]
fn kept_lost_runs_are_bounded() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    for life in 0..OWED_MAX + 2 {
        fleet.join("h1", &format!("again{life}"), 20);
    }
    assert_eq!(fleet.agent(&agent).unsettled.runs.len(), OWED_MAX);
}

#[test]
fn agent_with_children_draws_at_most_what_is_free() {
    let (mut fleet, epic) = ninety();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let run = fleet.run_of(&specialist);
    let draw = |total| Report::Draw { run, total: tokens(total) };
    let entry = fleet.report(&specialist, draw(3));
    let answer = reply(&entry);
    assert_eq!((answer.op.as_str(), answer.error), ("budget.draw", None));
    assert!(answer.data.unwrap().contains("\"tokens\":3"));
    assert_eq!(fleet.agent(&specialist).account.spent, tokens(3));
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    assert_eq!(fleet.agent(&child).account.limit.tokens, Some(9), "a third of what is free");
    let entry = fleet.report(&specialist, draw(30));
    assert!(reply(&entry).data.unwrap().contains("\"tokens\":21"));
    assert_eq!(fleet.agent(&specialist).account.tokens().free(), Some(0));
    fleet.report(&specialist, draw(21));
    fleet.report(&child, Report::Ready);
    fleet.end(&child, RunResult { usage: used(4), ..success("part") });
    fleet.end(&specialist, RunResult { usage: used(2), ..success("whole") });
    assert_eq!(fleet.agent(&po()).account.spent, tokens(6), "what was not used came back");
}

#[test]
fn childless_agent_has_drawn_everything() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&agent);
    let entry = fleet.report(&agent, Report::Draw { run, total: tokens(3) });
    assert!(entry.events.iter().any(|event| event.reason.contains("drawn at launch")));
    assert_eq!(fleet.agent(&agent).account.spent, Spend::default());
}

#[test]
fn parent_is_told_when_most_of_a_grant_is_used() {
    let (mut fleet, epic) = ninety();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    let run = fleet.run_of(&child);
    let warning = Report::BudgetWarning { run, counter: Counter::Tokens, used: 8, limit: 10 };
    let entry = fleet.report(&child, warning);
    for to in [&specialist, &po()] {
        assert_eq!(topics(&entry, to), ["budget.warning"], "{to}");
    }
    let text = &entry.events[0].reason;
    assert!(text.contains("budget.warning") && text.contains("8 of its 10 tokens"), "{text}");
}

#[test]
fn run_ended_by_its_host_for_budget_has_exceeded_it() {
    let (mut fleet, epic) = ninety();
    let agent = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&agent);
    let (event, reason) = (RunEvent::CancelRequested, "budget_exceeded".to_owned());
    fleet.report(&agent, Report::Run { run, event, reason, usage: used(30) });
    let mut result = RunResult::ended(Outcome::BudgetExceeded, "30 of 30 tokens are used");
    result.partial = "half".to_owned();
    fleet.end(&agent, result);
    let ended = fleet.records.run_status[&run].result.clone().unwrap();
    assert_eq!((ended.outcome, ended.partial.as_str()), (Outcome::BudgetExceeded, "half"));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.attempts, state.assignment), (1, None), "it failed, it was not stopped");
    assert_eq!(fleet.agent(&po()).account.spent, tokens(30));
}
