//! How fast agents spend, as people see it: a bar for each minute, and the rate that a runaway is told by.

use tetrarch_core::budget::Spend;
use tetrarch_core::burn::Burn;
use tetrarch_core::limits::RUNAWAY_BUCKETS;
use tetrarch_core::time::BusTime;

/// What is drawn for an amount of a minute, from none to the most there is.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Tokens of each minute as bars; nothing when none were used.
#[must_use]
pub fn bars(burnt: &[Spend]) -> String {
    let most = burnt.iter().map(|spend| spend.tokens).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let bar = |spend: &Spend| {
        let height = (u128::from(spend.tokens) * 8).div_ceil(u128::from(most));
        BARS.get(usize::try_from(height).unwrap_or(8)).copied().unwrap_or(' ')
    };
    burnt.iter().map(bar).collect()
}

/// What was spent in the last [`RUNAWAY_BUCKETS`] minutes, with the current one.
#[must_use]
pub fn rate(burn: &Burn, now: BusTime) -> Spend {
    let all = burn.by(now);
    let last = all.iter().rev().take(RUNAWAY_BUCKETS);
    last.fold(Spend::default(), |sum, amount| sum.plus(*amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::limits::BURN_BUCKET;

    #[test]
    fn highest_minute_is_a_full_bar_and_smallest_is_visible() {
        let burnt = [0, 1, 50, 100].map(|tokens| Spend { tokens, ..Spend::default() });
        assert_eq!(bars(&burnt), " ▁▄█");
        assert_eq!(bars(&burnt[..1]), "");
    }

    #[test]
    fn rate_is_what_the_last_five_minutes_spent() {
        let amounts = [1, 10, 100, 1_000, 10_000, 100_000];
        let burn = Burn::noted(100, amounts.map(|tokens| Spend { tokens, ..Spend::default() }));
        let at = |bucket: u64| rate(&burn, BusTime(bucket * BURN_BUCKET.0)).tokens;
        assert_eq!((at(100), at(101), at(104), at(105)), (11_111, 1_111, 1, 0));
    }
}
