//! Who takes part: hosts, humans and external agents begin their sessions (spec 03, Identity;
//! spec 04, Hosts).

use crate::admission::freest;
use crate::agent::{Agent, Host, Hosting, Placement};
use crate::brief::Tools;
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, HostName, HumanName, Principal, SessionId};
use crate::intensity::Circuit;
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::owner::hosts::host_views;
use crate::owner::{changes, recovery, sessions};
use crate::plan::PlacementWish;
use crate::request::{HOST_RESTART, HostJoin, Request};
use crate::step::Draft;
use crate::verb::Verbs;

use super::projects::known_project;

/// A host orchestrator begins a life: its earlier one ends, and with it every session that was
/// placed under it; they go on in their next sessions (spec 04, Hosts).
pub(super) fn join_host(
    draft: &mut Draft<'_>,
    sender: &Principal,
    join: &HostJoin,
) -> Result<AgentId, Refusal> {
    let Some(id @ AgentId::Ho(host)) = sender.agent() else {
        let detail = format!("{sender} is not a host orchestrator");
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
    changes::order_again(draft, host);
    Ok(id.clone())
}

fn put_host(draft: &mut Draft<'_>, host: &HostName, join: &HostJoin) {
    let reason = format!("{host}: capacity {}, instance {}", join.capacity, join.instance);
    draft.event(EventKind::HostJoined, "04 Hosts", reason).agent = Some(AgentId::Ho(host.clone()));
    let drained = draft.hosts().get(host).is_some_and(|known| known.drained);
    draft.put(Record::Host(Host {
        drained,
        name: host.clone(),
        instance: join.instance.clone(),
        labels: join.labels.clone(),
        capacity: join.capacity,
        address: join.address.clone(),
        joined: draft.now,
    }));
}

pub(in crate::owner) fn join_human(
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

/// An external agent begins a session; an earlier one of the same name is replaced.
pub(super) fn register(draft: &mut Draft<'_>, request: &Request) -> Result<AgentId, Refusal> {
    let Some(id) = request.sender.from.agent() else {
        return Err(Refusal::new(ErrorCode::Unauthorized, "only an agent can register"));
    };
    let known = draft.agent(id).filter(|agent| agent.hosting == Hosting::External).cloned();
    let Some(mut agent) = known else {
        let detail = format!(
            "{id} is not an external agent; add it with `tetrarch agent add {id} --external`"
        );
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if let Some(project) = &agent.project {
        known_project(draft, project)?;
    }
    if agent.retired {
        let detail = format!(
            "{id} was retired ({}); a person adds it again with `tetrarch agent add {id} --external`",
            agent.reason
        );
        return Err(Refusal::new(ErrorCode::Conflict, detail));
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

/// A structural child of GO in its next session.
pub(super) fn structural(
    draft: &Draft<'_>,
    id: AgentId,
    requested_by: &Principal,
    hosting: Hosting,
) -> Agent {
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
        unsettled: before.map(|agent| agent.unsettled.clone()).unwrap_or_default(),
        deadline: None,
        tools: Tools::default(),
        circuit: Circuit::default(),
        work: None,
        verbs: Verbs::default(),
        created: before.map_or(now, |agent| agent.created),
        mail_read: 0,
        denials: Default::default(),
        retired: false,
        id,
    }
}

pub(super) fn next_session(draft: &Draft<'_>, agent: &mut Agent) {
    agent.epoch += 1;
    let index = usize::try_from(agent.epoch).unwrap_or(usize::MAX);
    let seed = draft.seed("session");
    agent.session =
        Some(SessionId::derive(draft.now, &seed, &format!("session {}", agent.id), index));
}

/// The host that a built-in actor is placed on.
pub(super) fn place(draft: &Draft<'_>, wish: &PlacementWish) -> Result<Placement, Refusal> {
    let mut hosts = host_views(draft);
    freest(&mut hosts, wish, false).map(|view| view.placement.clone()).ok_or_else(|| {
        let detail = "no_host_available: no active host; start one with `tetrarch host`";
        Refusal::new(ErrorCode::Unavailable, detail)
    })
}
