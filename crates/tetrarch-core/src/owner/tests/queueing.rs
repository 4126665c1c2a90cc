//! Spawn requests that wait for a slot or a place: who waits, in which order they are admitted, what ends the waiting.

use super::fleet::{
    Fleet, answer, create, human, po, project, reasons, request, success, tasks, wish,
};
use crate::agent::Mode;
use crate::audit::acts_of;
use crate::error::DenialReason;
use crate::id::{AgentId, EpicId, HostName};
use crate::ledger::{Entry, EventKind};
use crate::limits::{QUEUED_SPAWN_BYTES_MAX, QUEUED_SPAWNS_MAX};
use crate::mail::{MailBody, SpawnAnswer};
use crate::owner::{Input, is_due};
use crate::plan::NodeStatus;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::request::{Op, Report, RequestBody, SpawnRequest, TaskWish};
use crate::role::Role;

fn waiting(epic: EpicId, on: &str, count: usize) -> SpawnRequest {
    SpawnRequest { wait: true, ..request(epic, on, vec![wish(Role::Worker); count]) }
}

/// A fleet whose orchestrator has no free slot, with those who hold them.
fn full() -> (Fleet, EpicId, Vec<AgentId>) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(6));
    let held = ["T1.1", "T1.2", "T1.3"].map(|on| fleet.worker(epic, on));
    (fleet, epic, held.to_vec())
}

/// Ticks as long as somebody is admitted or refused; gives the answers.
fn drain(fleet: &mut Fleet) -> Vec<SpawnAnswer> {
    let mut answers = Vec::new();
    while is_due(&fleet.records, &fleet.policy) {
        let entry = fleet.one(Input::Tick);
        assert!(!entry.mail.is_empty(), "a tick that is due does something");
        answers.extend(answered(&entry));
    }
    answers
}

fn answered(entry: &Entry) -> Vec<SpawnAnswer> {
    let own = entry.mail.iter().filter_map(|mail| {
        if let MailBody::SpawnAnswer(answer) = &mail.body { Some(answer.clone()) } else { None }
    });
    own.collect()
}

#[test]
fn request_waiting_for_a_slot_is_admitted_when_one_is_free() {
    let (mut fleet, epic, held) = full();
    let first = fleet.spawn(&po(), waiting(epic, "T1.4", 1));
    assert_eq!((first.spawned.len(), first.denied.len(), first.queued.len()), (0, 0, 1));
    assert_eq!(first.queued[0].reason, DenialReason::ChildrenLimitExceeded);
    assert_eq!((first.queued[0].limit, first.queued[0].current), (Some(3), Some(3)));
    assert_eq!(MailBody::SpawnAnswer(first.clone()).topic(), "spawn.queued");
    assert_eq!(fleet.node(epic, "T1.4").status, NodeStatus::Queued, "nothing of it is there yet");
    assert!(fleet.ledger.last().unwrap().events.iter().any(|it| it.kind == EventKind::SpawnQueued));
    assert!(!is_due(&fleet.records, &fleet.policy));

    fleet.end(&held[0], success("done"));
    let answers = drain(&mut fleet);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].request, first.request);
    assert_eq!((answers[0].spawned.len(), answers[0].queued.len()), (1, 0));
    assert_eq!(fleet.node(epic, "T1.4").status, NodeStatus::InProgress);
    assert!(fleet.records.queued_spawns.is_empty());
    assert_eq!(fleet.agent(&po()).slots_held(), 3);
}

#[test]
fn sub_agents_of_one_request_are_admitted_as_slots_become_free() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let first = fleet.spawn(&po(), waiting(epic, "-", 5));
    assert_eq!((first.spawned.len(), first.queued.len()), (3, 2));
    let indexes: Vec<usize> = first.queued.iter().map(|it| it.index).collect();
    assert_eq!(indexes, [3, 4]);
    fleet.end(&first.spawned[0].agent, success("done"));
    let answers = drain(&mut fleet);
    let counts: Vec<_> = answers.iter().map(|it| (it.spawned.len(), it.queued.len())).collect();
    assert_eq!(counts, [(1, 1)]);
    assert_eq!(answers[0].queued[0].index, 4);
    fleet.end(&first.spawned[1].agent, success("done"));
    let answers = drain(&mut fleet);
    assert_eq!((answers[0].spawned.len(), answers[0].queued.len()), (1, 0));
}

