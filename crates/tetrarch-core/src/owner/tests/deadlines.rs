//! What comes of runs that stand in a state for too long, at both ends of every deadline.

use super::fleet::{Fleet, create, equipped, human, id, killed, po, tasks, topics};
use crate::brief::Usage;
use crate::id::{AgentId, EpicId, Principal};
use crate::ledger::Entry;
use crate::limits::{OVERDUE_MAX, UNREGISTERED_MAX};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::order::StopWithin;
use crate::owner::{Deadlines, Input, Silence, next_deadline};
use crate::plan::NodeStatus;
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::time::{BusTime, Millis};

/// Seconds that can be told from each other.
const SHORT: Deadlines = Deadlines {
    spawning: Millis(60_000),
    awaiting_input: Millis(90_000),
    blocked: Millis(80_000),
    compacting: Millis(70_000),
    stop: StopWithin { drain: Millis(3_000), kill_grace: Millis(2_000) },
};

/// Drain, kill grace and one window.
const ENDING: Millis = Millis(6_000);

/// A worker whose run stands in a state, and since when.
fn standing(state: RunState) -> (Fleet, EpicId, AgentId, BusTime) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.policy.deadlines = SHORT;
    fleet.policy.window = Millis(1_000);
    let crate::id::Principal::Human(name) = human() else { panic!("a human") };
    fleet.op(&human(), Op::HumanJoin { human: name.clone() });
    fleet.report(&AgentId::Io(name), Report::Ready);
    let spawning = matches!(state, RunState::Queued | RunState::Spawning);
    let worker = if spawning {
        let wanted = super::fleet::request(epic, "T1.1", vec![super::fleet::wish(Role::Worker)]);
        fleet.spawn(&po(), wanted).spawned[0].agent.clone()
    } else {
        fleet.worker(epic, "T1.1")
    };
    let run = fleet.run_of(&worker);
    if state == RunState::Queued {
        // No decision leaves a run so; a record may say it all the same.
        let mut status = fleet.records.run_status[&run].clone();
        status.state = RunState::Queued;
        fleet.records.put(crate::ledger::Record::RunStatus(Box::new(status)));
    }
    let moves: &[RunEvent] = match state {
        RunState::AwaitingInput => &[RunEvent::InputNeeded],
        RunState::Blocked => &[RunEvent::ExternalBlocked],
        RunState::PausedByUser => &[RunEvent::UserPaused],
        RunState::Compacting => &[RunEvent::CompactionStarted],
        RunState::Cancelling => &[RunEvent::CancelRequested],
        RunState::Queued
        | RunState::Spawning
        | RunState::Running
        | RunState::Done
        | RunState::Failed
        | RunState::Orphaned => &[],
    };
    for event in moves {
        moved(&mut fleet, &worker, *event);
    }
    let since = fleet.records.run_status[&run].since;
    assert_eq!(fleet.records.run_status[&run].state, state);
    (fleet, epic, worker, since)
}

fn moved(fleet: &mut Fleet, agent: &AgentId, event: RunEvent) -> Entry {
    let (run, reason, usage) = (fleet.run_of(agent), "because".to_owned(), Usage::default());
    fleet.report(agent, Report::Run { run, event, reason, usage })
}

fn tick_at(fleet: &mut Fleet, at: BusTime) -> Entry {
    fleet.now = at;
    fleet.one(Input::Tick)
}

fn alerts(entry: &Entry) -> usize {
    let told = |body: &MailBody| body.topic() == "run.overdue";
    entry.mail.iter().filter(|mail| told(&mail.body)).count()
}

