//! What an accepted change writes: definitions, first states of new leaves, the end of those that are
//! given up, waiting for what was put before them. All in the decision's own step.

use std::fmt::Display;

use crate::assignment::Purpose;
use crate::id::{EpicId, NodeId};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::plan::change::Changed;
use crate::plan::{Blocker, DEPENDS, NodeChange, NodeState, NodeStatus, Plan, PlanReason};
use crate::step::Draft;

use super::RULE;
use crate::owner::{fit, plans, questions};

/// Bytes of the reason that go with each node that moves: the event of the change has the whole of it.
const WHY_BYTES: usize = 160;

/// Writes a change; gives what it did in words.
pub(in crate::owner) fn write(
    draft: &mut Draft<'_>,
    epic: EpicId,
    changed: &Changed,
    reason: PlanReason,
    why: &str,
) -> String {
    let done = words(changed);
    draft.event(EventKind::PlanChanged, RULE, format!("{done}: {why}")).epic = Some(epic);
    let why = fit::Room::of(WHY_BYTES).text(why, usize::MAX);
    draft.touch(epic, reason);
    for node in &changed.defined {
        draft.put(Record::Node(epic, Box::new(node.clone())));
        draft.touch(epic, reason).defined.push(node.id);
    }
    for id in &changed.split {
        questions::withdraw_escalations(draft, epic, *id, "it was split");
        draft.forget(RecordKey::NodeState(epic, *id));
        let event = draft.event(EventKind::PlanChanged, RULE, format!("split: {why}"));
        (event.epic, event.node) = (Some(epic), Some(*id));
    }
    for id in &changed.added {
        plans::put_leaf(draft, epic, *id);
        let event = draft.event(EventKind::NodeAdded, RULE, why.clone());
        (event.epic, event.node) = (Some(epic), Some(*id));
        note(draft, epic, reason, (*id, None, NodeStatus::Todo), &why);
    }
    for (id, status) in &changed.redefined {
        let event = draft.event(EventKind::PlanChanged, RULE, format!("redefined: {why}"));
        (event.epic, event.node) = (Some(epic), Some(*id));
        note(draft, epic, reason, (*id, Some(*status), *status), &format!("redefined: {why}"));
    }
    for id in &changed.cancelled {
        questions::withdraw_escalations(draft, epic, *id, "it was given up");
        plans::move_node(draft, epic, *id, NodeStatus::Cancelled, &why, |_| {});
    }
    for id in &changed.freed {
        free(draft, epic, *id);
    }
    for id in &changed.waiting {
        plans::move_node(draft, epic, *id, NodeStatus::Blocked, &why, |state| {
            state.blocker = Some(waits());
        });
    }
    if let Some(plan) = draft.base().plans.get(&epic)
        && plan.output != changed.output
    {
        let plan = Plan { output: changed.output, ..plan.clone() };
        draft.put(Record::Plan(Box::new(plan)));
    }
    plans::settle(draft, epic);
    done
}

fn note(
    draft: &mut Draft<'_>,
    epic: EpicId,
    reason: PlanReason,
    (node, from, to): (NodeId, Option<NodeStatus>, NodeStatus),
    why: &str,
) {
    let change = NodeChange { node, from, to, why: why.to_owned() };
    draft.touch(epic, reason).changes.push(change);
}

fn waits() -> Blocker {
    Blocker {
        kind: DEPENDS.to_owned(),
        detail: "its plan has it wait for other nodes now".to_owned(),
        needs: "what it depends on, done".to_owned(),
    }
}

/// What a node was blocked by is cured by its new definition; it waits for nothing but what it depends
/// on.
fn free(draft: &mut Draft<'_>, epic: EpicId, id: NodeId) {
    questions::withdraw_escalations(draft, epic, id, "its plan has changed");
    let Some(state) = draft.node_state(epic, id).cloned() else { return };
    let state =
        NodeState { blocker: Some(waits()), purpose: Purpose::Execute, result: None, ..state };
    draft.put(Record::NodeState(epic, Box::new(state)));
}

/// What a change does, in words.
pub(super) fn words(changed: &Changed) -> String {
    let listed = |what: &str, ids: Vec<&dyn Display>| {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        (!ids.is_empty()).then(|| format!("{what} {}", ids.join(" ")))
    };
    fn shown(ids: &[NodeId]) -> Vec<&dyn Display> {
        ids.iter().map(|id| id as &dyn Display).collect()
    }
    let redefined = changed.redefined.iter().map(|(id, _)| id as &dyn Display).collect();
    let parts = [
        listed("added", shown(&changed.added)),
        listed("redefined", redefined),
        listed("split", shown(&changed.split)),
        listed("gave up", shown(&changed.cancelled)),
        listed("put back", shown(&changed.freed)),
        listed("left blocked", shown(&changed.exhausted)),
        listed("made to wait", shown(&changed.waiting)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "another output".to_owned() } else { parts.join("; ") }
}
