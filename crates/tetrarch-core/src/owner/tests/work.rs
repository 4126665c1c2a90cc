//! Work under the hands of people and agents: done with something to show, tried again, more or less
//! urgent, and told.

use serde_json::{Value, json};

use super::fleet::{Fleet, human, id, killed, node, plan_of, po, success, task, tasks, topics};
use super::goals::asks;
use crate::assignment::AssignmentStatus;
use crate::brief::{Evidence, Outcome, RunResult};
use crate::error::ErrorCode;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, Principal};
use crate::ledger::{Entry, EventKind};
use crate::limits::{
    ANSWER_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX, RESULT_WORDS_MAX, SUMMARY_BYTES_MAX,
};
use crate::liveness::Liveness;
use crate::mail::OpReply;
use crate::plan::{ATTEMPTS_EXHAUSTED, Blocker, NodeStatus};
use crate::priority::{Priorities, Priority};
use crate::question::QuestionStatus;
use crate::request::goals::GoalVerb;
use crate::request::work::{Completion, WorkOp, WorkVerb};
use crate::request::{Op, Page, Report, RequestBody};
use crate::role::Role;
use crate::run::RunState;
use crate::time::Millis;

fn does(fleet: &mut Fleet, from: &Principal, epic: EpicId, verb: WorkVerb) -> (Entry, OpReply) {
    let input = fleet.asking(from, RequestBody::Op(Op::Work(WorkOp { epic, verb })));
    let entry = fleet.one(input);
    let reply = super::fleet::reply(&entry);
    (entry, reply)
}

fn done(on: &str, crystallization: &str, reason: &str) -> Completion {
    Completion {
        node: node(on),
        crystallization: crystallization.to_owned(),
        evidence: Evidence::default(),
        reason: reason.to_owned(),
    }
}

fn completes(fleet: &mut Fleet, from: &Principal, epic: EpicId, done: Completion) -> OpReply {
    does(fleet, from, epic, WorkVerb::Complete(Box::new(done))).1
}

fn two() -> (Fleet, EpicId) {
    let plan = plan_of(&[task("T1.1", json!({})), task("T1.2", json!({"deps": ["T1.1"]}))]);
    Fleet::with_goal(plan)
}

#[test]
fn done_needs_a_crystallization_or_evidence() {
    let commits = Evidence { commits: vec!["abc".to_owned()], ..Evidence::default() };
    let cases = [
        (done("T1.1", "", "r"), Some(ErrorCode::InvalidPlan)),
        (done("T1.1", "it is there", "r"), None),
        (Completion { evidence: commits, ..done("T1.1", "", "r") }, None),
    ];
    for (wanted, error) in cases {
        let (mut fleet, epic) = two();
        let said = completes(&mut fleet, &human(), epic, wanted);
        assert_eq!(said.error, error, "{}", said.detail);
        let next = if error.is_some() { NodeStatus::Todo } else { NodeStatus::Queued };
        assert_eq!(fleet.node(epic, "T1.2").status, next, "what waits for it is ready with it");
    }
}

#[test]
fn manual_completion_needs_a_reason_and_is_an_event() {
    let (mut fleet, epic) = two();
    let silent = completes(&mut fleet, &human(), epic, done("T1.1", "c", ""));
    assert_eq!(silent.error, Some(ErrorCode::InvalidRequest));
    let verb = WorkVerb::Complete(Box::new(done("T1.1", "c", "I did it by hand")));
    let (entry, said) = does(&mut fleet, &human(), epic, verb);
    assert_eq!((said.error, said.detail.as_str()), (None, "T1.1 is done"));
    let event = entry.events.iter().find(|event| event.kind == EventKind::NodeOverride).unwrap();
    assert_eq!((event.actor.clone(), event.node), (human(), Some(node("T1.1"))));
    assert!(event.reason.contains("I did it by hand"), "{}", event.reason);
    let result = fleet.node(epic, "T1.1").result.clone().unwrap();
    assert_eq!((result.run, result.deliverable.as_str()), (None, "c"));
    assert_eq!(fleet.records.goal_states[&epic].percent, 50);
}

