//! Operations: hosts join, projects and profiles are made, external agents register, goals are
//! given (spec 02, Operations; spec 03, Identity). Every one is answered by mail.

use crate::admission::freest;
use crate::agent::{Agent, DEFAULT_PROFILE, Host, Hosting, Mode, Placement, Profile, Project};
use crate::brief::{RunnerKind, Tools};
use crate::budget::{Account, Limits};
use crate::error::{ErrorCode, Refusal};
use crate::id::{
    AgentId, EpicId, HostName, HumanName, Principal, ProfileName, ProjectName, QuestionId,
    SessionId,
};
use crate::intensity::Circuit;
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::mail::{MailBody, OpReply};
use crate::plan::PlacementWish;
use crate::plan::schema::PlanFile;
use crate::request::{HOST_RESTART, HostJoin, Op, ProjectCreate, Request};
use crate::role::Role;
use crate::step::Draft;

use super::hosts::host_views;
use super::{
    Policy, circuits, overseeing, plans, questions, recovery, replacing, sessions, stopping,
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
            let id = join_host(draft, sender, join)?;
            Ok(about(draft, &id, reply))
        }
        Op::HumanJoin { human } => {
            let id = join_human(draft, sender, human)?;
            Ok(about(draft, &id, reply))
        }
        Op::ProjectCreate(wanted) => {
            let id = create_project(draft, policy, sender, wanted)?;
            Ok(about(draft, &id, reply))
        }
        Op::ProjectMode { project, mode } => {
            set_mode(draft, project, *mode)?;
            Ok(reply)
        }
        Op::ProjectRetire { project } => {
            retire_project(draft, project)?;
            Ok(reply)
        }
        Op::ProfileApply { project, profile } => {
            apply_profile(draft, project, profile)?;
            Ok(reply)
        }
        Op::AgentRegister => register(draft, request).map(|id| about(draft, &id, reply)),
        Op::AgentRetire { agent, reason } => {
            retire(draft, agent, reason)?;
            Ok(about(draft, agent, reply))
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
        Op::CircuitClose { agent } => {
            circuits::close(draft, agent)?;
            Ok(about(draft, agent, reply))
        }
        Op::AgentStatus { agent } => {
            known_agent(draft, agent)?;
            Ok(about(draft, agent, reply))
        }
        Op::GoalCreate { project, plan } => create_goal(draft, request, project, plan, reply),
        Op::QuestionAnswer { question, text } => answer(draft, request, *question, text, reply),
        Op::OverseerTick(telemetry) => {
            Ok(OpReply { detail: overseeing::looked(draft, policy, telemetry), ..reply })
        }
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
    let none = || Refusal::new(ErrorCode::NotFound, format!("no agent {agent}"));
    draft.agent(agent).map(drop).ok_or_else(none)
}

fn create_goal(
    draft: &mut Draft<'_>,
    request: &Request,
    project: &ProjectName,
    plan: &PlanFile,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    if request.sender.from.agent().is_some() {
        super::current(draft, &request.sender)?;
    }
    let epic = EpicId(request.id.0);
    plans::create_goal(draft, epic, project, &request.sender.from, plan)?;
    Ok(OpReply { epic: Some(epic), version: Some(1), ..reply })
}

fn retire_project(draft: &mut Draft<'_>, project: &ProjectName) -> Result<(), Refusal> {
    let mut record = known_project(draft, project)?;
    record.retired = true;
    draft.put(Record::Project(record));
    draft.event(EventKind::ProjectRetired, "03 Identity", project.to_string());
    sessions::cancel(draft, &AgentId::Po(project.clone()), "its project was retired");
    Ok(())
}

fn set_mode(draft: &mut Draft<'_>, project: &ProjectName, mode: Mode) -> Result<(), Refusal> {
    let mut record = known_project(draft, project)?;
    let reason = format!("{project}: {} -> {mode}", record.mode);
    draft.event(EventKind::ProjectMode, "03 Modes", reason);
    record.mode = mode;
    draft.put(Record::Project(record));
    Ok(())
}

/// Fills in what the record says of an agent.
fn about(draft: &Draft<'_>, id: &AgentId, reply: OpReply) -> OpReply {
    let Some(agent) = draft.agent(id) else { return reply };
    OpReply {
        agent: Some(id.clone()),
        session: agent.session,
        agent_epoch: Some(agent.epoch),
        liveness: Some(agent.liveness),
        detail: agent.reason.clone(),
        ..reply
    }
}

/// Administration is a human's.
fn authorize(draft: &Draft<'_>, request: &Request) -> Result<(), Refusal> {
    match &request.sender.from {
        Principal::Human(_) => Ok(()),
        Principal::Agent(id) => {
            super::current(draft, &request.sender)?;
            let detail = format!("{id} is an agent; a human must ask for this");
            Err(Refusal::new(ErrorCode::Unauthorized, detail))
        }
    }
}

fn known_project(draft: &Draft<'_>, name: &ProjectName) -> Result<Project, Refusal> {
    let known = draft.base().projects.get(name).filter(|project| !project.retired).cloned();
    known.ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("no project {name}")))
}

