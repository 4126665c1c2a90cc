//! What a node says of its own recovery (spec 05, The tick, `recovery_policy`): where on the ladder its
//! assignments begin, and how patient the overseer is with them. What it does not say is the operator's.

use std::fmt;

use crate::duration;
use crate::time::Millis;

use super::{Means, Patience, Rung};

/// A node's own recovery policy, which its assignments carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryPolicy {
    /// The first rung.
    pub from: Option<Rung>,
    /// Status requests and repetitions before the ladder goes on.
    pub max_retries: Option<u32>,
    /// How long an assignment may show nothing before it counts as stalled.
    pub idle_after: Option<Millis>,
    /// The same words are not sent again sooner.
    pub min_resend_interval: Option<Millis>,
    /// Whether another agent may get the work.
    pub reassign: Option<bool>,
}

impl RecoveryPolicy {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How patient the overseer is: as this says, else as the operator does.
    #[must_use]
    pub fn patience(&self, common: &Patience) -> Patience {
        Patience {
            idle_after: self.idle_after.unwrap_or(common.idle_after),
            max_retries: self.max_retries.unwrap_or(common.max_retries),
            min_resend_interval: self.min_resend_interval.unwrap_or(common.min_resend_interval),
            backoff: common.backoff,
        }
    }

    /// What the ladder may use of what there is.
    #[must_use]
    pub fn means(&self, there_is: Means) -> Means {
        Means {
            from: self.from.unwrap_or(there_is.from),
            replan: there_is.replan,
            reassign: there_is.reassign && self.reassign != Some(false),
        }
    }
}

impl fmt::Display for RecoveryPolicy {
    /// What it says, for people; nothing when it says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = [
            self.from.map(|rung| format!("from {rung}")),
            self.max_retries.map(|retries| format!("{retries} retries")),
            self.idle_after.map(|time| format!("idle after {}", duration::print(time))),
            self.min_resend_interval.map(|t| format!("the same after {}", duration::print(t))),
            self.reassign.map(|may| if may { "reassign" } else { "no reassign" }.to_owned()),
        ];
        f.write_str(&said.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_policy_field_takes_the_operators_value() {
        let (common, all) = (Patience::default(), Means { replan: true, ..Means::default() });
        let nothing = RecoveryPolicy::default();
        assert!(nothing.is_default());
        assert_eq!((nothing.patience(&common), nothing.means(all)), (common, all));
    }

    #[test]
    fn policy_precedes_the_operators_value() {
        let own = RecoveryPolicy {
            from: Some(Rung::Replan),
            max_retries: Some(0),
            idle_after: Some(Millis(1)),
            min_resend_interval: Some(Millis(2)),
            reassign: Some(false),
        };
        assert!(!own.is_default());
        let words = "from replan, 0 retries, idle after 1ms, the same after 2ms, no reassign";
        assert_eq!(own.to_string(), words);
        let common = Patience::default();
        let patience = Patience {
            max_retries: 0,
            idle_after: Millis(1),
            min_resend_interval: Millis(2),
            backoff: common.backoff,
        };
        assert_eq!(own.patience(&common), patience);
        let all = Means { replan: true, ..Means::default() };
        let from = Rung::Replan;
        assert_eq!(own.means(all), Means { from, replan: true, reassign: false });
    }

    #[test]
    fn policy_cannot_enable_unavailable_recovery() {
        let own = RecoveryPolicy { reassign: Some(true), ..RecoveryPolicy::default() };
        let none = Means { from: Rung::Nudge, replan: false, reassign: false };
        assert_eq!(own.means(none), none);
    }
}
