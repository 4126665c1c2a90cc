//! Goals under the hands of people and their owners: who may, from where to where, and what becomes of
//! the work.

use serde_json::json;

use super::fleet::{
    Fleet, equipped, human, id, node, plan_of, po, project, reasons, request, success, task, tasks,
    topics, wish,
};
use crate::brief::{Finding, Judgement, Outcome, RunResult, Verdict};
use crate::error::{DenialReason, ErrorCode};
use crate::goal::{GoalSpec, GoalStatus};
use crate::id::{AgentId, EpicId, HumanName, Principal, RequestId};
use crate::ledger::{Entry, EventKind};
use crate::limits::{IDLE_AFTER, OPEN_GOALS_MAX, TEXT_BYTES_MAX};
use crate::liveness::Liveness;
use crate::mail::{MailBody, OpReply};
use crate::overseer::Telemetry;
use crate::owner::{Input, next_deadline};
use crate::plan::{NodeStatus, PlanReason, schema};
use crate::priority::{Priorities, Priority};
use crate::question::QuestionStatus;
use crate::request::goals::{GoalChange, GoalOp, GoalUpdate, GoalVerb};
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;
use crate::time::BusTime;

use GoalVerb::{Archive, Cancel, Pause, Prioritise, Resume};

fn goal_op(epic: EpicId, verb: GoalVerb) -> Op {
    Op::Goal(GoalOp { epic, verb, reason: "because".to_owned() })
}

pub(super) fn asks(fleet: &mut Fleet, from: &Principal, epic: EpicId, verb: GoalVerb) -> OpReply {
    fleet.op(from, goal_op(epic, verb))
}

fn does(fleet: &mut Fleet, epic: EpicId, verb: GoalVerb) -> Entry {
    let input = fleet.asking(&human(), RequestBody::Op(goal_op(epic, verb)));
    let entry = fleet.one(input);
    assert_eq!(super::fleet::reply(&entry).error, None);
    entry
}

fn update(fleet: &mut Fleet, from: &Principal, epic: EpicId, change: GoalChange) -> OpReply {
    let update = GoalUpdate { epic, change, reason: "agreed".to_owned() };
    fleet.op(from, Op::GoalUpdate(Box::new(update)))
}

fn titled(title: &str) -> GoalChange {
    GoalChange { title: Some(title.to_owned()), ..GoalChange::default() }
}

#[test]
fn goal_update_changes_what_is_given_and_the_version() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let (before, version) =
        (fleet.records.goals[&epic].clone(), fleet.records.plans[&epic].version);
    fleet.now = fleet.now + IDLE_AFTER;
    assert_eq!(update(&mut fleet, &human(), epic, titled("other words")).error, None);
    let after = &fleet.records.goals[&epic];
    let spec = GoalSpec { title: "other words".to_owned(), ..before.spec };
    assert_eq!((&after.spec, after.created), (&spec, before.created));
    assert!(after.updated > after.created);
    assert_eq!(fleet.records.plans[&epic].version, version + 1);
    assert_eq!(fleet.records.plans[&epic].reason, PlanReason::ManualOverride);
    let same = update(&mut fleet, &human(), epic, titled("other words"));
    assert_eq!((same.error, same.detail.as_str()), (None, "nothing changed"));
    assert_eq!(fleet.records.plans[&epic].version, version + 1);
}

#[test]
fn goal_update_of_a_stranger_or_a_closed_goal_is_refused() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let refused = update(&mut fleet, &worker, epic, titled("mine"));
    assert_eq!(refused.error, Some(ErrorCode::Unauthorized));
    let texts = vec!["x".repeat(TEXT_BYTES_MAX); 16];
    let large = GoalChange { constraints: Some(texts), ..GoalChange::default() };
    let refused = update(&mut fleet, &human(), epic, large);
    assert_eq!(refused.error, Some(ErrorCode::InvalidRequest), "{}", refused.detail);
    assert_eq!(asks(&mut fleet, &human(), epic, Cancel).error, None);
    let refused = update(&mut fleet, &human(), epic, titled("late"));
    assert_eq!(refused.error, Some(ErrorCode::Conflict));
}

