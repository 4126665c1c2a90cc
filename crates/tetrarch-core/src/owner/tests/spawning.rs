//! Spawn requests through the whole owner: every reason for a refusal, repeats, races, sponsors.

use serde_json::json;

use super::fleet::{
    Fleet, answer, create, human, id, join, node, plan_of, po, project, reasons, request, success,
    task, tasks, topics, wish,
};
use crate::agent::Mode;
use crate::brief::Tools;
use crate::budget::Limits;
use crate::error::DenialReason;
use crate::id::{Domain, EpicId, HostName, Principal, ProfileName, Ulid};
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::mail::SpawnAnswer;
use crate::owner::Input;
use crate::plan::NodeStatus;
use crate::request::{
    BriefWish, DIGEST_HALF, MalformedKind, Op, Report, RequestBody, SpawnRequest, SubagentWish,
    TaskWish,
};
use crate::role::Role;
use crate::time::Millis;

fn worker() -> Vec<SubagentWish> {
    vec![wish(Role::Worker)]
}

/// A ready fleet with a goal of five tasks.
fn five() -> (Fleet, EpicId) {
    Fleet::with_goal(tasks(5))
}

#[track_caller]
fn assert_denied(answer: &SpawnAnswer, reason: DenialReason) {
    assert_eq!(reasons(answer), [reason], "{answer:?}");
    assert!(!answer.accepted() && !answer.suggestion.is_empty());
}

#[test]
fn admission_is_one_complete_entry() {
    let (mut fleet, epic) = five();
    let answer = fleet.spawn(&po(), request(epic, "T1.1", worker()));
    let entry = fleet.ledger.last().unwrap();
    let spawned = &answer.spawned[0];
    assert_eq!((spawned.depth, spawned.epoch), (2, 1));
    assert_eq!(spawned.host.as_str(), "h1");
    let child = fleet.agent(&spawned.agent);
    assert_eq!((child.liveness, child.requested_by.clone()), (Liveness::Register, po().into()));
    assert_eq!(fleet.agent(&po()).slots[0].child, spawned.agent);
    assert_eq!(fleet.node(epic, "T1.1").assignee.as_ref(), Some(&spawned.agent));
    assert_eq!(entry.seals.len(), 1);
    assert_eq!(topics(entry, &id("HO@h1")), ["launch"]);
    assert_eq!(topics(entry, &po()), ["spawn.accepted"]);
    assert_eq!(entry.plans[0].version, 2);
}

#[test]
fn parent_must_be_known_active_and_the_senders_own() {
    let (mut fleet, epic) = five();
    let mut unknown = request(epic, "T1.1", worker());
    unknown.parent = Some(id("W:01JD8Z5W6T4QK3M9X2V7B1N0AC"));
    let answer = fleet.spawn(&po(), unknown);
    assert_denied(&answer, DenialReason::UnknownParent);

    let first = fleet.worker(epic, "T1.1");
    let mut foreign = request(epic, "T1.2", worker());
    foreign.parent = Some(po());
    let answer = fleet.spawn(&first, foreign);
    assert_denied(&answer, DenialReason::Unauthorized);

    let mut nobodys = request(epic, "T1.2", worker());
    let input = fleet.asking(&human(), RequestBody::Spawn(nobodys.clone()));
    let refused = super::fleet::answer(&fleet.one(input));
    assert_eq!(refused.reason, "invalid_request");
    nobodys.parent = Some(po());
    let input = fleet.asking(&human(), RequestBody::Spawn(nobodys));
    let granted = super::fleet::answer(&fleet.one(input));
    assert!(granted.accepted(), "a human is everybody's sponsor: {granted:?}");

    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    fleet.op(&human(), Op::ProjectCreate(create(false)));
    let epic = fleet.goal(tasks(1));
    let answer = fleet.spawn(&po(), request(epic, "T1.1", worker()));
    assert_denied(&answer, DenialReason::ParentNotActive);
}

