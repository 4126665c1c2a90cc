//! Command lines that are typed on the roster.

use crossterm::event::KeyCode;

use super::Session;
use super::fleet::model;
use super::past::then;
use super::screens::screen;
use crate::input::{RosterEffect, RosterInput};
use crate::model::Pane;

pub(super) fn printed(ticket: u64, outcome: Result<&str, &str>) -> RosterInput {
    let outcome = outcome.map(str::to_owned).map_err(str::to_owned);
    RosterInput::Printed { ticket, outcome }
}

fn runs(ticket: u64, line: &str) -> RosterEffect {
    RosterEffect::Run(Some((ticket, line.to_owned())))
}

#[test]
fn typed_command_is_run_and_what_it_prints_is_scrolled() {
    let mut it = Session::of(model(40, 10));
    it.keys(":").key(KeyCode::Enter);
    assert_eq!(it.done(), [], "an empty line is no command");
    it.keys(":goal list");
    assert!(screen(&it).contains(": tetrarch goal list"), "{}", screen(&it));
    it.key(KeyCode::Enter);
    assert_eq!((it.done(), it.model().pane), (vec![runs(1, "goal list")], Pane::Command));
    assert!(screen(&it).contains("running  tetrarch goal"), "{}", screen(&it));
    let text: String = (1..=20).map(|n| format!("line {n}\x1b[2J\n")).collect();
    it.give(printed(7, Ok("of another one"))).give(printed(1, Ok(&text)));
    let shown = screen(&it);
    assert!(shown.contains("done") && shown.contains("line 1\\u{1b}[2J"), "{shown}");
    assert!(!shown.contains("of another one") && !shown.contains("line 20"), "{shown}");
    it.keys("G");
    assert!(screen(&it).contains("line 20"), "{}", screen(&it));
    it.keys("kg");
    assert!(screen(&it).contains("line 1\\u"), "{}", screen(&it));
}

#[test]
fn command_that_is_left_is_ended() {
    for leaves in [KeyCode::Esc, KeyCode::Char('P')] {
        let mut it = Session::of(model(80, 24));
        it.keys(":events").key(KeyCode::Enter).done();
        it.key(leaves);
        assert_eq!(it.done(), [RosterEffect::Run(None)], "{leaves:?}");
        it.give_undrawn(printed(1, Ok("too late")));
        assert!(!it.model().changed && it.model().command.is_none());
    }
}

#[test]
fn failed_command_says_why_and_is_there_to_be_changed() {
    let mut it = Session::of(model(80, 24));
    it.keys(":goal lst").key(KeyCode::Enter).give(printed(1, Err("error: unrecognized")));
    assert!(screen(&it).contains("failed") && screen(&it).contains("error: unrecognized"));
    it.done();
    it.keys(":").key(KeyCode::Backspace).key(KeyCode::Backspace).keys("ist").key(KeyCode::Enter);
    assert_eq!(it.done(), [runs(2, "goal list")]);
    it.give(printed(2, Ok("")));
    assert!(screen(&it).contains("It printed nothing."), "{}", screen(&it));
}

#[test]
fn no_command_is_run_in_the_past() {
    let mut it = Session::of(model(80, 24));
    it.keys("t10m").key(KeyCode::Enter).give(then(1, 7)).done();
    it.keys(":");
    assert!(it.model().prompt.is_none() && screen(&it).contains("t goes back to now"));
}