fn status(fleet: &Fleet, epic: EpicId) -> GoalStatus {
    fleet.records.goal_states[&epic].status
}

fn stands(fleet: &Fleet, epic: EpicId, ids: &[&str]) -> Vec<NodeStatus> {
    ids.iter().map(|id| fleet.node(epic, id).status).collect()
}

#[test]
fn goal_transitions_follow_the_table() {
    use GoalStatus::{Active, Archived, Cancelled, Completed, Paused};
    // How to come there, and what is legal from there.
    let rows = [
        (&[][..], Active, [Some(Paused), None, Some(Cancelled), None]),
        (&[Pause], Paused, [None, Some(Active), Some(Cancelled), None]),
        (&[Cancel], Cancelled, [None, None, None, Some(Archived)]),
        (&[Cancel, Archive], Archived, [None; 4]),
    ];
    for (way, from, legal) in rows {
        for (verb, to) in [Pause, Resume, Cancel, Archive].into_iter().zip(legal) {
            let (mut fleet, epic) = Fleet::with_goal(tasks(1));
            for step in way {
                assert_eq!(asks(&mut fleet, &human(), epic, *step).error, None);
            }
            let said = asks(&mut fleet, &human(), epic, verb);
            let expected = if to.is_some() { None } else { Some(ErrorCode::Conflict) };
            assert_eq!(said.error, expected, "{from} {verb:?}: {}", said.detail);
            assert_eq!(status(&fleet, epic), to.unwrap_or(from), "{from} {verb:?}");
            let first = verb == Archive && matches!(from, Active | Paused);
            assert_eq!(said.detail.contains("cancel it first"), first, "{}", said.detail);
        }
    }
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("done"));
    assert_eq!(status(&fleet, epic), Completed);
    for verb in [Pause, Resume, Cancel] {
        assert_eq!(asks(&mut fleet, &human(), epic, verb).error, Some(ErrorCode::Conflict));
    }
    does(&mut fleet, epic, Archive);
    assert_eq!(status(&fleet, epic), Archived);
}

#[test]
fn only_people_and_the_owner_change_a_goal() {
    let mut fleet = Fleet::ready();
    let plan = || Box::new(equipped(schema::parse(&tasks(1)).unwrap()));
    let po = Principal::Agent(po());
    let other = fleet.goal(tasks(1));
    let own = fleet.op(&po, Op::GoalCreate { project: project(), plan: plan() }).epic.unwrap();
    let worker = Principal::Agent(fleet.worker(other, "T1.1"));
    let go = Principal::Agent(AgentId::Go);
    let eve = Principal::Human(HumanName::new("Eve").unwrap());
    for (from, epic, refused) in [
        (&po, own, false),
        (&po, other, true),
        (&worker, other, true),
        (&worker, own, true),
        (&go, other, false),
        (&human(), own, false),
        (&eve, other, false),
    ] {
        let expected = refused.then_some(ErrorCode::Unauthorized);
        for verb in [Pause, Resume, Prioritise(None)] {
            assert_eq!(asks(&mut fleet, from, epic, verb).error, expected, "{from} {verb:?}");
        }
    }
    let unknown = asks(&mut fleet, &human(), EpicId(crate::id::Ulid(9)), Pause);
    assert_eq!(unknown.error, Some(ErrorCode::NotFound));
}

#[test]
fn goal_change_is_an_event_with_actor_and_bounded_reason() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let entry = does(&mut fleet, epic, Pause);
    let event = entry.events.iter().find(|event| event.kind == EventKind::GoalStatus).unwrap();
    assert_eq!(event.actor, human());
    assert_eq!(event.reason, "active -> paused: because");
    assert_eq!(entry.plans[0].goal, GoalStatus::Paused, "whoever follows the plan sees it");
    assert_eq!(entry.plans[0].reason, PlanReason::ManualOverride);
    for (size, refused) in [(TEXT_BYTES_MAX, false), (TEXT_BYTES_MAX + 1, true)] {
        let reason = "x".repeat(size);
        let verb = Prioritise(Some(Priority::NORMAL));
        let said = fleet.op(&human(), Op::Goal(GoalOp { epic, verb, reason }));
        assert_eq!(said.error.is_some(), refused, "{}", said.detail);
    }
}

