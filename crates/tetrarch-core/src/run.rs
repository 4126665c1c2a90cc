//! One attempt of an agent at a brief: the eleven-state machine and its records (spec 06).
//! Liveness and assignment are other machines; they are never merged with this one.

use crate::agent::Placement;
use crate::brief::{Brief, RunResult, Usage};
use crate::id::{AgentId, AssignmentId, EpicId, NodeId, RunId, SessionId};
use crate::time::BusTime;
use crate::words::parsed_words;

parsed_words! {
    /// The eleven states.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RunState {
        /// Admitted, waiting for a slot on its host.
        Queued = "queued",
        /// The process is being created.
        Spawning = "spawning",
        /// At work.
        Running = "running",
        /// Waiting for a human or the parent.
        AwaitingInput = "awaiting-input",
        /// Waiting for something the system resolves.
        Blocked = "blocked",
        /// Frozen by a human.
        PausedByUser = "paused-by-user",
        /// Summarising its context.
        Compacting = "compacting",
        /// Asked to stop, not yet at a boundary.
        Cancelling = "cancelling",
        /// Ended well.
        Done = "done",
        /// Ended badly; a retry is a new run.
        Failed = "failed",
        /// Lost: its session was replaced or given up.
        Orphaned = "orphaned",
    }
}

parsed_words! {
    /// What may happen to a run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RunEvent {
        /// Its host takes it on.
        SlotGranted = "slot_granted",
        /// The process is up.
        SpawnSucceeded = "spawn_succeeded",
        /// The process could not be started.
        SpawnFailed = "spawn_failed",
        /// A question was asked.
        InputNeeded = "input_needed",
        /// The answer came.
        InputReceived = "input_received",
        /// It waits for something outside.
        ExternalBlocked = "external_blocked",
        /// What it waited for is there.
        Unblocked = "unblocked",
        /// A human froze it.
        UserPaused = "user_paused",
        /// A human let it go on.
        Resumed = "resumed",
        /// It began to summarise.
        CompactionStarted = "compaction_started",
        /// It summarised.
        CompactionEnded = "compaction_ended",
        /// A stop was asked for.
        CancelRequested = "cancel_requested",
        /// The drain ended in success.
        DrainedDone = "drained_done",
        /// The drain ended without success.
        DrainedFailed = "drained_failed",
        /// It succeeded.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// Its session was replaced or given up.
        HeartbeatLost = "heartbeat_lost",
    }
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
    /// Stopped by an agent above it: nobody wants its work any more.
    pub dropped: bool,
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
