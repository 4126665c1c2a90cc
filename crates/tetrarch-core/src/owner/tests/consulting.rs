//! What the planner is asked, and what becomes of its answers, at every stage of a goal and of a task.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fleet::{Fleet, equipped, human, killed, plan_of, po, project, success, task, topics};
use crate::assignment::AssignmentStatus;
use crate::converse::cost::Tokens;
use crate::dispatch::{DispatchMode, DispatchOutcome};
use crate::error::ErrorCode;
use crate::id::{AgentId, DispatchId, EpicId, NodeId};
use crate::ledger::{Entry, EventKind, Record};
use crate::limits::{JOURNAL_WORDS_BYTES_MAX, PLANNER_INPUT_BYTES_MAX};
use crate::liveness::Liveness;
use crate::overseer::{Rung, Telemetry};
use crate::owner::Input;
use crate::plan::{Node, NodeStatus, PlanReason, PlanSource, schema};
use crate::planner::tests::any_answer;
use crate::planner::{Bounds, Planner, Planning, PlanningStatus, Proposal, Purpose};
use crate::request::{Op, Report, Request, RequestBody};
use crate::role::Role;
use crate::time::{BusTime, Millis};

/// What each answer below took.
pub(super) const TOOK: Tokens = Tokens { input: 100, cached: 0, output: 50 };

pub(super) fn planner() -> Planner {
    Planner {
        model: "openai m".to_owned(),
        bounds: Bounds::default(),
        output_tokens: 1_000,
        price: None,
    }
}

fn ready() -> Fleet {
    let mut fleet = Fleet::ready();
    fleet.policy.planner = Some(planner());
    fleet
}

pub(super) fn wish() -> Op {
    let goal = json!({"goal": {"title": "tidy", "successCriteria": ["it is tidy"]}});
    Op::GoalCreate {
        project: project(),
        plan: Box::new(equipped(schema::parse_goal(&goal).unwrap())),
    }
}

pub(super) fn a_plan() -> Value {
    json!({"phases": [{"id": "P1", "name": "all", "tasks": [
        {"id": "T1.1", "name": "look", "acceptance": ["seen"]},
        {"id": "T1.2", "name": "tidy", "acceptance": ["tidy"], "deps": ["T1.1"]},
    ]}], "output": "T1.2"})
}

fn a_cut() -> Value {
    json!({"diagnosis": "two things at once", "subtasks": [
        {"name": "a", "objective": "do a", "acceptance": ["a holds"]},
        {"name": "b", "objective": "do b", "acceptance": ["b holds"], "after": [1]},
    ]})
}

pub(super) fn only(fleet: &Fleet) -> &Planning {
    assert_eq!(fleet.records.plannings.len(), 1);
    fleet.records.plannings.values().next().unwrap()
}

fn latest(fleet: &Fleet) -> Planning {
    fleet.records.plannings.values().last().unwrap().clone()
}

pub(super) fn propose(fleet: &mut Fleet, id: DispatchId, answer: Option<&str>) -> Entry {
    let problems = vec!["answer 1: no".to_owned()];
    let answer = answer.map(str::to_owned);
    fleet.one(Input::Proposed(Box::new(Proposal { id, answer, attempts: 2, took: TOOK, problems })))
}

pub(super) fn told(entry: &Entry, kind: EventKind) -> Vec<String> {
    let of = entry.events.iter().filter(|event| event.kind == kind);
    of.map(|event| event.reason.clone()).collect()
}

pub(super) fn nodes(fleet: &Fleet, epic: EpicId) -> Vec<String> {
    fleet.records.nodes[&epic].keys().map(ToString::to_string).collect()
}

