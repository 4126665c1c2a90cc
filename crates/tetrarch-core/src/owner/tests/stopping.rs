//! Stops: children first, within one budget, and an end also where nobody hears them.

use super::fleet::{Fleet, create, human, id, killed, po, success, tasks, topics};
use crate::brief::{Outcome, RunResult, Usage};
use crate::error::ErrorCode;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId};
use crate::ledger::Entry;
use crate::limits::TEXT_BYTES_MAX;
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::owner::{Input, Silence, next_deadline};
use crate::plan::NodeStatus;
use crate::request::{Op, Report};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::time::{BusTime, Millis};

/// A specialist with a worker below it, both at work.
fn two_levels() -> (Fleet, EpicId, AgentId, AgentId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    (fleet, epic, specialist, child)
}

fn retire(fleet: &mut Fleet, agent: &AgentId) -> Entry {
    let op = Op::AgentRetire { agent: agent.clone(), reason: "enough".to_owned() };
    let input = fleet.asking(&human(), crate::request::RequestBody::Op(op));
    fleet.one(input)
}

fn state(fleet: &Fleet, agent: &AgentId) -> RunState {
    fleet.records.run_status[&fleet.run_of(agent)].state
}

fn stopped() -> RunResult {
    RunResult::ended(Outcome::Cancelled, "enough")
}

#[test]
fn stop_reaches_an_agent_after_all_its_descendants() {
    let (mut fleet, epic, specialist, child) = two_levels();
    let entry = retire(&mut fleet, &specialist);
    assert_eq!(topics(&entry, &child), ["stop"]);
    assert_eq!(topics(&entry, &specialist), [""; 0], "its child drains first");
    for agent in [&specialist, &child] {
        assert_eq!(state(&fleet, agent), RunState::Cancelling, "one budget for all");
    }
    let again = retire(&mut fleet, &specialist);
    assert_eq!((topics(&again, &child), topics(&again, &specialist)), (vec![], vec![]));

    let entry = fleet.end(&child, stopped());
    assert_eq!(topics(&entry, &specialist), ["result.ready", "agent.completed", "stop"]);
    let entry = fleet.end(&specialist, stopped());
    assert_eq!(topics(&entry, &id("HO@h1")), [""; 0], "nothing had to be killed");
    assert_eq!(fleet.agent(&specialist).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.1").blocker.as_ref().unwrap().kind, "stopped");
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
}

#[test]
fn host_report_of_a_requested_stop_is_recognized() {
    let (mut fleet, _, _, child) = two_levels();
    retire(&mut fleet, &child);
    let run = fleet.run_of(&child);
    let moved = Report::Run {
        run,
        event: RunEvent::CancelRequested,
        reason: String::new(),
        usage: Usage::default(),
    };
    let entry = fleet.report(&child, moved);
    assert_eq!((entry.records.len(), entry.events.len(), entry.mail.len()), (0, 0, 0));
    fleet.end(&child, success("done all the same"));
    assert_eq!(fleet.agent(&child).liveness, Liveness::Terminated);
}

#[test]
fn stop_given_to_a_host_directly_covers_descendants() {
    let (mut fleet, _, specialist, child) = two_levels();
    let moved = Report::Run {
        run: fleet.run_of(&specialist),
        event: RunEvent::CancelRequested,
        reason: "enough".to_owned(),
        usage: Usage::default(),
    };
    let entry = fleet.report(&specialist, moved);
    assert_eq!(topics(&entry, &child), ["stop"]);
    assert_eq!(state(&fleet, &child), RunState::Cancelling);
}

#[test]
fn agent_that_never_started_is_stopped_too() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let wanted = super::fleet::request(epic, "T1.1", vec![super::fleet::wish(Role::Worker)]);
    let worker = fleet.spawn(&po(), wanted).spawned[0].agent.clone();
    let entry = retire(&mut fleet, &worker);
    assert_eq!(topics(&entry, &worker), ["stop"]);
    fleet.end(&worker, stopped());
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Blocked);
}

#[test]
fn stop_of_a_hostless_agent_ends_it_at_once() {
    let (mut fleet, epic, specialist, child) = two_levels();
    fleet.report(&id("HO@h1"), Report::Gone { cause: "the host was stopped".to_owned() });
    assert_eq!(fleet.agent(&child).liveness, Liveness::Offline);
    retire(&mut fleet, &specialist);
    for agent in [&child, &specialist] {
        assert_eq!(fleet.agent(agent).liveness, Liveness::Terminated, "{agent}");
    }
    assert_eq!(fleet.node(epic, "T1.1").blocker.as_ref().unwrap().kind, "stopped");
    fleet.join("h2", "life1", 20);
    assert_eq!(fleet.agent(&specialist).epoch, 1, "it does not come back");
}

#[test]
fn host_lost_during_a_drain_ends_its_draining_agents() {
    let (mut fleet, _, specialist, child) = two_levels();
    fleet.join("h2", "life1", 20);
    retire(&mut fleet, &specialist);
    let h1 = id("HO@h1");
    fleet.one(Input::Swept { agent: h1, epoch: 1, found: Silence::Long { missed: 3 } });
    for agent in [&child, &specialist] {
        assert_eq!(fleet.agent(agent).liveness, Liveness::Terminated, "{agent}");
        assert_eq!(fleet.agent(agent).epoch, 1, "{agent}");
    }
}

