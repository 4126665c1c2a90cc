//! What an agent has used of what it may use, as every screen shows it.

use std::fmt;

use tetrarch_core::agent::Agent;
use tetrarch_core::budget::Counter;

use crate::amount::count;
use crate::row::AgentRow;

/// What is used of one counter of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantUse {
    /// Of what.
    pub counter: Counter,
    /// What there is.
    pub limit: u64,
    /// What is used of it, with what children hold; it may be more than there is.
    pub gone: u64,
}

impl GrantUse {
    /// What an agent has used; none where it has no limit.
    #[must_use]
    pub fn of(agent: &Agent, row: &AgentRow, counter: Counter) -> Option<Self> {
        let meter = agent.account.meter(counter);
        let limit = meter.limit?;
        // What the host says is newer than what is booked.
        let told = match counter {
            Counter::Tokens => row.tokens_in.saturating_add(row.tokens_out),
            Counter::CostMicro => row.cost_micro,
            Counter::Turns => 0,
        };
        // Of an orchestrator all below it counts, of a run what it used and not what it drew ahead.
        let own =
            if row.run.is_some() { agent.account.used.of(counter).max(told) } else { meter.spent };
        Some(Self { counter, limit, gone: own.saturating_add(meter.reserved) })
    }

    /// The part that is used, in percent.
    #[must_use]
    pub fn percent(self) -> u128 {
        u128::from(self.gone) * 100 / u128::from(self.limit.max(1))
    }
}

impl fmt::Display for GrantUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount: u64| match self.counter {
            Counter::Tokens | Counter::Turns => count(amount),
            Counter::CostMicro => format!("${}.{:02}", amount / 1_000_000, amount / 10_000 % 100),
        };
        write!(f, "{}% of {}, {} used", self.percent(), shown(self.limit), shown(self.gone))
    }
}
