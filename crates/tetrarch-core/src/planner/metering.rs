//! What asking the planner costs (spec 06, Budgets): at worst, before anybody is asked, and in the end.

use crate::budget::Spend;
use crate::converse::cost::{Tokens, tokens_of};
use crate::limits::{LIST_MAX, PLANNER_PROBLEMS_BYTES_MAX, PLANNER_REPEAT_BYTES_MAX};

use super::dialogue::Dialogue;
use super::{Planner, Planning};

/// Bytes at most by which a question that is asked once more is longer than it was: the answer, what is wrong
/// with it, and the words between.
const REPEAT_BYTES: usize =
    PLANNER_REPEAT_BYTES_MAX + PLANNER_PROBLEMS_BYTES_MAX + 8 * LIST_MAX + 256;

/// What asking for so many answers to a question may cost at worst.
#[must_use]
pub fn worst(planner: &Planner, planning: &Planning, calls: u32) -> Spend {
    let first = Dialogue::begin(planning, planner.bounds).bytes();
    let call = |bytes: usize| {
        let input = tokens_of(bytes);
        spend(planner, Tokens { input, cached: 0, output: planner.output_tokens.into() }, 1)
    };
    let again = call(first.saturating_add(REPEAT_BYTES));
    (1..calls).fold(call(first), |sum, _| sum.plus(again))
}

/// What so many tokens of so many answers come to.
#[must_use]
pub fn spend(planner: &Planner, took: Tokens, answers: u32) -> Spend {
    Spend {
        tokens: took.input.saturating_add(took.output),
        cost_micro: planner.price.map_or(0, |price| price.of(took)),
        turns: answers.into(),
    }
}
