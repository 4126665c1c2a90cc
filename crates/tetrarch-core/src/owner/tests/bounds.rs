//! Everything has to fit into one commit, whatever is asked for and reported.

use serde_json::{Value, json};

use super::fleet::{
    Fleet, answer, human, id, plan_of, po, project, reply, request, success, task, tasks, wish,
};
use crate::brief::{Artifact, Finding, Judgement, Outcome, RunResult, Verdict};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, NodeId, Principal};
use crate::ledger::{Entry, EventKind, Record, RecordKey};
use crate::limits::{
    ANSWER_BYTES_MAX, COMMIT_BYTES_MAX, COMMIT_INPUTS_MAX, DELIVERABLE_BYTES_MAX,
    FINDINGS_BYTES_MAX, RECORD_BYTES_MAX, RESULT_WORDS_MAX, STEP_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::owner::{Group, Input, Silence, decide, is_due, weight};
use crate::plan::{Blocker, Node, NodeState, NodeStatus, schema};
use crate::records::Records;
use crate::request::verbs::VerbOp;
use crate::request::work::{WorkOp, WorkVerb};
use crate::request::{
    BriefWish, FileOp, MalformedKind, Op, Page, Report, RequestBody, SubagentWish, TaskWish,
};
use crate::reservation;
use crate::role::Role;
use crate::step::Step;
use crate::time::Millis;
use crate::verb::Wanted;

fn long(bytes: usize) -> String {
    "\u{e4}".repeat(bytes / 2)
}

/// A wish whose brief has this many bytes of facts.
fn large(bytes: usize) -> SubagentWish {
    large_of(long(bytes))
}

/// A wish whose brief has this fact.
fn large_of(fact: String) -> SubagentWish {
    let brief = BriefWish {
        goal: "do it".to_owned(),
        key_facts: vec![fact],
        success_criteria: vec!["it holds".to_owned()],
        ..BriefWish::default()
    };
    let wall = Some(Millis(60_000));
    SubagentWish { task: TaskWish::Brief(brief), wall, ..wish(Role::Worker) }
}

/// Rough size of everything an entry says, as text.
pub(super) fn size(entry: &Entry) -> usize {
    format!("{entry:?}").len()
}

fn findings(count: usize, bytes: usize) -> RunResult {
    let finding = Finding { place: long(bytes), what: long(bytes), severity: long(bytes) };
    let judgement = Judgement::NeedsChanges;
    let verdict = Some(Verdict { judgement, findings: vec![finding; count] });
    RunResult { verdict, ..success(&long(400_000)) }
}

#[test]
fn request_exceeding_any_commit_is_refused_for_good() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let wanted = request(epic, "T1.1", vec![large(400_000)]);
    let input = fleet.asking(&po().into(), RequestBody::Spawn(wanted));
    let entry = fleet.one(input.clone());
    let refused = answer(&entry);
    assert_eq!(refused.reason, ErrorCode::InvalidRequest.as_str());
    assert!(refused.suggestion.contains("artifacts"), "{refused:?}");
    assert!(size(&entry) < 5_000, "nothing of it is kept");
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued);
    assert_eq!(answer(&fleet.one(input)), refused, "and again");
    assert!(fleet.spawn(&po(), request(epic, "T1.1", vec![large(20_000)])).accepted());

    let tasks: Vec<_> = (1..=7)
        .map(|n| task(&format!("T1.{n}"), json!({"keyFacts": vec!["f".repeat(4_000); 8]})))
        .collect();
    let plan = Box::new(schema::parse(&plan_of(&tasks)).unwrap());
    let op = Op::GoalCreate { project: project(), plan };
    let input = fleet.asking(&human(), RequestBody::Op(op));
    let entry = fleet.one(input);
    assert_eq!(reply(&entry).error, Some(ErrorCode::InvalidRequest));
}