/// A structural child of GO in its next session.
fn structural(draft: &Draft<'_>, id: AgentId, requested_by: &Principal, hosting: Hosting) -> Agent {
    let (now, before) = (draft.now, draft.agent(&id));
    let go = draft.agent(&AgentId::Go);
    let max_depth = go.map_or(crate::limits::DEPTH_CEILING, |go| go.max_depth);
    let epoch = before.map_or(0, |agent| agent.epoch);
    Agent {
        session: None,
        epoch,
        liveness: Liveness::Register,
        reason: "admitted".to_owned(),
        since: now,
        ending: None,
        parent: Some(AgentId::Go),
        depth: 1,
        max_depth,
        local_max_depth: max_depth,
        requested_by: requested_by.clone(),
        project: None,
        hosting,
        placement: None,
        label: String::new(),
        slots: before.map(|agent| agent.slots.clone()).unwrap_or_default(),
        account: before.map(|agent| agent.account).unwrap_or_default(),
        deadline: None,
        tools: Tools::default(),
        circuit: Circuit::default(),
        work: None,
        created: before.map_or(now, |agent| agent.created),
        id,
    }
}

fn next_session(draft: &Draft<'_>, agent: &mut Agent) {
    agent.epoch += 1;
    let index = usize::try_from(agent.epoch).unwrap_or(usize::MAX);
    let seed = draft.seed("session");
    agent.session =
        Some(SessionId::derive(draft.now, &seed, &format!("session {}", agent.id), index));
}

/// A host orchestrator begins a life: its earlier one ends, and with it every session that was
/// placed under it; they go on in their next sessions (spec 04, Hosts).
fn join_host(
    draft: &mut Draft<'_>,
    sender: &Principal,
    join: &HostJoin,
) -> Result<AgentId, Refusal> {
    let Some(id @ AgentId::Ho(host)) = sender.agent() else {
        let detail = format!("{sender} is no host orchestrator");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    };
    let known = draft.base().hosts.get(host);
    let alive = draft.agent(id).is_some_and(|ho| ho.liveness == Liveness::Active);
    if alive && known.is_some_and(|known| known.instance == join.instance) {
        return Ok(id.clone());
    }
    if draft.agent(id).is_some_and(|ho| join.lease_epoch < ho.epoch && alive) {
        let detail = format!("lease epoch {} is older than the host's", join.lease_epoch);
        return Err(Refusal::new(ErrorCode::Superseded, detail));
    }
    sessions::move_session(draft, id, Liveness::Terminated, "replaced by a new life");
    let mut agent = structural(draft, id.clone(), sender, Hosting::Hosted);
    next_session(draft, &mut agent);
    agent.epoch = agent.epoch.max(join.lease_epoch);
    draft.put(Record::Agent(Box::new(agent)));
    sessions::move_session(draft, id, Liveness::Active, "holds its host's lease");
    put_host(draft, host, join);
    recovery::recover_host(draft, host, HOST_RESTART);
    Ok(id.clone())
}

fn put_host(draft: &mut Draft<'_>, host: &HostName, join: &HostJoin) {
    let reason = format!("{host}: capacity {}, instance {}", join.capacity, join.instance);
    draft.event(EventKind::HostJoined, "04 Hosts", reason).agent = Some(AgentId::Ho(host.clone()));
    draft.put(Record::Host(Host {
        name: host.clone(),
        instance: join.instance.clone(),
        labels: join.labels.clone(),
        capacity: join.capacity,
        address: join.address.clone(),
        joined: draft.now,
    }));
}

/// The host that a built-in actor is placed on.
fn place(draft: &Draft<'_>, wish: &PlacementWish) -> Result<Placement, Refusal> {
    let mut hosts = host_views(draft);
    freest(&mut hosts, wish).map(|view| view.placement.clone()).ok_or_else(|| {
        let detail = "no_host_available: no active host with room; start one with `tetrarch host`";
        Refusal::new(ErrorCode::Unavailable, detail)
    })
}

