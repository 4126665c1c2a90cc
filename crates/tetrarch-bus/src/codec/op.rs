//! Operations: one body each, by the name in the subject.

use serde::Serialize;
use serde_json::{Value, json};
use tetrarch_core::agent::Mode;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::id::{ProjectName, RequestId};
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::OpReply;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::plan::schema::{self, PlanFile};
use tetrarch_core::request::goals::GoalOp;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::work::WorkOp;
use tetrarch_core::request::{GateOp, HostDrain, HostJoin, Op, ProjectCreate};

use super::agent::mode;
use super::brief::names;
use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::plan::placement;
use super::{budget, change, goal_op, planning, read, reservation, schedule, verbs, work_op};
use crate::proto::v1 as pb;
use crate::subject::OpName;

/// The body of an operation. `goal.create` carries the plan as its author wrote it and is
/// written by [`encode_goal_create`].
///
/// # Errors
/// `goal.create`; more bytes than allowed.
pub fn encode_op(op: &Op, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    match op {
        Op::HostJoin(join) => finish("HostJoin", &joining(join, request_id)),
        Op::HumanJoin { human } => {
            finish("HumanJoin", &pb::HumanJoin { request_id, sender, human: human.to_string() })
        }
        Op::ProjectCreate(create) => finish("ProjectCreate", &creating(create, request_id)),
        Op::ProjectMode { project, mode } => {
            let (project, mode) = (project.to_string(), mode.as_str().to_owned());
            finish("ProjectMode", &pb::ProjectMode { request_id, sender, project, mode })
        }
        Op::ProjectRetire { project } => {
            let project = project.to_string();
            finish("ProjectRetire", &pb::ProjectRetire { request_id, sender, project })
        }
        Op::ProfileApply { project, profile } => {
            let (project, profile) = (project.to_string(), Some((&**profile).into()));
            finish("ProfileApply", &pb::ProfileApply { request_id, sender, project, profile })
        }
        Op::AgentRegister => finish("AgentRegister", &pb::AgentRegister { request_id, sender }),
        Op::HostDrain(wanted) => finish("HostDrain", &draining(wanted, request_id)),
        Op::CircuitClose { agent } => {
            let agent = agent.to_string();
            finish("CircuitClose", &pb::CircuitClose { request_id, sender, agent })
        }
        Op::AgentRetire { agent, reason } => {
            let (agent, reason) = (agent.to_string(), reason.clone());
            finish("AgentRetire", &pb::AgentRetire { request_id, sender, agent, reason })
        }
        Op::AgentReplace { agent, session, give_up, reason } => finish(
            "AgentReplace",
            &pb::AgentReplace {
                request_id,
                sender,
                agent: agent.to_string(),
                session: session.to_string(),
                give_up: *give_up,
                reason: reason.clone(),
            },
        ),
        Op::AgentRotate { agent, reason } => {
            let (agent, reason) = (agent.to_string(), reason.clone());
            finish("AgentRotate", &pb::AgentRotate { request_id, sender, agent, reason })
        }
        Op::Verb(op) => verbs::encode(op, id),
        Op::AgentStatus { agent } => {
            finish("AgentStatus", &pb::AgentStatus { request_id, sender, agent: agent.to_string() })
        }
        Op::Plan(op) => planning::encode(op, request_id),
        Op::QuestionAnswer { question, text } => {
            let (question, text) = (question.to_string(), text.clone());
            finish("QuestionAnswer", &pb::QuestionAnswer { request_id, sender, question, text })
        }
        Op::Goal(op) => goal_op::encode(op, id),
        Op::Work(op) => work_op::encode(op, id),
        Op::Schedule(op) => schedule::encode(op, id),
        Op::OverseerTick(_) => finish("OverseerTick", &pb::OverseerTick { request_id, sender }),
        Op::WorkBlock { epic, node, blocker } => {
            let (epic, node, blocker) = (epic.to_string(), node.to_string(), Some(blocker.into()));
            finish("WorkBlock", &pb::WorkBlock { request_id, sender, epic, node, blocker })
        }
        Op::Budget(op) => budget::encode(op, id),
        Op::File(op) => reservation::encode(op, id),
        Op::Gate(op) => change::encode(op, id),
        Op::GoalCreate { .. } => Err(CodecError::field(
            "plan",
            "a checked plan is no longer what its author wrote; use encode_goal_create",
        )),
    }
}

fn joining(join: &HostJoin, request_id: String) -> pb::HostJoin {
    pb::HostJoin {
        request_id,
        sender: String::new(),
        instance: join.instance.clone(),
        lease_epoch: join.lease_epoch,
        labels: read::map(&join.labels),
        capacity: join.capacity,
        address: join.address.clone(),
    }
}

