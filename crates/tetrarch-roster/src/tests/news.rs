//! What is heard, and when it is shown.

use tetrarch_core::id::{CommitId, RunId, Ulid};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::obstacle::Telemetry;
use tetrarch_core::run::RunState;
use tetrarch_core::time::BusTime;

use super::Session;
use super::fleet::{NOW, fold, model, worker_id};
use super::screens::screen;
use crate::input::{RosterEffect, RosterInput};
use crate::model::{ENTRIES_MAX, STREAMED_MAX};
use crossterm::event::KeyCode;
use tetrarch_view::news::{FleetNews, LinkState, RunNews};

/// An entry of the ledger with these records.
pub(super) fn entry(records: Vec<Record>) -> Entry {
    let commit = CommitId(Ulid::from_parts(1, 1));
    Entry { records, ..Entry::empty(commit, 1, BusTime(0), 0) }
}

fn ended(n: usize) -> Entry {
    let mut status = fold().records.run_status.values().nth(n).unwrap().clone();
    status.state = RunState::Done;
    entry(vec![Record::RunStatus(Box::new(status))])
}

/// The roster as it was drawn.
fn seen() -> Session {
    let mut model = model(120, 40);
    model.changed = false;
    Session::of(model)
}

#[test]
fn entries_are_shown_with_the_next_tick() {
    let mut it = seen();
    it.give_undrawn(RosterInput::Fleet(FleetNews::Entries(vec![(5, ended(0))])));
    assert!(!it.model().changed && it.model().heard);
    it.give_undrawn(RosterInput::Tick(NOW));
    assert!(it.model().changed && !it.model().heard);
    assert!(!screen(&it).contains("awaiting-input"), "{}", screen(&it));
    let mut it = seen();
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(1, ended(0))])))
        .give(RosterInput::Tick(NOW));
    assert!(screen(&it).contains("awaiting-input"), "an older entry changes nothing");
}

#[test]
fn idle_roster_is_not_drawn_again() {
    let mut it = seen();
    it.give_undrawn(RosterInput::Tick(BusTime(NOW.0 + 999)));
    assert!(!it.model().changed);
    it.give_undrawn(RosterInput::Tick(BusTime(NOW.0 + 1_000)));
    assert!(it.model().changed, "somebody works for a second longer");

    let mut model = model(120, 40);
    model.fleet.fold.records.agents.retain(|_, agent| agent.work.is_none());
    model.refresh();
    model.changed = false;
    let mut it = Session::of(model);
    let told = Telemetry { owner: true, halted: None };
    for input in [
        RosterInput::Tick(BusTime(NOW.0 + 60_000)),
        RosterInput::Fleet(FleetNews::Linked(LinkState::Live)),
        RosterInput::Fleet(FleetNews::Told(told)),
        RosterInput::Tick(BusTime(NOW.0 + 61_000)),
    ] {
        it.give_undrawn(input);
        assert!(!it.model().changed, "nobody works");
    }
}

#[test]
fn lost_bus_is_shown_as_stale_with_its_time_until_it_is_back() {
    let mut it = seen();
    it.give(RosterInput::Fleet(FleetNews::Linked(LinkState::Stale(NOW))));
    it.give(RosterInput::Tick(BusTime(NOW.0 + 12_000)));
    assert!(screen(&it).contains("STALE for 12s: the bus is away"), "{}", screen(&it));
    it.give(RosterInput::Fleet(FleetNews::Linked(LinkState::Live)));
    assert!(screen(&it).contains(" live"), "{}", screen(&it));
}

#[test]
fn journal_and_words_of_another_run_are_left_out() {
    let run = |n| RunId(Ulid::from_parts(1, n));
    let said = |n: u128, text: &str| {
        RosterInput::Run(RunNews::Text { run: run(n), text: text.to_owned() })
    };
    let noted = |n: u128, text: &str| {
        RosterInput::Run(RunNews::Journal {
            run: run(n),
            entries: vec![(NOW, JournalEvent::Log { text: text.to_owned() })],
        })
    };
    let mut it = seen();
    it.key(KeyCode::Enter);
    it.give(said(2, "these words ")).give(said(3, "others")).give(said(2, "come"));
    assert_eq!(it.model().focus.streamed, "these words come");
    it.give(noted(3, "others")).give(noted(2, "written down"));
    assert_eq!(it.model().focus.streamed, "", "what is written down needs no streaming");
    assert!(screen(&it).contains("written down") && !screen(&it).contains("others"));
    it.give(said(2, &"ä".repeat(STREAMED_MAX)));
    assert!(it.model().focus.streamed.len() <= STREAMED_MAX);
    for _ in 0..=ENTRIES_MAX {
        it.give(noted(2, "more"));
    }
    assert_eq!(it.model().focus.entries.len(), ENTRIES_MAX);
}

#[test]
fn next_run_of_an_agent_is_read_along_when_it_begins() {
    let mut it = seen();
    it.key(KeyCode::Enter);
    it.done();
    let mut agent = fold().records.agents[&worker_id(2)].clone();
    agent.work.as_mut().unwrap().run = RunId(Ulid::from_parts(1, 77));
    let next = entry(vec![Record::Agent(Box::new(agent))]);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, next)]))).give(RosterInput::Tick(NOW));
    let done = it.done();
    let [RosterEffect::Watch(Some(watched))] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!(watched.run, RunId(Ulid::from_parts(1, 77)));
    assert!(it.model().focus.entries.is_empty());
}

#[test]
fn resized_terminal_keeps_the_selection_in_sight() {
    let mut it = seen();
    it.keys("G");
    it.give(RosterInput::Resized(80, 6));
    let model = it.model();
    let place = model.place().unwrap();
    assert!((model.top..model.top + model.list_height()).contains(&place));
    assert!(screen(&it).contains("PO-demo"), "{}", screen(&it));
}
