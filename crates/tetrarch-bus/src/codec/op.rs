//! Operations: one body each, by the name in the subject.

use prost::Name;
use serde::Serialize;
use serde_json::{Value, json};
use tetrarch_core::agent::Mode;
use tetrarch_core::budget::Limits;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::id::{ProjectName, RequestId};
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::mail::OpReply;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::plan::schema::{self, PlanFile};
use tetrarch_core::request::conversations::ConversationOp;
use tetrarch_core::request::goals::GoalOp;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::work::WorkOp;
use tetrarch_core::request::{GateOp, HostDrain, HostJoin, Op, ProjectCreate};
use tetrarch_core::time::Millis;

use super::error::{CodecError, within};
use super::wire::{Wire, absent, field, message, words};
use super::{
    budget, change, conversation, goal_op, json, planning, reservation, schedule, verbs, work_op,
};
use crate::proto::v1 as pb;
use crate::subject::OpName;

/// The body of an operation of this id, from variables that are called as its fields are.
macro_rules! body {
    ($id:expr, $pb:ident { $($f:ident),* $(,)? }) => {
        $crate::codec::op::finish(&$crate::proto::v1::$pb {
            request_id: $id.to_string(),
            sender: String::new(),
            $($f: $crate::codec::wire::Wire::put($f)),*
        })
    };
}

/// An operation read from the fields of its body, which are called as its own.
macro_rules! read {
    ($body:expr, $pb:ident, $op:path { $($f:ident),* $(,)? }) => {{
        let it: $crate::proto::v1::$pb = $crate::codec::json::request($body)?;
        $crate::codec::wire::get!(it, $op { $($f),* })
    }};
}

pub(super) use {body, read};

words!(ErrorCode);

/// The body of an operation. `goal.create` carries the plan as its author wrote it and is
/// written by [`encode_goal_create`].
///
/// # Errors
/// `goal.create`; more bytes than allowed.
pub fn encode_op(op: &Op, id: RequestId) -> Result<Vec<u8>, CodecError> {
    match op {
        Op::HostJoin(join) => finish(&pb::HostJoin { request_id: id.to_string(), ..join.put() }),
        Op::HumanJoin { human } => body!(id, HumanJoin { human }),
        Op::ProjectCreate(create) => {
            finish(&pb::ProjectCreate { request_id: id.to_string(), ..create.put() })
        }
        Op::ProjectMode { project, mode } => body!(id, ProjectMode { project, mode }),
        Op::ProjectRetire { project } => body!(id, ProjectRetire { project }),
        Op::ProfileApply { project, profile } => body!(id, ProfileApply { project, profile }),
        Op::AgentRegister => body!(id, AgentRegister {}),
        Op::HostDrain(HostDrain { host, undo, reason }) => {
            body!(id, HostDrain { host, undo, reason })
        }
        Op::CircuitClose { agent } => body!(id, CircuitClose { agent }),
        Op::AgentRetire { agent, reason } => body!(id, AgentRetire { agent, reason }),
        Op::AgentReplace { agent, session, give_up, reason } => {
            body!(id, AgentReplace { agent, session, give_up, reason })
        }
        Op::AgentRotate { agent, reason } => body!(id, AgentRotate { agent, reason }),
        Op::Verb(op) => verbs::encode(op, id),
        Op::AgentStatus { agent } => body!(id, AgentStatus { agent }),
        Op::Plan(op) => planning::encode(op, id),
        Op::QuestionAnswer { question, text } => body!(id, QuestionAnswer { question, text }),
        Op::Goal(op) => goal_op::encode(op, id),
        Op::GoalUpdate(op) => goal_op::encode_update(op, id),
        Op::Work(op) => work_op::encode(op, id),
        Op::Schedule(op) => schedule::encode(op, id),
        Op::Conversation(op) => conversation::encode(op, id),
        Op::OverseerTick(_) => body!(id, OverseerTick {}),
        Op::WorkBlock { epic, node, blocker } => body!(id, WorkBlock { epic, node, blocker }),
        Op::Budget(op) => budget::encode(op, id),
        Op::File(op) => reservation::encode(op, id),
        Op::Gate(op) => change::encode(op, id),
        Op::GoalCreate { .. } => Err(CodecError::field(
            "plan",
            "a checked plan is no longer what its author wrote; use encode_goal_create",
        )),
    }
}

/// Who asks and by which id stands in every request, and is read before its body.
fn nobody<C>(_: &C) -> String {
    String::new()
}

message!(HostJoin, HostJoin {
    instance, lease_epoch, labels, capacity, address, request_id <- nobody, sender <- nobody,
}, first: |join: &mut pb::HostJoin| {
    if join.lease_epoch <= LEASE_EPOCH_MAX {
        return Ok(());
    }
    let reason = format!("{} is more than {LEASE_EPOCH_MAX}", join.lease_epoch);
    Err(CodecError::field("leaseEpoch", reason))
});

