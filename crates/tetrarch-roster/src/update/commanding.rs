//! Command lines that are typed here, and what they print.

use crossterm::event::KeyCode;

use super::acting::ask_for;
use super::{RosterEffects, moved};
use crate::draw::command;
use crate::input::RosterEffect;
use crate::model::{CommandPane, Pane, PromptKind, RosterModel};

/// Asks for a command line; the one whose output is shown is there to be changed.
pub(super) fn open(model: &mut RosterModel) {
    ask_for(model, PromptKind::Command);
    if let (Some(prompt), Some(command)) = (&mut model.prompt, &model.command) {
        prompt.text.clone_from(&command.line);
    }
}

/// Runs a command line.
pub(super) fn run(model: &mut RosterModel, line: String, effects: &mut RosterEffects) {
    model.tickets += 1;
    let ticket = model.tickets;
    model.pane = Pane::Command;
    model.command = Some(CommandPane { ticket, line: line.clone(), outcome: None, scroll: 0 });
    effects.push(RosterEffect::Run(Some((ticket, line))));
}

/// What it came to.
pub(super) fn hear(model: &mut RosterModel, ticket: u64, outcome: Result<String, String>) {
    if let Some(command) = model.command.as_mut().filter(|command| command.ticket == ticket) {
        command.outcome = Some(outcome);
        model.changed = true;
    }
}

/// Ends a command that nobody looks at any more.
pub(super) fn leave(model: &mut RosterModel, effects: &mut RosterEffects) {
    if model.pane != Pane::Command && model.command.take().is_some() {
        effects.push(RosterEffect::Run(None));
    }
}

/// A key on what it printed.
pub(super) fn press(model: &mut RosterModel, code: KeyCode) {
    if code == KeyCode::Esc {
        model.pane = Pane::Agents;
        return;
    }
    let height = model.list_height();
    let last = command::count(model).saturating_sub(height);
    if let Some(command) = &mut model.command {
        command.scroll = moved(command.scroll, code, height, Some(last));
    }
}
