//! Turns that schedules begin: in the background lane, one for each time that was due, told to whom the schedule says.

use super::conversing::{apply, asking, fleet, io, moved, said, say, turn, whole};
use super::fleet::{Fleet, human, po, project};
use crate::conversation::TurnStatus;
use crate::conversation::lane::TurnLane;
use crate::error::ErrorCode;
use crate::id::{EpicId, Principal, ScheduleId};
use crate::ledger::Entry;
use crate::limits::{FIRED_MAX, LANE_MAX, TURN_TEXT_BYTES_MAX};
use crate::mail::{MailBody, OpReply};
use crate::owner::Input;
use crate::request::conversations::TurnSay;
use crate::request::schedules::ScheduleOp;
use crate::request::{Op, Report};
use crate::schedule::{Deed, Rhythm, ScheduledTurn};
use crate::time::Millis;

const MINUTE: Millis = Millis::from_secs(60);

fn nightly(text: &str) -> ScheduledTurn {
    ScheduledTurn {
        conversation: "night".parse().unwrap(),
        project: project(),
        graph: None,
        text: text.to_owned(),
        tell: None,
    }
}

fn create(fleet: &mut Fleet, from: &Principal, turn: ScheduledTurn) -> OpReply {
    let deed = Box::new(Deed::Turn(turn));
    fleet.op(from, Op::Schedule(ScheduleOp::Create { rhythm: Rhythm::Every(MINUTE), deed }))
}

fn scheduled(fleet: &mut Fleet, turn: ScheduledTurn) -> ScheduleId {
    let reply = create(fleet, &human(), turn);
    assert_eq!(reply.error, None, "{}", reply.detail);
    reply.detail.parse().unwrap()
}

/// What is due next begins.
fn begun(fleet: &mut Fleet) -> Entry {
    fleet.now = fleet.records.scheduled().next().unwrap().0;
    fleet.one(Input::Tick)
}

/// Who is told what, in an entry.
fn informed(entry: &Entry) -> Vec<(String, String)> {
    let told = entry.mail.iter().filter_map(|mail| {
        let MailBody::Info { text } = &mail.body else { return None };
        Some((mail.to.to_string(), text.clone()))
    });
    told.collect()
}

/// The turn of a schedule is worked on.
fn delegated(fleet: &mut Fleet, number: u64) -> EpicId {
    begun(fleet);
    fleet.report(&io(), Report::Ready);
    moved(fleet);
    turn(fleet, "night", number).epic.unwrap()
}

#[test]
fn scheduled_turn_runs_in_the_background_and_tells_nobody() {
    let mut fleet = fleet();
    let id = scheduled(&mut fleet, nightly("look for broken links"));
    let epic = delegated(&mut fleet, 1);
    let begun = turn(&fleet, "night", 1).clone();
    assert_eq!((begun.lane, begun.schedule), (TurnLane::Background, Some(id)));
    assert_eq!(fleet.records.schedules[&id].outcome, begun.id.to_string());
    assert_eq!(say(&mut fleet, said("main", "hello")).error, None);
    assert_eq!(turn(&fleet, "main", 1).status, TurnStatus::Running, "it waits for nothing");
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).status, TurnStatus::Done);
    whole(&mut fleet, epic, "none is broken");
    moved(&mut fleet);
    let ended = turn(&fleet, "night", 1);
    assert_eq!((ended.status, ended.answer.as_str()), (TurnStatus::Done, "none is broken"));
    assert_eq!(informed(fleet.ledger.last().unwrap()), []);
}