#[test]
fn request_behind_a_waiting_one_does_not_overtake_it() {
    let (mut fleet, epic, held) = full();
    let first = fleet.spawn(&po(), waiting(epic, "T1.4", 1));
    let second = fleet.spawn(&po(), waiting(epic, "T1.5", 1));
    assert!(second.queued[0].detail.contains(", 1 queued before it"), "{:?}", second.queued);
    fleet.end(&held[0], success("done"));
    let third = fleet.spawn(&po(), request(epic, "T1.6", vec![wish(Role::Worker)]));
    assert_eq!(
        reasons(&third),
        [DenialReason::ChildrenLimitExceeded],
        "a slot is free, for others"
    );
    let answers = drain(&mut fleet);
    assert_eq!(answers.iter().map(|it| it.request).collect::<Vec<_>>(), [first.request]);
    fleet.end(&held[1], success("done"));
    let answers = drain(&mut fleet);
    assert_eq!(answers.iter().map(|it| it.request).collect::<Vec<_>>(), [second.request]);
}

#[test]
fn queue_of_a_parent_holds_sixteen_requests() {
    let (mut fleet, epic, _) = full();
    for _ in 0..QUEUED_SPAWNS_MAX {
        assert_eq!(fleet.spawn(&po(), waiting(epic, "-", 1)).queued.len(), 1);
    }
    let beyond = fleet.spawn(&po(), waiting(epic, "-", 1));
    assert_eq!(reasons(&beyond), [DenialReason::ChildrenLimitExceeded]);
    assert!(beyond.denied[0].detail.contains("the limit of a queue is 16"), "{:?}", beyond.denied);
    assert_eq!(fleet.records.queued_spawns.len(), QUEUED_SPAWNS_MAX);
}

#[test]
fn request_larger_than_what_may_wait_is_denied_with_its_size() {
    let (mut fleet, epic, _) = full();
    let of = |bytes| {
        let mut wanted = waiting(epic, "T1.4", 1);
        wanted.subagents[0].task = TaskWish::Task("x".repeat(bytes));
        wanted
    };
    let bare = crate::owner::weight::spawn_request(&of(0));
    let largest = fleet.spawn(&po(), of(QUEUED_SPAWN_BYTES_MAX - bare));
    assert_eq!(largest.queued.len(), 1, "{largest:?}");
    let larger = fleet.spawn(&po(), of(QUEUED_SPAWN_BYTES_MAX - bare + 1));
    assert_eq!(reasons(&larger), [DenialReason::ChildrenLimitExceeded]);
    assert!(larger.denied[0].detail.contains("this one has about 16385"), "{:?}", larger.denied);
}

#[test]
fn violation_is_denied_at_once_although_the_request_waits() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let mut poor = create(false);
    poor.tools = ["sh"].into_iter().collect();
    poor.budget.tokens = Some(100);
    fleet.op(&human(), Op::ProjectCreate(poor));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(4));
    for on in ["T1.1", "T1.2", "T1.3"] {
        fleet.worker(epic, on);
    }
    let mut armed = waiting(epic, "T1.4", 1);
    armed.subagents[0].tools = Some(["net"].into_iter().collect());
    assert_eq!(reasons(&fleet.spawn(&po(), armed)), [DenialReason::ToolNotAllowed]);
    let mut rich = waiting(epic, "T1.4", 1);
    rich.subagents[0].budget.tokens = Some(101);
    assert_eq!(reasons(&fleet.spawn(&po(), rich)), [DenialReason::BudgetExceeded]);
}

