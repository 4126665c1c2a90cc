//! The codes by which a request is refused, as requesters see them (spec 03, 05).

use crate::words::words;

words! {
    /// Why a spawn request, or one of its sub-agents, is refused (spec 03).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DenialReason {
        /// The child would stand on a fifth level.
        SpawnDepthExceeded = "spawn_depth_exceeded",
        /// The parent stands at its own or its subtree's limit.
        DepthLimitExceeded = "depth_limit_exceeded",
        /// No free slot.
        ChildrenLimitExceeded = "children_limit_exceeded",
        /// Not in the table of parents, or a specialist without sponsor.
        RoleNotAllowed = "role_not_allowed",
        /// More budget than the parent has free.
        BudgetExceeded = "budget_exceeded",
        /// A tool the parent does not have.
        ToolNotAllowed = "tool_not_allowed",
        /// The name exists and is not terminated.
        DuplicateIdentity = "duplicate_identity",
        /// No such agent.
        UnknownParent = "unknown_parent",
        /// It is in register, stale, offline or terminated.
        ParentNotActive = "parent_not_active",
        /// Restart intensity tripped.
        CircuitOpen = "circuit_open",
        /// No active host satisfies the placement.
        NoHostAvailable = "no_host_available",
        /// Terminal, not ready, or with an open assignment.
        NodeNotAssignable = "node_not_assignable",
        /// No such epic in that project.
        UnknownEpic = "unknown_epic",
        /// The request id was used with another body.
        Conflict = "E_CONFLICT",
        /// The sender may not act for that parent.
        Unauthorized = "unauthorized",
        /// Malformed.
        InvalidRequest = "invalid_request",
    }
}

impl DenialReason {
    /// Whether it is about depth (spec 03, the overall reason).
    #[must_use]
    pub fn is_depth(self) -> bool {
        matches!(self, Self::SpawnDepthExceeded | Self::DepthLimitExceeded)
    }

    /// Whether it also alerts the parent orchestrator (`governor.violation`, spec 03).
    #[must_use]
    pub fn is_violation(self) -> bool {
        self.is_depth()
            || matches!(self, Self::RoleNotAllowed | Self::BudgetExceeded | Self::ToolNotAllowed)
    }
}

words! {
    /// Why an operation is refused (spec 05, Plan events).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ErrorCode {
        /// The sender may not do that.
        Unauthorized = "E_UNAUTHORIZED",
        /// The plan breaks a rule.
        InvalidPlan = "E_INVALID_PLAN",
        /// What it was made for has changed, or the request id was used with another body.
        Conflict = "E_CONFLICT",
        /// No such thing.
        NotFound = "E_NOT_FOUND",
        /// Malformed.
        InvalidRequest = "invalid_request",
        /// The session or epoch is not the current one.
        Superseded = "superseded",
        /// Nothing that can take it is up.
        Unavailable = "unavailable",
        /// More than is free.
        BudgetExceeded = "budget_exceeded",
        /// A lane of a person has no room.
        LaneFull = "lane_full",
    }
}

/// A refused operation: what, why, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Refusal {
    /// The code.
    pub code: ErrorCode,
    /// In words.
    pub detail: String,
    /// The version that the plan it is about has, where that matters.
    pub version: Option<u32>,
}

impl Refusal {
    /// A refusal with its words.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), version: None }
    }

    /// With the version that the plan has.
    #[must_use]
    pub fn at_version(self, version: u32) -> Self {
        Self { version: Some(version), ..self }
    }
}
