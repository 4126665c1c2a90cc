//! Keys of one agent, and whose journal is read along.

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use std::collections::VecDeque;

use crossterm::event::KeyCode;
use tetrarch_view::order::find;

use super::{RosterEffects, acting, deciding, moved};
use crate::input::{RosterEffect, WatchedRun};
use crate::model::{FocusPane, FocusTab, Pane, RosterModel};

/// Looks at whoever is selected.
pub(super) fn open(model: &mut RosterModel, effects: &mut RosterEffects) {
    if let Some(row) = model.row() {
        model.focus = FocusPane { agent: Some(row.id.clone()), ..FocusPane::default() };
        model.pane = Pane::Focus;
        watch(model, effects);
        deciding::read(model, effects);
    }
}

/// Reads along with the current run of whoever is looked at.
pub(super) fn watch(model: &mut RosterModel, effects: &mut RosterEffects) {
    let agent = model.focus.agent.as_ref().filter(|_| model.pane == Pane::Focus);
    let row = agent.and_then(|id| find(&model.rows, id));
    let wanted = row.and_then(|row| Some(WatchedRun { agent: row.id.clone(), run: row.run? }));
    if wanted != model.focus.watched {
        model.focus.entries = VecDeque::new();
        model.focus.streamed.clear();
        model.focus.watched.clone_from(&wanted);
        effects.push(RosterEffect::Watch(wanted));
    }
}

/// A key on one agent.
pub(super) fn press(model: &mut RosterModel, code: KeyCode, effects: &mut RosterEffects) {
    let at = FocusTab::ALL.iter().position(|tab| *tab == model.focus.tab).unwrap_or(0);
    let tab = match code {
        KeyCode::Tab => Some(at + 1),
        KeyCode::BackTab => Some(at + FocusTab::ALL.len() - 1),
        KeyCode::Char(digit @ '1'..='3') => Some(usize::from(digit as u8 - b'1')),
        _ => None,
    };
    if let Some(tab) = tab {
        let tab = FocusTab::ALL.get(tab % FocusTab::ALL.len()).copied().unwrap_or_default();
        (model.focus.tab, model.focus.scroll) = (tab, 0);
        deciding::read(model, effects);
        return;
    }
    match code {
        KeyCode::Esc => {
            model.pane = Pane::Agents;
            watch(model, effects);
        }
        KeyCode::Char('f') => model.focus.scroll = 0,
        KeyCode::Char('s' | 'i' | 'x' | 'p') => acting::verb(model, code, effects),
        code => {
            let page = model.list_height();
            let code = match model.focus.tab {
                // Its end is where it is followed.
                FocusTab::Transcript => turned(code),
                FocusTab::Brief | FocusTab::Change => code,
            };
            model.focus.scroll = moved(model.focus.scroll, code, page, None);
        }
    }
}

/// The key that moves the other way.
fn turned(code: KeyCode) -> KeyCode {
    match code {
        KeyCode::Char('j') | KeyCode::Down => KeyCode::Up,
        KeyCode::Char('k') | KeyCode::Up => KeyCode::Down,
        KeyCode::PageDown => KeyCode::PageUp,
        KeyCode::PageUp => KeyCode::PageDown,
        KeyCode::Char('G') | KeyCode::End => KeyCode::Home,
        code => code,
    }
}
