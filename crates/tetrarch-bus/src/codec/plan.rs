//! Records of plans and their nodes. The public plan event is in `plan_event`.

use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::plan::folding::Ended;
use tetrarch_core::plan::{
    Blocker, Node, NodeResult, NodeState, NodeStatus, PlacementWish, Plan, PlanReason, PlanSource,
    Review,
};
use tetrarch_core::role::Role;
use tetrarch_core::time::BusTime;

use super::agent::{failures, times};
use super::assignment::{PURPOSES, purpose_word};
use super::brief::{evidence, names, schema};
use super::error::CodecError;
use super::{assignment, budget, priority, read};
use crate::proto::v1 as pb;

pub(super) fn source(field: &str, text: &str) -> Result<PlanSource, CodecError> {
    read::word(field, text, &PlanSource::ALL, PlanSource::as_str)
}

pub(super) fn reason(field: &str, text: &str) -> Result<PlanReason, CodecError> {
    read::word(field, text, &PlanReason::ALL, PlanReason::as_str)
}

pub(super) fn status(field: &str, text: &str) -> Result<NodeStatus, CodecError> {
    read::word(field, text, &NodeStatus::ALL, NodeStatus::as_str)
}

/// A role, by its word or by the prefix of identities.
pub(super) fn role(field: &str, text: &str) -> Result<Role, CodecError> {
    match Role::parse(text) {
        Some(role) => Ok(role),
        None => read::word(field, text, &Role::ALL, Role::as_str),
    }
}

impl From<&Plan> for pb::Plan {
    fn from(plan: &Plan) -> Self {
        Self {
            epic_id: plan.epic.to_string(),
            plan_id: plan.id.to_string(),
            project: plan.project.to_string(),
            version: plan.version,
            source: plan.source.as_str().to_owned(),
            reason: plan.reason.as_str().to_owned(),
            output: read::show(plan.output.as_ref()),
            traceparent: read::show(plan.trace.as_ref()),
            created_unix_ms: plan.created.0,
            updated_unix_ms: plan.updated.0,
            folded: plan.folded.iter().map(ended_children).collect(),
        }
    }
}

impl TryFrom<pb::Plan> for Plan {
    type Error = CodecError;
    fn try_from(plan: pb::Plan) -> Result<Self, CodecError> {
        Ok(Self {
            epic: read::text("epicId", &plan.epic_id)?,
            id: read::text("planId", &plan.plan_id)?,
            project: read::text("project", &plan.project)?,
            version: plan.version,
            source: source("source", &plan.source)?,
            reason: reason("reason", &plan.reason)?,
            output: read::optional("output", &plan.output)?,
            trace: read::some(plan.traceparent),
            created: BusTime(plan.created_unix_ms),
            updated: BusTime(plan.updated_unix_ms),
            folded: read::each("folded", plan.folded)?.into_iter().map(|Children(it)| it).collect(),
        })
    }
}

/// Ended children of one phase.
struct Children((NodeId, Ended));

fn ended_children((phase, ended): (&NodeId, &Ended)) -> pb::EndedChildren {
    let Ended { done, failed, cancelled, highest } = *ended;
    pb::EndedChildren { phase: phase.to_string(), done, failed, cancelled, highest }
}

impl TryFrom<pb::EndedChildren> for Children {
    type Error = CodecError;
    fn try_from(ended: pb::EndedChildren) -> Result<Self, CodecError> {
        let pb::EndedChildren { phase, done, failed, cancelled, highest } = ended;
        Ok(Self((read::text("phase", &phase)?, Ended { done, failed, cancelled, highest })))
    }
}

/// A wish for a place, absent when anywhere will do.
pub(super) fn placement(wish: &PlacementWish) -> Option<pb::PlacementWish> {
    (*wish != PlacementWish::default()).then(|| pb::PlacementWish {
        host: read::show(wish.host.as_ref()),
        labels: read::map(&wish.labels),
    })
}

impl TryFrom<pb::PlacementWish> for PlacementWish {
    type Error = CodecError;
    fn try_from(wish: pb::PlacementWish) -> Result<Self, CodecError> {
        Ok(Self { host: read::optional("host", &wish.host)?, labels: read::pairs(wish.labels) })
    }
}

impl From<&Review> for pb::Review {
    fn from(review: &Review) -> Self {
        Self { domain: review.domain.to_string(), profile: read::show(review.profile.as_ref()) }
    }
}

impl TryFrom<pb::Review> for Review {
    type Error = CodecError;
    fn try_from(review: pb::Review) -> Result<Self, CodecError> {
        Ok(Self {
            domain: read::text("domain", &review.domain)?,
            profile: read::optional("profile", &review.profile)?,
        })
    }
}

impl From<&Node> for pb::Node {
    fn from(node: &Node) -> Self {
        Self {
            id: node.id.to_string(),
            name: node.name.clone(),
            objective: node.objective.clone(),
            acceptance: node.acceptance.clone(),
            definition_of_done: node.definition_of_done.clone(),
            depends_on: node.depends_on.iter().map(ToString::to_string).collect(),
            role: node.role.as_str().to_owned(),
            domain: read::show(node.domain.as_ref()),
            profile: read::show(node.profile.as_ref()),
            tools: names(&node.tools),
            key_facts: node.key_facts.clone(),
            output_schema: node.output_schema.clone().unwrap_or_default(),
            scope_paths: node.scope_paths.clone(),
            budget: budget::written(node.budget, node.wall),
            max_attempts: node.max_attempts,
            review: node.review.as_ref().map(Into::into),
            placement: placement(&node.placement),
            recovery_policy: assignment::policy_written(node.recovery),
            added: node.added,
            defined: node.defined,
            spawned: node.spawned,
        }
    }
}

