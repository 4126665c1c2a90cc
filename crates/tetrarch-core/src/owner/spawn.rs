//! Spawn requests: from the request to everything that an admission creates, in one step
//! (spec 03, Spawn protocol). Which children may be had is `admission`'s decision.

mod create;
pub(super) mod queue;
mod target;

use create::create;
use target::{Planned, Target};

use crate::admission::queued::QueuedSpawn;
use crate::admission::{self, Admission, ParentView, Standing, Wish};
use crate::agent::{Agent, Profile};
use crate::error::{DenialReason, ErrorCode, Refusal};
use crate::id::{AgentId, Principal};
use crate::ledger::{EventKind, Record};
use crate::limits::{SPAWN_REASON_BYTES_MAX, SUBAGENTS_PER_REQUEST_MAX};
use crate::liveness::Liveness;
use crate::mail::{Denied, MailBody, SpawnAnswer, Spawned};
use crate::request::{Request, SpawnRequest, SubagentWish};
use crate::role::Role;
use crate::step::Draft;

use super::{Policy, brief, conversing, hosts, plans};

const SUGGESTION: &str =
    "complete the task yourself, or send `plan.review_needed` for a plan revision";

/// Who of a request is admitted, who is not, and who waits.
#[derive(Debug, Default)]
struct SpawnOutcome {
    spawned: Vec<Spawned>,
    denied: Vec<Denied>,
    queued: Vec<Denied>,
}

/// Decides on a spawn request and answers it.
pub(super) fn spawn(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    wanted: &SpawnRequest,
) {
    decide(draft, policy, request, wanted, None);
}

/// Decides on a spawn request, or on who waits of one that is queued, and answers it. What goes on waiting as it did
/// is not answered again.
fn decide(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    wanted: &SpawnRequest,
    own: Option<&QueuedSpawn>,
) {
    let checked = check(draft, request, wanted).and_then(|parent| match &policy.halted {
        // As when no host is there: whoever asked asks again by itself.
        Some(why) => Err((DenialReason::NoHostAvailable, why.clone())),
        None => Ok(parent),
    });
    let parent = match checked {
        Ok(parent) => parent,
        Err((_, detail)) if wanted.subagents.is_empty() => {
            refuse(draft, request, &Refusal::new(ErrorCode::InvalidRequest, detail));
            return;
        }
        Err((reason, detail)) => {
            deny_all(draft, request, wanted, (reason, &detail), own);
            return;
        }
    };
    let mut targets = Vec::new();
    let mut denied = Vec::new();
    let mut planned = Planned::new(draft, wanted.epic);
    for (index, wish) in asked(wanted, own) {
        let target = planned.target(draft, wanted, wish, &parent).and_then(|(node, profile)| {
            place(draft, request, &parent, (wish, index), &profile).map(|()| (node, profile))
        });
        match target {
            Ok((node, profile)) => targets.push(Target { index, wish, node, profile }),
            Err((reason, detail)) => {
                denied.push(Denied {
                    index,
                    role: wish.role,
                    reason,
                    limit: None,
                    current: None,
                    detail,
                });
            }
        }
    }
    let view = parent_view(draft, policy, &parent, (&request.sender.from, wanted), own);
    let standing = standing_of(draft, request, &parent);
    let left = parent.deadline.map(|deadline| deadline - draft.now);
    let limit = parent.account.limit;
    let wishes = targets.iter().map(|target| target.wish(wanted.wait, left, policy.run, limit));
    let wishes: Vec<Wish> = wishes.collect();
    let hosts = hosts::host_views(draft);
    let Admission { granted, denied: refused, queued } =
        admission::admit(Some(&view), standing, &hosts, &wishes, draft.now);
    let placed = |mut it: Denied| {
        it.index = targets.get(it.index).map_or(it.index, |target| target.index);
        it
    };
    denied.extend(refused.into_iter().map(placed));
    let mut queued: Vec<Denied> = queued.into_iter().map(placed).collect();
    queue::refuse_large(wanted, &mut queued, &mut denied);
    denied.sort_by_key(|denied| denied.index);
    let mut spawned = Vec::new();
    for grant in granted {
        if let Some(target) = targets.get(grant.index) {
            spawned.push(create(draft, wanted, &parent.id, target, &grant));
        }
    }
    if !spawned.is_empty() {
        plans::settle(draft, wanted.epic);
    }
    queue::keep(draft, request, wanted, &parent.id, (own, &queued));
    if own.is_none() || !spawned.is_empty() || !denied.is_empty() {
        answer(draft, request, wanted, &parent.id, SpawnOutcome { spawned, denied, queued });
    }
}

/// The sub-agents of a request that are decided on: all, or those that wait.
fn asked<'r>(
    wanted: &'r SpawnRequest,
    own: Option<&'r QueuedSpawn>,
) -> impl Iterator<Item = (usize, &'r SubagentWish)> {
    let all = wanted.subagents.iter().enumerate();
    all.filter(move |(index, _)| own.is_none_or(|own| own.has(*index)))
}

