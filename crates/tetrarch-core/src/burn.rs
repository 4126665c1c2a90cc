//! How fast an agent spends: what it used in each of the last minutes (spec 06, Budgets; spec 08,
//! Roster). Its host keeps it and tells it with the agent's signs of life, never the ledger.

use std::collections::VecDeque;

use crate::budget::Spend;
use crate::limits::{BURN_BUCKET, BURN_BUCKETS};
use crate::time::BusTime;

/// Amounts of the last [`BURN_BUCKETS`] buckets of [`BURN_BUCKET`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Burn {
    /// The number of the newest bucket, counted from the beginning of time.
    newest: u64,
    /// Newest first, without the zeros at the end.
    buckets: VecDeque<Spend>,
    /// What had been used when it was last noted.
    total: Spend,
}

impl Burn {
    /// What was noted elsewhere: the number of the newest bucket, and amounts from that one back.
    #[must_use]
    pub fn noted(newest: u64, amounts: impl IntoIterator<Item = Spend>) -> Self {
        let buckets = amounts.into_iter().take(BURN_BUCKETS).collect();
        let mut burn = Self { newest, buckets, total: Spend::default() };
        burn.trim();
        burn
    }

    /// Notes what has been used in all by now; counters only grow.
    pub fn note(&mut self, now: BusTime, total: Spend) {
        let more = total.minus(self.total);
        if more == Spend::default() {
            return;
        }
        self.total = self.total.max(total);
        let bucket = now.0 / BURN_BUCKET.0;
        let passed = bucket.saturating_sub(self.newest).min(BURN_BUCKETS as u64);
        for _ in 0..passed {
            self.buckets.push_front(Spend::default());
        }
        self.newest = self.newest.max(bucket);
        match self.buckets.front_mut() {
            Some(newest) => *newest = newest.plus(more),
            None => self.buckets.push_front(more),
        }
        self.buckets.truncate(BURN_BUCKETS);
        self.trim();
    }

    /// The number of the newest bucket.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Amounts, newest first, without the zeros at the end.
    pub fn amounts(&self) -> impl Iterator<Item = Spend> {
        self.buckets.iter().copied()
    }

    /// All buckets as they are by now, oldest first.
    #[must_use]
    pub fn by(&self, now: BusTime) -> Vec<Spend> {
        let bucket = (now.0 / BURN_BUCKET.0).max(self.newest);
        let amount = |back: u64| {
            let at = usize::try_from(back.checked_sub(bucket - self.newest)?).ok()?;
            self.buckets.get(at).copied()
        };
        let all = (0..BURN_BUCKETS as u64).rev();
        all.map(|back| amount(back).unwrap_or_default()).collect()
    }

    fn trim(&mut self) {
        while self.buckets.back() == Some(&Spend::default()) {
            self.buckets.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bucket: u64, ms: u64) -> BusTime {
        BusTime(bucket * BURN_BUCKET.0 + ms)
    }

    fn tokens(tokens: u64) -> Spend {
        Spend { tokens, ..Spend::default() }
    }

    fn shown(burn: &Burn, now: BusTime) -> Vec<u64> {
        burn.by(now).into_iter().map(|spend| spend.tokens).collect()
    }

    #[test]
    fn usage_falls_into_the_bucket_of_its_time() {
        let mut burn = Burn::default();
        burn.note(at(100, 0), tokens(5));
        burn.note(at(100, BURN_BUCKET.0 - 1), tokens(7));
        burn.note(at(101, 0), tokens(8));
        burn.note(at(103, 0), tokens(10));
        burn.note(at(103, 1), tokens(9));
        let all = shown(&burn, at(103, 2));
        assert_eq!((all.len(), &all[56..]), (BURN_BUCKETS, &[7, 1, 0, 2][..]));
        let later = shown(&burn, at(104, 0));
        assert_eq!(&later[55..], [7, 1, 0, 2, 0]);
    }

    #[test]
    fn usage_is_forgotten_after_sixty_buckets() {
        let mut burn = Burn::default();
        burn.note(at(100, 0), tokens(5));
        assert_eq!(shown(&burn, at(159, 0))[0], 5);
        assert!(shown(&burn, at(160, 0)).iter().all(|tokens| *tokens == 0));
        burn.note(at(159, 0), tokens(6));
        assert_eq!(burn.amounts().count(), 60);
        burn.note(at(500, 0), tokens(7));
        assert_eq!(burn.amounts().count(), 1);
    }

    #[test]
    fn reported_burn_equals_recorded_burn() {
        let mut burn = Burn::default();
        for (bucket, total) in [(100, 5), (104, 6), (130, 60)] {
            burn.note(at(bucket, 3), tokens(total));
        }
        let told = Burn::noted(burn.newest(), burn.amounts());
        for bucket in [130, 131, 189, 190, 400] {
            assert_eq!(told.by(at(bucket, 0)), burn.by(at(bucket, 0)), "{bucket}");
        }
        assert!(Burn::default().amounts().next().is_none(), "who spends nothing tells nothing");
    }
}
