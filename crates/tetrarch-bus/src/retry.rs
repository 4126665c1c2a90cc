//! Retries toward the bus: the one `backoff` policy (spec 12). The overseer's backoff is not
//! here: it is stored, so it is a pure function of the core.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

/// Longest wait before the first reconnect.
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two reconnects.
const RECONNECT_LONGEST: Duration = Duration::from_secs(5);

/// Waits between the attempts at one thing: exponential with full jitter, so each wait is
/// anywhere between nothing and its bound, and clients that failed together do not return together.
#[derive(Debug)]
pub struct Retry {
    policy: ExponentialBackoff,
}

impl Retry {
    /// A policy whose waits are bounded by `first`, then twice as much each time up to `longest`.
    /// It gives up after `total`, or never.
    #[must_use]
    pub fn new(first: Duration, longest: Duration, total: Option<Duration>) -> Self {
        let mut policy = ExponentialBackoff {
            current_interval: first / 2,
            initial_interval: first / 2,
            randomization_factor: 1.0,
            multiplier: 2.0,
            max_interval: longest / 2,
            max_elapsed_time: total,
            ..ExponentialBackoff::default()
        };
        policy.reset();
        Self { policy }
    }

    /// A policy for waiting until a local thing is so: 5 ms to 200 ms apart, for at most `total`.
    #[must_use]
    pub fn until(total: Duration) -> Self {
        Self::new(Duration::from_millis(5), Duration::from_millis(200), Some(total))
    }

    /// How long to wait before the next attempt; none when the time is used up.
    pub fn next_wait(&mut self) -> Option<Duration> {
        self.policy.next_backoff()
    }

    /// Waits before the next attempt; false when the time is used up.
    pub async fn pause(&mut self) -> bool {
        match self.next_wait() {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                true
            }
            None => false,
        }
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.policy.reset();
    }
}

/// The wait before reconnect number `attempt` (from 1), with full jitter (spec 02, Client rules).
#[must_use]
pub fn reconnect_wait(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let bound = (RECONNECT_FIRST * 2u32.saturating_pow(doublings)).min(RECONNECT_LONGEST);
    Retry::new(bound, bound, None).next_wait().unwrap_or(RECONNECT_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_within_their_bound_and_spread() {
        let first: Vec<Duration> = (0..200).map(|_| reconnect_wait(1)).collect();
        assert!(first.iter().all(|wait| *wait <= RECONNECT_FIRST + Duration::from_nanos(2)));
        assert!(first.iter().any(|wait| *wait < RECONNECT_FIRST / 4));
        assert!(first.iter().any(|wait| *wait > RECONNECT_FIRST / 2));
        let late: Vec<Duration> = (0..200).map(|_| reconnect_wait(usize::MAX)).collect();
        assert!(late.iter().all(|wait| *wait <= RECONNECT_LONGEST + Duration::from_nanos(2)));
        assert!(late.iter().any(|wait| *wait > RECONNECT_LONGEST / 2));
    }

    #[test]
    fn retry_stops_when_its_time_is_used_up() {
        let mut retry = Retry::until(Duration::ZERO);
        while retry.next_wait().is_some() {}
        assert!(retry.next_wait().is_none());
    }
}