/// Requests that a step has room for, and a record or a message has not.
fn too_large_for_a_record(
    epic: EpicId,
    worker: &AgentId,
) -> Vec<(&'static str, Principal, RequestBody)> {
    let reserve = FileOp::Reserve {
        paths: (0..80).map(|n| format!("{n}/{}", "p".repeat(990))).collect(),
        mode: reservation::Mode::Exclusive,
        ttl: None,
        reason: String::new(),
    };
    let labelled = SubagentWish { suggested_actor_id: "l".repeat(80_000), ..wish(Role::Worker) };
    let blocker = Blocker { kind: "other".to_owned(), detail: long(80_000), needs: String::new() };
    let block = Op::WorkBlock { epic, node: "T1.2".parse().unwrap(), blocker };
    let steer =
        VerbOp { agent: worker.clone(), wanted: Wanted::Steer { text: "\u{1}".repeat(16_000) } };
    let spawn = |wish| RequestBody::Spawn(request(epic, "T1.2", vec![wish]));
    let po = || Principal::from(po());
    vec![
        ("many paths", po(), RequestBody::Op(Op::File(reserve))),
        ("a long label", po(), spawn(labelled)),
        ("many facts", po(), spawn(large(80_000))),
        ("facts that JSON writes longer", po(), spawn(large_of("\"".repeat(40_000)))),
        ("a long blocker", po(), RequestBody::Op(block)),
        ("a steer of control characters", human(), RequestBody::Op(Op::Verb(steer))),
    ]
}

#[test]
fn request_exceeding_a_record_or_a_message_is_refused() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    for (what, from, body) in too_large_for_a_record(epic, &worker) {
        let input = fleet.asking(&from, body);
        let entry = fleet.one(input);
        let refused = |kind| [EventKind::Refused, EventKind::SpawnDenied].contains(&kind);
        let refused = entry.events.iter().any(|event| refused(event.kind));
        assert!(refused && size(&entry) < 6_000, "{what}: {}", size(&entry));
    }
}

#[test]
fn long_refusal_is_cut() {
    let mut fleet = Fleet::new();
    let (kind, error) = (MalformedKind::Other, "unknown key; ".repeat(10_000));
    let input = fleet.asking(&human(), RequestBody::Malformed { kind, error, nameless: false });
    let detail = reply(&fleet.one(input)).detail;
    assert!(detail.len() == TEXT_BYTES_MAX && detail.ends_with("[cut]"), "{}", detail.len());
}

#[test]
fn text_weighs_what_json_makes_of_it() {
    let (fleet, epic) = Fleet::with_goal(tasks(1));
    let weight = |text: &str| {
        let node = Node {
            objective: text.to_owned(),
            ..fleet.records.nodes[&epic][&"T1.1".parse().unwrap()].clone()
        };
        weight::record(&Record::Node(epic, Box::new(node)))
    };
    let one = weight("aaaa");
    let more = [
        ("\"\"\"\"", 4),
        ("\\\\\\\\", 4),
        ("\n\n\n\n", 4),
        ("\u{1}\u{1}\u{1}\u{1}", 20),
        ("\u{e4}\u{e4}", 0),
    ];
    for (text, more) in more {
        assert_eq!(weight(text), one + more, "{text:?}");
    }
}

#[test]
fn decision_without_a_request_that_cannot_be_written_is_reported() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let mut agent = fleet.records.agents[&worker].clone();
    let found = Silence::Begun { missed: 1 };
    let silent = Input::Swept { agent: worker, epoch: agent.epoch, found };
    let ordinary = decide(&fleet.records, &fleet.policy, fleet.now, &silent);
    assert!(!ordinary.records.is_empty(), "{ordinary:?}");

    agent.label = long(RECORD_BYTES_MAX);
    fleet.records.put(Record::Agent(Box::new(agent)));
    let step = decide(&fleet.records, &fleet.policy, fleet.now, &silent);
    assert!(step.records.is_empty() && step.mail.is_empty(), "{step:?}");
    assert!(step.events[0].reason.contains("a record would have about"), "{step:?}");
}

