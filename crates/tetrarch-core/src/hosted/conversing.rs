//! What a session keeps of its program's conversation with a model (spec 06, Journal, Effects).

use crate::converse::Recorded;
use crate::id::RunId;
use crate::journal::JournalEvent;
use crate::order::{Inbound, Order};
use crate::run::RunEvent;

use super::{HostedSession, SessionEffect};

impl HostedSession {
    /// Goes on from what the runs before it, from `first` on, recorded of their conversation with a model.
    /// Mail that they heard is not heard again.
    pub fn go_on_with(&mut self, first: RunId, recorded: Vec<Recorded>) {
        self.first = first;
        self.heard_before = recorded.iter().map(Recorded::letter).max().unwrap_or_default();
        self.recorded = recorded;
    }

    /// Results of the runs before it were handed back so often.
    pub fn go_on_after_returns(&mut self, times: u32) {
        self.returned = times;
    }

    /// Its inbox was made anew: what the runs before it heard was not in it.
    pub fn has_new_inbox(&mut self) {
        self.heard_before = 0;
    }

    /// Tells words about progress, with the steps that are done and all there are.
    pub(super) fn progresses(
        &mut self,
        text: String,
        (done, total): (Option<u64>, Option<u64>),
        effects: &mut Vec<SessionEffect>,
    ) {
        self.activity.says(&text);
        effects.push(SessionEffect::Stream(text.clone()));
        effects.push(SessionEffect::Journal(JournalEvent::Progress { text, done, total }));
    }

    /// Journals a change of the conversation; whoever waits for that is told afterwards.
    pub(super) fn conversed(
        &mut self,
        recorded: Box<Recorded>,
        confirm: Option<u64>,
        effects: &mut Vec<SessionEffect>,
    ) {
        self.activity.hears(&recorded);
        effects.push(SessionEffect::Journal(JournalEvent::Conversed(recorded)));
        if let Some(number) = confirm {
            let (run, line) = (self.run.id, Inbound::Noted(number));
            effects.push(SessionEffect::Order(Box::new(Order::Deliver { run, line })));
        }
    }

    pub(super) fn compacts(&mut self, begins: bool, effects: &mut Vec<SessionEffect>) {
        if std::mem::replace(&mut self.compacting, begins) == begins {
            return;
        }
        let event = if begins { RunEvent::CompactionStarted } else { RunEvent::CompactionEnded };
        effects.push(self.moved(event, "its conversation is summarised".to_owned()));
    }
}
