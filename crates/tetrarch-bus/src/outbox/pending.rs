//! Images of STATE that are to be written: of each key the last one. While much goes on, one whose next is
//! near waits for it, so that a short life is one image a record (spec 02, Few messages). What is not
//! written is not out either.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tokio::time::Instant;

/// Agents whose images wait from which on much goes on.
const MANY_AGENTS: usize = 16;
/// The longest that an image waits.
const WAIT_MOST: Duration = Duration::from_secs(1);
/// Entries whose images wait at most; when they are as many all are written.
const ENTRIES_MAX: usize = 512;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    keys: BTreeMap<RecordKey, PendingImage>,
    /// Entries that are not out, in the ledger's order.
    entries: VecDeque<OutboxEntry>,
}

/// The last image of a key.
#[derive(Debug)]
pub(super) struct PendingImage {
    /// The entry of the first one that is not written.
    first: u64,
    /// When that came.
    since: Instant,
    /// The entry that it is from.
    pub(super) ledger: u64,
    entry: Arc<Entry>,
    /// Its place among the entry's records; none when the key is dropped.
    place: Option<usize>,
}

/// An entry on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxEntry {
    /// Its sequence in the ledger.
    pub(super) seq: u64,
    /// Every request up to this sequence is decided.
    pub(super) intake_seq: u64,
    /// The epoch of its owner.
    pub(super) epoch: u64,
}

impl PendingImage {
    /// The record; none when the key is dropped.
    pub(super) fn record(&self) -> Option<&Record> {
        self.place.and_then(|place| self.entry.records.get(place))
    }
}

impl PendingImages {
    /// Adds entries that are announced.
    pub(super) fn add(&mut self, entries: &[(u64, Arc<Entry>)], now: Instant) {
        for (seq, entry) in entries {
            let (intake_seq, epoch) = (entry.intake_seq, entry.epoch);
            self.entries.push_back(OutboxEntry { seq: *seq, intake_seq, epoch });
            for (place, record) in entry.records.iter().enumerate() {
                self.put(record.key(), (*seq, entry), Some(place), now);
            }
            for key in &entry.dropped {
                self.put(key.clone(), (*seq, entry), None, now);
            }
        }
    }

    fn put(
        &mut self,
        key: RecordKey,
        (ledger, entry): (u64, &Arc<Entry>),
        place: Option<usize>,
        now: Instant,
    ) {
        let known = self.keys.get(&key).map(|known| (known.first, known.since));
        let (first, since) = known.unwrap_or((ledger, now));
        let entry = Arc::clone(entry);
        self.keys.insert(key, PendingImage { first, since, ledger, entry, place });
    }

    /// Whether much goes on.
    pub(super) fn is_busy(&self) -> bool {
        let agents = self.keys.keys().filter(|key| matches!(key, RecordKey::Agent(_)));
        agents.take(MANY_AGENTS).count() == MANY_AGENTS
    }

    /// When the first of them has waited for as long as it may.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.keys.values().map(|pending| pending.since + WAIT_MOST).min()
    }

    /// What is to be written now: everything, unless much goes on.
    pub(super) fn take_due(&mut self, now: Instant) -> BTreeMap<RecordKey, PendingImage> {
        if !self.is_busy() || self.entries.len() >= ENTRIES_MAX {
            return std::mem::take(&mut self.keys);
        }
        let waits = |pending: &PendingImage| {
            now < pending.since + WAIT_MOST && pending.record().is_some_and(Record::changes_soon)
        };
        self.keys.extract_if(.., |_, pending| !waits(pending)).collect()
    }

    /// The last entry up to which everything is taken, when that moved.
    pub(super) fn pass(&mut self) -> Option<OutboxEntry> {
        let first = self.keys.values().map(|pending| pending.first).min().unwrap_or(u64::MAX);
        let out = self.entries.partition_point(|entry| entry.seq < first);
        self.entries.drain(..out).last()
    }
}
