//! Budgets: what a parent may spend and what is carved out of it for its children
//! (spec 03, Limits per parent; spec 06, Budgets). Wall clock is a deadline, not a counter.

use crate::words::parsed_words;

mod raising;

pub use raising::NotRaised;

/// A limit per counter; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Model tokens.
    pub tokens: Option<u64>,
    /// Cost in millionths of a dollar.
    pub cost_micro: Option<u64>,
    /// Turns of the agent's loop.
    pub turns: Option<u64>,
}

/// An amount per counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spend {
    /// Model tokens.
    pub tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro: u64,
    /// Turns of the agent's loop.
    pub turns: u64,
}

impl Spend {
    /// Adds counter by counter, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_micro: self.cost_micro.saturating_add(other.cost_micro),
            turns: self.turns.saturating_add(other.turns),
        }
    }

    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            cost_micro: self.cost_micro.max(other.cost_micro),
            turns: self.turns.max(other.turns),
        }
    }

    /// The same with another amount of one counter.
    #[must_use]
    pub fn with(self, counter: Counter, amount: u64) -> Self {
        match counter {
            Counter::Tokens => Self { tokens: amount, ..self },
            Counter::CostMicro => Self { cost_micro: amount, ..self },
            Counter::Turns => Self { turns: amount, ..self },
        }
    }

    /// One counter's amount.
    #[must_use]
    pub fn of(self, counter: Counter) -> u64 {
        match counter {
            Counter::Tokens => self.tokens,
            Counter::CostMicro => self.cost_micro,
            Counter::Turns => self.turns,
        }
    }

    /// Subtracts counter by counter, stopping at zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost_micro: self.cost_micro.saturating_sub(other.cost_micro),
            turns: self.turns.saturating_sub(other.turns),
        }
    }
}

impl Limits {
    /// One counter's limit; `None` means unlimited.
    #[must_use]
    pub fn of(self, counter: Counter) -> Option<u64> {
        match counter {
            Counter::Tokens => self.tokens,
            Counter::CostMicro => self.cost_micro,
            Counter::Turns => self.turns,
        }
    }

    /// The limits as an amount; an unlimited counter counts as nothing, since nothing was
    /// carved out of the parent for it.
    #[must_use]
    pub fn carved(self) -> Spend {
        Spend {
            tokens: self.tokens.unwrap_or(0),
            cost_micro: self.cost_micro.unwrap_or(0),
            turns: self.turns.unwrap_or(0),
        }
    }
}

impl From<Spend> for Limits {
    /// As much as that of each counter.
    fn from(amount: Spend) -> Self {
        Self {
            tokens: Some(amount.tokens),
            cost_micro: Some(amount.cost_micro),
            turns: Some(amount.turns),
        }
    }
}

parsed_words! {
    /// A counter's name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Counter {
        /// Model tokens.
        Tokens = "tokens",
        /// Cost in millionths of a dollar.
        CostMicro = "cost",
        /// Turns.
        Turns = "turns",
    }
}

/// A request for more than is free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budget_exceeded: {counter}: {requested} requested, {free} free")]
pub struct BudgetExceeded {
    /// Which counter.
    pub counter: Counter,
    /// What was asked for.
    pub requested: u64,
    /// What is free.
    pub free: u64,
}

/// One counter of an agent's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meter {
    /// The grant; `None` means unlimited.
    pub limit: Option<u64>,
    /// Carved out for children that have not ended.
    pub reserved: u64,
    /// Used by the agent and by its ended children.
    pub spent: u64,
}

impl Meter {
    /// What is neither spent nor carved out; `None` means unlimited.
    #[must_use]
    pub fn free(self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.reserved).saturating_sub(self.spent))
    }

    /// Whether the grant is used up: at 100 % the run ends at its next boundary (spec 06).
    #[must_use]
    pub fn exceeded(self) -> bool {
        self.limit.is_some_and(|limit| self.spent.saturating_add(self.reserved) >= limit)
    }

    /// Whether a call of this worst case may be made.
    #[must_use]
    pub fn allows(self, worst_case: u64) -> bool {
        self.free().is_none_or(|free| worst_case <= free)
    }

    /// The grant of a child: what it asks for, else an equal share of what is free.
    fn carve(
        self,
        counter: Counter,
        requested: Option<u64>,
        free_slots: usize,
    ) -> Result<Option<u64>, BudgetExceeded> {
        match (self.free(), requested) {
            (None, requested) => Ok(requested),
            (Some(free), None) => Ok(Some(free / (free_slots.max(1) as u64))),
            (Some(free), Some(requested)) if requested <= free => Ok(Some(requested)),
            (Some(free), Some(requested)) => Err(BudgetExceeded { counter, requested, free }),
        }
    }
}

