//! The events that are listed, and which of them is shown in full.

use std::collections::VecDeque;

use tetrarch_core::id::AgentId;
use tetrarch_view::event::EventRow;

use crate::input::EventWish;

/// Events that are kept while somebody looks at them.
const EVENTS_MAX: usize = 2_000;
/// Lines below the list in which one event is shown in full.
pub(crate) const FULL_LINES: usize = 4;

/// What happened.
#[derive(Debug, Default)]
pub struct EventsPane {
    /// Whose events are shown, when not all are.
    pub agent: Option<AgentId>,
    /// Whether only theirs are.
    pub only: bool,
    /// Which are read along.
    pub wish: Option<EventWish>,
    /// The events, the newest first; none before they were read.
    pub rows: Option<VecDeque<EventRow>>,
    /// The place of the one that is shown in full.
    pub place: usize,
    /// Events above the first that is shown.
    pub top: usize,
}

impl EventsPane {
    /// Takes in events, the newest last. Who reads an older one goes on reading it.
    pub(crate) fn hear(&mut self, events: Vec<EventRow>, height: usize) {
        let rows = self.rows.get_or_insert_default();
        let (came, held) = (events.len(), self.place > 0);
        for event in events {
            rows.push_front(event);
        }
        rows.truncate(EVENTS_MAX);
        if held {
            self.top += came;
            self.select(self.place + came, height);
        }
    }

    /// The place of the last.
    pub(crate) fn last(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.len().saturating_sub(1))
    }

    /// Selects an event, or the last one, and brings it into sight of so many lines.
    pub(crate) fn select(&mut self, place: usize, height: usize) {
        self.place = place.min(self.last());
        self.top = in_sight(self.top, self.place, height, self.last() + 1);
    }

    /// The one that is shown in full.
    #[must_use]
    pub fn chosen(&self) -> Option<&EventRow> {
        self.rows.as_ref()?.get(self.place)
    }
}

/// The lines above the first that is shown, so that the one at a place is in sight of so many.
pub(crate) fn in_sight(top: usize, place: usize, height: usize, count: usize) -> usize {
    let height = height.max(1);
    let top = top.min(place).max((place + 1).saturating_sub(height));
    top.min(count.saturating_sub(height))
}
