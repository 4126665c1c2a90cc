//! Status updates of a session's program (spec 05): at once when one was asked for, else no more often
//! than once a minute, and always the last one.

use std::collections::BTreeSet;

use crate::id::DispatchId;
use crate::limits::UPDATE_EVERY;
use crate::request::Report;
use crate::time::BusTime;

use super::{HostedSession, SessionEffect};

/// What was asked, and what the program said.
#[derive(Debug, Clone, Default)]
pub(super) struct Updates {
    seen: BTreeSet<DispatchId>,
    /// What the program has not answered yet.
    open: Option<DispatchId>,
    held: Option<String>,
    /// When the last one was passed on.
    told: Option<BusTime>,
}

/// An update to be passed on, with what it answers.
pub(super) type PendingUpdate = Option<(Option<DispatchId>, String)>;

impl Updates {
    /// A status request arrived. False when it is known.
    pub(super) fn asked(&mut self, dispatch: DispatchId) -> bool {
        let new = self.seen.insert(dispatch);
        if new {
            self.open = Some(dispatch);
        }
        new
    }

    /// The program said how it stands.
    fn said(&mut self, now: BusTime, update: String) -> PendingUpdate {
        self.held = Some(update);
        if self.open.is_some() { self.last(now) } else { self.due(now) }
    }

    /// What has waited for long enough.
    pub(super) fn due(&mut self, now: BusTime) -> PendingUpdate {
        let due = self.next_deadline().is_none_or(|at| at <= now);
        if due { self.last(now) } else { None }
    }

    /// What waits, whatever the time.
    pub(super) fn last(&mut self, now: BusTime) -> PendingUpdate {
        let held = self.held.take()?;
        self.told = Some(now);
        Some((self.open.take(), held))
    }

    /// When what waits is passed on.
    pub(super) fn next_deadline(&self) -> Option<BusTime> {
        let told = self.told.filter(|_| self.held.is_some());
        told.map(|told| told + UPDATE_EVERY)
    }
}

impl HostedSession {
    /// Passes on what the program said of itself, now or later.
    pub(super) fn updated(
        &mut self,
        now: BusTime,
        update: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let said = self.updates.said(now, update);
        self.report_update(said, effects);
    }

    pub(super) fn report_update(&self, said: PendingUpdate, effects: &mut Vec<SessionEffect>) {
        let Some((dispatch, update)) = said else { return };
        let run = self.run.id;
        let report = Report::Update { run, dispatch, update, expected: None };
        effects.push(SessionEffect::Report(Box::new(report)));
    }
}
