//! Start of an owner: STATE, then the ledger's tail (spec 02). What was committed but perhaps
//! not made visible is given back to be published again.

use std::sync::Arc;
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{self, Revisions};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{Origin, Subject};
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::ledger::Entry;
use tetrarch_core::records::Records;
use tetrarch_core::restart::{Memory, Restart};

use crate::error::EngineError;

/// How long a server may lag behind what was acknowledged: a partitioned leader was measured to do
/// so for 8.8 s (spec 02, Client rules).
const LAGS_AT_MOST: Duration = Duration::from_secs(15);

/// Everything an owner starts with.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The records.
    pub(crate) records: Records,
    /// The last sequence of the ledger that is folded in.
    pub(crate) last: u64,
    /// Requests up to this sequence are decided.
    pub(crate) intake_seq: u64,
    /// Entries to be published again, with their sequences.
    pub(crate) unpublished: Vec<(u64, Arc<Entry>)>,
    /// The revisions of STATE.
    pub(crate) revisions: Revisions,
    /// When the server made the ledger.
    pub(crate) created: String,
}

/// The highest owner epoch that STATE, or the ledger's last entry, tells of: STATE may be behind.
pub(crate) async fn highest_epoch(bus: &Bus) -> Result<u64, EngineError> {
    let shown = state::load_meta(bus).await?.map_or(0, |meta| meta.owner_epoch);
    let last = bus.stream_last_seq(LEDGER).await?;
    let last = if last == 0 { None } else { bus.get_seq(LEDGER, last).await? };
    let last = last.and_then(|message| codec::decode_entry(&message.payload).ok());
    Ok(shown.max(last.map_or(0, |entry| entry.epoch)))
}

/// Loads STATE and folds the ledger's tail in.
///
/// # Errors
/// The ledger is shorter or younger than what was acknowledged, or another owner writes it:
/// `epoch` is the caller's, which has begun when it has sent a commit before.
pub(crate) async fn restore(
    bus: &Bus,
    epoch: u64,
    has_begun: bool,
) -> Result<Restored, EngineError> {
    let Folded { restart, unpublished, revisions, created, .. } = fold(bus).await?;
    if let Some(epoch) = restart.deposed_by(epoch, has_begun) {
        return Err(EngineError::Deposed { epoch });
    }
    let (last, intake_seq) = (restart.through, restart.intake_seq);
    Ok(Restored { records: restart.records(), last, intake_seq, unpublished, revisions, created })
}

/// All records as they are after the ledger's last entry, read beside an owner that goes on.
///
/// # Errors
/// As for [`restore`], or a record cannot be read: it must not be lost.
pub(crate) async fn base(bus: &Bus) -> Result<Base, EngineError> {
    let Folded { restart, unreadable, .. } = fold(bus).await?;
    let Restart { images, epoch, intake_seq, through } = restart;
    match unreadable {
        Some(subject) => Err(EngineError::Unreadable(subject)),
        None => {
            let records = images.into_values().collect();
            Ok(Base { through, epoch, intake_seq, records })
        }
    }
}

/// STATE with the ledger's tail.
struct Folded {
    restart: Restart,
    unpublished: Vec<(u64, Arc<Entry>)>,
    revisions: Revisions,
    created: String,
    unreadable: Option<String>,
}

async fn fold(bus: &Bus) -> Result<Folded, EngineError> {
    let loaded = state::load(bus).await?;
    let meta = loaded.meta.unwrap_or_default();
    let memory = Memory { created: meta.ledger_created, high: meta.ledger_high };
    let (created, last) = remembered(bus, &memory).await?;
    for broken in &loaded.unreadable {
        tracing::error!(subject = %broken.subject, error = %broken.error, "unreadable record");
    }
    let images = loaded.records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
    let mut restart = Restart {
        images: images.collect(),
        epoch: meta.owner_epoch,
        intake_seq: meta.intake_seq,
        through: meta.outbox_through.min(last),
    };
    let mut unpublished = Vec::new();
    for item in read_ledger(bus, meta.outbox_through + 1, last, meta.owner_epoch).await {
        match item.entry {
            Ok(entry) => {
                restart.add(item.seq, &entry);
                unpublished.push((item.seq, Arc::new(entry)));
            }
            Err(error) => {
                restart.skip(item.seq);
                set_aside(bus, item.seq, error.to_string(), item.payload).await?;
            }
        }
    }
    let unreadable = loaded.unreadable.into_iter().next().map(|broken| broken.subject);
    Ok(Folded { restart, unpublished, revisions: loaded.revisions, created, unreadable })
}

/// When the server made the ledger, and its last sequence, unless it is not the one that is
/// remembered. A shorter one is looked at for as long as a server may lag behind.
async fn remembered(bus: &Bus, memory: &Memory) -> Result<(String, u64), EngineError> {
    let mut lagging = Retry::until(LAGS_AT_MOST);
    loop {
        let created = bus.stream_created(LEDGER).await?;
        let last = bus.stream_last_seq(LEDGER).await?;
        match memory.judge(&created, last) {
            Ok(()) => return Ok((created, last)),
            Err(lost) if lost.may_be_lag() && lagging.pause().await => {
                tracing::warn!(%lost, "the ledger seems to have lost its memory; asking again");
            }
            Err(lost) => return Err(EngineError::Amnesia(lost.to_string())),
        }
    }
}

/// What is no valid commit is skipped by everyone, and kept for people with the reason (spec 02).
async fn set_aside(
    bus: &Bus,
    seq: u64,
    reason: String,
    payload: bytes::Bytes,
) -> Result<(), EngineError> {
    tracing::error!(seq, reason, "no valid commit: skipped");
    let subject = Subject::Ledger.to_string();
    let letter = DeadLetter { origin: Origin::Ledger, seq, subject, reason, payload };
    dead_letter(bus, &letter).await?;
    Ok(())
}
