//! Restart intensity (spec 04): how many charged failures in how much time are too many, and the
//! circuit that opens then. It counts; what an open circuit stops is decided where things start.

use crate::limits::{RESTART_WINDOW, RESTARTS_MAX, TASK_RESTART_WINDOW, TASK_RESTARTS_MAX};
use crate::time::{BusTime, Millis};
use crate::words::words;

words! {
    /// Why a session ended before its work did.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FailureCause {
        /// Its process died.
        Crashed = "crashed",
        /// Its process could not be started.
        SpawnFailed = "spawn_failed",
        /// It was killed as hung.
        Hung = "hung",
        /// Its host was lost.
        HostLost = "host_lost",
        /// The bus was lost.
        BusLost = "bus_lost",
        /// Its parent was lost.
        ParentLost = "parent_lost",
        /// Its host was drained.
        Drain = "drain",
        /// Its parent or an operator stopped it, or wanted its next session.
        Stopped = "stopped",
        /// It was rotated: a clean end, and a next session.
        Rotated = "rotated",
    }
}

impl FailureCause {
    /// Whether the child itself is to blame; only such a failure counts.
    #[must_use]
    pub fn is_charged(self) -> bool {
        match self {
            Self::Crashed | Self::SpawnFailed | Self::Hung => true,
            Self::HostLost
            | Self::BusLost
            | Self::ParentLost
            | Self::Drain
            | Self::Stopped
            | Self::Rotated => false,
        }
    }
}

/// How many failures are borne in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// Failures that are borne; with 0 the first one is too many.
    pub max: u32,
    /// The sliding time they are counted over, both ends included.
    pub window: Millis,
}

impl Intensity {
    /// What is borne of one task: 3 failures within 72 hours (spec 04).
    pub const OF_TASK: Self = Self { max: TASK_RESTARTS_MAX, window: TASK_RESTART_WINDOW };
}

/// What is borne of a parent's children unless configured: 3 failures within 60 s (spec 04).
impl Default for Intensity {
    fn default() -> Self {
        Self { max: RESTARTS_MAX, window: RESTART_WINDOW }
    }
}

/// The charged failures that still matter: at most one more than is borne, oldest first. A task's
/// record holds one; a parent's is in its [`Circuit`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failures(Vec<BusTime>);

impl Failures {
    /// Failures read back from a record, in any order.
    #[must_use]
    pub fn new(mut times: Vec<BusTime>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// When they were, oldest first.
    #[must_use]
    pub fn times(&self) -> &[BusTime] {
        &self.0
    }

    /// Adds a charged failure. True when there are more than are borne.
    pub fn note(&mut self, at: BusTime, intensity: Intensity) -> bool {
        let place = self.0.partition_point(|time| *time <= at);
        self.0.insert(place, at);
        let last = self.0.last().copied().unwrap_or(at);
        self.0.retain(|time| last - *time <= intensity.window);
        let borne = usize::try_from(intensity.max).unwrap_or(usize::MAX);
        let surplus = self.0.len().saturating_sub(borne.saturating_add(1));
        self.0.drain(..surplus);
        self.0.len() > borne
    }
}

/// What a failure did to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// It is borne.
    Borne,
    /// The circuit opens with it: the one moment to raise the alert.
    Opened,
    /// The circuit was open already.
    WasOpen,
}

/// A parent's circuit: its children's charged failures, and whether they were too many. Time
/// alone never closes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Circuit {
    /// The failures that still matter; none while it is open.
    pub failures: Failures,
    /// Since when it is open.
    pub opened: Option<BusTime>,
    /// The failure that opened it, in words; empty while it is closed.
    pub cause: String,
}

impl Circuit {
    /// Adds a charged failure of a child, which is told when it is the one too many.
    pub fn note(&mut self, at: BusTime, intensity: Intensity, cause: &str) -> Trip {
        if self.is_open() {
            Trip::WasOpen
        } else if self.failures.note(at, intensity) {
            self.open(at, cause)
        } else {
            Trip::Borne
        }
    }

    /// Opens it for another reason: one of its tasks failed too often.
    pub fn open(&mut self, at: BusTime, cause: &str) -> Trip {
        if self.is_open() {
            return Trip::WasOpen;
        }
        let cause = cause.to_owned();
        *self = Self { failures: Failures::default(), opened: Some(at), cause };
        Trip::Opened
    }

