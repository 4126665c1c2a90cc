//! What the owner hears of agents beside their records: when their progress counters last grew, told by
//! the renewals of their hosts (spec 05, The tick). Nothing of it is kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetrarch_core::id::AgentId;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::time::BusTime;

use crate::clock::Clock;

/// What is heard; the sweeper's shell writes it, the owner reads it.
#[derive(Debug, Clone)]
pub(super) struct HeartbeatTable {
    clock: Clock,
    since: BusTime,
    heard: Arc<Mutex<HashMap<AgentId, HeartbeatEntry>>>,
}

#[derive(Debug, Clone, Copy)]
struct HeartbeatEntry {
    epoch: u64,
    progress: u64,
    /// When it last grew; none until it did.
    grew: Option<BusTime>,
}

impl HeartbeatTable {
    /// Listens from now on.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, since: clock.now(), heard: Arc::default() }
    }

    /// A session's counter stands here. The first that is heard of a session is no growth.
    pub(super) fn progress(&self, agent: &AgentId, epoch: u64, progress: u64) {
        let now = self.clock.now();
        let mut heard = self.lock();
        match heard.get_mut(agent) {
            Some(known) if known.epoch == epoch => {
                if progress > known.progress {
                    known.grew = Some(now);
                }
                known.progress = progress;
            }
            Some(_) | None => {
                heard.insert(agent.clone(), HeartbeatEntry { epoch, progress, grew: None });
            }
        }
    }

    /// Nothing more is expected of it.
    pub(super) fn forget(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    /// All of it as it is now.
    pub(super) fn telemetry(&self) -> Telemetry {
        let heard = self.lock();
        let grew = heard.iter().filter_map(|(agent, heard)| Some((agent.clone(), heard.grew?)));
        let progressed: BTreeMap<AgentId, BusTime> = grew.collect();
        Telemetry { since: self.since, progressed, ..Telemetry::default() }
    }

    /// Each write is whole, so one that panicked elsewhere left nothing half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, HeartbeatEntry>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
