//! What a session's shell is told to do. It decides nothing and does nothing.

use crate::id::RequestId;
use crate::journal::JournalEvent;
use crate::mail::Mail;
use crate::order::{LocalFile, Order};
use crate::request::{Report, SpawnRequest};

/// What is done for a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEffect {
    /// Claim the cursor for this life of the host.
    Claim,
    /// Append to the run's journal, in one entry with what was noted for it.
    Journal(JournalEvent),
    /// Append to the run's journal with what is appended next.
    Note(JournalEvent),
    /// Tell the runner.
    Order(Box<Order>),
    /// Report to the owner, under this id so that a repeat is known.
    Report(Box<Report>),
    /// Read a program's spawn request: give back [`super::SessionInput::SpawnRead`].
    ReadSpawn {
        /// Its JSON text.
        json: String,
    },
    /// Ask the governor directly.
    Request(RequestId, Box<SpawnRequest>),
    /// Ask the owner for something else: the operation's name, and its body as JSON text with its id.
    Operate {
        /// The id.
        id: RequestId,
        /// The name.
        op: String,
        /// The body.
        body: String,
    },
    /// More of the inbox is consumed: up to [`super::HostedSession::first_in_hand`].
    Consumed,
    /// Write to somebody under the agent's name.
    Mail(Box<Mail>),
    /// Store files and texts: give back [`super::SessionInput::Stored`], in this order.
    Store(Vec<Keep>),
    /// Read an artifact: give back [`super::SessionInput::Fetched`].
    Fetch {
        /// Whose call it is.
        id: RequestId,
        /// Its name.
        sha256: String,
        /// The first byte that is wanted.
        offset: u64,
    },
    /// Publish text to whoever is looking.
    Stream(String),
    /// The session is over; nothing follows.
    End,
}

impl SessionEffect {
    /// Whether somebody is asked for something, and answers by a message.
    #[must_use]
    pub fn has_an_answer(&self) -> bool {
        match self {
            Self::Request(..) | Self::Operate { .. } | Self::Mail(_) => true,
            Self::Report(report) => matches!(**report, Report::Ask { .. }),
            Self::Claim
            | Self::Journal(_)
            | Self::Note(_)
            | Self::Order(_)
            | Self::ReadSpawn { .. }
            | Self::Consumed
            | Self::Store(_)
            | Self::Fetch { .. }
            | Self::Stream(_)
            | Self::End => false,
        }
    }
}

/// Something to be stored as an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// A file of the program's.
    File(LocalFile),
    /// A text that is too large for a record.
    Text {
        /// What it is called.
        name: String,
        /// The text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, Ulid};

    #[test]
    fn questions_and_operations_have_an_answer_and_reports_have_none() {
        let ask = Report::Ask {
            run: RunId(Ulid(1)),
            id: None,
            question: "which?".to_owned(),
            options: Vec::new(),
        };
        let operate = SessionEffect::Operate {
            id: RequestId(Ulid(1)),
            op: "todo.list".to_owned(),
            body: "{}".to_owned(),
        };
        for (effect, answered) in [
            (SessionEffect::Report(Box::new(ask)), true),
            (operate, true),
            (SessionEffect::Report(Box::new(Report::Ready)), false),
            (SessionEffect::Claim, false),
            (SessionEffect::Store(Vec::new()), false),
            (SessionEffect::Stream("words".to_owned()), false),
            (SessionEffect::End, false),
        ] {
            assert_eq!(effect.has_an_answer(), answered, "{effect:?}");
        }
    }
}
