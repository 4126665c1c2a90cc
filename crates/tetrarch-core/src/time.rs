//! Time as a plain value. The core has no clock: every decision is told when it is.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use crate::duration;

/// A moment in bus time, in milliseconds since the Unix epoch: the server's timestamp of the
/// owner's epoch entry plus the owner's monotonic clock since (spec 04, The sweeper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BusTime(pub u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// A length of time given in whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000)
    }
}

impl From<Duration> for Millis {
    /// In whole milliseconds.
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Add<Millis> for BusTime {
    type Output = Self;
    fn add(self, rhs: Millis) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub for BusTime {
    type Output = Millis;
    fn sub(self, rhs: Self) -> Millis {
        Millis(self.0.saturating_sub(rhs.0))
    }
}

/// A moment on the monotonic clock of one process, in milliseconds from an arbitrary zero. What
/// one process reads means nothing to another, so it is never stored or sent (spec 04, The
/// sweeper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Add<Millis> for Moment {
    type Output = Self;
    fn add(self, rhs: Millis) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub for Moment {
    type Output = Millis;
    fn sub(self, rhs: Self) -> Millis {
        Millis(self.0.saturating_sub(rhs.0))
    }
}

impl fmt::Display for Millis {
    /// For people, who are not helped by every digit: in at most two units (`duration::rough`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::rough(*self))
    }
}
