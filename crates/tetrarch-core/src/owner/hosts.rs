//! Which hosts take agents now, and where one is placed (spec 03, Placement; spec 04, Crash
//! recovery). It counts and chooses; it writes nothing.

use crate::admission::{HostView, freest};
use crate::agent::{Agent, Placement};
use crate::id::{AgentId, HostName};
use crate::intensity::FailureCause;
use crate::liveness::Liveness;
use crate::plan::PlacementWish;
use crate::step::Draft;

/// Hosts whose orchestrator is up, each with the agents that its present life has.
pub(super) fn host_views(draft: &Draft<'_>) -> Vec<HostView> {
    let views = draft.hosts().into_values().filter_map(|host| {
        let ho = draft.agent(&AgentId::Ho(host.name.clone()))?;
        if ho.liveness != Liveness::Active {
            return None;
        }
        let placement = Placement { host: host.name.clone(), host_epoch: ho.epoch };
        let load = u32::try_from(draft.placed_at(&placement)).unwrap_or(u32::MAX);
        Some(HostView { labels: host.labels.clone(), capacity: host.capacity, load, placement })
    });
    views.collect()
}

/// Where an agent goes on: its former host first, unless that was the cause, else the freest that
/// its node may run on. Takes the place, and gives back the one that it has.
pub(super) fn place_again(
    draft: &Draft<'_>,
    hosts: &mut [HostView],
    agent: &Agent,
) -> Option<Placement> {
    let held = agent.placement.as_ref().filter(|_| agent.has_process());
    for view in hosts.iter_mut().filter(|view| Some(&view.placement) == held) {
        view.load = view.load.saturating_sub(1);
    }
    let former = agent.placement.as_ref().map(|placement| &placement.host);
    let is_former = |view: &HostView| Some(&view.placement.host) == former;
    let same = hosts.iter().position(|view| view.has_room() && is_former(view));
    let blamed = agent.ending.as_ref().is_some_and(|order| order.cause == FailureCause::HostLost);
    let work = agent.work.as_ref();
    let node = work.and_then(|work| draft.node(work.epic, work.node));
    let wish = node.map_or_else(PlacementWish::default, |node| node.placement.clone());
    if blamed {
        let mut others: Vec<HostView> =
            hosts.iter().filter(|view| !is_former(view)).cloned().collect();
        let other = freest(&mut others, &wish).map(|view| view.placement.clone());
        if let Some(view) = hosts.iter_mut().find(|view| Some(&view.placement) == other.as_ref()) {
            view.load += 1;
            return other;
        }
    }
    let view = match same {
        Some(at) => hosts.get_mut(at),
        None => freest(hosts, &wish),
    }?;
    view.load += 1;
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
