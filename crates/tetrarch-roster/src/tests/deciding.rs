//! What is decided on is on the screen, all of it, before a yes is sent.

use crossterm::event::KeyCode;
use tetrarch_core::change::Change;
use tetrarch_core::ledger::Record;
use tetrarch_core::question::Question;
use tetrarch_view::news::FleetNews;

use super::Session;
use super::fleet::{NOW, change, model, question};
use super::news::entry;
use super::screens::screen;
use crate::input::{RosterEffect, RosterInput};
use crate::model::RosterModel;

const MARK: &str = "nothing was sent: its end was not on the screen yet";

fn diff(of: &Change, text: &str) -> RosterInput {
    let digest = of.made.action.digest();
    RosterInput::Diff { change: of.id, digest, diff: Ok(text.to_owned()) }
}

/// The inbox with a question, and the change below it chosen.
fn at_change(model: RosterModel, of: &Change) -> Session {
    let mut it = Session::of(model);
    let record = entry(vec![Record::Change(Box::new(of.clone()))]);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, record)])));
    it.give(RosterInput::Tick(NOW)).keys("aj");
    it.done();
    it
}

fn asked(session: &mut Session) -> usize {
    let done = session.done();
    done.iter().filter(|effect| matches!(effect, RosterEffect::Operate { .. })).count()
}

#[test]
fn line_wider_than_the_screen_is_wrapped_and_marked() {
    let mut it = at_change(model(80, 60), &change());
    it.give(diff(&change(), &format!("+x = 1{}eval()\n+{}\n", " ".repeat(300), "世".repeat(50))));
    let shown = screen(&it);
    let from = shown.lines().position(|line| line.starts_with("+x = 1")).unwrap();
    let rows: Vec<&str> = shown.lines().skip(from).take(6).collect();
    assert_eq!(rows[1..3], ["↳", "↳"], "{shown}");
    assert!(rows[3].starts_with('↳') && rows[3].trim_end().ends_with("eval()"), "{shown}");
    assert_eq!(rows[4], format!("+{}", "世".repeat(39)), "wide characters take two columns");
    assert_eq!(rows[5], format!("↳{}", "世".repeat(11)));
    it.give(RosterInput::Resized(200, 60));
    assert!(screen(&it).contains(&format!("+{}\n", "世".repeat(50))), "cut for the new width");
}

#[test]
fn long_names_questions_and_options_are_wrapped_to_their_end() {
    let mut of = change();
    of.made.action.files = vec![format!("src/{}/end.rs", "d".repeat(200))];
    let shown = screen(&at_change(model(80, 60), &of));
    assert!(
        shown.lines().any(|line| line.starts_with('↳') && line.ends_with("/end.rs")),
        "{shown}"
    );

    let mut it = Session::of(model(80, 60));
    let long = Question {
        text: format!("{} asked?", "word ".repeat(40)),
        options: vec!["yes".to_owned(), format!("no{}and drop all", " ".repeat(200))],
        ..question()
    };
    let record = entry(vec![Record::Question(Box::new(long))]);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, record)])));
    it.give(RosterInput::Tick(NOW)).keys("a");
    let shown = screen(&it);
    for end in ["asked?", "and drop all"] {
        assert!(shown.lines().any(|line| line.starts_with('↳') && line.ends_with(end)), "{shown}");
    }
}

#[test]
fn yes_is_refused_until_the_end_was_on_the_screen() {
    let mut it = at_change(model(80, 24), &change());
    it.give(diff(&change(), &format!("{}+the end\n", "+x\n".repeat(60))));
    assert!(!screen(&it).contains("the end"));
    it.keys("yY");
    assert_eq!(asked(&mut it), 0);
    assert!(it.model().prompt.is_none() && screen(&it).contains(MARK), "{}", screen(&it));
    for _ in 0..20 {
        it.key(KeyCode::PageDown);
    }
    assert!(screen(&it).contains("the end"), "{}", screen(&it));
    it.key(KeyCode::PageUp);
    assert!(!screen(&it).contains("the end"), "a key moves at once after the end");
    it.keys("yY");
    assert_eq!(asked(&mut it), 1, "it was there once");
}

#[test]
fn yes_is_taken_at_once_where_everything_fits_and_was_drawn() {
    let mut it = at_change(model(80, 24), &change());
    it.give_undrawn(diff(&change(), "+x\n")).keys("y");
    assert!(it.model().prompt.is_none(), "what was read was not drawn before the key");
    it.keys("yY");
    assert_eq!(asked(&mut it), 1);
    let mut it = at_change(model(19, 60), &change());
    it.give(diff(&change(), "+x\n")).keys("yY");
    assert_eq!(asked(&mut it), 0, "that screen is too narrow");
}

#[test]
fn option_below_the_screen_is_not_sent_by_its_digit() {
    let mut it = Session::of(model(80, 24));
    let long = Question { text: "line\n".repeat(40), ..question() };
    let record = entry(vec![Record::Question(Box::new(long))]);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, record)])));
    it.give(RosterInput::Tick(NOW)).keys("a2");
    assert_eq!(asked(&mut it), 0);
    for _ in 0..10 {
        it.key(KeyCode::PageDown);
    }
    it.keys("2");
    assert_eq!(asked(&mut it), 1);
}

#[test]
fn diff_above_the_bound_is_not_shown_and_not_approved() {
    for (lines, whole) in [(20_000, true), (20_001, false)] {
        let mut it = at_change(model(80, 60), &change());
        it.give(diff(&change(), &"+x\n".repeat(lines)));
        let rows = it.model().diff.as_ref().unwrap().rows.len();
        assert_eq!(rows, if whole { lines } else { 0 });
        for _ in 0..2_000 {
            it.key(KeyCode::PageDown);
        }
        let shown = screen(&it);
        assert_eq!(shown.contains("has 20001 lines"), !whole, "{shown}");
        assert_eq!(shown.contains("approve or deny"), !whole, "{shown}");
        it.keys("yY");
        assert_eq!(asked(&mut it), usize::from(whole));
    }
}
