//! Plans that change (spec 05, Plan events): who may, what it writes, what becomes ready, what its
//! answer says. Every entry is checked for broken invariants on its way.

mod drafts;

use serde_json::{Value, json};

use super::fleet::{Fleet, human, node, plan_of, po, reply, success, task, tasks, topics};
use crate::brief::{Evidence, Outcome, RunResult};
use crate::error::ErrorCode;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId, Principal};
use crate::ledger::{Entry, EventKind};
use crate::mail::OpReply;
use crate::plan::{DEPENDS, NodeStatus, PlanReason, PlanSource, schema};
use crate::question::QuestionStatus;
use crate::request::planning::{Addition, Merging, PlanMode, PlanOp, Splitting, Wanted};
use crate::request::work::{Completion, WorkOp, WorkVerb};
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;

pub(super) fn wanted<C>(epic: EpicId, base: u32, what: C) -> Wanted<C> {
    Wanted {
        epic,
        mode: PlanMode::Apply,
        base_version: Some(base),
        reason: "because".to_owned(),
        replaces: None,
        what: Ok(what),
    }
}

pub(super) fn whole(fleet: &Fleet, epic: EpicId, plan: &Value) -> PlanOp {
    let plan = Box::new(schema::parse(plan).unwrap());
    PlanOp::Plan(wanted(epic, fleet.records.plans[&epic].version, plan))
}

pub(super) fn add(epic: EpicId, parent: &str, fields: Value) -> PlanOp {
    let mut given = json!({"name": "more", "acceptance": ["it holds"]});
    given.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let node = schema::parse_new(&given, node(parent)).unwrap().remove(0);
    let what = Box::new(Addition { parent: super::fleet::node(parent), node });
    PlanOp::Add(Wanted { base_version: None, ..wanted(epic, 0, what) })
}

fn split(fleet: &Fleet, epic: EpicId, on: &str, count: usize) -> PlanOp {
    let parts = vec![json!({"name": "part", "acceptance": ["it holds"]}); count];
    let subtasks = schema::parse_new(&json!(parts), node(on)).unwrap();
    let version = fleet.records.plans[&epic].version;
    PlanOp::Split(wanted(epic, version, Splitting { node: node(on), subtasks }))
}

pub(super) fn go() -> Principal {
    Principal::Agent(AgentId::Go)
}

impl Fleet {
    pub(super) fn plan_op(&mut self, from: &Principal, op: PlanOp) -> (Entry, OpReply) {
        let input = self.asking(from, RequestBody::Op(Op::Plan(op)));
        let entry = self.one(input);
        let reply = reply(&entry);
        (entry, reply)
    }

    /// One that has to be accepted.
    #[track_caller]
    pub(super) fn changes(&mut self, from: &Principal, op: PlanOp) -> (Entry, OpReply) {
        let (entry, reply) = self.plan_op(from, op);
        assert_eq!(reply.error, None, "{reply:?}");
        (entry, reply)
    }

    #[track_caller]
    pub(super) fn refuses(&mut self, from: &Principal, op: PlanOp, code: ErrorCode) -> OpReply {
        let before = self.records.nodes.clone();
        let (entry, reply) = self.plan_op(from, op);
        assert_eq!(reply.error, Some(code), "{}", reply.detail);
        assert!(entry.plans.is_empty());
        assert_eq!(self.records.nodes, before);
        reply
    }

    fn status(&self, epic: EpicId, on: &str) -> NodeStatus {
        self.node(epic, on).status
    }

    pub(super) fn version(&self, epic: EpicId) -> u32 {
        self.records.plans[&epic].version
    }
}

fn ids(ids: impl IntoIterator<Item = NodeId>) -> Vec<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}