#[test]
fn worker_lead_and_people_may_complete_work() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let (first, second) = (fleet.worker(epic, "T1.1"), fleet.worker(epic, "T1.2"));
    let second = Principal::Agent(second);
    let foreign = completes(&mut fleet, &second, epic, done("T1.1", "c", "r"));
    assert_eq!(foreign.error, Some(ErrorCode::Unauthorized));
    let own = completes(&mut fleet, &Principal::Agent(first), epic, done("T1.1", "c", ""));
    assert_eq!(own.error, None, "{}", own.detail);
    let leads = Principal::Agent(po());
    assert_eq!(completes(&mut fleet, &leads, epic, done("T1.2", "c", "r")).error, None);
    let go = Principal::Agent(AgentId::Go);
    assert_eq!(completes(&mut fleet, &go, epic, done("T1.3", "c", "r")).error, None);
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Completed);
    let host = Principal::Agent(id("HO@h1"));
    let late = completes(&mut fleet, &host, epic, done("T1.3", "c", "r"));
    assert_eq!(late.error, Some(ErrorCode::Unauthorized));
}

#[test]
fn own_completion_ends_like_a_run_result() {
    let (mut fleet, epic) = two();
    let worker = fleet.worker(epic, "T1.1");
    let (run, from) = (fleet.run_of(&worker), Principal::Agent(worker.clone()));
    let verb = WorkVerb::Complete(Box::new(done("T1.1", "it is there", "")));
    let (entry, said) = does(&mut fleet, &from, epic, verb);
    assert_eq!(said.error, None);
    assert_eq!(killed(&entry), [&worker]);
    assert_eq!(topics(&entry, &po()), ["result.ready", "agent.completed"]);
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.result.as_ref().unwrap().run), (NodeStatus::Done, Some(run)));
    assert_eq!(fleet.records.run_status[&run].state, RunState::Done);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert!(!entry.tells(EventKind::NodeOverride), "it is its own work");
}

#[test]
fn own_completion_is_reviewed_where_planned() {
    let review = json!({"review": {"domain": "quality"}});
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", review)]));
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let said = completes(&mut fleet, &worker, epic, done("T1.1", "c", ""));
    assert!(said.detail.contains("a reviewer judges it"), "{}", said.detail);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress);
    let said = completes(&mut fleet, &human(), epic, done("T1.1", "I looked", "no reviewer"));
    assert_eq!(said.error, None);
    let result = fleet.node(epic, "T1.1").result.clone().unwrap();
    assert_eq!((result.deliverable.as_str(), result.crystallization.as_str()), ("c", "I looked"));
}

#[test]
fn reviewer_ends_only_with_a_verdict() {
    let review = json!({"review": {"domain": "quality"}});
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", review)]));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("work"));
    let reviewer = Principal::Agent(fleet.member(epic, "T1.1", Role::Reviewer));
    let said = completes(&mut fleet, &reviewer, epic, done("T1.1", "c", ""));
    assert_eq!(said.error, Some(ErrorCode::Conflict), "{}", said.detail);
}

#[test]
fn completion_ends_the_worker_and_its_descendants() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let assignment = fleet.agent(&specialist).work.as_ref().unwrap().assignment;
    let verb = WorkVerb::Complete(Box::new(done("T1.1", "c", "it was done elsewhere")));
    let (entry, said) = does(&mut fleet, &human(), epic, verb);
    assert!(said.detail.contains("is ended"), "{}", said.detail);
    assert_eq!(killed(&entry), [&child, &specialist]);
    assert_eq!(fleet.records.assignments[&assignment].status, AssignmentStatus::Done);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
    assert!(fleet.agent(&po()).slots.is_empty(), "its slot is free");
    fleet.report(&specialist, Report::Gone { cause: "killed".to_owned() });
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
}

#[test]
fn only_open_leaves_with_done_dependencies_complete() {
    let (mut fleet, epic) = two();
    let mut says = |on: &str| {
        let said = completes(&mut fleet, &human(), epic, done(on, "c", "r"));
        said.error
    };
    assert_eq!(says("T1.2"), Some(ErrorCode::Conflict), "it waits for T1.1");
    assert_eq!(says("P1"), Some(ErrorCode::Conflict), "no leaf");
    assert_eq!(says("T9.9"), Some(ErrorCode::NotFound));
    assert_eq!(says("T1.1"), None);
    assert_eq!(says("T1.1"), Some(ErrorCode::Conflict), "once");
    asks(&mut fleet, &human(), epic, GoalVerb::Cancel);
    let late = completes(&mut fleet, &human(), epic, done("T1.2", "c", "r"));
    assert_eq!(late.error, Some(ErrorCode::Conflict));
}

