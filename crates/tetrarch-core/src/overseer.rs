//! The overseer's rules for one assignment (spec 05, The tick): whether it stands still, which rung
//! of the recovery ladder is next, and how long nothing is sent after it. Which assignments a tick
//! looks at, and what it writes, is the owner's.

pub mod backoff;
pub mod diagnosis;
pub mod policy;
pub mod reach;
#[cfg(test)]
mod tests;
pub mod update;

use std::collections::BTreeMap;

use crate::assignment::AssignmentStatus;
use crate::id::{AgentId, RunId};
use crate::limits::{IDLE_AFTER, RESEND_AFTER, RETRIES_MAX};
use crate::liveness::Liveness;
use crate::run::RunState;
use crate::time::{BusTime, Millis};
use crate::words::words;

use backoff::Backoff;

pub use diagnosis::Diagnosis;

/// Why somebody is asked who shows nothing.
pub const SILENT: &str = "no activity";
/// Why somebody is not asked.
const FAILED: &str = "it failed and did not say so";

/// What an operator may set (spec 12, `[overseer]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long an assignment may show nothing before it counts as stalled.
    pub idle_after: Millis,
    /// Status requests and repetitions before the ladder goes on.
    pub max_retries: u32,
    /// The same words are not sent again sooner.
    pub min_resend_interval: Millis,
    /// How long nothing is sent after an attempt.
    pub backoff: Backoff,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            idle_after: IDLE_AFTER,
            max_retries: RETRIES_MAX,
            min_resend_interval: RESEND_AFTER,
            backoff: Backoff::default(),
        }
    }
}

words! {
    /// The rungs of the recovery ladder, in their order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Rung {
        /// Ask the same session for its status.
        Nudge = "nudge",
        /// Send the last dispatch once more, under the same id.
        Resend = "resend",
        /// Have the planner cut the node into smaller ones.
        Replan = "replan",
        /// Stop the agent and give the node to another.
        Reassign = "reassign",
        /// Ask a human.
        Escalate = "escalate",
    }
}

impl Rung {
    /// Where the assignment stands once it is done.
    #[must_use]
    pub fn leads_to(self) -> AssignmentStatus {
        match self {
            Self::Nudge | Self::Resend | Self::Replan => AssignmentStatus::Stalled,
            Self::Reassign => AssignmentStatus::Cancelled,
            Self::Escalate => AssignmentStatus::Blocked,
        }
    }

    /// Whether it counts as an attempt, after which nothing is sent for a while.
    #[must_use]
    pub fn is_retried(self) -> bool {
        match self {
            Self::Nudge | Self::Resend => true,
            Self::Replan | Self::Reassign | Self::Escalate => false,
        }
    }

    /// What a recovery policy calls it (spec 05, The table of rungs).
    #[must_use]
    pub fn as_policy(self) -> &'static str {
        if self == Self::Resend { "resend_last" } else { self.as_str() }
    }

    /// Reads the word; `resend_last` is what a recovery policy calls it (spec 05, The table of rungs).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = || Self::ALL.into_iter().find(|rung| rung.as_str() == text);
        if text == "resend_last" { Some(Self::Resend) } else { named() }
    }
}

/// What the ladder may use for this assignment, and where on it the assignment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// The first rung.
    pub from: Rung,
    /// There is a planner, and the node can be cut.
    pub replan: bool,
    /// The node has an attempt left, and policy lets another agent have it.
    pub reassign: bool,
}

impl Default for Means {
    fn default() -> Self {
        Self { from: Rung::Nudge, replan: false, reassign: true }
    }
}

/// What a tick sees of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Where it stands.
    pub status: AssignmentStatus,
    /// Whether its goal is worked on.
    pub goal_open: bool,
    /// Its agent's liveness.
    pub liveness: Liveness,
    /// Its run's state.
    pub run: RunState,
    /// When something was last sent for it.
    pub last_dispatch: BusTime,
    /// Whether the agent consumed what was last sent.
    pub consumed: bool,
    /// When it last showed something: a growing progress counter, an update, a consumed dispatch,
    /// a move of its run.
    pub last_activity: BusTime,
    /// When its agent said that it would be heard of again.
    pub expected_next_update: Option<BusTime>,
    /// Rungs that were tried since it last reported.
    pub retries: u32,
    /// Nothing is sent before.
    pub backoff_until: BusTime,
    /// What the journal's end says.
    pub diagnosis: Diagnosis,
    /// What may be done.
    pub means: Means,
}

/// What the owner hears of agents without any record of it. Gone with the owner, so that what follows
/// from silence waits until this one has listened for long enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Since when it listens.
    pub since: BusTime,
    /// When it looked before; at the start of time when it did not.
    pub looked: BusTime,
    /// When agents' progress counters last grew.
    pub progressed: BTreeMap<AgentId, BusTime>,
    /// What the journals of stalled runs say, as far as they were read before the last look.
    pub diagnosed: BTreeMap<RunId, Diagnosis>,
    /// The last words in them, oldest first, bounded and without credentials.
    pub words: BTreeMap<RunId, Vec<String>>,
}