#[test]
fn replan_keeps_running_work_and_reports_its_version() {
    let chain = plan_of(&[
        task("T1.1", json!({})),
        task("T1.2", json!({"deps": ["T1.1"]})),
        task("T1.3", json!({})),
    ]);
    let (mut fleet, epic) = Fleet::with_goal(chain);
    let worker = fleet.worker(epic, "T1.1");
    let before = fleet.version(epic);
    let wanted = plan_of(&[
        task("T1.1", json!({})),
        task("T1.2", json!({"deps": ["T1.1", "T1.4"]})),
        task("T1.4", json!({"objective": "first this"})),
    ]);
    let op = whole(&fleet, epic, &wanted);
    let (entry, reply) = fleet.changes(&human(), op);
    assert_eq!((reply.epic, reply.version), (Some(epic), Some(before + 1)));
    assert_eq!(reply.detail, "added T1.4; redefined T1.2; gave up T1.3");
    let [event] = entry.plans.as_slice() else { panic!("{:?}", entry.plans) };
    assert_eq!((event.version, event.source), (before + 1, PlanSource::Human));
    assert_eq!(event.reason, PlanReason::Replan);
    assert_eq!(ids(event.definitions.iter().map(|node| node.id)), ["T1.2", "T1.4"]);
    let moves: Vec<String> =
        event.changes.iter().map(|it| format!("{} {} {}", it.node, it.to, it.why)).collect();
    assert_eq!(
        moves,
        [
            "T1.4 todo because",
            "T1.2 todo redefined: because",
            "T1.3 cancelled because",
            "T1.4 queued all it depends on is done"
        ]
    );
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::InProgress);
    assert_eq!(fleet.status(epic, "T1.3"), NodeStatus::Cancelled, "its id stays taken");
    fleet.end(&worker, success("one"));
    assert_eq!(fleet.status(epic, "T1.2"), NodeStatus::Todo, "it waits for the new one too");
    let worker = fleet.worker(epic, "T1.4");
    fleet.end(&worker, success("four"));
    assert_eq!(fleet.status(epic, "T1.2"), NodeStatus::Queued);
    let worker = fleet.worker(epic, "T1.2");
    fleet.end(&worker, success("two"));
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Completed);
    let late = add(epic, "P1", json!({}));
    let reply = fleet.refuses(&human(), late, ErrorCode::Conflict);
    assert!(reply.detail.contains("is completed"), "{}", reply.detail);
}

#[test]
fn only_owner_people_and_appliers_apply_a_plan() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    let others = [Principal::Agent(po()), Principal::Agent(worker)];
    for from in &others {
        let reply = fleet.refuses(from, add(epic, "P1", json!({})), ErrorCode::Unauthorized);
        assert!(reply.detail.contains("mode draft"), "{}", reply.detail);
    }
    for (from, source, reason) in [
        (go(), PlanSource::Overseer, PlanReason::Replan),
        (human(), PlanSource::Human, PlanReason::ManualOverride),
    ] {
        let (entry, _) = fleet.changes(&from, add(epic, "P1", json!({})));
        assert_eq!((entry.plans[0].source, entry.plans[0].reason), (source, reason));
    }
    fleet.policy.plan_appliers.extend(others.clone());
    for from in others {
        let (entry, _) = fleet.changes(&from, add(epic, "P1", json!({})));
        let event = &entry.plans[0];
        assert_eq!((event.source, event.reason), (PlanSource::Agent, PlanReason::Replan));
    }
}

#[test]
fn outdated_sender_is_refused() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let op = RequestBody::Op(Op::Plan(add(epic, "P1", json!({}))));
    let mut stale = fleet.ask(&go(), op);
    stale.sender.epoch = 7;
    let reply = reply(&fleet.one(super::super::Input::Request(Box::new(stale))));
    assert_eq!(reply.error, Some(ErrorCode::Superseded), "a planner of an owner that is gone");
}

