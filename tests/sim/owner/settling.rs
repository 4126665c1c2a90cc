//! What a simulated owner reads of lost runs' journals, and decides on (spec 06, Budgets).

use tetrarch_core::owner::{Input, Settlement, unsettled};
use tetrarch_core::time::BusTime;

use super::Owner;
use crate::bus::Bus;
use crate::tally::Tally;

impl Owner {
    /// Reads the journals of lost runs, and decides on what they say.
    pub(super) fn settle(&mut self, bus: &Bus, now: BusTime, tally: &mut Tally) {
        let lost = unsettled(&self.records);
        if lost.is_empty() || self.group.is_full() {
            return;
        }
        let read = lost.into_iter().map(|(holder, run)| {
            let (left, ended) = bus.left(run);
            Settlement { holder, run, charge: left.own_charge(), ended }
        });
        let before = unsettled(&self.records).len();
        self.take(&Input::Settled(read.collect()), None, now);
        if unsettled(&self.records).len() < before {
            tally.note("lost run settled");
        }
    }
}
