//! Start of an owner: STATE, then the ledger's tail (spec 02). What was committed but perhaps
//! not made visible is given back to be published again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetrarch_bus::Bus;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::state::{self, Meta, Revisions};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{Origin, Subject};
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::ledger::{Entry, RecordKey};
use tetrarch_core::records::Records;

use crate::error::EngineError;

/// Everything an owner starts with.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The records.
    pub(crate) records: Records,
    /// The ledger's last sequence.
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

/// The highest owner epoch that STATE tells of.
pub(crate) async fn highest_epoch(bus: &Bus) -> Result<u64, EngineError> {
    Ok(state::load_meta(bus).await?.map_or(0, |meta| meta.owner_epoch))
}

/// Loads STATE and folds the ledger's tail in.
///
/// # Errors
/// The ledger is shorter or younger than what was acknowledged.
pub(crate) async fn restore(bus: &Bus) -> Result<Restored, EngineError> {
    let created = bus.stream_created(LEDGER).await?;
    let last = bus.stream_last_seq(LEDGER).await?;
    let loaded = state::load(bus).await?;
    let meta = loaded.meta.unwrap_or_default();
    remember(&meta, &created, last)?;
    let mut records = Records::default();
    let mut written: BTreeMap<RecordKey, u64> = BTreeMap::new();
    for (record, seq) in loaded.records {
        written.insert(record.key(), seq);
        records.put(record);
    }
    records.epoch = meta.owner_epoch;
    records.intake_seq = meta.intake_seq;
    for broken in loaded.unreadable {
        tracing::error!(subject = %broken.subject, error = %broken.error, "unreadable record");
    }
    let from = meta.outbox_through + 1;
    let mut unpublished = Vec::new();
    for item in read_ledger(bus, from, last, meta.owner_epoch).await {
        match item.entry {
            Ok(entry) => {
                fold(&mut records, &written, item.seq, &entry);
                unpublished.push((item.seq, Arc::new(entry)));
            }
            Err(error) => set_aside(bus, item.seq, error.to_string(), item.payload).await?,
        }
    }
    let intake_seq = records.intake_seq;
    let revisions = loaded.revisions;
    Ok(Restored { records, last, intake_seq, unpublished, revisions, created })
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

/// An after-image applies only if its entry is later than the one STATE has it from.
fn fold(records: &mut Records, written: &BTreeMap<RecordKey, u64>, seq: u64, entry: &Entry) {
    let newer = |key: &RecordKey| written.get(key).is_none_or(|known| *known < seq);
    records.epoch = records.epoch.max(entry.epoch);
    records.intake_seq = records.intake_seq.max(entry.intake_seq);
    for record in &entry.records {
        if newer(&record.key()) {
            records.put(record.clone());
        }
    }
    for key in entry.dropped.iter().filter(|key| newer(key)) {
        records.remove(key);
    }
}

/// The amnesia guard (spec 02).
fn remember(meta: &Meta, created: &str, last: u64) -> Result<(), EngineError> {
    if !meta.ledger_created.is_empty() && meta.ledger_created != created {
        return Err(EngineError::Amnesia(format!(
            "it was made at {created}, the one that was written to at {}",
            meta.ledger_created
        )));
    }
    if last < meta.ledger_high {
        return Err(EngineError::Amnesia(format!(
            "its last sequence is {last}, {} was acknowledged",
            meta.ledger_high
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_is_another_or_shorter_is_a_stop() {
        let meta = Meta { ledger_created: "then".to_owned(), ledger_high: 7, ..Meta::default() };
        assert!(remember(&Meta::default(), "now", 0).is_ok(), "a new installation");
        assert!(remember(&meta, "then", 7).is_ok());
        assert!(remember(&meta, "then", 8).is_ok());
        let shorter = remember(&meta, "then", 6).unwrap_err();
        assert!(shorter.to_string().contains("7 was acknowledged"), "{shorter}");
        let another = remember(&meta, "now", 8).unwrap_err();
        assert!(another.to_string().contains("made at now"), "{another}");
    }
}
