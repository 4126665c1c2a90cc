//! Operations that change plans (spec 05, Plan events): `todo.plan`, `todo.add`, `todo.split`,
//! `todo.merge`, and `todo.draft`, which decides on what was proposed. Nothing here decides.

use crate::id::{DraftId, EpicId, NodeId};
use crate::plan::change::NewNode;
use crate::plan::proposal::DraftVerdict;
use crate::plan::schema::PlanFile;
use crate::words::words;

words! {
    /// What is to be done with a change.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum PlanMode {
        /// Make it.
        #[default]
        Apply = "apply",
        /// Keep it until somebody who may make it decides.
        Draft = "draft",
    }
}

/// A change that is asked for, whatever it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted<C> {
    /// The epic.
    pub epic: EpicId,
    /// Whether it is to be made or kept.
    pub mode: PlanMode,
    /// The version of the plan that it was made for; none: whatever it is now.
    pub base_version: Option<u32>,
    /// Why.
    pub reason: String,
    /// The open draft whose place it takes, for one that is kept.
    pub replaces: Option<DraftId>,
    /// What is wanted, or everything that is wrong with it.
    pub what: Result<C, String>,
}

/// One node that is wanted besides.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    /// The phase or task below which it is to stand.
    pub parent: NodeId,
    /// The node.
    pub node: NewNode,
}

/// A task that is too much for one.
#[derive(Debug, Clone, PartialEq)]
pub struct Splitting {
    /// The task.
    pub node: NodeId,
    /// What it is to consist of.
    pub subtasks: Vec<NewNode>,
}

/// Leaves that are too small to be apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merging {
    /// The leaves; the first keeps its id.
    pub nodes: Vec<NodeId>,
    /// What they are called together; empty: as the first.
    pub name: String,
    /// What they are to reach together; empty: what each was to.
    pub objective: String,
}

/// An operation that changes plans.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanOp {
    /// `todo.plan`: the whole plan as it should be. Of the file only its phases and its output count; its
    /// profiles are those that the project has.
    Plan(Wanted<Box<PlanFile>>),
    /// `todo.add`: one more node.
    Add(Wanted<Box<Addition>>),
    /// `todo.split`: subtasks for a task.
    Split(Wanted<Splitting>),
    /// `todo.merge`: several leaves become one.
    Merge(Wanted<Merging>),
    /// `todo.draft`: somebody decides on what was proposed.
    Decide {
        /// The epic.
        epic: EpicId,
        /// The draft.
        draft: DraftId,
        /// What becomes of it.
        verdict: DraftVerdict,
        /// Why.
        reason: String,
    },
}

impl PlanOp {
    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plan(_) => "todo.plan",
            Self::Add(_) => "todo.add",
            Self::Split(_) => "todo.split",
            Self::Merge(_) => "todo.merge",
            Self::Decide { .. } => "todo.draft",
        }
    }
}
