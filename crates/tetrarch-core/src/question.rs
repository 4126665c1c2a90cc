//! Questions to people (spec 05, 08): each is a record that stays open until it is answered, or
//! until nobody waits for the answer any more. Asking and answering is the owner's.

use crate::id::{AgentId, AssignmentId, EpicId, NodeId, Principal, QuestionId, RunId};
use crate::time::BusTime;
use crate::words::words;

words! {
    /// Where a question stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum QuestionStatus {
        /// Nobody has answered.
        Open = "open",
        /// Somebody has.
        Answered = "answered",
        /// Nobody waits for the answer any more.
        Withdrawn = "withdrawn",
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
