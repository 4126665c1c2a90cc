//! How often handling a message ended with the death of its reader's session (spec 02, Inbox: the
//! count is in the cursor before a death on the message can count; the fifth failure sets it aside).

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{FAILURES_OF_A_MESSAGE_MAX, MESSAGES_IN_HAND_MAX};

/// Messages that are being handled, and failures of those that were. By sequence in `MAIL`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trials {
    /// What this session is handling.
    pub in_hand: BTreeSet<u64>,
    /// How many sessions died while they handled it. One more than the most means that it was set
    /// aside and that this was told.
    pub failures: BTreeMap<u64, u32>,
}

impl Trials {
    /// How often handling this message failed.
    #[must_use]
    pub fn failures(&self, seq: u64) -> u32 {
        self.failures.get(&seq).copied().unwrap_or(0)
    }

    /// Whether it failed too often to be handled once more.
    #[must_use]
    pub fn is_given_up(&self, seq: u64) -> bool {
        self.failures(seq) >= FAILURES_OF_A_MESSAGE_MAX
    }

    /// Whether it was set aside for that already.
    #[must_use]
    pub fn is_set_aside(&self, seq: u64) -> bool {
        self.failures(seq) > FAILURES_OF_A_MESSAGE_MAX
    }

    /// Handling it begins. Of too many the earliest counts as handled.
    pub fn begin(&mut self, seq: u64) {
        self.in_hand.insert(seq);
        while self.in_hand.len() > MESSAGES_IN_HAND_MAX {
            self.in_hand.pop_first();
        }
    }

    /// It is set aside and that was told.
    pub fn set_aside(&mut self, seq: u64) {
        self.in_hand.remove(&seq);
        self.failures.insert(seq, FAILURES_OF_A_MESSAGE_MAX + 1);
    }

    /// All that is in hand was handled. Says whether anything was.
    pub fn settle(&mut self) -> bool {
        let settled = std::mem::take(&mut self.in_hand);
        for seq in &settled {
            self.failures.remove(seq);
        }
        !settled.is_empty()
    }

    /// The session is over. `blamed`: it died, and what it was handling may be the cause.
    pub fn end_session(&mut self, blamed: bool) {
        for seq in std::mem::take(&mut self.in_hand) {
            if blamed {
                *self.failures.entry(seq).or_default() += 1;
            }
        }
        while self.failures.len() > MESSAGES_IN_HAND_MAX {
            self.failures.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dies(trials: &mut Trials, seq: u64) {
        trials.begin(seq);
        trials.end_session(true);
    }

    #[test]
    fn message_is_retried_four_times_and_set_aside_after_the_fifth() {
        let mut trials = Trials::default();
        for failed in 1..=4 {
            dies(&mut trials, 7);
            assert_eq!((trials.failures(7), trials.is_given_up(7)), (failed, false));
        }
        dies(&mut trials, 7);
        assert_eq!((trials.failures(7), trials.is_given_up(7)), (5, true));
        assert!(!trials.is_set_aside(7));
        trials.set_aside(7);
        assert!(trials.is_given_up(7) && trials.is_set_aside(7));
        trials.end_session(true);
        assert!(trials.is_set_aside(7), "it is told once");
    }

    #[test]
    fn handled_or_unrelated_failures_are_not_counted() {
        let mut trials = Trials::default();
        dies(&mut trials, 7);
        trials.begin(7);
        trials.end_session(false);
        assert_eq!(trials.failures(7), 1, "a host was lost");
        trials.begin(7);
        trials.begin(8);
        assert!(trials.settle());
        assert_eq!(trials, Trials::default());
        assert!(!trials.settle());
        trials.end_session(true);
        assert_eq!(trials, Trials::default());
    }

    #[test]
    fn remembered_failures_are_bounded() {
        let mut trials = Trials::default();
        let all = u64::try_from(MESSAGES_IN_HAND_MAX).unwrap() + 1;
        (1..=all).for_each(|seq| trials.begin(seq));
        assert_eq!(trials.in_hand.len(), MESSAGES_IN_HAND_MAX);
        assert!(!trials.in_hand.contains(&1) && trials.in_hand.contains(&all));
        (1..=all).for_each(|seq| dies(&mut trials, seq));
        assert_eq!(trials.failures.len(), MESSAGES_IN_HAND_MAX);
    }
}