#[test]
fn goal_without_a_plan_starts_with_the_generated_one() {
    let mut fleet = ready();
    let reply = fleet.op(&human(), wish());
    assert_eq!((reply.error, reply.version), (None, None));
    let epic = reply.epic.unwrap();
    assert!(fleet.records.goals.is_empty(), "it begins with its plan");
    let asked = only(&fleet).clone();
    assert_eq!(
        (asked.purpose, asked.status, asked.epic),
        (Purpose::Plan, PlanningStatus::Asked, epic)
    );
    assert_eq!((&*asked.model, &*asked.template), ("openai m", "plan.2"));
    assert!(asked.inputs.contains("it is tidy"), "{}", asked.inputs);

    let entry = propose(&mut fleet, asked.id, Some(&a_plan().to_string()));
    assert_eq!(nodes(&fleet, epic), ["P1", "T1.1", "T1.2"]);
    let event = &entry.plans[0];
    assert_eq!((event.version, event.reason), (1, PlanReason::InitialCreate));
    assert_eq!(event.source, PlanSource::Overseer);
    assert_eq!(topics(&entry, &po()), ["instruction"]);
    assert_eq!(fleet.records.goals[&epic].owner, human());
    let kept = only(&fleet).clone();
    assert_eq!((kept.status, kept.attempts, kept.goal), (PlanningStatus::Accepted, 2, None));
    assert_eq!(kept.answer, a_plan().to_string());
    assert_eq!(kept.problems, ["answer 1: no"]);
    assert_eq!(propose(&mut fleet, asked.id, None).records, [], "it is answered once");
}

#[test]
fn goal_inputs_tell_the_whole_goal() {
    let document = json!({"goal": {
        "title": "tidy", "assumptions": ["the shop is closed"], "repoContextSnapshot": "branch trunk",
        "risks": [{"risk": "dust", "impact": "sneezing", "mitigation": "a mask"}],
    }});
    let plan = Box::new(equipped(schema::parse_goal(&document).unwrap()));
    let mut fleet = ready();
    fleet.op(&human(), Op::GoalCreate { project: project(), plan });
    let inputs: Value = serde_json::from_str(&only(&fleet).inputs).unwrap();
    let goal = &inputs["goal"];
    assert_eq!(goal["assumptions"], json!(["the shop is closed"]));
    assert_eq!(goal["repoContextSnapshot"], "branch trunk");
    assert_eq!(goal["risks"][0], document["goal"]["risks"][0]);
}

#[test]
fn planned_goal_stays_in_its_givers_trace() {
    let trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    let mut fleet = ready();
    let asked = fleet.ask(&human(), RequestBody::Op(wish()));
    fleet.one(Input::Request(Box::new(Request { trace: trace.clone(), ..asked })));
    let question = only(&fleet).clone();
    assert_eq!(question.trace, trace);
    propose(&mut fleet, question.id, Some(&a_plan().to_string()));
    assert_eq!(fleet.records.plans[&question.epic].trace, trace, "its agents are part of it too");
}

#[test]
fn goal_without_a_valid_generated_plan_is_one_task() {
    for answer in [None, Some("{}"), Some("no"), Some(&*a_cut().to_string())] {
        let mut fleet = ready();
        let epic = fleet.op(&human(), wish()).epic.unwrap();
        let id = only(&fleet).id;
        let entry = propose(&mut fleet, id, answer);
        assert_eq!(nodes(&fleet, epic), ["P1", "T1.1"], "{answer:?}");
        assert_eq!(fleet.records.goals[&epic].spec.success_criteria, ["it is tidy"]);
        let kept = only(&fleet);
        assert_eq!((kept.status, &*kept.answer), (PlanningStatus::Refused, ""));
        let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
        assert!(why.contains("refused: no valid plan: the goal is one task (2 answers"), "{why}");
    }
}

#[test]
fn goal_without_a_planner_is_one_task_at_once() {
    let mut fleet = Fleet::ready();
    let reply = fleet.op(&human(), wish());
    assert_eq!((reply.error, reply.version), (None, Some(1)));
    assert_eq!(nodes(&fleet, reply.epic.unwrap()), ["P1", "T1.1"]);
    assert!(fleet.records.plannings.is_empty());
}

#[test]
fn unauthorized_goal_is_not_planned() {
    let mut fleet = ready();
    let Op::GoalCreate { plan, .. } = wish() else { panic!() };
    let other = crate::id::ProjectName::new("other").unwrap();
    let reply = fleet.op(&human(), Op::GoalCreate { project: other, plan });
    assert_eq!(reply.error, Some(ErrorCode::NotFound));
    assert!(fleet.records.plannings.is_empty());

    fleet.op(&human(), wish());
    fleet.op(&human(), Op::ProjectRetire { project: project() });
    let id = only(&fleet).id;
    let entry = propose(&mut fleet, id, Some(&a_plan().to_string()));
    assert_eq!(only(&fleet).status, PlanningStatus::Dropped);
    assert!(fleet.records.goals.is_empty());
    assert!(entry.mail.iter().any(|mail| mail.to == human()), "its owner is told");
}

