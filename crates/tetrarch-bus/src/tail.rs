//! Reading the ledger: a stretch of it at start, and its tail from then on (spec 02). Says of
//! every entry whether it is a valid commit; what to do about one that is not is up to the reader.

use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::follow::{FollowStep, StreamFollower};
use crate::stamp;
use crate::subject::pattern::{EVERY_PLAN_EVENT, LEDGER, MAIL, OWNERS_CONTROL, PLANS};
use crate::surely;
use tetrarch_core::id::CommitId;
use tetrarch_core::ledger::Entry;
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::time::BusTime;
use tetrarch_core::trouble::NoCommit;

/// One message of the ledger.
#[derive(Debug)]
pub struct LedgerItem {
    /// Its sequence.
    pub seq: u64,
    /// When the server stored it.
    pub at: BusTime,
    /// The entry, when it is valid; everyone skips one that is not.
    pub entry: Result<Entry, InvalidEntry>,
    /// The message's bytes as they came, for the dead-letter of an invalid one.
    pub payload: bytes::Bytes,
}

/// Why a message of the ledger is no valid commit.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEntry {
    /// It cannot be read.
    #[error("cannot decode the commit: {0}")]
    Undecodable(#[from] CodecError),
    /// Its epoch is higher than any lease's.
    #[error("epoch {epoch} exceeds the maximum")]
    Impossible {
        /// Which commit it is.
        commit: CommitId,
        /// The entry's epoch.
        epoch: u64,
    },
    /// Its owner was deposed before it wrote it.
    #[error("epoch {epoch} is lower than the current epoch {highest}")]
    Deposed {
        /// Which commit it is.
        commit: CommitId,
        /// The entry's epoch.
        epoch: u64,
        /// The highest epoch before it.
        highest: u64,
    },
}

impl InvalidEntry {
    /// What is wrong with it, of what people are told once each.
    #[must_use]
    pub fn cause(&self) -> NoCommit {
        match self {
            Self::Undecodable(_) => NoCommit::Undecodable,
            Self::Impossible { .. } => NoCommit::Impossible,
            Self::Deposed { .. } => NoCommit::Deposed,
        }
    }
}

/// How long a replica may lag behind the ledger's known end.
const LAGS_AT_MOST: Duration = Duration::from_secs(10);
/// Messages at the ledger's end that are passed over in search of a commit.
const PASSED_OVER: usize = 256;

