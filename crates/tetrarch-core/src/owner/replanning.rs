//! A task that stands still becomes a task with subtasks (spec 05, The tick): the attempt at it ends first, and
//! what was to be done is then its subtasks'. The task keeps its id, and what waits for it waits for them.

use crate::assignment::Assignment;
use crate::ledger::{EventKind, Record, RecordKey};
use crate::plan::{Node, NodeChange, NodeStatus, Plan, PlanReason};
use crate::step::Draft;

use super::{plans, replacing};

/// Cuts the task of an assignment. `parts` are its subtasks with their ids, their words and what they wait for;
/// who does them, and by what means, is as the task says.
pub(super) fn split(draft: &mut Draft<'_>, assignment: &Assignment, parts: Vec<Node>, why: &str) {
    let (epic, id) = (assignment.epic, assignment.node);
    let Some(task) = draft.node(epic, id).cloned() else { return };
    // The reason of the first change is the plan's: it is made anew, whatever its attempt comes to.
    draft.touch(epic, PlanReason::Replan);
    if let Some(agent) = draft.agent(&assignment.agent).cloned() {
        let stopped = replacing::surrender(draft, &agent, why);
        debug_assert!(stopped.is_ok(), "who is overseen has work: {stopped:?}");
    }
    draft.forget(RecordKey::NodeState(epic, id));
    let last = parts.last().map(|part| part.id);
    for part in parts {
        let part = inherited(part, &task, last);
        let to = NodeStatus::Todo;
        let change = NodeChange { node: part.id, from: None, to, why: why.to_owned() };
        let event = draft.event(EventKind::NodeAdded, "05 The tick", format!("a part of {id}"));
        event.epic = Some(epic);
        event.node = Some(part.id);
        let touched = draft.touch(epic, PlanReason::Replan);
        touched.changes.push(change);
        touched.defined.push(part.id);
        plans::put_leaf(draft, epic, part.id);
        draft.put(Record::Node(epic, Box::new(part)));
    }
    let plan = draft.base().plans.get(&epic).filter(|plan| plan.output == Some(id)).cloned();
    if let Some(plan) = plan {
        draft.put(Record::Plan(Box::new(Plan { output: last, ..plan })));
    }
    plans::settle(draft, epic);
}

/// A part as the task has it. What the task's result has to look like, its last part's has.
fn inherited(part: Node, task: &Node, last: Option<crate::id::NodeId>) -> Node {
    let output_schema = task.output_schema.clone().filter(|_| last == Some(part.id));
    let Node { id, name, objective, acceptance, definition_of_done, depends_on, key_facts, .. } =
        part;
    Node {
        id,
        name,
        objective,
        acceptance,
        definition_of_done,
        depends_on,
        key_facts: task.key_facts.iter().cloned().chain(key_facts).collect(),
        output_schema,
        ..task.clone()
    }
}
