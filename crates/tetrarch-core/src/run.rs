//! One attempt of an agent at a brief: the eleven-state machine and its records (spec 06).
//! Liveness and assignment are other machines; they are never merged with this one.

use std::fmt;

use crate::agent::Placement;
use crate::brief::{Brief, RunResult, Usage};
use crate::id::{AgentId, AssignmentId, EpicId, NodeId, RunId, SessionId};
use crate::time::BusTime;

/// The eleven states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Admitted, waiting for a slot on its host.
    Queued,
    /// The process is being created.
    Spawning,
    /// At work.
    Running,
    /// Waiting for a human or the parent.
    AwaitingInput,
    /// Waiting for something the system resolves.
    Blocked,
    /// Frozen by a human.
    PausedByUser,
    /// Summarising its context.
    Compacting,
    /// Asked to stop, not yet at a boundary.
    Cancelling,
    /// Ended well.
    Done,
    /// Ended badly; a retry is a new run.
    Failed,
    /// Lost: its session was replaced or given up.
    Orphaned,
}

/// What may happen to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunEvent {
    /// Its host takes it on.
    SlotGranted,
    /// The process is up.
    SpawnSucceeded,
    /// The process could not be started.
    SpawnFailed,
    /// A question was asked.
    InputNeeded,
    /// The answer came.
    InputReceived,
    /// It waits for something outside.
    ExternalBlocked,
    /// What it waited for is there.
    Unblocked,
    /// A human froze it.
    UserPaused,
    /// A human let it go on.
    Resumed,
    /// It began to summarise.
    CompactionStarted,
    /// It summarised.
    CompactionEnded,
    /// A stop was asked for.
    CancelRequested,
    /// The drain ended in success.
    DrainedDone,
    /// The drain ended without success.
    DrainedFailed,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
    /// Its session was replaced or given up.
    HeartbeatLost,
}

/// A pair that is not in the table; the state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("illegal_transition: {event} in state {state}")]
pub struct IllegalRun {
    /// The state it is in.
    pub state: RunState,
    /// What was to happen.
    pub event: RunEvent,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Spawning,
        Self::Running,
        Self::AwaitingInput,
        Self::Blocked,
        Self::PausedByUser,
        Self::Compacting,
        Self::Cancelling,
        Self::Done,
        Self::Failed,
        Self::Orphaned,
    ];

    /// The word of spec 06.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Spawning => "spawning",
            Self::Running => "running",
            Self::AwaitingInput => "awaiting-input",
            Self::Blocked => "blocked",
            Self::PausedByUser => "paused-by-user",
            Self::Compacting => "compacting",
            Self::Cancelling => "cancelling",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Orphaned => "orphaned",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can happen to it any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Orphaned => true,
            Self::Queued
            | Self::Spawning
            | Self::Running
            | Self::AwaitingInput
            | Self::Blocked
            | Self::PausedByUser
            | Self::Compacting
            | Self::Cancelling => false,
        }
    }

    /// The state after an event: the table of spec 06. A `cancel_requested` while compacting
    /// leaves the state; the caller keeps it until `compaction_ended` ([`Run::cancel_kept`]).
    ///
    /// # Errors
    /// Both names, for a pair that is not in the table.
    pub fn on(self, event: RunEvent) -> Result<Self, IllegalRun> {
        use RunEvent as E;
        let next = match (self, event) {
            (Self::Queued, E::SlotGranted) => Self::Spawning,
            (Self::Spawning, E::SpawnFailed) | (Self::Running | Self::Cancelling, E::Failed) => {
                Self::Failed
            }
            (Self::Running, E::InputNeeded) => Self::AwaitingInput,
            (Self::Running, E::ExternalBlocked) => Self::Blocked,
            (Self::Running, E::UserPaused) => Self::PausedByUser,
            (Self::Running, E::CompactionStarted) | (Self::Compacting, E::CancelRequested) => {
                Self::Compacting
            }
            (Self::Running, E::Completed) | (Self::Cancelling, E::DrainedDone) => Self::Done,
            (Self::Cancelling, E::DrainedFailed) => Self::Failed,
            (Self::Spawning, E::SpawnSucceeded)
            | (Self::AwaitingInput, E::InputReceived)
            | (Self::Blocked, E::Unblocked)
            | (Self::PausedByUser, E::Resumed)
            | (Self::Compacting, E::CompactionEnded) => Self::Running,
            (
                Self::Queued
                | Self::Spawning
                | Self::Running
                | Self::AwaitingInput
                | Self::Blocked
                | Self::PausedByUser,
                E::CancelRequested,
            ) => Self::Cancelling,
            (
                Self::Queued
                | Self::Spawning
                | Self::Running
                | Self::AwaitingInput
                | Self::Blocked
                | Self::PausedByUser
                | Self::Compacting
                | Self::Cancelling,
                E::HeartbeatLost,
            ) => Self::Orphaned,
            (state, event) => return Err(IllegalRun { state, event }),
        };
        Ok(next)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RunEvent {
    /// Every event.
    pub const ALL: [Self; 17] = [
        Self::SlotGranted,
        Self::SpawnSucceeded,
        Self::SpawnFailed,
        Self::InputNeeded,
        Self::InputReceived,
        Self::ExternalBlocked,
        Self::Unblocked,
        Self::UserPaused,
        Self::Resumed,
        Self::CompactionStarted,
        Self::CompactionEnded,
        Self::CancelRequested,
        Self::DrainedDone,
        Self::DrainedFailed,
        Self::Completed,
        Self::Failed,
        Self::HeartbeatLost,
    ];

    /// The word of spec 06.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlotGranted => "slot_granted",
            Self::SpawnSucceeded => "spawn_succeeded",
            Self::SpawnFailed => "spawn_failed",
            Self::InputNeeded => "input_needed",
            Self::InputReceived => "input_received",
            Self::ExternalBlocked => "external_blocked",
            Self::Unblocked => "unblocked",
            Self::UserPaused => "user_paused",
            Self::Resumed => "resumed",
            Self::CompactionStarted => "compaction_started",
            Self::CompactionEnded => "compaction_ended",
            Self::CancelRequested => "cancel_requested",
            Self::DrainedDone => "drained_done",
            Self::DrainedFailed => "drained_failed",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::HeartbeatLost => "heartbeat_lost",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

impl fmt::Display for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A run's definition: written once, at admission.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whose attempt it is.
    pub agent: AgentId,
    /// The incarnation that makes it.
    pub session: SessionId,
    /// That incarnation's epoch.
    pub epoch: u64,
    /// The epic it belongs to.
    pub epic: EpicId,
    /// The work node it is for.
    pub node: NodeId,
    /// The assignment it serves.
    pub assignment: AssignmentId,
    /// The whole contract.
    pub brief: Brief,
    /// The run this one goes on from, after a replacement.
    pub continues: Option<RunId>,
    /// Where it runs.
    pub placement: Option<Placement>,
    /// When it was admitted.
    pub created: BusTime,
}

/// A run's state: rewritten at every transition.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStatus {
    /// The run.
    pub id: RunId,
    /// Whose attempt it is.
    pub agent: AgentId,
    /// Where it stands.
    pub state: RunState,
    /// A stop that arrived while compacting and waits for its end.
    pub cancel_kept: bool,
    /// Since when it stands there.
    pub since: BusTime,
    /// When people were last told that it stands there for long.
    pub reminded: Option<BusTime>,
    /// What it has used.
    pub usage: Usage,
    /// What it ended with.
    pub result: Option<RunResult>,
    /// The artifact that keeps its journal, by its sha256; none before it is kept.
    pub archive: Option<String>,
}