impl TryFrom<pb::Node> for Node {
    type Error = CodecError;
    fn try_from(node: pb::Node) -> Result<Self, CodecError> {
        let (limits, wall) = budget::read("budget", node.budget)?;
        Ok(Self {
            id: read::text("id", &node.id)?,
            name: node.name,
            objective: node.objective,
            acceptance: node.acceptance,
            definition_of_done: node.definition_of_done,
            depends_on: read::texts("dependsOn", &node.depends_on)?,
            role: role("role", &node.role)?,
            domain: read::optional("domain", &node.domain)?,
            profile: read::optional("profile", &node.profile)?,
            tools: node.tools.into_iter().collect(),
            key_facts: node.key_facts,
            output_schema: schema(node.output_schema),
            scope_paths: node.scope_paths,
            budget: limits,
            wall,
            max_attempts: node.max_attempts,
            review: read::maybe("review", node.review)?,
            placement: read::maybe("placement", node.placement)?.unwrap_or_default(),
            recovery: read::maybe("recoveryPolicy", node.recovery_policy)?.unwrap_or_default(),
            added: node.added,
            defined: node.defined,
            spawned: node.spawned,
        })
    }
}

impl From<&Blocker> for pb::Blocker {
    fn from(blocker: &Blocker) -> Self {
        let Blocker { kind, detail, needs } = blocker.clone();
        Self { kind, detail, needs }
    }
}

impl From<pb::Blocker> for Blocker {
    fn from(blocker: pb::Blocker) -> Self {
        let pb::Blocker { kind, detail, needs } = blocker;
        Self { kind, detail, needs }
    }
}

impl From<&NodeResult> for pb::NodeResult {
    fn from(result: &NodeResult) -> Self {
        Self {
            run: read::show(result.run.as_ref()),
            deliverable: result.deliverable.clone(),
            artifacts: result.artifacts.iter().map(Into::into).collect(),
            evidence: evidence(&result.evidence),
            crystallization: result.crystallization.clone(),
        }
    }
}

impl TryFrom<pb::NodeResult> for NodeResult {
    type Error = CodecError;
    fn try_from(result: pb::NodeResult) -> Result<Self, CodecError> {
        Ok(Self {
            run: read::optional("run", &result.run)?,
            deliverable: result.deliverable,
            artifacts: read::each("artifacts", result.artifacts)?,
            evidence: result.evidence.map(Into::into).unwrap_or_default(),
            crystallization: result.crystallization,
        })
    }
}

impl From<&NodeState> for pb::NodeState {
    fn from(state: &NodeState) -> Self {
        Self {
            id: state.id.to_string(),
            status: state.status.as_str().to_owned(),
            assignee: read::show(state.assignee.as_ref()),
            assignment: read::show(state.assignment.as_ref()),
            latest: read::show(state.latest.as_ref()),
            purpose: purpose_word(state.purpose).to_owned(),
            attempts: state.attempts,
            findings: state.findings.clone(),
            blocker: state.blocker.as_ref().map(Into::into),
            result: state.result.as_ref().map(Into::into),
            since_unix_ms: state.since.0,
            failures_unix_ms: times(&state.failures),
            begun: state.begun,
            settled: state.settled,
            priorities: priority::written(state.priorities),
            created_unix_ms: state.created.0,
        }
    }
}

impl TryFrom<pb::NodeState> for NodeState {
    type Error = CodecError;
    fn try_from(state: pb::NodeState) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &state.id)?,
            status: status("status", &state.status)?,
            assignee: read::optional("assignee", &state.assignee)?,
            assignment: read::optional("assignment", &state.assignment)?,
            latest: read::optional("latest", &state.latest)?,
            purpose: read::word("purpose", &state.purpose, &PURPOSES, purpose_word)?,
            attempts: state.attempts,
            findings: state.findings,
            blocker: state.blocker.map(Blocker::from),
            result: read::maybe("result", state.result)?,
            since: BusTime(state.since_unix_ms),
            failures: failures(state.failures_unix_ms),
            begun: state.begun,
            settled: state.settled,
            priorities: priority::read(state.priorities)?,
            created: match state.created_unix_ms {
                // An earlier version did not write it down.
                0 => BusTime(state.since_unix_ms),
                at => BusTime(at),
            },
        })
    }
}

/// A node's definition with its epic.
pub(super) fn epic_node(node: pb::EpicNode) -> Result<(EpicId, Node), CodecError> {
    Ok((read::text("epicId", &node.epic_id)?, read::message("node", node.node)?))
}

/// A node's state with its epic.
pub(super) fn epic_node_state(state: pb::EpicNodeState) -> Result<(EpicId, NodeState), CodecError> {
    Ok((read::text("epicId", &state.epic_id)?, read::message("state", state.state)?))
}