#[test]
fn every_error_code_names_its_subject() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let version = fleet.version(epic);
    let other = EpicId(crate::id::Ulid(1));
    fleet.refuses(&human(), add(other, "P1", json!({})), ErrorCode::NotFound);
    let reply = fleet.refuses(&human(), add(epic, "P7", json!({})), ErrorCode::NotFound);
    assert_eq!((reply.detail.as_str(), reply.version), ("the plan has no node P7", Some(version)));
    let outside = plan_of(&[task("T1.1", json!({"deps": ["T1.3"]})), task("T1.2", json!({}))]);
    let unreadable = schema::parse(&outside).unwrap_err()[0].to_string();
    let Wanted { epic: of, mode, base_version, reason, replaces, .. } = wanted(epic, version, ());
    let what = Err(unreadable);
    let op = PlanOp::Plan(Wanted { epic: of, mode, base_version, reason, replaces, what });
    let reply = fleet.refuses(&human(), op, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("T1.3 is outside the epic"), "{}", reply.detail);
    let again = add(epic, "P1", json!({"id": "T1.2"}));
    let reply = fleet.refuses(&human(), again, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("T1.2 was already used"), "{}", reply.detail);

    let worker = fleet.worker(epic, "T1.1");
    let merge = Merging {
        nodes: vec![node("T1.2"), node("T1.1")],
        name: String::new(),
        objective: String::new(),
    };
    let late = PlanOp::Merge(wanted(epic, version, merge.clone()));
    let reply = fleet.refuses(&go(), late, ErrorCode::Conflict);
    let now = fleet.version(epic);
    assert_eq!(reply.version, Some(now));
    assert!(
        reply.detail.contains(&format!("T1.1 was started in version {now}")),
        "{}",
        reply.detail
    );
    let reply = fleet.refuses(&go(), PlanOp::Merge(wanted(epic, now, merge)), ErrorCode::Conflict);
    assert!(reply.detail.contains(&worker.to_string()), "{}", reply.detail);
    let PlanOp::Add(silent) = add(epic, "P1", json!({})) else { panic!() };
    let silent = PlanOp::Add(Wanted { reason: String::new(), ..silent });
    fleet.refuses(&human(), silent, ErrorCode::InvalidRequest);
}

#[test]
fn only_the_plan_of_a_file_counts() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let mut plan = tasks(1);
    plan["profiles"] = json!({"fast": {"argv": ["true"]}});
    let op = whole(&fleet, epic, &plan);
    let reply = fleet.refuses(&human(), op, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("profile.apply"), "{}", reply.detail);
    let mut plan = tasks(1);
    plan["project"] = json!("other");
    let op = whole(&fleet, epic, &plan);
    fleet.refuses(&human(), op, ErrorCode::InvalidPlan);
    let version = fleet.version(epic);
    let op = whole(&fleet, epic, &tasks(1));
    let (entry, reply) = fleet.changes(&human(), op);
    assert_eq!((reply.version, entry.plans.len()), (Some(version), 0), "{}", reply.detail);
    assert_eq!(reply.detail, "the plan does not change");
}

#[test]
fn failed_command_goes_on_as_the_plan_says_when_its_profile_is_there() {
    let run = |line: &str| plan_of(&[json!({"id": "T1.1", "name": "test", "run": line})]);
    let (mut fleet, epic) = Fleet::with_goal(run("make tset"));
    for _ in 0..2 {
        let worker = fleet.worker(epic, "T1.1");
        fleet.end(&worker, RunResult::ended(Outcome::Failure, "exit code 2"));
    }
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::Blocked);
    let op = whole(&fleet, epic, &run("make tset"));
    assert_eq!(fleet.changes(&human(), op).1.detail, "the plan does not change");

    let op = whole(&fleet, epic, &run("make test"));
    let reply = fleet.refuses(&human(), op, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("profile.apply"), "a plan sets no profiles: {}", reply.detail);

    let profile = Box::new(schema::parse(&run("make test")).unwrap().profiles.remove(0));
    let op = Op::ProfileApply { project: super::fleet::project(), profile };
    assert_eq!(fleet.op(&human(), op).error, None);
    let op = whole(&fleet, epic, &run("make test"));
    let reply = fleet.changes(&human(), op).1;
    assert_eq!(reply.detail, "redefined T1.1; left blocked T1.1");
    assert_eq!(reply.data.as_deref(), Some(r#"{"blocked":["T1.1"]}"#));
    let verb = WorkVerb::Unblock { node: node("T1.1"), note: String::new() };
    assert_eq!(fleet.op(&human(), Op::Work(WorkOp { epic, verb })).error, None);
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::Queued);
}

