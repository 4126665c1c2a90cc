//! Operations on conversations and on the state graphs that route them (spec 07): `conversation.say`,
//! `conversation.cancel`, `conversation.move`, `graph.apply`.

use crate::agent::Mode;
use crate::conversation::TurnMove;
use crate::conversation::lane::TurnLane;
use crate::id::{ChannelName, ConversationName, GraphName, ProjectName};

/// `conversation.say`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSay {
    /// In which conversation; one that there is not begins.
    pub conversation: ConversationName,
    /// What is said.
    pub text: String,
    /// Where the turn waits.
    pub lane: TurnLane,
    /// Whose agents work for it; none means as before in this conversation.
    pub project: Option<ProjectName>,
    /// The graph that routes it; none means as before, or the default.
    pub graph: Option<GraphName>,
    /// The channel that is told of the answer and of what its work asks, and no other; none means whoever follows it.
    pub channel: Option<ChannelName>,
    /// What agents that work for it may delegate, at most as the project's mode says; none means as before.
    pub mode: Option<Mode>,
    /// Whether the mode is kept for the turns after it.
    pub keeps_mode: bool,
}

/// `graph.apply`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphApply {
    /// The project.
    pub project: ProjectName,
    /// The graph file as JSON text.
    pub graph: String,
}

/// An operation on conversations or graphs.
#[derive(Debug, Clone, PartialEq)]
pub enum ConversationOp {
    /// A person says something.
    Say(TurnSay),
    /// A person takes back a turn that waits.
    Cancel {
        /// In which conversation.
        conversation: ConversationName,
        /// Its number there.
        number: u64,
    },
    /// An interaction orchestrator moves a turn.
    Move(Box<TurnMove>),
    /// A graph gets its next version.
    Graph(GraphApply),
}

impl ConversationOp {
    /// The names in subjects.
    pub const NAMES: [&str; 4] =
        ["conversation.cancel", "conversation.say", "conversation.move", "graph.apply"];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Say(_) => "conversation.say",
            Self::Cancel { .. } => "conversation.cancel",
            Self::Move(_) => "conversation.move",
            Self::Graph(_) => "graph.apply",
        }
    }
}
