//! What a session keeps of its program's conversation with a model (spec 06, Journal, Effects).

use crate::converse::Recorded;
use crate::journal::JournalEvent;
use crate::order::{Inbound, Order};
use crate::run::RunEvent;

use super::{Effect, Hosted};

impl Hosted {
    /// Journals a change of the conversation; whoever waits for that is told afterwards.
    pub(super) fn conversed(
        &self,
        recorded: Box<Recorded>,
        confirm: Option<u64>,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::Journal(JournalEvent::Conversed(recorded)));
        if let Some(number) = confirm {
            let (run, line) = (self.run.id, Inbound::Noted(number));
            effects.push(Effect::Order(Box::new(Order::Deliver { run, line })));
        }
    }

    pub(super) fn compacts(&mut self, begins: bool, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.compacting, begins) == begins {
            return;
        }
        let event = if begins { RunEvent::CompactionStarted } else { RunEvent::CompactionEnded };
        effects.push(self.moved(event, "its conversation is summarised".to_owned()));
    }
}
