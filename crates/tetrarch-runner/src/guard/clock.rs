//! The clock that host and guard share: it is the same in every process of the machine, never
//! set, and goes on while the machine is suspended, as the owner's does.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment, in milliseconds since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BootTime(pub(super) u64);

impl BootTime {
    /// This moment.
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let whole = u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1000);
        Self(whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000))
    }

    /// The moment of an instant of this process; this moment for one that is over.
    pub(super) fn of(instant: Instant) -> Self {
        // In this order: a process that is stopped between the two lines comes to a moment too
        // early, never to one too late.
        let now = Self::now();
        now.plus(instant.saturating_duration_since(Instant::now()))
    }

    /// So much later.
    pub(super) fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long it is until then; nothing when it is over.
    pub(super) fn until(self, then: Self) -> Duration {
        Duration::from_millis(then.0.saturating_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_converts_to_boot_time() {
        let now = BootTime::now();
        let later = BootTime::of(Instant::now() + Duration::from_secs(100));
        assert!(now.until(later) > Duration::from_secs(99));
        assert!(now.until(later) < Duration::from_secs(160));
        assert!(BootTime::of(Instant::now()) <= BootTime::now());
        assert_eq!(later.until(now), Duration::ZERO);
    }
}
