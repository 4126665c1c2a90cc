//! What happened, listed and read along with.

use crossterm::event::KeyCode;
use tetrarch_core::id::NodeId;
use tetrarch_core::ledger::{Event, EventKind};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_view::event::EventRow;

use super::Session;
use super::fleet::{NOW, epic, human, model, worker_id};
use super::screens::screen;
use crate::input::{EventWish, RosterEffect, RosterInput};
use crate::model::Pane;

/// An event of the ledger's entry with this sequence.
pub(super) fn row(seq: u64, kind: EventKind, reason: &str) -> EventRow {
    let event = Event {
        kind,
        actor: human(),
        agent: Some(worker_id(2)),
        run: None,
        epic: Some(epic()),
        node: Some(NodeId::task(1, 1)),
        request: None,
        reason: reason.to_owned(),
        rule: "spec 02, Runs".to_owned(),
    };
    EventRow { seq, at: BusTime(NOW.0 - 60_000) + Millis(seq * 1_000), event }
}

fn session() -> Session {
    Session::of(model(120, 40))
}

fn wish(only: bool) -> RosterEffect {
    let agent = Some(worker_id(2)).filter(|_| only);
    RosterEffect::Follow(Some(EventWish { agent, through: None }))
}

fn many(from: u64, through: u64) -> RosterInput {
    let rows = (from..=through).map(|seq| row(seq, EventKind::RunState, &format!("no. {seq} is")));
    RosterInput::Events(rows.collect())
}

#[test]
fn events_of_all_are_followed_from_the_list_until_they_are_left() {
    for leaves in [KeyCode::Esc, KeyCode::Char('e'), KeyCode::Char('P')] {
        let mut it = session();
        it.keys("e");
        assert_eq!((it.done(), it.model().pane), (vec![wish(false)], Pane::Events));
        assert!(screen(&it).contains("Reading the ledger."), "{}", screen(&it));
        it.give(RosterInput::Events(Vec::new()));
        assert!(screen(&it).contains("No events."), "{}", screen(&it));
        it.key(leaves);
        assert_eq!(it.done(), [RosterEffect::Follow(None)], "{leaves:?}");
        assert_ne!(it.model().pane, Pane::Events, "{leaves:?}");
    }
}

#[test]
fn events_of_the_agent_that_is_looked_at_come_first_and_tab_changes_whose() {
    let mut it = session();
    it.key(KeyCode::Enter).done();
    it.keys("e").give(many(1, 3));
    assert!(it.done().contains(&wish(true)));
    assert!(screen(&it).contains(&format!("events of {}", worker_id(2))), "{}", screen(&it));
    it.key(KeyCode::Tab);
    assert_eq!(it.done(), [wish(false)]);
    assert!(it.model().events.rows.is_none(), "those of others are read anew");
    it.key(KeyCode::Tab);
    assert_eq!(it.done(), [wish(true)]);
}

#[test]
fn newest_event_stands_first_and_an_older_one_stays_selected() {
    let mut it = session();
    it.keys("e").give(many(1, 60)).give(many(61, 61));
    let shown = screen(&it);
    let first = shown.lines().nth(2).unwrap();
    assert!(first.contains("61 run.state") && first.contains("no. 61 is"), "{shown}");
    assert_eq!(it.model().events.chosen().unwrap().seq, 61, "the first one follows");
    it.keys("jj").give(many(62, 70));
    assert_eq!(it.model().events.chosen().unwrap().seq, 59);
    assert!(screen(&it).contains("no. 59 is"), "{}", screen(&it));
    it.keys("G");
    assert_eq!(it.model().events.chosen().unwrap().seq, 1);
    it.key(KeyCode::PageUp);
    assert!(it.model().events.chosen().unwrap().seq > 20);
    it.keys("g");
    assert_eq!(it.model().events.chosen().unwrap().seq, 70);
    it.give(many(71, 5_000));
    assert_eq!(it.model().events.last() + 1, 2_000, "the oldest are left out");
}

#[test]
fn selected_event_is_shown_in_full() {
    let mut it = Session::of(model(80, 24));
    let why = format!("{}end\x1b[2J", "a long story ".repeat(10));
    it.keys("e").give(RosterInput::Events(vec![row(7, EventKind::Alert, &why)]));
    let shown = screen(&it);
    for part in ["human:ada, spec 02, Runs", "end\\u{1b}[2J", &worker_id(2).to_string()] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
}