message!(ProjectCreate, ProjectCreate {
    project, mode, external, tools, budget, local_max_depth, placement as absent,
    request_id <- nobody, sender <- nobody,
}, first: |create: &mut pb::ProjectCreate| {
    if create.mode.is_empty() {
        create.mode = Mode::default().put();
    }
    let (_, wall): (Limits, Option<Millis>) =
        field("budget", create.budget.clone())?;
    if wall.is_some() {
        return Err(CodecError::field("budget.wall", "a project has no wall clock; remove it"));
    }
    Ok(())
});

/// The body of `goal.create`, with the plan's JSON as its author wrote it.
///
/// # Errors
/// More bytes than allowed.
pub fn encode_goal_create(
    id: RequestId,
    project: &ProjectName,
    plan: &Value,
) -> Result<Vec<u8>, CodecError> {
    let body = json!({
        "requestId": id.to_string(),
        "project": project.to_string(),
        "plan": plan,
    });
    bounded(pb::GoalCreate::NAME, &body)
}

/// The body of a request, within its bound.
pub(super) fn finish<P: Serialize + Name>(message: &P) -> Result<Vec<u8>, CodecError> {
    bounded(P::NAME, message)
}

fn bounded<P: Serialize>(what: &'static str, message: &P) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write(what, message)?;
    within(what, bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of an operation. The sender it names is checked elsewhere.
pub(super) fn decode(op: &OpName, body: Value) -> Result<Op, CodecError> {
    Ok(match op.as_str() {
        "host.join" => Op::HostJoin(HostJoin::get(json::request::<pb::HostJoin>(body)?)?),
        "human.join" => read!(body, HumanJoin, Op::HumanJoin { human }),
        "project.create" => {
            Op::ProjectCreate(ProjectCreate::get(json::request::<pb::ProjectCreate>(body)?)?)
        }
        "project.mode" => read!(body, ProjectMode, Op::ProjectMode { project, mode }),
        "project.retire" => read!(body, ProjectRetire, Op::ProjectRetire { project }),
        "profile.apply" => read!(body, ProfileApply, Op::ProfileApply { project, profile }),
        "host.drain" => Op::HostDrain(read!(body, HostDrain, HostDrain { host, undo, reason })),
        "circuit.close" => read!(body, CircuitClose, Op::CircuitClose { agent }),
        "agent.register" => {
            let pb::AgentRegister { .. } = json::request(body)?;
            Op::AgentRegister
        }
        "agent.retire" => read!(body, AgentRetire, Op::AgentRetire { agent, reason }),
        "agent.replace" => {
            read!(body, AgentReplace, Op::AgentReplace { agent, session, give_up, reason })
        }
        "agent.rotate" => read!(body, AgentRotate, Op::AgentRotate { agent, reason }),
        "agent.status" => read!(body, AgentStatus, Op::AgentStatus { agent }),
        "goal.create" => goal_create(body)?,
        "todo.plan" | "todo.add" | "todo.split" | "todo.merge" | "todo.draft" => {
            Op::Plan(planning::decode(op.as_str(), body)?)
        }
        "question.answer" => read!(body, QuestionAnswer, Op::QuestionAnswer { question, text }),
        "overseer.tick" => {
            let pb::OverseerTick { .. } = json::request(body)?;
            // What is heard of agents is the owner's to add.
            Op::OverseerTick(Telemetry::default())
        }
        "budget.raise" => Op::Budget(budget::raise(body)?),
        "file.reserve" => Op::File(reservation::reserve(body)?),
        "file.release" => Op::File(reservation::release(body)?),
        "file.list" => Op::File(reservation::list(body)?),
        "work.block" => read!(body, WorkBlock, Op::WorkBlock { epic, node, blocker }),
        name if ConversationOp::NAMES.contains(&name) => conversation::decode(name, body)?,
        name if GateOp::NAMES.contains(&name) => Op::Gate(change::decode(name, body)?),
        "goal.update" => goal_op::decode_update(body)?,
        name if GoalOp::NAMES.contains(&name) => {
            goal_op::decode(name.trim_start_matches("goal."), body)?
        }
        name if VerbOp::NAMES.contains(&name) => verbs::decode(name, body)?,
        name if WorkOp::NAMES.contains(&name) => work_op::decode(name, body)?,
        name if ScheduleOp::NAMES.contains(&name) => {
            schedule::decode(name.trim_start_matches("schedule."), body)?
        }
        other => return Err(unknown(other)),
    })
}

/// No operation of this name.
pub(super) fn unknown(name: &str) -> CodecError {
    CodecError::field("op", format!("{name} is not an operation of this version"))
}

fn goal_create(body: Value) -> Result<Op, CodecError> {
    let create: pb::GoalCreate = json::request(body)?;
    let plan = planning::document("plan", &create.plan)?;
    let wrong = |problems| CodecError::field("plan", planning::said(problems));
    let plan: PlanFile = schema::parse_either(&plan).map_err(wrong)?;
    Ok(Op::GoalCreate { project: field("project", create.project)?, plan: Box::new(plan) })
}

message!(
    OpReply,
    OpReply { op, error, detail, epic, version, agent, session, agent_epoch, liveness, data }
);
