//! The planner (spec 05, The planner): what a model is asked for, what of its answer counts, and what is
//! kept of both. It asks nobody itself. Templates are in `template`, the answers' schemas in `schema`,
//! reading them in `answer`, asking again in `dialogue`.

pub mod answer;
pub mod dialogue;
pub mod metering;
pub mod schema;
pub mod template;
#[cfg(test)]
pub(crate) mod tests;

use crate::budget::Spend;
use crate::converse::cost::{Price, Tokens};
use crate::goal::Goal;
use crate::id::{AssignmentId, DispatchId, EpicId, NodeId, ProjectName};
use crate::limits::{PHASES_MAX, REPAIRS_MAX, SUBTASKS_MAX, TASKS_MAX};
use crate::records::Records;
use crate::time::BusTime;
use crate::words::words;

/// What an operator allows the planner (spec 12, `[planner]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Phases of a plan, 1 to 5.
    pub phases: usize,
    /// Tasks of a phase, 1 to 7.
    pub tasks: usize,
    /// Subtasks of a task, 1 to 7.
    pub subtasks: usize,
    /// How often an answer that is not valid is sent back.
    pub repairs: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { phases: PHASES_MAX, tasks: TASKS_MAX, subtasks: SUBTASKS_MAX, repairs: REPAIRS_MAX }
    }
}

/// A planner that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planner {
    /// Its model, for people and records.
    pub model: String,
    /// What it may propose.
    pub bounds: Bounds,
    /// Tokens that it may write in one answer.
    pub output_tokens: u32,
    /// What it costs, when that is known.
    pub price: Option<Price>,
}

words! {
    /// What it is asked for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Purpose {
        /// A plan for a goal that was given without one.
        Plan = "plan",
        /// Smaller tasks in place of one that stands still, or why it does.
        Split = "split",
    }
}

words! {
    /// What became of a question to the planner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PlanningStatus {
        /// It is asked; whoever owns the ledger asks again after a death.
        Asked = "asked",
        /// Its answer was applied.
        Accepted = "accepted",
        /// It gave no valid answer, or none that helps: the deterministic way is gone.
        Refused = "refused",
        /// What it was asked about changed meanwhile.
        Dropped = "dropped",
    }
}

/// One question to the planner with its provenance (spec 05, The planner).
#[derive(Debug, Clone, PartialEq)]
pub struct Planning {
    /// Its id; that of the dispatch too, when it is a rung of the recovery ladder.
    pub id: DispatchId,
    /// When it was asked.
    pub at: BusTime,
    /// What for.
    pub purpose: Purpose,
    /// The epic.
    pub epic: EpicId,
    /// The goal that waits for its plan; none once it has one.
    pub goal: Option<Box<Goal>>,
    /// The assignment that stands still.
    pub assignment: Option<AssignmentId>,
    /// The node that is to be cut.
    pub node: Option<NodeId>,
    /// The plan's version it is made for; 0 when there is no plan yet.
    pub base_version: u32,
    /// The model.
    pub model: String,
    /// The prompt template.
    pub template: String,
    /// Lower-case hexadecimal sha256 of the template and the answer's schema.
    pub template_hash: String,
    /// What the model is told, JSON, bounded.
    pub inputs: String,
    /// Where it stands.
    pub status: PlanningStatus,
    /// Answers that may be asked for: as many as could be paid; 0 when that was not looked at.
    pub calls: u32,
    /// What is set aside for them of the project's account, while it is asked.
    pub set_aside: Spend,
    /// What it took, as far as it is known; what was set aside before an owner's death counts in full.
    pub used: Spend,
    /// Answers that were asked for.
    pub attempts: u32,
    /// The answer that was accepted, JSON; empty otherwise.
    pub answer: String,
    /// What was wrong with the answers, and with asking.
    pub problems: Vec<String>,
    /// What came of it, in words.
    pub reason: String,
    /// Since when it stands there.
    pub since: BusTime,
    /// The trace of the request that it comes from, a W3C `traceparent`.
    pub trace: Option<String>,
}

impl Planning {
    /// The project whose goal it is about, when that is known.
    #[must_use]
    pub fn project<'r>(&'r self, records: &'r Records) -> Option<&'r ProjectName> {
        match &self.goal {
            Some(goal) => Some(&goal.project),
            None => records.goals.get(&self.epic).map(|goal| &goal.project),
        }
    }
}

/// What asking came to. The owner reads the answer again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Which question it answers.
    pub id: DispatchId,
    /// An answer that was found to be valid, JSON; none when there was none.
    pub answer: Option<String>,
    /// Answers that were asked for.
    pub attempts: u32,
    /// What the model read and wrote for them.
    pub took: Tokens,
    /// What was wrong with them, and with asking; bounded.
    pub problems: Vec<String>,
}
