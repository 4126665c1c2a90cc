//! The queue of each parent: requests that wait for a free slot or a place on a host are decided again, in order, when
//! there may be one (spec 03, Spawn protocol).

use std::collections::BTreeMap;

use crate::admission::HostView;
use crate::admission::queued::QueuedSpawn;
use crate::error::DenialReason;
use crate::id::{AgentId, Principal};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::QUEUED_SPAWN_BYTES_MAX;
use crate::liveness::Liveness;
use crate::mail::Denied;
use crate::records::Records;
use crate::request::{Request, RequestBody, Sender, SpawnRequest};
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::{SpawnOutcome, decide};
use crate::owner::hosts::host_views;
use crate::owner::{Policy, plans, weight};

/// How many requests of a parent stand before one; before a new one, all of them.
pub(super) fn ahead(draft: &Draft<'_>, parent: &AgentId, own: Option<&QueuedSpawn>) -> usize {
    let queued = draft.base().spawns_queued_for(parent);
    queued.filter(|queued| own.is_none_or(|own| queued.place < own.place)).count()
}

/// Takes out of a request who waits, when it is larger than what may wait.
pub(super) fn refuse_large(
    wanted: &SpawnRequest,
    queued: &mut Vec<Denied>,
    denied: &mut Vec<Denied>,
) {
    let bytes = weight::spawn_request(wanted);
    if bytes > QUEUED_SPAWN_BYTES_MAX {
        let too_large = |it: Denied| Denied {
            detail: format!(
                "{}; a request that waits may have {QUEUED_SPAWN_BYTES_MAX} bytes, this one has about {bytes}",
                it.detail
            ),
            ..it
        };
        denied.extend(queued.drain(..).map(too_large));
    }
}

/// What each lacks.
fn lacks(waiting: &[Denied]) -> impl Iterator<Item = (usize, DenialReason)> {
    waiting.iter().map(|it| (it.index, it.reason))
}

/// Notes who of a request waits, at the end of its parent's queue or where it stands already.
pub(super) fn keep(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    parent: &AgentId,
    (own, waiting): (Option<&QueuedSpawn>, &[Denied]),
) {
    match own {
        Some(own) if waiting.is_empty() => {
            draft.forget(RecordKey::QueuedSpawn(own.parent.clone(), own.place));
        }
        Some(own) if lacks(&own.waiting).ne(lacks(waiting)) => {
            let own = QueuedSpawn { waiting: waiting.to_vec(), ..own.clone() };
            draft.put(Record::QueuedSpawn(Box::new(own)));
        }
        None if !waiting.is_empty() => {
            let last = draft.base().spawns_queued_for(parent).next_back();
            let queued = QueuedSpawn {
                parent: parent.clone(),
                place: last.map_or(1, |last| last.place + 1),
                request: request.id,
                sender: request.sender.from.clone(),
                trace: request.trace.clone(),
                wanted: wanted.clone(),
                waiting: waiting.to_vec(),
                since: draft.now,
            };
            draft.put(Record::QueuedSpawn(Box::new(queued)));
        }
        Some(_) | None => return,
    }
    for waiting in waiting.iter().filter(|it| own.is_none_or(|own| !own.has(it.index))) {
        let reason = format!("{}: {}", waiting.reason, waiting.detail);
        let event = draft.event(EventKind::SpawnQueued, "03 Spawn protocol", reason);
        event.agent = Some(parent.clone());
        event.epic = Some(wanted.epic);
    }
}

/// The first request of each queue.
fn heads(records: &Records) -> BTreeMap<&AgentId, &QueuedSpawn> {
    // Of one key the last is kept.
    records.queued_spawns.values().rev().map(|queued| (&queued.parent, queued)).collect()
}

/// Whether deciding a request again may come to something else than waiting.
fn is_ready(draft: &Draft<'_>, policy: &Policy, hosts: &[HostView], queued: &QueuedSpawn) -> bool {
    let parent = draft.agent(&queued.parent);
    let Some(parent) = parent.filter(|parent| parent.liveness != Liveness::Terminated) else {
        return true;
    };
    let epic = queued.wanted.epic;
    if draft.goal_state(epic).is_none_or(|goal| goal.status.is_closed()) {
        return true;
    }
    policy.halted.is_none()
        && plans::is_open(draft, epic)
        && parent.liveness == Liveness::Active
        && parent.slots_held()
            < super::slots(draft, policy, parent, (&queued.sender, &queued.wanted))
        && hosts.iter().any(HostView::has_room)
}

/// Whether a request that waits may be decided now.
pub(in crate::owner) fn is_due(draft: &Draft<'_>, policy: &Policy) -> bool {
    if draft.base().queued_spawns.is_empty() {
        return false;
    }
    let hosts = host_views(draft);
    heads(draft.base()).values().any(|head| is_ready(draft, policy, &hosts, head))
}

/// Decides one request that waits, of those that may be decided the one that waits longest. Nothing when all go on
/// waiting.
pub(in crate::owner) fn decide_next(records: &Records, policy: &Policy, now: BusTime) -> Step {
    let view = Draft::new(records, now, Principal::Agent(AgentId::Go));
    let hosts = if records.queued_spawns.is_empty() { Vec::new() } else { host_views(&view) };
    let ready = |head: &&QueuedSpawn| is_ready(&view, policy, &hosts, head);
    let mut ready: Vec<&QueuedSpawn> = heads(records).into_values().filter(ready).collect();
    ready.sort_by_key(|queued| queued.since);
    let steps = ready.into_iter().map(|queued| again(records, policy, now, queued));
    { steps }.find(|step| !step.is_empty()).unwrap_or_default()
}

/// Decides a request again: as its sender asks now, whichever session of it asked.
fn again(records: &Records, policy: &Policy, now: BusTime, queued: &QueuedSpawn) -> Step {
    let epoch =
        queued.sender.agent().and_then(|id| records.agents.get(id)).map(|agent| agent.epoch);
    let sender =
        Sender { from: queued.sender.clone(), via: None, session: None, epoch: epoch.unwrap_or(1) };
    let request = Request {
        seq: 0,
        sender,
        id: queued.request,
        digest: String::new(),
        trace: queued.trace.clone(),
        credential: None,
        body: RequestBody::Spawn(queued.wanted.clone()),
    };
    let mut draft = Draft::new(records, now, queued.sender.clone());
    draft.request = Some(queued.request);
    draft.trace.clone_from(&queued.trace);
    decide(&mut draft, policy, &request, &queued.wanted, Some(queued));
    let step = draft.finish();
    let Some(part) = weight::overweight(records, &step) else { return step };
    // It was admitted as small enough to wait, and what surrounds it has grown.
    let mut draft = Draft::new(records, now, queued.sender.clone());
    draft.request = Some(queued.request);
    let too_large = |it: &Denied| Denied {
        reason: DenialReason::InvalidRequest,
        detail: part.to_string(),
        ..it.clone()
    };
    let denied = queued.waiting.iter().map(too_large).collect();
    keep(&mut draft, &request, &queued.wanted, &queued.parent, (Some(queued), &[]));
    let outcome = SpawnOutcome { denied, ..SpawnOutcome::default() };
    super::answer(&mut draft, &request, &queued.wanted, &queued.parent, outcome);
    draft.finish()
}