impl Default for Telemetry {
    /// Of an owner that has not begun to listen.
    fn default() -> Self {
        Self {
            since: BusTime(u64::MAX),
            looked: BusTime(0),
            progressed: BTreeMap::new(),
            diagnosed: BTreeMap::new(),
            words: BTreeMap::new(),
        }
    }
}

/// What a tick makes of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Where it stands now.
    pub status: AssignmentStatus,
    /// What is to be sent or done.
    pub rung: Option<Rung>,
    /// Whether it stands still, so that the ladder is its business.
    pub stands_still: bool,
    /// Whether it showed something lately.
    pub moves: bool,
    /// Why, in a few words.
    pub why: &'static str,
}

/// Looks at an assignment at a moment. Looking again at the same moment, after what came of it was
/// written, finds nothing more to do.
#[must_use]
pub fn judge(view: &View, patience: &Patience, now: BusTime) -> Verdict {
    let stays =
        |why| Verdict { status: view.status, rung: None, stands_still: false, moves: false, why };
    match view.status {
        AssignmentStatus::Queued => return stays("nothing was sent yet"),
        AssignmentStatus::Blocked => return stays("waits for somebody"),
        AssignmentStatus::Done | AssignmentStatus::Cancelled => return stays("has ended"),
        AssignmentStatus::Dispatched | AssignmentStatus::Active | AssignmentStatus::Stalled => {}
    }
    if let Some(why) = excuse(view) {
        return stays(why);
    }
    if !is_overdue(view, patience, now) {
        let moves = view.last_activity > view.last_dispatch;
        let back = view.status == AssignmentStatus::Stalled && moves;
        let status = if back { AssignmentStatus::Active } else { view.status };
        return Verdict { status, moves: true, ..stays("shows activity") };
    }
    let (rung, why) = next_rung(view, patience);
    let rung = may_send(view, patience, rung, now).then_some(rung);
    Verdict { status: AssignmentStatus::Stalled, rung, stands_still: true, moves: false, why }
}

/// Why silence is no stall (spec 05): a crash is another rule's, and who waits is not idle.
#[must_use]
pub fn excuse(view: &View) -> Option<&'static str> {
    match view.liveness {
        Liveness::Offline | Liveness::Terminated => return Some("its session is lost or over"),
        Liveness::Register | Liveness::Active | Liveness::Stale => {}
    }
    match view.run {
        RunState::AwaitingInput => Some("waits for an answer"),
        RunState::PausedByUser => Some("was paused"),
        RunState::Compacting => Some("summarises its context"),
        RunState::Cancelling => Some("is being stopped"),
        RunState::Done | RunState::Failed | RunState::Orphaned => Some("its run has ended"),
        RunState::Queued | RunState::Spawning | RunState::Running | RunState::Blocked => None,
    }
}

fn is_overdue(view: &View, patience: &Patience, now: BusTime) -> bool {
    let idle = view.last_activity.max(view.last_dispatch) + patience.idle_after <= now;
    idle || view.expected_next_update.is_some_and(|expected| expected <= now)
}

/// The rung that a stalled assignment is at (spec 05, the table of rungs).
#[must_use]
pub fn next_rung(view: &View, patience: &Patience) -> (Rung, &'static str) {
    let Means { from, replan, reassign } = view.means;
    let tried_enough = view.retries >= patience.max_retries;
    if view.diagnosis == Diagnosis::WaitsForHuman {
        return (Rung::Escalate, "it waits for a human");
    }
    let failed = view.diagnosis == Diagnosis::Failed;
    let asks = from <= Rung::Resend && !tried_enough && !failed;
    if asks && !view.consumed {
        return (Rung::Resend, "what was last sent was not consumed");
    }
    if asks && from == Rung::Nudge {
        return (Rung::Nudge, SILENT);
    }
    if from <= Rung::Replan && replan {
        return (Rung::Replan, if failed { FAILED } else { "asking did not help" });
    }
    if from <= Rung::Reassign && reassign {
        let why = "asking did not help, and its work cannot be split";
        return (Rung::Reassign, if failed { FAILED } else { why });
    }
    (Rung::Escalate, "all else is used up")
}

/// Whether the time to send has come: after the backoff, and the same words not too soon.
fn may_send(view: &View, patience: &Patience, rung: Rung, now: BusTime) -> bool {
    let too_soon = rung.is_retried() && view.last_dispatch + patience.min_resend_interval > now;
    view.goal_open && view.backoff_until <= now && !too_soon
}
