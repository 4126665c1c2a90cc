//! Snapshots of all live records, and how far the ledger may be trimmed behind them (spec 02,
//! Snapshots): when one is due, and what is old enough or in the way. Pure; making one, keeping it
//! and purging are the owner's shell's.

use std::fmt;

use crate::limits::{LEDGER_FULL, LEDGER_KEPT, SNAPSHOT_ENTRIES, SNAPSHOT_EVERY, UNNAMED_KEPT};
use crate::time::{BusTime, Millis};

/// All live records as they were after one entry: where they are kept, and what else replay needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The ledger sequence of the last entry that is folded in.
    pub through: u64,
    /// The epoch of that entry's owner.
    pub epoch: u64,
    /// Every request up to this sequence of `REQUESTS` is decided.
    pub intake_seq: u64,
    /// When it was made.
    pub at: BusTime,
    /// How many records it holds.
    pub records: u64,
    /// How many bytes its parts have in all.
    pub bytes: u64,
    /// The sha256 of each part, in order; each is an artifact.
    pub parts: Vec<String>,
    /// The parts of the snapshot before it, which are no longer needed.
    pub before: Vec<String>,
}

/// How long the ledger is kept and how often a snapshot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Entries are kept for so long (`retention.ledger`).
    pub ledger: Millis,
    /// Entries between two snapshots.
    pub entries: u64,
    /// Time between two snapshots.
    pub every: Millis,
    /// How long an artifact that nothing names is kept (spec 06, Artifacts).
    pub unnamed: Millis,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            ledger: LEDGER_KEPT,
            entries: SNAPSHOT_ENTRIES,
            every: SNAPSHOT_EVERY,
            unnamed: UNNAMED_KEPT,
        }
    }
}

/// What the server says of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The sequence of the first entry that is kept.
    pub first: u64,
    /// The sequence of the last entry.
    pub last: u64,
    /// How many bytes are kept.
    pub bytes: u64,
    /// How many bytes it may have; 0 means any number.
    pub limit: u64,
}

/// Why a snapshot is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// So many entries came after the last one.
    Entries,
    /// The last one is so old.
    Age,
    /// The ledger is nearly full, and what is behind the last one would not make room.
    Room,
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "so many entries since the last one",
            Self::Age => "the last one is old",
            Self::Room => "the ledger is nearly full",
        })
    }
}

/// How far the ledger is to be trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// Every entry up to this sequence may go.
    pub through: u64,
    /// Some of them are younger than the retention: people are told.
    pub early: bool,
}

impl Extent {
    fn is_full(&self) -> bool {
        let share = u128::from(self.limit) * u128::from(LEDGER_FULL) / 1_000;
        self.limit > 0 && u128::from(self.bytes) >= share
    }

    /// The sequence up to which a full ledger has to go so that about half of its room is free
    /// again, taking entries to be of one size.
    fn in_the_way(&self) -> u64 {
        let entries = u128::from(self.last.saturating_sub(self.first)) + 1;
        let over = u128::from(self.bytes.saturating_sub(self.limit / 2));
        let some = entries * over / u128::from(self.bytes.max(1));
        self.first.saturating_add(u64::try_from(some).unwrap_or(u64::MAX)).saturating_sub(1)
    }
}

impl Retention {
    /// Whether a snapshot is due, and why. `through` and `since` are those of the last one; without
    /// one, 0 and when the installation began.
    #[must_use]
    pub fn due(&self, through: u64, since: BusTime, extent: &Extent, now: BusTime) -> Option<Due> {
        let news = extent.last.saturating_sub(through);
        // The entry that tells of the last one is no news.
        if news <= 1 {
            return None;
        }
        if extent.is_full() && through < extent.in_the_way() {
            return Some(Due::Room);
        }
        if news >= self.entries {
            return Some(Due::Entries);
        }
        (now - since >= self.every).then_some(Due::Age)
    }