/// Reads the entries of sequences `from` to `through`, both included, and stops early when the
/// ledger does not reach that far. `highest_epoch` is the highest epoch before them, 0 when
/// unknown. Waits while the bus is away.
pub async fn read_ledger(
    bus: &Bus,
    from: u64,
    through: u64,
    highest_epoch: u64,
) -> Vec<LedgerItem> {
    let mut items = Vec::new();
    let mut highest = highest_epoch;
    let mut next = from.max(1);
    if next > through {
        return items;
    }
    let end = surely::stream_last_seq(bus, LEDGER).await.unwrap_or(through).min(through);
    let mut follower = StreamFollower::new(bus.clone(), LEDGER, Vec::new(), from);
    let mut more = true;
    while next <= end {
        let patience = if more { Duration::MAX } else { LAGS_AT_MOST };
        match tokio::time::timeout(patience, follower.step()).await {
            Err(_) => break,
            Ok(FollowStep::Nothing) => more = false,
            Ok(FollowStep::Message { message, pending }) => {
                more = pending > 0;
                next = message.seq + 1;
                if message.seq <= end {
                    items.push(judge(message, &mut highest));
                    // A long ledger takes longer than a lease: whoever renews it has its turn.
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    items
}

/// The epoch of the last commit, given the highest one known from elsewhere. What was written after
/// a commit by somebody else, or by an owner that was deposed, is passed over.
///
/// # Errors
/// See [`ReadError`].
pub async fn last_epoch(bus: &Bus, known: u64) -> Result<u64, ReadError> {
    let mut seq = surely::stream_last_seq(bus, LEDGER).await?;
    for _ in 0..PASSED_OVER {
        if seq == 0 {
            break;
        }
        let found = bus.get_seq(LEDGER, seq).await?;
        let entry = found.and_then(|message| codec::decode_entry(&message.payload).ok());
        if let Some(entry) = entry
            && (known..=LEASE_EPOCH_MAX).contains(&entry.epoch)
        {
            return Ok(entry.epoch);
        }
        seq -= 1;
    }
    Ok(known)
}

/// What comes from the ledger and is kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// A plan event.
    PlanEvent,
    /// The owner's order to an agent.
    Order,
}

/// The ledger's sequence that the latest of them comes from, 0 when there is none.
///
/// # Errors
/// See [`ReadError`].
pub async fn last_told(bus: &Bus, witness: Witness) -> Result<u64, ReadError> {
    let found = match witness {
        Witness::PlanEvent => bus.last_by_pattern(PLANS, EVERY_PLAN_EVENT).await?,
        Witness::Order => bus.last_by_pattern(MAIL, OWNERS_CONTROL).await?,
    };
    Ok(found.as_ref().map_or(0, stamp::ledger_seq))
}

/// The first sequence that was stored at a time or after it, by halving: the ledger's times only
/// grow. `first` and `last` are those of the ledger; what is no longer kept counts as older.
///
/// # Errors
/// See [`ReadError`].
pub async fn first_since(
    bus: &Bus,
    time: BusTime,
    first: u64,
    last: u64,
) -> Result<u64, ReadError> {
    let (mut low, mut high) = (first, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = bus.get_seq(LEDGER, middle).await?;
        if found.is_some_and(|message| message.time_unix_ms >= time.0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Everything that a stream holds now, as bytes: for who looks for words in it.
#[derive(Debug)]
pub struct StreamBytes {
    follower: StreamFollower,
    ended: bool,
}

impl StreamBytes {
    /// Begins with the stream's first message.
    #[must_use]
    pub fn of(bus: &Bus, stream: &'static str) -> Self {
        Self { follower: StreamFollower::new(bus.clone(), stream, Vec::new(), 1), ended: false }
    }

    /// The next message's body; none after the last one. Waits while the bus is away.
    pub async fn next(&mut self) -> Option<bytes::Bytes> {
        if self.ended {
            return None;
        }
        match self.follower.step().await {
            FollowStep::Message { message, pending } => {
                self.ended = pending == 0;
                Some(message.payload)
            }
            FollowStep::Nothing => None,
        }
    }
}

/// Every entry from sequence `from` on, as they come, for ever.
/// `highest_epoch` is the highest epoch before them, 0 when unknown.
pub fn follow_ledger(
    bus: &Bus,
    from: u64,
    highest_epoch: u64,
) -> impl Stream<Item = LedgerItem> + Send + use<> {
    let follower = StreamFollower::new(bus.clone(), LEDGER, Vec::new(), from);
    unfold((follower, highest_epoch), |(mut follower, mut highest)| async move {
        let message = follower.next().await;
        let item = judge(message, &mut highest);
        Some((item, (follower, highest)))
    })
}

fn judge(message: RawMessage, highest: &mut u64) -> LedgerItem {
    let entry = match codec::decode_entry(&message.payload) {
        Err(error) => Err(InvalidEntry::Undecodable(error)),
        Ok(Entry { commit, epoch, .. }) if epoch > LEASE_EPOCH_MAX => {
            Err(InvalidEntry::Impossible { commit, epoch })
        }
        Ok(entry) if entry.epoch < *highest => {
            let Entry { commit, epoch, .. } = entry;
            Err(InvalidEntry::Deposed { commit, epoch, highest: *highest })
        }
        Ok(entry) => {
            *highest = entry.epoch;
            Ok(entry)
        }
    };
    LedgerItem {
        seq: message.seq,
        at: BusTime(message.time_unix_ms),
        entry,
        payload: message.payload,
    }
}