impl RunStatus {
    /// Moves the run on. A kept `cancel_requested` takes effect at `compaction_ended`.
    ///
    /// # Errors
    /// The pair, when it is not in the table; nothing is changed then.
    pub fn apply(&mut self, event: RunEvent, now: BusTime) -> Result<(), IllegalRun> {
        let before = self.state;
        let mut next = before.on(event)?;
        if before == RunState::Compacting && event == RunEvent::CancelRequested {
            self.cancel_kept = true;
        }
        if self.cancel_kept && next == RunState::Running {
            next = RunState::Cancelling;
            self.cancel_kept = false;
        }
        self.state = next;
        if next != before {
            self.since = now;
            self.reminded = None;
        }
        Ok(())
    }

    /// Since when nothing was done about where it stands.
    #[must_use]
    pub fn waiting_since(&self) -> BusTime {
        self.reminded.unwrap_or(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of spec 06, one line a state; `drained` is written as its two outcomes.
    const TABLE: &[(&str, &[(&str, &str)])] = &[
        (
            "queued",
            &[
                ("slot_granted", "spawning"),
                ("cancel_requested", "cancelling"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "spawning",
            &[
                ("spawn_succeeded", "running"),
                ("spawn_failed", "failed"),
                ("cancel_requested", "cancelling"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "running",
            &[
                ("input_needed", "awaiting-input"),
                ("external_blocked", "blocked"),
                ("user_paused", "paused-by-user"),
                ("compaction_started", "compacting"),
                ("cancel_requested", "cancelling"),
                ("completed", "done"),
                ("failed", "failed"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "awaiting-input",
            &[
                ("input_received", "running"),
                ("cancel_requested", "cancelling"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "blocked",
            &[
                ("unblocked", "running"),
                ("cancel_requested", "cancelling"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "paused-by-user",
            &[
                ("resumed", "running"),
                ("cancel_requested", "cancelling"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "compacting",
            &[
                ("compaction_ended", "running"),
                ("cancel_requested", "compacting"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        (
            "cancelling",
            &[
                ("drained_done", "done"),
                ("drained_failed", "failed"),
                ("failed", "failed"),
                ("heartbeat_lost", "orphaned"),
            ],
        ),
        ("done", &[]),
        ("failed", &[]),
        ("orphaned", &[]),
    ];

    #[test]
    fn every_state_event_pair_follows_the_table() {
        for (state, rows) in TABLE {
            let from = RunState::parse(state).unwrap();
            for event in RunEvent::ALL {
                let expected = rows.iter().find(|(name, _)| *name == event.as_str());
                match (from.on(event), expected) {
                    (Ok(next), Some((_, to))) => assert_eq!(next.as_str(), *to),
                    (Err(error), None) => assert_eq!(error, IllegalRun { state: from, event }),
                    (got, expected) => panic!("{state} {event}: {got:?}, expected {expected:?}"),
                }
            }
        }
    }
}
