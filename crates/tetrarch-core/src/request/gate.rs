//! Operations on changes that wait before their branches (spec 06, 09). Nothing here decides.

use crate::id::ChangeId;

/// `approval.decide`, `apply.request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateOp {
    /// `approval.decide`: a human says yes or no.
    Decide {
        /// The change.
        change: ChangeId,
        /// What becomes of it.
        verdict: GateVerdict,
        /// Why, in words; a no needs some.
        reason: String,
    },
    /// `apply.request`: what was approved is merged.
    Apply {
        /// The change.
        change: ChangeId,
    },
}

/// What a human says to a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateVerdict {
    /// Yes, to what has this digest.
    Approve {
        /// Lower-case hexadecimal sha256 of the action that was looked at.
        digest: String,
    },
    /// No.
    Deny,
}

impl GateOp {
    /// The names in subjects.
    pub const NAMES: [&str; 2] = ["approval.decide", "apply.request"];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Decide { .. } => "approval.decide",
            Self::Apply { .. } => "apply.request",
        }
    }
}