#[test]
fn paused_goal_starts_nothing_and_running_work_goes_on() {
    let review = json!({"review": {"domain": "quality"}});
    let plan = plan_of(&[task("T1.1", json!({})), task("T1.2", review), task("T1.3", json!({}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let plain = fleet.worker(epic, "T1.1");
    let reviewed = fleet.worker(epic, "T1.2");
    let entry = does(&mut fleet, epic, Pause);
    assert!(topics(&entry, &id("HO@h1")).is_empty(), "nobody is stopped");

    let wanted = request(epic, "T1.3", vec![wish(Role::Worker)]);
    let refused = fleet.spawn(&po(), wanted.clone());
    assert_eq!(reasons(&refused), [DenialReason::NodeNotAssignable]);
    fleet.end(&plain, RunResult::ended(Outcome::Failure, "no"));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued, "to be tried again later");
    let again = request(epic, "T1.1", vec![wish(Role::Worker)]);
    assert_eq!(reasons(&fleet.spawn(&po(), again.clone())), [DenialReason::NodeNotAssignable]);
    fleet.end(&reviewed, success("work"));
    let mut reviewer = wish(Role::Reviewer);
    reviewer.domain = Some(crate::id::Domain::new("quality").unwrap());
    let review = request(epic, "T1.2", vec![reviewer]);
    let refused = fleet.spawn(&po(), review.clone());
    assert_eq!(reasons(&refused), [DenialReason::NodeNotAssignable]);

    does(&mut fleet, epic, Resume);
    for wanted in [wanted, again, review] {
        let answer = fleet.spawn(&po(), wanted);
        assert!(answer.accepted(), "{answer:?}");
    }
}

#[test]
fn paused_goal_gets_no_overseer_dispatch() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    does(&mut fleet, epic, Pause);
    let telemetry = Telemetry { since: BusTime(0), ..Telemetry::default() };
    fleet.now = fleet.now + IDLE_AFTER;
    let entry = fleet.one(Input::Oversee(telemetry));
    assert_eq!(entry.mail, [], "{entry:?}");
    let (run, update) = (fleet.run_of(&worker), r#"{"status": "done"}"#.to_owned());
    let done = Report::Update { run, dispatch: None, update, expected: None };
    let entry = fleet.report(&worker, done.clone());
    assert_eq!(topics(&entry, &worker), Vec::<String>::new(), "not asked for evidence either");

    does(&mut fleet, epic, Resume);
    let entry = fleet.report(&worker, done);
    assert_eq!(topics(&entry, &worker), ["status.request"]);
}

#[test]
fn paused_goal_survives_a_crash_and_takes_its_last_result() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    does(&mut fleet, epic, Pause);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.agent(&worker).epoch, 2, "running work goes on");
    fleet.report(&worker, Report::Ready);
    fleet.end(&worker, success("done"));
    assert_eq!(status(&fleet, epic), GoalStatus::Completed);
}

#[test]
fn cancelled_goal_stops_runs_children_first_and_drops_the_rest() {
    let plan = plan_of(&[
        task("T1.1", json!({})),
        task("T1.2", json!({"deps": ["T1.1"]})),
        task("T1.3", json!({})),
    ]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let entry = does(&mut fleet, epic, Cancel);
    assert_eq!(topics(&entry, &child), ["stop"]);
    assert_eq!(topics(&entry, &specialist), Vec::<String>::new(), "its child drains first");
    let [first, waiting, ready] = stands(&fleet, epic, &["T1.1", "T1.2", "T1.3"])[..] else {
        panic!("three leaves")
    };
    assert_eq!((waiting, ready), (NodeStatus::Cancelled, NodeStatus::Cancelled));
    assert_eq!(first, NodeStatus::InProgress, "until its agent has ended");

    let entry = fleet.end(&child, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert!(topics(&entry, &specialist).contains(&"stop".to_owned()));
    fleet.end(&specialist, success("just in time"));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Cancelled);
    assert_eq!(status(&fleet, epic), GoalStatus::Cancelled);
    for agent in [&child, &specialist] {
        assert_eq!(fleet.agent(agent).liveness, Liveness::Terminated);
    }
    assert!(fleet.agent(&po()).slots.is_empty());
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
}

#[test]
fn cancelled_goal_keeps_its_progress() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("done"));
    let percent = |fleet: &Fleet| fleet.records.goal_states[&epic].percent;
    assert_eq!(percent(&fleet), 50);
    does(&mut fleet, epic, Cancel);
    assert_eq!((status(&fleet, epic), percent(&fleet)), (GoalStatus::Cancelled, 50));
    does(&mut fleet, epic, Archive);
    assert_eq!((status(&fleet, epic), percent(&fleet)), (GoalStatus::Archived, 50));
}

