//! What would be asked of a person waits for their conversation, at both ends of the bound.

use super::*;
use crate::conversation::lane::TurnLane;
use crate::conversation::{TurnMove, TurnStatus, advance};
use crate::graph::{Delegation, Doing};
use crate::limits::ESCALATION_HELD_MAX;
use crate::owner::tests::conversing::{last_due, said};
use crate::request::conversations::{ConversationOp, TurnSay};

/// Somebody whose assignment comes to the last rung at this moment.
fn worn_out() -> (Fleet, EpicId, AgentId, BusTime) {
    let (mut fleet, epic, worker) = working(1);
    let at = wear_out(&mut fleet, &worker);
    (fleet, epic, worker, at)
}

fn say(fleet: &mut Fleet, said: TurnSay) {
    let reply = fleet.op(&human(), Op::Conversation(ConversationOp::Say(said)));
    assert_eq!(reply.error, None, "{}", reply.detail);
}

/// The person's orchestrator moves the turn that it was told of last.
fn moves(fleet: &mut Fleet, how: impl FnOnce(Doing) -> Doing) {
    let io = id("IO@Shai");
    if fleet.agent(&io).liveness != Liveness::Active {
        fleet.report(&io, Report::Ready);
    }
    let made = advance(&last_due(fleet));
    let made = TurnMove { doing: how(made.doing.clone()), ..made };
    let op = Op::Conversation(ConversationOp::Move(Box::new(made)));
    let reply = fleet.op(&Principal::Agent(io), op);
    assert_eq!(reply.error, None, "{}", reply.detail);
}

fn is_asked(fleet: &mut Fleet, at: BusTime) -> bool {
    oversee(fleet, at);
    questions(&fleet.records).iter().any(|(_, status)| *status == QuestionStatus::Open)
}

#[test]
fn escalation_waits_for_a_running_turn_and_not_longer_than_the_limit() {
    let (mut fleet, _, worker, at) = worn_out();
    say(&mut fleet, said("main", "count the files"));
    let held = oversee(&mut fleet, at);
    let told = held.events.iter().find(|event| event.kind == EventKind::Recovery).unwrap();
    assert!(told.reason.starts_with("held: a person is to be asked"), "{}", told.reason);
    assert_eq!(assignment(&fleet, &worker).status, AssignmentStatus::Stalled);
    assert!(killed(&held).is_empty(), "its attempt goes on meanwhile");
    assert_eq!(oversee(&mut fleet, at).records, [], "it is said once");
    let end = at + ESCALATION_HELD_MAX;
    assert!(!is_asked(&mut fleet, before(end)));
    assert!(is_asked(&mut fleet, end));
}

#[test]
fn escalation_goes_out_once_the_turn_has_ended() {
    let (mut fleet, _, _, at) = worn_out();
    say(&mut fleet, said("main", "hello"));
    assert!(!is_asked(&mut fleet, at));
    moves(&mut fleet, |_| Doing::Answer("hello".to_owned()));
    assert!(fleet.records.turns.values().all(|turn| turn.status == TurnStatus::Done));
    assert!(is_asked(&mut fleet, at));
}

#[test]
fn turn_that_waits_or_is_in_the_background_holds_nothing() {
    let (mut fleet, _, _, at) = worn_out();
    say(&mut fleet, said("main", "which one"));
    moves(&mut fleet, |_| Doing::Ask("which one?".to_owned()));
    say(&mut fleet, TurnSay { lane: TurnLane::Background, ..said("night", "look around") });
    assert!(fleet.records.turns.values().any(|turn| turn.status == TurnStatus::Asking));
    assert!(is_asked(&mut fleet, at));
}

#[test]
fn turn_does_not_hold_what_is_asked_about_its_own_work() {
    let mut fleet = crate::owner::tests::conversing::fleet();
    say(&mut fleet, said("main", "count the files"));
    moves(&mut fleet, |doing| {
        let Doing::Spawn(work) = doing else { panic!("{doing:?}") };
        Doing::Spawn(Delegation { attempts: 1, ..work })
    });
    let epic = fleet.records.turns.values().find_map(|turn| turn.epic).unwrap();
    let worker = fleet.worker(epic, "T1.1");
    let at = wear_out(&mut fleet, &worker);
    assert!(fleet.records.turns.values().any(|turn| turn.status == TurnStatus::Running));
    assert!(is_asked(&mut fleet, at));
}

#[test]
fn agent_that_says_it_is_blocked_is_not_kept_waiting() {
    let (mut fleet, _, worker, _) = worn_out();
    say(&mut fleet, said("main", "count the files"));
    says(&mut fleet, &worker, r#"{"status": "blocked", "blockers": ["a key for the shop"]}"#);
    assert_eq!(questions(&fleet.records).len(), 1);
}

#[test]
fn turn_whose_agent_asks_holds_nothing() {
    let mut fleet = crate::owner::tests::conversing::fleet();
    let epic = fleet.goal(plan_of(&[task("T1.1", json!({"maxAttempts": 1}))]));
    let worker = fleet.worker(epic, "T1.1");
    let at = wear_out(&mut fleet, &worker);
    say(&mut fleet, said("main", "count the files"));
    moves(&mut fleet, |doing| doing);
    let epic = fleet.records.turns.values().find_map(|turn| turn.epic).unwrap();
    let asking = fleet.worker(epic, "T1.1");
    oversee(&mut fleet, at);
    assert_eq!(questions(&fleet.records), []);
    let (run, question, options) = (fleet.run_of(&asking), "which?".to_owned(), Vec::new());
    fleet.report(&asking, Report::Ask { run, id: None, question, options });
    oversee(&mut fleet, at);
    assert_eq!(questions(&fleet.records).len(), 2);
}
