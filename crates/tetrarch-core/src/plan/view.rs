//! Every node of a plan as its event shows it (spec 05, Plan events). It is made from the records, so that
//! the ledger does not repeat a whole plan at each change of one node (spec 02, Bounds).

use std::collections::BTreeMap;

use crate::assignment::Purpose;
use crate::id::NodeId;

use super::rollup::rollup;
use super::{Node, NodeState, NodeView};

/// The nodes of one epic, in the plan's order, each with its status, derived where it is not given.
#[must_use]
pub fn views(
    nodes: &BTreeMap<NodeId, Node>,
    states: &BTreeMap<NodeId, NodeState>,
) -> Vec<NodeView> {
    let leaves = states.iter().map(|(id, state)| (*id, state.status)).collect();
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let rollup = rollup(&leaves, &ids);
    let views = nodes.values().filter_map(|node| {
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
