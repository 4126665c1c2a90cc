//! Operations that only read, and the pages of what they tell (spec 02, Reads decide nothing).

use super::schedules::ScheduleOp;
use super::work::WorkVerb;
use super::{FileOp, NoteOp, Op};

/// A part of a list that is told (spec 02, Reads decide nothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<K> {
    /// Items at most; none: as many as an answer has room for.
    pub limit: Option<usize>,
    /// Only what comes after it.
    pub after: Option<K>,
}

impl<K> Default for Page<K> {
    fn default() -> Self {
        Self { limit: None, after: None }
    }
}

impl Op {
    /// Whether it only reads: it is answered from the records, and leaves nothing on the ledger
    /// (spec 02, Reads decide nothing).
    #[must_use]
    pub fn is_read(&self) -> bool {
        match self {
            Self::AgentStatus { .. } => true,
            Self::Work(op) => match op.verb {
                WorkVerb::List { .. } | WorkVerb::Insights { .. } | WorkVerb::Recommend { .. } => {
                    true
                }
                WorkVerb::Complete(_)
                | WorkVerb::Reprioritise { .. }
                | WorkVerb::Unblock { .. } => false,
            },
            Self::Schedule(op) => match op {
                ScheduleOp::List { .. } => true,
                ScheduleOp::Create { .. } | ScheduleOp::Delete { .. } => false,
            },
            Self::File(op) => match op {
                FileOp::List { .. } => true,
                FileOp::Reserve { .. } | FileOp::Release { .. } => false,
            },
            Self::Note(op) => match op {
                NoteOp::Search { .. } => true,
                NoteOp::Put { .. } | NoteOp::Delete { .. } => false,
            },
            Self::HostJoin(_)
            | Self::HumanJoin { .. }
            | Self::ProjectCreate(_)
            | Self::ProjectMode { .. }
            | Self::ProjectRetire { .. }
            | Self::ProfileApply { .. }
            | Self::AgentRegister
            | Self::AgentRetire { .. }
            | Self::AgentReplace { .. }
            | Self::AgentRotate { .. }
            | Self::HostDrain(_)
            | Self::CircuitClose { .. }
            | Self::Verb(_)
            | Self::GoalCreate { .. }
            | Self::Plan(_)
            | Self::QuestionAnswer { .. }
            | Self::OverseerTick(_)
            | Self::Goal(_)
            | Self::GoalUpdate(_)
            | Self::Conversation(_)
            | Self::Gate(_)
            | Self::Budget(_)
            | Self::WorkBlock { .. } => false,
        }
    }
}
