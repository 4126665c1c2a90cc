//! Moves journals that an earlier version kept under `run.<run>` to where the agent is part of the name. It
//! runs once, before an owner of the ledger begins; doing it again, or after it was cut off, changes nothing more.

use async_nats::HeaderMap;

use super::{BATCH, JournalError, JournalName};
use crate::client::Bus;
use crate::codec;
use crate::subject::pattern::{OLD_JOURNALS, RUNS};
use crate::surely;

/// Moves every journal of the earlier layout; gives how many. What is no journal is left out and goes.
///
/// # Errors
/// The server refuses to give, take or remove messages, for good.
pub async fn move_old(bus: &Bus) -> Result<usize, JournalError> {
    let old = surely::stream_subjects(bus, RUNS, OLD_JOURNALS).await?;
    for subject in &old {
        move_one(bus, subject).await?;
        surely::purge_subject(bus, RUNS, subject).await?;
    }
    Ok(old.len())
}

async fn move_one(bus: &Bus, old: &str) -> Result<(), JournalError> {
    let mut next = 1;
    loop {
        let batch = bus.next_by_subject_batch(RUNS, old, next, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(()) };
        next = last.seq + 1;
        for message in batch {
            let Ok(entry) = codec::decode_journal(&message.payload) else { continue };
            let subject = JournalName { agent: entry.agent.clone(), run: entry.run }.subject();
            let subject = subject.to_string();
            // What was moved before this was cut off has its place there.
            let moved = surely::last_by_subject(bus, RUNS, &subject).await?;
            let moved = moved.and_then(|moved| codec::decode_journal(&moved.payload).ok());
            if moved.is_some_and(|moved| moved.index >= entry.index) {
                continue;
            }
            surely::publish(bus, &subject, &own(&message.headers), &message.payload, None).await?;
        }
    }
}

/// The headers that its writer gave it; the others are the server's.
fn own(headers: &HeaderMap) -> HeaderMap {
    let all = headers.iter().filter(|(name, _)| !name.to_string().starts_with("Nats-"));
    all.flat_map(|(name, values)| values.iter().map(move |value| (name.clone(), value.clone())))
        .collect()
}
