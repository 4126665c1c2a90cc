//! Which journals are to be kept as artifacts, and that they are (spec 06, Journal). Reading and
//! storing them is the shell's.

use std::collections::BTreeMap;

use crate::agent::Hosting;
use crate::id::{AgentId, RunId, SessionId};
use crate::ledger::Record;
use crate::limits::{ARCHIVE_GATHERS, ARCHIVED_MAX, JOURNAL_ENDS_WITHIN};
use crate::records::Records;
use crate::run::{Run, RunState};
use crate::step::{Draft, Step};
use crate::time::{BusTime, Millis};

/// How long a journal waits that could not be kept, at first and at most.
const ARCHIVE_AGAIN: Millis = Millis(1_000);
const ARCHIVE_AGAIN_MAX: Millis = Millis(300_000);

/// A run that has ended and whose journal is not kept yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unarchived {
    /// The run.
    pub run: RunId,
    /// Whose attempt it was.
    pub agent: AgentId,
    /// The incarnation that made it.
    pub session: SessionId,
    /// That incarnation's epoch.
    pub epoch: u64,
    /// Whether whoever wrote it had [`JOURNAL_ENDS_WITHIN`] to end it: the owner ends it now, if nobody
    /// did.
    pub overdue: bool,
}

/// A journal that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The run.
    pub run: RunId,
    /// The artifact: 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// Journals that could not be kept when that was tried, with how often and until when they wait: what
/// always fails leaves its place to others.
#[derive(Debug, Clone, Default)]
pub struct Failures(BTreeMap<RunId, (u32, BusTime)>);

impl Failures {
    /// These were tried, and all but those that are kept wait: twice as long each time.
    pub fn note(&mut self, tried: &[RunId], kept: &[Archived], now: BusTime) {
        for run in tried {
            if kept.iter().any(|it| it.run == *run) {
                self.0.remove(run);
                continue;
            }
            let (times, until) = self.0.entry(*run).or_default();
            let wait =
                ARCHIVE_AGAIN.0.saturating_mul(1 << (*times).min(16)).min(ARCHIVE_AGAIN_MAX.0);
            (*times, *until) = (times.saturating_add(1), now + Millis(wait));
        }
    }

    /// Until when a run waits.
    fn until(&self, run: RunId, now: BusTime) -> Option<BusTime> {
        self.0.get(&run).map(|(_, until)| *until).filter(|until| now < *until)
    }
}

/// When the owner keeps journals next; none while all are kept. Those of runs that end together are kept
/// together: the one that waits longest waits for [`ARCHIVE_GATHERS`], unless [`ARCHIVED_MAX`] are there.
#[must_use]
pub fn archiving_at(records: &Records, failures: &Failures, now: BusTime) -> Option<BusTime> {
    let looked = records.unarchived().take(ARCHIVED_MAX + failures.0.len());
    let (mut ready, mut first) = (0, None);
    for (since, run) in looked {
        let until = failures.until(run, now);
        ready += usize::from(until.is_none());
        let at = until.unwrap_or(since + ARCHIVE_GATHERS);
        first = Some(first.map_or(at, |first: BusTime| first.min(at)));
    }
    if ready >= ARCHIVED_MAX { Some(now) } else { first }
}

/// The ended runs whose journals are to be kept now, longest ended first; at most [`ARCHIVED_MAX`].
#[must_use]
pub fn unarchived(records: &Records, failures: &Failures, now: BusTime) -> Vec<Unarchived> {
    let due = records.unarchived().filter(|(_, run)| failures.until(*run, now).is_none());
    let ended = due.filter_map(|(since, id)| {
        let run = records.runs.get(&id)?;
        Some(Unarchived {
            run: id,
            agent: run.agent.clone(),
            session: run.session,
            epoch: run.epoch,
            overdue: now >= since + JOURNAL_ENDS_WITHIN,
        })
    });
    ended.take(ARCHIVED_MAX).collect()
}

/// The runs of hosted agents that have begun and not ended: each has a journal from its first entry on, since
/// that is written before its program starts (spec 04, Crash recovery).
pub fn journaled(records: &Records) -> impl Iterator<Item = &Run> {
    let begun = RunState::ALL.into_iter().filter(|state| match state {
        RunState::Running
        | RunState::AwaitingInput
        | RunState::PausedByUser
        | RunState::Blocked
        | RunState::Compacting
        | RunState::Cancelling => true,
        RunState::Queued
        | RunState::Spawning
        | RunState::Done
        | RunState::Failed
        | RunState::Orphaned => false,
    });
    let standing = begun.flat_map(|state| records.standing(state));
    let runs = standing.filter_map(|(_, run)| records.runs.get(&run));
    runs.filter(|run| {
        records.agents.get(&run.agent).is_some_and(|agent| agent.hosting == Hosting::Hosted)
    })
}

/// Notes where a run's journal is kept. What is noted stands; of a run that has not ended, or is
/// forgotten, nothing is noted.
pub(super) fn note(records: &Records, now: BusTime, archived: &Archived) -> Step {
    let mut draft = Draft::new(records, now, super::go());
    let status = draft.run_status(archived.run).cloned();
    if let Some(mut status) = status.filter(|it| it.state.is_terminal() && it.archive.is_none()) {
        status.archive = Some(archived.sha256.clone());
        draft.put(Record::RunStatus(Box::new(status)));
    }
    draft.finish()
}
