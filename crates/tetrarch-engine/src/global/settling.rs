//! Reads the journals of lost runs, for what they used (spec 06, Budgets), beside the owner's loop. What
//! it means is core's.

use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, left};
use tetrarch_core::id::{AgentId, RunId};
use tetrarch_core::owner::Settlement;
use tetrarch_core::records::Records;

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// Time to the next look at journals that have not ended.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The reader; one reading at a time.
#[derive(Debug)]
pub(super) struct Settling {
    bus: Bus,
    reading: Option<Pump>,
    /// What was read last: when the same is still to be read, its journals have not ended.
    last: Vec<(AgentId, JournalName)>,
}

impl Settling {
    /// Has read nothing yet.
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, reading: None, last: Vec::new() }
    }

    /// Whether a reading is on its way.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Begins to read these journals; the owner is told what they say.
    pub(super) fn begins(
        &mut self,
        records: &Records,
        lost: Vec<(AgentId, RunId)>,
        owner: &ActorRef<OwnerMsg>,
    ) {
        let journal = |(holder, run): (AgentId, RunId)| {
            let known = records.runs.get(&run).map(JournalName::of);
            let journal = known.unwrap_or_else(|| JournalName { agent: holder.clone(), run });
            (holder, journal)
        };
        let runs: Vec<(AgentId, JournalName)> = lost.into_iter().map(journal).collect();
        let wait = if runs == self.last { LOOK_AGAIN } else { Duration::ZERO };
        self.last.clone_from(&runs);
        let (bus, owner) = (self.bus.clone(), owner.clone());
        self.reading = Some(Pump::run(async move {
            tokio::time::sleep(wait).await;
            let read = read(&bus, runs).await;
            // An actor that ended has no use for it.
            let _ended = owner.cast(OwnerMsg::Settled(read));
        }));
    }

    /// A reading has ended.
    pub(super) fn ended(&mut self) {
        self.reading = None;
    }
}

async fn read(bus: &Bus, runs: Vec<(AgentId, JournalName)>) -> Vec<Settlement> {
    let mut settled = Vec::with_capacity(runs.len());
    for (holder, journal) in runs {
        let run = journal.run;
        match left(bus, &journal).await {
            Ok(left) => {
                let (charge, ended) = (left.tally.own_charge(), left.ended);
                settled.push(Settlement { holder, run, charge, ended });
            }
            Err(error) => {
                tracing::warn!(%run, %error, "settling a lost run failed; trying again later")
            }
        }
    }
    settled
}