/// An agent's account over all counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// The grant.
    pub limit: Limits,
    /// Carved out for children that have not ended, or whose end is not settled.
    pub reserved: Spend,
    /// Drawn or used by the agent, and used by its ended children.
    pub spent: Spend,
    /// The part of `spent` that the agent drew for its own runs, before they use it.
    pub drawn: Spend,
    /// The part of `spent` that its own runs are known to have used; of what is drawn and what is
    /// used, the higher is spent.
    pub used: Spend,
}

impl Account {
    /// A fresh account of this grant.
    #[must_use]
    pub fn of(limit: Limits) -> Self {
        Self { limit, ..Self::default() }
    }

    /// One counter's meter.
    #[must_use]
    pub fn meter(&self, counter: Counter) -> Meter {
        Meter {
            limit: self.limit.of(counter),
            reserved: self.reserved.of(counter),
            spent: self.spent.of(counter),
        }
    }

    /// Books what the agent's own runs used.
    pub fn charge(&mut self, used: Spend) {
        self.own(self.drawn, self.used.plus(used));
    }

    /// Draws the agent's own spending ahead, up to `total` for all its runs, as far as it is free;
    /// what is not limited needs no drawing. Less than was drawn before changes nothing.
    pub fn draw(&mut self, total: Spend) {
        let mut drawn = self.drawn;
        for counter in Counter::ALL {
            let Some(free) = self.meter(counter).free() else { continue };
            let own = self.drawn.of(counter).max(self.used.of(counter));
            let within = total.of(counter).min(own.saturating_add(free));
            drawn = drawn.with(counter, drawn.of(counter).max(within));
        }
        self.own(drawn, self.used);
    }

    /// Gives back what was drawn and not used, and what was carved out: the agent has ended.
    pub fn close(&mut self) {
        self.own(Spend::default(), self.used);
        self.reserved = Spend::default();
    }

    /// What is known to have been used, whatever is drawn. It only grows.
    #[must_use]
    pub fn used_in_all(&self) -> Spend {
        self.spent.minus(self.drawn.max(self.used)).plus(self.used)
    }

    fn own(&mut self, drawn: Spend, used: Spend) {
        self.spent = self.spent.minus(self.drawn.max(self.used)).plus(drawn.max(used));
        self.drawn = drawn;
        self.used = used;
    }

    /// The tokens' meter.
    #[must_use]
    pub fn tokens(&self) -> Meter {
        self.meter(Counter::Tokens)
    }

    /// The cost's meter.
    #[must_use]
    pub fn cost(&self) -> Meter {
        self.meter(Counter::CostMicro)
    }

    /// The turns' meter.
    #[must_use]
    pub fn turns(&self) -> Meter {
        self.meter(Counter::Turns)
    }

    /// What a child would be granted; changes nothing. `free_slots` includes the child's own.
    ///
    /// # Errors
    /// The first counter of which more is asked for than is free.
    pub fn carve(&self, requested: Limits, free_slots: usize) -> Result<Limits, BudgetExceeded> {
        Ok(Limits {
            tokens: self.tokens().carve(Counter::Tokens, requested.tokens, free_slots)?,
            cost_micro: self.cost().carve(Counter::CostMicro, requested.cost_micro, free_slots)?,
            turns: self.turns().carve(Counter::Turns, requested.turns, free_slots)?,
        })
    }

    /// Takes what something may cost at worst out of the free amount, as far as it is limited; gives what is
    /// set aside, for [`settle`](Self::settle) to return.
    ///
    /// # Errors
    /// The first counter of which less is free.
    pub fn set_aside(&mut self, worst: Spend) -> Result<Limits, BudgetExceeded> {
        let mut aside = Spend::default();
        for counter in Counter::ALL {
            let Some(free) = self.meter(counter).free() else { continue };
            let requested = worst.of(counter);
            if requested > free {
                return Err(BudgetExceeded { counter, requested, free });
            }
            aside = aside.with(counter, requested);
        }
        let aside = aside.into();
        self.reserve(aside);
        Ok(aside)
    }

    /// Takes a child's grant out of the free amount.
    pub fn reserve(&mut self, grant: Limits) {
        self.reserved = self.reserved.plus(grant.carved());
    }