#[test]
fn request_that_waits_is_denied_in_a_mode_without_slots() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(4));
    fleet.op(&human(), Op::ProjectMode { project: project(), mode: Mode::Solo });
    let answer = fleet.spawn(&po(), waiting(epic, "-", 1));
    assert_eq!(reasons(&answer), [DenialReason::ChildrenLimitExceeded]);
}

#[test]
fn request_waiting_for_a_place_is_admitted_when_a_host_has_one() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 1);
    fleet.op(&human(), Op::ProjectCreate(create(false)));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    let held = fleet.worker(epic, "T1.1");
    let first = fleet.spawn(&po(), waiting(epic, "T1.2", 1));
    assert_eq!(first.queued[0].reason, DenialReason::NoHostAvailable, "{first:?}");
    let mut elsewhere = waiting(epic, "T1.3", 1);
    elsewhere.subagents[0].placement.host = Some(HostName::new("h9").unwrap());
    let answer = fleet.spawn(&po(), elsewhere);
    assert!(
        answer.queued.is_empty() || answer.queued[0].reason == DenialReason::ChildrenLimitExceeded
    );
    fleet.end(&held, success("done"));
    let answers = drain(&mut fleet);
    assert_eq!(answers[0].request, first.request);
    assert_eq!(answers[0].spawned.len(), 1);
}

#[test]
fn request_for_a_host_that_nobody_has_is_denied_at_once() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let mut elsewhere = waiting(epic, "T1.1", 1);
    elsewhere.subagents[0].placement.host = Some(HostName::new("h9").unwrap());
    let answer = fleet.spawn(&po(), elsewhere);
    assert_eq!(reasons(&answer), [DenialReason::NoHostAvailable]);
}

#[test]
fn cancelled_goal_denies_what_waits_for_it() {
    let (mut fleet, epic, _) = full();
    let first = fleet.spawn(&po(), waiting(epic, "T1.4", 1));
    let mut asks = |verb| {
        let reason = "changed our minds".to_owned();
        let done = fleet.op(&human(), Op::Goal(GoalOp { epic, verb, reason }));
        assert_eq!(done.error, None, "{done:?}");
        is_due(&fleet.records, &fleet.policy)
    };
    assert!(!asks(GoalVerb::Pause), "it waits as long as its goal does");
    assert!(asks(GoalVerb::Cancel));
    let answers = drain(&mut fleet);
    assert_eq!(answers[0].request, first.request);
    assert_eq!(reasons(&answers[0]), [DenialReason::NodeNotAssignable]);
    assert!(fleet.records.queued_spawns.is_empty());
}

#[test]
fn replaced_sender_is_answered_in_its_next_session() {
    let (mut fleet, epic, held) = full();
    fleet.spawn(&po(), waiting(epic, "T1.4", 1));
    let before = fleet.agent(&po()).epoch;
    fleet.join("h1", "life2", 20);
    fleet.report(&po(), Report::Ready);
    assert!(fleet.agent(&po()).epoch > before);
    fleet.end(&held[0], success("done"));
    let answers = drain(&mut fleet);
    assert_eq!(answers[0].spawned.len(), 1);
}

#[test]
fn waiting_request_asked_again_is_answered_the_same_and_waits_once() {
    let (mut fleet, epic, _) = full();
    let wanted = RequestBody::Spawn(waiting(epic, "T1.4", 1));
    let input = fleet.asking(&po().into(), wanted);
    let first = answer(&fleet.one(input.clone()));
    let again = answer(&fleet.one(input));
    assert_eq!(first, again);
    assert_eq!(fleet.records.queued_spawns.len(), 1);
}

#[test]
fn queued_request_of_a_person_is_no_refused_act() {
    let (mut fleet, epic, _) = full();
    let mut ask = |wait| {
        let parent = Some(po());
        let wanted = SpawnRequest { wait, parent, ..waiting(epic, "-", 1) };
        let asked = fleet.asking(&human(), RequestBody::Spawn(wanted));
        acts_of(&fleet.one(asked))[0].refused.clone()
    };
    assert_eq!(ask(true), None);
    assert_eq!(ask(false).as_deref(), Some("all_requests_denied"));
}
