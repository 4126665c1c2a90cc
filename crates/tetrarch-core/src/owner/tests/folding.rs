//! What ended leaves its plan (spec 05, Nothing grows with history): nodes of children that were asked for
//! without one, counted by what became of them, their ids never used again; and events tell what changed.

use serde_json::json;

use super::fleet::{Fleet, human, node, plan_of, po, request, success, task, tasks, wish};
use super::planning::{add, go};
use crate::brief::{Outcome, RunResult};
use crate::check::check_entry;
use crate::error::ErrorCode;
use crate::id::{EpicId, NodeId};
use crate::ledger::{Entry, Record, RecordKey};
use crate::limits::{ENDED_CHILDREN_KEPT, FULL_EVENT_NODES_MAX};
use crate::plan::folding::EndedChildren;
use crate::plan::view::whole;
use crate::plan::{NodeStatus, PlanEvent};
use crate::request::{Report, RequestBody};
use crate::restart::Restart;
use crate::role::Role;

const KEPT: u32 = ENDED_CHILDREN_KEPT as u32;

/// A child that was asked for without a node, from its request to its end; gives its last entry.
fn child(fleet: &mut Fleet, epic: EpicId, result: RunResult) -> Entry {
    let worker = fleet.worker(epic, "-");
    fleet.end(&worker, result)
}

fn failed() -> RunResult {
    RunResult::ended(Outcome::Failure, "it broke")
}

fn ended(fleet: &Fleet, epic: EpicId) -> EndedChildren {
    fleet.records.plans[&epic].folded.get(&node("P1")).copied().unwrap_or_default()
}

#[test]
fn ended_children_beyond_the_latest_leave_their_plan_and_are_counted() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let told = RunResult { crystallization: "learnt".to_owned(), ..success("done") };
    for _ in 0..KEPT {
        let entry = child(&mut fleet, epic, told.clone());
        assert_eq!(entry.plans[0].folded, []);
    }
    assert_eq!(fleet.records.nodes[&epic].len(), 2 + ENDED_CHILDREN_KEPT);
    let entry = child(&mut fleet, epic, success("done"));
    assert_eq!(entry.plans[0].folded, [node("T1.2")], "the earliest");
    let keys = [
        RecordKey::Node(epic, node("T1.2")),
        RecordKey::NodeState(epic, node("T1.2")),
        RecordKey::Crystallization(epic, Some(node("T1.2"))),
    ];
    assert!(keys.iter().all(|key| entry.dropped.contains(key)), "{:?}", entry.dropped);
    assert_eq!(fleet.records.nodes[&epic].len(), 2 + ENDED_CHILDREN_KEPT);
    assert_eq!(
        ended(&fleet, epic),
        EndedChildren { done: 1, highest: 2, ..EndedChildren::default() }
    );
    let counts = entry.plans[0].counts;
    assert_eq!((counts.done, counts.queued), (KEPT + 1, 1), "the counts have all of them");
    let percent = fleet.records.goal_states[&epic].percent;
    assert_eq!(u32::from(percent), (KEPT + 1) * 100 / (KEPT + 2));
}

#[test]
fn children_that_failed_keep_nobody_from_asking_and_leave_as_given_up() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    for _ in 0..KEPT {
        child(&mut fleet, epic, failed());
    }
    assert_eq!(fleet.node(epic, "T1.2").status, NodeStatus::Blocked, "it may be tried again");
    for _ in 0..3 {
        child(&mut fleet, epic, success("done"));
    }
    assert_eq!(
        ended(&fleet, epic),
        EndedChildren { failed: 3, highest: 4, ..EndedChildren::default() }
    );
    let last = fleet.ledger.last().unwrap();
    let given_up = last.plans[0].changes.iter().find(|change| change.node == node("T1.4")).unwrap();
    assert_eq!((given_up.from, given_up.to), (Some(NodeStatus::Blocked), NodeStatus::Cancelled));
    fleet.changes(&human(), add(epic, "P1", json!({"name": "by hand"})));
}

#[test]
fn what_others_wait_for_or_somebody_works_on_stays() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let long = fleet.worker(epic, "-");
    child(&mut fleet, epic, success("needed"));
    fleet.changes(&go(), add(epic, "P1", json!({"deps": ["T1.3"]})));
    for _ in 0..2 * KEPT {
        child(&mut fleet, epic, success("done"));
    }
    let states = &fleet.records.node_states[&epic];
    assert_eq!(states[&node("T1.2")].status, NodeStatus::InProgress);
    assert_eq!(states[&node("T1.3")].status, NodeStatus::Done, "another depends on it");
    assert_eq!(ended(&fleet, epic).done, KEPT);
    let entry = fleet.end(&long, success("late"));
    assert_eq!(entry.plans[0].folded.len(), 1, "it ended last, so another one goes");
    assert!(fleet.records.nodes[&epic].contains_key(&node("T1.2")));
}

#[test]
fn no_id_of_what_left_a_plan_is_used_again() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    for _ in 0..=KEPT {
        child(&mut fleet, epic, success("done"));
    }
    let taken = add(epic, "P1", json!({"id": "T1.2"}));
    let refused = fleet.refuses(&go(), taken, ErrorCode::InvalidPlan);
    assert!(refused.detail.contains("never used again"), "{}", refused.detail);
    let (entry, _) = fleet.changes(&go(), add(epic, "P1", json!({})));
    let added = NodeId::task(1, KEPT + 3);
    assert!(entry.records.iter().any(|it| it.key() == RecordKey::Node(epic, added)));

    let before = fleet.records.clone();
    let mut entry = Entry { plans: Vec::new(), ..fleet.ledger.last().unwrap().clone() };
    let mut again = before.nodes[&epic][&node("T1.1")].clone();
    again.id = node("T1.2");
    entry.records = vec![Record::Node(epic, Box::new(again))];
    let found = check_entry(&before, 9, &entry);
    assert!(found.iter().any(|it| it.what.contains("its id was used before")), "{found:?}");
}

