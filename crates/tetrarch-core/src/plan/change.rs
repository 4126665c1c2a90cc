//! A change of a plan of record (spec 05, Plan events): what somebody wants, given the version of the
//! plan they saw, made into definitions for the plan as it is now, or refused with everything that
//! stands in the way. Ids are never used again: what goes away stays in the plan as cancelled. What
//! is wanted is read in `reading`, what it meets in `conflict`, what it leaves behind is looked at in
//! `validity`. Who may ask for it is the owner's.

mod conflict;
mod reading;
#[cfg(test)]
mod tests;
mod validity;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ErrorCode, Refusal};
use crate::id::NodeId;
use crate::plan::folding::{FoldedChildren, is_used};
use crate::plan::rollup::rollup;
use crate::plan::{DEPENDS, Node, NodeState, NodeStatus, graph};

pub use reading::read;

/// The plan as it is now.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// Its version.
    pub version: u32,
    /// Every definition.
    pub nodes: &'a BTreeMap<NodeId, Node>,
    /// Where the leaves stand.
    pub states: &'a BTreeMap<NodeId, NodeState>,
    /// The node whose deliverable is the plan's.
    pub output: Option<NodeId>,
    /// What left it.
    pub folded: &'a FoldedChildren,
}

/// A node that is to be added. Its definition's own id says only where it would stand.
#[derive(Debug, Clone, PartialEq)]
pub struct NewNode {
    /// Its id; none: the next one that was never used there.
    pub id: Option<NodeId>,
    /// What it is.
    pub node: Node,
}

/// What somebody wants of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The whole plan as it should be: what it has not is given up, except what is done and what came
    /// after the version that its author saw.
    Whole {
        /// Every node.
        nodes: Vec<Node>,
        /// The node whose deliverable is the plan's.
        output: Option<NodeId>,
    },
    /// One more task of a phase, or subtask of a task.
    Add {
        /// The phase or the task.
        parent: NodeId,
        /// The node.
        node: Box<NewNode>,
    },
    /// Subtasks for a task that has none.
    Split {
        /// The task.
        node: NodeId,
        /// Its subtasks.
        subtasks: Vec<NewNode>,
    },
    /// Several leaves of one parent become the first of them.
    Merge {
        /// The leaves.
        nodes: Vec<NodeId>,
        /// The name of what they become.
        name: String,
        /// Its objective; empty: theirs, one after the other.
        objective: String,
    },
}

/// What becomes of the plan's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// It stays.
    #[default]
    Kept,
    /// It is this.
    Be(Option<NodeId>),
}

/// A change in terms of the plan's nodes: what a draft keeps, since it means the same on a later
/// version of the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// Definitions that are new or different.
    pub puts: Vec<Node>,
    /// Leaves that are given up.
    pub removes: Vec<NodeId>,
    /// What becomes of the output.
    pub output: Output,
}

/// What a change comes to on the plan as it is now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changed {
    /// Every definition that is new or different, and tasks that got their first subtask.
    pub defined: Vec<Node>,
    /// Leaves that are new.
    pub added: Vec<NodeId>,
    /// Nodes that were there and are defined otherwise, with where they stand.
    pub redefined: Vec<(NodeId, NodeStatus)>,
    /// Leaves that are given up.
    pub cancelled: Vec<NodeId>,
    /// Leaves that have subtasks now.
    pub split: Vec<NodeId>,
    /// Leaves that were ready, and have to wait for something now.
    pub waiting: Vec<NodeId>,
    /// Blocked leaves that may be tried again as they are defined now.
    pub freed: Vec<NodeId>,
    /// Blocked leaves that are defined otherwise and have no attempt left: they stay blocked until somebody unblocks them.
    pub exhausted: Vec<NodeId>,
    /// The plan's output.
    pub output: Option<NodeId>,
}

impl Changed {
    /// Whether the plan stays as it is.
    #[must_use]
    pub fn is_nothing(&self, present: &Present<'_>) -> bool {
        self.defined.is_empty() && self.cancelled.is_empty() && self.output == present.output
    }
}

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// What it was made for has changed, or is being worked on.
    #[error("{}", .0.join("; "))]
    Conflict(Vec<String>),
    /// It names something that is not there.
    #[error("{0}")]
    NotFound(String),
    /// The plan that it would leave behind breaks a rule.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl ChangeError {
    /// The refusal that a requester sees; `version` is the one the plan has.
    #[must_use]
    pub fn refusal(&self, version: u32) -> Refusal {
        let (code, detail) = match self {
            Self::Conflict(_) => {
                let now = format!(
                    "{self}; the plan has version {version}; make the change for that version"
                );
                (ErrorCode::Conflict, now)
            }
            Self::NotFound(_) => (ErrorCode::NotFound, self.to_string()),
            Self::Invalid(_) => (ErrorCode::InvalidPlan, self.to_string()),
        };
        Refusal::new(code, detail).at_version(version)
    }

    fn invalid(problem: impl Into<String>) -> Self {
        Self::Invalid(vec![problem.into()])
    }
}

