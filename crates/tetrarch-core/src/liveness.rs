//! Where an agent stands on the bus: the five states of a session and their legal
//! transitions (spec 04). The sweeper's observation of silence will live here too.

use std::fmt;

/// The five states. They belong to a session; the agent's record holds its current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Liveness {
    /// Admitted, not heard of yet.
    Register,
    /// Heard of within a window.
    Active,
    /// One or two windows missed.
    Stale,
    /// Three or more windows missed.
    Offline,
    /// Ended.
    Terminated,
}

/// A pair that is not in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("illegal_transition: {from} -> {to}")]
pub struct IllegalLiveness {
    /// The state it is in.
    pub from: Liveness,
    /// The state that was asked for.
    pub to: Liveness,
}

impl Liveness {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Register, Self::Active, Self::Stale, Self::Offline, Self::Terminated];

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Active => "active",
            Self::Stale => "stale",
            Self::Offline => "offline",
            Self::Terminated => "terminated",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The next state, when the pair is in the table of spec 04.
    ///
    /// # Errors
    /// The pair, when it is not.
    pub fn to(self, to: Self) -> Result<Self, IllegalLiveness> {
        let legal = match (self, to) {
            (Self::Register, Self::Active | Self::Offline | Self::Terminated)
            | (Self::Active, Self::Stale | Self::Terminated)
            | (Self::Stale, Self::Active | Self::Offline | Self::Terminated)
            | (Self::Offline, Self::Terminated) => true,
            (
                Self::Register | Self::Active | Self::Stale | Self::Offline | Self::Terminated,
                Self::Register | Self::Active | Self::Stale | Self::Offline | Self::Terminated,
            ) => false,
        };
        if legal { Ok(to) } else { Err(IllegalLiveness { from: self, to }) }
    }
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pairs_of_the_table_are_legal() {
        use Liveness::{Active, Offline, Register, Stale, Terminated};
        let legal = [
            (Register, Active),
            (Register, Offline),
            (Register, Terminated),
            (Active, Stale),
            (Active, Terminated),
            (Stale, Active),
            (Stale, Offline),
            (Stale, Terminated),
            (Offline, Terminated),
        ];
        for from in Liveness::ALL {
            for to in Liveness::ALL {
                assert_eq!(from.to(to).is_ok(), legal.contains(&(from, to)), "{from} -> {to}");
            }
        }
    }
}