#[test]
fn evidence_is_bounded() {
    let commits = |count: usize, size: usize| Evidence {
        commits: vec!["x".repeat(size); count],
        ..Evidence::default()
    };
    let of = |evidence| Completion { evidence, ..done("T1.1", "", "r") };
    let long = |size| Completion { crystallization: "x".repeat(size), ..done("T1.1", "", "r") };
    for (wanted, refused) in [
        (long(SUMMARY_BYTES_MAX), false),
        (long(SUMMARY_BYTES_MAX + 1), true),
        (of(commits(LIST_MAX, 1)), false),
        (of(commits(LIST_MAX + 1, 1)), true),
        (of(commits(2, RESULT_WORDS_MAX / 2)), false),
        (of(commits(2, RESULT_WORDS_MAX / 2 + 1)), true),
    ] {
        let (mut fleet, epic) = two();
        let said = completes(&mut fleet, &human(), epic, wanted);
        let error = refused.then_some(ErrorCode::InvalidPlan);
        assert_eq!(said.error, error, "{}", said.detail);
    }
}

fn unblocks(fleet: &mut Fleet, from: &Principal, epic: EpicId, on: &str, note: &str) -> OpReply {
    let verb = WorkVerb::Unblock { node: node(on), note: note.to_owned() };
    does(fleet, from, epic, verb).1
}

#[test]
fn unblocked_work_gets_one_more_attempt_if_exhausted() {
    let plan = plan_of(&[task("T1.1", json!({"maxAttempts": 1}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    assert_eq!(
        unblocks(&mut fleet, &human(), epic, "T1.1", "").error,
        Some(ErrorCode::Conflict),
        "it is queued"
    );
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, RunResult::ended(Outcome::Failure, "no key"));
    assert_eq!(fleet.node(epic, "T1.1").blocker.as_ref().unwrap().kind, ATTEMPTS_EXHAUSTED);
    let said = unblocks(&mut fleet, &human(), epic, "T1.1", "it lies under the mat");
    assert_eq!(said.error, None);
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::Queued, 1));
    assert_eq!(state.findings[0], "human:Shai: it lies under the mat");
    assert!(state.findings[1].contains("no key"), "{:?}", state.findings);
    assert_eq!(fleet.records.nodes[&epic][&node("T1.1")].max_attempts, 2);
    fleet.worker(epic, "T1.1");
}

#[test]
fn stopped_or_unstaffed_work_is_unblocked_too() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let blocker = Blocker {
        kind: "tool_not_allowed".to_owned(),
        detail: "no".to_owned(),
        needs: "a tool".to_owned(),
    };
    let block = Op::WorkBlock { epic, node: node("T1.1"), blocker };
    assert_eq!(fleet.op(&Principal::Agent(po()), block).error, None);
    let worker = Principal::Agent(po());
    assert_eq!(unblocks(&mut fleet, &worker, epic, "T1.1", "").error, None, "its orchestrator may");
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let said = unblocks(&mut fleet, &worker, epic, "T1.1", "");
    assert_eq!(said.error, Some(ErrorCode::Unauthorized), "who works on it may not");
    let long = "x".repeat(INSTRUCTION_BYTES_MAX + 1);
    let said = unblocks(&mut fleet, &human(), epic, "T1.1", &long);
    assert_eq!(said.error, Some(ErrorCode::InvalidRequest));
}

#[test]
fn escalated_work_is_unblocked_by_people_and_its_question_withdrawn() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let (run, update) = (fleet.run_of(&worker), r#"{"status":"blocked","blockers":["a key"]}"#);
    let update = update.to_owned();
    fleet.report(&worker, Report::Update { run, dispatch: None, update, expected: None });
    let said = unblocks(&mut fleet, &Principal::Agent(po()), epic, "T1.1", "");
    assert_eq!(said.error, Some(ErrorCode::Unauthorized), "{}", said.detail);
    assert_eq!(unblocks(&mut fleet, &human(), epic, "T1.1", "").error, None);
    let question = fleet.records.questions.values().next().unwrap();
    assert_eq!(question.status, QuestionStatus::Withdrawn);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued);
}

fn said(number: u32) -> Option<Priority> {
    Some(Priority::new(number).unwrap())
}

fn ranks(
    fleet: &mut Fleet,
    from: &Principal,
    epic: EpicId,
    on: &[(&str, Option<Priority>)],
) -> (Entry, OpReply) {
    let priorities = on.iter().map(|(id, said)| (node(id), *said)).collect();
    let reason = "because".to_owned();
    does(fleet, from, epic, WorkVerb::Reprioritise { priorities, reason })
}

