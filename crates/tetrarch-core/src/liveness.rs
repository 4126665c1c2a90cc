//! Where an agent stands on the bus: the five states of a session and their legal
//! transitions (spec 04). Silence is judged in `sweep`.

use crate::words::parsed_words;

parsed_words! {
    /// The five states. They belong to a session; the agent's record holds its current one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Liveness {
        /// Admitted, not heard of yet.
        Register = "register",
        /// Heard of within a window.
        Active = "active",
        /// One or two windows missed.
        Stale = "stale",
        /// Three or more windows missed.
        Offline = "offline",
        /// Ended.
        Terminated = "terminated",
    }
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

    /// The state after a heartbeat of a session whose record's epoch is `current`; none when the
    /// heartbeat is answered with `superseded` and changes nothing: it is of another epoch, or
    /// the session is offline or has ended (spec 04).
    #[must_use]
    pub fn heard(self, current: u64, epoch: u64) -> Option<Self> {
        match self {
            Self::Register | Self::Active | Self::Stale => {
                (epoch == current).then_some(Self::Active)
            }
            Self::Offline | Self::Terminated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_liveness_word_round_trips() {
        for state in Liveness::ALL {
            assert_eq!(Liveness::parse(state.as_str()), Some(state));
        }
        assert_eq!(Liveness::parse("alive"), None);
    }

    #[test]
    fn only_listed_transitions_are_legal() {
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

    #[test]
    fn only_a_living_session_of_the_current_epoch_is_heard() {
        use Liveness::{Active, Offline, Register, Stale, Terminated};
        for (state, after) in [
            (Register, Some(Active)),
            (Active, Some(Active)),
            (Stale, Some(Active)),
            (Offline, None),
            (Terminated, None),
        ] {
            assert_eq!(state.heard(2, 2), after, "{state}");
            assert_eq!(state.heard(2, 1), None, "{state}, an older epoch");
            assert_eq!(state.heard(2, 3), None, "{state}, an epoch the record has not");
        }
    }
}
