//! What an agent is told when its grant was raised (spec 06, Budgets; docs/decisions/0057).

use crate::budget::Limits;
use crate::id::{AgentId, Principal};

/// A grant that was raised. It says all of the grant, not what was added, so that it may come twice
/// and late, to whichever session has the agent's run by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRaised {
    /// Whose grant.
    pub agent: AgentId,
    /// All of it, with what was added.
    pub limit: Limits,
    /// Who raised it.
    pub by: Principal,
    /// Why, in words.
    pub reason: String,
}
