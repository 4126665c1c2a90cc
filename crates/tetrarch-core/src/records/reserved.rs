//! Which reservations stand: those whose session is the current one and whose time is not over.

use std::collections::BTreeSet;

use super::Records;
use crate::id::{ProjectName, ReservationId};
use crate::liveness::Liveness;
use crate::reservation::Reservation;
use crate::time::BusTime;

impl Records {
    pub(super) fn put_reservation(&mut self, reservation: Reservation) {
        self.remove_reservation(reservation.id);
        self.indexes.reserved.insert((reservation.until, reservation.id));
        let of = self.indexes.reserved_in.entry(reservation.project.clone()).or_default();
        of.insert(reservation.id);
        self.reservations.insert(reservation.id, reservation);
    }

    pub(super) fn remove_reservation(&mut self, id: ReservationId) {
        if let Some(reservation) = self.reservations.remove(&id) {
            self.indexes.reserved.remove(&(reservation.until, id));
            if let Some(of) = self.indexes.reserved_in.get_mut(&reservation.project) {
                of.remove(&id);
                if of.is_empty() {
                    self.indexes.reserved_in.remove(&reservation.project);
                }
            }
        }
    }

    /// When the first reservation is over.
    #[must_use]
    pub fn next_reservation_end(&self) -> Option<BusTime> {
        self.indexes.reserved.first().map(|(until, _)| *until)
    }

    /// Whether a reservation stands. It ends with its session, whatever ended that (spec 05,
    /// Reservations).
    #[must_use]
    pub fn is_standing(&self, reservation: &Reservation, now: BusTime) -> bool {
        let current = self.agents.get(&reservation.agent).is_some_and(|agent| {
            agent.session == Some(reservation.session) && agent.liveness != Liveness::Terminated
        });
        current && reservation.until > now
    }

    /// What stands in a project, in the order of the numbers.
    pub fn reserved_in<'r>(
        &'r self,
        project: &'r ProjectName,
        now: BusTime,
    ) -> impl Iterator<Item = &'r Reservation> {
        let of = self.indexes.reserved_in.get(project).into_iter().flatten();
        let of = of.filter_map(|id| self.reservations.get(id));
        of.filter(move |it| self.is_standing(it, now))
    }

    /// How many reservations a project has, with those that are over and not yet forgotten.
    #[must_use]
    pub fn reservations_of(&self, project: &ProjectName) -> usize {
        self.indexes.reserved_in.get(project).map_or(0, BTreeSet::len)
    }
}
