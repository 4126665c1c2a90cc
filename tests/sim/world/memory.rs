//! A bus that forgets (invariant 28): its server comes back with less than was acknowledged, or with
//! streams that are made anew. Nothing can settle after that; nobody may go on.

use super::{STOPPED, World};

impl World {
    /// A commit is acknowledged: the data directory remembers it, some time or other.
    pub(super) fn acknowledged(&mut self) {
        self.tally.note("commit acknowledged");
        if self.dice.percent(70) {
            self.kept.created = self.bus.created();
            self.kept.high = self.bus.ledger.len() as u64;
        }
    }

    /// The bus forgets. The one owner whose lease is not over while it was away goes on.
    pub(super) fn forget(&mut self) {
        let Ok(high @ 1..) = usize::try_from(self.kept.high) else { return };
        let anew = self.dice.percent(30);
        let left = if anew { 0 } else { self.dice.below(high) };
        let state_too = self.dice.percent(50);
        self.bus.forget(left, anew, state_too);
        self.shrunk = Some(left);
        self.replica = self.bus.view(&self.leases);
        let newest = self.owners.pop();
        self.owners.clear();
        self.owners.extend(newest.filter(|owner| owner.knows_more_than(left)));
        self.tally.note(match (anew, state_too) {
            (_, true) => "memory lost: only the data directory remembers",
            (true, false) => "memory lost: ledger made anew",
            (false, false) => "memory lost: ledger shorter",
        });
    }

    /// Invariant 28: nothing is written behind what is left.
    pub(super) fn nothing_follows(&self) -> Result<(), String> {
        let ledger = self.bus.ledger.len();
        match self.shrunk {
            Some(left) if ledger > left => {
                Err(format!("invariant 28: {left} entries are left, and an owner went on"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Every owner stops that is started now, or has something to commit.
    pub(super) fn nobody_goes_on(&mut self) -> Result<(), String> {
        let before = self.owners.len();
        self.start_owner();
        if self.owners.len() > before && self.bug.is_none() {
            return Err(format!("invariant 28: an owner starts; {STOPPED} was expected"));
        }
        while let Some(at) = self.owners.iter().position(|owner| owner.can_send()) {
            self.commit(at)?;
        }
        Ok(())
    }
}
