//! Crystallizations: what whoever goes on from a place needs to know (spec 05,
//! Records). A subtask, a task, a phase and a goal have one each, the latest; what it was before stands
//! in the ledger.

use crate::brief::Evidence;
use crate::id::{AgentId, CrystallizationId, EpicId, NodeId, RunId, SessionId};
use crate::time::BusTime;
use crate::words::words;

words! {
    /// What made it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Source {
        /// A run ended, or a goal's orchestrator put its result together.
        Result = "result",
        /// Who works on it said how it stands.
        Update = "update",
        /// Somebody else called it done.
        Completion = "completion",
        /// It is settled, and this is what those below it left.
        RollUp = "roll_up",
    }
}

/// Where else it can be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// Proposed changes of code.
    pub prs: Vec<String>,
    /// Issues.
    pub issues: Vec<String>,
    /// URLs, or identifiers of something outside.
    pub external: Vec<String>,
}

impl References {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prs.is_empty() && self.issues.is_empty() && self.external.is_empty()
    }
}

/// What was said of the work, in the fields of a handoff (spec 05, Records).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handoff {
    /// What happened.
    pub summary: String,
    /// What exists now.
    pub current_state: String,
    /// What was decided, with why.
    pub decisions: Vec<String>,
    /// What is next, in this order.
    pub next_actions: Vec<String>,
    /// What nobody has answered.
    pub open_questions: Vec<String>,
    /// What stands in the way.
    pub known_blockers: Vec<String>,
    /// What shows it.
    pub evidence: Evidence,
    /// Where else to look.
    pub references: References,
}

/// The latest handoff of one place of an epic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crystallization {
    /// Its id; a later one of the same place has another.
    pub id: CrystallizationId,
    /// The epic.
    pub epic: EpicId,
    /// The node; none for the goal itself.
    pub node: Option<NodeId>,
    /// What made it.
    pub source: Source,
    /// When.
    pub at: BusTime,
    /// What it says.
    pub handoff: Handoff,
    /// Who said it; none of a roll-up.
    pub agent: Option<AgentId>,
    /// In which session.
    pub session: Option<SessionId>,
    /// In which run, whose journal tells more.
    pub run: Option<RunId>,
}
