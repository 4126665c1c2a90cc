//! What a session notes for its journal: it is written with what is journaled next, as one entry, or by
//! itself some time later (spec 02, Few messages). Nothing waits for it.

use crate::journal::JournalEvent;
use crate::limits::LOG_JOURNALED_WITHIN;
use crate::time::BusTime;

use super::SessionEffect;

/// What waits to be journaled.
#[derive(Debug, Clone, Default)]
pub(super) struct Noted {
    events: Vec<JournalEvent>,
    due: Option<BusTime>,
}

impl Noted {
    /// Notes what happened now.
    pub(super) fn add(&mut self, now: BusTime, event: JournalEvent) {
        self.due.get_or_insert(now + LOG_JOURNALED_WITHIN);
        self.events.push(event);
    }

    /// When it is journaled, whatever happens.
    pub(super) fn due(&self) -> Option<BusTime> {
        self.due
    }

    /// The last of it, when its time is over; the rest goes with that.
    pub(super) fn over(&mut self, now: BusTime) -> Option<JournalEvent> {
        let is_over = self.due.is_some_and(|due| due <= now);
        is_over.then(|| self.events.pop()).flatten()
    }

    /// Has what is noted be written with the first of these effects that are journaled.
    pub(super) fn join(&mut self, mut effects: Vec<SessionEffect>) -> Vec<SessionEffect> {
        let is_journaled =
            |it: &SessionEffect| matches!(it, SessionEffect::Journal(_) | SessionEffect::Note(_));
        if let Some(first) = effects.iter().position(is_journaled) {
            self.due = None;
            let noted = self.events.drain(..).map(SessionEffect::Note);
            drop(effects.splice(first..first, noted));
        }
        effects
    }
}
