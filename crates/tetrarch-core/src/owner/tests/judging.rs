//! A project's own judgement: whose model is asked for a plan, who reviews, and what becomes of reviews that come to
//! nothing.

use serde_json::{Value, json};

use super::fleet::{
    Fleet, equipped, human, node, plan_of, po, project, request, success, task, wish,
};
use crate::agent::{ORCHESTRATOR_PROFILE, Profile};
use crate::brief::{Finding, Judgement, Outcome, RunResult, Verdict};
use crate::converse::cost::Tokens;
use crate::id::{AgentId, EpicId, ProfileName};
use crate::ledger::{Entry, EventKind};
use crate::overseer::Telemetry;
use crate::owner::Input;
use crate::owner::judging::asked_of;
use crate::plan::{ATTEMPTS_EXHAUSTED, NodeStatus, schema};
use crate::planner::{Bounds, Planner, Proposal};
use crate::request::{Op, Report};
use crate::role::Role;
use crate::time::{BusTime, Millis};

fn profile(fields: Value) -> Profile {
    schema::parse_profile(&fields).unwrap()
}

fn by_model() -> Profile {
    profile(json!({
        "name": ORCHESTRATOR_PROFILE, "runner": "llm", "provider": "openai", "model": "m", "tools": ["read"],
        "budget": {"tokens": 1_000},
    }))
}

fn by_program() -> Profile {
    profile(json!({"name": ORCHESTRATOR_PROFILE, "argv": ["judge"]}))
}

fn judged(profile: Profile) -> Fleet {
    let mut fleet = Fleet::ready();
    let op = Op::ProfileApply { project: project(), profile: Box::new(profile) };
    assert_eq!(fleet.op(&human(), op).error, None);
    fleet
}

fn bare(profiles: &Value) -> Op {
    let goal = json!({"goal": {"title": "tidy"}, "profiles": profiles});
    let plan = equipped(schema::parse_goal(&goal).unwrap());
    Op::GoalCreate { project: project(), plan: Box::new(plan) }
}

fn configured() -> Planner {
    let bounds = Bounds { phases: 2, ..Bounds::default() };
    Planner { model: "configured".to_owned(), bounds, output_tokens: 1_000, price: None }
}

#[test]
fn goal_is_planned_by_its_projects_model_or_else_the_planner() {
    let own = "openai m, profile orchestrator";
    let rows = [
        (None, None, None),
        (None, Some(configured()), Some("configured")),
        (Some(by_program()), None, None),
        (Some(by_program()), Some(configured()), Some("configured")),
        (Some(by_model()), None, Some(own)),
        (Some(by_model()), Some(configured()), Some(own)),
    ];
    for (profile, planner, expected) in rows {
        let mut fleet = profile.clone().map_or_else(Fleet::ready, judged);
        fleet.policy.planner = planner;
        fleet.op(&human(), bare(&json!({})));
        let asked = fleet.records.plannings.values().next();
        assert_eq!(asked.map(|it| it.model.as_str()), expected);
        let of = asked.and_then(|asked| asked_of(&fleet.records, asked));
        assert_eq!(of.is_some(), expected == Some(own), "{profile:?}");
    }
    let mut fleet = Fleet::ready();
    let coming = json!({"orchestrator": {"runner": "llm", "provider": "openai", "model": "m"}});
    fleet.op(&human(), bare(&coming));
    let asked = fleet.records.plannings.values().next().unwrap();
    assert_eq!(asked.model, own, "the profile comes with the goal");
    assert!(asked_of(&fleet.records, asked).is_some());
}

fn answered(fleet: &mut Fleet, answer: Option<&Value>) -> EpicId {
    let epic = fleet.op(&human(), bare(&json!({}))).epic.unwrap();
    let id = fleet.records.plannings.values().next().unwrap().id;
    let answer = answer.map(Value::to_string);
    fleet.one(Input::Proposed(Box::new(Proposal {
        id,
        answer,
        attempts: 1,
        took: Tokens::default(),
        problems: Vec::new(),
    })));
    epic
}

#[test]
fn model_planned_work_is_reviewed_and_unplanned_work_is_not() {
    let plan = json!({"phases": [{"id": "P1", "name": "all", "tasks": [
        {"id": "T1.1", "name": "look", "acceptance": ["seen"]},
        {"id": "T1.2", "name": "tidy", "acceptance": ["tidy"], "subtasks": [
            {"id": "S1.2.1", "name": "shelves", "acceptance": ["tidy"]},
        ]},
    ]}]});
    let reviewed = |fleet: &Fleet, epic: EpicId| -> Vec<String> {
        let nodes = fleet.records.nodes[&epic].values();
        nodes.filter(|node| node.review.is_some()).map(|node| node.id.to_string()).collect()
    };
    let mut fleet = judged(by_model());
    let epic = answered(&mut fleet, Some(&plan));
    assert_eq!(reviewed(&fleet, epic), ["T1.1", "S1.2.1"]);
    let mut fleet = judged(by_model());
    let epic = answered(&mut fleet, None);
    assert_eq!(reviewed(&fleet, epic), Vec::<String>::new());
    let mut fleet = Fleet::ready();
    fleet.policy.planner = Some(configured());
    let epic = answered(&mut fleet, Some(&plan));
    assert_eq!(reviewed(&fleet, epic), Vec::<String>::new());
}

/// A goal of one task with these fields, whose work is done.
fn worked(profile: Option<Profile>, fields: Value) -> (Fleet, EpicId) {
    let mut fleet = profile.map_or_else(Fleet::ready, judged);
    let epic = fleet.goal(plan_of(&[task("T1.1", fields)]));
    work(&mut fleet, epic);
    (fleet, epic)
}

fn work(fleet: &mut Fleet, epic: EpicId) {
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("work"));
}

