//! Keys of the events, and which of them are read along.

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use crossterm::event::KeyCode;
use tetrarch_view::event::EventRow;

use super::{RosterEffects, moved, travelling};
use crate::events::EventsPane;
use crate::input::{EventWish, RosterEffect};
use crate::model::{Pane, RosterModel};

/// Shows what happened: to the agent that is looked at, else to all.
pub(super) fn open(model: &mut RosterModel) {
    let (agent, only) = (model.subject().map(|row| row.id.clone()), model.pane == Pane::Focus);
    model.events =
        EventsPane { agent, only, wish: model.events.wish.take(), ..EventsPane::default() };
    model.pane = Pane::Events;
}

/// Reads along with the events that are shown, and no others.
pub(super) fn follow(model: &mut RosterModel, effects: &mut RosterEffects) {
    let (it, through) = (&mut model.events, model.past.as_ref().map(|past| past.seq));
    let wanted = (model.pane == Pane::Events)
        .then(|| EventWish { agent: it.agent.clone().filter(|_| it.only), through });
    if wanted != it.wish {
        it.wish.clone_from(&wanted);
        (it.rows, it.place, it.top) = (None, 0, 0);
        effects.push(RosterEffect::Follow(wanted));
    }
}

/// A key on the events.
pub(super) fn press(model: &mut RosterModel, code: KeyCode, effects: &mut RosterEffects) {
    match code {
        KeyCode::Enter => {
            let Some(EventRow { seq, event, .. }) = model.events.chosen() else { return };
            let (seq, agent) = (seq.to_string(), event.agent.clone());
            model.selected = agent.or(model.selected.take());
            model.pane = Pane::Agents;
            travelling::go(model, seq, effects);
        }
        KeyCode::Esc | KeyCode::Char('e') => model.pane = Pane::Agents,
        KeyCode::Tab => model.events.only = !model.events.only && model.events.agent.is_some(),
        code => {
            let (height, last) = (model.events_height(), model.events.last());
            let place = moved(model.events.place, code, height, Some(last));
            model.events.select(place, height);
        }
    }
}