    /// How far the ledger is to be trimmed behind a snapshot; none when nothing is to go. `aged`:
    /// the last sequence that is older than the retention, 0 when none is.
    #[must_use]
    pub fn trim(snapshot: &Snapshot, extent: &Extent, aged: u64) -> Option<Trim> {
        let wanted = if extent.is_full() { extent.in_the_way().max(aged) } else { aged };
        let through = wanted.min(snapshot.through);
        (through >= extent.first).then_some(Trim { through, early: through > aged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Millis = Millis(1_000);
    const RETENTION: Retention =
        Retention { ledger: Millis(500), entries: 100, every: EVERY, unnamed: UNNAMED_KEPT };

    fn extent(first: u64, last: u64, bytes: u64) -> Extent {
        Extent { first, last, bytes, limit: 1_000 }
    }

    fn snapshot(through: u64) -> Snapshot {
        Snapshot {
            through,
            epoch: 1,
            intake_seq: 0,
            at: BusTime(0),
            records: 1,
            bytes: 1,
            parts: vec!["a".to_owned()],
            before: Vec::new(),
        }
    }

    #[test]
    fn snapshot_is_due_by_entries_age_or_space() {
        let since = BusTime(5_000);
        for (through, last, bytes, now, expected) in [
            (0, 99, 10, 5_000, None),
            (0, 100, 10, 5_000, Some(Due::Entries)),
            (50, 149, 10, 5_000, None),
            (50, 150, 10, 5_000, Some(Due::Entries)),
            (50, 60, 10, 5_999, None),
            (50, 60, 10, 6_000, Some(Due::Age)),
            (50, 51, 10, 60_000, None),
            (50, 52, 10, 60_000, Some(Due::Age)),
            (50, 90, 799, 5_000, None),
            (10, 90, 800, 5_000, Some(Due::Room)),
            (32, 90, 800, 5_000, Some(Due::Room)),
            (33, 90, 800, 5_000, None),
            (60, 90, 800, 5_000, None),
            (89, 90, 999, 5_000, None),
        ] {
            let got = RETENTION.due(through, since, &extent(1, last, bytes), BusTime(now));
            assert_eq!(got, expected, "{through} {last} {bytes} {now}");
        }
        let unlimited = Extent { limit: 0, ..extent(1, 90, u64::MAX) };
        assert_eq!(RETENTION.due(10, since, &unlimited, BusTime(5_000)), None);
    }

    #[test]
    fn only_old_covered_entries_are_trimmed() {
        for (through, first, bytes, aged, expected) in [
            (50, 1, 10, 0, None),
            (50, 1, 10, 40, Some((40, false))),
            (50, 1, 10, 50, Some((50, false))),
            (50, 1, 10, 51, Some((50, false))),
            (50, 51, 10, 60, None),
            (50, 50, 10, 60, Some((50, false))),
            (50, 1, 799, 0, None),
            (50, 1, 800, 0, Some((37, true))),
            (50, 1, 800, 45, Some((45, false))),
            (20, 1, 800, 0, Some((20, true))),
            (50, 1, 1_000, 0, Some((50, true))),
        ] {
            let got = Retention::trim(&snapshot(through), &extent(first, 100, bytes), aged);
            let expected = expected.map(|(through, early)| Trim { through, early });
            assert_eq!(got, expected, "{through} {first} {bytes} {aged}");
        }
    }

    #[test]
    fn full_ledger_shrinks_below_its_share() {
        let full = extent(1_001, 2_000, 900);
        let trim = Retention::trim(&snapshot(1_990), &full, 0).unwrap();
        let kept = full.last - trim.through;
        let left = Extent { first: trim.through + 1, bytes: 900 * kept / 1_000, ..full };
        assert!(!left.is_full(), "{left:?}");
        assert_eq!(Retention::trim(&snapshot(1_990), &left, 0), None);
    }
}
