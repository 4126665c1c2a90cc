//! Operations: hosts join, projects and profiles are made, external agents register, goals are
//! given (spec 02, Operations; spec 03, Identity). Every one is answered by mail.

mod joining;
mod projects;
mod status;

use crate::agent::Hosting;
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, EpicId, Principal, ProjectName, QuestionId};
use crate::limits::TEXT_BYTES_MAX;
use crate::mail::{MailBody, OpReply};
use crate::overseer::Telemetry;
use crate::plan::schema::PlanFile;
use crate::request::{Op, Request};
use crate::role::Role;
use crate::step::Draft;

pub(super) use joining::join_human;
pub(super) use projects::known_project;

use super::consulting::Begun;
use super::stopping::{self, Stopper};
use super::{
    Policy, changes, circuits, consulting, conversing, files, goals, hosts, notes, overseeing,
    planning, plans, questions, raising, replacing, schedules, sessions, verbs, work,
};

/// Decides on an operation and answers it.
pub(super) fn operate(draft: &mut Draft<'_>, policy: &Policy, request: &Request, op: &Op) {
    match apply(draft, policy, request, op) {
        Ok(reply) => {
            let epic = reply.epic;
            draft.mail(request.sender.from.clone(), epic, MailBody::Reply(reply));
        }
        Err(refusal) => super::refuse(draft, request, &refusal),
    }
}

/// The overseer looks at what stands still because somebody wants it now.
fn look(draft: &mut Draft<'_>, policy: &Policy, telemetry: &Telemetry, reply: OpReply) -> OpReply {
    let detail = overseeing::looked(draft, policy, telemetry);
    overseeing::propose(draft, policy, telemetry);
    OpReply { detail, ..reply }
}

fn apply(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    op: &Op,
) -> Result<OpReply, Refusal> {
    let sender = &request.sender.from;
    let reply = super::ok_reply(op.name());
    if op.is_administration() {
        authorize(draft, request)?;
    }
    match op {
        Op::HostJoin(join) => {
            let id = joining::join_host(draft, sender, join)?;
            Ok(about(draft, &id, reply))
        }
        Op::HumanJoin { human } => {
            let id = joining::join_human(draft, sender, human)?;
            Ok(about(draft, &id, reply))
        }
        Op::ProjectCreate(wanted) => {
            let id = projects::create_project(draft, policy, sender, wanted)?;
            Ok(about(draft, &id, reply))
        }
        Op::ProjectMode { project, mode } => {
            projects::set_mode(draft, project, *mode).map(|()| reply)
        }
        Op::ProjectRetire { project } => projects::retire_project(draft, project).map(|()| reply),
        Op::ProfileApply { project, profile } => {
            projects::apply_profile(draft, project, profile).map(|()| reply)
        }
        Op::AgentRegister => joining::register(draft, request).map(|id| about(draft, &id, reply)),
        Op::AgentRetire { agent, reason } => {
            let asked = retire(draft, request, agent, reason)?;
            let reply = about(draft, agent, reply);
            Ok(OpReply { detail: asked.unwrap_or(reply.detail), ..reply })
        }
        Op::AgentReplace { agent, session, give_up, reason } => {
            let which = (*session, *give_up);
            let detail = replacing::replace(draft, policy, request, agent, which, reason)?;
            Ok(OpReply { detail, ..about(draft, agent, reply) })
        }
        Op::AgentRotate { agent, reason } => {
            let detail = replacing::rotate(draft, policy, request, agent, reason)?;
            Ok(OpReply { detail, ..about(draft, agent, reply) })
        }
        Op::HostDrain(wanted) => hosts::drain(draft, policy, wanted, reply),
        Op::CircuitClose { agent } => {
            circuits::close(draft, agent)?;
            Ok(about(draft, agent, reply))
        }
        Op::Verb(op) => verbs::operate(draft, request, op, reply),
        Op::AgentStatus { agent } => status::status(draft, request, agent, reply),
        Op::GoalCreate { project, plan } => {
            create_goal(draft, policy, request, project, plan, reply)
        }
        Op::Plan(op) => planning::plan(draft, policy, request, op, reply),
        Op::QuestionAnswer { question, text } => answer(draft, request, *question, text, reply),
        Op::OverseerTick(telemetry) => Ok(look(draft, policy, telemetry, reply)),
        Op::Goal(op) => {
            let detail = goals::operate(draft, request, op)?;
            Ok(OpReply { epic: Some(op.epic), detail, ..reply })
        }
        Op::GoalUpdate(op) => goals::update(draft, request, op, reply),
        Op::Work(op) => work::operate(draft, policy, request, op, reply),
        Op::Schedule(op) => schedules::operate(draft, request, op, reply),
        Op::Conversation(op) => conversing::operate(draft, policy, request, op, reply),
        Op::Gate(op) => changes::operate(draft, policy, request, op, reply),
        Op::Budget(op) => raising::operate(draft, op, reply),
        Op::File(op) => files::operate(draft, request, op, reply),
        Op::Note(op) => notes::operate(draft, request, op, reply),
        Op::WorkBlock { epic, node, blocker } => {
            plans::block_ready(draft, request, *epic, *node, blocker)?;
            Ok(OpReply { epic: Some(*epic), ..reply })
        }
    }
}