#[test]
fn run_outliving_the_cancel_deadline_is_ended() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    does(&mut fleet, epic, Cancel);
    fleet.now = next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap();
    let entry = fleet.one(Input::Tick);
    assert_eq!(super::fleet::killed(&entry), [&worker]);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Cancelled);
}

#[test]
fn crash_after_cancellation_revives_nobody() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    does(&mut fleet, epic, Cancel);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Cancelled);
}

#[test]
fn cancellation_covers_reviewed_and_escalated_work() {
    let review = json!({"review": {"domain": "quality"}});
    let (mut fleet, epic) =
        Fleet::with_goal(plan_of(&[task("T1.1", review), task("T1.2", json!({}))]));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("work"));
    let stuck = fleet.worker(epic, "T1.2");
    let (run, update) = (fleet.run_of(&stuck), r#"{"status":"blocked","blockers":["a key"]}"#);
    let update = update.to_owned();
    fleet.report(&stuck, Report::Update { run, dispatch: None, update, expected: None });
    let asked = fleet.records.questions.values().next().unwrap().id;
    does(&mut fleet, epic, Cancel);
    assert_eq!(stands(&fleet, epic, &["T1.1", "T1.2"]), [NodeStatus::Cancelled; 2]);
    assert_eq!(fleet.records.questions[&asked].status, QuestionStatus::Withdrawn);
    let late = fleet.op(&human(), Op::QuestionAnswer { question: asked, text: "here".to_owned() });
    assert_eq!(late.error, Some(ErrorCode::Conflict));
}

#[test]
fn review_after_cancellation_changes_nothing() {
    let review = json!({"review": {"domain": "quality"}});
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", review)]));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("work"));
    let mut wanted = wish(Role::Reviewer);
    wanted.domain = Some(crate::id::Domain::new("quality").unwrap());
    let reviewer = fleet.spawn(&po(), request(epic, "T1.1", vec![wanted])).spawned[0].agent.clone();
    fleet.report(&reviewer, Report::Ready);
    does(&mut fleet, epic, Cancel);
    let verdict = Verdict { judgement: Judgement::Pass, findings: Vec::<Finding>::new() };
    fleet.end(&reviewer, RunResult { verdict: Some(verdict), ..success("fine") });
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Cancelled);
    assert_eq!(fleet.records.goal_states[&epic].percent, 0);
}

#[test]
fn people_and_overseer_set_separate_priorities() {
    let mut fleet = Fleet::ready();
    let epic = fleet.goal(tasks(1));
    let said = |number| Some(Priority::new(number).unwrap());
    let entry = does(&mut fleet, epic, Prioritise(said(80)));
    assert_eq!(entry.plans[0].priorities, Priorities { user: said(80), overseer: None });
    let go = Principal::Agent(AgentId::Go);
    assert_eq!(asks(&mut fleet, &go, epic, Prioritise(said(10))).error, None);
    let both = Priorities { user: said(80), overseer: said(10) };
    assert_eq!(fleet.records.goal_states[&epic].priorities, both);
    let again = does(&mut fleet, epic, Prioritise(said(80)));
    assert!(again.plans.is_empty(), "nothing new was said");
    does(&mut fleet, epic, Prioritise(None));
    let left = Priorities { user: None, overseer: said(10) };
    assert_eq!(fleet.records.goal_states[&epic].priorities, left);
    does(&mut fleet, epic, Cancel);
    let late = asks(&mut fleet, &human(), epic, Prioritise(said(1)));
    assert_eq!(late.error, Some(ErrorCode::Conflict));
    assert_eq!(fleet.records.node_states[&epic][&node("T1.1")].status, NodeStatus::Cancelled);
}