#[test]
fn roles_follow_the_parent_table() {
    let (mut fleet, epic) = five();
    let first = fleet.worker(epic, "T1.1");
    let answer = fleet.spawn(&first, request(epic, "T1.2", worker()));
    assert_denied(&answer, DenialReason::RoleNotAllowed);
    let entry = fleet.ledger.last().unwrap();
    assert_eq!(topics(entry, &po()), ["governor.violation"], "the parent orchestrator is told");

    let specialist = fleet.member(epic, "T1.2", Role::Specialist);
    let answer = fleet.spawn(&specialist, request(epic, "-", worker()));
    assert_denied(&answer, DenialReason::RoleNotAllowed);
    let mut orchestrator = wish(Role::Project);
    orchestrator.domain = None;
    let answer = fleet.spawn(&po(), request(epic, "-", vec![orchestrator]));
    assert_denied(&answer, DenialReason::RoleNotAllowed);
}

#[test]
fn sponsored_worker_is_at_depth_3_with_nothing_below() {
    let (mut fleet, epic) = five();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let answer = fleet.sponsored(epic, &specialist);
    assert!(answer.accepted(), "{answer:?}");
    let spawned = answer.spawned[0].clone();
    assert_eq!((spawned.depth, answer.parent.as_ref()), (3, Some(&specialist)));
    assert_eq!(spawned.node, node("T1.6"), "a task was added for it");
    let child = fleet.agent(&spawned.agent).clone();
    assert_eq!(child.requested_by, specialist.clone().into());
    assert_eq!(fleet.agent(&specialist).slots.len(), 1);

    fleet.report(&spawned.agent, Report::Ready);
    let mut below = request(epic, "-", worker());
    below.parent = Some(spawned.agent.clone());
    let answer = fleet.spawn(&po(), below);
    assert_denied(&answer, DenialReason::SpawnDepthExceeded);
    assert_eq!(answer.reason, "all_requests_exceed_depth_limit");

    let told = fleet.end(&spawned.agent, success("part"));
    assert_eq!(topics(&told, &specialist), ["result.ready", "agent.completed"]);
}

#[test]
fn subtree_has_its_own_depth_limit() {
    let (mut fleet, epic) = five();
    let mut shallow = wish(Role::Specialist);
    shallow.local_max_depth = Some(0);
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![shallow]));
    let specialist = answer.spawned[0].agent.clone();
    assert_eq!(fleet.agent(&specialist).local_max_depth, 2, "clamped, not refused");
    fleet.report(&specialist, Report::Ready);
    let answer = fleet.sponsored(epic, &specialist);
    assert_denied(&answer, DenialReason::DepthLimitExceeded);
}

#[test]
fn three_slots_are_reduced_by_the_mode() {
    let (mut fleet, epic) = five();
    for on in ["T1.1", "T1.2", "T1.3"] {
        fleet.worker(epic, on);
    }
    let answer = fleet.spawn(&po(), request(epic, "T1.4", worker()));
    assert_denied(&answer, DenialReason::ChildrenLimitExceeded);
    assert_eq!((answer.denied[0].limit, answer.denied[0].current), (Some(3), Some(3)));

    for (mode, admitted) in [(Mode::Solo, 0), (Mode::Tight, 1), (Mode::Orchestrator, 3)] {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        fleet.op(&human(), Op::ProjectMode { project: project(), mode });
        let answer = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker); 4]));
        assert_eq!(answer.spawned.len(), admitted, "{mode}");
        assert_eq!(answer.denied.len(), 4 - admitted, "{mode}");
    }
}

#[test]
fn tools_and_budgets_come_from_the_parent() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let mut poor = create(false);
    poor.tools = ["sh"].into_iter().collect();
    poor.budget = Limits { tokens: Some(100), ..Limits::default() };
    fleet.op(&human(), Op::ProjectCreate(poor));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    let mut armed = wish(Role::Worker);
    armed.tools = Some(["sh", "net"].into_iter().collect::<Tools>());
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![armed]));
    assert_denied(&answer, DenialReason::ToolNotAllowed);
    assert_eq!(topics(fleet.ledger.last().unwrap(), &id("GO")), ["governor.violation"]);
    let mut rich = wish(Role::Worker);
    rich.budget.tokens = Some(101);
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![rich]));
    assert_denied(&answer, DenialReason::BudgetExceeded);
    assert_eq!(topics(fleet.ledger.last().unwrap(), &id("GO")), [""; 0], "it was told");
}

