//! The fleet as it was, and what is not done there.

use crossterm::event::KeyCode;
use tetrarch_core::id::{RunId, Ulid};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_view::news::{FleetNews, LinkState, RunNews};

use super::Session;
use super::events::row;
use super::fleet::{NOW, change, fold, model, worker_id};
use super::screens::screen;
use crate::input::{EventWish, RosterEffect, RosterInput};
use crate::model::Pane;
use crate::past::FleetMoment;

/// When the past is.
const THEN: BusTime = BusTime(NOW.0 - 600_000);

/// The fleet after an entry, when one worker was not there yet.
pub(super) fn then(ticket: u64, seq: u64) -> RosterInput {
    let mut fold = fold();
    fold.records.agents.remove(&worker_id(3));
    RosterInput::Past { ticket, read: Ok(Box::new(FleetMoment { seq, at: THEN, fold })) }
}

fn read(ticket: u64, to: &str) -> RosterEffect {
    RosterEffect::ReadPast { ticket, to: to.to_owned() }
}

/// A roster that shows the past.
fn past() -> Session {
    let mut it = Session::of(model(120, 40));
    it.keys("t10m").key(KeyCode::Enter).give(then(1, 1_234)).done();
    it
}

fn lists(it: &Session, n: u128) -> bool {
    let id = worker_id(n);
    it.model().lines.iter().any(|line| it.model().rows[line.row].id == id)
}

#[test]
fn typed_moment_is_read_and_shown_until_one_goes_back() {
    for leaves in [KeyCode::Esc, KeyCode::Char('t')] {
        let mut it = Session::of(model(120, 40));
        it.keys("t").key(KeyCode::Enter);
        assert_eq!(it.done(), [], "no moment is none");
        it.keys("t10m");
        assert!(screen(&it).contains("a sequence): 10m"), "{}", screen(&it));
        it.key(KeyCode::Enter);
        assert_eq!(it.done(), [read(1, "10m")]);
        assert!(screen(&it).contains("reading the fleet at 10m, Esc: stay"), "{}", screen(&it));
        assert!(lists(&it, 3), "it is not read yet");
        it.give(then(1, 1_234));
        let line = "PAST: ledger 1234, 00:51:01, 10m ago, Esc: back to now";
        assert!(screen(&it).lines().next().unwrap().contains(line), "{}", screen(&it));
        assert!(!lists(&it, 3) && lists(&it, 2));
        it.key(leaves);
        assert!(lists(&it, 3) && !screen(&it).contains("PAST"), "{}", screen(&it));
        assert_eq!((it.model().now, it.done()), (NOW, Vec::new()));
    }
}

#[test]
fn moment_that_cannot_be_read_is_said_and_a_late_one_is_left_out() {
    let mut it = Session::of(model(120, 40));
    it.keys("t99").key(KeyCode::Enter);
    let why = "the ledger ends with entry 7".to_owned();
    it.give(RosterInput::Past { ticket: 1, read: Err(why) });
    let said = "the fleet as it was at 99: the ledger ends with entry 7";
    assert!(screen(&it).contains(said) && !it.model().travels(), "{}", screen(&it));
    it.keys("t5").key(KeyCode::Enter).key(KeyCode::Esc).give(then(2, 5));
    assert!(!it.model().travels() && lists(&it, 3), "nobody waits for it any more");
}

#[test]
fn past_stays_as_it_was_while_the_fleet_goes_on() {
    let mut it = past();
    it.give(RosterInput::Fleet(FleetNews::Loaded(Box::default())));
    it.give(RosterInput::Fleet(FleetNews::Linked(LinkState::Stale(NOW))));
    it.give_undrawn(RosterInput::Tick(BusTime(NOW.0 + 5_000)));
    assert!(it.model().changed && lists(&it, 2));
    assert!(screen(&it).contains("10m5s ago"), "{}", screen(&it));
    it.key(KeyCode::Esc);
    assert!(it.model().rows.is_empty(), "what came meanwhile is shown now");
    assert!(screen(&it).contains("STALE for 5s"), "{}", screen(&it));
}

