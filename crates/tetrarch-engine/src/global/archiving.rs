//! Keeps the journals of ended runs as artifacts (spec 06, Journal), beside the owner's loop, many at one
//! stroke. Which are to be kept and when, and that they are, is core's.

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::archive::{self, KeptJournals};
use tetrarch_core::id::RunId;
use tetrarch_core::limits::{ARCHIVE_SHARED_BYTES_MAX, ARTIFACT_BYTES_MAX};
use tetrarch_core::owner::{Archived, Failures, archiving_at, unarchived};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;
use tetrarch_failpoint::{Failpoint, reach};

use super::owner::OwnerMsg;
use crate::clock::Clock;
use crate::pump::Pump;

/// The keeper; one stroke at a time.
#[derive(Debug)]
pub(super) struct Archiving {
    bus: Bus,
    working: Option<Pump>,
    /// When the next stroke begins, and the timer set to it.
    timer: Option<(BusTime, Pump)>,
    tried: Vec<RunId>,
    failures: Failures,
}

impl Archiving {
    /// Has kept nothing yet.
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, working: None, timer: None, tried: Vec::new(), failures: Failures::default() }
    }

    /// Whether a stroke is on its way.
    pub(super) fn is_working(&self) -> bool {
        self.working.is_some()
    }

    /// Begins to keep the journals of runs that ended, of which the owner is told, or wakes it when the
    /// time for that has come.
    pub(super) fn goes_on(&mut self, records: &Records, clock: Clock, owner: &ActorRef<OwnerMsg>) {
        let now = clock.now();
        match archiving_at(records, &self.failures, now) {
            None => self.timer = None,
            Some(at) if at <= now => self.begins(records, now, owner),
            Some(at) if self.timer.as_ref().is_some_and(|(set, _)| *set == at) => {}
            Some(at) => {
                let (wait, owner) = (clock.until(at), owner.clone());
                let waking = Pump::run(async move {
                    tokio::time::sleep(wait).await;
                    // An actor that ended keeps nothing.
                    let _ended = owner.cast(OwnerMsg::ArchivingIsDue);
                });
                self.timer = Some((at, waking));
            }
        }
    }

    /// The timer has run out; the next one is set anew.
    pub(super) fn is_due(&mut self) {
        self.timer = None;
    }

    fn begins(&mut self, records: &Records, now: BusTime, owner: &ActorRef<OwnerMsg>) {
        self.timer = None;
        let runs = unarchived(records, &self.failures, now);
        self.tried = runs.iter().map(|it| it.run).collect();
        let (bus, owner) = (self.bus.clone(), owner.clone());
        self.working = Some(Pump::run(async move {
            let room = (ARCHIVE_SHARED_BYTES_MAX, ARTIFACT_BYTES_MAX);
            let kept = archive::keep(&bus, runs, room).await;
            let kept: Vec<Archived> = kept.into_iter().flat_map(noted).collect();
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