#[test]
fn open_circuit_refuses_everything_below() {
    let (mut fleet, epic) = five();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let mut tripped = fleet.agent(&po()).clone();
    tripped.circuit.open(crate::time::BusTime(1), "it died");
    fleet.records.put(Record::Agent(Box::new(tripped)));
    let answer = fleet.spawn(&po(), request(epic, "T1.2", worker()));
    assert_denied(&answer, DenialReason::CircuitOpen);
    let answer = fleet.sponsored(epic, &specialist);
    assert_denied(&answer, DenialReason::CircuitOpen);
}

#[test]
fn halted_intake_refuses_requests_and_decides_the_rest() {
    let (mut fleet, epic) = five();
    let why = "no work is accepted, the disk is full; free some";
    fleet.policy.halted = Some(why.to_owned());
    let answer = fleet.spawn(&po(), request(epic, "T1.1", worker()));
    assert_denied(&answer, DenialReason::NoHostAvailable);
    assert_eq!(answer.denied[0].detail, why);
    fleet.policy.halted = None;
    let answer = fleet.spawn(&po(), request(epic, "T1.1", worker()));
    assert_eq!(answer.spawned.len(), 1);
}

#[test]
fn host_must_be_up_with_capacity_and_matching_labels() {
    let (mut fleet, epic) = five();
    let mut elsewhere = wish(Role::Worker);
    elsewhere.placement.host = Some(HostName::new("h2").unwrap());
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![elsewhere.clone()]));
    assert_denied(&answer, DenialReason::NoHostAvailable);
    fleet.join("h2", "life1", 1);
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![elsewhere.clone()]));
    assert_eq!(answer.spawned[0].host.as_str(), "h2");
    let answer = fleet.spawn(&po(), request(epic, "T1.2", vec![elsewhere]));
    assert_denied(&answer, DenialReason::NoHostAvailable);
    let mut labelled = wish(Role::Worker);
    labelled.placement.labels = vec![("zone".to_owned(), "b".to_owned())];
    let answer = fleet.spawn(&po(), request(epic, "T1.2", vec![labelled]));
    assert_denied(&answer, DenialReason::NoHostAvailable);
}

#[test]
fn node_must_be_a_ready_unassigned_leaf() {
    let tree = json!({"id": "T1.3", "name": "tree", "subtasks": [task("S1.3.1", json!({}))]});
    let waiting = task("T1.2", json!({"deps": ["T1.1"]}));
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", json!({})), waiting, tree]));
    fleet.worker(epic, "T1.1");
    for on in ["T1.1", "T1.2", "T1.3", "T1.9", "P1"] {
        let answer = fleet.spawn(&po(), request(epic, on, worker()));
        assert_denied(&answer, DenialReason::NodeNotAssignable);
    }
    let answer = fleet.spawn(&po(), request(epic, "S1.3.1", vec![wish(Role::Worker); 2]));
    assert_eq!(answer.spawned.len(), 1, "one node, one agent");
    assert_eq!(reasons(&answer), [DenialReason::NodeNotAssignable]);
}

#[test]
fn epic_must_be_open_and_of_the_parents_project() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let nobodys = EpicId(Ulid(77));
    let answer = fleet.spawn(&po(), request(nobodys, "T1.1", worker()));
    assert_denied(&answer, DenialReason::UnknownEpic);
    let only = fleet.worker(epic, "T1.1");
    fleet.end(&only, success("done"));
    let answer = fleet.spawn(&po(), request(epic, "-", worker()));
    assert_denied(&answer, DenialReason::NodeNotAssignable);
}

