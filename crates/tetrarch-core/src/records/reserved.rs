//! Which reservations stand: those whose session is the current one and whose time is not over.

use super::Records;
use crate::id::{ProjectName, ReservationId};
use crate::liveness::Liveness;
use crate::reservation::Reservation;
use crate::time::BusTime;

impl Records {
    pub(super) fn put_reservation(&mut self, reservation: Reservation) {
        self.remove_reservation(reservation.id);
        self.indexes.reserved.insert((reservation.until, reservation.id));
        self.reservations.insert(reservation.id, reservation);
    }

    pub(super) fn remove_reservation(&mut self, id: ReservationId) {
        if let Some(reservation) = self.reservations.remove(&id) {
            self.indexes.reserved.remove(&(reservation.until, id));
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
        let of = self.reservations.values().filter(move |it| it.project == *project);
        of.filter(move |it| self.is_standing(it, now))
    }
}
