//! How many agents are counted on to be heard, and how many of them are silent, on how many
//! hosts: what the mass-failure guard looks at (spec 04). Counters only.

use std::collections::BTreeMap;

use crate::id::HostName;

/// Agents with a session that was heard (`active`, `stale`), and the silent ones of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    heard: u64,
    silent: u64,
    silent_hosts: BTreeMap<HostName, u64>,
    /// Grows when all silence is forgiven.
    generation: u64,
}

/// What one watched one stands for in the census.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    /// Agents counted.
    agents: u64,
    /// The generation in which they were counted as silent.
    silent: Option<u64>,
}

impl Census {
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) fn silent(&self) -> u64 {
        self.silent
    }

    pub(super) fn silent_hosts(&self) -> usize {
        self.silent_hosts.len()
    }

    /// Counts so many agents as heard, in place of what the share stood for.
    pub(super) fn count(&mut self, share: &mut Share, host: &HostName, agents: u64) {
        self.leave(share, host);
        self.heard += agents;
        share.agents = agents;
    }

    /// Takes a share out.
    pub(super) fn leave(&mut self, share: &mut Share, host: &HostName) {
        self.hear(share, host);
        self.heard -= share.agents;
        share.agents = 0;
    }

    /// They are silent.
    pub(super) fn silence(&mut self, share: &mut Share, host: &HostName) {
        if share.silent == Some(self.generation) || share.agents == 0 {
            return;
        }
        share.silent = Some(self.generation);
        self.silent += share.agents;
        if let Some(count) = self.silent_hosts.get_mut(host) {
            *count += 1;
        } else {
            self.silent_hosts.insert(host.clone(), 1);
        }
    }

    /// They are not silent any more.
    pub(super) fn hear(&mut self, share: &mut Share, host: &HostName) {
        if share.silent.take() != Some(self.generation) {
            return;
        }
        self.silent -= share.agents;
        if let Some(count) = self.silent_hosts.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.silent_hosts.remove(host);
            }
        }
    }

    /// Nobody is silent: the sweeper was deaf.
    pub(super) fn forgive(&mut self) {
        self.generation += 1;
        self.silent = 0;
        self.silent_hosts.clear();
    }

    pub(super) fn is_silent(&self, share: &Share) -> bool {
        share.silent == Some(self.generation)
    }
}
