//! Keeps the journals of ended runs as artifacts (spec 06, Journal), beside the owner's loop, a few at
//! once. Which are to be kept, and that they are, is core's.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::archive;
use tetrarch_bus::journal::Writer;
use tetrarch_core::id::RunId;
use tetrarch_core::limits::ARTIFACT_BYTES_MAX;
use tetrarch_core::owner::{Archived, Failures, Unarchived, unarchived};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;
use tetrarch_failpoint::{Failpoint, reach};

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// Time before each stroke: what ends within it shares a commit, and is looked at again after it.
const PAUSE: Duration = Duration::from_secs(1);
/// Journals that are kept at once.
const AT_ONCE: usize = 4;

/// The keeper; one stroke at a time.
#[derive(Debug)]
pub(super) struct Archiving {
    bus: Bus,
    working: Option<Pump>,
    tried: Vec<RunId>,
    failures: Failures,
}

impl Archiving {
    /// Has kept nothing yet.
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, working: None, tried: Vec::new(), failures: Failures::default() }
    }

    /// Whether a stroke is on its way.
    pub(super) fn is_working(&self) -> bool {
        self.working.is_some()
    }

    /// Begins to keep the journals of runs that ended, if there are any; the owner is told which are.
    pub(super) fn begins(&mut self, records: &Records, now: BusTime, owner: &ActorRef<OwnerMsg>) {
        let runs = unarchived(records, &self.failures, now);
        if runs.is_empty() {
            return;
        }
        self.tried = runs.iter().map(|it| it.run).collect();
        let (bus, owner) = (self.bus.clone(), owner.clone());
        self.working = Some(Pump::run(async move {
            tokio::time::sleep(PAUSE).await;
            let kept = iter(runs).map(|run| kept(&bus, run)).buffer_unordered(AT_ONCE);
            let kept: Vec<Archived> = kept.filter_map(async |kept| kept).collect().await;
            if !kept.is_empty() {
                reach(Failpoint::JournalArchived);
            }
            // An actor that ended has no use for it: whoever follows keeps the same again.
            let _ended = owner.cast(OwnerMsg::Archived(kept));
        }));
    }

    /// A stroke has ended, by which these are kept.
    pub(super) fn ended(&mut self, kept: &[Archived], now: BusTime) {
        self.working = None;
        self.failures.note(&self.tried, kept, now);
    }
}

async fn kept(bus: &Bus, of: Unarchived) -> Option<Archived> {
    let Unarchived { run, agent, session, epoch, overdue } = of;
    let writer = Writer { run, agent, session, epoch };
    match archive::keep(bus, &writer, overdue, ARTIFACT_BYTES_MAX).await {
        Ok(sha256) => sha256.map(|sha256| Archived { run, sha256 }),
        Err(error) => {
            tracing::warn!(%run, %error, "archiving a journal failed; trying again later");
            None
        }
    }
}
