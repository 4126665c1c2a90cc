//! The codes by which a request is refused, as requesters see them (spec 03, 05).

use std::fmt;

/// Why a spawn request, or one of its sub-agents, is refused (spec 03).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenialReason {
    /// The child would stand on a fifth level.
    SpawnDepthExceeded,
    /// The parent stands at its own or its subtree's limit.
    DepthLimitExceeded,
    /// No free slot.
    ChildrenLimitExceeded,
    /// Not in the table of parents, or a specialist without sponsor.
    RoleNotAllowed,
    /// More budget than the parent has free.
    BudgetExceeded,
    /// A tool the parent does not have.
    ToolNotAllowed,
    /// The name exists and is not terminated.
    DuplicateIdentity,
    /// No such agent.
    UnknownParent,
    /// It is in register, stale, offline or terminated.
    ParentNotActive,
    /// Restart intensity tripped.
    CircuitOpen,
    /// No active host satisfies the placement.
    NoHostAvailable,
    /// Terminal, not ready, or with an open assignment.
    NodeNotAssignable,
    /// No such epic in that project.
    UnknownEpic,
    /// The request id was used with another body.
    Conflict,
    /// The sender may not act for that parent.
    Unauthorized,
    /// Malformed.
    InvalidRequest,
}

impl DenialReason {
    /// Every reason.
    pub const ALL: [Self; 16] = [
        Self::SpawnDepthExceeded,
        Self::DepthLimitExceeded,
        Self::ChildrenLimitExceeded,
        Self::RoleNotAllowed,
        Self::BudgetExceeded,
        Self::ToolNotAllowed,
        Self::DuplicateIdentity,
        Self::UnknownParent,
        Self::ParentNotActive,
        Self::CircuitOpen,
        Self::NoHostAvailable,
        Self::NodeNotAssignable,
        Self::UnknownEpic,
        Self::Conflict,
        Self::Unauthorized,
        Self::InvalidRequest,
    ];

    /// The word of spec 03.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpawnDepthExceeded => "spawn_depth_exceeded",
            Self::DepthLimitExceeded => "depth_limit_exceeded",
            Self::ChildrenLimitExceeded => "children_limit_exceeded",
            Self::RoleNotAllowed => "role_not_allowed",
            Self::BudgetExceeded => "budget_exceeded",
            Self::ToolNotAllowed => "tool_not_allowed",
            Self::DuplicateIdentity => "duplicate_identity",
            Self::UnknownParent => "unknown_parent",
            Self::ParentNotActive => "parent_not_active",
            Self::CircuitOpen => "circuit_open",
            Self::NoHostAvailable => "no_host_available",
            Self::NodeNotAssignable => "node_not_assignable",
            Self::UnknownEpic => "unknown_epic",
            Self::Conflict => "E_CONFLICT",
            Self::Unauthorized => "unauthorized",
            Self::InvalidRequest => "invalid_request",
        }
    }

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

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an operation is refused (spec 05, Plan events).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The sender may not do that.
    Unauthorized,
    /// The plan breaks a rule.
    InvalidPlan,
    /// What it was made for has changed, or the request id was used with another body.
    Conflict,
    /// No such thing.
    NotFound,
    /// Malformed.
    InvalidRequest,
    /// The session or epoch is not the current one.
    Superseded,
    /// Nothing that can take it is up.
    Unavailable,
    /// More than is free.
    BudgetExceeded,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::Unauthorized,
        Self::InvalidPlan,
        Self::Conflict,
        Self::NotFound,
        Self::InvalidRequest,
        Self::Superseded,
        Self::Unavailable,
        Self::BudgetExceeded,
    ];

    /// The word requesters see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "E_UNAUTHORIZED",
            Self::InvalidPlan => "E_INVALID_PLAN",
            Self::Conflict => "E_CONFLICT",
            Self::NotFound => "E_NOT_FOUND",
            Self::InvalidRequest => "invalid_request",
            Self::Superseded => "superseded",
            Self::Unavailable => "unavailable",
            Self::BudgetExceeded => "budget_exceeded",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