#[test]
fn what_leaves_a_plan_is_counted_once_and_only_when_it_has_ended() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    for _ in 0..KEPT {
        child(&mut fleet, epic, success("done"));
    }
    let worker = fleet.worker(epic, "-");
    let before = fleet.records.clone();
    let entry = fleet.end(&worker, success("done"));
    let broken = |change: &dyn Fn(&mut Entry)| {
        let mut entry = entry.clone();
        change(&mut entry);
        let found = check_entry(&before, 9, &entry);
        assert!(!found.is_empty());
        format!("{found:?}")
    };
    let plan = |entry: &mut Entry, change: &dyn Fn(&mut EndedChildren)| {
        for record in &mut entry.records {
            if let Record::Plan(plan) = record {
                plan.folded.values_mut().for_each(change);
            }
        }
    };
    assert!(broken(&|entry| plan(entry, &|it| it.done = 0)).contains("left it"));
    assert!(broken(&|entry| plan(entry, &|it| it.highest = 1)).contains("left it"));
    let state = RecordKey::NodeState(epic, node("T1.2"));
    let lost = broken(&|entry| entry.dropped.retain(|key| *key != state));
    assert!(lost.contains("its state did not"), "{lost}");
    let silent = broken(&|entry| entry.records.retain(|it| !matches!(it, Record::Plan(_))));
    assert!(silent.contains("does not say so"), "{silent}");
    let own = broken(&|entry| entry.dropped.push(RecordKey::Node(epic, node("T1.1"))));
    assert!(own.contains("its id is forgotten"), "{own}");
    assert!(own.contains("had not ended"), "{own}");
}

/// A plan of more nodes than an event tells at once.
fn large() -> (Fleet, EpicId) {
    let parts: Vec<_> = (1..=7)
        .map(|part| json!({"id": format!("S1.1.{part}"), "name": "part", "acceptance": ["it holds"]}))
        .collect();
    let mut plan = plan_of(&[task("T1.1", json!({"subtasks": parts}))]);
    plan["phaseOrder"] = json!("parallel");
    let phases = plan["phases"].as_array_mut().unwrap();
    phases[0]["tasks"][0].as_object_mut().unwrap().remove("acceptance");
    for phase in 2..=5 {
        let tasks: Vec<_> = (1..=if phase < 5 { 7 } else { 6 })
            .map(|n| {
                let own = format!("T{phase}.{n}");
                let parts = json!([
                    {"id": format!("S{phase}.{n}.1"), "name": "part", "acceptance": ["it holds"]}
                ]);
                json!({"id": own, "name": own, "subtasks": parts})
            })
            .collect();
        phases.push(json!({"id": format!("P{phase}"), "name": "phase", "tasks": tasks}));
    }
    Fleet::with_goal(plan)
}

#[test]
fn an_event_of_a_large_plan_tells_what_changed_and_adds_up_to_the_whole() {
    let (mut fleet, epic) = large();
    assert!(fleet.records.nodes[&epic].len() > FULL_EVENT_NODES_MAX);
    let worker = fleet.worker(epic, "S1.1.2");
    fleet.end(&worker, success("done"));
    child(&mut fleet, epic, success("done"));
    let mut restart = Restart::default();
    let mut known: Option<PlanEvent> = None;
    for (seq, entry) in (1..).zip(&fleet.ledger) {
        let mut read = entry.clone();
        read.plans.iter_mut().for_each(|event| event.nodes.clear());
        restart.add(seq, &read);
        restart.complete(&mut read);
        assert_eq!(read, *entry, "whoever reads it publishes the same");
        for event in &entry.plans {
            assert_eq!(event.full, event.version == 1);
            let gap = event.clone().onto(known.as_ref().filter(|_| event.version < 1));
            assert_eq!(gap.is_err(), event.version > 1, "one event does not stand for the plan");
            known = Some(event.clone().onto(known.as_ref()).unwrap());
        }
    }
    let told: Vec<NodeId> =
        fleet.ledger.last().unwrap().plans[0].nodes.iter().map(|it| it.id).collect();
    assert_eq!(told, [node("P5"), node("T5.7")], "what changed, and what stands above it");
    let whole = whole(&fleet.records, epic).unwrap();
    let known = known.unwrap();
    assert_eq!((known.nodes, known.counts), (whole.nodes, whole.counts));
}

#[test]
fn many_children_that_end_in_one_commit_leave_in_it() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    for _ in 1..KEPT {
        child(&mut fleet, epic, success("done"));
    }
    let wanted =
        request(epic, "-", vec![wish(Role::Worker), wish(Role::Worker), wish(Role::Worker)]);
    let answer = fleet.spawn(&po(), wanted);
    let agents: Vec<_> = answer.spawned.iter().map(|it| it.agent.clone()).collect();
    let mut inputs = Vec::new();
    for agent in &agents {
        fleet.report(agent, Report::Ready);
        let run = Some(fleet.run_of(agent));
        let report = Report::Result { run, epic: None, result: success("done") };
        inputs.push(fleet.asking(&agent.clone().into(), RequestBody::Report(report)));
    }
    let entry = fleet.group(inputs);
    assert_eq!(entry.plans[0].folded, [node("T1.2"), node("T1.3")]);
}