#[test]
fn split_task_is_done_when_its_parts_are() {
    let plan = plan_of(&[task("T1.1", json!({})), task("T1.2", json!({"deps": ["T1.1"]}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let op = split(&fleet, epic, "T1.1", 2);
    let (entry, reply) = fleet.changes(&go(), op);
    assert_eq!(reply.detail, "added S1.1.1 S1.1.2; split T1.1");
    assert!(!fleet.records.node_states[&epic].contains_key(&node("T1.1")));
    assert_eq!(
        ids(entry.plans[0].definitions.iter().map(|it| it.id)),
        ["T1.1", "S1.1.1", "S1.1.2"]
    );
    for part in ["S1.1.1", "S1.1.2"] {
        assert_eq!(fleet.status(epic, "T1.2"), NodeStatus::Todo);
        let worker = fleet.worker(epic, part);
        fleet.end(&worker, success(part));
    }
    assert_eq!(fleet.status(epic, "T1.2"), NodeStatus::Queued);
}

#[test]
fn owner_splits_failed_and_escalated_tasks() {
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", json!({"maxAttempts": 1}))]));
    let worker = fleet.worker(epic, "T1.1");
    let op = split(&fleet, epic, "T1.1", 2);
    fleet.refuses(&go(), op, ErrorCode::Conflict);
    fleet.end(&worker, RunResult::ended(Outcome::Failure, "too much"));
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::Blocked);
    assert!(!fleet.records.assignments.is_empty(), "its cancelled assignment is kept");
    let op = split(&fleet, epic, "T1.1", 2);
    let (_, reply) = fleet.changes(&go(), op);
    assert_eq!(reply.detail, "added S1.1.1 S1.1.2; split T1.1");
    assert_eq!(fleet.status(epic, "S1.1.1"), NodeStatus::Queued);
}

#[test]
fn escalation_settled_by_a_change_is_withdrawn() {
    let (mut fleet, epic, _, asked) = super::overseeing::escalated(2);
    let version = fleet.version(epic);
    let mut plan = plan_of(&[task("T1.1", json!({"maxAttempts": 2}))]);
    plan["phases"][0]["tasks"][0]["objective"] = json!("something easier");
    let op = whole(&fleet, epic, &plan);
    let (entry, _) = fleet.changes(&human(), op);
    assert_eq!(fleet.version(epic), version + 1);
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::Queued, "it is tried again as it is now");
    assert_eq!(fleet.records.questions[&asked].status, QuestionStatus::Withdrawn);
    assert!(entry.tells(EventKind::QuestionWithdrawn));
}

#[test]
fn ready_task_waits_for_inserted_predecessors() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    assert_eq!(fleet.status(epic, "T1.1"), NodeStatus::Queued);
    let plan = plan_of(&[task("T1.1", json!({"deps": ["T1.2"]})), task("T1.2", json!({}))]);
    let op = whole(&fleet, epic, &plan);
    let (_, reply) = fleet.changes(&human(), op);
    assert_eq!(reply.detail, "added T1.2; redefined T1.1; made to wait T1.1");
    let waits = fleet.node(epic, "T1.1");
    assert_eq!(
        (waits.status, waits.blocker.as_ref().unwrap().kind.as_str()),
        (NodeStatus::Blocked, DEPENDS)
    );
    let done = Completion {
        node: node("T1.1"),
        crystallization: "it is there".to_owned(),
        evidence: Evidence::default(),
        reason: "I did it".to_owned(),
    };
    let unblock = WorkVerb::Unblock { node: node("T1.1"), note: String::new() };
    for verb in [WorkVerb::Complete(Box::new(done)), unblock] {
        let input = fleet.asking(&human(), RequestBody::Op(Op::Work(WorkOp { epic, verb })));
        assert_eq!(
            super::fleet::reply(&fleet.one(input)).error,
            Some(ErrorCode::Conflict),
            "as if it were todo"
        );
    }

    let worker = fleet.worker(epic, "T1.2");
    fleet.end(&worker, success("two"));
    assert_eq!(
        (fleet.status(epic, "T1.1"), &fleet.node(epic, "T1.1").blocker),
        (NodeStatus::Queued, &None)
    );
}

#[test]
fn cancelled_phase_takes_no_children() {
    let plan = json!({"title": "goal", "phases": [
        {"id": "P1", "name": "one", "tasks": [task("T1.1", json!({}))]},
        {"id": "P2", "name": "two", "tasks": [task("T2.1", json!({}))]},
    ]});
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let op = whole(&fleet, epic, &tasks(1));
    fleet.changes(&human(), op);
    let own = fleet.spawn(
        &po(),
        super::fleet::request(epic, "-", vec![super::fleet::wish(crate::role::Role::Worker)]),
    );
    assert_eq!(own.spawned[0].node, node("T1.2"));
    assert_eq!(fleet.records.nodes[&epic][&node("T1.2")].added, fleet.version(epic));
}

#[test]
fn two_changes_of_one_commit_make_one_version_in_order() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let version = fleet.version(epic);
    let plan = |name: &str| {
        let mut plan = tasks(2);
        plan["phases"][0]["tasks"][0]["name"] = json!(name);
        plan
    };
    let ops = [
        whole(&fleet, epic, &plan("a")),
        whole(&fleet, epic, &plan("b")),
        add(epic, "P1", json!({})),
    ];
    let inputs = ops.map(|op| fleet.asking(&human(), RequestBody::Op(Op::Plan(op)))).to_vec();
    let entry = fleet.group(inputs);
    assert_eq!(entry.plans.len(), 1);
    assert_eq!((entry.plans[0].version, fleet.version(epic)), (version + 1, version + 1));
    let mut replies = Vec::new();
    for mail in &entry.mail {
        if let crate::mail::MailBody::Reply(reply) = &mail.body {
            replies.push((reply.error, reply.version));
        }
    }
    let made = (None, Some(version + 1));
    assert_eq!(replies, [made, (Some(ErrorCode::Conflict), Some(version)), made]);
    let names = &fleet.records.nodes[&epic][&node("T1.1")];
    assert_eq!((names.name.as_str(), names.defined), ("a", version + 1));
}

