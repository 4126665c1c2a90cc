//! A limit of a rate: so many at once, and in the long run one in each gap.

use std::time::Duration;

use tokio::time::Instant;

/// Says when the next one is due.
#[derive(Debug)]
pub(crate) struct RateLimit {
    next: Instant,
    gap: Duration,
    /// How far the next one may lie back, for those at once.
    credit: Duration,
}

impl RateLimit {
    /// One in each `gap`, and `at_once` of them at once.
    pub(crate) fn new(gap: Duration, at_once: u32) -> Self {
        let (now, credit) = (Instant::now(), gap * at_once.saturating_sub(1));
        Self { next: now.checked_sub(credit).unwrap_or(now), gap, credit }
    }

    /// Takes the next one; gives when it is due, which may be over.
    pub(crate) fn take(&mut self) -> Instant {
        let now = Instant::now();
        let due = self.next.max(now.checked_sub(self.credit).unwrap_or(now));
        self.next = due + self.gap;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_are_due_at_once_and_then_one_in_each_gap() {
        let gap = Duration::from_millis(100);
        let mut limit = RateLimit::new(gap, 3);
        for _ in 0..2 {
            let now = Instant::now();
            let dues: Vec<_> = (0..5).map(|_| limit.take()).collect();
            assert_eq!(dues.iter().filter(|due| **due <= now).count(), 3);
            assert_eq!((dues[3], dues[4]), (now + gap, now + 2 * gap));
            tokio::time::advance(gap * 100).await;
        }
    }
}
