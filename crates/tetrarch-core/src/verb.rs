//! What may be asked of a run besides to end (spec 06, The three verbs), and how far it has come:
//! the words that owner, host and runner share. Who may ask is `owner::verbs`'.

use crate::id::{Principal, RequestId};

/// The verbs that leave a run alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// A text before its next step.
    Steer,
    /// Its turn is aborted; it waits for input.
    Interrupt,
    /// It stands still.
    Pause,
    /// It goes on.
    Resume,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 4] = [Self::Steer, Self::Interrupt, Self::Pause, Self::Resume];

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Interrupt => "interrupt",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text)
    }
}

/// A verb with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Put this before the next step.
    Steer {
        /// The text.
        text: String,
    },
    /// Abort the turn; session, context and finished tool calls stay.
    Interrupt {
        /// Why.
        reason: String,
    },
    /// Stand still.
    Pause,
    /// Go on.
    Resume,
}

impl Wanted {
    /// Which verb it is.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self {
            Self::Steer { .. } => Verb::Steer,
            Self::Interrupt { .. } => Verb::Interrupt,
            Self::Pause => Verb::Pause,
            Self::Resume => Verb::Resume,
        }
    }

    /// Its words; empty for those without.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Steer { text } | Self::Interrupt { reason: text } => text,
            Self::Pause | Self::Resume => "",
        }
    }
}

/// A verb on its way to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The request that asked for it: receipts name it.
    pub id: RequestId,
    /// Who asked.
    pub by: Principal,
    /// What for.
    pub wanted: Wanted,
}

/// How far a verb has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The owner committed it.
    Queued,
    /// The session's host gave it to the program.
    Delivered,
    /// The program took it at a boundary, or its processes stand still or run again.
    Effective,
    /// It comes to nothing; the receipt says why.
    Refused,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Delivered, Self::Effective, Self::Refused];

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Effective => "effective",
            Self::Refused => "refused",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}
