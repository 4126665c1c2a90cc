//! What comes in and what is to be done: the words in which the roster and its shell meet.

use crossterm::event::{KeyEvent, MouseEvent};
use tetrarch_core::id::{AgentId, ChangeId, RequestId, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::Entry;
use tetrarch_core::obstacle::Telemetry;
use tetrarch_core::request::Op;
use tetrarch_core::time::BusTime;
use tetrarch_core::vitals::Vitals;
use tetrarch_view::fold::RecordFold;

/// How what is shown stands to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// Nothing was read yet.
    Opening,
    /// It is shown as it changes.
    Live,
    /// The bus is away since then: it is shown as it was.
    Stale(BusTime),
}

/// Whose journal is read along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedRun {
    /// Who makes the run.
    pub agent: AgentId,
    /// The run.
    pub run: RunId,
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
    /// All records, in place of what was known.
    Loaded(Box<RecordFold>),
    /// Entries of the ledger, with their sequences.
    Entries(Vec<(u64, Entry)>),
    /// What a host says of its sessions.
    Reported(Vec<Vitals>),
    /// What the records do not say.
    Told(Telemetry),
    /// The bus came or went.
    Linked(LinkState),
    /// Entries of a run's journal, with when they were stored.
    Journal {
        /// The run.
        run: RunId,
        /// The entries, oldest first.
        entries: Vec<(BusTime, JournalEvent)>,
    },
    /// Words of a run as they come.
    Text {
        /// The run.
        run: RunId,
        /// The words.
        text: String,
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
