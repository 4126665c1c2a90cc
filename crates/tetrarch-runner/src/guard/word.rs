//! The lines that a host and its guard say to each other through pipes: one line a word. Reads
//! and writes them; acts on none.

use std::fmt;

use tetrarch_core::words;

use super::clock::BootTime;

/// What a host says to its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardOrder {
    /// The lease holds until then.
    Beat(BootTime),
    /// Kill all at once.
    Kill,
    /// End, and touch nothing.
    End,
}

impl GuardOrder {
    /// A line; none when it says nothing known.
    pub(super) fn read(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        match (words.next()?, words.next()) {
            ("beat", Some(until)) => Some(Self::Beat(BootTime(until.parse().ok()?))),
            ("kill", None) => Some(Self::Kill),
            ("end", None) => Some(Self::End),
            _ => None,
        }
    }
}

impl fmt::Display for GuardOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beat(BootTime(until)) => write!(f, "beat {until}"),
            Self::Kill => f.write_str("kill"),
            Self::End => f.write_str("end"),
        }
    }
}

words! {
    /// What a guard says to its host.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum GuardReply {
        /// It stands guard from here.
        Ready = "ready",
        /// The deadline passed: all is frozen.
        Frozen = "frozen",
        /// The lease holds again: all runs on.
        Thawed = "thawed",
        /// All was frozen for too long and is dead.
        Expired = "expired",
        /// All is dead, as ordered.
        Killed = "killed",
    }
}

impl GuardReply {
    /// A line; none when it says nothing known.
    pub(super) fn read(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.as_str() == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_messages_round_trip() {
        for order in [GuardOrder::Beat(BootTime(17)), GuardOrder::Kill, GuardOrder::End] {
            assert_eq!(GuardOrder::read(&order.to_string()), Some(order));
        }
        for line in ["", "beat", "beat x", "beat -1", "kill 1", "end all", "freeze"] {
            assert_eq!(GuardOrder::read(line), None, "{line}");
        }
        for answer in GuardReply::ALL {
            assert_eq!(GuardReply::read(answer.as_str()), Some(answer));
        }
        assert_eq!(GuardReply::read("readyy"), None);
    }
}
