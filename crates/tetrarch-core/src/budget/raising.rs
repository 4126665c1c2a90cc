//! Raising a grant while its run goes on (spec 06, Budgets; docs/decisions/0057): so much is added, and
//! the parent has to have it free. Wall clock is no counter and is not raised.

use std::fmt;

use super::{Account, Counter, Limits, Spend};

/// Why a grant cannot be raised so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotRaised {
    /// No counter is to grow.
    #[error("nothing to add; give tokens, cost or turns")]
    Nothing,
    /// There is no limit to raise.
    #[error("{0} is not limited; remove it from the raise")]
    Unlimited(Counter),
    /// The sum is more than can be counted.
    #[error("{counter}: {more} added to {limit} exceeds the maximum")]
    TooMuch {
        /// Which counter.
        counter: Counter,
        /// The grant.
        limit: u64,
        /// What was to be added.
        more: u64,
    },
}

impl Limits {
    /// One counter's limit, and the others as they are.
    #[must_use]
    pub fn with(self, counter: Counter, limit: Option<u64>) -> Self {
        match counter {
            Counter::Tokens => Self { tokens: limit, ..self },
            Counter::CostMicro => Self { cost_micro: limit, ..self },
            Counter::Turns => Self { turns: limit, ..self },
        }
    }

    /// The grant with so much more in each counter; 0 leaves a counter as it is.
    ///
    /// # Errors
    /// Nothing is added, a counter that is to grow is not limited, or the sum cannot be counted.
    pub fn raised(self, more: Spend) -> Result<Self, NotRaised> {
        if more == Spend::default() {
            return Err(NotRaised::Nothing);
        }
        let mut raised = self;
        for counter in Counter::ALL {
            let more = more.of(counter);
            if more == 0 {
                continue;
            }
            let limit = self.of(counter).ok_or(NotRaised::Unlimited(counter))?;
            let sum = limit.checked_add(more);
            let sum = sum.ok_or(NotRaised::TooMuch { counter, limit, more })?;
            raised = raised.with(counter, Some(sum));
        }
        Ok(raised)
    }

    /// The higher limit of each counter; no order about a raise, however late it comes, takes
    /// anything back. What is not limited stays so.
    #[must_use]
    pub fn or_higher(self, other: Self) -> Self {
        let mut higher = self;
        for counter in Counter::ALL {
            if let (Some(own), Some(other)) = (self.of(counter), other.of(counter)) {
                higher = higher.with(counter, Some(own.max(other)));
            }
        }
        higher
    }

    /// Whether this is what a raise may make of `before`: no counter less, none limited or set free.
    #[must_use]
    pub fn is_raise_of(self, before: Self) -> bool {
        Counter::ALL.into_iter().all(|counter| match (before.of(counter), self.of(counter)) {
            (Some(before), Some(now)) => before <= now,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        })
    }
}

impl Account {
    /// How much of each counter is missing so that this much more can be carved out.
    #[must_use]
    pub fn short_of(&self, more: Spend) -> Spend {
        let missing = |short: Spend, counter| {
            let free = self.meter(counter).free().unwrap_or(u64::MAX);
            short.with(counter, more.of(counter).saturating_sub(free))
        };
        Counter::ALL.into_iter().fold(Spend::default(), missing)
    }
}

