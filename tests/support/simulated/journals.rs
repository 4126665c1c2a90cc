//! Runs' journals: appending by one writer, ending by the owner's seal.

use tetrarch_core::id::RunId;
use tetrarch_core::journal::JournalEvent;

use super::{NOW, Stream, WrongLast};

/// An entry, with the epoch of whoever wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Journaled {
    /// The writer's epoch.
    pub epoch: u64,
    /// What happened, one after the other.
    pub events: Vec<JournalEvent>,
}

/// The journals of all runs.
#[derive(Debug, Clone, Default)]
pub struct Journals(pub Stream<RunId, Journaled>);

impl Journals {
    /// Where a writer of this epoch goes on, read as of `through`: the last entry's sequence.
    ///
    /// # Errors
    /// A higher epoch has written there: the session is over.
    pub fn open(&self, run: RunId, epoch: u64, through: u64) -> Result<u64, WrongLast> {
        match self.0.last(&run, through) {
            Some((seq, last)) if last.epoch > epoch => Err(WrongLast(seq)),
            Some((seq, _)) => Ok(seq),
            None => Ok(0),
        }
    }

    /// Appends behind the entry at `expect`. The same again is known again.
    ///
    /// # Errors
    /// Another one stands there: the session is over.
    pub fn append(
        &mut self,
        run: RunId,
        epoch: u64,
        events: Vec<JournalEvent>,
        expect: u64,
    ) -> Result<u64, WrongLast> {
        let entry = Journaled { epoch, events };
        self.0.publish(run, entry.clone(), expect).or_else(|refused| {
            let found = self.0.last(&run, NOW).filter(|(_, found)| **found == entry);
            found.map(|(seq, _)| seq).ok_or(refused)
        })
    }

    /// Ends a journal in the name of a session of `epoch`; the first read is as of `through`.
    pub fn end(&mut self, run: RunId, epoch: u64, mut through: u64) {
        loop {
            let found = self.0.last(&run, through);
            let (seq, highest) = found.map_or((0, 0), |(seq, last)| (seq, last.epoch));
            if highest >= epoch {
                return;
            }
            let events = vec![JournalEvent::Ended { cause: format!("sealed for epoch {epoch}") }];
            match self.0.publish(run, Journaled { epoch, events }, seq) {
                Ok(_) => return,
                Err(WrongLast(last)) => through = last,
            }
        }
    }

    /// What a run's journal tells, the oldest first.
    pub fn events(&self, run: RunId) -> impl Iterator<Item = &JournalEvent> {
        let all = self.0.keys.get(&run).into_iter().flatten();
        all.flat_map(|(_, entry)| &entry.events)
    }
}
