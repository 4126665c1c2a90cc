//! What happens because time passes: leases are renewed, sweepers sweep, guards freeze, sessions'
//! deadlines come, and what stands still goes on.

use std::collections::BTreeMap;

use tetrarch_core::id::AgentId;
use tetrarch_core::time::BusTime;

use super::{Which, World};
use crate::host::{Host, Renewal};
use crate::owner::Around;
use crate::seat::Seat;

impl World {
    /// When something happens by itself.
    pub(super) fn next_timer(&self) -> Option<BusTime> {
        let up = self.hosts.iter().chain(&self.zombies).filter(|host| host.is_up(self.now));
        let seats = up.flat_map(|host| host.seats.values()).filter_map(Seat::deadline);
        let beats = self.hosts.iter().filter_map(Host::next_beat);
        let owners = self.owners.iter().filter(|owner| owner.is_up(self.now));
        let owners = owners.flat_map(|owner| {
            let own = owner.next_deadline().filter(|_| owner.can_decide());
            own.into_iter().chain([owner.sweeping.next()])
        });
        seats.chain(beats).chain(owners).chain(self.ends_of_faults()).min()
    }

    /// What stands still goes on then.
    fn ends_of_faults(&self) -> impl Iterator<Item = BusTime> + '_ {
        let hosts = self.hosts.iter().flat_map(|host| [host.paused, host.cut]);
        let owners = self.owners.iter().map(|owner| owner.paused);
        hosts.chain(owners).chain([self.outage, self.election]).filter(|at| *at > self.now)
    }

    /// All that is due now.
    pub(super) fn ring_timers(&mut self) {
        self.ring_seats();
        let outage = self.outage > self.now;
        let mut renewals = Vec::new();
        for at in 0..self.hosts.len() {
            let stored = self.with_host(Which::Host(at), |host, reach| host.keep(outage, reach));
            renewals.extend(stored.flatten());
        }
        for renewal in renewals {
            self.tell_sweepers(&renewal);
        }
        let electing = self.election > self.now;
        let replica = (self.replica.leases, self.faults.stale);
        let World { owners, leases, dice, tally, watch, .. } = self;
        let mut around = Around {
            leases,
            dice,
            tally,
            broken: &mut watch.broken,
            now: self.now,
            faulty: self.faults.on,
            bug: self.bug,
            replica,
        };
        for owner in owners {
            owner.sweep(outage || electing, &mut around);
        }
        if !self.faults.on {
            self.restart_hosts(100);
        }
    }

    fn tell_sweepers(&mut self, renewal: &Renewal) {
        let now = self.now;
        for owner in &mut self.owners {
            let lost = self.faults.on && self.dice.percent(self.faults.unheard);
            if owner.hears(&renewal.host, now) && !lost {
                owner.sweeping.hear(renewal, now);
                owner.overseeing.hear(renewal, now);
            }
        }
    }

    /// Sessions whose deadline has come are told.
    fn ring_seats(&mut self) {
        let now = self.now;
        let all = (0..self.hosts.len()).map(Which::Host);
        let all: Vec<Which> = all.chain((0..self.zombies.len()).map(Which::Zombie)).collect();
        for which in all {
            self.with_host(which, |host, reach| {
                if !host.is_up(now) {
                    return;
                }
                for seat in host.seats.values_mut() {
                    if seat.deadline().is_none_or(|at| at > now) {
                        continue;
                    }
                    match seat {
                        Seat::Agent(agent) => agent.tick(reach),
                        Seat::Project(project) => project.tick(reach),
                    }
                    if seat.deadline().is_some_and(|at| at <= now) {
                        reach.watch.broken.push(format!("a deadline does not pass: {seat:?}"));
                    }
                }
            });
        }
    }

    /// Invariant 7: of an agent's processes at most one runs; the others are gone or frozen.
    pub(super) fn nobody_runs_twice(&self) -> Result<(), String> {
        let mut running: BTreeMap<&AgentId, (&Host, u64)> = BTreeMap::new();
        let hosts = self.hosts.iter().chain(&self.orphans);
        for host in hosts.filter(|host| !host.is_frozen(self.now)) {
            for (id, seat) in &host.seats {
                let Seat::Agent(agent) = seat else { continue };
                if !agent.runs() {
                    continue;
                }
                if let Some((other, epoch)) = running.insert(id, (host, seat.epoch())) {
                    return Err(format!(
                        "invariant 7: {id} runs twice: epoch {epoch} on {}, epoch {} on {}",
                        other.name,
                        seat.epoch(),
                        host.name
                    ));
                }
            }
        }
        Ok(())
    }
}
