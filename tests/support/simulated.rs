//! The bus without a network: streams whose messages are stored at the sequence that the writer
//! expects or not at all, and what clients of the real bus do at them. Reads can be as of an earlier
//! sequence, as those of a replica that lags behind. What is lost or late on the way is not here.

mod cursors;
mod journals;
mod leases;

use std::collections::BTreeMap;

use tetrarch_core::ledger::Entry;

pub use cursors::{Claimed, Cursors};
pub use journals::{Journaled, Journals};
pub use leases::{Acquired, Leases, Renewed};

/// A read that sees everything.
pub const NOW: u64 = u64::MAX;

/// The last message of a key is another than was expected: this is its sequence, 0 when there is
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongLast(pub u64);

/// A stream with a key for each subject.
#[derive(Debug, Clone)]
pub struct Stream<K, V> {
    last: u64,
    keys: BTreeMap<K, Vec<(u64, V)>>,
}

impl<K, V> Default for Stream<K, V> {
    fn default() -> Self {
        Self { last: 0, keys: BTreeMap::new() }
    }
}

impl<K: Ord, V> Stream<K, V> {
    /// The sequence of the last message.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last
    }

    /// A key's last message as of a sequence of the stream.
    pub fn last(&self, key: &K, through: u64) -> Option<(u64, &V)> {
        let all = self.keys.get(key)?.iter().rev();
        all.map(|(seq, value)| (*seq, value)).find(|(seq, _)| *seq <= through)
    }

    /// Every message of a key, the oldest first.
    pub fn all(&self, key: &K) -> impl Iterator<Item = (u64, &V)> {
        self.keys.get(key).into_iter().flatten().map(|(seq, value)| (*seq, value))
    }

    /// Stores a message if the last one of its key has the expected sequence, 0 meaning none.
    ///
    /// # Errors
    /// The last one has another.
    pub fn publish(&mut self, key: K, value: V, expect: u64) -> Result<u64, WrongLast> {
        let last = self.last(&key, NOW).map_or(0, |(seq, _)| seq);
        if last != expect {
            return Err(WrongLast(last));
        }
        self.last += 1;
        self.keys.entry(key).or_default().push((self.last, value));
        Ok(self.last)
    }

    /// Forgets a key, as a server does with one that expired.
    pub fn forget(&mut self, key: &K) {
        self.keys.remove(key);
    }
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// It is stored, at this sequence.
    Stored(u64),
    /// An earlier attempt of it was stored there.
    Known(u64),
    /// An owner of this higher epoch writes the ledger.
    Deposed(u64),
    /// Something else is there: this is the last sequence.
    Reload(u64),
}

/// Commits an entry to a ledger, expecting its last sequence, for an owner of this epoch.
pub fn commit(ledger: &mut Vec<Entry>, entry: &Entry, expect: u64) -> Commit {
    let last = ledger.len() as u64;
    if last == expect {
        ledger.push(entry.clone());
        return Commit::Stored(last + 1);
    }
    match ledger.last() {
        Some(found) if found.commit == entry.commit => Commit::Known(last),
        Some(found) if found.epoch > entry.epoch => Commit::Deposed(found.epoch),
        Some(_) | None => Commit::Reload(last),
    }
}
