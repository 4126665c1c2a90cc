//! What a session's program spends, against the grant of its brief (spec 06, Budgets): a call's worst
//! case is in the journal before the program hears that it may make it.

use crate::brief::Usage;
use crate::budget::Spend;
use crate::journal::{BudgetNote, JournalEvent};
use crate::order::{Inbound, Order};

use super::{Effect, Hosted};

impl Hosted {
    /// Writes down what earlier runs of the brief used, so that whoever goes on from this one need
    /// not read theirs.
    pub(super) fn note_earlier_runs(&mut self, effects: &mut Vec<Effect>) {
        if self.run.continues.is_some() {
            let spent = self.metering.tally().charge();
            self.count(JournalEvent::Budget(BudgetNote::Before { spent }), effects);
        }
    }

    /// The program said what it has used so far.
    pub(super) fn used(&mut self, totals: Usage, effects: &mut Vec<Effect>) {
        self.metering.take(&JournalEvent::Usage(totals));
        effects.push(Effect::Journal(JournalEvent::Usage(self.usage())));
    }

    /// The program is about to make a call.
    pub(super) fn set_aside(&mut self, call: String, worst: Spend, effects: &mut Vec<Effect>) {
        let line = match self.metering.set_aside(&call, worst) {
            Ok(event) => {
                self.count(event, effects);
                Inbound::Granted { call }
            }
            Err(why) => Inbound::Withheld { call, why: why.to_string() },
        };
        effects.push(Effect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }

    /// A call of the program's is over.
    pub(super) fn spent(&mut self, call: String, used: Spend, effects: &mut Vec<Effect>) {
        self.count(JournalEvent::Budget(BudgetNote::Spent { call, used }), effects);
    }

    /// The run's counters at its end: what is still set aside counts as spent.
    pub(super) fn final_usage(&self) -> Usage {
        let mut tally = self.metering.tally().clone();
        tally.close();
        tally.usage()
    }

    fn count(&mut self, event: JournalEvent, effects: &mut Vec<Effect>) {
        self.metering.take(&event);
        effects.push(Effect::Journal(event));
    }
}
