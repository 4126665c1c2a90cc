//! The two halves of the owner's outbox, each a task of its own: what is committed is announced, then
//! recorded (docs/decisions/0008). Neither decides anything.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tetrarch_bus::outbox::{Announcer, Recorder};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, Record};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::TermEnd;
use super::keeping::OutboxProgress;
use super::memory::StoredMemory;
use crate::error::EngineError;
use crate::pump::Pump;

/// Committed entries that wait for a half of the outbox; what comes before it waits when they are
/// as many.
pub(super) const ENTRIES_FOR_OUTBOX: usize = 256;

/// The least time between two rounds of images: what changes several times in it is one message (spec 02,
/// Few messages).
const RECORD_EVERY: Duration = Duration::from_millis(20);
/// The same for each agent that changed in the last round: the more lives go on at once, the more of each is
/// one image.
const RECORD_EVERY_FOR_AGENT: Duration = Duration::from_millis(25);
/// The most time between two rounds of images: STATE is no older, except where the bus is slow.
const RECORD_EVERY_MOST: Duration = Duration::from_secs(1);
/// Entries with which a round begins before its time: as many as leave room for those after them.
const ENTRIES_FOR_ROUND: usize = ENTRIES_FOR_OUTBOX * 3 / 4;

/// A committed entry with its sequence in the ledger.
pub(super) type Committed = (u64, Arc<Entry>);

/// Announces committed entries, in the ledger's order; what waits is announced together.
pub(super) fn announce(
    mut announcer: Announcer,
    unpublished: Vec<Committed>,
    mut entries: mpsc::Receiver<Committed>,
    announced: mpsc::Sender<Committed>,
    ending: mpsc::Sender<Result<TermEnd, EngineError>>,
) -> Pump {
    Pump::run(async move {
        let mut batch = unpublished;
        loop {
            if let Err(error) = announcer.announce(&batch).await {
                // The term may have ended for another reason already.
                let _ended = ending.send(Err(error.into())).await;
                return;
            }
            for entry in batch.drain(..) {
                if announced.send(entry).await.is_err() {
                    return;
                }
            }
            if entries.recv_many(&mut batch, ENTRIES_FOR_OUTBOX).await == 0 {
                return;
            }
        }
    })
}

/// Records announced entries, in the ledger's order: the first at once, what comes until
/// [`next_round`] after it together.
pub(super) fn record(
    mut recorder: Recorder,
    mut announced: mpsc::Receiver<Committed>,
    (recorded, memory): (watch::Sender<OutboxProgress>, watch::Sender<StoredMemory>),
    ending: mpsc::Sender<Result<TermEnd, EngineError>>,
) -> Pump {
    Pump::run(async move {
        let mut batch = Vec::new();
        while !batch.is_empty() || announced.recv_many(&mut batch, ENTRIES_FOR_OUTBOX).await > 0 {
            let next = Instant::now() + next_round(&batch);
            if let Err(error) = recorder.record(&batch).await {
                // The term may have ended for another reason already.
                let _ended = ending.send(Err(error.into())).await;
                return;
            }
            recorded.send_modify(|recorded| recorded.add(&batch));
            let through = batch.last().map_or(0, |(seq, _)| *seq);
            memory.send_modify(|kept| kept.outbox_through = kept.outbox_through.max(through));
            batch.clear();
            gather(&mut announced, &mut batch, next).await;
        }
    })
}

/// Takes what comes until a moment, or until it is enough for a round.
async fn gather(
    announced: &mut mpsc::Receiver<Committed>,
    batch: &mut Vec<Committed>,
    until: Instant,
) {
    while batch.len() < ENTRIES_FOR_ROUND {
        let room = ENTRIES_FOR_OUTBOX - batch.len();
        match timeout_at(until, announced.recv_many(batch, room)).await {
            Ok(1..) => {}
            // Nothing more comes; what has is written.
            Ok(0) | Err(_) => return,
        }
    }
}

/// How long after the beginning of a round of images the next one begins, by how many agents this one
/// tells of: few while little goes on, so that whoever looks sees it soon.
fn next_round(entries: &[Committed]) -> Duration {
    let records = entries.iter().flat_map(|(_, entry)| &entry.records);
    let agents: HashSet<&AgentId> = records
        .filter_map(|record| if let Record::Agent(agent) = record { Some(&agent.id) } else { None })
        .collect();
    let agents = u32::try_from(agents.len()).unwrap_or(u32::MAX);
    RECORD_EVERY_FOR_AGENT.saturating_mul(agents).clamp(RECORD_EVERY, RECORD_EVERY_MOST)
}
