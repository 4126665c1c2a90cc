//! Why an engine process ends: data for whoever started it.

use std::path::PathBuf;

use tetrarch_bus::cursor::CursorError;
use tetrarch_bus::error::{PublishError, ReadError};
use tetrarch_bus::inbox::InboxError;
use tetrarch_bus::intake::DeadLetter;
use tetrarch_bus::journal::JournalError;
use tetrarch_bus::lease::{AcquireError, LeaseValue, RenewError};
use tetrarch_bus::outbox::OutboxError;
use tetrarch_bus::send::SendError;
use tetrarch_bus::snapshot::SnapshotError;
use tetrarch_bus::state::{MetaError, UnreadableMeta};
use tetrarch_bus::topology::TopologyError;
use tetrarch_core::error::Refusal;
use tetrarch_core::held::Held;
use tetrarch_core::restart::Amnesia;
use tetrarch_core::sweep::WindowError;

use crate::global::{BadPlanner, MemorySource};

/// What a part of the engine comes to.
pub(crate) type EngineResult<T = ()> = Result<T, EngineError>;

/// Why an engine process ended.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The lease is held by another process.
    #[error(
        "{what} is held by {} at {} since {} ms (epoch {}); stop that process, or wait until its lease expires",
        holder.instance, holder.address, holder.since_unix_ms, holder.epoch
    )]
    Held {
        /// What is held.
        what: String,
        /// By whom.
        holder: LeaseValue,
    },
    /// There can be no planner.
    #[error(transparent)]
    Planner(#[from] BadPlanner),
    /// Another owner took over.
    #[error(
        "deposed: an owner with the higher epoch {epoch} writes the ledger; this process stands by"
    )]
    Deposed {
        /// The other's epoch.
        epoch: u64,
    },
    /// The lease was lost while it was held.
    #[error("lost the lease: {0}")]
    LeaseLost(String),
    /// The ledger is shorter or younger than what was acknowledged (spec 02, Amnesia guard).
    #[error(
        "the ledger is not the one that was written to: {lost} (remembered by {keeper}); restore the stream LEDGER from a backup, or accept it with `tetrarch doctor --accept-ledger <sequence>`, its last one"
    )]
    Amnesia {
        /// Who remembers it otherwise.
        keeper: MemorySource,
        /// How.
        lost: Amnesia,
    },
    /// What the data directory remembers of the ledger cannot be read or written.
    #[error(
        "cannot check the ledger: {} cannot be used: {reason}; restore it, or check the ledger and accept it with `tetrarch doctor --accept-ledger <sequence>`, its last one",
        path.display()
    )]
    Memory {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A human accepted another ledger than the one that is there.
    #[error(
        "cannot accept the ledger through {accepted}: its last sequence is {last}; check it again"
    )]
    NotThat {
        /// Its last sequence.
        last: u64,
        /// The one that was named.
        accepted: u64,
    },
    /// A snapshot could not be kept.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// There is a record that this version cannot write again.
    #[error("cannot read a record: {0}; use the version of tetrarch that wrote it")]
    Unread(Held),
    /// A join was refused.
    #[error("operation {op} was refused: {refusal}")]
    Refused {
        /// Which operation.
        op: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// Nobody answered a join.
    #[error(
        "operation {0} was not answered within {1} s; check that the owner runs (`tetrarch status`), or start one with `tetrarch serve --global`"
    )]
    Unanswered(&'static str, u64),
    /// An actor could not be started.
    #[error("cannot start actor {0}: {1}")]
    Actor(&'static str, String),
    /// An actor died.
    #[error("actor {0} failed: {1}")]
    ActorDied(String, String),
    /// The lease could not be acquired.
    #[error(transparent)]
    Lease(#[from] AcquireError),
    /// The lease could not be renewed.
    #[error(transparent)]
    Renew(#[from] RenewError),
    /// The liveness window is out of bounds.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// STATE's own record is unreadable.
    #[error(transparent)]
    Meta(#[from] UnreadableMeta),
    /// STATE's own record cannot be had.
    #[error(transparent)]
    NoMeta(#[from] MetaError),
    /// The streams cannot be set up.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something could not be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Something could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// An inbox could not be read.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// A cursor could not be written.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// A journal could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What was decided could not be made visible.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// A text broke a bound on its way out.
    #[error(transparent)]
    Encoding(#[from] tetrarch_bus::codec::CodecError),
}

impl EngineError {
    /// Whether the same may succeed when it is simply done again: the bus was away, or between two
    /// leaders.
    pub(crate) fn is_passing(&self) -> bool {
        if let Self::Read(error)
        | Self::Lease(AcquireError::Read(error))
        | Self::NoMeta(MetaError::Read(error)) = self
        {
            return error.is_passing();
        }
        if let Self::Publish(error) | Self::Lease(AcquireError::Publish(error)) = self {
            return error.is_passing();
        }
        // A cluster refuses to make a stream until it knows all its servers.
        matches!(self, Self::Topology(TopologyError::Refused { .. }))
    }
}

/// Says what became of a message nobody could handle.
pub(crate) fn note_dead(letter: &DeadLetter) {
    tracing::warn!(
        origin = letter.origin.as_str(),
        seq = letter.seq,
        subject = ?letter.subject,
        reason = ?letter.reason,
        "dead letter"
    );
}