/// Where every node of a plan stands.
struct Standing<'a> {
    present: &'a Present<'a>,
    derived: BTreeMap<NodeId, NodeStatus>,
}

impl<'a> Standing<'a> {
    fn of(present: &'a Present<'a>) -> Self {
        let leaves = present.states.iter().map(|(id, state)| (*id, state.status)).collect();
        let ids: Vec<NodeId> = present.nodes.keys().copied().collect();
        Self { present, derived: rollup(&leaves, &ids, present.folded).statuses }
    }

    fn status(&self, id: NodeId) -> NodeStatus {
        self.derived.get(&id).copied().unwrap_or(NodeStatus::Todo)
    }

    fn state(&self, id: NodeId) -> Option<&'a NodeState> {
        self.present.states.get(&id)
    }

    fn is_leaf(&self, id: NodeId) -> bool {
        graph::is_leaf(self.present.nodes, id)
    }

    fn leaves_below(&self, id: NodeId) -> impl Iterator<Item = &'a NodeState> {
        let all = self.present.states.range(id..);
        all.map(|(_, state)| state).take_while(move |state| graph::is_within(state.id, id))
    }
}

/// A definition as it would stand in the plan: with the versions of the one that is there, and with
/// as many attempts as were made or granted already.
fn fitted(put: &Node, old: &Node, state: Option<&NodeState>) -> Node {
    let made = state.map_or(0, |state| state.attempts);
    let over = state
        .is_some_and(|state| state.status.is_settled() || state.status == NodeStatus::InProgress);
    let max_attempts = if over || put.max_attempts <= made {
        old.max_attempts.max(made)
    } else {
        put.max_attempts
    };
    Node { max_attempts, added: old.added, defined: old.defined, ..put.clone() }
}

/// Makes an edit into definitions for the plan as it is now. `base`: the version of the plan that the
/// edit was made for; what has changed since and does not touch it is kept (spec 05, `E_CONFLICT`).
///
/// # Errors
/// Everything that stands in the way, of the gravest kind only.
pub fn change(present: &Present<'_>, base: u32, edit: &Edit) -> Result<Changed, ChangeError> {
    let standing = Standing::of(present);
    let touched = touch(&standing, edit)?;
    conflict::check(&standing, base, &touched)?;
    validity::check(&standing, &touched)?;
    Ok(outcome(&standing, &touched))
}

/// What an edit touches, and the plan it would leave behind.
struct Touched {
    /// New definitions.
    added: Vec<Node>,
    /// Different ones, fitted.
    changed: Vec<Node>,
    removed: BTreeSet<NodeId>,
    /// Leaves that get subtasks.
    split: BTreeSet<NodeId>,
    /// Every definition as it would be.
    nodes: BTreeMap<NodeId, Node>,
    /// Where every node would stand, before what becomes ready is queued.
    derived: BTreeMap<NodeId, NodeStatus>,
    /// Where every leaf would stand.
    leaves: BTreeMap<NodeId, NodeStatus>,
    output: Option<NodeId>,
}

