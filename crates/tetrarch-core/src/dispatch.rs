//! Dispatches (spec 05, Records): every instruction that was sent for an assignment, one record each.
//! A repeat keeps its id, and whoever gets it drops what it has seen.

use crate::id::{AssignmentId, DispatchId, Principal, RunId, SessionId};
use crate::overseer::Rung;
use crate::time::BusTime;
use crate::words::words;

words! {
    /// How an instruction is sent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DispatchMode {
        /// A session is started with it.
        Spawn = "spawn",
        /// By mail to a session that runs.
        Mail = "mail",
        /// As a question to people.
        Escalate = "escalate",
        /// As a question to the planner.
        Planner = "planner",
    }
}

words! {
    /// What came of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DispatchOutcome {
        /// Sent; nobody has said that it arrived.
        Accepted = "accepted",
        /// Consumed by whom it was sent to.
        Ok = "ok",
        /// Given up waiting for it.
        Timeout = "timeout",
        /// It cannot be consumed any more: its session ended before.
        Error = "error",
    }
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Its id.
    pub id: DispatchId,
    /// What it was sent for.
    pub assignment: AssignmentId,
    /// When it was sent first.
    pub at: BusTime,
    /// How.
    pub mode: DispatchMode,
    /// The rung of the ladder that sent it; none for the launch of a session.
    pub rung: Option<Rung>,
    /// To whom.
    pub to: Principal,
    /// To which session of it.
    pub session: Option<SessionId>,
    /// What it says; the beginning of it, when it is a brief, which the run has whole.
    pub text: String,
    /// Lower-case hexadecimal sha256 of the whole text.
    pub hash: String,
    /// What came of it.
    pub outcome: DispatchOutcome,
    /// The run it is about.
    pub run: Option<RunId>,
    /// Why it was sent, and whether it was sent again, in words.
    pub notes: String,
}
