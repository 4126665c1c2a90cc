//! What an input does to what is shown, and what is to be done then. Keys are in the modules below, by where they
//! work.

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

mod acting;
mod agents;
mod commanding;
mod deciding;
mod events;
mod focusing;
mod travelling;
mod typing;

pub(crate) use typing::confirmed_by;

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use tetrarch_core::id::RunId;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::time::BusTime;
use tetrarch_view::news::{LinkState, NewsEffect, RunNews};

use crate::draw::conversations;
use crate::input::{RosterEffect, RosterInput};
use crate::model::{AskedAct, ENTRIES_MAX, Pane, RosterModel, STREAMED_MAX};

/// Milliseconds after which the time that somebody works is shown anew.
const TIME_SHOWN_EVERY: u64 = 1_000;
/// Lines that a turn of the wheel moves.
const WHEEL: isize = 3;

/// What is to be done, in its order.
type RosterEffects = Vec<RosterEffect>;

/// What is shown after an input, and what is to be done.
#[must_use]
pub fn update(mut model: RosterModel, input: RosterInput) -> (RosterModel, RosterEffects) {
    let mut effects = RosterEffects::new();
    // What is drawn is what a key is about; what changed since was not seen.
    if !model.changed && matches!(input, RosterInput::Key(_)) {
        deciding::note_read(&mut model);
    }
    match input {
        RosterInput::Key(key) if key.kind == KeyEventKind::Release => {}
        RosterInput::Key(key) => {
            model.changed = true;
            press(&mut model, key, &mut effects);
        }
        RosterInput::Mouse(mouse) => point(&mut model, mouse, &mut effects),
        RosterInput::Paste(text) => typing::paste(&mut model, &text),
        RosterInput::Resized(columns, lines) => {
            model.size = (columns, lines);
            if let Some(shown) = &mut model.diff {
                shown.wrap(usize::from(columns));
            }
            model.changed = true;
            model.select(model.place().unwrap_or(0));
            let (place, height) = (model.events.place, model.events_height());
            model.events.select(place, height);
        }
        RosterInput::Tick(now) => tick(&mut model, now, &mut effects),
        RosterInput::Fleet(news) => match model.live().hear(news) {
            // What is over stays as it was.
            _ if model.past.is_some() => {}
            NewsEffect::Nothing => {}
            NewsEffect::Link => model.changed = true,
            NewsEffect::Fleet => model.heard = true,
        },
        RosterInput::Run(RunNews::Journal { run, entries }) => journaled(&mut model, run, entries),
        RosterInput::Run(RunNews::Text { run, text }) => said(&mut model, run, &text),
        RosterInput::Events(news) => {
            let height = model.events_height();
            model.events.hear(news, height);
            model.changed = true;
        }
        RosterInput::Past { ticket, read } => {
            travelling::arrive(&mut model, ticket, read, &mut effects);
        }
        RosterInput::Printed { ticket, outcome } => {
            commanding::hear(&mut model, ticket, outcome);
        }
        RosterInput::Diff { change, digest, diff } => {
            let shown = model.diff.as_mut();
            let wanted = shown.filter(|shown| shown.change == change && shown.digest == digest);
            if let Some(shown) = wanted {
                shown.take(diff, usize::from(model.size.0));
                model.changed = true;
            }
        }
        RosterInput::Sent { ticket, id } => on_act(&mut model, ticket, |act| act.id = Some(id)),
        RosterInput::Answered { ticket, outcome } => {
            on_act(&mut model, ticket, |act| act.outcome = Some(outcome));
        }
    }
    events::follow(&mut model, &mut effects);
    commanding::leave(&mut model, &mut effects);
    (model, effects)
}

/// Keeps the end of the journal that is read along.
fn journaled(model: &mut RosterModel, run: RunId, entries: Vec<(BusTime, JournalEvent)>) {
    if model.is_watched(run) {
        model.focus.streamed.clear();
        let until = model.past.as_ref().map(|past| past.at);
        let then = entries.into_iter().filter(|(at, _)| until.is_none_or(|until| *at <= until));
        model.focus.entries.extend(then);
        let over = model.focus.entries.len().saturating_sub(ENTRIES_MAX);
        model.focus.entries.drain(..over);
        model.changed = true;
    }
}

/// Keeps the end of what comes since the last entry.
fn said(model: &mut RosterModel, run: RunId, text: &str) {
    if model.is_watched(run) && model.past.is_none() {
        model.focus.streamed.push_str(text);
        keep_end(&mut model.focus.streamed, STREAMED_MAX);
        model.changed = true;
    }
}

fn on_act(model: &mut RosterModel, ticket: u64, change: impl FnOnce(&mut AskedAct)) {
    if let Some(act) = model.acts.iter_mut().find(|act| act.ticket == ticket) {
        change(act);
        model.changed = true;
    }
}

