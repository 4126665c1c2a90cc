//! Bus time: a server timestamp plus this process's monotonic clock since (spec 04). The only
//! place of the engine that reads a clock for decisions.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tetrarch_core::time::BusTime;

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
    let took = |it: Timespec| {
        let nanos = u32::try_from(it.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(it.tv_sec).unwrap_or(0), nanos)
    };
    (done, took(ended).saturating_sub(took(began)))
}

/// Milliseconds since the Unix epoch by this machine's wall clock, for people and for setting
/// a clock that no server has set: no decision compares it.
pub(crate) fn wall_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
