//! Reads the ends of stalled runs' journals before the overseer looks at them (spec 05, Stall), beside
//! the owner's loop. What could not be read in time is not diagnosed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, journal_end};
use tetrarch_core::id::RunId;
use tetrarch_core::limits::DIAGNOSED_ENTRIES;
use tetrarch_core::overseer::Diagnosis;
use tetrarch_core::overseer::diagnosis::{diagnose, last_words};

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// How long the overseer waits for all the journals of one look.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// What is known of runs by the ends of their journals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Diagnosed {
    /// What they look like.
    pub(super) diagnoses: BTreeMap<RunId, Diagnosis>,
    /// Their last words.
    pub(super) words: BTreeMap<RunId, Vec<String>>,
}

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
        Self { bus, reading: None, known: Diagnosed::default() }
    }

    /// What the last reading found.
    pub(super) fn known(&self) -> Diagnosed {
        self.known.clone()
    }

    /// Begins to read journals; the owner is told what they say. False when there is
    /// nothing to wait for.
    pub(super) fn begins(
        &mut self,
        journals: Vec<JournalName>,
        owner: &ActorRef<OwnerMsg>,
    ) -> bool {
        if self.reading.is_some() {
            return true;
        }
        if journals.is_empty() {
            self.known = Diagnosed::default();
            return false;
        }
        let (bus, owner) = (self.bus.clone(), owner.clone());
        self.reading = Some(Pump::run(async move {
            let known = whatever_comes(read(&bus, journals)).await;
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

/// What a reading found; nothing when it panicked, so that the owner hears of every reading's end.
async fn whatever_comes(reading: impl Future<Output = Diagnosed>) -> Diagnosed {
    // What it has half done is its own and goes with it.
    AssertUnwindSafe(reading).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("reading the journals of stalled runs panicked; classifying without them");
        Diagnosed::default()
    })
}

/// What was read until the deadline.
async fn read(bus: &Bus, journals: Vec<JournalName>) -> Diagnosed {
    let mut known = Diagnosed::default();
    let all = async {
        for journal in journals {
            let run = journal.run;
            match journal_end(bus, &journal, DIAGNOSED_ENTRIES).await {
                Ok(end) => {
                    let events: Vec<_> = end.into_iter().map(|entry| entry.event).collect();
                    known.diagnoses.insert(run, diagnose(&events));
                    known.words.insert(run, last_words(&events));
                }
                Err(error) => {
                    tracing::warn!(%run, %error, "reading the journal of a stalled run failed; classifying without it")
                }
            }
        }
    };
    if tokio::time::timeout(READ_WITHIN, all).await.is_err() {
        tracing::warn!("reading the journals of stalled runs timed out");
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_a_reading_is_reported_however_it_ends() {
        let known = Diagnosed {
            words: [(RunId(tetrarch_core::id::Ulid(1)), Vec::new())].into(),
            ..Default::default()
        };
        assert_eq!(whatever_comes(async { known.clone() }).await, known);
        assert_eq!(whatever_comes(async { panic!("on purpose") }).await, Diagnosed::default());
    }
}