#[test]
fn plan_change_event_wins_over_concurrent_work_events() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    let run = Some(fleet.run_of(&worker));
    let result = crate::request::Report::Result { run, epic: None, result: success("one") };
    let ended = fleet.asking(&Principal::Agent(worker), RequestBody::Report(result));
    let op = RequestBody::Op(Op::Plan(add(epic, "P1", json!({}))));
    let changed = fleet.asking(&go(), op);
    let entry = fleet.group(vec![ended, changed]);
    let [event] = entry.plans.as_slice() else { panic!("{:?}", entry.plans) };
    assert_eq!((event.source, event.reason), (PlanSource::Overseer, PlanReason::Replan));
}

#[test]
fn dependents_of_work_ended_with_its_agent_are_escalated() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let below = fleet.agent(&child).work.as_ref().unwrap().node.to_string();
    fleet.changes(&human(), add(epic, "P1", json!({"deps": [below.as_str()]})));
    assert_eq!(fleet.status(epic, "T1.4"), NodeStatus::Todo);

    let entry = fleet.end(&specialist, success("done"));
    assert_eq!(fleet.status(epic, &below), NodeStatus::Cancelled, "it was for the specialist");
    assert_eq!(topics(&entry, &AgentId::Go), ["plan.review_needed"]);
    let told = entry.mail.iter().filter(|mail| mail.to == human());
    assert_eq!(told.map(|mail| mail.body.topic()).collect::<Vec<_>>(), ["plan.review_needed"]);
    let [review] = entry.reviews.as_slice() else { panic!("{:?}", entry.reviews) };
    let [ask] = review.asks.as_slice() else { panic!("{:?}", review.asks) };
    assert!(ask.text.contains("cannot start: T1.4."), "{}", ask.text);
    assert_eq!(fleet.status(epic, "T1.4"), NodeStatus::Todo, "only a plan helps");
}