fn silence() -> Telemetry {
    Telemetry { since: BusTime(0), ..Telemetry::default() }
}

pub(super) fn oversee(fleet: &mut Fleet) -> Entry {
    fleet.now = fleet.now + Millis::from_secs(40 * 60);
    fleet.one(Input::Oversee(silence()))
}

/// One who was asked as often as there are retries, about a task with these fields.
fn worn_out(fields: Value) -> (Fleet, EpicId, AgentId) {
    let mut fleet = ready();
    let mut plan = plan_of(&[task("T1.1", fields)]);
    plan["output"] = json!("T1.1");
    let epic = fleet.goal(plan);
    let worker = fleet.worker(epic, "T1.1");
    for _ in 0..fleet.policy.overseer.max_retries {
        let sent = oversee(&mut fleet);
        assert_eq!(topics(&sent, &worker), ["status.request"]);
    }
    (fleet, epic, worker)
}

fn asked() -> (Fleet, EpicId, AgentId, DispatchId) {
    let (mut fleet, epic, worker) = worn_out(json!({}));
    oversee(&mut fleet);
    let id = only(&fleet).id;
    (fleet, epic, worker, id)
}

fn standing(fleet: &Fleet, worker: &AgentId) -> AssignmentStatus {
    let work = fleet.agent(worker).work.as_ref().unwrap();
    fleet.records.assignments[&work.assignment].status
}

#[test]
fn planner_is_told_the_last_words_of_the_journal() {
    let (mut fleet, _, worker) = worn_out(json!({}));
    fleet.now = fleet.now + Millis::from_secs(40 * 60);
    let words = vec!["log: the port is taken".to_owned(), "x".repeat(100_000)];
    let words = [(fleet.run_of(&worker), words)].into();
    fleet.one(Input::Oversee(Telemetry { words, ..silence() }));
    let inputs = &only(&fleet).inputs;
    let told: Value = serde_json::from_str(inputs).unwrap();
    assert_eq!(told["journal"][0], "log: the port is taken");
    let most = JOURNAL_WORDS_BYTES_MAX + PLANNER_INPUT_BYTES_MAX;
    assert!(inputs.len() < most, "{} bytes", inputs.len());
}

#[test]
fn planner_alone_is_asked_after_the_agent_failed_to_help() {
    let (mut fleet, epic, worker) = worn_out(json!({"objective": "find the leak"}));
    let entry = oversee(&mut fleet);
    let planning = only(&fleet).clone();
    let version = fleet.records.plans[&epic].version;
    assert_eq!((planning.purpose, planning.base_version), (Purpose::Split, version));
    assert_eq!(planning.node, Some("T1.1".parse().unwrap()));
    assert!(planning.inputs.contains("find the leak"), "{}", planning.inputs);
    let dispatch = &fleet.records.dispatches[&planning.id];
    assert_eq!((dispatch.mode, dispatch.rung), (DispatchMode::Planner, Some(Rung::Replan)));
    assert_eq!(dispatch.outcome, DispatchOutcome::Accepted);
    assert!(dispatch.notes.starts_with(&format!("plan version {version}: ")), "{}", dispatch.notes);
    assert_eq!(topics(&entry, &worker), [""; 0]);
    assert!(told(&entry, EventKind::Recovery)[0].starts_with("replan: asking did not help"));
    assert_eq!(standing(&fleet, &worker), AssignmentStatus::Stalled);
    for _ in 0..3 {
        assert_eq!(oversee(&mut fleet).records, [], "it is waited for");
    }
}

