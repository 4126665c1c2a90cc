//! A goal from its plan to its result.

use serde_json::json;

use super::fleet::{
    Fleet, human, id, node, plan_of, po, project, request, success, task, tasks, topics, wish,
};
use crate::brief::{Finding, Judgement, Outcome, RunResult, Verdict};
use crate::error::ErrorCode;
use crate::goal::GoalStatus;
use crate::id::{EpicId, Principal};
use crate::liveness::Liveness;
use crate::mail::{Duty, MailBody};
use crate::plan::{ATTEMPTS_EXHAUSTED, Blocker, CREDENTIAL_MISSING, NodeStatus, PlanReason};
use crate::request::{Op, Report};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::time::Millis;

fn failure(error: &str) -> RunResult {
    RunResult::ended(Outcome::Failure, error)
}

fn verdict(judgement: Judgement) -> RunResult {
    let finding = Finding {
        place: "a.rs".to_owned(),
        what: "it is wrong".to_owned(),
        severity: "high".to_owned(),
    };
    let findings = if judgement == Judgement::Pass { Vec::new() } else { vec![finding] };
    RunResult { verdict: Some(Verdict { judgement, findings }), ..success("judged") }
}

fn versions(fleet: &Fleet, epic: EpicId) -> Vec<u32> {
    let events = fleet.ledger.iter().flat_map(|entry| &entry.plans);
    events.filter(|event| event.epic == epic).map(|event| event.version).collect()
}

#[test]
fn goal_is_given_worked_on_and_reached() {
    let plan = plan_of(&[task("T1.1", json!({})), task("T1.2", json!({"deps": ["T1.1"]}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let created = fleet.ledger.last().unwrap();
    assert_eq!(topics(created, &po()), ["instruction"]);
    assert_eq!((created.plans[0].version, created.plans[0].definitions.len()), (1, 3));
    let stands = |fleet: &Fleet| ["T1.1", "T1.2"].map(|on| fleet.node(epic, on).status);
    assert_eq!(stands(&fleet), [NodeStatus::Queued, NodeStatus::Todo]);

    let first = fleet.worker(epic, "T1.1");
    assert_eq!(stands(&fleet), [NodeStatus::InProgress, NodeStatus::Todo]);
    let ended = fleet.end(&first, success("one"));
    assert_eq!(topics(&ended, &po()), ["result.ready", "agent.completed"]);
    assert_eq!(stands(&fleet), [NodeStatus::Done, NodeStatus::Queued]);
    assert_eq!(fleet.records.goal_states[&epic].percent, 50);
    assert_eq!(fleet.agent(&po()).slots, []);

    let answer = fleet.spawn(&po(), request(epic, "T1.2", vec![wish(Role::Worker)]));
    let second = answer.spawned[0].agent.clone();
    let run = &fleet.records.runs[&fleet.run_of(&second)];
    assert_eq!(run.brief.inputs[0].deliverable, "one", "it gets what it depends on");
    // Faster than the report of being up.
    fleet.end(&second, success("two"));
    let state = &fleet.records.goal_states[&epic];
    assert_eq!((state.status, state.percent), (GoalStatus::Completed, 100));

    let whole = Report::Result { run: None, epic: Some(epic), result: success("whole") };
    let booked = fleet.report(&po(), whole.clone());
    assert_eq!(booked.plans[0].result.as_ref().unwrap().deliverable, "whole");
    assert_eq!(fleet.report(&po(), whole).plans, [], "the same report changes nothing");
    let count = u32::try_from(versions(&fleet, epic).len()).unwrap();
    assert_eq!(versions(&fleet, epic), (1..=count).collect::<Vec<_>>());
}

#[test]
fn unreached_goal_has_no_result() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let early = Report::Result { run: None, epic: Some(epic), result: success("early") };
    fleet.report(&po(), early);
    assert_eq!(fleet.records.goal_states[&epic].result, None);
}

#[test]
fn failed_attempt_is_repeated_with_its_findings_then_blocked() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let first = fleet.worker(epic, "T1.1");
    fleet.end(&first, failure("no disk"));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::Queued, 1));
    assert_eq!(state.findings, ["no disk"]);

    let second = fleet.worker(epic, "T1.1");
    let facts = &fleet.records.runs[&fleet.run_of(&second)].brief.key_facts;
    assert!(facts.iter().any(|fact| fact.contains("no disk")), "{facts:?}");
    fleet.end(&second, failure("still none"));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::Blocked, 2));
    assert_eq!(state.blocker.as_ref().unwrap().kind, ATTEMPTS_EXHAUSTED);
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Active);
}

#[test]
fn node_history_gives_a_failure_in_one_short_line() {
    let why = |error: &str| {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let worker = fleet.worker(epic, "T1.1");
        let entry = fleet.end(&worker, failure(error));
        entry.plans[0].changes[0].why.clone()
    };
    assert_eq!(why("exit code 3; no disk\nand more"), "the attempt failed: exit code 3; no disk");
    assert_eq!(why(""), "the attempt failed: it failed");
    let long = why(&"x".repeat(4_000));
    assert!(long.len() < 230 && long.ends_with("[cut]"), "{long}");
}