#[test]
fn every_state_ends_at_its_deadline_not_before() {
    use RunState::{AwaitingInput, Blocked, Cancelling, Compacting, Queued, Spawning};
    for (state, within, ends, node, told) in [
        (Queued, SHORT.spawning, RunState::Failed, NodeStatus::Queued, 0),
        (Spawning, SHORT.spawning, RunState::Failed, NodeStatus::Queued, 0),
        (AwaitingInput, SHORT.awaiting_input, RunState::Failed, NodeStatus::Queued, 1),
        (Blocked, SHORT.blocked, RunState::Failed, NodeStatus::Queued, 1),
        (Compacting, SHORT.compacting, RunState::Failed, NodeStatus::Queued, 0),
        (Cancelling, ENDING, RunState::Orphaned, NodeStatus::Blocked, 0),
    ] {
        let (mut fleet, epic, worker, since) = standing(state);
        let run = fleet.run_of(&worker);
        let due = since + within;
        assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due), "{state}");
        assert_eq!(tick_at(&mut fleet, BusTime(due.0 - 1)).records, [], "{state}: not before");
        let entry = tick_at(&mut fleet, due);
        assert_eq!(fleet.records.run_status[&run].state, ends, "{state}");
        assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated, "{state}");
        assert_eq!(fleet.node(epic, "T1.1").status, node, "{state}");
        assert_eq!(topics(&entry, &id("HO@h1")), ["kill"], "{state}: its program is ended");
        assert_eq!(alerts(&entry), told, "{state}");
        let why = entry.events.iter().any(|event| event.reason.contains("was "));
        assert!(why, "{state}: {:?}", entry.events);
        assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None, "{state}");
        assert_eq!(tick_at(&mut fleet, due + Millis(1)).records, [], "{state}: once");
    }
}

#[test]
fn working_run_has_no_deadline() {
    let (mut fleet, _, worker, since) = standing(RunState::Running);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
    assert_eq!(tick_at(&mut fleet, since + Millis::from_secs(86_000)).records, []);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Active);
}

#[test]
fn people_are_reminded_of_a_paused_run_that_stays_paused() {
    let (mut fleet, _, worker, since) = standing(RunState::PausedByUser);
    let run = fleet.run_of(&worker);
    let mut due = since + SHORT.awaiting_input;
    for reminder in 1..3 {
        assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due));
        assert_eq!(alerts(&tick_at(&mut fleet, BusTime(due.0 - 1))), 0);
        assert_eq!(alerts(&tick_at(&mut fleet, due)), 1, "reminder {reminder}");
        assert_eq!(fleet.records.run_status[&run].since, since);
        due = due + SHORT.awaiting_input;
    }
    moved(&mut fleet, &worker, RunEvent::Resumed);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
    moved(&mut fleet, &worker, RunEvent::UserPaused);
    let since = fleet.records.run_status[&run].since;
    assert_eq!(
        next_deadline(&fleet.records, &fleet.policy, fleet.now),
        Some(since + SHORT.awaiting_input)
    );
}

#[test]
fn timely_answer_ends_the_wait() {
    let (mut fleet, _, worker, since) = standing(RunState::AwaitingInput);
    moved(&mut fleet, &worker, RunEvent::InputReceived);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
    assert_eq!(tick_at(&mut fleet, since + SHORT.awaiting_input).records, []);
}

#[test]
fn summary_deadline_does_not_undo_a_stop() {
    let (mut fleet, epic, worker, since) = standing(RunState::Compacting);
    moved(&mut fleet, &worker, RunEvent::CancelRequested);
    tick_at(&mut fleet, since + SHORT.compacting);
    assert_eq!(fleet.node(epic, "T1.1").blocker.as_ref().unwrap().kind, "stopped");
}

#[test]
fn only_startup_failures_and_hangs_are_charged() {
    for (state, charged) in [
        (RunState::Spawning, 1),
        (RunState::Compacting, 1),
        (RunState::AwaitingInput, 0),
        (RunState::Blocked, 0),
        (RunState::Cancelling, 0),
    ] {
        let (mut fleet, _, _, since) = standing(state);
        tick_at(&mut fleet, since + Millis(100_000));
        assert_eq!(fleet.agent(&po()).circuit.failures.times().len(), charged, "{state}");
    }
}

