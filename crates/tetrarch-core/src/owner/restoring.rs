//! What a ledger that lost its end is given back once a human accepted it (spec 02, Amnesia guard):
//! STATE still has the images that the lost entries wrote, and they are written again, so that
//! no epoch, slot or decision that anybody acts on goes back. And the snapshot that a later owner starts from.

use std::collections::BTreeMap;

use crate::id::CommitId;
use crate::ledger::{Entry, Event, EventKind, Record, RecordKey};
use crate::limits::STEP_BYTES_MAX;
use crate::records::Records;
use crate::snapshot::{Due, Snapshot};
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::weight;

/// The rule on them.
pub(super) const SNAPSHOTS: &str = "02 Snapshots";

/// Notes the latest snapshot. An older one, which another owner may have finished later, changes
/// nothing.
pub(super) fn snapshot(records: &Records, now: BusTime, taken: &Snapshot, due: Due) -> Step {
    let mut draft = Draft::new(records, now, super::go());
    let known = records.snapshot.as_ref();
    if known.is_some_and(|known| known.through >= taken.through) {
        return draft.finish();
    }
    let before = known.map(|known| known.parts.clone()).unwrap_or_default();
    let Snapshot { through, records: count, bytes, .. } = taken;
    let reason = format!("{count} records in {bytes} bytes, up to entry {through}: {due}");
    draft.event(EventKind::LedgerSnapshot, SNAPSHOTS, reason);
    draft.put(Record::Snapshot(Box::new(Snapshot { before, ..taken.clone() })));
    draft.finish()
}

/// Entries that make what the ledger says equal to what STATE has, at least one, each with the
/// event that says so. `commit` gives each its id by its place.
#[must_use]
pub fn restoring(
    ledger: &BTreeMap<RecordKey, Record>,
    state: &BTreeMap<RecordKey, Record>,
    frame: &Frame,
    commit: impl Fn(usize) -> CommitId,
) -> Vec<Entry> {
    let dropped = ledger.keys().filter(|key| !state.contains_key(key)).cloned();
    let lost = state.iter().filter(|(key, record)| ledger.get(key) != Some(record));
    let mut entries = vec![frame.entry(commit(0), dropped.collect())];
    let mut filled = 0;
    for (_, record) in lost {
        let size = weight::record(record);
        if filled + size > STEP_BYTES_MAX {
            filled = 0;
            entries.push(frame.entry(commit(entries.len()), Vec::new()));
        }
        filled += size;
        if let Some(entry) = entries.last_mut() {
            entry.records.push(record.clone());
        }
    }
    entries
}

/// What these entries have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The epoch of the last owner.
    pub epoch: u64,
    /// When it is done.
    pub at: BusTime,
    /// Every request up to this sequence of `REQUESTS` is decided.
    pub intake_seq: u64,
    /// Who accepted what.
    pub event: Event,
}

impl Frame {
    /// An entry that says who accepted what, and forgets these records.
    fn entry(&self, commit: CommitId, dropped: Vec<RecordKey>) -> Entry {
        Entry {
            events: vec![self.event.clone()],
            dropped,
            ..Entry::empty(commit, self.epoch, self.at, self.intake_seq)
        }
    }
}
