//! What asking comes to: as many answers as are paid, each counted, never more than the worst case; and what
//! went wrong.

use super::super::{Planner, metering};
use super::*;
use crate::converse::cost::Price;

#[test]
fn answers_are_limited_by_budget_and_metered() {
    let took = Tokens { input: 100, cached: 40, output: 50 };
    for (calls, answers) in [(0, 3), (1, 1), (2, 2), (3, 3), (9, 3)] {
        let paid = Planning { calls, ..planning(Purpose::Plan) };
        let mut dialogue = Dialogue::begin(&paid, Bounds::default());
        let ended = loop {
            match dialogue.answered(("no", took), |_| Vec::new()) {
                Next::Ask(again) => dialogue = *again,
                Next::End(proposal) => break proposal,
            }
        };
        let n = u64::from(answers);
        assert_eq!((ended.attempts, ended.answer), (answers, None), "{calls}");
        let sum = Tokens { input: 100 * n, cached: 40 * n, output: 50 * n };
        assert_eq!(ended.took, sum);
    }
    let (uncounted, _) = talk(Purpose::Plan, &[&plan().to_string()]);
    let bytes = Dialogue::begin(&planning(Purpose::Plan), Bounds::default()).bytes() as u64;
    assert_eq!(uncounted.took.input, bytes.div_ceil(2), "whoever does not count is counted");
    assert!(uncounted.took.output > 0);
}

#[test]
fn worst_case_cost_bounds_every_answer() {
    let price = Some(Price { input: 1_000_000, output: 2_000_000, cached: 0 });
    let planner =
        Planner { model: String::new(), bounds: Bounds::default(), output_tokens: 700, price };
    let question = planning(Purpose::Plan);
    let long = "x".repeat(PLANNER_REPEAT_BYTES_MAX + 9);
    let mut dialogue = Dialogue::begin(&question, Bounds::default());
    let (mut asked, mut bytes) = (0, 0);
    loop {
        (asked, bytes) = (asked + 1, bytes + dialogue.bytes());
        let worst = metering::worst(&planner, &question, asked);
        let output = 700 * u64::from(asked);
        let real = Tokens { input: (bytes as u64).div_ceil(2), cached: 0, output };
        let real = metering::spend(&planner, real, asked);
        assert_eq!(worst.turns, u64::from(asked));
        assert!(
            worst.tokens >= real.tokens && worst.cost_micro >= real.cost_micro,
            "{worst:?} {real:?}"
        );
        let many = |_: &Value| vec!["x".repeat(3_000); 500];
        let said = if asked == 1 { plan().to_string() } else { long.clone() };
        match dialogue.answered((&said, UNCOUNTED), many) {
            Next::Ask(again) => dialogue = *again,
            Next::End(_) => break,
        }
    }
    assert_eq!(asked, 3);
    let none = metering::worst(&Planner { price: None, ..planner }, &question, 3);
    assert_eq!(none.cost_micro, 0, "what nobody knows is not counted");
}

#[test]
fn planner_failure_is_recorded() {
    let mut dialogue = Dialogue::begin(&planning(Purpose::Plan), Bounds::default());
    dialogue.troubled("HTTP 429");
    let proposal = dialogue.clone().failed("given up");
    assert_eq!(proposal.problems, ["HTTP 429", "given up"]);
    assert_eq!((proposal.attempts, proposal.answer), (0, None));
    let Next::End(proposal) = dialogue.answered((&plan().to_string(), UNCOUNTED), |_| Vec::new())
    else {
        panic!()
    };
    assert_eq!(proposal.problems, ["HTTP 429"]);
    assert!(proposal.answer.is_some());
}

#[test]
fn unanswered_request_is_charged_for_its_input() {
    let planning = planning(Purpose::Plan);
    let mut dialogue = Dialogue::begin(&planning, Bounds::default());
    let read = crate::converse::cost::tokens_of(dialogue.bytes());
    dialogue.heard();
    dialogue.heard();
    let failed = dialogue.clone().failed("no more");
    assert_eq!((failed.took.input, failed.took.output), (2 * read, 0));
    let Next::End(end) = dialogue.answered((&plan().to_string(), UNCOUNTED), |_| Vec::new()) else {
        panic!("it is valid")
    };
    assert_eq!((end.took.input, end.attempts), (3 * read, 1));
}
