//! A plan as its events show it (spec 05, Plan events). The nodes are made from the records, so that the
//! ledger does not repeat them (spec 02, Bounds).

use std::collections::{BTreeMap, BTreeSet};

use crate::assignment::Purpose;
use crate::goal::GoalStatus;
use crate::id::{EpicId, NodeId};
use crate::ledger::RecordKey;
use crate::limits::FULL_EVENT_NODES_MAX;
use crate::records::Records;

use super::folding::FoldedChildren;
use super::rollup::{Rollup, rollup};
use super::{Node, NodeState, NodeView, PlanEvent};

/// An epic's plan as it is now, in an event that tells nothing of what changed; none when it has none.
#[must_use]
pub fn whole(records: &Records, epic: EpicId) -> Option<PlanEvent> {
    let mut event = without_nodes(records, epic)?;
    let (nodes, states) = (records.nodes.get(&epic)?, records.node_states.get(&epic)?);
    let rollup = roll_up(nodes, states, &records.plans.get(&epic)?.folded);
    event.full = true;
    event.counts = rollup.counts;
    event.nodes = views(nodes, states, &rollup, |_| true);
    Some(event)
}

/// The same for whoever follows it: the nodes that `changed`, or all of a small plan.
pub(crate) fn told(
    records: &Records,
    epic: EpicId,
    changed: &BTreeSet<NodeId>,
) -> Option<PlanEvent> {
    let mut event = without_nodes(records, epic)?;
    let (nodes, states) = (records.nodes.get(&epic)?, records.node_states.get(&epic)?);
    let rollup = roll_up(nodes, states, &records.plans.get(&epic)?.folded);
    event.full = event.version == 1 || nodes.len() <= FULL_EVENT_NODES_MAX;
    event.counts = rollup.counts;
    event.nodes = views(nodes, states, &rollup, |id| event.full || changed.contains(&id));
    Some(event)
}

/// The nodes of a plan that an event tells which the ledger kept without them.
pub(crate) fn nodes_of(
    event: &PlanEvent,
    changed: &BTreeSet<NodeId>,
    nodes: &BTreeMap<NodeId, Node>,
    states: &BTreeMap<NodeId, NodeState>,
    folded: &FoldedChildren,
) -> Vec<NodeView> {
    let rollup = roll_up(nodes, states, folded);
    views(nodes, states, &rollup, |id| event.full || changed.contains(&id))
}

/// The nodes of an epic that are shown otherwise when these of its records have changed: their own, and those
/// above them.
#[must_use]
pub fn changed<'a>(
    epic: EpicId,
    keys: impl IntoIterator<Item = &'a RecordKey>,
) -> BTreeSet<NodeId> {
    let own = keys.into_iter().filter_map(RecordKey::node);
    let own = own.filter_map(|(of, id)| (of == epic).then_some(id));
    own.flat_map(|id| std::iter::successors(Some(id), |id| id.parent())).collect()
}

fn roll_up(
    nodes: &BTreeMap<NodeId, Node>,
    states: &BTreeMap<NodeId, NodeState>,
    folded: &FoldedChildren,
) -> Rollup {
    let leaves = states.iter().map(|(id, state)| (*id, state.status)).collect();
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    rollup(&leaves, &ids, folded)
}

fn without_nodes(records: &Records, epic: EpicId) -> Option<PlanEvent> {
    let plan = records.plans.get(&epic)?;
    let goal = records.goal_states.get(&epic)?;
    Some(PlanEvent {
        epic,
        plan: plan.id,
        project: plan.project.clone(),
        version: plan.version,
        source: plan.source,
        reason: plan.reason,
        changes: Vec::new(),
        full: false,
        nodes: Vec::new(),
        folded: Vec::new(),
        counts: Default::default(),
        definitions: Vec::new(),
        title: String::new(),
        output: plan.output,
        goal: goal.status,
        percent: goal.percent,
        result: match goal.status {
            GoalStatus::Completed => goal.result.clone(),
            GoalStatus::Active
            | GoalStatus::Paused
            | GoalStatus::Cancelled
            | GoalStatus::Archived => None,
        },
        priorities: goal.priorities,
        trace: plan.trace.clone(),
        at: plan.updated,
    })
}

/// The nodes that are wanted, in the plan's order, each with its status, derived where it is not given.
fn views(
    nodes: &BTreeMap<NodeId, Node>,
    states: &BTreeMap<NodeId, NodeState>,
    rollup: &Rollup,
    wanted: impl Fn(NodeId) -> bool,
) -> Vec<NodeView> {
    let views = nodes.values().filter(|node| wanted(node.id)).filter_map(|node| {
        let state = states.get(&node.id);
        Some(NodeView {
            id: node.id,
            title: node.name.clone(),
            status: *rollup.statuses.get(&node.id)?,
            assignee: state.and_then(|state| state.assignee.clone()),
            purpose: state.map_or(Purpose::Execute, |state| state.purpose),
            attempts: state.map_or(0, |state| state.attempts),
            findings: state.map(|state| state.findings.clone()).unwrap_or_default(),
            priorities: state.map(|state| state.priorities).unwrap_or_default(),
            created: state.map(|state| state.created).unwrap_or_default(),
        })
    });
    views.collect()
}
