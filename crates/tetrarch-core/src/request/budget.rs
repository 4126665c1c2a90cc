//! Operations on budgets (spec 06, Budgets). Nothing here decides.

use crate::budget::Spend;
use crate::id::AgentId;

/// `budget.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetOp {
    /// `budget.raise`: an agent may spend more than it was granted. A human's.
    Raise {
        /// Whose grant.
        agent: AgentId,
        /// What is added to it; 0 leaves a counter as it is.
        more: Spend,
        /// Why.
        reason: String,
    },
}

impl BudgetOp {
    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Raise { .. } => "budget.raise",
        }
    }
}