#[test]
fn priority_is_set_on_leaves_or_a_subtree() {
    let plan = json!({"title": "goal", "phases": [{"id": "P1", "name": "p", "tasks": [
        {"id": "T1.1", "name": "a", "acceptance": ["x"]},
        {"id": "T1.2", "name": "b", "acceptance": ["x"], "subtasks": [
            {"id": "S1.2.1", "name": "c", "acceptance": ["x"]},
            {"id": "S1.2.2", "name": "d", "acceptance": ["x"]}]}]}]});
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let (entry, _) = ranks(&mut fleet, &human(), epic, &[("T1.2", said(90)), ("T1.1", said(10))]);
    let of = |fleet: &Fleet, on: &str| fleet.node(epic, on).priorities;
    let user = |number| Priorities { user: said(number), overseer: None };
    assert_eq!(of(&fleet, "S1.2.1"), user(90));
    assert_eq!(of(&fleet, "S1.2.2"), user(90));
    assert_eq!(of(&fleet, "T1.1"), user(10));
    let event = entry.events.iter().find(|event| event.kind == EventKind::NodePriority).unwrap();
    assert_eq!(event.reason, "user priority 90: because");
    let view = entry.plans[0].nodes.iter().find(|view| view.id == node("S1.2.1")).unwrap();
    assert_eq!(view.priorities, user(90), "its orchestrator sees it");

    let leads = Principal::Agent(po());
    assert_eq!(ranks(&mut fleet, &leads, epic, &[("T1.1", said(70))]).1.error, None);
    let both = Priorities { user: said(10), overseer: said(70) };
    assert_eq!(of(&fleet, "T1.1"), both);
    let (again, reply) = ranks(&mut fleet, &human(), epic, &[("T1.1", said(10))]);
    assert!(again.plans.is_empty() && reply.detail.starts_with("0 leaves"), "{}", reply.detail);
    ranks(&mut fleet, &human(), epic, &[("T1.1", None)]);
    assert_eq!(of(&fleet, "T1.1"), Priorities { user: None, overseer: said(70) });
}

#[test]
fn priority_is_limited_by_sender_and_target() {
    let (mut fleet, epic) = two();
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let error = |fleet: &mut Fleet, from: &Principal, on: &[(&str, Option<Priority>)]| {
        ranks(fleet, from, epic, on).1.error
    };
    assert_eq!(error(&mut fleet, &worker, &[("T1.1", None)]), Some(ErrorCode::Unauthorized));
    assert_eq!(error(&mut fleet, &human(), &[]), Some(ErrorCode::InvalidPlan));
    let many = vec![("T1.1", said(1)); LIST_MAX + 1];
    assert_eq!(error(&mut fleet, &human(), &many), Some(ErrorCode::InvalidPlan));
    assert_eq!(error(&mut fleet, &human(), &many[1..]), None);
    let mixed = [("T1.2", said(5)), ("T9.9", said(5))];
    assert_eq!(error(&mut fleet, &human(), &mixed), Some(ErrorCode::NotFound));
    assert_eq!(fleet.node(epic, "T1.2").priorities, Priorities::default(), "all or nothing");
    completes(&mut fleet, &human(), epic, done("T1.1", "c", "r"));
    assert_eq!(error(&mut fleet, &human(), &[("T1.1", None)]), Some(ErrorCode::Conflict));
}

fn told(fleet: &mut Fleet, from: &Principal, epic: EpicId, verb: WorkVerb) -> Value {
    let (entry, reply) = does(fleet, from, epic, verb);
    assert_eq!(reply.error, None, "{}", reply.detail);
    assert!(entry.plans.is_empty(), "telling changes nothing");
    let data = reply.data.unwrap();
    assert!(data.len() <= ANSWER_BYTES_MAX, "{} bytes", data.len());
    serde_json::from_str(&data).unwrap()
}

