//! What leaves a plan (spec 05, Nothing grows with history): the nodes of children that were asked for without
//! one, some time after those ended. The latest of them stay; of the others their plan keeps how many there
//! were and how they ended, and the ledger all else. Ids are never used again: a plan keeps the highest that left it.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{NodeId, Tier};
use crate::limits::ENDED_CHILDREN_KEPT;

use super::{ATTEMPTS_EXHAUSTED, Node, NodeState, NodeStatus, STOPPED};

/// What left a plan, by phase.
pub type FoldedChildren = BTreeMap<NodeId, EndedChildren>;

/// Children that are no nodes of their plan any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndedChildren {
    /// How many were done.
    pub done: u32,
    /// How many failed, or were stopped, and were given up.
    pub failed: u32,
    /// How many were cancelled without that.
    pub cancelled: u32,
    /// The highest number that one of them had below its phase.
    pub highest: u32,
}

impl EndedChildren {
    /// Counts one more, where it is settled.
    pub fn add(&mut self, state: &NodeState) {
        let count = match (state.status, &state.blocker) {
            (NodeStatus::Done, _) => &mut self.done,
            (NodeStatus::Cancelled, Some(_)) => &mut self.failed,
            (NodeStatus::Cancelled, None) => &mut self.cancelled,
            (
                NodeStatus::Todo
                | NodeStatus::Queued
                | NodeStatus::InProgress
                | NodeStatus::Blocked,
                _,
            ) => return,
        };
        *count += 1;
        self.highest = self.highest.max(state.id.ordinal());
    }
}

/// Whether an id may be that of a node that left the plan; it is not used again.
#[must_use]
pub fn is_used(folded: &FoldedChildren, id: NodeId) -> bool {
    let phase = NodeId::phase(id.phase_number());
    let task = match id.tier() {
        Tier::Phase => return false,
        Tier::Task => id,
        Tier::Subtask => id.parent().unwrap_or(id),
    };
    folded.get(&phase).is_some_and(|ended| task.ordinal() <= ended.highest)
}

/// Whether nothing more comes of a child's node by itself: it is settled, or its one attempt failed or was
/// stopped.
#[must_use]
pub fn has_ended(state: &NodeState) -> bool {
    let failed = |kind: &str| kind == ATTEMPTS_EXHAUSTED || kind == STOPPED;
    let given_up = state.blocker.as_ref().is_some_and(|blocker| failed(&blocker.kind));
    state.status.is_settled()
        || state.status == NodeStatus::Blocked && given_up && state.assignment.is_none()
}

/// The nodes of ended children beyond those that stay, the earliest end first. What others depend on stays.
pub fn beyond<'a>(
    nodes: &BTreeMap<NodeId, Node>,
    state: impl Fn(NodeId) -> Option<&'a NodeState>,
) -> Vec<NodeId> {
    let spawned = nodes.values().filter(|node| node.spawned);
    if spawned.clone().nth(ENDED_CHILDREN_KEPT).is_none() {
        return Vec::new();
    }
    let needed: BTreeSet<NodeId> =
        nodes.values().flat_map(|node| &node.depends_on).copied().collect();
    let of_child = |node: &Node| state(node.id).filter(|it| has_ended(it));
    let free = spawned.filter(|node| !needed.contains(&node.id));
    let mut ended: Vec<_> = free.filter_map(of_child).map(|it| (it.since, it.id)).collect();
    ended.sort_unstable();
    ended.truncate(ended.len().saturating_sub(ENDED_CHILDREN_KEPT));
    ended.into_iter().map(|(_, id)| id).collect()
}
