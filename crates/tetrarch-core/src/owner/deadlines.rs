//! No run stands in a state for ever (spec 06, The run's state machine): what comes when its time
//! there is over, and when that is next. Judged in bus time by the owner (spec 04, The sweeper);
//! silence is the sweeper's.

use std::collections::BTreeSet;

use crate::brief::{Outcome, RunResult};
use crate::id::{AgentId, HostName, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{
    AWAITING_INPUT_MAX, BLOCKED_MAX, COMPACTING_MAX, OVERDUE_MAX, SPAWNING_MAX, UNREGISTERED_MAX,
};
use crate::mail::Alert;
use crate::order::StopWithin;
use crate::records::Records;
use crate::run::{RunEvent, RunState, RunStatus};
use crate::step::Draft;
use crate::time::{BusTime, Millis};

use super::{Policy, circuits, recovery, reports, sessions};

const RULE: &str = "06 The run's state machine";
/// How long the word of a killed program takes to the owner, where a window is longer.
const END_IS_KNOWN: Millis = Millis(1_000);

/// How long a run may stand in a state (spec 12, `[deadlines]` and `[runs]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From admission until its program is up.
    pub spawning: Millis,
    /// Until somebody answers; people are reminded of a run they paused as often.
    pub awaiting_input: Millis,
    /// Until what it waits for is there.
    pub blocked: Millis,
    /// Until its context is summarised.
    pub compacting: Millis,
    /// How long a program that is asked to stop has.
    pub stop: StopWithin,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            spawning: SPAWNING_MAX,
            awaiting_input: AWAITING_INPUT_MAX,
            blocked: BLOCKED_MAX,
            compacting: COMPACTING_MAX,
            stop: StopWithin::default(),
        }
    }
}

impl Policy {
    /// How long a run may stand in a state; none where it may stand for as long as it works (its
    /// wall clock is its runner's) or where it has ended.
    #[must_use]
    pub fn patience(&self, state: RunState) -> Option<Millis> {
        let Deadlines { spawning, awaiting_input, blocked, compacting, .. } = self.deadlines;
        match state {
            RunState::Queued | RunState::Spawning => Some(spawning),
            RunState::AwaitingInput | RunState::PausedByUser => Some(awaiting_input),
            RunState::Blocked => Some(blocked),
            RunState::Compacting => Some(compacting),
            RunState::Cancelling => Some(self.stopping()),
            RunState::Running | RunState::Done | RunState::Failed | RunState::Orphaned => None,
        }
    }

    /// How long an ordered end may take until it is known: drain, kill grace, and one window for
    /// the word of it to arrive.
    #[must_use]
    pub fn ending(&self) -> Millis {
        Millis(self.drain_and_kill().0.saturating_add(self.window.0))
    }

    /// How long a stop may take, with all below: drain and kill grace, and a moment for the word of
    /// the end. What has to be waited for on a lower level leaves its parent no more time.
    fn stopping(&self) -> Millis {
        Millis(self.drain_and_kill().0.saturating_add(self.window.min(END_IS_KNOWN).0))
    }

    fn drain_and_kill(&self) -> Millis {
        let StopWithin { drain, kill_grace } = self.deadlines.stop;
        Millis(drain.0.saturating_add(kill_grace.0))
    }
}

/// When the next deadline passes that has not been acted on; none when nothing has one.
#[must_use]
pub fn next_deadline(records: &Records, policy: &Policy, now: BusTime) -> Option<BusTime> {
    let runs = RunState::ALL.into_iter().filter_map(|state| {
        let (since, _) = records.standing(state).next()?;
        Some(since + policy.patience(state)?)
    });
    let external = records.unregistered().next().map(|(since, _)| since + UNREGISTERED_MAX);
    let ending = records.ending().map(|(until, _)| until).find(|until| *until > now);
    let scheduled = records.scheduled().map(|(at, _)| at).next();
    let scheduled = scheduled.filter(|_| policy.halted.is_none());
    let reserved = records.next_reservation_end().into_iter().chain(records.next_expiry());
    runs.chain(external).chain(ending).chain(scheduled).chain(reserved).min()
}

/// Hosts that were ordered to end a session and have not said in time that it is gone, with their
/// epochs: their leases are to be taken from them (spec 04, Crash recovery). What they ran moves on
/// when their orchestrators join anew, or fall silent.
#[must_use]
pub fn unanswering_hosts(records: &Records, now: BusTime) -> BTreeSet<(&HostName, u64)> {
    let late = records.ending().take_while(|(until, _)| *until <= now);
    let placed = late.filter_map(|(_, agent)| records.agents.get(agent)?.placement.as_ref());
    placed.map(|placement| (&placement.host, placement.host_epoch)).collect()
}

