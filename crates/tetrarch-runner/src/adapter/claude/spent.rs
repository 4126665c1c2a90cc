//! What `claude` has used, as counters that only grow: its events count by answer, by turn and by program.

use std::collections::BTreeMap;

use tetrarch_core::brief::Usage;

/// Answers of one turn that are counted one by one; more are counted when the turn ends.
const ANSWERS_MAX: usize = 10_000;
/// Longest id of one of them, in bytes.
const ID_BYTES_MAX: usize = 256;

/// The counters of one program.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Of turns that are over.
    past: Usage,
    /// Tokens in and out of the answers of this turn, by their id: an answer comes in parts, each with what it used
    /// so far.
    answers: BTreeMap<String, (u64, u64)>,
}

impl Spent {
    /// An answer, or a part of it, has used this so far.
    pub(super) fn calls(&mut self, id: String, (read, written): (u64, u64)) {
        let is_kept = id.len() <= ID_BYTES_MAX && self.answers.len() < ANSWERS_MAX;
        if is_kept || self.answers.contains_key(&id) {
            let known = self.answers.entry(id).or_default();
            *known = (known.0.max(read), known.1.max(written));
        }
    }

    /// A turn is over: what it says of itself counts, unless less than its answers came to.
    pub(super) fn turn_ended(&mut self, spent: Option<(u64, u64)>, dollars: Option<f64>) {
        let so_far = self.total();
        let (read, written) = spent.unwrap_or_default();
        let turn = Usage {
            tokens_in: self.past.tokens_in.saturating_add(read),
            tokens_out: self.past.tokens_out.saturating_add(written),
            cost_micro: dollars.map_or(0, micro),
            turns: so_far.turns,
        };
        self.past = so_far.max(turn);
        self.answers.clear();
    }

    /// All of it.
    pub(super) fn total(&self) -> Usage {
        let of = |part: fn(&(u64, u64)) -> u64| {
            self.answers.values().map(part).fold(0, u64::saturating_add)
        };
        Usage {
            tokens_in: self.past.tokens_in.saturating_add(of(|answer| answer.0)),
            tokens_out: self.past.tokens_out.saturating_add(of(|answer| answer.1)),
            cost_micro: self.past.cost_micro,
            turns: self.past.turns.saturating_add(self.answers.len() as u64),
        }
    }
}

/// Dollars in millionths, rounded up; what is no amount counts as nothing.
fn micro(dollars: f64) -> u64 {
    (dollars.max(0.0) * 1e6 - 1e-3).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_answer_count_once_and_the_turn_corrects_them() {
        let mut spent = Spent::default();
        spent.calls("a".to_owned(), (10, 1));
        spent.calls("a".to_owned(), (10, 1));
        spent.calls("b".to_owned(), (20, 2));
        let so_far = Usage { tokens_in: 30, tokens_out: 3, cost_micro: 0, turns: 2 };
        assert_eq!(spent.total(), so_far);
        spent.turn_ended(Some((30, 50)), Some(0.0005));
        let first = Usage { tokens_in: 30, tokens_out: 50, cost_micro: 500, turns: 2 };
        assert_eq!(spent.total(), first);
        spent.calls("c".to_owned(), (5, 5));
        // Its cost is of the whole program, its tokens of the turn.
        spent.turn_ended(Some((5, 5)), Some(0.000_6));
        let both = Usage { tokens_in: 35, tokens_out: 55, cost_micro: 600, turns: 3 };
        assert_eq!(spent.total(), both);
    }

    #[test]
    fn counters_never_shrink_whatever_is_claimed() {
        let mut spent = Spent::default();
        spent.calls("a".to_owned(), (10, 10));
        spent.turn_ended(Some((0, 0)), Some(f64::NAN));
        let kept = Usage { tokens_in: 10, tokens_out: 10, cost_micro: 0, turns: 1 };
        assert_eq!(spent.total(), kept);
        for dollars in [-1.0, f64::NEG_INFINITY, 0.0] {
            spent.turn_ended(None, Some(dollars));
            assert_eq!(spent.total(), kept, "{dollars}");
        }
        spent.turn_ended(Some((u64::MAX, u64::MAX)), Some(f64::INFINITY));
        spent.calls("b".to_owned(), (u64::MAX, 1));
        let most =
            Usage { tokens_in: u64::MAX, tokens_out: u64::MAX, cost_micro: u64::MAX, turns: 2 };
        assert_eq!(spent.total(), most);
    }
}
