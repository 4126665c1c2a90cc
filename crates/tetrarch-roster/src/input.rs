//! What comes in and what is to be done: the words in which the roster and its shell meet.

use crossterm::event::{KeyEvent, MouseEvent};
use tetrarch_core::id::{AgentId, ChangeId, RequestId, RunId};
use tetrarch_core::request::Op;
use tetrarch_core::time::BusTime;
use tetrarch_view::event::EventRow;
use tetrarch_view::news::{FleetNews, RunNews};

use crate::past::FleetMoment;

/// Whose journal is read along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedRun {
    /// Who makes the run.
    pub agent: AgentId,
    /// The run.
    pub run: RunId,
}

/// Which events are read along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWish {
    /// Whose; none for all.
    pub agent: Option<AgentId>,
    /// The last entry that they may be of; none for those that come, too.
    pub through: Option<u64>,
}

/// Something that happened.
#[derive(Debug)]
pub enum RosterInput {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text that was pasted.
    Paste(String),
    /// The terminal has this many columns and lines.
    Resized(u16, u16),
    /// It is this late: what was heard since the last time becomes what is shown.
    Tick(BusTime),
    /// Something was heard of the fleet.
    Fleet(FleetNews),
    /// Something was heard of the run that is read along with.
    Run(RunNews),
    /// Events of those that are read along, the newest last.
    Events(Vec<EventRow>),
    /// The fleet of a moment, or why it cannot be read.
    Past {
        /// The ticket of [`RosterEffect::ReadPast`].
        ticket: u64,
        /// The fleet.
        read: Result<Box<FleetMoment>, String>,
    },
    /// What a command line printed, or what it said when it failed.
    Printed {
        /// The ticket of [`RosterEffect::Run`].
        ticket: u64,
        /// What came out.
        outcome: Result<String, String>,
    },
    /// The diff of a change, or why it cannot be read.
    Diff {
        /// The change.
        change: ChangeId,
        /// The digest of the action that the diff belongs to.
        digest: String,
        /// The diff.
        diff: Result<String, String>,
    },
    /// What was asked for was given this id.
    Sent {
        /// The ticket of [`RosterEffect::Operate`].
        ticket: u64,
        /// The request.
        id: RequestId,
    },
    /// What was asked for was answered, or was not.
    Answered {
        /// The ticket of [`RosterEffect::Operate`].
        ticket: u64,
        /// What the owner says.
        outcome: Result<String, String>,
    },
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum RosterEffect {
    /// Ask the owner.
    Operate {
        /// By which it is answered.
        ticket: u64,
        /// What for.
        op: Box<Op>,
    },
    /// Read along with this run from now on, and no other.
    Watch(Option<WatchedRun>),
    /// Read along with these events from now on, and no others.
    Follow(Option<EventWish>),
    /// Read the fleet as it was.
    ReadPast {
        /// By which it is answered.
        ticket: u64,
        /// When, as it was typed.
        to: String,
    },
    /// Run this command line, by whose ticket it is answered, and end the one before.
    Run(Option<(u64, String)>),
    /// Read the diff of a change.
    ReadDiff {
        /// The change.
        change: ChangeId,
        /// The digest of its action as it is known.
        digest: String,
        /// The artifact with the diff, by its sha256.
        sha256: String,
    },
}
