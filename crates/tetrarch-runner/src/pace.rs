//! How fast a program may ask others for something (docs/decisions/0053): a burst at once, and then so many a
//! second. It is told what time it is.

use std::time::Duration;

use tetrarch_core::limits::{ASKS_AT_ONCE, ASKS_PER_SECOND};
use tetrarch_core::order::RunnerEvent;
use tokio::time::Instant;

/// What one costs.
const EACH: Duration = Duration::from_millis(1_000 / ASKS_PER_SECOND);
/// What may be owed.
const CREDIT: Duration = Duration::from_millis(1_000 / ASKS_PER_SECOND * (ASKS_AT_ONCE - 1));

/// What a program has asked for of late.
#[derive(Debug, Default)]
pub(crate) struct RequestPacer {
    /// When all of it is paid.
    paid_at: Option<Instant>,
}

impl RequestPacer {
    /// How long what is told now has to wait, when others have to work for it.
    pub(crate) fn wait(&mut self, now: Instant, event: &RunnerEvent) -> Option<Duration> {
        if !asks_others(event) {
            return None;
        }
        let paid_at = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        self.paid_at = Some(paid_at + EACH);
        let wait = (paid_at - now).saturating_sub(CREDIT);
        (!wait.is_zero()).then_some(wait)
    }
}

fn asks_others(event: &RunnerEvent) -> bool {
    match event {
        RunnerEvent::Spawn { .. }
        | RunnerEvent::Operate { .. }
        | RunnerEvent::Write { .. }
        | RunnerEvent::Ask { .. } => true,
        RunnerEvent::Started { .. }
        | RunnerEvent::SpawnFailed { .. }
        | RunnerEvent::Progress { .. }
        | RunnerEvent::Log { .. }
        | RunnerEvent::Usage(_)
        | RunnerEvent::SetAside { .. }
        | RunnerEvent::Spent { .. }
        | RunnerEvent::Checkpoint { .. }
        | RunnerEvent::Blocked { .. }
        | RunnerEvent::Unblocked
        | RunnerEvent::Text { .. }
        | RunnerEvent::Conversed { .. }
        | RunnerEvent::Compacting { .. }
        | RunnerEvent::Taken { .. }
        | RunnerEvent::Receipt { .. }
        | RunnerEvent::Update { .. }
        | RunnerEvent::Result { .. }
        | RunnerEvent::Returned { .. }
        | RunnerEvent::Changed { .. }
        | RunnerEvent::Settled { .. }
        | RunnerEvent::Exited { .. } => false,
    }
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
        assert_eq!(pace.wait(now, &RunnerEvent::Unblocked), None, "nobody works for it");
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
}