#[test]
fn unstartable_program_was_never_active() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![wish(Role::Worker)]));
    let agent = answer.spawned[0].agent.clone();
    let ended = fleet.end(&agent, failure("no such program"));
    let moves: Vec<&str> = ended.events.iter().map(|event| event.reason.as_str()).collect();
    assert!(moves.iter().any(|reason| reason.starts_with("register -> terminated")), "{moves:?}");
    assert_eq!(fleet.records.run_status[&fleet.run_of(&agent)].state, RunState::Failed);
}

#[test]
fn reviewed_work_is_done_on_a_pass_verdict() {
    let reviewed = task("T1.1", json!({"review": {"domain": "api"}}));
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[reviewed]));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("draft"));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, &state.assignee), (NodeStatus::InProgress, &None));
    let refused = fleet.spawn(&po(), request(epic, "T1.1", vec![wish(Role::Worker)]));
    assert!(!refused.accepted(), "only a reviewer may have it now");

    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    let run = &fleet.records.runs[&fleet.run_of(&reviewer)];
    assert_eq!(run.brief.inputs[0].deliverable, "draft");
    fleet.end(&reviewer, verdict(Judgement::NeedsChanges));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, &state.result), (NodeStatus::Queued, &None));
    assert_eq!(state.findings, ["a.rs: it is wrong (high)"]);

    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("better"));
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    fleet.end(&reviewer, verdict(Judgement::Pass));
    let state = fleet.node(epic, "T1.1");
    assert_eq!(state.status, NodeStatus::Done);
    assert_eq!(state.result.as_ref().unwrap().deliverable, "better");
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Completed);
}

#[test]
fn review_without_a_verdict_is_repeated_then_blocked() {
    let reviewed = task("T1.1", json!({"review": {"domain": "api"}}));
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[reviewed]));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("draft"));
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    fleet.end(&reviewer, RunResult::ended(Outcome::Failure, "it went wrong"));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::InProgress, 2));
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    fleet.end(&reviewer, success("no verdict"));
    let blocker = fleet.node(epic, "T1.1").blocker.clone().unwrap();
    assert_eq!(blocker.kind, ATTEMPTS_EXHAUSTED);
}

#[test]
fn failing_verdict_of_a_review_node_fails_that_node() {
    let review = task("T1.1", json!({"role": "reviewer", "domain": "api", "maxAttempts": 1}));
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[review]));
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    fleet.end(&reviewer, verdict(Judgement::Fail));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Blocked);
}

#[test]
fn stopped_agent_stays_stopped_despite_its_program() {
    let stop = |fleet: &mut Fleet, on: &str, epic| {
        let agent = fleet.worker(epic, on);
        let run = fleet.run_of(&agent);
        let moved = Report::Run {
            run,
            event: RunEvent::CancelRequested,
            reason: "enough".to_owned(),
            usage: Default::default(),
        };
        fleet.report(&agent, moved);
        assert_eq!(fleet.records.run_status[&run].state, RunState::Cancelling);
        agent
    };
    let (mut fleet, epic) = Fleet::with_goal(tasks(4));
    let agent = stop(&mut fleet, "T1.1", epic);
    fleet.end(&agent, RunResult::ended(Outcome::Cancelled, "stopped"));
    let agent = stop(&mut fleet, "T1.2", epic);
    fleet.end(&agent, failure("signal 15"));
    let agent = stop(&mut fleet, "T1.3", epic);
    fleet.report(&agent, Report::Crashed { cause: "signal 9".to_owned() });
    for on in ["T1.1", "T1.2", "T1.3"] {
        let state = fleet.node(epic, on);
        assert_eq!(state.blocker.as_ref().unwrap().kind, "stopped", "{on}");
    }
    let agent = stop(&mut fleet, "T1.4", epic);
    fleet.end(&agent, success("finished on the way"));
    assert_eq!(fleet.node(epic, "T1.4").status, NodeStatus::Done);
}

#[test]
fn waiting_run_may_still_end() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let asking = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&asking);
    let ask = Report::Ask { run, id: None, question: "which?".to_owned(), options: Vec::new() };
    let asked = fleet.report(&asking, ask);
    assert_eq!(asked.mail[0].to, human(), "the goal's owner, who has not joined");
    assert_eq!(fleet.records.run_status[&run].state, RunState::AwaitingInput);
    fleet.end(&asking, success("without an answer"));

    let moved =
        |run, event| Report::Run { run, event, reason: String::new(), usage: Default::default() };
    let compacting = fleet.worker(epic, "T1.2");
    let run = fleet.run_of(&compacting);
    fleet.report(&compacting, moved(run, RunEvent::CompactionStarted));
    fleet.report(&compacting, moved(run, RunEvent::CancelRequested));
    assert!(fleet.records.run_status[&run].cancel_kept);
    fleet.end(&compacting, success("drained"));
    assert_eq!(fleet.records.run_status[&run].state, RunState::Done);

    let early = fleet.worker(epic, "T1.3");
    let run = fleet.run_of(&early);
    for event in [RunEvent::Completed, RunEvent::Failed, RunEvent::HeartbeatLost] {
        fleet.report(&early, moved(run, event));
        assert_eq!(fleet.records.run_status[&run].state, RunState::Running, "{event}");
    }
}

