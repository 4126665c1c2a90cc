//! Assignments: the binding of a work node to an agent, and its status machine (spec 05).

use crate::dispatch::Dispatch;
use crate::id::{AgentId, AssignmentId, DispatchId, EpicId, NodeId, RunId};
use crate::overseer::policy::RecoveryPolicy;
use crate::time::BusTime;
use crate::words::{parsed_words, words};

parsed_words! {
    /// Where an assignment stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AssignmentStatus {
        /// Bound, nothing sent.
        Queued = "queued",
        /// Sent, not consumed.
        Dispatched = "dispatched",
        /// Consumed: its run is running.
        Active = "active",
        /// No activity.
        Stalled = "stalled",
        /// Waits for somebody.
        Blocked = "blocked",
        /// Ended with a result.
        Done = "done",
        /// Ended without one.
        Cancelled = "cancelled",
    }
}

/// Why an assignment may not move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// A pair that is not in the table.
    #[error("illegal_transition: assignment {from} -> {to}")]
    Illegal {
        /// The status it has.
        from: AssignmentStatus,
        /// The status that was asked for.
        to: AssignmentStatus,
    },
    /// Done without anything to show.
    #[error("evidence_required: done needs a crystallization or evidence anchors")]
    EvidenceRequired,
}

impl AssignmentStatus {
    /// Whether nothing can happen to it any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Cancelled => true,
            Self::Queued | Self::Dispatched | Self::Active | Self::Stalled | Self::Blocked => false,
        }
    }

    /// The next status, when the pair is in the table of spec 05. `evidence`: there is a
    /// crystallization or an evidence anchor.
    ///
    /// # Errors
    /// The pair, when it is not in the table; missing evidence for `done`.
    pub fn to(self, to: Self, evidence: bool) -> Result<Self, AssignmentError> {
        let legal = match (self, to) {
            (Self::Queued, Self::Dispatched)
            | (Self::Dispatched | Self::Stalled, Self::Active)
            | (Self::Dispatched | Self::Active, Self::Stalled)
            | (Self::Dispatched | Self::Active | Self::Stalled, Self::Blocked)
            | (Self::Blocked, Self::Queued)
            | (Self::Dispatched | Self::Active | Self::Stalled | Self::Blocked, Self::Done) => true,
            (from, Self::Cancelled) => !from.is_terminal(),
            (
                Self::Queued
                | Self::Dispatched
                | Self::Active
                | Self::Stalled
                | Self::Blocked
                | Self::Done
                | Self::Cancelled,
                Self::Queued
                | Self::Dispatched
                | Self::Active
                | Self::Stalled
                | Self::Blocked
                | Self::Done,
            ) => false,
        };
        if !legal {
            return Err(AssignmentError::Illegal { from: self, to });
        }
        if to == Self::Done && !evidence {
            return Err(AssignmentError::EvidenceRequired);
        }
        Ok(to)
    }
}

words! {
    /// What the agent is to do with the node.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Purpose {
        /// Do the work.
        Execute = "execute",
        /// Judge the work that was done.
        Review = "review",
    }
}

/// The binding of a work node to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Its id.
    pub id: AssignmentId,
    /// The epic.
    pub epic: EpicId,
    /// The node.
    pub node: NodeId,
    /// What for.
    pub purpose: Purpose,
    /// Who.
    pub agent: AgentId,
    /// The agent's run at it.
    pub run: RunId,
    /// Where it stands.
    pub status: AssignmentStatus,
    /// Why it stands there.
    pub reason: String,
    /// Which attempt at the node it is, from 1.
    pub attempt: u32,
    /// The assignment it follows.
    pub follows: Option<AssignmentId>,
    /// When it was made.
    pub created: BusTime,
    /// When it last changed.
    pub updated: BusTime,
    /// What the overseer knows of it.
    pub recovery: Recovery,
    /// What its node says of what becomes of it when it stands still.
    pub policy: RecoveryPolicy,
    /// When the guard refused what was made for it, lately.
    pub refused: Vec<BusTime>,
    /// Its first launch, whose dispatch has no record of its own (spec 02, Few messages).
    pub launch: Option<Box<Dispatch>>,
}

/// Liveness and recovery of an assignment (spec 05, The tick).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// What was sent last; none in records of before dispatches were.
    pub dispatch: Option<DispatchId>,
    /// When it was sent last.
    pub dispatched: BusTime,
    /// Whether the agent consumed it.
    pub consumed: bool,
    /// When the agent last showed something that was written down: its program came up, an update, a
    /// consumed dispatch, progress that excused it.
    pub last_activity: BusTime,
    /// When the agent said that it would be heard of again.
    pub expected_next_update: Option<BusTime>,
    /// Status requests and repetitions since it last reported.
    pub retries: u32,
    /// When the last of them was sent.
    pub last_retry: Option<BusTime>,
    /// Nothing is sent before.
    pub backoff_until: BusTime,
}

impl Recovery {
    /// Of an assignment to which something was sent at this time.
    #[must_use]
    pub fn dispatched(dispatch: Option<DispatchId>, at: BusTime) -> Self {
        Self {
            dispatch,
            dispatched: at,
            consumed: false,
            last_activity: at,
            expected_next_update: None,
            retries: 0,
            last_retry: None,
            backoff_until: BusTime(0),
        }
    }

    /// Since when nothing was sent and nothing heard, as far as it is written down.
    #[must_use]
    pub fn quiet_since(&self) -> BusTime {
        self.last_activity.max(self.dispatched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_transitions_are_legal() {
        use AssignmentStatus::{Active, Blocked, Cancelled, Dispatched, Done, Queued, Stalled};
        let legal = [
            (Queued, Dispatched),
            (Dispatched, Active),
            (Active, Stalled),
            (Stalled, Active),
            (Dispatched, Stalled),
            (Dispatched, Blocked),
            (Active, Blocked),
            (Stalled, Blocked),
            (Blocked, Queued),
            (Dispatched, Done),
            (Active, Done),
            (Stalled, Done),
            (Blocked, Done),
            (Queued, Cancelled),
            (Dispatched, Cancelled),
            (Active, Cancelled),
            (Stalled, Cancelled),
            (Blocked, Cancelled),
        ];
        for from in AssignmentStatus::ALL {
            for to in AssignmentStatus::ALL {
                let got = from.to(to, true);
                assert_eq!(got.is_ok(), legal.contains(&(from, to)), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn done_needs_evidence() {
        let got = AssignmentStatus::Active.to(AssignmentStatus::Done, false);
        assert_eq!(got, Err(AssignmentError::EvidenceRequired));
    }
}
