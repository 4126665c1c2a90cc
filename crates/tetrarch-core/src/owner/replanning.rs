//! A task that stands still becomes a task with subtasks (spec 05, The tick): the attempt at it ends first, and
//! what was to be done is then its subtasks'. The task keeps its id, and what waits for it waits for them.

use crate::assignment::Assignment;
use crate::id::NodeId;
use crate::plan::change::Changed;
use crate::plan::{Node, PlanReason};
use crate::step::Draft;

use super::{planning, replacing};

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
    let version = draft.next_version(epic);
    let last = parts.last().map(|part| part.id);
    let stamp = |node: Node| Node { defined: version, ..node };
    let whole = |part| Node { added: version, ..stamp(inherited(part, &task, last)) };
    let parts: Vec<Node> = parts.into_iter().map(whole).collect();
    let added = parts.iter().map(|part| part.id).collect();
    let mut defined = vec![stamp(task)];
    defined.extend(parts);
    let known = draft.base().plans.get(&epic).and_then(|plan| plan.output);
    let output = if known == Some(id) { last } else { known };
    let changed = Changed { defined, added, split: vec![id], output, ..Changed::default() };
    planning::write(draft, epic, &changed, PlanReason::Replan, why);
}

/// A part as the task has it. What the task's result has to look like, its last part's has.
fn inherited(part: Node, task: &Node, last: Option<NodeId>) -> Node {
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