/// In words, the counters of which there is something: `500 tokens, $1.500000`.
impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for counter in Counter::ALL {
            let amount = self.of(counter);
            if amount == 0 {
                continue;
            }
            if !std::mem::take(&mut first) {
                f.write_str(", ")?;
            }
            match counter {
                Counter::Tokens | Counter::Turns => write!(f, "{amount} {counter}")?,
                Counter::CostMicro => {
                    write!(f, "${}.{:06}", amount / 1_000_000, amount % 1_000_000)?;
                }
            }
        }
        if first { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(tokens: u64, cost_micro: u64, turns: u64) -> Spend {
        Spend { tokens, cost_micro, turns }
    }

    fn limits(tokens: u64, cost_micro: u64, turns: u64) -> Limits {
        Limits { tokens: Some(tokens), cost_micro: Some(cost_micro), turns: Some(turns) }
    }

    #[test]
    fn each_counter_grows_by_the_added_amount() {
        let grant = limits(1, 2, 3);
        assert_eq!(grant.raised(spend(10, 20, 30)), Ok(limits(11, 22, 33)));
        assert_eq!(grant.raised(spend(0, 0, 1)), Ok(limits(1, 2, 4)));
        assert_eq!(grant.raised(spend(0, 0, 0)), Err(NotRaised::Nothing));
        let none = limits(0, 0, 0);
        assert_eq!(none.raised(spend(1, 0, 0)), Ok(limits(1, 0, 0)), "a grant of 0 is a limit");
    }

    #[test]
    fn raise_of_an_unlimited_counter_is_refused() {
        let grant = Limits { turns: None, ..limits(1, 2, 0) };
        assert_eq!(grant.raised(spend(1, 0, 1)), Err(NotRaised::Unlimited(Counter::Turns)));
        assert_eq!(grant.raised(spend(1, 0, 0)), Ok(Limits { tokens: Some(2), ..grant }));
    }

    #[test]
    fn overflowing_raise_is_refused() {
        let grant = limits(5, 5, 5);
        let most = u64::MAX - 5;
        for counter in Counter::ALL {
            let raise = |more| grant.raised(Spend::default().with(counter, more));
            assert_eq!(raise(most).unwrap().of(counter), Some(u64::MAX));
            let refused = NotRaised::TooMuch { counter, limit: 5, more: most + 1 };
            assert_eq!(raise(most + 1), Err(refused));
            assert!(refused.to_string().starts_with(counter.as_str()));
        }
    }

    #[test]
    fn late_raise_neither_reduces_nor_limits() {
        assert_eq!(limits(5, 2, 3).or_higher(limits(4, 3, 3)), limits(5, 3, 3));
        let free = Limits { tokens: None, ..limits(0, 2, 3) };
        assert_eq!(free.or_higher(limits(9, 2, 3)), free);
        assert_eq!(limits(9, 2, 3).or_higher(free), limits(9, 2, 3));
    }

    #[test]
    fn raise_never_reduces_limits_or_unlimits() {
        let grant = limits(5, 5, 5);
        assert!(grant.is_raise_of(grant) && limits(6, 5, 9).is_raise_of(grant));
        for counter in Counter::ALL {
            assert!(!grant.with(counter, Some(4)).is_raise_of(grant));
            assert!(!grant.with(counter, None).is_raise_of(grant));
            assert!(!grant.is_raise_of(grant.with(counter, None)));
            assert!(grant.with(counter, None).is_raise_of(grant.with(counter, None)));
        }
    }

    #[test]
    fn shortfall_is_the_amount_that_is_not_free() {
        let mut parent = Account::of(Limits { turns: None, ..limits(100, 100, 0) });
        parent.reserve(limits(30, 0, 0));
        parent.spent.tokens = 20;
        assert_eq!(parent.short_of(spend(50, 100, u64::MAX)), Spend::default());
        assert_eq!(parent.short_of(spend(51, 103, 7)), spend(1, 3, 0));
        parent.spent.tokens = 90;
        assert_eq!(parent.short_of(spend(1, 0, 0)), spend(1, 0, 0), "it is overdrawn");
        assert_eq!(parent.short_of(Spend::default()), Spend::default());
    }

    #[test]
    fn amounts_are_printed_with_their_counters() {
        assert_eq!(spend(500, 1_500_000, 20).to_string(), "500 tokens, $1.500000, 20 turns");
        assert_eq!(spend(0, 1, 0).to_string(), "$0.000001");
        assert_eq!(spend(0, 0, 0).to_string(), "nothing");
    }
}