#[test]
fn nothing_is_asked_for_in_the_past() {
    for keys in ["s", "i", "xy", "p", "\nsgo\n", "\np", "a\n", "a1", "an", "ajm", "ajyY", "ajno\n"]
    {
        let mut it = past();
        for key in keys.chars() {
            it.key(if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) });
            let digest = change().made.action.digest();
            it.give(RosterInput::Diff { change: change().id, digest, diff: Ok(String::new()) });
        }
        let asked = it.done().into_iter().find(|it| matches!(it, RosterEffect::Operate { .. }));
        assert_eq!((asked, &it.model().prompt), (None, &None), "{keys:?}");
        let said = screen(&it).contains("this is the past; t goes back to now");
        assert!(said, "{keys:?}:\n{}", screen(&it));
    }
}

#[test]
fn text_begun_before_the_past_came_is_not_sent_there() {
    let mut it = Session::of(model(120, 40));
    it.keys("t10m").key(KeyCode::Enter).done();
    it.keys("xy");
    assert_eq!(it.done().len(), 1, "what is shown is the fleet as it is");
    it.keys("x").give(then(1, 7)).keys("y");
    assert_eq!(it.done(), []);
}

#[test]
fn brackets_step_by_one_entry_when_the_last_one_was_read() {
    let mut it = past();
    it.keys("[[");
    assert_eq!(it.done(), [read(2, "1233")], "one at a time");
    it.give(then(2, 1_233)).keys("]");
    assert_eq!(it.done(), [read(3, "1234")]);
    it.give(then(3, 1_234)).keys("P").keys("[");
    assert_eq!(
        (it.done(), it.model().pane),
        (Vec::new(), Pane::Plan),
        "there they change the goal"
    );
    let mut it = Session::of(model(120, 40));
    it.keys("[]");
    assert_eq!(it.done(), [], "now is where it ends");
}

#[test]
fn transcript_of_the_past_ends_then() {
    let run = RunId(Ulid::from_parts(1, 2));
    let noted = |at: BusTime, text: &str| (at, JournalEvent::Log { text: text.to_owned() });
    let mut it = past();
    it.key(KeyCode::Enter);
    let later = THEN + Millis(1);
    let entries = vec![noted(THEN, "before"), noted(later, "after")];
    it.give(RosterInput::Run(RunNews::Journal { run, entries }));
    it.give(RosterInput::Run(RunNews::Text { run, text: "words of now".to_owned() }));
    let shown = screen(&it);
    assert!(shown.contains("before") && !shown.contains("after"), "{shown}");
    assert!(!shown.contains("words of now") && shown.contains("t: back to now"), "{shown}");
    it.done();
    it.keys("t");
    let done = it.done();
    let again =
        matches!(done.as_slice(), [RosterEffect::Watch(None), RosterEffect::Watch(Some(_))]);
    assert!(again && it.model().focus.entries.is_empty(), "it is read anew: {done:?}");
}

#[test]
fn plan_and_events_are_those_of_then() {
    let mut it = past();
    it.keys("P");
    assert_eq!((it.model().pane, it.model().plan.lines.len()), (Pane::Plan, 7));
    assert!(screen(&it).contains("PAST: ledger 1234"), "{}", screen(&it));
    it.keys("e");
    let until = |through| RosterEffect::Follow(Some(EventWish { agent: None, through }));
    assert_eq!(it.done(), [until(Some(1_234))]);
    it.keys("t");
    assert_eq!(it.done(), [until(None)]);
}

#[test]
fn chosen_event_leads_to_the_fleet_after_it() {
    let mut it = Session::of(model(120, 40));
    it.keys("e").give(RosterInput::Events(vec![row(77, EventKind::RunState, "it runs")])).done();
    it.key(KeyCode::Enter);
    assert_eq!(it.done(), [read(1, "77"), RosterEffect::Follow(None)]);
    it.give(then(1, 77));
    assert_eq!((it.model().pane, &it.model().selected), (Pane::Agents, &Some(worker_id(2))));
}
