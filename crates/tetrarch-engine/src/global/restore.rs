//! Start of an owner: STATE, then the ledger's tail (spec 02). What was committed but perhaps
//! not made visible is given back to be published again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetrarch_bus::Bus;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{self, Meta, Revisions};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{Origin, Subject};
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::ledger::{Entry, Record, RecordKey};
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
    let Folded { images, unpublished, revisions, created, epoch, intake_seq, last, .. } =
        fold(bus).await?;
    let mut records = Records::default();
    records.epoch = epoch;
    records.intake_seq = intake_seq;
    images.into_values().for_each(|(record, _)| records.put(record));
    Ok(Restored { records, last, intake_seq, unpublished, revisions, created })
}

/// All records as they are after the ledger's last entry, read beside an owner that goes on.
///
/// # Errors
/// As for [`restore`], or a record cannot be read: it must not be lost.
pub(crate) async fn base(bus: &Bus) -> Result<Base, EngineError> {
    let Folded { images, epoch, intake_seq, last, unreadable, .. } = fold(bus).await?;
    match unreadable {
        Some(subject) => Err(EngineError::Unreadable(subject)),
        None => {
            let records = images.into_values().collect();
            Ok(Base { through: last, epoch, intake_seq, records })
        }
    }
}

/// Records with the sequences of the entries that wrote them.
type Images = BTreeMap<RecordKey, (Record, u64)>;

/// STATE with the ledger's tail.
struct Folded {
    images: Images,
    epoch: u64,
    intake_seq: u64,
    last: u64,
    unpublished: Vec<(u64, Arc<Entry>)>,
    revisions: Revisions,
    created: String,
    unreadable: Option<String>,
}

async fn fold(bus: &Bus) -> Result<Folded, EngineError> {
    let created = bus.stream_created(LEDGER).await?;
    let loaded = state::load(bus).await?;
    // Nothing of STATE can come from an entry after this one.
    let last = bus.stream_last_seq(LEDGER).await?;
    let meta = loaded.meta.unwrap_or_default();
    remember(&meta, &created, last)?;
    for broken in &loaded.unreadable {
        tracing::error!(subject = %broken.subject, error = %broken.error, "unreadable record");
    }
    let images = loaded.records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
    let mut folded = Folded {
        images: images.collect(),
        epoch: meta.owner_epoch,
        intake_seq: meta.intake_seq,
        last,
        unpublished: Vec::new(),
        revisions: loaded.revisions,
        created,
        unreadable: loaded.unreadable.into_iter().next().map(|broken| broken.subject),
    };
    for item in read_ledger(bus, meta.outbox_through + 1, last, meta.owner_epoch).await {
        match item.entry {
            Ok(entry) => {
                folded.add(item.seq, &entry);
                folded.unpublished.push((item.seq, Arc::new(entry)));
            }
            Err(error) => set_aside(bus, item.seq, error.to_string(), item.payload).await?,
        }
    }
    Ok(folded)
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

impl Folded {
    /// An after-image applies only if its entry is later than the one STATE has it from.
    fn add(&mut self, seq: u64, entry: &Entry) {
        let newer = |images: &Images, key: &RecordKey| {
            images.get(key).is_none_or(|(_, known)| *known < seq)
        };
        self.epoch = self.epoch.max(entry.epoch);
        self.intake_seq = self.intake_seq.max(entry.intake_seq);
        for record in &entry.records {
            let key = record.key();
            if newer(&self.images, &key) {
                self.images.insert(key, (record.clone(), seq));
            }
        }
        for key in &entry.dropped {
            if newer(&self.images, key) {
                self.images.remove(key);
            }
        }
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
