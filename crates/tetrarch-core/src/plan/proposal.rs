//! Drafts: changes of a plan that are proposed and wait for somebody who may apply them, and the
//! public event by which people are asked to look (spec 05, Plan events). The rule that applies a
//! change is in `change`; who may do what is the owner's.

use std::collections::BTreeSet;
use std::fmt;

use crate::id::{AgentId, DraftId, EpicId, PlanId, Principal, ProjectName};
use crate::plan::PlanReason;
use crate::plan::change::Edit;
use crate::time::BusTime;

/// Where a draft stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DraftStatus {
    /// Nobody has decided.
    Open,
    /// It was applied.
    Approved,
    /// It is not wanted.
    Rejected,
    /// Another one took its place.
    Superseded,
}

impl DraftStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Open, Self::Approved, Self::Rejected, Self::Superseded];

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Superseded => "superseded",
        }
    }
}

impl DraftStatus {
    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// What a verdict makes of it; none when it was decided on before (spec 05, Plan events).
    #[must_use]
    pub fn after(self, verdict: DraftVerdict) -> Option<Self> {
        match (self, verdict) {
            (Self::Open, DraftVerdict::Approve) => Some(Self::Approved),
            (Self::Open, DraftVerdict::Refine) => Some(Self::Open),
            (Self::Open, DraftVerdict::Reject) => Some(Self::Rejected),
            (Self::Approved | Self::Rejected | Self::Superseded, _) => None,
        }
    }
}

/// Whether somebody may change a plan of record: people, GO, and whom the configuration names
/// (spec 05, `E_UNAUTHORIZED`).
#[must_use]
pub fn may_apply(from: &Principal, appliers: &BTreeSet<Principal>) -> bool {
    may_decide(from) || appliers.contains(from)
}

/// Whether somebody decides on drafts: people and GO.
#[must_use]
pub fn may_decide(from: &Principal) -> bool {
    match from {
        Principal::Human(_) => true,
        Principal::Agent(agent) => *agent == AgentId::Go,
    }
}

impl fmt::Display for DraftStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What somebody says to a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftVerdict {
    /// Apply it.
    Approve,
    /// It stays open, and its author is told what to change.
    Refine,
    /// It is not wanted.
    Reject,
}

impl DraftVerdict {
    /// Every verdict.
    pub const ALL: [Self; 3] = [Self::Approve, Self::Refine, Self::Reject];

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == text)
    }

    /// The lower-case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Refine => "refine",
            Self::Reject => "reject",
        }
    }
}

/// A proposed change of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Its id.
    pub id: DraftId,
    /// The epic.
    pub epic: EpicId,
    /// Who proposes it.
    pub author: Principal,
    /// The plan's version that it was made for.
    pub base_version: u32,
    /// What it would do to that version.
    pub edit: Edit,
    /// Why.
    pub reason: String,
    /// Where it stands.
    pub status: DraftStatus,
    /// What was said to it last: what to refine, why it was rejected, what took its place.
    pub notes: String,
    /// Who said so.
    pub decided_by: Option<Principal>,
    /// The version that it made, once it was approved.
    pub version: Option<u32>,
    /// When it was proposed.
    pub created: BusTime,
    /// Since when it stands there.
    pub since: BusTime,
}

/// Why somebody should look at a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewAsk {
    /// Who asks.
    pub by: Principal,
    /// For programs.
    pub reason: PlanReason,
    /// The draft that waits for a decision.
    pub draft: Option<DraftId>,
    /// In words.
    pub text: String,
}

/// The public event `plan.review_needed` (spec 05): the plan is as it was, somebody should look at
/// it. One event for all that was asked in one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanReview {
    /// The epic.
    pub epic: EpicId,
    /// The plan.
    pub plan: PlanId,
    /// The project.
    pub project: ProjectName,
    /// The version that the plan has.
    pub version: u32,
    /// Why, each time it was asked.
    pub asks: Vec<ReviewAsk>,
    /// The trace of the plan, a W3C `traceparent`.
    pub trace: Option<String>,
    /// When it was asked.
    pub at: BusTime,
}
