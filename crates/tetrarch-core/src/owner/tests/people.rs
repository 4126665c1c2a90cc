//! Many people at once: nobody's turn waits for another's.

use super::conversing::{apply, asking, fleet, last_due, said};
use super::fleet::Fleet;
use crate::conversation::{TurnStatus, advance};
use crate::id::{AgentId, HumanName, Principal};
use crate::request::conversations::{ConversationOp, TurnSay};
use crate::request::{Op, Report};

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
