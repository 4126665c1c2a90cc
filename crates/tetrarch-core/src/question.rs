//! Questions to people (spec 05, 08): each is a record that stays open until it is answered, or
//! until nobody waits for the answer any more. Asking and answering is the owner's.

use std::fmt;

use crate::id::{AgentId, AssignmentId, EpicId, NodeId, Principal, QuestionId, RunId};
use crate::time::BusTime;

/// Where a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuestionStatus {
    /// Nobody has answered.
    Open,
    /// Somebody has.
    Answered,
    /// Nobody waits for the answer any more.
    Withdrawn,
}

impl QuestionStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Open, Self::Answered, Self::Withdrawn];

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for QuestionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its id.
    pub id: QuestionId,
    /// Who asks.
    pub agent: AgentId,
    /// Its run.
    pub run: RunId,
    /// The epic it is about.
    pub epic: EpicId,
    /// The node it is about.
    pub node: NodeId,
    /// The assignment that was escalated with it; none when the agent itself asks and waits.
    pub escalates: Option<AssignmentId>,
    /// Who is to answer: the goal's owner.
    pub to: Principal,
    /// In words.
    pub text: String,
    /// Answers to choose from; another is taken too.
    pub options: Vec<String>,
    /// Where it stands.
    pub status: QuestionStatus,
    /// The answer, or why it was withdrawn.
    pub answer: String,
    /// Who answered.
    pub answered_by: Option<Principal>,
    /// When it was asked.
    pub asked: BusTime,
    /// Since when it stands there.
    pub since: BusTime,
}