fn draining(wanted: &HostDrain, request_id: String) -> pb::HostDrain {
    let (host, reason) = (wanted.host.to_string(), wanted.reason.clone());
    pb::HostDrain { request_id, sender: String::new(), host, undo: wanted.undo, reason }
}

fn drained(body: Value) -> Result<HostDrain, CodecError> {
    let drain: pb::HostDrain = json::message("HostDrain", body, Unknown::Refused)?;
    let host = read::text("host", &drain.host)?;
    Ok(HostDrain { host, undo: drain.undo, reason: drain.reason })
}

fn creating(create: &ProjectCreate, request_id: String) -> pb::ProjectCreate {
    pb::ProjectCreate {
        request_id,
        sender: String::new(),
        project: create.project.to_string(),
        mode: create.mode.as_str().to_owned(),
        external: create.external,
        tools: names(&create.tools),
        budget: budget::written(create.budget, None),
        local_max_depth: create.local_max_depth.map(u32::from),
        placement: placement(&create.placement),
    }
}

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
    finish("GoalCreate", &body)
}

pub(super) fn finish<P: Serialize>(what: &'static str, message: &P) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write(what, message)?;
    within(what, bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

fn question_answer(body: Value) -> Result<Op, CodecError> {
    let answer: pb::QuestionAnswer = json::message("QuestionAnswer", body, Unknown::Refused)?;
    let question = read::text("question", &answer.question)?;
    Ok(Op::QuestionAnswer { question, text: answer.text })
}

/// Reads the body of an operation. The sender it names is checked elsewhere.
pub(super) fn decode(op: &OpName, body: Value) -> Result<Op, CodecError> {
    Ok(match op.as_str() {
        "host.join" => host_join(body)?,
        "human.join" => {
            let join: pb::HumanJoin = json::message("HumanJoin", body, Unknown::Refused)?;
            Op::HumanJoin { human: read::text("human", &join.human)? }
        }
        "project.create" => project_create(body)?,
        "project.mode" => {
            let set: pb::ProjectMode = json::message("ProjectMode", body, Unknown::Refused)?;
            let project = read::text("project", &set.project)?;
            Op::ProjectMode { project, mode: mode("mode", &set.mode)? }
        }
        "project.retire" => {
            let retire: pb::ProjectRetire = json::message("ProjectRetire", body, Unknown::Refused)?;
            Op::ProjectRetire { project: read::text("project", &retire.project)? }
        }
        "profile.apply" => {
            let apply: pb::ProfileApply = json::message("ProfileApply", body, Unknown::Refused)?;
            let project = read::text("project", &apply.project)?;
            let profile = Box::new(read::message("profile", apply.profile)?);
            Op::ProfileApply { project, profile }
        }
        "host.drain" => Op::HostDrain(drained(body)?),
        "circuit.close" => {
            let close: pb::CircuitClose = json::message("CircuitClose", body, Unknown::Refused)?;
            Op::CircuitClose { agent: read::text("agent", &close.agent)? }
        }
        "agent.register" => {
            let _: pb::AgentRegister = json::message("AgentRegister", body, Unknown::Refused)?;
            Op::AgentRegister
        }
        "agent.retire" => {
            let retire: pb::AgentRetire = json::message("AgentRetire", body, Unknown::Refused)?;
            Op::AgentRetire { agent: read::text("agent", &retire.agent)?, reason: retire.reason }
        }
        "agent.replace" => agent_replace(body)?,
        "agent.rotate" => {
            let rotate: pb::AgentRotate = json::message("AgentRotate", body, Unknown::Refused)?;
            Op::AgentRotate { agent: read::text("agent", &rotate.agent)?, reason: rotate.reason }
        }
        "agent.status" => {
            let status: pb::AgentStatus = json::message("AgentStatus", body, Unknown::Refused)?;
            Op::AgentStatus { agent: read::text("agent", &status.agent)? }
        }
        "goal.create" => goal_create(body)?,
        "todo.plan" | "todo.add" | "todo.split" | "todo.merge" | "todo.draft" => {
            Op::Plan(planning::decode(op.as_str(), body)?)
        }
        "question.answer" => question_answer(body)?,
        "overseer.tick" => {
            let _: pb::OverseerTick = json::message("OverseerTick", body, Unknown::Refused)?;
            // What is heard of agents is the owner's to add.
            Op::OverseerTick(Telemetry::default())
        }
        "budget.raise" => Op::Budget(budget::raise(body)?),
        "file.reserve" => Op::File(reservation::reserve(body)?),
        "file.release" => Op::File(reservation::release(body)?),
        "file.list" => Op::File(reservation::list(body)?),
        "work.block" => work_block(body)?,
        name if GateOp::NAMES.contains(&name) => Op::Gate(change::decode(name, body)?),
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

fn host_join(body: Value) -> Result<Op, CodecError> {
    let join: pb::HostJoin = json::message("HostJoin", body, Unknown::Refused)?;
    if join.lease_epoch > LEASE_EPOCH_MAX {
        let reason = format!("{} is more than {LEASE_EPOCH_MAX}", join.lease_epoch);
        return Err(CodecError::field("leaseEpoch", reason));
    }
    Ok(Op::HostJoin(HostJoin {
        instance: join.instance,
        lease_epoch: join.lease_epoch,
        labels: read::pairs(join.labels),
        capacity: join.capacity,
        address: join.address,
    }))
}

/// No operation of this name.
pub(super) fn unknown(name: &str) -> CodecError {
    CodecError::field("op", format!("{name} is not an operation of this version"))
}

fn agent_replace(body: Value) -> Result<Op, CodecError> {
    let replace: pb::AgentReplace = json::message("AgentReplace", body, Unknown::Refused)?;
    Ok(Op::AgentReplace {
        agent: read::text("agent", &replace.agent)?,
        session: read::text("session", &replace.session)?,
        give_up: replace.give_up,
        reason: replace.reason,
    })
}

fn project_create(body: Value) -> Result<Op, CodecError> {
    let create: pb::ProjectCreate = json::message("ProjectCreate", body, Unknown::Refused)?;
    let (budget, wall) = budget::read("budget", create.budget)?;
    if wall.is_some() {
        return Err(CodecError::field("budget.wall", "a project has no wall clock; remove it"));
    }
    let depth = create.local_max_depth;
    Ok(Op::ProjectCreate(ProjectCreate {
        project: read::text("project", &create.project)?,
        mode: match read::some(create.mode) {
            Some(word) => mode("mode", &word)?,
            None => Mode::default(),
        },
        external: create.external,
        tools: create.tools.into_iter().collect(),
        budget,
        local_max_depth: depth.map(|depth| read::small("localMaxDepth", depth)).transpose()?,
        placement: read::maybe("placement", create.placement)?.unwrap_or_default(),
    }))
}

fn goal_create(body: Value) -> Result<Op, CodecError> {
    let create: pb::GoalCreate = json::message("GoalCreate", body, Unknown::Refused)?;
    if create.plan.is_empty() {
        return Err(CodecError::Missing { field: "plan".to_owned() });
    }
    let plan = json::parse("plan", create.plan.as_bytes())?;
    let plan: PlanFile = schema::parse_either(&plan).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CodecError::field("plan", problems.join("; "))
    })?;
    Ok(Op::GoalCreate { project: read::text("project", &create.project)?, plan: Box::new(plan) })
}

fn work_block(body: Value) -> Result<Op, CodecError> {
    let block: pb::WorkBlock = json::message("WorkBlock", body, Unknown::Refused)?;
    let blocker =
        block.blocker.ok_or_else(|| CodecError::Missing { field: "blocker".to_owned() })?;
    Ok(Op::WorkBlock {
        epic: read::text("epic", &block.epic)?,
        node: read::text("node", &block.node)?,
        blocker: blocker.into(),
    })
}

impl From<&OpReply> for pb::OpReply {
    fn from(reply: &OpReply) -> Self {
        Self {
            op: reply.op.clone(),
            error: read::show(reply.error.as_ref()),
            detail: reply.detail.clone(),
            epic: read::show(reply.epic.as_ref()),
            version: reply.version,
            agent: read::show(reply.agent.as_ref()),
            session: read::show(reply.session.as_ref()),
            agent_epoch: reply.agent_epoch,
            liveness: read::show(reply.liveness.as_ref()),
            data: reply.data.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<pb::OpReply> for OpReply {
    type Error = CodecError;
    fn try_from(reply: pb::OpReply) -> Result<Self, CodecError> {
        let error = |text: String| read::word("error", &text, &ErrorCode::ALL, ErrorCode::as_str);
        let liveness =
            |text: String| read::word("liveness", &text, &Liveness::ALL, Liveness::as_str);
        Ok(Self {
            op: reply.op,
            error: read::some(reply.error).map(error).transpose()?,
            detail: reply.detail,
            epic: read::optional("epic", &reply.epic)?,
            version: reply.version,
            agent: read::optional("agent", &reply.agent)?,
            session: read::optional("session", &reply.session)?,
            agent_epoch: reply.agent_epoch,
            liveness: read::some(reply.liveness).map(liveness).transpose()?,
            data: read::some(reply.data),
        })
    }
}