#[test]
fn work_list_is_ordered_and_filtered_by_status() {
    let (mut fleet, epic) = two();
    let worker = fleet.worker(epic, "T1.1");
    let from = Principal::Agent(worker.clone());
    let all = told(&mut fleet, &from, epic, WorkVerb::List { status: None, page: Page::default() });
    let ids: Vec<&str> =
        all["nodes"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &all["more"]), (vec!["P1", "T1.1", "T1.2"], &json!(false)));
    assert_eq!(all["nodes"][1]["assignee"], json!(worker.to_string()));
    let status = Some(NodeStatus::Todo);
    let waits = told(&mut fleet, &human(), epic, WorkVerb::List { status, page: Page::default() });
    assert_eq!(waits["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(waits["nodes"][0]["dependsOn"], json!(["T1.1"]));
    let host = Principal::Agent(id("HO@h1"));
    let refused =
        does(&mut fleet, &host, epic, WorkVerb::List { status: None, page: Page::default() }).1;
    assert_eq!(refused.error, Some(ErrorCode::Unauthorized));
}

#[test]
fn oversized_list_is_cut_at_whole_items_and_says_so() {
    let subtasks = |t: usize| -> Vec<Value> {
        (1..=7).map(|s| json!({"id": format!("S1.{t}.{s}"), "name": "n".repeat(900), "acceptance": ["x"]})).collect()
    };
    let tasks: Vec<Value> =
        (1..=7).map(|t| task(&format!("T1.{t}"), json!({"subtasks": subtasks(t)}))).collect();
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&tasks));
    let all =
        told(&mut fleet, &human(), epic, WorkVerb::List { status: None, page: Page::default() });
    let count = all["nodes"].as_array().unwrap().len();
    assert!((20..50).contains(&count) && all["more"] == json!(true), "{count}");
    let best = told(&mut fleet, &human(), epic, WorkVerb::Recommend { limit: u32::MAX });
    assert_eq!(best["more"], json!(true));
}

#[test]
fn pages_concatenate_to_the_whole_list() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(5));
    let (mut ids, mut page) = (Vec::new(), Page { limit: Some(2), after: None });
    loop {
        let told = told(&mut fleet, &human(), epic, WorkVerb::List { status: None, page });
        let nodes = told["nodes"].as_array().unwrap();
        assert!((1..=2).contains(&nodes.len()), "{told}");
        ids.extend(nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()));
        let Some(next) = told["next"].as_str() else {
            assert_eq!(told["more"], json!(false));
            break;
        };
        page.after = Some(node(next));
    }
    assert_eq!(ids, ["P1", "T1.1", "T1.2", "T1.3", "T1.4", "T1.5"]);
    let whole = WorkVerb::List { status: None, page: Page { limit: Some(6), after: None } };
    assert_eq!(told(&mut fleet, &human(), epic, whole)["more"], json!(false));
    let rest = WorkVerb::Insights { page: Page { limit: None, after: Some(node("T1.4")) } };
    assert_eq!(told(&mut fleet, &human(), epic, rest)["nodes"].as_array().unwrap().len(), 1);
}

#[test]
fn insights_show_the_graph() {
    let (mut fleet, epic) = two();
    let shape = told(&mut fleet, &human(), epic, WorkVerb::Insights { page: Page::default() });
    assert_eq!(shape["criticalPath"], json!(["T1.1", "T1.2"]));
    assert_eq!(shape["ready"], json!(["T1.1"]));
    assert_eq!(shape["bottlenecks"], json!([["T1.1", 1]]));
    assert_eq!(shape["nodes"][1]["longest"], json!(1));
}

#[test]
fn recommendations_follow_priorities_and_show_their_parts() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(4));
    ranks(&mut fleet, &human(), epic, &[("T1.3", said(100))]);
    ranks(&mut fleet, &Principal::Agent(po()), epic, &[("T1.2", said(100))]);
    fleet.now = fleet.now + Millis::from_secs(86_400);
    let best = told(&mut fleet, &human(), epic, WorkVerb::Recommend { limit: 3 });
    let ids: Vec<&str> = best["recommended"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert_eq!((ids, &best["more"]), (vec!["T1.3", "T1.2", "T1.1"], &json!(true)));
    let first = &best["recommended"][0];
    // No edges: no longest path, all ranks alike; in the plan for a day.
    let score = first["score"].as_f64().unwrap();
    assert!((score - (0.20 + 0.25 + 0.15 * 0.5 + 0.10 / 2.0)).abs() < 1e-6, "{score}");
    assert_eq!(first["parts"]["userPriority"], json!(1.0));
    assert_eq!(first["parts"]["overseerPriority"], json!(0.5));
    assert_eq!(first["split"]["advised"], json!(false));
    assert!(first["split"]["cons"][0].as_str().unwrap().contains("one thing"), "{first}");
    let worker = fleet.worker(epic, "T1.3");
    let best = told(&mut fleet, &Principal::Agent(worker), epic, WorkVerb::Recommend { limit: 0 });
    assert_eq!(best["recommended"].as_array().unwrap().len(), 3, "what is begun is not pending");
}
