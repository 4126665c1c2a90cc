//! What a ready node needs, how it is asked for, and what a refusal means (spec 03, 05). Plain
//! functions of a node, a view or a reason.

use crate::assignment::Purpose;
use crate::budget::Limits;
use crate::error::DenialReason;
use crate::id::EpicId;
use crate::mail::Denied;
use crate::plan::{Blocker, Node, NodeStatus, NodeView, PlacementWish};
use crate::request::{SpawnRequest, SubagentWish, TaskWish};
use crate::role::Role;

/// What a node needs an agent for at present.
pub(super) fn due(view: &NodeView, node: &Node) -> Option<Purpose> {
    if view.assignee.is_some() {
        return None;
    }
    match (view.status, view.purpose) {
        (NodeStatus::Queued, Purpose::Execute) => Some(Purpose::Execute),
        (NodeStatus::InProgress, Purpose::Review) if node.review.is_some() => Some(Purpose::Review),
        (_, _) => None,
    }
}

/// The request for the agent that a node needs.
pub(super) fn request(epic: EpicId, node: &Node, purpose: Purpose) -> SpawnRequest {
    let text = if node.objective.is_empty() { &node.name } else { &node.objective };
    let review = node.review.as_ref().filter(|_| purpose == Purpose::Review);
    let (role, domain, profile, task) = match review {
        Some(review) => (
            Role::Reviewer,
            Some(review.domain.clone()),
            review.profile.clone(),
            format!("Review {}: judge its result against its criteria. {text}", node.id),
        ),
        None => (node.role, node.domain.clone(), None, text.clone()),
    };
    SpawnRequest {
        epic,
        node: Some(node.id),
        parent: None,
        requested_by: None,
        reason: format!("{} is ready", node.id),
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents: vec![SubagentWish {
            role,
            domain,
            task: TaskWish::Task(task),
            suggested_actor_id: node.name.clone(),
            local_max_depth: None,
            budget: Limits::default(),
            wall: None,
            tools: None,
            profile,
            placement: PlacementWish::default(),
        }],
        ack_required: true,
        wait: false,
    }
}

/// What may cure a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// A child that ends.
    Slot,
    /// The plan as it really is, which is on its way.
    Plan,
    /// Time.
    Time,
    /// What other children give back when they end.
    Return,
    /// Nothing this orchestrator can do.
    None,
}

/// What may cure a refusal for this reason.
pub(super) fn cure(reason: DenialReason) -> Cure {
    match reason {
        DenialReason::ChildrenLimitExceeded => Cure::Slot,
        DenialReason::NodeNotAssignable | DenialReason::UnknownEpic | DenialReason::Conflict => {
            Cure::Plan
        }
        DenialReason::NoHostAvailable
        | DenialReason::ParentNotActive
        | DenialReason::CircuitOpen
        | DenialReason::DuplicateIdentity => Cure::Time,
        DenialReason::BudgetExceeded => Cure::Return,
        DenialReason::SpawnDepthExceeded
        | DenialReason::DepthLimitExceeded
        | DenialReason::RoleNotAllowed
        | DenialReason::ToolNotAllowed
        | DenialReason::UnknownParent
        | DenialReason::Unauthorized
        | DenialReason::InvalidRequest => Cure::None,
    }
}

/// What a node is blocked with that cannot be staffed.
pub(super) fn blocker(denied: &Denied) -> Blocker {
    Blocker {
        kind: denied.reason.as_str().to_owned(),
        detail: denied.detail.clone(),
        needs: "a change of the plan, its profiles or its budget".to_owned(),
    }
}