#[test]
fn malformed_request_names_the_field() {
    let (mut fleet, epic) = five();
    let changed = |change: fn(&mut SubagentWish)| {
        let mut wish = wish(Role::Worker);
        change(&mut wish);
        request(epic, "T1.1", vec![wish])
    };
    let brief = BriefWish { goal: "do it".to_owned(), ..BriefWish::default() };
    let whole = |success_criteria: Vec<String>, wall| {
        let mut wish = wish(Role::Worker);
        wish.task = TaskWish::Brief(BriefWish { success_criteria, ..brief.clone() });
        wish.wall = wall;
        request(epic, "T1.1", vec![wish])
    };
    let none: Vec<SubagentWish> = Vec::new();
    let cases: Vec<(SpawnRequest, &str)> = vec![
        (request(epic, "T1.1", none), "requested_subagents: 0"),
        (request(epic, "-", vec![wish(Role::Worker); 17]), "requested_subagents: 17"),
        (changed(|wish| wish.task = TaskWish::Task(" ".to_owned())), "[0].task"),
        (changed(|wish| wish.task = TaskWish::Task("x".repeat(16 * 1024 + 1))), "[0].task"),
        (changed(|wish| wish.role = Role::Specialist), "[0].domain"),
        (changed(|wish| wish.profile = ProfileName::new("nope").ok()), "runner"),
        (whole(vec!["it holds".to_owned()], None), "[0].budget"),
        (whole(Vec::new(), Some(Millis(1))), "[0].brief.success_criteria"),
        (SpawnRequest { reason: "r".repeat(2049), ..request(epic, "-", worker()) }, "spawn_reason"),
    ];
    for (wanted, field) in cases {
        let answer = fleet.spawn(&po(), wanted);
        assert_eq!(answer.reason, "invalid_request", "{field}");
        let told = answer.denied.iter().all(|denied| denied.detail.contains(field));
        assert!(told, "{field}: {answer:?}");
    }
    let whole = whole(vec!["it holds".to_owned()], Some(Millis(60_000)));
    assert!(fleet.spawn(&po(), whole).accepted());
    let unread = RequestBody::Malformed {
        kind: MalformedKind::Spawn,
        error: "requested_subagents[0].role: \"coder\" is no role".to_owned(),
        nameless: false,
    };
    let asked = fleet.ask(&po().into(), unread);
    let told = answer(&fleet.one(Input::Request(Box::new(asked.clone()))));
    assert_eq!(told.request, Some(asked.id));
    assert!(told.reason == "invalid_request" && told.suggestion.contains("coder"));
}

#[test]
fn claims_are_corrected_by_the_record() {
    let (mut fleet, epic) = five();
    let mut wanted = request(epic, "T1.1", worker());
    wanted.caller_depth = Some(0);
    wanted.caller_max_depth = Some(9);
    wanted.caller_local_max_depth = Some(3);
    let answer = fleet.spawn(&po(), wanted);
    assert_eq!(answer.spawned[0].depth, 2);
    assert_eq!(
        answer.corrections,
        ["caller_depth: 0 claimed, 1 is true", "caller_max_depth: 9 claimed, 3 is true"]
    );
}

#[test]
fn repeated_request_is_decided_once_and_answered_the_same() {
    let (mut fleet, epic) = five();
    let first = fleet.ask(&po().into(), RequestBody::Spawn(request(epic, "T1.1", worker())));
    let mail = |entry: &crate::ledger::Entry| {
        entry.mail.iter().find(|mail| mail.correlation == Some(first.id)).cloned()
    };
    let once = fleet.one(Input::Request(Box::new(first.clone())));
    fleet.worker(epic, "T1.2");
    let mut repeat = first.clone();
    repeat.seq += 10;
    let twice = fleet.one(Input::Request(Box::new(repeat)));
    let to_it = |entry: &crate::ledger::Entry| {
        entry.mail.iter().find(|mail| mail.to == po().into()).cloned().unwrap()
    };
    assert_eq!(to_it(&once), to_it(&twice));
    assert!(mail(&twice).is_some() && twice.records.is_empty() && twice.seals.is_empty());
    for half in [0, DIGEST_HALF] {
        let mut spelled = first.clone();
        spelled.digest.replace_range(half..half + DIGEST_HALF, &"0".repeat(DIGEST_HALF));
        let again = fleet.one(Input::Request(Box::new(spelled)));
        assert_eq!(to_it(&once), to_it(&again), "in other bytes, or read in another way");
    }
    assert_eq!(fleet.agent(&po()).slots.len(), 2);

    let body = RequestBody::Spawn(request(epic, "T1.3", worker()));
    let mut other = fleet.ask(&po().into(), body);
    other.id = first.id;
    let refused = answer(&fleet.one(Input::Request(Box::new(other))));
    assert_eq!(refused.reason, "E_CONFLICT");
    assert_eq!(fleet.agent(&po()).slots.len(), 2);
}