#[test]
fn task_is_split_as_proposed_after_its_attempt_ends() {
    let (mut fleet, epic, worker, id) = asked();
    let before = fleet.records.plans[&epic].version;
    let entry = propose(&mut fleet, id, Some(&a_cut().to_string()));
    assert_eq!(killed(&entry), [&worker]);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(nodes(&fleet, epic), ["P1", "T1.1", "S1.1.1", "S1.1.2"]);
    let [event] = &*entry.plans else { panic!() };
    assert_eq!((event.version, event.reason), (before + 1, PlanReason::Replan));
    let defined: Vec<NodeId> = event.definitions.iter().map(|node| node.id).collect();
    let ids = ["T1.1", "S1.1.1", "S1.1.2"].map(|id| id.parse().unwrap());
    assert_eq!(defined, ids, "the task is another one with its parts");
    assert_eq!(
        event.output,
        Some("S1.1.2".parse().unwrap()),
        "what the task brings its last part does"
    );
    assert_eq!(fleet.node(epic, "S1.1.1").status, NodeStatus::Queued);
    assert_eq!(fleet.node(epic, "S1.1.2").status, NodeStatus::Todo);
    assert_eq!(only(&fleet).status, PlanningStatus::Accepted);
    assert_eq!(fleet.records.dispatches[&id].outcome, DispatchOutcome::Ok);
    let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
    assert!(why.contains("cut into 2 for plan version"), "{why}");

    for part in ["S1.1.1", "S1.1.2"] {
        let next = fleet.member(epic, part, Role::Worker);
        fleet.end(&next, success("done"));
    }
    assert_eq!(fleet.records.goal_states[&epic].percent, 100);
    assert_eq!(fleet.records.goal_states[&epic].status.as_str(), "completed");
    assert_eq!(propose(&mut fleet, id, Some(&a_cut().to_string())).records, []);
}

#[test]
fn split_parts_inherit_their_tasks_completion_rules() {
    let fields = json!({"domain": "api", "role": "specialist", "keyFacts": ["it is cold"],
        "scopePaths": ["src"], "maxAttempts": 3, "outputSchema": {"type": "object"}});
    let mut fleet = ready();
    let epic = fleet.goal(plan_of(&[task("T1.1", fields)]));
    let worker = fleet.member(epic, "T1.1", Role::Specialist);
    for _ in 0..=fleet.policy.overseer.max_retries {
        oversee(&mut fleet);
    }
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Active);
    let id = only(&fleet).id;
    propose(&mut fleet, id, Some(&a_cut().to_string()));
    let part = |id: &str| &fleet.records.nodes[&epic][&id.parse::<NodeId>().unwrap()];
    let task: &Node = part("T1.1");
    for (id, schema) in [("S1.1.1", None), ("S1.1.2", task.output_schema.clone())] {
        let got = part(id);
        assert_eq!((got.role, &got.domain, got.max_attempts), (task.role, &task.domain, 3));
        assert_eq!((&got.scope_paths, &got.key_facts), (&task.scope_paths, &task.key_facts));
        assert_eq!(got.output_schema, schema, "{id}");
    }
}

#[test]
fn unhelpful_planner_moves_the_ladder_on_at_once() {
    let none = json!({"diagnosis": "it waits for a key", "subtasks": []}).to_string();
    for answer in [None, Some("{}"), Some(&*none)] {
        for (attempts, rung) in [(2, "reassign: "), (1, "escalate: ")] {
            let (mut fleet, epic, worker) = worn_out(json!({"maxAttempts": attempts}));
            oversee(&mut fleet);
            let id = only(&fleet).id;
            let entry = propose(&mut fleet, id, answer);
            assert_eq!(only(&fleet).status, PlanningStatus::Refused);
            assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
            let [why] = told(&entry, EventKind::Recovery).try_into().unwrap();
            assert!(why.starts_with(rung), "{why}");
            let to = if attempts == 2 { NodeStatus::Queued } else { NodeStatus::Blocked };
            assert_eq!(fleet.node(epic, "T1.1").status, to);
        }
    }
}

