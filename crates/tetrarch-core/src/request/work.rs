//! Operations on the work of a goal (spec 05, Plan events): `todo.complete`, `todo.list`,
//! `todo.reprioritise`, `todo.graph_insights`, `todo.recommend`, `work.unblock`.

use crate::brief::Evidence;
use crate::id::{EpicId, NodeId};
use crate::plan::NodeStatus;
use crate::priority::Priority;

use super::Page;

/// An operation on the work of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOp {
    /// The goal.
    pub epic: EpicId,
    /// What is asked.
    pub verb: WorkVerb,
}

/// What is asked about work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkVerb {
    /// A leaf is done.
    Complete(Box<Completion>),
    /// Its nodes are told, in the plan's order.
    List {
        /// Only those that stand there.
        status: Option<NodeStatus>,
        /// Which of them.
        page: Page<NodeId>,
    },
    /// Nodes are this urgent, as the asker sees it.
    Reprioritise {
        /// For each node: how urgent; none takes back what was said. A node with others below it
        /// stands for all of these.
        priorities: Vec<(NodeId, Option<Priority>)>,
        /// Why, in words; may be empty.
        reason: String,
    },
    /// What the shape of its plan says.
    Insights {
        /// Of which nodes it tells each.
        page: Page<NodeId>,
    },
    /// Which of its nodes to take first.
    Recommend {
        /// How many at most; 0 is as many as usual.
        limit: u32,
    },
    /// A blocked leaf is tried again.
    Unblock {
        /// The leaf.
        node: NodeId,
        /// What whoever works on it next is told.
        note: String,
    },
}

/// That a leaf is done, with what shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The leaf.
    pub node: NodeId,
    /// Summary for whoever goes on from here.
    pub crystallization: String,
    /// What shows it.
    pub evidence: Evidence,
    /// Why somebody other than who works on it says so.
    pub reason: String,
}

impl WorkOp {
    /// The names in subjects.
    pub const NAMES: [&str; 6] = [
        "todo.complete",
        "todo.list",
        "todo.reprioritise",
        "todo.graph_insights",
        "todo.recommend",
        "work.unblock",
    ];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.verb {
            WorkVerb::Complete(_) => "todo.complete",
            WorkVerb::List { .. } => "todo.list",
            WorkVerb::Reprioritise { .. } => "todo.reprioritise",
            WorkVerb::Insights { .. } => "todo.graph_insights",
            WorkVerb::Recommend { .. } => "todo.recommend",
            WorkVerb::Unblock { .. } => "work.unblock",
        }
    }
}