    /// Closes it: an operator said so, or the parent was replaced. Counting begins anew.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    /// Whether spawns below are refused.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opens(max: u32, window: u64, times: &[u64]) -> Option<u64> {
        let mut circuit = Circuit::default();
        for at in times {
            circuit.note(BusTime(*at), Intensity { max, window: Millis(window) }, "it died");
        }
        circuit.opened.map(|at| at.0)
    }

    #[test]
    fn circuit_opens_above_the_limit_within_the_window() {
        for (max, times, opened) in [
            (3, &[0, 1, 2][..], None),
            (3, &[0, 1, 2, 3], Some(3)),
            (3, &[0, 0, 0, 0], Some(0)),
            (3, &[0, 1, 2, 60_000], Some(60_000)),
            (3, &[0, 1, 2, 60_001], None),
            (3, &[0, 1, 2, 60_001, 60_001], Some(60_001)),
            (3, &[0, 30_000, 60_000, 90_000, 120_000], None),
            (3, &[0, 20_000, 40_000, 60_000], Some(60_000)),
            (3, &[0, 20_001, 40_002, 60_003, 60_004], Some(60_004)),
            (1, &[0], None),
            (1, &[0, 60_000], Some(60_000)),
            (0, &[5], Some(5)),
            (0, &[], None),
        ] {
            assert_eq!(opens(max, 60_000, times), opened, "{max} borne: {times:?}");
        }
    }

    #[test]
    fn task_bears_three_failures_within_three_days() {
        let hour = 3_600_000;
        let mut failures = Failures::default();
        for at in [0, 24 * hour, 48 * hour] {
            assert!(!failures.note(BusTime(at), Intensity::OF_TASK));
        }
        let mut late = failures.clone();
        assert!(!late.note(BusTime(72 * hour + 1), Intensity::OF_TASK));
        assert!(failures.note(BusTime(72 * hour), Intensity::OF_TASK));
    }

    #[test]
    fn circuit_opens_once_and_is_closed_by_hand() {
        let intensity = Intensity::default();
        let mut circuit = Circuit::default();
        let mut trips = (0..5).map(|at| circuit.note(BusTime(at), intensity, "one"));
        assert!(trips.by_ref().take(3).all(|trip| trip == Trip::Borne));
        assert_eq!(trips.collect::<Vec<_>>(), [Trip::Opened, Trip::WasOpen]);
        assert_eq!(circuit.note(BusTime(u64::MAX), intensity, "two"), Trip::WasOpen);
        assert_eq!(circuit.open(BusTime(9), "three"), Trip::WasOpen);
        assert_eq!(circuit.opened, Some(BusTime(3)));
        circuit.close();
        assert_eq!(circuit.note(BusTime(9), intensity, "four"), Trip::Borne);
        assert_eq!(circuit.open(BusTime(10), "five"), Trip::Opened);
    }

    #[test]
    fn only_failures_of_the_child_are_charged() {
        use FailureCause::{Crashed, Hung, SpawnFailed};
        let charged = FailureCause::ALL.into_iter().filter(|cause| cause.is_charged());
        assert_eq!(charged.collect::<Vec<_>>(), [Crashed, SpawnFailed, Hung]);
        assert_eq!(
            [Crashed, SpawnFailed, Hung].map(FailureCause::as_str),
            ["crashed", "spawn_failed", "hung"]
        );
    }

    #[test]
    fn unordered_record_is_read_in_order() {
        let failures = Failures::new(vec![BusTime(2), BusTime(1)]);
        assert_eq!(failures.times(), [BusTime(1), BusTime(2)]);
    }

    proptest! {
        #[test]
        fn circuit_is_open_when_any_window_exceeds_the_limit(
            max in 0u32..4,
            mut times in proptest::collection::vec(0u64..200, 0..12),
        ) {
            times.sort_unstable();
            let stretch = |(index, first): (usize, &u64)| {
                times[index..].iter().filter(|time| **time - first <= 50).count()
            };
            let most = times.iter().enumerate().map(stretch).max().unwrap_or(0);
            let too_many = most > max as usize;
            prop_assert_eq!(opens(max, 50, &times).is_some(), too_many);
        }

        #[test]
        fn stored_failures_are_bounded(
            max in 0u32..4,
            times in proptest::collection::vec(0u64..200, 0..40),
        ) {
            let mut failures = Failures::default();
            for at in times {
                failures.note(BusTime(at), Intensity { max, window: Millis(50) });
                prop_assert!(failures.times().len() <= max as usize + 1);
            }
        }
    }
}
