//! Changes that wait before the branches they are for: kept with when they are over, and found by
//! what is asked of them.

use super::{Ended, Records};
use crate::change::{Change, ChangeStatus};
use crate::id::{AgentId, ChangeId, EpicId, HostName, NodeId, RunId, Ulid};
use crate::liveness::Liveness;
use crate::time::BusTime;

impl Records {
    pub(super) fn put_change(&mut self, change: Change) {
        self.remove_change(change.id);
        if change.status.is_terminal() {
            self.indexes.ended.insert((change.since, Ended::Change(change.id)));
        } else {
            self.indexes.waiting.insert((change.until, change.id));
        }
        self.indexes.made.insert((change.run, change.id));
        self.changes.insert(change.id, change);
    }

    pub(super) fn remove_change(&mut self, id: ChangeId) {
        if let Some(change) = self.changes.remove(&id) {
            self.indexes.made.remove(&(change.run, id));
            self.indexes.ended.remove(&(change.since, Ended::Change(id)));
            self.indexes.waiting.remove(&(change.until, id));
        }
    }

    /// Changes that a run made.
    pub fn made_by(&self, run: RunId) -> impl Iterator<Item = &Change> {
        let all = (run, ChangeId(Ulid(0)))..=(run, ChangeId(Ulid(u128::MAX)));
        self.indexes.made.range(all).filter_map(|(_, id)| self.changes.get(id))
    }

    fn unended_changes(&self) -> impl Iterator<Item = &Change> {
        self.indexes.waiting.iter().filter_map(|(_, id)| self.changes.get(id))
    }

    /// Changes that somebody may still decide on, or that may be applied, the earliest expiry first.
    pub fn waiting_changes(&self) -> impl Iterator<Item = &Change> {
        self.unended_changes().filter(|change| match change.status {
            ChangeStatus::Proposed | ChangeStatus::Conflicted | ChangeStatus::Approved => true,
            ChangeStatus::Applying => self.is_stranded(change),
            ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => false,
        })
    }

    /// Changes of a node that wait.
    pub fn waiting_of(&self, epic: EpicId, node: NodeId) -> impl Iterator<Item = &Change> {
        self.waiting_changes().filter(move |change| (change.epic, change.node) == (epic, node))
    }

    /// Changes that a host was ordered to merge and has not answered for.
    pub fn applying_on(&self, host: &HostName) -> impl Iterator<Item = &Change> {
        let of = self.unended_changes().filter(move |change| change.host == *host);
        of.filter(|change| change.status == ChangeStatus::Applying)
    }

    /// Whether the life of the host is over that was ordered to merge a change, and no answer came. No
    /// later life follows that order (spec 04, Hosts).
    #[must_use]
    pub fn is_stranded(&self, change: &Change) -> bool {
        let host = self.agents.get(&AgentId::Ho(change.host.clone()));
        let over = host
            .is_none_or(|host| matches!(host.liveness, Liveness::Offline | Liveness::Terminated));
        change.status == ChangeStatus::Applying && over
    }

    /// When the next change that waits has waited for too long.
    #[must_use]
    pub fn next_expiry(&self) -> Option<BusTime> {
        self.waiting_changes().map(|change| change.until).next()
    }
}
