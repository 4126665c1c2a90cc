//! Bus time: a server timestamp plus this process's monotonic clock since (spec 04). The only
//! place of the engine that reads a clock for decisions.

use std::time::Instant;

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
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        BusTime(self.base.0.saturating_add(elapsed))
    }

    /// How long until a time; zero when it has passed.
    pub(crate) fn until(&self, at: BusTime) -> std::time::Duration {
        std::time::Duration::from_millis((at - self.now()).0)
    }
}

/// Does something, and gives the time that this thread's processor took for it: what it waited does not count.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Millis) {
    let read = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000)
    };
    let began = read();
    let done = work();
    (done, Millis(u64::try_from(read() - began).unwrap_or(0)))
}

/// Milliseconds since the Unix epoch by this machine's wall clock, for people and for setting
/// a clock that no server has set: no decision compares it.
pub(crate) fn wall_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