/// Refuses a request that could not even be read.
pub(super) fn refuse(draft: &mut Draft<'_>, request: &Request, refusal: &Refusal) {
    let reason = match refusal.code {
        ErrorCode::Conflict => DenialReason::Conflict.as_str(),
        ErrorCode::Unauthorized | ErrorCode::Superseded => DenialReason::Unauthorized.as_str(),
        ErrorCode::InvalidRequest
        | ErrorCode::InvalidPlan
        | ErrorCode::NotFound
        | ErrorCode::Unavailable
        | ErrorCode::BudgetExceeded
        | ErrorCode::LaneFull => refusal.code.as_str(),
    };
    let answer = SpawnAnswer {
        request: request.given_id(),
        reason: reason.to_owned(),
        suggestion: refusal.detail.clone(),
        ..SpawnAnswer::default()
    };
    draft.mail(request.sender.from.clone(), None, MailBody::SpawnAnswer(answer));
}

type Refused = (DenialReason, String);

/// What holds for the request as a whole; gives the parent.
fn check(draft: &Draft<'_>, request: &Request, wanted: &SpawnRequest) -> Result<Agent, Refused> {
    let invalid = |detail: String| (DenialReason::InvalidRequest, detail);
    let count = wanted.subagents.len();
    if count == 0 || count > SUBAGENTS_PER_REQUEST_MAX {
        return Err(invalid(format!(
            "requested_subagents: {count} given; allowed: 1 to {SUBAGENTS_PER_REQUEST_MAX}"
        )));
    }
    if wanted.reason.len() > SPAWN_REASON_BYTES_MAX {
        return Err(invalid(format!(
            "spawn_reason: {} bytes; the limit is {SPAWN_REASON_BYTES_MAX}",
            wanted.reason.len()
        )));
    }
    for (index, wish) in wanted.subagents.iter().enumerate() {
        brief::validate(wish, index).map_err(invalid)?;
    }
    if request.sender.from.agent().is_some() {
        super::current(draft, &request.sender)
            .map_err(|refusal| (DenialReason::Unauthorized, refusal.to_string()))?;
    }
    let Some(id) = wanted.parent.as_ref().or_else(|| request.sender.from.agent()) else {
        return Err(invalid("parent: a human must name one".to_owned()));
    };
    let parent = draft
        .agent(id)
        .ok_or_else(|| (DenialReason::UnknownParent, format!("agent {id} was not found")))?;
    let goal = draft.base().goals.get(&wanted.epic);
    if goal.is_none_or(|goal| Some(&goal.project) != parent.project.as_ref()) {
        let detail = format!("{} is not a goal of {id}'s project", wanted.epic);
        return Err((DenialReason::UnknownEpic, detail));
    }
    for (index, wish) in wanted.subagents.iter().enumerate() {
        brief::check_notes(draft, wanted.epic, wish, index).map_err(invalid)?;
    }
    if !plans::is_open(draft, wanted.epic) {
        let detail = format!("the goal {} is not active", wanted.epic);
        return Err((DenialReason::NodeNotAssignable, detail));
    }
    Ok(parent.clone())
}

/// Whether a child may work where it is to. People name any place, as their profiles do; agents do not.
fn place(
    draft: &Draft<'_>,
    request: &Request,
    parent: &Agent,
    (wish, index): (&SubagentWish, usize),
    profile: &Profile,
) -> Result<(), Refused> {
    if request.sender.from.agent().is_none() {
        return Ok(());
    }
    let own = parent.work.as_ref().and_then(|work| draft.run(work.run));
    brief::place(wish, index, profile, own).map_err(|detail| (DenialReason::InvalidRequest, detail))
}

fn standing_of(draft: &Draft<'_>, request: &Request, parent: &Agent) -> Standing {
    match &request.sender.from {
        Principal::Human(_) => Standing::Sponsor,
        Principal::Agent(sender) => {
            let mut above = Vec::new();
            let mut next = parent.parent.as_ref();
            while let Some(id) = next {
                above.push(id.clone());
                next = draft.agent(id).and_then(|agent| agent.parent.as_ref());
            }
            admission::standing(sender, &parent.id, &above)
        }
    }
}

fn parent_view(
    draft: &Draft<'_>,
    policy: &Policy,
    parent: &Agent,
    asked: (&Principal, &SpawnRequest),
    own: Option<&QueuedSpawn>,
) -> ParentView {
    let mut circuit_open = parent.circuit.is_open();
    let mut next = parent.parent.as_ref();
    while let Some(above) = next.and_then(|id| draft.agent(id)) {
        circuit_open |= above.circuit.is_open();
        next = above.parent.as_ref();
    }
    ParentView {
        role: Role::of(&parent.id),
        depth: parent.depth,
        max_depth: parent.max_depth,
        local_max_depth: parent.local_max_depth,
        liveness: parent.liveness,
        held: parent.slots_held(),
        cap: slots(draft, policy, parent, asked),
        queued: queue::ahead(draft, &parent.id, own),
        account: parent.account,
        deadline: parent.deadline,
        tools: parent.tools.clone(),
        circuit_open,
    }
}

