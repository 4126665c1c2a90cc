//! What a simulated owner reads of lost runs' journals (spec 06, Budgets).

use tetrarch_core::owner::{Settlement, unsettled};
use tetrarch_core::time::BusTime;

use super::Owner;
use crate::bus::Bus;

impl Owner {
    /// How many lost runs have to be read.
    pub(super) fn unsettled(&self) -> usize {
        unsettled(self.governor.records()).len()
    }

    /// Reads the journals of lost runs when it is time to; gives how many are lost.
    pub(super) fn settle(&mut self, bus: &Bus, now: BusTime) -> usize {
        if let Some((_, lost)) = self.reading.take_if(|(at, _)| *at <= now) {
            let read = lost.into_iter().map(|(holder, run)| {
                let (left, ended) = bus.left(run);
                Settlement { holder, run, charge: left.own_charge(), ended }
            });
            self.governor.settled(read.collect());
        }
        self.unsettled()
    }
}
