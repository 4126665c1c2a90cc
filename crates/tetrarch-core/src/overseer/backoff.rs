//! How long nothing is sent after an attempt: full jitter under a bound that doubles (spec 05). A pure
//! function of the attempt and a seed, since what it gives is stored.

use sha2::{Digest, Sha256};

use crate::limits::{BACKOFF_BASE, BACKOFF_MAX};
use crate::time::Millis;

/// The bounds of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first attempt.
    pub base: Millis,
    /// The longest wait after any.
    pub max: Millis,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: BACKOFF_BASE, max: BACKOFF_MAX }
    }
}

impl Backoff {
    /// The longest wait after an attempt, when `retries` were made before it.
    #[must_use]
    pub fn bound(self, retries: u32) -> Millis {
        let doubled = 1u64.checked_shl(retries).unwrap_or(u64::MAX);
        self.max.min(Millis(self.base.0.saturating_mul(doubled)))
    }

    /// The wait itself, from nothing to the bound. `seed` tells one assignment's wait from another's;
    /// the same seed and retries always give the same.
    #[must_use]
    pub fn wait(self, retries: u32, seed: &str) -> Millis {
        let mut hash = Sha256::new();
        hash.update(seed.as_bytes());
        hash.update([0]);
        hash.update(retries.to_be_bytes());
        let mut random = [0; 8];
        random.copy_from_slice(&hash.finalize()[..8]);
        let bound = u128::from(self.bound(retries).0);
        // The high half of the product is spread evenly over 0..=bound.
        let wait = (u128::from(u64::from_be_bytes(random)) * (bound + 1)) >> 64;
        Millis(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bound_doubles_up_to_the_maximum() {
        let minutes = |retries| Backoff::default().bound(retries).0 / 60_000;
        assert_eq!([0, 1, 2, 3, 4, 63, 64, u32::MAX].map(minutes), [2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn waits_spread_over_the_whole_bound() {
        let backoff = Backoff { base: Millis(9), max: Millis(9) };
        let mut seen = [0u32; 10];
        for seed in 0..1_000 {
            seen[usize::try_from(backoff.wait(0, &seed.to_string()).0).unwrap()] += 1;
        }
        assert!(seen.iter().all(|times| (60..140).contains(times)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn wait_is_bounded_and_deterministic(
            base in 0u64.., max in 0u64.., retries in 0u32..70, seed in ".*",
        ) {
            let backoff = Backoff { base: Millis(base), max: Millis(max) };
            let wait = backoff.wait(retries, &seed);
            prop_assert!(wait <= backoff.bound(retries));
            prop_assert_eq!(wait, backoff.wait(retries, &seed));
        }
    }
}
