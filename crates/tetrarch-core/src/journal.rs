//! A run's own append-only log, `run.<run>` (spec 06, Journal): what an entry says.
//! Entries are written with expected sequence, so a zombie's are refused.

use crate::brief::{RunResult, Usage};
use crate::converse::Recorded;
use crate::cursor::Positions;
use crate::id::{AgentId, RequestId, RunId, SessionId};

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The run.
    pub run: RunId,
    /// Who makes it.
    pub agent: AgentId,
    /// The incarnation.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// Its place in the journal, from 1.
    pub index: u64,
    /// Inbox positions that are handled with it.
    pub positions: Positions,
    /// What happened.
    pub event: JournalEvent,
}

/// What an entry tells.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalEvent {
    /// Written before the process is started.
    Starting {
        /// The host, for people.
        host: String,
    },
    /// The process is up.
    Started {
        /// Its process id.
        pid: Option<u32>,
        /// How it is contained.
        isolation: String,
    },
    /// Progress in words.
    Progress {
        /// In words.
        text: String,
        /// Steps done.
        done: Option<u64>,
        /// Steps in all.
        total: Option<u64>,
    },
    /// Lines of output that are no events.
    Log {
        /// The lines.
        text: String,
    },
    /// Counters.
    Usage(Usage),
    /// A state from which a successor can go on, as JSON text.
    Checkpoint {
        /// The state.
        state: String,
    },
    /// A question.
    Ask {
        /// In words.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// Agents of its own were asked for.
    Spawn {
        /// The request's id.
        request: RequestId,
    },
    /// A message was handed to the program.
    Mail {
        /// Its topic.
        topic: String,
        /// Who wrote it.
        from: String,
    },
    /// A status update, as JSON text.
    Update {
        /// The object.
        update: String,
    },
    /// It waits.
    Blocked {
        /// For what.
        reason: String,
    },
    /// It goes on.
    Unblocked,
    /// A conversation with a model changed.
    Conversed(Box<Recorded>),
    /// A stop was asked for.
    Stopping {
        /// Why.
        reason: String,
    },
    /// What it came to.
    Result(Box<RunResult>),
    /// Every process of it is gone.
    Ended {
        /// How.
        cause: String,
    },
}

impl JournalEvent {
    /// What it says of a conversation with a model, if it does.
    #[must_use]
    pub fn into_recorded(self) -> Option<Recorded> {
        match self {
            Self::Conversed(recorded) => Some(*recorded),
            Self::Starting { .. }
            | Self::Started { .. }
            | Self::Progress { .. }
            | Self::Log { .. }
            | Self::Usage(_)
            | Self::Checkpoint { .. }
            | Self::Ask { .. }
            | Self::Spawn { .. }
            | Self::Mail { .. }
            | Self::Update { .. }
            | Self::Blocked { .. }
            | Self::Unblocked
            | Self::Stopping { .. }
            | Self::Result(_)
            | Self::Ended { .. } => None,
        }
    }
}