/// Acts on what has passed its deadline, a bounded number at a time.
pub(super) fn pass(draft: &mut Draft<'_>, policy: &Policy) {
    let (records, now) = (draft.base(), draft.now);
    let runs = RunState::ALL.into_iter().flat_map(|state| {
        let patience = policy.patience(state);
        let due = move |since: BusTime| patience.is_some_and(|patience| since + patience <= now);
        let standing = records.standing(state).take_while(move |(since, _)| due(*since));
        standing.map(move |(_, run)| (state, run))
    });
    for (state, run) in runs.take(OVERDUE_MAX) {
        // What was done about another may have moved it.
        let status = draft.run_status(run).filter(|status| status.state == state).cloned();
        if let Some(status) = status {
            overdue(draft, policy, &status);
        }
    }
    let gone = records.unregistered().take_while(|(since, _)| *since + UNREGISTERED_MAX <= now);
    for (_, agent) in gone.take(OVERDUE_MAX) {
        let why = format!("offline for {UNREGISTERED_MAX}, and it did not register again");
        sessions::cancel(draft, agent, &why);
    }
}

/// What comes of a run that has stood in its state for too long.
fn overdue(draft: &mut Draft<'_>, policy: &Policy, status: &RunStatus) {
    let state = status.state;
    let stood = draft.now - status.since;
    let text = format!("{} was {state} for {stood}", status.agent);
    match state {
        RunState::Queued | RunState::Spawning => {
            fail(draft, policy, status, &format!("{text}: its program did not come up"));
        }
        RunState::AwaitingInput => {
            let text = format!("{text}: nobody answered; it has failed");
            sessions::alert(draft, &status.agent, Alert::RunOverdue, RULE, &text);
            fail(draft, policy, status, &text);
        }
        RunState::Blocked => {
            let text = format!("{text}: what it waits for did not come; it has failed");
            sessions::alert(draft, &status.agent, Alert::RunOverdue, RULE, &text);
            fail(draft, policy, status, &text);
        }
        RunState::Compacting => {
            let text = format!("{text}: it was killed as hung");
            if let Some(agent) = draft.agent(&status.agent).cloned() {
                // Whatever it leads to, this attempt is over.
                circuits::charge(draft, policy.intensity, &agent, &text);
            }
            fail(draft, policy, status, &text);
        }
        RunState::PausedByUser => remind(draft, status, &text),
        RunState::Cancelling => give_up(draft, &status.agent, &format!("{text}: it was killed")),
        RunState::Running | RunState::Done | RunState::Failed | RunState::Orphaned => {}
    }
}

/// Ends a run without a word of its program, which is killed.
fn fail(draft: &mut Draft<'_>, policy: &Policy, status: &RunStatus, text: &str) {
    let (id, run): (&AgentId, RunId) = (&status.agent, status.id);
    let Some(agent) = draft.agent(id).cloned() else { return };
    sessions::cancel_below(draft, id, text);
    sessions::kill(draft, &agent, text);
    if status.state == RunState::Queued {
        // The table has no other way to a failure; whatever it says, the end follows.
        let _granted = sessions::move_run(draft, run, RunEvent::SlotGranted, text);
    }
    let result = RunResult::ended(Outcome::Failure, text);
    if let Err(refusal) = reports::end(draft, policy, id, run, &result) {
        // It is no longer what it was a moment ago, and then nothing is to be done.
        draft.event(EventKind::Refused, RULE, refusal.to_string()).run = Some(run);
    }
}

/// A pause is a human's decision: people are told that it lasts.
fn remind(draft: &mut Draft<'_>, status: &RunStatus, text: &str) {
    let text = format!("{text}; it goes on when somebody resumes it");
    sessions::alert(draft, &status.agent, Alert::RunOverdue, RULE, &text);
    draft.put(Record::RunStatus(Box::new(RunStatus {
        reminded: Some(draft.now),
        ..status.clone()
    })));
}

/// Ends what did not end in the time a stop may take, children first.
fn give_up(draft: &mut Draft<'_>, id: &AgentId, text: &str) {
    for child in sessions::sub_agents(draft, id) {
        give_up(draft, &child, text);
    }
    let Some(agent) = draft.agent(id).cloned() else { return };
    sessions::kill(draft, &agent, text);
    recovery::give_up(draft, id, Outcome::Cancelled, text);
}
