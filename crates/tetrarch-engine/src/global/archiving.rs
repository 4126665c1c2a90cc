//! Keeps the journals of ended runs as artifacts (spec 06, Journal), beside the owner's loop, many at one
//! stroke. Which are to be kept and when, and that they are, is core's.

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::archive::{self, KeptJournals};
use tetrarch_core::limits::{ARCHIVE_SHARED_BYTES_MAX, ARTIFACT_BYTES_MAX};
use tetrarch_core::owner::{Archived, Unarchived};
use tetrarch_failpoint::{Failpoint, reach};

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// Keeps these journals; the owner is told of those that it could keep.
pub(super) fn start(bus: &Bus, runs: Vec<Unarchived>, owner: &ActorRef<OwnerMsg>) -> Pump {
    let (bus, owner) = (bus.clone(), owner.clone());
    Pump::run(async move {
        let room = (ARCHIVE_SHARED_BYTES_MAX, ARTIFACT_BYTES_MAX);
        let kept = archive::keep(&bus, runs, room).await;
        let kept: Vec<Archived> = kept.into_iter().flat_map(noted).collect();
        if !kept.is_empty() {
            reach(Failpoint::JournalArchived);
        }
        // An actor that ended has no use for it: whoever follows keeps the same again.
        let _ended = owner.cast(OwnerMsg::Archived(kept));
    })
}

/// What is to be noted of each run.
fn noted(KeptJournals { runs, sha256 }: KeptJournals) -> Vec<Archived> {
    match sha256 {
        Ok(sha256) => {
            runs.into_iter().map(|run| Archived { run, sha256: sha256.clone() }).collect()
        }
        Err(error) => {
            tracing::warn!(?runs, %error, "archiving journals failed; trying again later");
            Vec::new()
        }
    }
}
