//! Which agents each life of a host has, and how many of them take a place.

use std::collections::BTreeSet;

use super::{Indexes, Records, take};
use crate::agent::{Agent, Placement};
use crate::id::{AgentId, HostName};

impl Records {
    /// Agents that are placed on a host, in whichever of its lives, and neither offline nor
    /// terminated.
    pub fn placed_on(&self, host: &HostName) -> impl Iterator<Item = &AgentId> {
        let lives = (host.clone(), 0)..=(host.clone(), u64::MAX);
        self.indexes.placed.range(lives).flat_map(|(_, agents)| agents)
    }

    /// How many places of a host are taken, in whichever of its lives.
    #[must_use]
    pub fn places_taken_on(&self, host: &HostName) -> usize {
        let lives = (host.clone(), 0)..=(host.clone(), u64::MAX);
        self.indexes.places.range(lives).map(|(_, count)| count).sum()
    }

    /// The lives of hosts that have agents, each with its host's epoch, and those agents.
    pub fn lives(&self) -> impl Iterator<Item = (&HostName, u64, &BTreeSet<AgentId>)> {
        self.indexes.placed.iter().map(|((host, epoch), agents)| (host, *epoch, agents))
    }

    /// How many places of one life of a host are taken.
    #[must_use]
    pub fn places_taken(&self, placement: &Placement) -> usize {
        let life = (placement.host.clone(), placement.host_epoch);
        self.indexes.places.get(&life).copied().unwrap_or_default()
    }
}

impl Indexes {
    pub(super) fn index_place(&mut self, agent: &Agent) {
        if !agent.has_process() {
            return;
        }
        let Some(Placement { host, host_epoch }) = &agent.placement else { return };
        let life = (host.clone(), *host_epoch);
        self.placed.entry(life.clone()).or_default().insert(agent.id.clone());
        if agent.takes_place() {
            *self.places.entry(life).or_default() += 1;
        }
    }

    pub(super) fn unindex_place(&mut self, before: &Agent) {
        let Some(Placement { host, host_epoch }) = &before.placement else { return };
        let life = (host.clone(), *host_epoch);
        take(&mut self.placed, &life, &before.id);
        if before.has_process()
            && before.takes_place()
            && let Some(count) = self.places.get_mut(&life)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.places.remove(&life);
            }
        }
    }
}
