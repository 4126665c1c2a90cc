//! Many people at once, and many turns of one: nobody's turn waits for another's, and none costs more for those before it.

use std::time::Duration;

use super::conversing::{apply, asking, fleet, last_due, said};
use super::fleet::{Fleet, human};
use crate::conversation::{Turn, TurnId, TurnStatus, advance};
use crate::id::{AgentId, HumanName, Principal};
use crate::ledger::Record;
use crate::limits::STEP_BYTES_MAX;
use crate::owner::{decide, weight};
use crate::request::conversations::{ConversationOp, TurnSay};
use crate::request::{Op, Report, RequestBody};

#[test]
fn turns_of_a_hundred_people_run_side_by_side() {
    let mut fleet = fleet();
    apply(&mut fleet, &asking("g", "which one?"));
    let people: Vec<HumanName> =
        (0..100).map(|number| format!("p{number}").parse().unwrap()).collect();
    let spoken = |fleet: &mut Fleet, human: &HumanName, said: TurnSay| {
        fleet.op(&Principal::Human(human.clone()), Op::Conversation(ConversationOp::Say(said)))
    };
    let advanced = |fleet: &mut Fleet, human: &HumanName| {
        let made = Op::Conversation(ConversationOp::Move(Box::new(advance(&last_due(fleet)))));
        let io = AgentId::Io(human.clone());
        let reply = fleet.op(&Principal::Agent(io), made);
        assert_eq!(reply.error, None, "{}", reply.detail);
    };
    for human in &people {
        let first = TurnSay { graph: Some("g".parse().unwrap()), ..said("main", "begin") };
        assert_eq!(spoken(&mut fleet, human, first).error, None);
        fleet.report(&AgentId::Io(human.clone()), Report::Ready);
        advanced(&mut fleet, human);
    }
    let all = |fleet: &Fleet, status: TurnStatus| {
        fleet.records.turns.values().filter(|turn| turn.status == status).count()
    };
    assert_eq!(all(&fleet, TurnStatus::Asking), people.len());
    for human in people.iter().rev() {
        let answered = TurnSay { project: None, ..said("main", &format!("I am {human}")) };
        assert_eq!(spoken(&mut fleet, human, answered).error, None);
        advanced(&mut fleet, human);
    }
    assert_eq!(all(&fleet, TurnStatus::Done), people.len());
    for (id, turn) in &fleet.records.turns {
        assert_eq!(turn.answer, format!("you said I am {}", id.human));
    }
}

/// How long it takes to decide what a person says next, with so many turns before.
#[expect(
    clippy::disallowed_types,
    reason = "the test measures a decision, which itself reads no clock"
)]
fn time_of_a_turn(before: u64) -> Duration {
    let mut fleet = fleet();
    let first = said("main", "hello");
    let op = |said: TurnSay| Op::Conversation(ConversationOp::Say(said));
    assert_eq!(fleet.op(&human(), op(first.clone())).error, None);
    let one = fleet.records.turns.values().next().unwrap().clone();
    for number in 1..=before {
        let id = TurnId { number, ..one.id.clone() };
        let turn = Turn { id, status: TurnStatus::Done, order: number, ..one.clone() };
        fleet.records.put(Record::Turn(Box::new(turn)));
    }
    let input = fleet.asking(&human(), RequestBody::Op(op(first)));
    let took = (0..200).map(|_| {
        let began = std::time::Instant::now();
        let step = decide(&fleet.records, &fleet.policy, fleet.now, &input);
        assert!(weight::step(&fleet.records, &step) < STEP_BYTES_MAX / 16, "its size is its own");
        began.elapsed()
    });
    took.min().unwrap()
}

#[test]
fn turn_after_ten_thousand_others_takes_no_longer_than_the_second() {
    let (second, last) = (time_of_a_turn(1), time_of_a_turn(10_000));
    assert!(last < second * 4 + Duration::from_millis(1), "{second:?} {last:?}");
}