#[test]
fn one_group_raises_a_plan_once() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let inputs = ["T1.1", "T1.2", "T1.3"]
        .map(|on| {
            let wanted = request(epic, on, vec![wish(Role::Worker)]);
            fleet.asking(&po().into(), crate::request::RequestBody::Spawn(wanted))
        })
        .into();
    let entry = fleet.group(inputs);
    assert_eq!(entry.plans.len(), 1);
    assert_eq!((entry.plans[0].version, entry.plans[0].reason), (2, PlanReason::Spawn));
    assert_eq!(entry.plans[0].changes.len(), 3);
    assert_eq!(fleet.agent(&po()).slots.len(), 3);
}

#[test]
fn new_orchestrator_is_given_the_open_epics() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let retired = Op::AgentRetire { agent: po(), reason: String::new() };
    fleet.op(&human(), retired);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Terminated);
    let again = Op::ProjectCreate(super::fleet::create(false));
    let input = fleet.asking(&human(), crate::request::RequestBody::Op(again));
    let entry = fleet.one(input);
    let launched = entry.mail.iter().find_map(|mail| {
        if let MailBody::Launch(launch) = &mail.body { Some(launch) } else { None }
    });
    assert_eq!(launched.unwrap().duty, Duty::Project(vec![epic]));
    assert_eq!(fleet.agent(&po()).epoch, 2);
}

#[test]
fn orchestrator_blocks_only_unstaffed_nodes() {
    let reviewed = task("T1.2", json!({"review": {"domain": "api"}}));
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", json!({})), reviewed]));
    let block = |on: &str| Op::WorkBlock {
        epic,
        node: node(on),
        blocker: crate::plan::Blocker {
            kind: "tool_not_allowed".to_owned(),
            detail: String::new(),
            needs: String::new(),
        },
    };
    let worker = fleet.worker(epic, "T1.2");
    assert!(fleet.op(&po().into(), block("T1.2")).error.is_some(), "it is worked on");
    fleet.end(&worker, success("draft"));
    assert_eq!(fleet.op(&po().into(), block("T1.2")).error, None, "it waits for its reviewer");
    assert_eq!(fleet.op(&po().into(), block("T1.1")).error, None);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Blocked);
    let other = id("HO@h1");
    assert!(fleet.op(&other.into(), block("T1.1")).error.is_some());
}

#[test]
fn goal_needs_an_existing_project() {
    let mut fleet = Fleet::ready();
    let plan = || Box::new(crate::plan::schema::one_task("goal"));
    let unknown = crate::id::ProjectName::new("nope").unwrap();
    let refused = fleet.op(&human(), Op::GoalCreate { project: unknown, plan: plan() });
    assert_eq!(refused.error, Some(crate::error::ErrorCode::NotFound));
    fleet.op(&human(), Op::ProjectRetire { project: project() });
    let refused = fleet.op(&human(), Op::GoalCreate { project: project(), plan: plan() });
    assert_eq!(refused.error, Some(crate::error::ErrorCode::NotFound));
}

#[test]
fn node_keeps_when_it_first_began_and_ended() {
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", json!({"maxAttempts": 2}))]));
    let times = |fleet: &Fleet| {
        let state = fleet.node(epic, "T1.1");
        (state.started, state.ended())
    };
    assert_eq!(times(&fleet), (None, None));
    let began = fleet.now;
    let worker = fleet.worker(epic, "T1.1");
    assert_eq!(times(&fleet), (Some(began), None));
    fleet.now = fleet.now + Millis(500);
    fleet.end(&worker, RunResult::ended(Outcome::Failure, "no"));
    let worker = fleet.worker(epic, "T1.1");
    let ended = fleet.now + Millis(500);
    fleet.now = ended;
    fleet.end(&worker, success("yes"));
    assert_eq!(times(&fleet), (Some(began), Some(ended)), "of the first attempt");
}

#[test]
fn missing_credential_is_named_by_kind_and_place_and_kept_as_that() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let detail = "the provider refused the call".to_owned();
    for (needs, error) in [("", Some(ErrorCode::InvalidRequest)), ("an API key, in env:KEY", None)]
    {
        let (kind, needs) = (CREDENTIAL_MISSING.to_owned(), needs.to_owned());
        let blocker = Blocker { kind, detail: detail.clone(), needs };
        let block = Op::WorkBlock { epic, node: node("T1.1"), blocker };
        let said = fleet.op(&Principal::Agent(po()), block);
        assert_eq!(said.error, error, "{}", said.detail);
    }
    let state = fleet.node(epic, "T1.1");
    let kept = state.blocker.as_ref().unwrap();
    assert_eq!(
        (kept.kind.as_str(), kept.needs.as_str()),
        (CREDENTIAL_MISSING, "an API key, in env:KEY")
    );
    assert_eq!(state.status, NodeStatus::Blocked);
}