#[test]
fn subtask_is_never_split_nor_is_anything_without_a_planner() {
    let mut subtask = task("T1.1", json!({}));
    subtask["subtasks"] = json!([{"id": "S1.1.1", "name": "s", "acceptance": ["a"]}]);
    let mut fleet = ready();
    let epic = fleet.goal(plan_of(&[subtask]));
    let worker = fleet.worker(epic, "S1.1.1");
    let (mut alone, _, of_none) = worn_out(json!({}));
    alone.policy.planner = None;
    let (mut short, _, of_one) = worn_out(json!({}));
    short.policy.planner.as_mut().unwrap().bounds.subtasks = 1;
    for _ in 0..fleet.policy.overseer.max_retries {
        oversee(&mut fleet);
    }
    for (mut fleet, worker) in [(fleet, worker), (alone, of_none), (short, of_one)] {
        let entry = oversee(&mut fleet);
        assert!(told(&entry, EventKind::Recovery)[0].starts_with("reassign: "));
        assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
        assert!(fleet.records.plannings.is_empty());
    }
}

#[test]
fn outdated_answer_is_dropped_and_asked_again() {
    let (mut fleet, epic, worker, first) = asked();
    let run = fleet.run_of(&worker);
    let update = "{\"status\": \"in_progress\", \"summary\": \"it goes on\"}".to_owned();
    fleet.report(&worker, Report::Update { run, dispatch: None, update, expected: None });
    assert_eq!(standing(&fleet, &worker), AssignmentStatus::Active);
    let entry = propose(&mut fleet, first, Some(&a_cut().to_string()));
    assert_eq!(latest(&fleet).status, PlanningStatus::Dropped);
    let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
    assert!(why.contains("dropped: E_CONFLICT: asg_"), "{why}");
    assert_eq!(nodes(&fleet, epic), ["P1", "T1.1"]);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Active);

    for _ in 0..=fleet.policy.overseer.max_retries {
        oversee(&mut fleet);
    }
    let second = latest(&fleet);
    assert_ne!(second.id, first);
    assert_eq!(second.status, PlanningStatus::Asked, "silent again, it is asked again");
    let mut task = fleet.records.nodes[&epic][&"T1.1".parse().unwrap()].clone();
    task.objective = "something else".to_owned();
    fleet.records.put(Record::Node(epic, Box::new(task)));
    let entry = propose(&mut fleet, second.id, Some(&a_cut().to_string()));
    let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
    assert!(why.contains("E_CONFLICT: T1.1 changed, the plan has version"), "{why}");

    oversee(&mut fleet);
    let third = latest(&fleet);
    assert_eq!(third.status, PlanningStatus::Asked);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    let entry = propose(&mut fleet, third.id, Some(&a_cut().to_string()));
    let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
    assert!(why.contains("E_CONFLICT: something else was sent since"), "{why}");
    fleet.report(&worker, Report::Ready);
    for _ in 0..=fleet.policy.overseer.max_retries {
        oversee(&mut fleet);
    }
    assert_eq!(fleet.records.plannings.len(), 3, "not for ever");
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
}

#[test]
fn planner_question_is_forgotten_with_its_subject() {
    let (mut fleet, _, _, id) = asked();
    propose(&mut fleet, id, None);
    fleet.now = fleet.now + fleet.policy.kept.ended + Millis(1);
    fleet.one(Input::Tick);
    assert!(fleet.records.plannings.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Every commit is checked by the fleet: whatever is answered, the plan of record stays valid.
    #[test]
    fn any_answer_about_a_goal_leaves_a_valid_plan(
        answer in proptest::option::of(any_answer(Purpose::Plan)),
        text in proptest::option::of("\\PC*"),
    ) {
        let mut fleet = ready();
        let epic = fleet.op(&human(), wish()).epic.unwrap();
        let said = text.or_else(|| answer.map(|value| value.to_string()));
        let id = only(&fleet).id;
        propose(&mut fleet, id, said.as_deref());
        prop_assert!(fleet.records.goals.contains_key(&epic));
    }

    #[test]
    fn any_answer_about_a_task_leaves_a_valid_plan(
        answer in proptest::option::of(any_answer(Purpose::Split)),
    ) {
        let (mut fleet, epic, _, id) = asked();
        propose(&mut fleet, id, answer.map(|value| value.to_string()).as_deref());
        prop_assert!(fleet.records.nodes[&epic].len() != 3, "never cut into one");
        prop_assert!(only(&fleet).status != PlanningStatus::Asked);
    }
}
