//! What waits: schedules for their times, spawn requests for slots and places.

use super::Records;
use crate::admission::queued::QueuedSpawn;
use crate::id::{AgentId, ScheduleId};
use crate::schedule::Schedule;
use crate::time::BusTime;

impl Records {
    pub(super) fn put_schedule(&mut self, schedule: Schedule) {
        self.remove_schedule(schedule.id);
        self.indexes.due.extend(schedule.next.map(|at| (at, schedule.id)));
        self.schedules.insert(schedule.id, schedule);
    }

    pub(super) fn remove_schedule(&mut self, id: ScheduleId) {
        if let Some(at) = self.schedules.remove(&id).and_then(|schedule| schedule.next) {
            self.indexes.due.remove(&(at, id));
        }
    }

    pub(super) fn put_queued_spawn(&mut self, queued: QueuedSpawn) {
        self.queued_spawns.insert((queued.parent.clone(), queued.place), queued);
    }

    pub(super) fn remove_queued_spawn(&mut self, parent: &AgentId, place: u64) {
        self.queued_spawns.remove(&(parent.clone(), place));
    }

    /// The spawn requests of a parent that wait, in their order.
    pub fn spawns_queued_for(
        &self,
        parent: &AgentId,
    ) -> impl DoubleEndedIterator<Item = &QueuedSpawn> {
        let all = (parent.clone(), 0)..=(parent.clone(), u64::MAX);
        self.queued_spawns.range(all).map(|(_, queued)| queued)
    }

    /// Schedules, with when they are due next, the earliest first.
    pub fn scheduled(&self) -> impl Iterator<Item = (BusTime, ScheduleId)> {
        self.indexes.due.iter().copied()
    }
}