    /// Returns a child's grant and books what it spent.
    pub fn settle(&mut self, grant: Limits, spent: Spend) {
        self.reserved = self.reserved.minus(grant.carved());
        self.spent = self.spent.plus(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(tokens: u64) -> Account {
        Account::of(Limits { tokens: Some(tokens), ..Limits::default() })
    }

    #[test]
    fn child_may_ask_for_the_free_amount_and_no_more() {
        let mut parent = account(100);
        parent.reserve(Limits { tokens: Some(30), ..Limits::default() });
        parent.spent.tokens = 20;
        let ask = |n| Limits { tokens: Some(n), ..Limits::default() };
        assert_eq!(parent.carve(ask(50), 1).unwrap().tokens, Some(50));
        assert_eq!(
            parent.carve(ask(51), 1).unwrap_err(),
            BudgetExceeded { counter: Counter::Tokens, requested: 51, free: 50 }
        );
    }

    #[test]
    fn unspecified_budget_is_an_equal_share_below_a_limit() {
        let parent = account(100);
        assert_eq!(parent.carve(Limits::default(), 3).unwrap().tokens, Some(33));
        assert_eq!(parent.carve(Limits::default(), 1).unwrap().tokens, Some(100));
        assert_eq!(parent.carve(Limits::default(), 3).unwrap().turns, None);
    }

    #[test]
    fn settled_grant_equals_spent_plus_returned() {
        let mut parent = account(100);
        let grant = parent.carve(Limits { tokens: Some(40), ..Limits::default() }, 3).unwrap();
        parent.reserve(grant);
        assert_eq!(parent.tokens().free(), Some(60));
        parent.settle(grant, Spend { tokens: 15, ..Spend::default() });
        assert_eq!(parent.tokens().free(), Some(85));
        assert_eq!(parent.reserved, Spend::default());
    }

    #[test]
    fn drawn_amount_is_spent_once_and_unused_part_returned() {
        let tokens = |tokens| Spend { tokens, ..Spend::default() };
        let mut agent = account(100);
        agent.reserve(Limits { tokens: Some(40), ..Limits::default() });
        agent.draw(tokens(10));
        assert_eq!((agent.spent, agent.tokens().free()), (tokens(10), Some(50)));
        agent.charge(tokens(4));
        assert_eq!((agent.spent, agent.used_in_all()), (tokens(10), tokens(4)));
        agent.draw(tokens(61));
        assert_eq!((agent.drawn, agent.tokens().free()), (tokens(60), Some(0)), "no more is free");
        agent.draw(tokens(20));
        assert_eq!(agent.drawn, tokens(60));
        agent.settle(Limits { tokens: Some(40), ..Limits::default() }, tokens(15));
        assert_eq!((agent.spent, agent.used_in_all()), (tokens(75), tokens(19)));
        agent.charge(tokens(60));
        assert_eq!(agent.spent, tokens(79), "it used more than it drew");
        agent.close();
        assert_eq!((agent.spent, agent.drawn), (tokens(79), Spend::default()));
        let mut unlimited = Account::default();
        unlimited.draw(tokens(5));
        assert_eq!(unlimited, Account::default());
    }

    #[test]
    fn reservation_must_fit_and_its_unused_part_returns() {
        let worst = Spend { tokens: 60, cost_micro: 1_000, turns: 2 };
        for (free, fits) in [(60, true), (59, false)] {
            let mut payer = account(100);
            payer.spent.tokens = 100 - free;
            let aside = payer.set_aside(worst);
            let Ok(aside) = aside else {
                let refused = BudgetExceeded { counter: Counter::Tokens, requested: 60, free };
                assert_eq!((aside.unwrap_err(), fits, payer.reserved.tokens), (refused, false, 0));
                continue;
            };
            assert!(fits);
            assert_eq!(
                payer.reserved,
                Spend { tokens: 60, ..Spend::default() },
                "of what is limited"
            );
            assert_eq!(payer.tokens().free(), Some(0));
            payer.settle(aside, Spend { tokens: 7, cost_micro: 3, turns: 1 });
            assert_eq!(payer.reserved, Spend::default());
            assert_eq!(payer.spent, Spend { tokens: 47, cost_micro: 3, turns: 1 });
        }
        let mut unlimited = Account::default();
        assert_eq!(unlimited.set_aside(worst).unwrap().carved(), Spend::default());
        assert_eq!(unlimited, Account::default());
    }

    #[test]
    fn every_counter_is_carved_separately() {
        let limit = Limits { tokens: Some(100), cost_micro: Some(200), turns: Some(300) };
        let mut parent = Account::of(limit);
        let half = Limits { tokens: Some(50), cost_micro: Some(100), turns: Some(150) };
        parent.reserve(parent.carve(half, 1).unwrap());
        parent.spent = Spend { tokens: 10, cost_micro: 20, turns: 30 };
        let free = [parent.tokens(), parent.cost(), parent.turns()].map(Meter::free);
        assert_eq!(free, [Some(40), Some(80), Some(120)]);
        let (none, counters) =
            (Limits::default(), [Counter::Tokens, Counter::CostMicro, Counter::Turns]);
        let too_much = [
            Limits { tokens: Some(41), ..none },
            Limits { cost_micro: Some(81), ..none },
            Limits { turns: Some(121), ..none },
        ];
        for (asked, counter) in too_much.into_iter().zip(counters) {
            let refused = parent.carve(asked, 1).unwrap_err();
            assert_eq!(refused.counter, counter);
            assert!(refused.to_string().contains(&counter.to_string()), "{refused}");
            assert!(!counter.to_string().is_empty());
        }
    }

    #[test]
    fn counter_is_exhausted_at_its_limit_not_before() {
        let meter = |spent| Meter { limit: Some(10), reserved: 0, spent };
        assert!(!meter(9).exceeded());
        assert!(meter(10).exceeded());
        assert!(meter(9).allows(1) && !meter(9).allows(2));
    }
}
