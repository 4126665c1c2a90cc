//! How fast a program may ask others for something (docs/decisions/0053), say that it waits or goes on, and have its
//! checkpoints kept: a burst at once, and then so much a second. It is told what time it is.

use std::time::Duration;

use tetrarch_core::limits::{
    ASKS_AT_ONCE, ASKS_PER_SECOND, CHECKPOINT_BYTES_AT_ONCE, CHECKPOINT_BYTES_PER_SECOND,
    STATES_AT_ONCE, STATES_PER_SECOND,
};
use tetrarch_core::order::RunnerEvent;
use tokio::time::Instant;

/// What one costs.
const EACH: Duration = Duration::from_millis(1_000 / ASKS_PER_SECOND);
/// What may be owed.
const CREDIT: Duration = Duration::from_millis(1_000 / ASKS_PER_SECOND * (ASKS_AT_ONCE - 1));
/// The same of the states that it tells.
const EACH_STATE: Duration = Duration::from_millis(1_000 / STATES_PER_SECOND);
const STATES_CREDIT: Duration =
    Duration::from_millis(1_000 / STATES_PER_SECOND * (STATES_AT_ONCE - 1));
/// The same of checkpoints.
const KEPT_CREDIT: Duration =
    Duration::from_secs(CHECKPOINT_BYTES_AT_ONCE / CHECKPOINT_BYTES_PER_SECOND);

/// What a program has told of late.
#[derive(Debug, Default)]
pub(crate) struct RequestPacer {
    asked: Debt,
    moved: Debt,
    kept: Debt,
}

/// What is paid with the time.
#[derive(Debug, Default)]
struct Debt {
    /// When all of it is paid.
    paid_at: Option<Instant>,
}

impl Debt {
    /// How long whoever owes this more has to wait.
    fn owe(&mut self, now: Instant, more: Duration, credit: Duration) -> Option<Duration> {
        let paid_at = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        self.paid_at = Some(paid_at + more);
        let wait = (paid_at - now).saturating_sub(credit);
        (!wait.is_zero()).then_some(wait)
    }
}

impl RequestPacer {
    /// How long what is told now has to wait, when others have to work for it or keep it.
    pub(crate) fn wait(&mut self, now: Instant, event: &RunnerEvent) -> Option<Duration> {
        if let RunnerEvent::Checkpoint { state, .. } = event {
            let bytes = u64::try_from(state.len()).unwrap_or(u64::MAX);
            let each = Duration::from_micros(
                bytes.saturating_mul(1_000_000) / CHECKPOINT_BYTES_PER_SECOND,
            );
            return self.kept.owe(now, each, KEPT_CREDIT);
        }
        if matches!(event, RunnerEvent::Blocked { .. } | RunnerEvent::Unblocked) {
            return self.moved.owe(now, EACH_STATE, STATES_CREDIT);
        }
        if !asks_others(event) {
            return None;
        }
        self.asked.owe(now, EACH, CREDIT)
    }
}

fn asks_others(event: &RunnerEvent) -> bool {
    matches!(
        event,
        RunnerEvent::Spawn { .. }
            | RunnerEvent::Operate { .. }
            | RunnerEvent::Write { .. }
            | RunnerEvent::Ask { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> RunnerEvent {
        RunnerEvent::Spawn { request: "{}".to_owned() }
    }

    #[test]
    fn burst_passes_at_once_then_at_a_fixed_rate() {
        let (mut pace, now) = (RequestPacer::default(), Instant::now());
        for _ in 0..ASKS_AT_ONCE {
            assert_eq!(pace.wait(now, &asked()), None);
        }
        assert_eq!(pace.wait(now, &asked()), Some(EACH), "one more than fits");
        let told = RunnerEvent::Update { update: "{}".to_owned() };
        assert_eq!(pace.wait(now, &told), None, "nobody works for it");
        for _ in 0..ASKS_PER_SECOND - 1 {
            pace.wait(now, &asked());
        }
        let second = Duration::from_secs(1);
        assert_eq!(pace.wait(now, &asked()), Some(second + EACH));
    }

    #[test]
    fn idle_time_refills_at_most_one_burst() {
        let (mut pace, now) = (RequestPacer::default(), Instant::now());
        for _ in 0..ASKS_AT_ONCE {
            pace.wait(now, &asked());
        }
        assert_eq!(pace.wait(now + EACH, &asked()), None, "one is paid");
        assert_eq!(pace.wait(now + EACH, &asked()), Some(EACH));
        let later = now + Duration::from_secs(3_600);
        for _ in 0..ASKS_AT_ONCE {
            assert_eq!(pace.wait(later, &asked()), None);
        }
        assert_eq!(pace.wait(later, &asked()), Some(EACH));
    }

    #[test]
    fn states_that_take_turns_wait_after_a_burst_and_hold_up_no_request() {
        let (mut pace, now) = (RequestPacer::default(), Instant::now());
        let blocked = RunnerEvent::Blocked { reason: "a lock".to_owned() };
        for _ in 0..STATES_AT_ONCE / 2 {
            assert_eq!(pace.wait(now, &blocked), None);
            assert_eq!(pace.wait(now, &RunnerEvent::Unblocked), None);
        }
        assert_eq!(pace.wait(now, &blocked), Some(EACH_STATE));
        assert_eq!(pace.wait(now, &RunnerEvent::Unblocked), Some(2 * EACH_STATE));
        assert_eq!(pace.wait(now, &asked()), None, "that is another matter");
        let second = Duration::from_secs(1);
        assert_eq!(pace.wait(now + second, &blocked), None, "what was owed is paid");
    }

    #[test]
    fn checkpoints_go_at_once_up_to_a_burst_and_then_as_fast_as_they_are_kept() {
        let (mut pace, now) = (RequestPacer::default(), Instant::now());
        let state = "x".repeat(usize::try_from(CHECKPOINT_BYTES_PER_SECOND).unwrap());
        let kept = RunnerEvent::Checkpoint { state, confirm: false };
        let second = Duration::from_secs(1);
        for _ in 0..=CHECKPOINT_BYTES_AT_ONCE / CHECKPOINT_BYTES_PER_SECOND {
            assert_eq!(pace.wait(now, &kept), None);
        }
        assert_eq!(pace.wait(now, &kept), Some(second));
        assert_eq!(pace.wait(now, &asked()), None, "that is another matter");
        assert_eq!(pace.wait(now + second, &kept), Some(second));
    }
}