#[test]
fn run_of_a_lost_session_waits_for_a_host() {
    let (mut fleet, _, worker, since) = standing(RunState::Blocked);
    fleet.report(&id("HO@h1"), Report::Gone { cause: "the host was stopped".to_owned() });
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
    assert_eq!(tick_at(&mut fleet, since + SHORT.blocked).records, []);
    fleet.join("h2", "life1", 20);
    let since = fleet.records.run_status[&fleet.run_of(&worker)].since;
    assert_eq!(
        next_deadline(&fleet.records, &fleet.policy, fleet.now),
        Some(since + SHORT.spawning)
    );
}

#[test]
fn descendants_of_an_ended_agent_end_children_first() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.policy.deadlines = SHORT;
    fleet.policy.window = Millis(1_000);
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    moved(&mut fleet, &specialist, RunEvent::ExternalBlocked);
    let since = fleet.records.run_status[&fleet.run_of(&specialist)].since;
    let entry = tick_at(&mut fleet, since + SHORT.blocked);
    assert_eq!(killed(&entry), [&child, &specialist]);
}

#[test]
fn many_deadlines_are_handled_in_portions() {
    let mut fleet = Fleet::new();
    fleet.policy.max_children = usize::MAX;
    fleet.join("h1", "life1", 100);
    let mut last = BusTime(0);
    for n in 0..7 {
        let name = crate::id::ProjectName::new(&format!("p{n}")).unwrap();
        let wanted = crate::request::ProjectCreate { project: name.clone(), ..create(false) };
        fleet.op(&human(), Op::ProjectCreate(wanted));
        let po = AgentId::Po(name.clone());
        fleet.report(&po, Report::Ready);
        let plan = Box::new(equipped(crate::plan::schema::parse(&tasks(3)).unwrap()));
        let goal = fleet.op(&human(), Op::GoalCreate { project: name, plan });
        for task in 1..=3 {
            let on = format!("T1.{task}");
            let wish = vec![super::fleet::wish(Role::Worker)];
            let asked = super::fleet::request(goal.epic.unwrap(), &on, wish);
            last = fleet.now;
            assert!(fleet.spawn(&po, asked).accepted());
        }
    }
    let due = last + fleet.policy.deadlines.spawning;
    let failed = |fleet: &Fleet| {
        let all = fleet.records.run_status.values();
        all.filter(|status| status.state == RunState::Failed).count()
    };
    tick_at(&mut fleet, due);
    assert_eq!(failed(&fleet), OVERDUE_MAX);
    assert!(next_deadline(&fleet.records, &fleet.policy, fleet.now).is_some_and(|at| at <= due));
    tick_at(&mut fleet, due);
    assert_eq!(failed(&fleet), 21);
}

#[test]
fn external_agent_that_does_not_return_is_given_up() {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    let swept = |fleet: &mut Fleet, epoch| {
        fleet.one(Input::Swept { agent: po(), epoch, found: Silence::Long { missed: 6 } })
    };
    assert_eq!(swept(&mut fleet, 0).records, [], "it never registered: nobody is missing");
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);

    fleet.op(&po().into(), Op::AgentRegister);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Register);
    swept(&mut fleet, 1);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline, "registered, and never heard of");
    let due = fleet.agent(&po()).since + UNREGISTERED_MAX;
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due));
    assert_eq!(tick_at(&mut fleet, BusTime(due.0 - 1)).records, []);
    let mut back = fleet.clone();
    back.now = due;
    let again = back.asking(&Principal::Agent(po()), RequestBody::Op(Op::AgentRegister));
    back.one(again);
    assert_eq!(next_deadline(&back.records, &back.policy, back.now), None, "it came back");
    let entry = tick_at(&mut fleet, due);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Terminated);
    assert_eq!(topics(&entry, &po()), ["superseded"]);
    assert_eq!(fleet.op(&po().into(), Op::AgentRegister).error, None, "it may still come back");
}