#[test]
fn oversized_report_is_cut_not_refused() {
    let (mut fleet, epic) =
        Fleet::with_goal(plan_of(&[task("T1.1", json!({"review": {"domain": "api"}}))]));
    let worker = fleet.worker(epic, "T1.1");
    let artifact =
        Artifact { name: long(1_000), sha256: "0".repeat(64), size: 1, media_type: String::new() };
    let mut result = success(&long(400_000));
    result.crystallization = long(400_000);
    result.evidence.files = vec![long(4_000); 200];
    result.artifacts = vec![artifact; 200];
    let entry = fleet.end(&worker, result);
    assert!(size(&entry) < COMMIT_BYTES_MAX, "{}", size(&entry));
    let kept = fleet.node(epic, "T1.1").result.clone().unwrap();
    assert!(kept.deliverable.len() <= DELIVERABLE_BYTES_MAX && kept.deliverable.ends_with("[cut]"));
    assert_eq!(kept.artifacts.len(), 30);

    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    let entry = fleet.end(&reviewer, findings(200, 4_000));
    assert!(size(&entry) < COMMIT_BYTES_MAX, "{}", size(&entry));
    let state = fleet.node(epic, "T1.1");
    assert_eq!(state.status, NodeStatus::Queued, "its judgement counts");
    let noted: usize = state.findings.iter().map(String::len).sum();
    assert!(noted <= FINDINGS_BYTES_MAX && noted > FINDINGS_BYTES_MAX / 2);
    let kept = fleet.records.run_status[&fleet.run_of(&reviewer)].result.clone().unwrap();
    let words: usize = kept.verdict.unwrap().findings.iter().map(|f| f.what.len()).sum();
    assert!(words <= RESULT_WORDS_MAX);

    let worker = fleet.worker(epic, "T1.1");
    let failed = RunResult::ended(Outcome::Failure, long(400_000));
    let entry = fleet.end(&worker, failed);
    assert!(size(&entry) < COMMIT_BYTES_MAX / 8, "{}", size(&entry));
}

#[test]
fn oversized_question_is_cut() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&worker);
    let ask =
        Report::Ask { run, id: None, question: long(200_000), options: vec![long(4_000); 50] };
    let entry = fleet.report(&worker, ask);
    assert!(size(&entry) < 100_000, "{}", size(&entry));
    let crashed = fleet.report(&worker, Report::Crashed { cause: long(400_000) });
    assert!(size(&crashed) < 100_000, "{}", size(&crashed));
}

#[test]
fn result_that_still_does_not_fit_is_recorded_without_texts() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    // A plan whose event alone is near the bound.
    let mut state = fleet.node(epic, "T1.2").clone();
    state.findings = vec![long(STEP_BYTES_MAX - 30_000)];
    fleet.records.put(Record::NodeState(epic, Box::new(state)));
    let mut result = success(&long(16_000));
    result.crystallization = long(8_000);
    let entry = fleet.end(&worker, result);
    assert!(entry.events.iter().any(|event| event.kind == EventKind::Alert));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done, "it succeeded all the same");
}

fn heavy(fleet: &mut Fleet, epic: EpicId) -> Input {
    let wanted = request(epic, "-", vec![large(5_000)]);
    fleet.asking(&po().into(), RequestBody::Spawn(wanted))
}

#[test]
fn group_is_full_by_count_only_after_a_write() {
    let mut records = Records::default();
    let mut group = Group::default();
    for inputs in 1..=COMMIT_INPUTS_MAX + 1 {
        group.add(&mut records, Step::default(), 0);
        assert_eq!((group.inputs(), group.is_empty(), group.is_full()), (inputs, true, false));
    }
    let written = Step { dropped: vec![RecordKey::Snapshot], ..Step::default() };
    group.add(&mut records, written, 0);
    assert!(!group.is_empty() && group.is_full());
    let few = Step { dropped: vec![RecordKey::Snapshot], ..Step::default() };
    let mut group = Group::default();
    group.add(&mut records, few, 0);
    assert!(!group.is_empty() && !group.is_full());
}