#[test]
fn stop_is_overdue_after_drain_and_kill_and_kills_children_first() {
    let (mut fleet, epic, specialist, child) = two_levels();
    retire(&mut fleet, &specialist);
    let asked = fleet.records.run_status[&fleet.run_of(&child)].since;
    let due = asked + Millis(30_000 + 5_000 + 1_000);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due));
    fleet.now = BusTime(due.0 - 1);
    assert_eq!(killed(&fleet.one(Input::Tick)), [] as [&AgentId; 0]);
    fleet.now = due;
    let entry = fleet.one(Input::Tick);
    assert_eq!(killed(&entry), [&child, &specialist]);
    for on in ["T1.1", "T1.3"] {
        assert_eq!(fleet.node(epic, on).blocker.as_ref().unwrap().kind, "stopped", "{on}");
    }
}

#[test]
fn retired_orchestrator_ends_descendants_children_first() {
    let (mut fleet, epic, specialist, child) = two_levels();
    let entry = retire(&mut fleet, &po());
    assert_eq!(killed(&entry), [&child, &specialist, &po()]);
    let node = fleet.node(epic, "T1.1");
    assert_eq!(
        (node.status, &*node.blocker.as_ref().unwrap().kind),
        (NodeStatus::Blocked, "stopped")
    );
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Active, "it is not reached");
    assert_eq!(fleet.op(&human(), Op::ProjectCreate(create(false))).error, None);
}

#[test]
fn child_stopped_by_its_parent_is_not_wanted_any_more() {
    for (from, by_person) in [(0, false), (1, false), (1, true)] {
        let (mut fleet, epic, specialist, child) = two_levels();
        let po = po();
        let (stopped_one, above) = [(&child, &specialist), (&specialist, &po)][from];
        let op = Op::AgentRetire { agent: stopped_one.clone(), reason: "wrong way".to_owned() };
        if by_person {
            retire(&mut fleet, &child);
        }
        let answer = fleet.op(&above.clone().into(), op.clone());
        assert_eq!(answer.error, None, "{answer:?}");
        assert!(answer.detail.ends_with("is asked to stop; its result comes as mail"));
        assert_eq!(state(&fleet, &child), RunState::Cancelling, "children too");
        retire(&mut fleet, stopped_one);
        let entry = fleet.end(&child, stopped());
        assert_eq!(topics(&entry, &specialist)[..2], ["result.ready", "agent.completed"]);
        if from == 1 {
            fleet.end(&specialist, stopped());
        }
        let mut wanted = if by_person { NodeStatus::Blocked } else { NodeStatus::Cancelled };
        assert_eq!(fleet.node(epic, "T1.3").status, wanted, "the first stop counts");
        wanted = if from == 1 { NodeStatus::Cancelled } else { NodeStatus::InProgress };
        assert_eq!(fleet.node(epic, "T1.1").status, wanted);
        let work = fleet.agent(stopped_one).work.clone().unwrap();
        let reason = &fleet.records.assignments[&work.assignment].reason;
        assert_eq!(reason, "stopped by its parent");
        let slots = &fleet.agent(above).slots;
        assert!(!slots.iter().any(|slot| slot.child == *stopped_one), "the slot is free");
        assert_eq!(fleet.op(&above.clone().into(), op).error, None, "it may ask again");
    }
}

#[test]
fn stop_by_an_agent_that_is_not_above_is_refused() {
    let (mut fleet, epic, specialist, child) = two_levels();
    let other = fleet.worker(epic, "T1.2");
    let pairs = [(&other, child.clone()), (&child, specialist.clone()), (&child, child.clone())];
    for (from, agent) in pairs.into_iter().chain([(&specialist, po())]) {
        let op = Op::AgentRetire { agent, reason: String::new() };
        let answer = fleet.op(&from.clone().into(), op);
        assert_eq!(answer.error, Some(ErrorCode::Unauthorized), "{answer:?}");
    }
    let reason = "x".repeat(TEXT_BYTES_MAX + 1);
    let op = Op::AgentRetire { agent: child.clone(), reason };
    assert_eq!(fleet.op(&specialist.into(), op).error, Some(ErrorCode::InvalidRequest));
    assert_eq!(state(&fleet, &child), RunState::Running);
}

#[test]
fn people_are_told_what_waits_for_work_that_a_parent_stopped() {
    let mut plan = tasks(2);
    plan["phases"][0]["tasks"][1]["deps"] = serde_json::json!(["T1.1"]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let worker = fleet.worker(epic, "T1.1");
    let op = Op::AgentRetire { agent: worker.clone(), reason: String::new() };
    assert_eq!(fleet.op(&po().into(), op).error, None);
    let entry = fleet.end(&worker, stopped());
    let told = entry.mail.iter().any(|mail| {
        matches!(&mail.body, MailBody::ReviewNeeded { reason }
            if reason.contains("T1.1 is cancelled: stopped by its parent") && reason.contains("T1.2"))
    });
    assert!(told, "{:?}", entry.mail);
}
