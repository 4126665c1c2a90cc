//! The servers of the bus: replicas that lag behind, changes of the leader, refusals for nothing.

use tetrarch_core::time::Millis;

use super::{WINDOW, World};
use crate::owner::{Sight, Way};

impl World {
    /// Replicas catch up, unless one is cut off from the others.
    pub(super) fn replicate(&mut self) {
        let stuck = self.lag > self.now;
        if !self.faults.on || (!stuck && self.dice.percent(30)) {
            self.replica = self.bus.view(&self.leases);
        }
    }

    /// What an owner finds that loads everything now.
    pub(super) fn sight(&mut self) -> Sight {
        let mut reach = self.reach();
        let (state, ledger, tail) = (reach.view(), reach.view(), reach.view());
        let torn = self.faults.on && self.dice.percent(30);
        let kept = self.kept.clone();
        Sight { state, ledger, tail, torn, kept }
    }

    /// Counts what an owner that has loaded everything did not see.
    pub(super) fn note_lag(&mut self, at: usize) {
        if std::mem::take(&mut self.owners[at].asked_again) {
            self.tally.note("owner asked a lagging ledger again");
        }
        if self.owners[at].lags_behind(&self.bus) {
            self.tally.note("owner started on what lags behind");
        }
    }

    /// What becomes of a write while there may be no leader.
    pub(super) fn way_of_write(&mut self) -> Way {
        if self.election <= self.now {
            return Way::Clear;
        }
        if self.dice.percent(50) {
            self.tally.note("leader changed: write lost");
            return Way::Lost;
        }
        self.tally.note("leader changed: write stored, not acknowledged");
        Way::Unheard
    }

    /// What becomes of an owner's commit.
    pub(super) fn way_of_commit(&mut self, at: usize) -> Way {
        let electing = self.way_of_write();
        if electing != Way::Clear || !self.faults.on {
            return electing;
        }
        if self.dice.percent(self.faults.lost) {
            return Way::Lost;
        }
        if self.dice.percent(self.faults.spurious) {
            if self.dice.percent(50) {
                return Way::Busy;
            }
            let stored = self.owners[at].is_stored(&self.bus);
            self.tally.note("commit refused for nothing");
            if stored {
                self.tally.note("commit refused for nothing, after it was stored");
            }
            return Way::Refused;
        }
        let unheard = self.dice.percent(self.faults.unacknowledged);
        if unheard { Way::Unheard } else { Way::Clear }
    }

    /// A leader is lost: until another leads nothing is acknowledged, and the one that was may
    /// answer reads for longer.
    pub(super) fn change_leader(&mut self) {
        self.tally.note("leader changed");
        self.election = self.now + Millis(self.dice.range(1, 6) as u64 * WINDOW.0 / 4);
        self.lag = self.election.max(self.for_some_time());
    }
}
