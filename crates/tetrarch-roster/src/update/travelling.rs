//! To a moment of the past and back to now (spec 08, Page). Nothing is asked for there: it is over.

use tetrarch_core::obstacle::Telemetry;
use tetrarch_view::news::{FleetImage, LinkState};

use super::{RosterEffects, acting, deciding, focusing};
use crate::input::RosterEffect;
use crate::model::{AskedAct, PromptKind, RosterModel};
use crate::past::{FleetMoment, PastView, TravelWish};

/// Asks for a moment; goes back to now when another one is shown or read.
pub(super) fn press(model: &mut RosterModel, effects: &mut RosterEffects) {
    if model.travels() {
        back(model, effects);
    } else {
        acting::type_for(model, PromptKind::Moment);
    }
}

/// Reads the fleet of a moment.
pub(super) fn go(model: &mut RosterModel, to: String, effects: &mut RosterEffects) {
    model.tickets += 1;
    let ticket = model.tickets;
    model.travel = Some(TravelWish { ticket, to: to.clone() });
    model.select(model.place().unwrap_or(0));
    effects.push(RosterEffect::ReadPast { ticket, to });
}

/// Reads the fleet of one entry earlier or later than the one that is shown, unless another one is read.
pub(super) fn step(model: &mut RosterModel, earlier: bool, effects: &mut RosterEffects) {
    let Some(past) = model.past.as_ref().filter(|_| model.travel.is_none()) else { return };
    let seq = if earlier { past.seq.saturating_sub(1) } else { past.seq.saturating_add(1) };
    go(model, seq.to_string(), effects);
}

/// Shows the fleet of a moment, if it is still the one that is wanted.
pub(super) fn arrive(
    model: &mut RosterModel,
    ticket: u64,
    read: Result<Box<FleetMoment>, String>,
    effects: &mut RosterEffects,
) {
    let Some(wish) = model.travel.take_if(|wish| wish.ticket == ticket) else { return };
    model.changed = true;
    match read {
        Ok(then) => {
            let FleetMoment { seq, at, fold } = *then;
            // Who owned the ledger then is not on it; somebody did.
            let telemetry = Telemetry { owner: true, halted: None };
            let image =
                FleetImage { fold, telemetry, link: LinkState::Live, ..FleetImage::default() };
            let shown = std::mem::replace(&mut model.fleet, image);
            model.past = Some(match model.past.take() {
                Some(past) => PastView { seq, at, ..past },
                None => PastView { seq, at, live: shown, now: model.now },
            });
            model.now = at;
            show(model, effects);
        }
        Err(why) => {
            let what = format!("the fleet as it was at {}", wish.to);
            model.keep(AskedAct { ticket, what, agent: None, id: None, outcome: Some(Err(why)) });
        }
    }
}

/// Shows the fleet as it is.
pub(super) fn back(model: &mut RosterModel, effects: &mut RosterEffects) {
    model.travel = None;
    model.select(model.place().unwrap_or(0));
    if let Some(past) = model.past.take() {
        (model.fleet, model.now) = (past.live, past.now);
        show(model, effects);
    }
}

/// Makes what is shown of another time.
fn show(model: &mut RosterModel, effects: &mut RosterEffects) {
    model.inbox.read = None;
    // A journal is shown as far as it went then.
    (model.focus.entries, model.focus.streamed) = Default::default();
    if model.focus.watched.take().is_some() {
        effects.push(RosterEffect::Watch(None));
    }
    model.refresh();
    focusing::watch(model, effects);
    deciding::read(model, effects);
}