#[test]
fn exactly_three_of_64_racing_requests_are_accepted() {
    for group in [1, 7, 64] {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let inputs: Vec<Input> = (0..64)
            .map(|_| fleet.asking(&po().into(), RequestBody::Spawn(request(epic, "-", worker()))))
            .collect();
        let mut accepted = 0;
        for inputs in inputs.chunks(group) {
            let entry = fleet.group(inputs.to_vec());
            let answers = entry.mail.iter().filter(|mail| mail.body.topic() == "spawn.accepted");
            accepted += answers.count();
        }
        assert_eq!(accepted, 3, "in groups of {group}");
        assert_eq!(fleet.agent(&po()).slots.len(), 3);
    }
}

#[test]
fn open_node_adds_tasks_up_to_seven_unsettled() {
    let (mut fleet, epic) = five();
    let answer = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker); 3]));
    let nodes: Vec<String> = answer.spawned.iter().map(|s| s.node.to_string()).collect();
    assert_eq!(nodes, ["T1.6", "T1.7"]);
    assert_eq!(reasons(&answer), [DenialReason::NodeNotAssignable]);
    let entry = fleet.ledger.last().unwrap();
    let defined: Vec<String> =
        entry.plans[0].definitions.iter().map(|n| n.id.to_string()).collect();
    assert_eq!(defined, nodes);
    let added = |kind: EventKind| entry.events.iter().filter(|e| e.kind == kind).count();
    assert_eq!(added(EventKind::NodeAdded), 2);
    for spawned in answer.spawned {
        fleet.end(&spawned.agent, success("done"));
        assert_eq!(fleet.node(epic, &spawned.node.to_string()).status, NodeStatus::Done);
    }
    let answer = fleet.spawn(&po(), request(epic, "-", worker()));
    assert_eq!(answer.spawned[0].node, node("T1.8"), "settled ones do not count");
}

#[test]
fn request_without_reply_gets_no_answer() {
    let (mut fleet, epic) = five();
    let wanted = SpawnRequest { ack_required: false, ..request(epic, "T1.1", worker()) };
    let input = fleet.asking(&po().into(), RequestBody::Spawn(wanted));
    let entry = fleet.one(input.clone());
    assert_eq!(topics(&entry, &po()), Vec::<String>::new());
    assert_eq!(fleet.one(input).mail, [], "nor does its repeat");
    assert_eq!(fleet.agent(&po()).slots.len(), 1);
}

#[test]
fn domains_come_from_the_request() {
    let (mut fleet, epic) = five();
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let crate::id::AgentId::Specialist(domain, _) = &specialist else { panic!("{specialist}") };
    assert_eq!(*domain, Domain::new("api").unwrap());
}

#[test]
fn stale_epoch_is_refused() {
    let (mut fleet, epic) = five();
    let mut late = fleet.ask(&po().into(), RequestBody::Spawn(request(epic, "T1.1", worker())));
    late.sender.epoch = 0;
    let refused = answer(&fleet.one(Input::Request(Box::new(late))));
    assert_denied(&refused, DenialReason::Unauthorized);
    let mut elsewhere = fleet.ask(&po().into(), RequestBody::Op(join("x", 1, 1)));
    elsewhere.body = RequestBody::Spawn(request(epic, "T1.1", worker()));
    elsewhere.sender.via = HostName::new("h9").ok();
    let refused = answer(&fleet.one(Input::Request(Box::new(elsewhere))));
    assert_denied(&refused, DenialReason::Unauthorized);
    let nobody = Principal::Agent(id("PO-other"));
    let input = fleet.asking(&nobody, RequestBody::Spawn(request(epic, "T1.1", worker())));
    let refused = answer(&fleet.one(input));
    assert_denied(&refused, DenialReason::Unauthorized);
}