#[test]
fn largest_goal_is_cancelled_at_once_with_any_reason() {
    let subtask = |n: usize, t: usize, s: usize| json!({"id": format!("S{n}.{t}.{s}"), "name": "n", "acceptance": ["x"]});
    let task_of = |n: usize, t: usize| {
        let below: Vec<_> = (1..=7).map(|s| subtask(n, t, s)).collect();
        json!({"id": format!("T{n}.{t}"), "name": "n", "acceptance": ["x"], "subtasks": below})
    };
    let phase = |n: usize| {
        let tasks: Vec<_> = (1..=7).map(|t| task_of(n, t)).collect();
        json!({"id": format!("P{n}"), "name": "n", "tasks": tasks})
    };
    let phases: Vec<_> = (1..=5).map(phase).collect();
    let (mut fleet, epic) = Fleet::with_goal(json!({"title": "large", "phases": phases}));
    let reason = "x".repeat(TEXT_BYTES_MAX);
    let said = fleet.op(&human(), Op::Goal(GoalOp { epic, verb: Cancel, reason }));
    assert_eq!(said.error, None, "{}", said.detail);
    let states = &fleet.records.node_states[&epic];
    assert_eq!(states.len(), 245);
    assert!(states.values().all(|state| state.status == NodeStatus::Cancelled));
}

#[test]
fn retiring_a_project_cancels_its_open_goals() {
    let (mut fleet, idle) = Fleet::with_goal(tasks(2));
    let busy = fleet.goal(tasks(1));
    fleet.worker(busy, "T1.1");
    let paused = fleet.goal(tasks(1));
    does(&mut fleet, paused, Pause);
    assert_eq!(fleet.op(&human(), Op::ProjectRetire { project: project() }).error, None);
    for epic in [idle, busy, paused] {
        assert_eq!(status(&fleet, epic), GoalStatus::Cancelled);
    }
    assert_eq!(fleet.node(idle, "T1.1").status, NodeStatus::Cancelled);
}

#[test]
fn open_goals_of_a_project_are_bounded_and_closed_ones_make_room() {
    let mut fleet = Fleet::ready();
    let first = fleet.goal(tasks(1));
    for _ in 1..OPEN_GOALS_MAX {
        fleet.goal(tasks(1));
    }
    let plan = || Box::new(equipped(schema::parse(&tasks(1)).unwrap()));
    let create = || Op::GoalCreate { project: project(), plan: plan() };
    let refused = fleet.op(&human(), create());
    assert_eq!(refused.error, Some(ErrorCode::Unavailable), "{refused:?}");
    does(&mut fleet, first, Cancel);
    assert_eq!(fleet.op(&human(), create()).error, None);
}

#[test]
fn goal_id_reused_by_another_request_is_refused() {
    let mut fleet = Fleet::ready();
    let epic = fleet.goal(tasks(1));
    let before = fleet.records.goals[&epic].clone();
    // As soon as the decision on the first request is forgotten, the goal alone tells.
    fleet.records.decisions.clear();
    let plan = Box::new(equipped(schema::parse(&tasks(2)).unwrap()));
    let other = Principal::Human("eve".parse().unwrap());
    let mut input =
        fleet.asking(&other, RequestBody::Op(Op::GoalCreate { project: project(), plan }));
    let Input::Request(request) = &mut input else { panic!("{input:?}") };
    request.id = RequestId(epic.0);
    let entry = fleet.one(input);
    let MailBody::Reply(reply) = &entry.mail[0].body else { panic!("{entry:?}") };
    assert_eq!(reply.error, Some(ErrorCode::Conflict), "{reply:?}");
    assert_eq!(fleet.records.goals[&epic], before);
}
