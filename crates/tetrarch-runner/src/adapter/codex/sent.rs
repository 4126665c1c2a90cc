//! Messages that `codex` was sent and has not begun to read, and the turn that each has joined. It drops those of a turn
//! that was interrupted, and does not say so.

use std::collections::BTreeMap;

/// One of them.
#[derive(Debug)]
struct SentMessage {
    text: String,
    /// The turn, once it is known.
    turn: Option<String>,
}

/// All of them, by their number.
#[derive(Debug, Default)]
pub(super) struct SentMessages {
    all: BTreeMap<u128, SentMessage>,
    /// The last turn that is over.
    over: String,
}

impl SentMessages {
    /// One is sent.
    pub(super) fn add(&mut self, number: u128, text: &str) {
        self.all.insert(number, SentMessage { text: text.to_owned(), turn: None });
    }

    /// One is read, or will not be.
    pub(super) fn read(&mut self, number: u128) {
        self.all.remove(&number);
    }

    /// One is to be read in this turn; false when that is over already.
    pub(super) fn joined(&mut self, number: u128, turn: String) -> bool {
        let is_over = turn == self.over;
        match self.all.get_mut(&number) {
            Some(_) if is_over => self.all.remove(&number).is_none(),
            Some(sent) => {
                sent.turn = Some(turn);
                true
            }
            // It was read before.
            None => true,
        }
    }

    /// A turn is over: what was meant for it and was not read.
    pub(super) fn turn_ended(&mut self, turn: &str) -> Vec<(u128, String)> {
        turn.clone_into(&mut self.over);
        let is_left = |_: &u128, sent: &mut SentMessage| sent.turn.as_deref() == Some(turn);
        self.all.extract_if(.., is_left).map(|(number, sent)| (number, sent.text)).collect()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