fn join_human(
    draft: &mut Draft<'_>,
    sender: &Principal,
    human: &HumanName,
) -> Result<AgentId, Refusal> {
    if *sender != Principal::Human(human.clone()) {
        let detail = format!("{sender} may not join for {human}");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let id = AgentId::Io(human.clone());
    if draft.agent(&id).is_some_and(|agent| agent.liveness != Liveness::Terminated) {
        return Ok(id);
    }
    let mut agent = structural(draft, id.clone(), sender, Hosting::Hosted);
    agent.placement = Some(place(draft, &PlacementWish::default())?);
    next_session(draft, &mut agent);
    draft.put(Record::Agent(Box::new(agent)));
    let event = draft.event(EventKind::AgentAdmitted, "03 Identity", "its human joined");
    event.agent = Some(id.clone());
    sessions::launch(draft, &id, None);
    Ok(id)
}

fn create_project(
    draft: &mut Draft<'_>,
    policy: &Policy,
    sender: &Principal,
    wanted: &ProjectCreate,
) -> Result<AgentId, Refusal> {
    let id = AgentId::Po(wanted.project.clone());
    if let Some(known) = draft.agent(&id).filter(|agent| agent.liveness != Liveness::Terminated) {
        let at = known.placement.as_ref().map_or_else(
            || "an external program".to_owned(),
            |placement| placement.host.to_string(),
        );
        let detail =
            format!("{id} exists: held by {at}, {} since {} ms", known.liveness, known.since.0);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let hosting = if wanted.external { Hosting::External } else { Hosting::Hosted };
    let mut agent = structural(draft, id.clone(), sender, hosting);
    agent.project = Some(wanted.project.clone());
    agent.tools = wanted.tools.clone();
    agent.account = Account::of(wanted.budget);
    let depth = wanted.local_max_depth.unwrap_or(policy.max_depth);
    agent.local_max_depth = depth.min(agent.max_depth).max(agent.depth);
    if !wanted.external {
        agent.placement = Some(place(draft, &wanted.placement)?);
        next_session(draft, &mut agent);
    }
    draft.put(Record::Agent(Box::new(agent)));
    let created = draft.now;
    draft.put(Record::Project(Project {
        name: wanted.project.clone(),
        mode: wanted.mode,
        created_by: sender.clone(),
        created,
        retired: false,
    }));
    let default = shipped_profile()?;
    if !draft.base().profiles.contains_key(&(wanted.project.clone(), default.name.clone())) {
        draft.put(Record::Profile(wanted.project.clone(), Box::new(default)));
    }
    let reason = format!("mode {}", wanted.mode);
    draft.event(EventKind::ProjectCreated, "03 Identity", reason).agent = Some(id.clone());
    sessions::launch(draft, &id, None);
    Ok(id)
}

/// The profile every project starts with: the process runner with a program that gives its
/// brief back, so that a bare task works before anybody wrote a profile (spec 12).
fn shipped_profile() -> Result<Profile, Refusal> {
    let name = ProfileName::new(DEFAULT_PROFILE)
        .map_err(|error| Refusal::new(ErrorCode::InvalidRequest, error.to_string()))?;
    Ok(Profile {
        name,
        kind: RunnerKind::Process,
        argv: vec!["head".to_owned(), "-n".to_owned(), "1".to_owned()],
        env: Vec::new(),
        pass_env: Vec::new(),
        model: String::new(),
        prompt: String::new(),
        tools: Tools::default(),
        budget: Limits::default(),
        wall: None,
        workspace: String::new(),
    })
}

fn apply_profile(
    draft: &mut Draft<'_>,
    project: &ProjectName,
    profile: &Profile,
) -> Result<(), Refusal> {
    known_project(draft, project)?;
    if profile.kind == RunnerKind::Process && profile.argv.is_empty() {
        let detail = format!("profile {}: argv: the process runner needs a command", profile.name);
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let reason = format!("{project}/{}: {}", profile.name, profile.kind.as_str());
    draft.event(EventKind::ProfileApplied, "12 Profiles", reason);
    draft.put(Record::Profile(project.clone(), Box::new(profile.clone())));
    Ok(())
}

/// An external agent begins a session; an earlier one of the same name is replaced.
fn register(draft: &mut Draft<'_>, request: &Request) -> Result<AgentId, Refusal> {
    let Some(id) = request.sender.from.agent() else {
        return Err(Refusal::new(ErrorCode::Unauthorized, "only an agent registers"));
    };
    let known = draft.agent(id).filter(|agent| agent.hosting == Hosting::External).cloned();
    let Some(mut agent) = known else {
        let detail = format!("{id} is no external agent; add it with `tetrarch agent add`");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if let Some(project) = &agent.project {
        known_project(draft, project)?;
    }
    if agent.session.is_some() {
        sessions::move_session(draft, id, Liveness::Terminated, "replaced by its next session");
    }
    next_session(draft, &mut agent);
    agent.liveness = Liveness::Register;
    "registered".clone_into(&mut agent.reason);
    agent.since = draft.now;
    let reason = format!("epoch {}", agent.epoch);
    draft.put(Record::Agent(Box::new(agent)));
    draft.event(EventKind::AgentAdmitted, "03 Identity", reason).agent = Some(id.clone());
    sessions::launch(draft, id, None);
    Ok(id.clone())
}

fn retire(draft: &mut Draft<'_>, id: &AgentId, reason: &str) -> Result<(), Refusal> {
    if draft.agent(id).is_none() {
        return Err(Refusal::new(ErrorCode::NotFound, format!("no agent {id}")));
    }
    let why = if reason.is_empty() { "retired" } else { reason };
    match Role::of(id) {
        Role::Global | Role::Host => {
            let detail = format!("{id} ends with its process; stop that");
            return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
        }
        Role::Project | Role::Interaction => sessions::cancel(draft, id, why),
        Role::Specialist | Role::Reviewer | Role::Worker => {
            stopping::stop(draft, id, why);
        }
    }
    Ok(())
}