#[test]
fn answer_of_a_scheduled_turn_goes_where_its_schedule_says() {
    let mut fleet = fleet();
    let bob = Some("bob".parse().unwrap());
    scheduled(&mut fleet, ScheduledTurn { tell: bob, ..nightly("look") });
    let epic = delegated(&mut fleet, 1);
    whole(&mut fleet, epic, "7");
    moved(&mut fleet);
    let told = informed(fleet.ledger.last().unwrap());
    let [(to, text)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(to, "human:bob");
    assert!(text.ends_with("conversation night: 7"), "{text}");
}

#[test]
fn scheduled_turn_that_is_not_done_is_told_to_its_owner() {
    let mut fleet = fleet();
    scheduled(&mut fleet, nightly("look"));
    let epic = delegated(&mut fleet, 1);
    for _attempt in 0..2 {
        let worker = fleet.worker(epic, "T1.1");
        fleet
            .end(&worker, crate::brief::RunResult::ended(crate::brief::Outcome::Failure, "no net"));
    }
    moved(&mut fleet);
    let told = informed(fleet.ledger.last().unwrap());
    let [(to, text)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(to, &human().to_string());
    assert!(text.contains("no net"), "{text}");
}

#[test]
fn scheduled_turn_answers_no_question_and_its_own_is_mailed() {
    let mut fleet = fleet();
    apply(&mut fleet, &asking("g", "which one?"));
    let graph = Some("g".parse().unwrap());
    scheduled(&mut fleet, ScheduledTurn { graph, ..nightly("begin") });
    begun(&mut fleet);
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    let told = informed(fleet.ledger.last().unwrap());
    assert!(told[0].1.contains("asks: which one?; answer with"), "{told:?}");
    begun(&mut fleet);
    assert_eq!(turn(&fleet, "night", 1).status, TurnStatus::Asking, "no person said anything");
    assert_eq!(turn(&fleet, "night", 2).status, TurnStatus::Queued, "behind it");
    let answer = TurnSay { project: None, ..said("night", "blue") };
    say(&mut fleet, answer);
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "night", 1).answer, "you said blue");
    assert_eq!(turn(&fleet, "night", 2).status, TurnStatus::Running);
}

#[test]
fn turns_that_are_due_together_keep_numbers_of_their_own() {
    let mut fleet = fleet();
    for number in 0..FIRED_MAX {
        scheduled(&mut fleet, nightly(&format!("look {number}")));
    }
    fleet.now = fleet.now + MINUTE;
    fleet.one(Input::Tick);
    let night =
        fleet.records.turns.values().filter(|turn| turn.id.conversation.as_str() == "night");
    let (ids, texts): (Vec<u64>, Vec<&str>) =
        night.map(|turn| (turn.id.number, turn.text.as_str())).unzip();
    assert_eq!(ids, (1..=FIRED_MAX as u64).collect::<Vec<u64>>());
    assert!(
        texts.iter().all(|text| texts.iter().filter(|it| it == &text).count() == 1),
        "{texts:?}"
    );
}

#[test]
fn full_background_lane_is_told_and_delays_no_conversation() {
    let mut fleet = fleet();
    let id = scheduled(&mut fleet, nightly("look"));
    for _time in 0..LANE_MAX {
        assert_eq!(informed(&begun(&mut fleet)), []);
    }
    let told = informed(&begun(&mut fleet));
    assert!(told[0].1.contains("lane_full: the lane background has 32 turns"), "{told:?}");
    assert!(fleet.records.schedules[&id].outcome.contains("lane_full"));
    say(&mut fleet, said("main", "hello"));
    assert_eq!(turn(&fleet, "main", 1).status, TurnStatus::Running);
    assert_eq!(turn(&fleet, "night", 2).status, TurnStatus::Queued, "one after another");
}

#[test]
fn turn_that_nobody_could_begin_is_not_scheduled() {
    let mut fleet = fleet();
    say(&mut fleet, said("main", "hello"));
    let graph = |name: &str| Some(name.parse().unwrap());
    let pinned = ScheduledTurn { conversation: "main".parse().unwrap(), ..nightly("look") };
    for (from, wish, error) in [
        (human(), nightly(&"x".repeat(TURN_TEXT_BYTES_MAX)), None),
        (human(), pinned.clone(), None),
        (human(), nightly(&"x".repeat(TURN_TEXT_BYTES_MAX + 1)), Some(ErrorCode::InvalidRequest)),
        (human(), nightly(" "), Some(ErrorCode::InvalidRequest)),
        (
            human(),
            ScheduledTurn { project: "none".parse().unwrap(), ..nightly("look") },
            Some(ErrorCode::NotFound),
        ),
        (
            human(),
            ScheduledTurn { graph: graph("none"), ..nightly("look") },
            Some(ErrorCode::NotFound),
        ),
        (human(), ScheduledTurn { graph: graph("g"), ..pinned }, Some(ErrorCode::Conflict)),
        (Principal::Agent(po()), nightly("look"), Some(ErrorCode::Unauthorized)),
    ] {
        let reply = create(&mut fleet, &from, wish.clone());
        assert_eq!(reply.error, error, "{from} {wish:?}: {}", reply.detail);
    }
}