#[test]
fn group_is_full_by_what_is_written_not_by_its_plans() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let mut standing = fleet.node(epic, "T1.2").clone();
    standing.findings = vec![long(STEP_BYTES_MAX / 2)];
    fleet.records.put(Record::NodeState(epic, Box::new(standing)));
    let wanted = request(epic, "T1.1", vec![wish(Role::Worker)]);
    let input = fleet.asking(&po().into(), RequestBody::Spawn(wanted));
    let step = decide(&fleet.records, &fleet.policy, fleet.now, &input);
    assert!(step.plans.contains_key(&epic));
    let full = COMMIT_BYTES_MAX - STEP_BYTES_MAX;
    let written = weight::written(&fleet.records, &step);
    let room = full - written;
    assert!(weight::step(&fleet.records, &step) > written + full);
    let is_full_with = |more: usize| {
        let (mut records, mut step) = (fleet.records.clone(), step.clone());
        step.events[0].reason.push_str(&"x".repeat(more));
        let mut group = Group::default();
        group.add(&mut records, step, 0);
        group.is_full()
    };
    assert_eq!([room - 1, room].map(is_full_with), [false, true]);
}

#[test]
fn group_is_full_before_it_is_too_large() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let mut group = Group::default();
    let mut records = fleet.records.clone();
    let mut weights = 0;
    let mut count = 0;
    while !group.is_full() {
        let input = heavy(&mut fleet, epic);
        let step = decide(&records, &fleet.policy, fleet.now, &input);
        weights += weight::step(&records, &step);
        group.add(&mut records, step, 0);
        count += 1;
        assert!(weights <= COMMIT_BYTES_MAX && count < 300, "{weights} after {count}");
    }
    assert!(count > 3, "{count}");
}

#[test]
fn heavy_agents_are_recovered_in_portions() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    for on in ["T1.1", "T1.2", "T1.3"] {
        let answer = fleet.spawn(&po(), request(epic, on, vec![large(60_000)]));
        fleet.report(&answer.spawned[0].agent, Report::Ready);
    }
    let mut entry = fleet.join("h1", "life2", 20);
    let mut portions = 1;
    loop {
        assert!(size(&entry) < COMMIT_BYTES_MAX, "{}", size(&entry));
        if !is_due(&fleet.records, &fleet.policy) {
            break;
        }
        entry = fleet.one(Input::Tick);
        portions += 1;
    }
    assert!(portions > 1, "{portions}");
    assert_eq!(fleet.agent(&id("PO-demo")).epoch, 2);
}

#[test]
fn insights_of_thousands_of_nodes_are_told_page_by_page() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let first: NodeId = "T1.1".parse().unwrap();
    let (sample, state) = (
        fleet.records.nodes[&epic][&first].clone(),
        fleet.records.node_states[&epic][&first].clone(),
    );
    for number in 2..=2_000 {
        let id = NodeId::task(1, number);
        fleet.records.put(Record::Node(epic, Box::new(Node { id, ..sample.clone() })));
        fleet.records.put(Record::NodeState(epic, Box::new(NodeState { id, ..state.clone() })));
    }
    let (mut count, mut page) = (0, Page { limit: None, after: None });
    loop {
        let verb = WorkVerb::Insights { page };
        let asked = fleet.asking(&human(), RequestBody::Op(Op::Work(WorkOp { epic, verb })));
        let data = reply(&fleet.one(asked)).data.unwrap();
        assert!(data.len() <= ANSWER_BYTES_MAX, "{} bytes", data.len());
        let told: Value = serde_json::from_str(&data).unwrap();
        count += told["nodes"].as_array().unwrap().len();
        let Some(next) = told["next"].as_str() else { break };
        page.after = Some(next.parse().unwrap());
    }
    assert_eq!(count, 2_000);
}
