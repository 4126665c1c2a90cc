//! Bus time: a server timestamp plus this process's monotonic clock since (spec 04). The only
//! place of the engine that reads a clock for decisions.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tetrarch_core::time::{BusTime, Millis};

/// A clock that was set once and never jumps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    base: BusTime,
    since: Instant,
}

impl Clock {
    /// A clock set to a server's timestamp in milliseconds since the Unix epoch.
    pub(crate) fn set(server_unix_ms: u64) -> Self {
        Self { base: BusTime(server_unix_ms), since: Instant::now() }
    }

    /// The time now.
    pub(crate) fn now(&self) -> BusTime {
        self.base + Millis::from(self.since.elapsed())
    }

    /// How long until a time; zero when it has passed.
    pub(crate) fn until(&self, at: BusTime) -> Duration {
        Duration::from_millis((at - self.now()).0)
    }
}

/// Does something, and gives the time that this thread's processor took for it: what it waited does not count.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let read = || clock_gettime(ClockId::ThreadCPUTime);
    let began = read();
    let done = work();
    let ended = read();
    // This clock never goes back.
    (done, Duration::try_from(ended - began).unwrap_or_default())
}

/// Milliseconds since the Unix epoch by this machine's wall clock, for people and for setting
/// a clock that no server has set: no decision compares it.
pub(crate) fn wall_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| Millis::from(since).0)
}
