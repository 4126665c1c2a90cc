//! The spawn protocol: requests, answers, and a specialist's request to its sponsor.

use tetrarch_core::brief::{Tools, Worktree};
use tetrarch_core::error::DenialReason;
use tetrarch_core::id::{EpicId, NodeId, RequestId};
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::mail::{Denied, SpawnAnswer, Spawned, SponsorRequest};
use tetrarch_core::request::{BriefWish, SpawnRequest, SubagentWish, TaskWish};

use super::brief::{names, schema};
use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::plan::{placement, role};
use super::{budget, read};
use crate::proto::v1 as pb;

/// The body of a spawn request; epic and node are in the subject.
///
/// # Errors
/// A request of more bytes than allowed.
pub fn encode_spawn_request(request: &SpawnRequest, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let mut message = written(request);
    message.request_id = id.to_string();
    message.epic.clear();
    message.node.clear();
    let bytes = json::write("SpawnRequest", &message)?;
    within("spawn request", bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of a spawn request that did not come by its subject: a program's `spawn`
/// event. Unknown fields are refused.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_spawn_body(
    payload: &[u8],
    epic: EpicId,
    node: Option<NodeId>,
) -> Result<(Option<RequestId>, SpawnRequest), CodecError> {
    within("spawn request", payload.len(), REQUEST_BYTES_MAX)?;
    let message: pb::SpawnRequest = json::read("SpawnRequest", payload, Unknown::Refused)?;
    let id = read::optional("requestId", &message.request_id)?;
    Ok((id, placed(message, epic, node)?))
}

/// A request with the epic and node of its subject; its own, if it names any, must be the same.
pub(super) fn placed(
    request: pb::SpawnRequest,
    epic: EpicId,
    node: Option<NodeId>,
) -> Result<SpawnRequest, CodecError> {
    let differs = |field: &str, subject: String| {
        CodecError::field(field, format!("the subject names {subject}; remove the field"))
    };
    let named: Option<EpicId> = read::optional("epic", &request.epic)?;
    if named.is_some_and(|named| named != epic) {
        return Err(differs("epic", epic.to_string()));
    }
    let named: Option<NodeId> = read::optional("node", &request.node)?;
    if named.is_some() && named != node {
        return Err(differs("node", read::show(node.as_ref())));
    }
    let small =
        |field: &str, value: Option<u32>| value.map(|value| read::small(field, value)).transpose();
    Ok(SpawnRequest {
        epic,
        node,
        parent: read::optional("parent", &request.parent)?,
        requested_by: read::optional("requestedBy", &request.requested_by)?,
        reason: request.spawn_reason,
        caller_depth: small("callerDepth", request.caller_depth)?,
        caller_max_depth: small("callerMaxDepth", request.caller_max_depth)?,
        caller_local_max_depth: small("callerLocalMaxDepth", request.caller_local_max_depth)?,
        subagents: read::each("requestedSubagents", request.requested_subagents)?,
        ack_required: request.ack_required.unwrap_or(true),
    })
}

fn written(request: &SpawnRequest) -> pb::SpawnRequest {
    pb::SpawnRequest {
        request_id: String::new(),
        sender: String::new(),
        epic: request.epic.to_string(),
        node: read::show(request.node.as_ref()),
        parent: read::show(request.parent.as_ref()),
        requested_by: read::show(request.requested_by.as_ref()),
        spawn_reason: request.reason.clone(),
        caller_depth: request.caller_depth.map(u32::from),
        caller_max_depth: request.caller_max_depth.map(u32::from),
        caller_local_max_depth: request.caller_local_max_depth.map(u32::from),
        requested_subagents: request.subagents.iter().map(Into::into).collect(),
        ack_required: Some(request.ack_required),
    }
}

/// A list of tools that may be absent: on the wire an empty list and an absent one are the same,
/// so an empty one is said by a flag.
fn tools(field: &str, names: Vec<String>, none: bool) -> Result<Option<Tools>, CodecError> {
    match (names.is_empty(), none) {
        (true, true) => Ok(Some(Tools::default())),
        (true, false) => Ok(None),
        (false, false) => Ok(Some(names.into_iter().collect())),
        (false, true) => {
            Err(CodecError::field(field, "is given although noTools is true; give one"))
        }
    }
}

impl From<&SubagentWish> for pb::SubagentWish {
    fn from(wish: &SubagentWish) -> Self {
        let (task, brief) = match &wish.task {
            TaskWish::Task(task) => (task.clone(), None),
            TaskWish::Brief(brief) => (String::new(), Some(brief.into())),
        };
        Self {
            role: wish.role.as_str().to_owned(),
            domain: read::show(wish.domain.as_ref()),
            task,
            brief,
            suggested_actor_id: wish.suggested_actor_id.clone(),
            local_max_depth: wish.local_max_depth.map(u32::from),
            budget: budget::written(wish.budget, wish.wall),
            tools: wish.tools.as_ref().map(names).unwrap_or_default(),
            no_tools: wish.tools.as_ref().is_some_and(Tools::is_empty),
            runner: read::show(wish.profile.as_ref()),
            placement: placement(&wish.placement),
        }
    }
}

/// What may stand beside a brief or in it, but not in both.
fn either<T>(field: &str, beside: Option<T>, within: Option<T>) -> Result<Option<T>, CodecError> {
    match (beside, within) {
        (Some(_), Some(_)) => {
            Err(CodecError::field(format!("brief.{field}"), "is also given in the brief"))
        }
        (beside, within) => Ok(beside.or(within)),
    }
}

impl TryFrom<pb::SubagentWish> for SubagentWish {
    type Error = CodecError;
    fn try_from(mut wish: pb::SubagentWish) -> Result<Self, CodecError> {
        let mut brief = wish.brief.take();
        let inner = |take: fn(&mut pb::BriefWish) -> Option<pb::Budget>| {
            (brief.as_mut().and_then(take), brief)
        };
        let (inner_budget, brief) = inner(|brief| brief.budget.take());
        let (limits, wall) = budget::read("budget", either("budget", wish.budget, inner_budget)?)?;
        let beside = tools("tools", wish.tools, wish.no_tools)?;
        let (inner_tools, inner_runner) = match &brief {
            Some(brief) => (
                tools("brief.tools", brief.tools.clone(), brief.no_tools)?,
                read::some(brief.runner.clone()),
            ),
            None => (None, None),
        };
        let runner = either("runner", read::some(wish.runner), inner_runner)?.unwrap_or_default();
        let task = match (read::some(wish.task), brief) {
            (Some(task), None) => TaskWish::Task(task),
            (None, Some(brief)) => {
                let brief = BriefWish::try_from(brief).map_err(|error| error.under("brief"))?;
                TaskWish::Brief(brief)
            }
            (Some(_), Some(_)) => {
                return Err(CodecError::field("task", "a brief is also given; give one of them"));
            }
            (None, None) => {
                return Err(CodecError::field("task", "is missing; give a task or a brief"));
            }
        };
        let depth = wish.local_max_depth;
        Ok(Self {
            role: role("role", &wish.role)?,
            domain: read::optional("domain", &wish.domain)?,
            task,
            suggested_actor_id: wish.suggested_actor_id,
            local_max_depth: depth.map(|depth| read::small("localMaxDepth", depth)).transpose()?,
            budget: limits,
            wall,
            tools: either("tools", beside, inner_tools)?,
            profile: read::optional("runner", &runner)?,
            placement: read::maybe("placement", wish.placement)?.unwrap_or_default(),
        })
    }
}

impl From<&BriefWish> for pb::BriefWish {
    fn from(brief: &BriefWish) -> Self {
        Self {
            goal: brief.goal.clone(),
            key_facts: brief.key_facts.clone(),
            expected_output: brief.output_schema.clone().unwrap_or_default(),
            success_criteria: brief.success_criteria.clone(),
            definition_of_done: brief.definition_of_done.clone(),
            workspace: brief.workspace.clone(),
            scope_paths: brief.scope_paths.clone(),
            turn_timeout_ms: brief.turn_timeout.map(|timeout| timeout.0),
            worktree: brief.worktree.map_or_else(String::new, |it| it.as_str().to_owned()),
            ..Self::default()
        }
    }
}

impl TryFrom<pb::BriefWish> for BriefWish {
    type Error = CodecError;
    fn try_from(brief: pb::BriefWish) -> Result<Self, CodecError> {
        let worktree = read::some(brief.worktree)
            .map(|word| read::word("worktree", &word, &Worktree::ALL, Worktree::as_str))
            .transpose()?;
        let (text, millis) = (&brief.turn_timeout, brief.turn_timeout_ms);
        Ok(Self {
            goal: brief.goal,
            key_facts: brief.key_facts,
            output_schema: schema(brief.expected_output),
            success_criteria: brief.success_criteria,
            definition_of_done: brief.definition_of_done,
            workspace: brief.workspace,
            scope_paths: brief.scope_paths,
            turn_timeout: read::length("turnTimeout", text, None, millis)?,
            worktree,
        })
    }
}

impl From<&SponsorRequest> for pb::SponsorRequest {
    fn from(sponsor: &SponsorRequest) -> Self {
        Self { request_id: sponsor.request.to_string(), request: Some(written(&sponsor.wanted)) }
    }
}

impl TryFrom<pb::SponsorRequest> for SponsorRequest {
    type Error = CodecError;
    fn try_from(sponsor: pb::SponsorRequest) -> Result<Self, CodecError> {
        let request =
            sponsor.request.ok_or_else(|| CodecError::Missing { field: "request".to_owned() })?;
        let epic = read::text("request.epic", &request.epic)?;
        let node = read::optional("request.node", &request.node)?;
        Ok(Self {
            request: read::text("requestId", &sponsor.request_id)?,
            wanted: placed(request, epic, node).map_err(|error| error.under("request"))?,
        })
    }
}

impl From<&SpawnAnswer> for pb::SpawnAnswer {
    fn from(answer: &SpawnAnswer) -> Self {
        Self {
            epic: read::show(answer.epic.as_ref()),
            request_id: read::show(answer.request.as_ref()),
            parent: read::show(answer.parent.as_ref()),
            spawned_agents: answer.spawned.iter().map(Into::into).collect(),
            denied_agents: answer.denied.iter().map(Into::into).collect(),
            reason: answer.reason.clone(),
            suggestion: answer.suggestion.clone(),
            retry: answer.retry,
            corrections: answer.corrections.clone(),
        }
    }
}

impl TryFrom<pb::SpawnAnswer> for SpawnAnswer {
    type Error = CodecError;
    fn try_from(answer: pb::SpawnAnswer) -> Result<Self, CodecError> {
        Ok(Self {
            epic: read::optional("epic", &answer.epic)?,
            request: read::optional("requestId", &answer.request_id)?,
            parent: read::optional("parent", &answer.parent)?,
            spawned: read::each("spawnedAgents", answer.spawned_agents)?,
            denied: read::each("deniedAgents", answer.denied_agents)?,
            reason: answer.reason,
            suggestion: answer.suggestion,
            retry: answer.retry,
            corrections: answer.corrections,
        })
    }
}

impl From<&Spawned> for pb::SpawnedAgent {
    fn from(spawned: &Spawned) -> Self {
        Self {
            actor_id: spawned.agent.to_string(),
            session_id: spawned.session.to_string(),
            epoch: spawned.epoch,
            depth: spawned.depth.into(),
            plan_node_id: spawned.node.to_string(),
            host: spawned.host.to_string(),
        }
    }
}

impl TryFrom<pb::SpawnedAgent> for Spawned {
    type Error = CodecError;
    fn try_from(spawned: pb::SpawnedAgent) -> Result<Self, CodecError> {
        Ok(Self {
            agent: read::text("actorId", &spawned.actor_id)?,
            session: read::text("sessionId", &spawned.session_id)?,
            epoch: spawned.epoch,
            depth: read::small("depth", spawned.depth)?,
            node: read::text("planNodeId", &spawned.plan_node_id)?,
            host: read::text("host", &spawned.host)?,
        })
    }
}

impl From<&Denied> for pb::DeniedAgent {
    fn from(denied: &Denied) -> Self {
        Self {
            index: u32::try_from(denied.index).unwrap_or(u32::MAX),
            role: denied.role.as_str().to_owned(),
            reason: denied.reason.as_str().to_owned(),
            limit: denied.limit,
            current: denied.current,
            detail: denied.detail.clone(),
        }
    }
}

impl TryFrom<pb::DeniedAgent> for Denied {
    type Error = CodecError;
    fn try_from(denied: pb::DeniedAgent) -> Result<Self, CodecError> {
        let reason = &denied.reason;
        let index = usize::try_from(denied.index);
        Ok(Self {
            index: index.map_err(|error| CodecError::field("index", error.to_string()))?,
            role: role("role", &denied.role)?,
            reason: read::word("reason", reason, &DenialReason::ALL, DenialReason::as_str)?,
            limit: denied.limit,
            current: denied.current,
            detail: denied.detail,
        })
    }
}
