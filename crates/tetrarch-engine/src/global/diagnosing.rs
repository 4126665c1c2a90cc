//! Reads the ends of stalled runs' journals before the overseer looks at them (spec 05, Stall), beside
//! the owner's loop. What could not be read in time is not diagnosed.

use std::collections::BTreeMap;
use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::journal_end;
use tetrarch_core::id::RunId;
use tetrarch_core::limits::DIAGNOSED_ENTRIES;
use tetrarch_core::overseer::Diagnosis;
use tetrarch_core::overseer::diagnosis::diagnose;

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// How long the overseer waits for all the journals of one look.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// What is known of runs by the ends of their journals.
pub(super) type Diagnosed = BTreeMap<RunId, Diagnosis>;

/// The reader; one reading at a time.
#[derive(Debug)]
pub(super) struct Diagnosing {
    bus: Bus,
    reading: Option<Pump>,
    known: Diagnosed,
}

impl Diagnosing {
    /// Knows nothing yet.
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, reading: None, known: Diagnosed::new() }
    }

    /// What the last reading found.
    pub(super) fn known(&self) -> Diagnosed {
        self.known.clone()
    }

    /// Begins to read the journals of `runs`; the owner is told what they say. False when there is
    /// nothing to wait for.
    pub(super) fn begins(&mut self, runs: Vec<RunId>, owner: &ActorRef<OwnerMsg>) -> bool {
        if self.reading.is_some() {
            return true;
        }
        if runs.is_empty() {
            self.known.clear();
            return false;
        }
        let (bus, owner) = (self.bus.clone(), owner.clone());
        self.reading = Some(Pump::run(async move {
            let known = read(&bus, runs).await;
            // An actor that ended has no use for it.
            let _ended = owner.cast(OwnerMsg::Diagnosed(known));
        }));
        true
    }

    /// Takes what a reading found.
    pub(super) fn ended(&mut self, known: Diagnosed) {
        self.reading = None;
        self.known = known;
    }
}

/// What was read until the deadline.
async fn read(bus: &Bus, runs: Vec<RunId>) -> Diagnosed {
    let mut known = Diagnosed::new();
    let all = async {
        for run in runs {
            match journal_end(bus, run, DIAGNOSED_ENTRIES).await {
                Ok(end) => {
                    let events: Vec<_> = end.into_iter().map(|entry| entry.event).collect();
                    known.insert(run, diagnose(&events));
                }
                Err(error) => tracing::warn!(%run, %error, "a stall is judged without its journal"),
            }
        }
    };
    if tokio::time::timeout(READ_WITHIN, all).await.is_err() {
        tracing::warn!("journals of stalled runs were not read in time");
    }
    known
}