/// Shows what was heard, and the time where it is shown.
fn tick(model: &mut RosterModel, now: BusTime, effects: &mut RosterEffects) {
    if let Some(past) = &mut model.past {
        // The line above everything says how long ago it is.
        if (now - past.now).0 >= TIME_SHOWN_EVERY {
            past.now = now;
            model.changed = true;
        }
        return;
    }
    let passed = now - model.now;
    let stale = matches!(model.fleet.link, LinkState::Stale(_));
    if model.heard || passed.0 >= TIME_SHOWN_EVERY && model.shows_time() {
        model.now = now;
        model.refresh();
        focusing::watch(model, effects);
        deciding::read(model, effects);
    } else if passed.0 >= TIME_SHOWN_EVERY && stale {
        model.now = now;
        model.changed = true;
    }
}

/// The end of a text, of so many bytes.
fn keep_end(text: &mut String, bytes: usize) {
    let over = text.len().saturating_sub(bytes);
    let from = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(over);
    text.drain(..from);
}

fn press(model: &mut RosterModel, key: KeyEvent, effects: &mut RosterEffects) {
    let controlled = key.modifiers.contains(KeyModifiers::CONTROL);
    if controlled && key.code == KeyCode::Char('c') {
        model.quits = true;
        return;
    }
    if model.prompt.is_some() {
        return typing::press(model, key, effects);
    }
    if controlled {
        return;
    }
    if let Some(scroll) = model.help {
        return help(model, key.code, scroll);
    }
    match key.code {
        KeyCode::Char('q') => model.quits = true,
        KeyCode::Char('?') => model.help = Some(0),
        KeyCode::Char('a') if model.pane != Pane::Inbox => deciding::open(model, effects),
        KeyCode::Char('e') if model.pane != Pane::Events => events::open(model),
        KeyCode::Char(':') => commanding::open(model),
        KeyCode::Char('t') => travelling::press(model, effects),
        KeyCode::Char(key @ ('[' | ']')) if model.past.is_some() && model.pane != Pane::Plan => {
            travelling::step(model, key == '[', effects);
        }
        KeyCode::Char('P') if model.pane != Pane::Plan => agents::open_plan(model),
        KeyCode::Char('c') if model.pane != Pane::Conversations => {
            (model.pane, model.conversations_top) = (Pane::Conversations, 0);
        }
        code => match model.pane {
            Pane::Agents => agents::press(model, code, effects),
            Pane::Focus => focusing::press(model, code, effects),
            Pane::Inbox => deciding::press(model, code, effects),
            Pane::Plan => agents::press_in_plan(model, code),
            Pane::Conversations => press_in_conversations(model, code),
            Pane::Command => commanding::press(model, code),
            Pane::Events => events::press(model, code, effects),
        },
    }
}

fn press_in_conversations(model: &mut RosterModel, code: KeyCode) {
    if matches!(code, KeyCode::Esc | KeyCode::Char('c')) {
        model.pane = Pane::Agents;
        return;
    }
    let last = conversations::count(model).saturating_sub(1);
    model.conversations_top = moved(model.conversations_top, code, model.list_height(), Some(last));
}

fn help(model: &mut RosterModel, code: KeyCode, scroll: usize) {
    model.help = match code {
        KeyCode::Esc | KeyCode::Char('?' | 'q') => None,
        code => Some(moved(scroll, code, usize::from(model.size.1), None)),
    };
}

/// A place after a key that moves it; `last` where it is known.
fn moved(place: usize, code: KeyCode, page: usize, last: Option<usize>) -> usize {
    let page = page.saturating_sub(1).max(1);
    let next = match code {
        KeyCode::Char('j') | KeyCode::Down => place.saturating_add(1),
        KeyCode::Char('k') | KeyCode::Up => place.saturating_sub(1),
        KeyCode::PageDown => place.saturating_add(page),
        KeyCode::PageUp => place.saturating_sub(page),
        KeyCode::Char('g') | KeyCode::Home => 0,
        KeyCode::Char('G') | KeyCode::End => last.unwrap_or(place),
        _ => place,
    };
    last.map_or(next, |last| next.min(last))
}

fn point(model: &mut RosterModel, mouse: MouseEvent, effects: &mut RosterEffects) {
    match mouse.kind {
        MouseEventKind::ScrollDown => wheel(model, WHEEL, effects),
        MouseEventKind::ScrollUp => wheel(model, -WHEEL, effects),
        MouseEventKind::Down(MouseButton::Left) if model.pane == Pane::Agents => {
            let Some(place) = model.line_at(mouse.row) else { return };
            model.changed = true;
            if model.place() == Some(place) {
                focusing::open(model, effects);
            } else {
                model.select(place);
            }
        }
        _ => {}
    }
}

fn wheel(model: &mut RosterModel, lines: isize, effects: &mut RosterEffects) {
    let code = if lines < 0 { KeyCode::Up } else { KeyCode::Down };
    // What a key does one line at a time.
    for _ in 0..lines.unsigned_abs() {
        model.changed = true;
        press(model, KeyEvent::new(code, KeyModifiers::NONE), effects);
    }
}
