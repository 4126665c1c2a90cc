//! The three parts of the owner's outbox, each a task of its own: what is committed is announced, its plan events are
//! published, then it is recorded (docs/decisions/0008). None decides anything.

use std::sync::Arc;
use std::time::Duration;

use tetrarch_bus::outbox::{Announcer, OutboxError, PlanPublisher, Recorder};
use tetrarch_core::ledger::Entry;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::TermEnd;
use super::keeping::OutboxProgress;
use super::memory::StoredMemory;
use crate::error::EngineResult;
use crate::pump::Pump;

/// Committed entries that wait to be announced; no more is committed while they are as many, so that what is decided
/// last does not wait for the mail of many.
pub(super) const ENTRIES_TO_ANNOUNCE: usize = 2;
/// Announced entries whose plan events wait to be published; nothing is announced while they are as many.
pub(super) const ENTRIES_TO_PUBLISH: usize = 32;
/// Entries that wait to be recorded; no plan events are published while they are as many.
pub(super) const ENTRIES_TO_RECORD: usize = 256;

/// The least time between two rounds of images: what changes several times in it is one message (spec 02,
/// Few messages).
const RECORD_EVERY: Duration = Duration::from_millis(20);

/// A committed entry with its sequence in the ledger.
pub(super) type Committed = (u64, Arc<Entry>);

/// A part of the outbox that has another behind it.
pub(super) enum OutboxPart {
    /// Seals, orders and mail.
    Announce(Announcer),
    /// Plan events.
    Publish(PlanPublisher),
}

impl OutboxPart {
    /// How many entries it takes at once, at most.
    fn at_once(&self) -> usize {
        match self {
            Self::Announce(_) => ENTRIES_TO_ANNOUNCE,
            Self::Publish(_) => ENTRIES_TO_PUBLISH,
        }
    }

    async fn take(&mut self, batch: &[Committed]) -> Result<(), OutboxError> {
        match self {
            Self::Announce(announcer) => announcer.announce(batch).await,
            Self::Publish(publisher) => publisher.publish(batch).await,
        }
    }
}

/// Has a part of the outbox take committed entries, in the ledger's order, what waits together, and passes them on to
/// the next part. `unpublished`: what an earlier owner left, which is taken first.
pub(super) fn publish(
    mut part: OutboxPart,
    unpublished: Vec<Committed>,
    mut entries: mpsc::Receiver<Committed>,
    taken: mpsc::Sender<Committed>,
    ending: mpsc::Sender<EngineResult<TermEnd>>,
) -> Pump {
    Pump::run(async move {
        let mut batch = unpublished;
        loop {
            if let Err(error) = part.take(&batch).await {
                // The term may have ended for another reason already.
                let _ended = ending.send(Err(error.into())).await;
                return;
            }
            for entry in batch.drain(..) {
                if taken.send(entry).await.is_err() {
                    return;
                }
            }
            if entries.recv_many(&mut batch, part.at_once()).await == 0 {
                return;
            }
        }
    })
}

/// Records entries that are out, in the ledger's order: the first at once, what comes within
/// [`RECORD_EVERY`] of it together.
pub(super) fn record(
    mut recorder: Recorder,
    mut announced: mpsc::Receiver<Committed>,
    (recorded, memory): (watch::Sender<OutboxProgress>, watch::Sender<StoredMemory>),
    ending: mpsc::Sender<EngineResult<TermEnd>>,
) -> Pump {
    Pump::run(async move {
        let mut batch = Vec::new();
        while comes(&mut announced, &mut batch, recorder.next_due()).await {
            let now = Instant::now();
            let through = match recorder.record(&batch, now).await {
                Ok(through) => through,
                Err(error) => {
                    // The term may have ended for another reason already.
                    let _ended = ending.send(Err(error.into())).await;
                    return;
                }
            };
            recorded.send_modify(|recorded| recorded.add(&batch, through));
            if let Some(through) = through {
                memory.send_modify(|kept| kept.outbox_through = kept.outbox_through.max(through));
            }
            batch.clear();
            sleep_until(now + RECORD_EVERY).await;
        }
    })
}

/// Waits for entries, until a moment if there is one; says whether there is anything to do.
async fn comes(
    announced: &mut mpsc::Receiver<Committed>,
    batch: &mut Vec<Committed>,
    until: Option<Instant>,
) -> bool {
    let coming = announced.recv_many(batch, ENTRIES_TO_RECORD);
    match until {
        // Nothing came in time: what waits is due.
        Some(until) => !timeout_at(until, coming).await.is_ok_and(|count| count == 0),
        None => coming.await > 0,
    }
}
