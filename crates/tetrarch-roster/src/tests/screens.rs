//! Every view at three sizes as it is drawn, written down in `tests/golden/roster`. A screen that changes is looked at
//! by a person: `TETRARCH_BLESS=1` writes down what is drawn now.

use std::fs;
use std::path::PathBuf;

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use tetrarch_core::brief::Usage;
use tetrarch_core::converse::{Call, Recorded};
use tetrarch_core::id::{RunId, Ulid};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::time::{BusTime, Millis};
use unicode_width::UnicodeWidthStr;

use super::Session;
use super::commands::printed;
use super::events::row;
use super::fleet::{DIFF, NOW, change, model};
use super::past::then;
use crate::draw::draw;
use crate::input::RosterInput;
use crate::model::RosterModel;
use tetrarch_view::news::{FleetNews, LinkState, RunNews};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (300, 60)];
const BLESS: &str = "TETRARCH_BLESS";

/// What a roster looks like.
fn drawn(model: &RosterModel) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The text of a screen, without blanks at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for line in buffer.content.chunks(usize::from(buffer.area.width)) {
        let mut shown = String::new();
        let mut skipped = 0_usize;
        for cell in line {
            if skipped == 0 {
                shown.push_str(cell.symbol());
                skipped = cell.symbol().width().saturating_sub(1);
            } else {
                skipped -= 1;
            }
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn screen(session: &Session) -> String {
    text(&drawn(session.model()))
}

fn golden(name: &str, session: &Session, wrong: &mut Vec<String>) {
    let (columns, lines) = session.model().size;
    let shown = screen(session);
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/roster");
    let file = dir.join(format!("{name}-{columns}x{lines}.txt"));
    if std::env::var_os(BLESS).is_some() {
        fs::create_dir_all(&dir).unwrap();
        fs::write(&file, &shown).unwrap();
    }
    if fs::read_to_string(&file).unwrap_or_default() != shown {
        wrong.push(format!("{}\n{shown}", file.display()));
    }
    assert!(!shown.contains('\x1b') && !shown.contains('\u{202e}'), "{shown}");
}

fn journal() -> RosterInput {
    let call = Call {
        id: "1".to_owned(),
        tool: "read".to_owned(),
        arguments: "{\"path\":\"a.md\"}".to_owned(),
    };
    let text = "I read the first page \x1b[1mnow\x1b[0m.\nThen the others.".to_owned();
    let turn = Recorded::Turn { step: 1, text, calls: vec![call], is_cut: false };
    let question = "Which of the two?".to_owned();
    let events = [
        JournalEvent::Starting { host: "box".to_owned() },
        JournalEvent::Usage(Usage { tokens_in: 10, ..Usage::default() }),
        JournalEvent::Conversed(Box::new(turn)),
        JournalEvent::Log { text: "x".repeat(400) },
        JournalEvent::Ask { question, options: Vec::new() },
    ];
    let stored = (0..).map(|place| BusTime(NOW.0 - 60_000) + Millis(place * 1_000));
    RosterInput::Run(RunNews::Journal {
        run: RunId(Ulid::from_parts(1, 2)),
        entries: stored.zip(events).collect(),
    })
}

fn happened() -> RosterInput {
    RosterInput::Events(vec![
        row(998, EventKind::RunState, "running: it was claimed by box"),
        row(999, EventKind::Question, "Which of the two \x1b[1mformats\x1b[0m?\n世界"),
        row(1_000, EventKind::Recovery, &"its host was away and came back, ".repeat(9)),
    ])
}

#[test]
fn every_view_is_drawn_as_written_down_at_three_sizes() {
    let mut wrong = Vec::new();
    for (columns, lines) in SIZES {
        let mut it = Session::of(model(columns, lines));
        golden("agents", &it, &mut wrong);
        it.keys("d/report");
        golden("filter", &it, &mut wrong);
        it.key(KeyCode::Esc).keys("d");
        it.key(KeyCode::Enter).give(journal());
        let words = RosterInput::Run(RunNews::Text {
            run: RunId(Ulid::from_parts(1, 2)),
            text: "The answer may\nbe\x1b[2J".to_owned(),
        });
        it.give(words);
        golden("transcript", &it, &mut wrong);
        it.keys("2");
        golden("brief", &it, &mut wrong);
        it.keys("a");
        golden("question", &it, &mut wrong);
        it.keys("j");
        let digest = change().made.action.digest();
        it.give(RosterInput::Diff { change: change().id, digest, diff: Ok(DIFF.to_owned()) });
        golden("change", &it, &mut wrong);
        it.keys("P");
        golden("plan", &it, &mut wrong);
        it.keys("c");
        golden("conversations", &it, &mut wrong);
        it.keys("e").give(happened());
        golden("events", &it, &mut wrong);
        it.keys("?");
        golden("help", &it, &mut wrong);
        it.key(KeyCode::Esc).key(KeyCode::Esc).keys("x");
        it.give(RosterInput::Fleet(FleetNews::Linked(LinkState::Stale(NOW))));
        golden("stop", &it, &mut wrong);
        it.key(KeyCode::Esc).keys("t10m").key(KeyCode::Enter).give(then(1, 1_234));
        golden("past", &it, &mut wrong);
        it.keys("t:goal list").key(KeyCode::Enter);
        it.give(printed(2, Ok("GOAL  STATE\ngoal_1  active  世界 \x1b[2J\n")));
        golden("command", &it, &mut wrong);
    }
    let all = wrong.join("\n");
    assert!(wrong.is_empty(), "{} differ ({BLESS}=1 writes them down):\n{all}", wrong.len());
}

#[test]
fn unwanted_colours_are_absent_and_words_stay() {
    let mut coloured = model(120, 40);
    let colours = |model: &RosterModel| {
        let buffer = drawn(model);
        buffer.content.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(&coloured) > 0);
    let words = text(&drawn(&coloured));
    coloured.coloured = false;
    assert_eq!(colours(&coloured), 0);
    assert_eq!(text(&drawn(&coloured)), words);
    assert!(words.contains("awaiting-input") && words.contains("input"), "{words}");
}

#[test]
fn every_key_of_the_labels_is_in_the_help() {
    let mut it = Session::of(model(120, 60));
    it.keys("?");
    let help = screen(&it);
    for key in [
        "s", "i", "x", "p", "⏎", "a", "P", "/", "?", "q", "Tab", "f", "y", "n", "m", "d", "r", "e",
        "t", "[ ]", ":",
    ] {
        let named = help.lines().any(|line| line.trim_start().starts_with(key));
        assert!(named, "{key} is missing:\n{help}");
    }
}

#[test]
fn narrow_terminal_keeps_the_labels_of_help_and_quit() {
    for (columns, kept) in [(80, "s steer"), (79, "s steer"), (30, "s steer"), (13, "")] {
        let shown = screen(&Session::of(model(columns, 24)));
        let labels = shown.lines().last().unwrap();
        let is_whole = labels.starts_with(kept) && labels.ends_with("? help q quit");
        assert!(is_whole && labels.width() <= usize::from(columns), "{columns}: {labels}");
    }
}

#[test]
fn smallest_terminal_is_drawn_without_panic() {
    for (columns, lines) in [(0, 0), (1, 1), (2, 3), (10, 4), (20, 2)] {
        let mut it = Session::of(model(columns, lines));
        for keys in ["", "\n", "2", "3", "a", "P", "e", "?"] {
            for key in keys.chars() {
                it.key(if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) });
            }
            drawn(it.model());
        }
    }
}
