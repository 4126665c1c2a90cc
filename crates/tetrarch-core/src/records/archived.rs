//! Runs whose journals are not kept yet.

use super::Records;
use crate::id::RunId;
use crate::time::BusTime;

impl Records {
    /// Ended runs whose journals are not kept as artifacts, with since when, longest first.
    pub fn unarchived(&self) -> impl Iterator<Item = (BusTime, RunId)> {
        self.indexes.unarchived.iter().copied()
    }
}
