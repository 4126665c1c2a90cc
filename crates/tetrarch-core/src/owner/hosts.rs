//! Which hosts take agents now, and where one is placed (spec 03, Placement; spec 04, Crash
//! recovery); how people empty one.

use crate::admission::{HostView, freest};
use crate::agent::{Agent, Host, Hosting, Placement};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, HostName};
use crate::intensity::FailureCause;
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::TEXT_BYTES_MAX;
use crate::liveness::Liveness;
use crate::mail::OpReply;
use crate::plan::PlacementWish;
use crate::request::HostDrain;
use crate::role::Role;
use crate::step::Draft;

use super::{Policy, ending, fit, sessions, stopping};

/// Hosts whose orchestrator is up, each with the agents that its present life has.
pub(super) fn host_views(draft: &Draft<'_>) -> Vec<HostView> {
    let views = draft.hosts().into_values().filter_map(|host| {
        let orchestrator = draft.agent(&AgentId::Ho(host.name.clone()))?;
        HostView::of(host, orchestrator, |placement| draft.places_taken(placement))
    });
    views.collect()
}

/// Drains a host: it takes no more agents, also when it joins again, and each of its own comes to a
/// boundary and goes on elsewhere, or waits for a host when none has room. With `undo` it takes agents
/// again. Says what came of it.
///
/// # Errors
/// There is no such host, or it is as it is wanted already.
pub(super) fn drain(
    draft: &mut Draft<'_>,
    policy: &Policy,
    wanted: &HostDrain,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let HostDrain { host: name, undo, reason } = wanted;
    let undo = *undo;
    let Some(host) = draft.hosts().get(name).map(|host| (*host).clone()) else {
        let detail = format!("host {name} was not found; `tetrarch host list` lists all");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if host.drained != undo {
        let is = if undo { "already accepts agents" } else { "is already drained" };
        return Err(Refusal::new(ErrorCode::Conflict, format!("{name} {is}")));
    }
    draft.put(Record::Host(Host { drained: !undo, ..host }));
    let what = if undo { "accepts agents again" } else { "accepts no more agents" };
    let reason = fit::Room::of(TEXT_BYTES_MAX).text(reason, usize::MAX);
    let why = if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") };
    let event = draft.event(EventKind::HostDrained, "04 Hosts", why.clone());
    event.agent = Some(AgentId::Ho(name.clone()));
    if undo {
        return Ok(OpReply { detail: format!("{name} {what}"), ..reply });
    }
    let moved = on_host(draft, name);
    for id in &moved {
        ending::replace_when_gone(
            draft,
            policy,
            id,
            FailureCause::Rotated,
            &format!("{name} {why}"),
        );
    }
    let detail = format!("{name} {what}; {} of its agents move to other hosts", moved.len());
    Ok(OpReply { detail, ..reply })
}

/// Forgets a host that is gone for good. Its name keeps its epochs: whoever joins under it again begins a
/// new life.
///
/// # Errors
/// It lives, or may still run what is placed there; there is no such host.
pub(super) fn forget(draft: &mut Draft<'_>, id: &AgentId, why: &str) -> Result<(), Refusal> {
    let AgentId::Ho(name) = id else { return Ok(()) };
    let refused = |code, detail| Err(Refusal::new(code, detail));
    if !draft.base().hosts.contains_key(name) {
        let detail = format!("host {name} was not found; `tetrarch host list` lists all");
        return refused(ErrorCode::NotFound, detail);
    }
    let liveness = draft.agent(id).map(|agent| agent.liveness);
    if let Some(liveness @ (Liveness::Register | Liveness::Active | Liveness::Stale)) = liveness {
        let detail = format!("{name} is {liveness}; stop its `tetrarch host` process first");
        return refused(ErrorCode::Conflict, detail);
    }
    if let Some(agent) = draft.base().placed_on(name).next() {
        let count = draft.base().placed_on(name).count();
        let detail = format!(
            "agents are placed on {name} ({count}), such as {agent}; wait until they moved, or retire them"
        );
        return refused(ErrorCode::Conflict, detail);
    }
    sessions::move_session(draft, id, Liveness::Terminated, why);
    draft.event(EventKind::HostLeft, "04 Hosts", format!("forgotten: {why}")).agent =
        Some(id.clone());
    draft.forget(RecordKey::Host(name.clone()));
    Ok(())
}

/// The agents whose sessions run on a host and may be moved.
fn on_host(draft: &Draft<'_>, name: &HostName) -> Vec<AgentId> {
    let placed = draft.base().placed_on(name).filter_map(|id| draft.agent(id)).filter(|agent| {
        let here = agent.placement.as_ref().is_some_and(|placement| placement.host == *name);
        let stops = agent.work.as_ref().is_some_and(|work| stopping::is_asked_for(draft, work.run));
        here && agent.hosting == Hosting::Hosted
            && Role::of(&agent.id) != Role::Host
            && agent.liveness != Liveness::Terminated
            && !stops
    });
    placed.map(|agent| agent.id.clone()).collect()
}

/// Where an agent goes on: its former host first, unless that was the cause, else the freest that
/// its node may run on. Takes the place, and gives back the one that it has.
pub(super) fn place_again(
    draft: &Draft<'_>,
    hosts: &mut [HostView],
    agent: &Agent,
) -> Option<Placement> {
    let takes_place = agent.takes_place();
    let held = agent.placement.as_ref().filter(|_| agent.has_process() && takes_place);
    for view in hosts.iter_mut().filter(|view| Some(&view.placement) == held) {
        view.load = view.load.saturating_sub(1);
    }
    let former = agent.placement.as_ref().map(|placement| &placement.host);
    let is_former = |view: &HostView| Some(&view.placement.host) == former;
    let same = hosts.iter().position(|view| is_former(view) && (!takes_place || view.has_room()));
    let blamed = agent.ending.as_ref().is_some_and(|order| order.cause == FailureCause::HostLost);
    let work = agent.work.as_ref();
    let node = work.and_then(|work| draft.node(work.epic, work.node));
    let wish = node.map_or_else(PlacementWish::default, |node| node.placement.clone());
    if blamed {
        let mut others: Vec<HostView> =
            hosts.iter().filter(|view| !is_former(view)).cloned().collect();
        let other = freest(&mut others, &wish, takes_place).map(|view| view.placement.clone());
        if let Some(view) = hosts.iter_mut().find(|view| Some(&view.placement) == other.as_ref()) {
            view.load += u32::from(takes_place);
            return other;
        }
    }
    let view = match same {
        Some(at) => hosts.get_mut(at),
        None => freest(hosts, &wish, takes_place),
    }?;
    view.load += u32::from(takes_place);
    Some(view.placement.clone())
}

/// Whether an agent's process may be running: the life of the host it was placed under is not
/// over.
pub(super) fn on_live_host(draft: &Draft<'_>, agent: &Agent) -> bool {
    let Some(Placement { host, host_epoch }) = &agent.placement else { return false };
    is_alive(draft, host, *host_epoch)
}

/// Whether a life of a host is not over.
pub(super) fn is_alive(draft: &Draft<'_>, host: &HostName, epoch: u64) -> bool {
    draft.agent(&AgentId::Ho(host.clone())).is_some_and(|host| {
        matches!(host.liveness, Liveness::Active | Liveness::Stale) && host.epoch == epoch
    })
}