fn answer(
    draft: &mut Draft<'_>,
    request: &Request,
    question: QuestionId,
    text: &str,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let asked = questions::answer(draft, request, question, text)?;
    let detail = match asked.escalates {
        Some(_) => format!("whoever works on {} next is told", asked.node),
        None => format!("{} is told", asked.agent),
    };
    Ok(OpReply { epic: Some(asked.epic), detail, ..reply })
}

fn known_agent(draft: &Draft<'_>, agent: &AgentId) -> Result<(), Refusal> {
    let none = || {
        Refusal::new(
            ErrorCode::NotFound,
            format!("agent {agent} was not found; `tetrarch agent list` lists all"),
        )
    };
    draft.agent(agent).map(drop).ok_or_else(none)
}

fn create_goal(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    project: &ProjectName,
    plan: &PlanFile,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    if request.sender.from.agent().is_some() {
        super::current(draft, &request.sender)?;
    }
    let epic = EpicId(request.id.0);
    let owner = &request.sender.from;
    Ok(match consulting::give(draft, policy, epic, project, owner, plan)? {
        Begun::Asked { model } => {
            OpReply { epic: Some(epic), detail: format!("{model} makes its plan"), ..reply }
        }
        Begun::Planned => OpReply { epic: Some(epic), version: Some(1), ..reply },
    })
}

/// Fills in what the record says of an agent.
fn about(draft: &Draft<'_>, id: &AgentId, reply: OpReply) -> OpReply {
    let Some(agent) = draft.agent(id) else { return reply };
    let never_came = agent.hosting == Hosting::External && agent.session.is_none();
    let detail = if never_came { projects::credential_of(id) } else { agent.reason.clone() };
    OpReply {
        agent: Some(id.clone()),
        session: agent.session,
        agent_epoch: Some(agent.epoch),
        liveness: Some(agent.liveness),
        detail,
        ..reply
    }
}

/// Administration is a human's.
fn authorize(draft: &Draft<'_>, request: &Request) -> Result<(), Refusal> {
    match &request.sender.from {
        Principal::Human(_) => Ok(()),
        Principal::Agent(id) => {
            super::current(draft, &request.sender)?;
            let detail = format!("{id} is an agent; only a human may request this");
            Err(Refusal::new(ErrorCode::Unauthorized, detail))
        }
    }
}

/// Ends an agent and its children, for a person; one above them has them stopped, which is said. Only a person ends what
/// has no run, and ends it for good.
fn retire(
    draft: &mut Draft<'_>,
    request: &Request,
    id: &AgentId,
    reason: &str,
) -> Result<Option<String>, Refusal> {
    replacing::authorize(draft, request, id)?;
    if draft.agent(id).is_none() {
        return Err(Refusal::new(
            ErrorCode::NotFound,
            format!("agent {id} was not found; `tetrarch agent list` lists all"),
        ));
    }
    if let Principal::Agent(sender) = &request.sender.from {
        goals::fits("reason", reason, TEXT_BYTES_MAX)?;
        let why = if reason.is_empty() { "no reason given" } else { reason };
        stopping::stop(draft, id, Stopper::Above, &format!("stopped by {sender}: {why}"));
        return Ok(Some(format!("{id} is asked to stop; its result comes as mail")));
    }
    let why = if reason.is_empty() { "retired" } else { reason };
    match Role::of(id) {
        Role::Global => {
            let detail = format!("{id} ends with its process; stop that process");
            return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
        }
        Role::Host => hosts::forget(draft, id, why)?,
        Role::Project | Role::Interaction => sessions::cancel(draft, id, why),
        Role::Specialist | Role::Reviewer | Role::Worker => {
            stopping::stop(draft, id, Stopper::Plan, why);
        }
    }
    sessions::retired(draft, id);
    Ok(None)
}
