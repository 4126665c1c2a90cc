//! The spawn protocol: requests, answers, and a specialist's request to its sponsor.

use tetrarch_core::admission::queued::QueuedSpawn;
use tetrarch_core::brief::Tools;
use tetrarch_core::error::DenialReason;
use tetrarch_core::id::{EpicId, NodeId, RequestId};
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::mail::{Denied, SpawnAnswer, Spawned, SponsorRequest};
use tetrarch_core::request::{BriefWish, SpawnRequest, SubagentWish, TaskWish};

use super::brief::schema;
use super::error::{CodecError, within};
use super::wire::{Wire, absent, field, kept, message, words};
use super::{json, read};
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
    json::bounded("spawn request", &message, REQUEST_BYTES_MAX)
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
    let message: pb::SpawnRequest = json::request(json::parse("SpawnRequest", payload)?)?;
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
        return Err(differs("node", node.put()));
    }
    Ok(SpawnRequest {
        epic,
        node,
        parent: field("parent", request.parent)?,
        requested_by: field("requested_by", request.requested_by)?,
        reason: request.spawn_reason,
        caller_depth: field("caller_depth", request.caller_depth)?,
        caller_max_depth: field("caller_max_depth", request.caller_max_depth)?,
        caller_local_max_depth: field("caller_local_max_depth", request.caller_local_max_depth)?,
        subagents: field("requested_subagents", request.requested_subagents)?,
        ack_required: request.ack_required.unwrap_or(true),
        wait: request.wait,
    })
}

fn written(request: &SpawnRequest) -> pb::SpawnRequest {
    pb::SpawnRequest {
        request_id: String::new(),
        sender: String::new(),
        epic: request.epic.put(),
        node: request.node.put(),
        parent: request.parent.put(),
        requested_by: request.requested_by.put(),
        spawn_reason: request.reason.clone(),
        caller_depth: request.caller_depth.put(),
        caller_max_depth: request.caller_max_depth.put(),
        caller_local_max_depth: request.caller_local_max_depth.put(),
        requested_subagents: request.subagents.put(),
        ack_required: Some(request.ack_required),
        wait: request.wait,
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

/// What may stand beside a brief or in it, but not in both.
fn either<T>(field: &str, beside: Option<T>, within: Option<T>) -> Result<Option<T>, CodecError> {
    match (beside, within) {
        (Some(_), Some(_)) => {
            Err(CodecError::field(format!("brief.{field}"), "is also given in the brief"))
        }
        (beside, within) => Ok(beside.or(within)),
    }
}

impl Wire<pb::SubagentWish> for SubagentWish {
    fn put(&self) -> pb::SubagentWish {
        let (task, brief) = match &self.task {
            TaskWish::Task(task) => (task.clone(), None),
            TaskWish::Brief(brief) => (String::new(), Some(brief.put())),
        };
        pb::SubagentWish {
            role: self.role.put(),
            domain: self.domain.put(),
            task,
            brief,
            suggested_actor_id: self.suggested_actor_id.clone(),
            local_max_depth: self.local_max_depth.put(),
            budget: (self.budget, self.wall).put(),
            tools: self.tools.as_ref().map(Wire::put).unwrap_or_default(),
            no_tools: self.tools.as_ref().is_some_and(Tools::is_empty),
            runner: self.profile.put(),
            placement: absent::put(&self.placement),
        }
    }

    fn get(mut wish: pb::SubagentWish) -> Result<Self, CodecError> {
        let mut brief = wish.brief.take();
        let within = brief.as_mut().and_then(|brief| brief.budget.take());
        let (limits, wall) = field("budget", either("budget", wish.budget, within)?)?;
        let beside = tools("tools", wish.tools, wish.no_tools)?;
        let (inner_tools, inner_runner) = match &mut brief {
            Some(brief) => {
                let names = std::mem::take(&mut brief.tools);
                (tools("brief.tools", names, brief.no_tools)?, std::mem::take(&mut brief.runner))
            }
            None => (None, String::new()),
        };
        let said = |runner: String| Some(runner).filter(|runner| !runner.is_empty());
        let runner = either("runner", said(wish.runner), said(inner_runner))?.unwrap_or_default();
        let task = match (wish.task.is_empty(), brief) {
            (false, None) => TaskWish::Task(wish.task),
            (true, Some(brief)) => TaskWish::Brief(field("brief", brief)?),
            (false, Some(_)) => {
                return Err(CodecError::field("task", "a brief is also given; give one of them"));
            }
            (true, None) => {
                return Err(CodecError::field("task", "is missing; give a task or a brief"));
            }
        };
        Ok(Self {
            role: field("role", wish.role)?,
            domain: field("domain", wish.domain)?,
            task,
            suggested_actor_id: wish.suggested_actor_id,
            local_max_depth: field("local_max_depth", wish.local_max_depth)?,
            budget: limits,
            wall,
            tools: either("tools", beside, inner_tools)?,
            profile: field("runner", runner)?,
            placement: kept::get("placement", wish.placement)?,
        })
    }
}

impl Wire<pb::BriefWish> for BriefWish {
    fn put(&self) -> pb::BriefWish {
        pb::BriefWish {
            goal: self.goal.clone(),
            key_facts: self.key_facts.clone(),
            notes: self.notes.put(),
            expected_output: self.output_schema.put(),
            success_criteria: self.success_criteria.clone(),
            definition_of_done: self.definition_of_done.clone(),
            workspace: self.workspace.clone(),
            scope_paths: self.scope_paths.clone(),
            turn_timeout_ms: self.turn_timeout.put(),
            worktree: self.worktree.put(),
            ..pb::BriefWish::default()
        }
    }

    fn get(brief: pb::BriefWish) -> Result<Self, CodecError> {
        let (text, millis) = (&brief.turn_timeout, brief.turn_timeout_ms);
        Ok(Self {
            turn_timeout: read::length("turnTimeout", text, None, millis)?,
            goal: brief.goal,
            key_facts: brief.key_facts,
            notes: field("notes", brief.notes)?,
            output_schema: schema::get("expected_output", brief.expected_output)?,
            success_criteria: brief.success_criteria,
            definition_of_done: brief.definition_of_done,
            workspace: brief.workspace,
            scope_paths: brief.scope_paths,
            worktree: field("worktree", brief.worktree)?,
        })
    }
}

impl Wire<Option<pb::SpawnRequest>> for SpawnRequest {
    fn put(&self) -> Option<pb::SpawnRequest> {
        Some(written(self))
    }

    fn get(held: Option<pb::SpawnRequest>) -> Result<Self, CodecError> {
        let request = held.ok_or_else(CodecError::missing)?;
        let (epic, node) =
            (field("epic", request.epic.clone())?, field("node", request.node.clone())?);
        placed(request, epic, node)
    }
}

message!(SponsorRequest, SponsorRequest { request: request_id, wanted: request });

message! { QueuedSpawn, QueuedSpawn {
    parent, place, request: request_id, sender: requested_by, trace,
    wanted: request, waiting,
    since: since_unix_ms,
} }

words!(DenialReason);

message! { SpawnAnswer, SpawnAnswer {
    epic, request: request_id, parent, spawned: spawned_agents, denied: denied_agents,
    queued: queued_agents, reason, suggestion, retry, corrections,
} }

message! { Spawned, SpawnedAgent {
    agent: actor_id, session: session_id, epoch, depth, node: plan_node_id, host,
} }

message!(Denied, DeniedAgent { index, role, reason, limit, current, detail });
