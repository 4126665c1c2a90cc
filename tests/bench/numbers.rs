//! The arithmetic of a benchmark: quantiles of what was timed in one round, medians over rounds
//! with their spread. It times nothing itself.

use std::time::Duration;

/// What was timed in one round.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Samples, in any order.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// The sample that `share` of all, from 0 to 1, do not exceed, in microseconds.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts of samples are small and not negative"
        )]
        let at = (last as f64 * share).ceil() as usize;
        self.0.get(at.min(last)).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e6)
    }
}

/// One number of each round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds a round's number.
    pub(crate) fn push(&mut self, number: f64) {
        self.0.push(number);
        self.0.sort_unstable_by(f64::total_cmp);
    }

    /// How many rounds there were.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The median, the lower one of two.
    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
    }

    /// The smallest and the largest.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let end = |number: Option<&f64>| number.copied().unwrap_or(f64::NAN);
        (end(self.0.first()), end(self.0.last()))
    }
}
