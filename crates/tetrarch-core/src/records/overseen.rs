//! Assignments and what was sent for them, with the indexes that a tick of the overseer reads (spec 05,
//! The tick).

use crate::assignment::{Assignment, AssignmentStatus};
use crate::dispatch::Dispatch;
use crate::id::{AssignmentId, DispatchId};
use crate::time::BusTime;

use super::{Ended, Records};

impl Records {
    pub(super) fn put_assignment(&mut self, assignment: Assignment) {
        let id = assignment.id;
        self.remove_assignment(id);
        if assignment.status.is_terminal() {
            self.indexes.ended.insert((assignment.updated, Ended::Assignment(id)));
        }
        if is_overseen(&assignment) {
            let since = assignment.recovery.quiet_since();
            match assignment.policy.idle_after {
                None => self.indexes.quiet.insert((since, id)),
                Some(own) => self.indexes.quiet_by_own_time.insert((since + own, id)),
            };
            if let Some(at) = assignment.recovery.expected_next_update {
                self.indexes.expected.insert((at, id));
            }
        }
        if let Some(launch) = &assignment.launch {
            self.put_dispatch((**launch).clone());
        }
        *self.indexes.worked.entry(assignment.epic).or_default() += 1;
        self.assignments.insert(id, assignment);
    }

    pub(super) fn remove_assignment(&mut self, id: AssignmentId) {
        let Some(assignment) = self.assignments.remove(&id) else { return };
        if let Some(launch) = &assignment.launch {
            self.remove_dispatch(launch.id);
        }
        self.indexes.unwork(assignment.epic);
        self.indexes.ended.remove(&(assignment.updated, Ended::Assignment(id)));
        let since = assignment.recovery.quiet_since();
        match assignment.policy.idle_after {
            None => self.indexes.quiet.remove(&(since, id)),
            Some(own) => self.indexes.quiet_by_own_time.remove(&(since + own, id)),
        };
        if let Some(at) = assignment.recovery.expected_next_update {
            self.indexes.expected.remove(&(at, id));
        }
    }

    pub(super) fn put_dispatch(&mut self, dispatch: Dispatch) {
        self.remove_dispatch(dispatch.id);
        let sent = self.indexes.dispatched.entry(dispatch.assignment).or_default();
        sent.insert(dispatch.id);
        self.dispatches.insert(dispatch.id, dispatch);
    }

    pub(super) fn remove_dispatch(&mut self, id: DispatchId) {
        let Some(dispatch) = self.dispatches.remove(&id) else { return };
        if let Some(sent) = self.indexes.dispatched.get_mut(&dispatch.assignment) {
            sent.remove(&id);
            if sent.is_empty() {
                self.indexes.dispatched.remove(&dispatch.assignment);
            }
        }
    }

    /// Whether a dispatch is kept in the record of its assignment.
    #[must_use]
    pub fn is_first_launch(&self, id: DispatchId) -> bool {
        let sent = self.dispatches.get(&id).and_then(|it| self.assignments.get(&it.assignment));
        let launch = sent.and_then(|assignment| assignment.launch.as_ref());
        launch.is_some_and(|launch| launch.id == id)
    }

    /// What was sent for an assignment, the earliest first.
    pub fn dispatched_for(&self, assignment: AssignmentId) -> impl Iterator<Item = DispatchId> {
        self.indexes.dispatched.get(&assignment).into_iter().flatten().copied()
    }

    /// Assignments that somebody works on, with since when nothing was sent and nothing heard, longest
    /// first; without those whose nodes say themselves how long they may be quiet.
    pub fn quiet(&self) -> impl Iterator<Item = (BusTime, AssignmentId)> {
        self.indexes.quiet.iter().copied()
    }

    /// Assignments that somebody works on and whose nodes say themselves how long they may be quiet,
    /// with when that is over, earliest first.
    pub fn quiet_by_own_time(&self) -> impl Iterator<Item = (BusTime, AssignmentId)> {
        self.indexes.quiet_by_own_time.iter().copied()
    }

    /// Assignments whose agents said when they would be heard of again, with when, earliest first.
    pub fn expected(&self) -> impl Iterator<Item = (BusTime, AssignmentId)> {
        self.indexes.expected.iter().copied()
    }
}

/// Whether a tick may have something to do about it.
fn is_overseen(assignment: &Assignment) -> bool {
    match assignment.status {
        AssignmentStatus::Dispatched | AssignmentStatus::Active | AssignmentStatus::Stalled => true,
        AssignmentStatus::Queued
        | AssignmentStatus::Blocked
        | AssignmentStatus::Done
        | AssignmentStatus::Cancelled => false,
    }
}
