//! Reads the journals of lost runs, for what they used (spec 06, Budgets), beside the owner's loop. Of which
//! runs, when and what it means is core's.

use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, left};
use tetrarch_core::id::{AgentId, RunId};
use tetrarch_core::owner::Settlement;
use tetrarch_core::records::Records;
use tetrarch_core::time::Millis;

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// Reads these journals after this time; the owner is told what they say.
pub(super) fn start(
    bus: &Bus,
    records: &Records,
    (lost, wait): (Vec<(AgentId, RunId)>, Millis),
    owner: &ActorRef<OwnerMsg>,
) -> Pump {
    let journal = |(holder, run): (AgentId, RunId)| {
        let known = records.runs.get(&run).map(JournalName::of);
        let journal = known.unwrap_or_else(|| JournalName { agent: holder.clone(), run });
        (holder, journal)
    };
    let runs: Vec<(AgentId, JournalName)> = lost.into_iter().map(journal).collect();
    let (bus, owner) = (bus.clone(), owner.clone());
    Pump::run(async move {
        tokio::time::sleep(Duration::from_millis(wait.0)).await;
        let read = read(&bus, runs).await;
        // An actor that ended has no use for it.
        let _ended = owner.cast(OwnerMsg::Settled(read));
    })
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