fn touch(standing: &Standing<'_>, edit: &Edit) -> Result<Touched, ChangeError> {
    let present = standing.present;
    let mut nodes = present.nodes.clone();
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for put in &edit.puts {
        if !seen.insert(put.id) {
            return Err(ChangeError::invalid(format!("duplicate id {}", put.id)));
        }
        let Some(old) = present.nodes.get(&put.id) else {
            if is_used(present.folded, put.id) {
                let used = format!(
                    "{} may have been used; ids are never used again, take another",
                    put.id
                );
                return Err(ChangeError::invalid(used));
            }
            added.push(put.clone());
            nodes.insert(put.id, put.clone());
            continue;
        };
        let put = fitted(put, old, standing.state(put.id));
        if put != *old {
            nodes.insert(put.id, put.clone());
            changed.push(put);
        }
    }
    let mut removed = BTreeSet::new();
    for id in &edit.removes {
        if !present.nodes.contains_key(id) {
            return Err(ChangeError::NotFound(format!("the plan has no node {id}")));
        }
        let wanted = |leaf: &NodeId| leaf == id || standing.status(*leaf) != NodeStatus::Cancelled;
        removed.extend(standing.leaves_below(*id).map(|state| state.id).filter(wanted));
    }
    let parents = added.iter().filter_map(|node| node.id.parent());
    let split: BTreeSet<NodeId> = parents.filter(|parent| standing.is_leaf(*parent)).collect();
    let mut leaves: BTreeMap<NodeId, NodeStatus> = graph::leaves(&nodes)
        .into_iter()
        .map(|id| (id, standing.state(id).map_or(NodeStatus::Todo, |state| state.status)))
        .collect();
    for id in &removed {
        if let Some(status) = leaves.get_mut(id) {
            *status = NodeStatus::Cancelled;
        }
    }
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let derived = rollup(&leaves, &ids, present.folded).statuses;
    let output = match edit.output {
        Output::Kept => present.output,
        Output::Be(output) => output,
    };
    Ok(Touched { added, changed, removed, split, nodes, derived, leaves, output })
}

/// Leaves that would be ready, were all of them waiting.
fn ready(
    nodes: &BTreeMap<NodeId, Node>,
    leaves: &BTreeMap<NodeId, NodeStatus>,
    folded: &FoldedChildren,
) -> BTreeSet<NodeId> {
    let waiting = |status: &NodeStatus| match status {
        NodeStatus::Queued | NodeStatus::Blocked => NodeStatus::Todo,
        NodeStatus::Todo | NodeStatus::InProgress | NodeStatus::Done | NodeStatus::Cancelled => {
            *status
        }
    };
    let all = leaves.iter().map(|(id, status)| (*id, waiting(status))).collect();
    graph::newly_ready(nodes, &all, folded).into_iter().collect()
}

fn outcome(standing: &Standing<'_>, touched: &Touched) -> Changed {
    let present = standing.present;
    let version = present.version + 1;
    let before = present.states.iter().map(|(id, state)| (*id, state.status)).collect();
    let was = ready(present.nodes, &before, present.folded);
    let is = ready(&touched.nodes, &touched.leaves, present.folded);
    let queued = |id: &&NodeId| touched.leaves.get(id) == Some(&NodeStatus::Queued);
    let waiting = was.difference(&is).filter(queued).copied().collect();
    let is_leaf = |id: &NodeId| touched.leaves.contains_key(id);
    let failed = |node: &&Node| {
        let state = standing.state(node.id).filter(|state| state.status == NodeStatus::Blocked);
        state.is_some_and(|state| {
            let waits = state.blocker.as_ref().is_some_and(|blocker| blocker.kind == DEPENDS);
            is_leaf(&node.id) && !touched.removed.contains(&node.id) && !waits
        })
    };
    let has_attempt = |node: &&Node| {
        standing.state(node.id).is_some_and(|state| state.attempts < node.max_attempts)
    };
    let (freed, exhausted): (Vec<&Node>, Vec<&Node>) =
        touched.changed.iter().filter(failed).partition(has_attempt);
    let ids = |nodes: Vec<&Node>| nodes.into_iter().map(|node| node.id).collect();
    let changed = touched.changed.iter();
    let redefined = changed.map(|node| (node.id, standing.status(node.id))).collect();
    let stamp = |node: &Node| Node { defined: version, ..node.clone() };
    let new = touched.added.iter().map(|node| Node { added: version, ..stamp(node) });
    let mut defined: Vec<Node> = new.chain(touched.changed.iter().map(stamp)).collect();
    let known: BTreeSet<NodeId> = defined.iter().map(|node| node.id).collect();
    let parents = touched.split.iter().filter(|id| !known.contains(id));
    defined.extend(parents.filter_map(|id| present.nodes.get(id)).map(stamp));
    defined.sort_by_key(|node| node.id);
    let added = touched.added.iter().map(|node| node.id).filter(is_leaf).collect();
    Changed {
        defined,
        added,
        redefined,
        cancelled: touched.removed.iter().copied().collect(),
        split: touched.split.iter().copied().collect(),
        waiting,
        freed: ids(freed),
        exhausted: ids(exhausted),
        output: touched.output,
    }
}
