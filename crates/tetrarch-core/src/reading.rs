//! What a session does with each message of its inbox (spec 02, Inbox): handle it, tell its writer
//! what was not told before a death, pass over it, or set it aside. The shell writes the cursor when a
//! message is handled, and before that when an earlier session may have died of it.

use std::collections::BTreeMap;

use crate::cursor::{Cursor, Positions};
use crate::id::Principal;
use crate::limits::RECEIPTS_OWED_MAX;
use crate::mail::Lane;
use crate::mail::receipt::{About, Receipt, Stage};

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Handle it.
    Handle {
        /// Its writer is told how far it came, when asked for.
        receipts: bool,
    },
    /// It was handled; only its writer may not have been told.
    Tell,
    /// Nothing is left to do.
    Pass,
    /// Handling it failed too often.
    GiveUp {
        /// How often.
        failures: u32,
    },
}

/// A session's reading of its inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    cursor: Cursor,
    /// Of the mail lane, what sessions before this one handled.
    before: u64,
    /// Whether that is handled once more (docs/decisions/0017).
    again: bool,
    /// Up to here an earlier session may have begun what is not handled.
    suspect: u64,
    /// How far the mail lane was taken up.
    passed: u64,
    /// The first message that was given to the session's program and is not taken by it: the position
    /// stays before it.
    in_hand: Option<u64>,
    /// Consumed, as soon as the position says so: by sequence.
    owed: BTreeMap<u64, (Principal, About)>,
}

impl Reading {
    /// Goes on from a cursor. `again`: what was handled of the mail lane is handled once more. `suspect`: the last
    /// sequence that an earlier session may have begun; 0 when there was none.
    #[must_use]
    pub fn resume(cursor: Cursor, again: bool, suspect: u64) -> Self {
        let before = cursor.positions.mail;
        let (passed, in_hand, owed) = (before, None, BTreeMap::new());
        Self { cursor, before, again, suspect, passed, in_hand, owed }
    }

    /// Whether the cursor is written before a message of the mail lane is handled, so that a death on it counts:
    /// an earlier session may have died of it (docs/decisions/0126).
    #[must_use]
    pub fn is_suspect(&self, seq: u64) -> bool {
        seq <= self.suspect
    }

    /// The cursor as it is to be written.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// After which positions the inbox is read.
    #[must_use]
    pub fn from(&self) -> Positions {
        let Positions { mail, ctl } = self.cursor.positions;
        let told = self.cursor.receipts.unwrap_or(mail);
        Positions { mail: if self.again { 0 } else { mail.min(told) }, ctl }
    }

    /// What to do with a message.
    #[must_use]
    pub fn turn(&self, lane: Lane, seq: u64) -> Turn {
        if lane == Lane::Ctl {
            return Turn::Handle { receipts: false };
        }
        let trials = &self.cursor.trials;
        if trials.is_set_aside(seq) {
            return Turn::Pass;
        }
        if trials.is_given_up(seq) {
            return Turn::GiveUp { failures: trials.failures(seq) };
        }
        let receipts = seq > self.cursor.receipts.unwrap_or(self.before);
        match (seq <= self.before, self.again) {
            (false, _) => Turn::Handle { receipts: true },
            (true, true) => Turn::Handle { receipts },
            (true, false) if receipts => Turn::Tell,
            (true, false) => Turn::Pass,
        }
    }

    /// Whether an earlier session has dealt with it: if it was set aside, that was told.
    #[must_use]
    pub fn is_old(&self, lane: Lane, seq: u64) -> bool {
        lane == Lane::Mail && seq <= self.before
    }

    /// Handling a message begins. Its writer may be owed that it is told when it is done; of too many
    /// the earliest are told at once, which this gives.
    pub fn begin(
        &mut self,
        seq: u64,
        owed: Option<(Principal, About)>,
    ) -> Vec<(Principal, Receipt)> {
        self.cursor.receipts.get_or_insert(self.before);
        self.cursor.trials.begin(seq);
        if let Some(owed) = owed {
            self.owed.insert(seq, owed);
        }
        let mut over = Vec::new();
        while self.owed.len() > RECEIPTS_OWED_MAX
            && let Some((_, owed)) = self.owed.pop_first()
        {
            over.push(consumed(owed));
        }
        over
    }

    /// It is set aside for having failed too often, and that was told.
    pub fn give_up(&mut self, seq: u64) {
        self.cursor.trials.set_aside(seq);
        self.pass(Positions { mail: seq, ctl: 0 });
    }

    /// The position moves, as far as the program has taken what it was given; it is not written yet.
    pub fn pass(&mut self, to: Positions) {
        self.passed = self.passed.max(to.mail);
        let mail = self.passed.min(self.taken());
        self.cursor.positions = self.cursor.positions.max(Positions { mail, ctl: to.ctl });
    }

    /// The program has taken all that it was given but for this message and what follows. Says whether
    /// writers wait to hear of it.
    pub fn hand_out(&mut self, in_hand: Option<u64>) -> bool {
        self.in_hand = in_hand;
        self.pass(Positions::default());
        self.owes()
    }

    /// How far the program has taken what it was given.
    fn taken(&self) -> u64 {
        self.in_hand.map_or(u64::MAX, |first| first.saturating_sub(1))
    }

    /// Everything in hand was handled, or what came of it is saved. Says whether there was anything.
    pub fn settle(&mut self) -> bool {
        self.cursor.trials.settle()
    }

    /// Whether writers wait to hear that their messages are consumed, and they are.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.owed.first_key_value().is_some_and(|(seq, _)| *seq <= self.taken())
    }

    /// What the program was given and has never taken, of which writers wait to hear: there is no
    /// program any more.
    pub fn never_taken(&mut self) -> Vec<(Principal, About)> {
        let first = self.taken().saturating_add(1);
        self.owed.split_off(&first).into_values().collect()
    }

    /// The position is kept up to here, by the cursor or the journal: who is told so now.
    pub fn kept(&mut self, through: Positions) -> Vec<(Principal, Receipt)> {
        let through = through.mail.min(self.taken());
        let later = self.owed.split_off(&through.saturating_add(1));
        let now = std::mem::replace(&mut self.owed, later);
        now.into_values().map(consumed).collect()
    }

    /// What [`Reading::kept`] gave is sent: it is not told again.
    pub fn told(&mut self) {
        let first_owed = self.owed.first_key_value().map(|(seq, _)| seq.saturating_sub(1));
        let through = first_owed.unwrap_or(self.cursor.positions.mail);
        let before = self.cursor.receipts.unwrap_or(self.before);
        self.cursor.receipts = Some(before.max(through));
    }
}

fn consumed((to, of): (Principal, About)) -> (Principal, Receipt) {
    (to, Receipt { of, stage: Stage::Consumed })
}

#[cfg(test)]
mod tests;