fn reviewer(fleet: &mut Fleet, epic: EpicId) -> (AgentId, String) {
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    let run = &fleet.records.runs[&fleet.run_of(&reviewer)];
    (reviewer, run.brief.runner.profile.to_string())
}

fn verdict(judgement: Judgement) -> RunResult {
    let (place, what, severity) = ("here".to_owned(), "wrong".to_owned(), String::new());
    let findings = vec![Finding { place, what, severity }];
    RunResult { verdict: Some(Verdict { judgement, findings }), ..success("seen") }
}

fn none() -> RunResult {
    RunResult::ended(Outcome::Failure, "it talks garbage")
}

fn verdicts(entry: &Entry) -> Vec<&str> {
    let told = entry.events.iter().filter(|event| event.kind == EventKind::Verdict);
    told.map(|event| event.reason.as_str()).collect()
}

#[test]
fn unassigned_review_is_the_orchestrators() {
    let rows = [
        (None, json!({"review": true}), "default"),
        (Some(by_model()), json!({"review": true}), ORCHESTRATOR_PROFILE),
        (Some(by_program()), json!({"review": true}), ORCHESTRATOR_PROFILE),
    ];
    for (profile, fields, expected) in rows {
        let (mut fleet, epic) = worked(profile, fields);
        assert_eq!(reviewer(&mut fleet, epic).1, expected);
    }
    let (mut fleet, epic) = worked(Some(by_model()), json!({"review": true}));
    let mut named = wish(Role::Reviewer);
    named.profile = Some(ProfileName::new("default").unwrap());
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![named]));
    let run = fleet.run_of(&answer.spawned[0].agent);
    assert_eq!(fleet.records.runs[&run].brief.runner.profile.to_string(), "default");
}

#[test]
fn verdict_counts_once_per_result() {
    let (mut fleet, epic) = worked(Some(by_model()), json!({"review": true}));
    let (first, _) = reviewer(&mut fleet, epic);
    let run = fleet.run_of(&first);
    let entry = fleet.end(&first, verdict(Judgement::NeedsChanges));
    assert_eq!(verdicts(&entry), ["needs_changes: here: wrong ()"]);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued);
    let again = Report::Result { run: Some(run), epic: None, result: verdict(Judgement::Pass) };
    assert_eq!(verdicts(&fleet.report(&first, again)), Vec::<&str>::new());
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued);
    work(&mut fleet, epic);
    let (second, profile) = reviewer(&mut fleet, epic);
    assert_eq!(profile, ORCHESTRATOR_PROFILE);
    fleet.end(&second, verdict(Judgement::Pass));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
}

#[test]
fn judgement_without_verdict_falls_back_and_costs_no_attempt() {
    let (mut fleet, epic) = worked(Some(by_model()), json!({"review": true, "maxAttempts": 1}));
    let (own, _) = reviewer(&mut fleet, epic);
    let entry = fleet.end(&own, none());
    let [told] = verdicts(&entry).try_into().unwrap();
    assert_eq!(told, "no verdict by profile orchestrator: it talks garbage; reviewed without it");
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::InProgress, 1));
    let (other, profile) = reviewer(&mut fleet, epic);
    assert_eq!(profile, "default");
    let mut passed = fleet.clone();
    passed.end(&other, verdict(Judgement::Pass));
    assert_eq!(passed.node(epic, "T1.1").status, NodeStatus::Done);
    let entry = fleet.end(&other, none());
    assert_eq!(verdicts(&entry), Vec::<&str>::new());
    let state = fleet.node(epic, "T1.1");
    assert_eq!(state.blocker.as_ref().unwrap().kind, ATTEMPTS_EXHAUSTED);
}

#[test]
fn plans_review_profile_is_an_ordinary_profile() {
    let fields = json!({
        "review": {"domain": "words", "profile": ORCHESTRATOR_PROFILE}, "maxAttempts": 1,
    });
    let (mut fleet, epic) = worked(Some(by_model()), fields);
    let (own, _) = reviewer(&mut fleet, epic);
    assert_eq!(verdicts(&fleet.end(&own, none())), Vec::<&str>::new());
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Blocked);
}

#[test]
fn judge_has_only_the_means_of_its_own_profile() {
    let fields = json!({"review": true, "tools": ["run"], "budget": {"tokens": 50_000}});
    let means = |profile| {
        let (mut fleet, epic) = worked(profile, fields.clone());
        let (agent, _) = reviewer(&mut fleet, epic);
        let brief = &fleet.records.runs[&fleet.run_of(&agent)].brief;
        let tools: Vec<String> = brief.tools.names().map(str::to_owned).collect();
        (tools, brief.budget.tokens)
    };
    assert_eq!(means(Some(by_model())), (vec!["read".to_owned()], Some(1_000)));
    assert_eq!(means(None), (vec!["run".to_owned()], Some(50_000)));
}

#[test]
fn stalled_task_is_put_to_its_projects_model() {
    let mut fleet = judged(by_model());
    let epic = fleet.goal(plan_of(&[task("T1.1", json!({}))]));
    fleet.worker(epic, "T1.1");
    let assignment = fleet.node(epic, "T1.1").assignment.unwrap();
    for _ in 0..=fleet.policy.overseer.max_retries {
        fleet.now = fleet.now + Millis::from_secs(40 * 60);
        let silence = Telemetry { since: BusTime(0), ..Telemetry::default() };
        fleet.one(Input::Oversee(silence));
    }
    let asked = fleet.records.plannings.values().next().unwrap();
    assert_eq!((asked.assignment, asked.node), (Some(assignment), Some(node("T1.1"))));
    assert_eq!(asked.model, "openai m, profile orchestrator");
    assert!(asked_of(&fleet.records, asked).is_some());
}
