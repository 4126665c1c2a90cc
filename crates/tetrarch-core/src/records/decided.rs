//! Decisions on requests. One record may hold those of one commit.

use super::Records;
use crate::id::RequestId;
use crate::ledger::Decision;
use crate::time::BusTime;

impl Records {
    pub(super) fn put_decision(&mut self, decision: Decision) {
        let (at, request) = (decision.at, decision.request);
        self.remove_decision(request);
        self.indexes.decided.insert((at, request));
        let also: Vec<RequestId> = decision.also.iter().map(|it| it.request).collect();
        if !also.is_empty() {
            self.indexes.decided_with.insert(request, also);
        }
        self.decisions.extend(decision.each().map(|it| (it.request, it)));
    }

    pub(super) fn remove_decision(&mut self, request: RequestId) {
        let Some(decision) = self.decisions.remove(&request) else { return };
        self.indexes.decided.remove(&(decision.at, request));
        for other in self.indexes.decided_with.remove(&request).into_iter().flatten() {
            self.decisions.remove(&other);
        }
    }

    /// How many decisions a record of them holds.
    #[must_use]
    pub fn decided_with(&self, first: &RequestId) -> usize {
        1 + self.indexes.decided_with.get(first).map_or(0, Vec::len)
    }

    /// Records of decisions made before a time, oldest first.
    pub fn decided_before(&self, time: BusTime) -> impl Iterator<Item = &RequestId> {
        self.indexes.decided.iter().take_while(move |(at, _)| *at < time).map(|(_, id)| id)
    }

    /// When the oldest decision was made.
    #[must_use]
    pub fn first_decided(&self) -> Option<BusTime> {
        self.indexes.decided.first().map(|(at, _)| *at)
    }
}