/// How many children a parent may have at once, as to what is asked for and by whom.
fn slots(
    draft: &Draft<'_>,
    policy: &Policy,
    parent: &Agent,
    (sender, wanted): (&Principal, &SpawnRequest),
) -> usize {
    let mode = conversing::mode_of(draft, parent);
    // An agent that does work of the parent's plan is not one that it has beside it.
    let works_plan = sender.agent() == Some(&parent.id) && wanted.node.is_some();
    let slots = if works_plan { mode.slots(parent) } else { mode.cap() };
    slots.min(policy.max_children)
}

/// The sender's claims about itself that the record contradicts.
fn corrections(draft: &Draft<'_>, request: &Request, wanted: &SpawnRequest) -> Vec<String> {
    let Some(sender) = request.sender.from.agent().and_then(|id| draft.base().agents.get(id))
    else {
        return Vec::new();
    };
    let claims = [
        ("depth", wanted.caller_depth, sender.depth),
        ("max_depth", wanted.caller_max_depth, sender.max_depth),
        ("local_max_depth", wanted.caller_local_max_depth, sender.local_max_depth),
    ];
    let wrong = claims.into_iter().filter(|(_, claim, truth)| claim.is_some_and(|c| c != *truth));
    wrong
        .map(|(name, claim, truth)| {
            format!("caller_{name}: {} claimed, {truth} is true", claim.unwrap_or_default())
        })
        .collect()
}

fn deny_all(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    (reason, detail): (DenialReason, &str),
    own: Option<&QueuedSpawn>,
) {
    let denied = asked(wanted, own).map(|(index, wish)| Denied {
        index,
        role: wish.role,
        reason,
        limit: None,
        current: None,
        detail: detail.to_owned(),
    });
    let denied = denied.collect();
    let parent = wanted.parent.clone().or_else(|| request.sender.from.agent().cloned());
    let parent = parent.unwrap_or(AgentId::Go);
    queue::keep(draft, request, wanted, &parent, (own, &[]));
    answer(draft, request, wanted, &parent, SpawnOutcome { denied, ..SpawnOutcome::default() });
}

fn answer(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    parent: &AgentId,
    outcome: SpawnOutcome,
) {
    let SpawnOutcome { spawned, denied, queued } = outcome;
    for refusal in &denied {
        let reason = format!("{}: {}", refusal.reason, refusal.detail);
        let event = draft.event(EventKind::SpawnDenied, "03 Spawn protocol", reason);
        event.agent = Some(parent.clone());
        event.epic = Some(wanted.epic);
    }
    tell_of_denials(draft, request, wanted, parent, &denied);
    if !wanted.ack_required {
        return;
    }
    let stale = draft.agent(parent).is_some_and(|agent| agent.liveness == Liveness::Stale);
    let refused = spawned.is_empty() && queued.is_empty();
    let whole = match denied.first().map(|denied| denied.reason) {
        Some(DenialReason::InvalidRequest) if denied.len() == wanted.subagents.len() => {
            DenialReason::InvalidRequest.as_str()
        }
        _ => Admission::overall(&denied),
    };
    let answer = SpawnAnswer {
        epic: Some(wanted.epic),
        request: Some(request.id),
        parent: Some(parent.clone()),
        reason: if refused { whole.to_owned() } else { String::new() },
        suggestion: if refused { SUGGESTION.to_owned() } else { String::new() },
        retry: refused && stale,
        spawned,
        denied,
        queued,
        corrections: corrections(draft, request, wanted),
    };
    draft.mail(request.sender.from.clone(), Some(wanted.epic), MailBody::SpawnAnswer(answer));
}

/// Tells the parent orchestrator, once for many: of whoever asked when it is an agent, of the child
/// that it sponsors, else of whom was asked for.
fn tell_of_denials(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    parent: &AgentId,
    denied: &[Denied],
) {
    if denied.is_empty() {
        return;
    }
    let sender = request.sender.from.clone();
    let violations: Vec<Denied> =
        denied.iter().filter(|denied| denied.reason.is_violation()).cloned().collect();
    let asking = sender.agent().and_then(|agent| draft.agent(agent));
    let below = draft.agent(parent);
    let sponsored = below.filter(|below| {
        below.parent.as_ref() == sender.agent()
            && wanted.requested_by.as_ref().and_then(Principal::agent) == Some(parent)
    });
    let count = match sponsored.or(asking).or(below).cloned() {
        Some(mut counted) => {
            let tells = counted.denials.note(denied.len(), !violations.is_empty(), draft.now);
            let count = counted.denials.count;
            draft.put(Record::Agent(Box::new(counted)));
            tells.then_some(count)
        }
        None => (!violations.is_empty()).then_some(1),
    };
    let Some(count) = count else { return };
    let above = draft.agent(parent).and_then(|agent| agent.parent.clone());
    let to = Principal::Agent(above.unwrap_or(AgentId::Go));
    let told = if violations.is_empty() { denied.to_vec() } else { violations };
    let body = MailBody::Violation { sender, parent: parent.clone(), denied: told, count };
    draft.mail(to, Some(wanted.epic), body);
}
