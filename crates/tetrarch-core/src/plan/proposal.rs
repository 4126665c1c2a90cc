//! Drafts: changes of a plan that are proposed and wait for somebody who may apply them, and the
//! public event by which people are asked to look (spec 05, Plan events). The rule that applies a
//! change is in `change`; who may do what is the owner's.

use std::collections::BTreeSet;

use crate::id::{AgentId, DraftId, EpicId, PlanId, Principal, ProjectName};
use crate::plan::PlanReason;
use crate::plan::change::Edit;
use crate::time::BusTime;
use crate::words::parsed_words;

parsed_words! {
    /// Where a draft stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DraftStatus {
        /// Nobody has decided.
        Open = "open",
        /// It was applied.
        Approved = "approved",
        /// It is not wanted.
        Rejected = "rejected",
        /// Another one took its place.
        Superseded = "superseded",
    }
}

impl DraftStatus {
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

parsed_words! {
    /// What somebody says to a draft.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DraftVerdict {
        /// Apply it.
        Approve = "approve",
        /// It stays open, and its author is told what to change.
        Refine = "refine",
        /// It is not wanted.
        Reject = "reject",
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

impl Proposal {
    /// What it defines, each node with the tools that it is to have: whoever approves sees them.
    #[must_use]
    pub fn defines(&self) -> String {
        let shown = self.edit.puts.iter().map(|node| {
            let tools: Vec<&str> = node.tools.names().collect();
            if tools.is_empty() {
                node.id.to_string()
            } else {
                format!("{} ({})", node.id, tools.join(", "))
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }
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
