//! What becomes of agents whose process is lost (spec 04, Crash recovery): the next session of
//! the same name where a host can take it, waiting where none can, an end where a stop was
//! already asked for.

use crate::admission::HostView;
use crate::agent::Placement;
use crate::brief::{Brief, Outcome, RunResult};
use crate::id::{AgentId, HostName, Principal, RunId, SessionId};
use crate::intensity::FailureCause;
use crate::ledger::{EventKind, Record};
use crate::limits::{LOST_MAX, RECOVERED_BYTES_MAX, RECOVERED_MAX};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::records::Records;
use crate::run::Run;
use crate::step::Draft;

use super::hosts::{host_views, is_alive, on_live_host, place_again};
use super::{circuits, plans, questions, sessions, stopping, weight};

/// What one decision has done so far: many agents are dealt with in portions, each of which fits
/// into a commit.
#[derive(Debug, Default)]
struct Portion {
    recovered: usize,
    lost: usize,
    bytes: usize,
}

impl Portion {
    fn is_full(&self) -> bool {
        self.recovered >= RECOVERED_MAX
            || self.lost >= LOST_MAX
            || self.bytes >= RECOVERED_BYTES_MAX
    }
}

/// Recovers what an ended life of a host left behind, and whoever else waits for a host: as much
/// as one decision can. The rest is due at the next tick.
pub(super) fn recover_host(draft: &mut Draft<'_>, host: &HostName, why: &str) {
    let mut portion = Portion::default();
    let left = left_behind(draft).filter(|(of, _)| *of == host);
    let left: Vec<AgentId> = left.take(LOST_MAX).map(|(_, id)| id.clone()).collect();
    recover(draft, &mut portion, left, why);
    recover_offline(draft, &mut portion);
}

/// Recovers a portion of what an ended life of a host left behind, and whoever waits for a host.
pub(super) fn recover_due(draft: &mut Draft<'_>) {
    let left = left_behind(draft).next().map(|(host, _)| host.clone());
    match left {
        Some(host) => {
            let why = format!("the life of {host} that it belonged to is over");
            recover_host(draft, &host, &why);
        }
        None => recover_offline(draft, &mut Portion::default()),
    }
}

/// Recovers whoever waits for a host.
fn recover_offline(draft: &mut Draft<'_>, portion: &mut Portion) {
    let views = host_views(draft);
    let offline = draft.base().offline().filter(|id| can_be_taken(draft, &views, id));
    let offline = offline.cloned().collect();
    recover(draft, portion, offline, "a host can take it");
}

/// Whether some host has room for an agent that waits.
fn can_be_taken(draft: &Draft<'_>, views: &[HostView], id: &AgentId) -> bool {
    let Some(agent) = draft.agent(id) else { return false };
    let room = views.iter().any(|view| !agent.takes_place() || view.has_room());
    room && !circuits::holds(draft, agent)
}

/// Agents that are taken to run under lives of hosts that are over, with their hosts.
fn left_behind<'a>(draft: &Draft<'a>) -> impl Iterator<Item = (&'a HostName, &'a AgentId)> {
    let over = draft.base().lives().filter(|(host, epoch, _)| !is_alive(draft, host, *epoch));
    let placed = over.flat_map(|(host, _, agents)| agents.iter().map(move |id| (host, id)));
    placed.filter(|(_, id)| {
        let agent = draft.agent(id);
        agent.is_some_and(|agent| agent.has_process() && !on_live_host(draft, agent))
    })
}

/// Whether somebody was left behind by an ended life of a host, or waits for a host and one has
/// room.
pub(super) fn is_due(records: &Records, draft: &Draft<'_>) -> bool {
    if left_behind(draft).next().is_some() {
        return true;
    }
    if records.offline().next().is_none() {
        return false;
    }
    let views = host_views(draft);
    records.offline().any(|id| can_be_taken(draft, &views, id))
}

fn recover(draft: &mut Draft<'_>, portion: &mut Portion, lost: Vec<AgentId>, why: &str) {
    let mut hosts = host_views(draft);
    for id in lost {
        if portion.is_full() {
            return;
        }
        let Some(agent) = draft.agent(&id).cloned() else { continue };
        if agent.liveness == Liveness::Terminated {
            continue;
        }
        if agent.work.as_ref().is_some_and(|work| stopping::is_asked_for(draft, work.run)) {
            give_up(draft, &id, Outcome::Cancelled, why);
        } else if let Some(placement) = place_again(draft, &mut hosts, &agent) {
            let brief = agent.work.as_ref().and_then(|work| draft.run(work.run));
            // It stands in the run's record and in the launch order.
            portion.bytes += 2 * brief.map_or(0, |run| weight::brief(&run.brief));
            portion.recovered += 1;
            replace(draft, &id, placement, why);
        } else if !strand(draft, &id, why) {
            continue;
        }
        portion.lost += 1;
        portion.bytes += weight::agent(&agent);
    }
}

/// Recovers one agent whose process is known to be gone.
pub(super) fn recover_one(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    recover(draft, &mut Portion::default(), vec![id.clone()], why);
}

/// An agent's process failed, and the circuit above it is open: it goes on when that is closed, where it was.
pub(super) fn hold(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    let work = draft.agent(id).and_then(|agent| agent.work.clone());
    if work.is_some_and(|work| stopping::is_asked_for(draft, work.run)) {
        give_up(draft, id, Outcome::Cancelled, why);
    } else {
        strand(draft, id, why);
    }
}

/// Leaves a session offline; its parent is told. Says whether it was not offline already.
pub(super) fn strand(draft: &mut Draft<'_>, id: &AgentId, why: &str) -> bool {
    sessions::move_session(draft, id, Liveness::Stale, why);
    let moved = sessions::move_session(draft, id, Liveness::Offline, why);
    if moved {
        tell_parent(draft, id, false, why);
        tell_further(draft, id, why);
    }
    moved
}

/// Tells an agent's parent that its session is lost.
pub(super) fn tell_parent(draft: &mut Draft<'_>, id: &AgentId, crashed: bool, cause: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let (Some(session), Some(parent)) = (agent.session, agent.parent) else { return };
    let cause = cause.to_owned();
    let body = MailBody::AgentLost { agent: id.clone(), session, crashed, cause };
    draft.mail(Principal::Agent(parent), agent.work.map(|work| work.epic), body);
}

/// Tells the others of those above it that an agent is offline: its parent's parent, so its project where a specialist
/// is its parent, and whom its goal belongs to. What is told to GO it knows.
fn tell_further(draft: &mut Draft<'_>, id: &AgentId, cause: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let (Some(session), Some(parent)) = (agent.session, &agent.parent) else { return };
    let epic = agent.work.as_ref().map(|work| work.epic);
    let above = draft.agent(parent).and_then(|parent| parent.parent.clone());
    let above = above.filter(|above| *above != AgentId::Go).map(Principal::Agent);
    let goal = epic.and_then(|epic| draft.base().goals.get(&epic));
    let owner = goal.map(|goal| questions::desk_of(draft, &goal.owner));
    let owner = owner.filter(|to| to.agent() != Some(parent) && Some(to) != above.as_ref());
    for to in above.into_iter().chain(owner) {
        let (agent, cause) = (id.clone(), cause.to_owned());
        draft.mail(to, epic, MailBody::AgentLost { agent, session, crashed: false, cause });
    }
}

/// Ends an agent that will give no result any more: its attempt ends so, and its session.
pub(super) fn give_up(draft: &mut Draft<'_>, id: &AgentId, outcome: Outcome, cause: &str) {
    let work = draft.agent(id).and_then(|agent| agent.work.clone());
    let Some(work) = work else { return };
    sessions::lose_run(draft, id, work.run, cause);
    if let Some(run) = draft.run(work.run).cloned() {
        plans::end_attempt(draft, &run, &RunResult::ended(outcome, cause));
    }
    sessions::terminate(draft, id, cause);
    plans::settle(draft, work.epic);
}

/// The next session of the same name, on a host that is up: same parent, slot, inbox, cursor,
/// assignment and grant, a new run that goes on from the old one. The old process must be known
/// to be gone.
fn replace(draft: &mut Draft<'_>, id: &AgentId, placement: Placement, why: &str) {
    let ending = draft.agent(id).and_then(|agent| agent.ending.as_ref());
    let rotated = ending.is_some_and(|ending| ending.cause == FailureCause::Rotated);
    let ended = if rotated { "rotated" } else { "replaced" };
    sessions::move_session(draft, id, Liveness::Terminated, ended);
    if let Some(work) = draft.agent(id).and_then(|agent| agent.work.clone()) {
        sessions::lose_run(draft, id, work.run, why);
    }
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    let seed = draft.seed(why);
    let old = agent.session;
    agent.epoch += 1;
    let index = usize::try_from(agent.epoch).unwrap_or(usize::MAX);
    agent.session = Some(SessionId::derive(draft.now, &seed, &format!("session {id}"), index));
    agent.liveness = Liveness::Register;
    why.clone_into(&mut agent.reason);
    agent.since = draft.now;
    agent.placement = Some(placement.clone());
    agent.circuit.close();
    let ends = agent.work.as_ref().map(|work| work.run);
    if let (Some(work), Some(session)) = (agent.work.as_mut(), agent.session)
        && let Some(before) = draft.run(work.run).cloned()
    {
        // The wall clock does not begin again with a session.
        let left = agent.deadline.map(|deadline| deadline - draft.now);
        let (wall, budget) = (left.or(before.brief.wall), agent.account.limit);
        let brief = Brief { wall, budget, ..before.brief.clone() };
        let run = Run {
            brief,
            id: RunId::derive(draft.now, &seed, &format!("run {id}"), index),
            session,
            epoch: agent.epoch,
            continues: Some(before.id),
            placement: Some(placement),
            created: draft.now,
            ..before
        };
        work.run = run.id;
        if let Some(mut assignment) = draft.assignment(work.assignment).cloned() {
            assignment.run = run.id;
            assignment.updated = draft.now;
            draft.put(Record::Assignment(Box::new(assignment)));
        }
        sessions::put_run(draft, run);
    }
    let old = old.map_or_else(|| "none".to_owned(), |session| session.to_string());
    let reason = format!("session {old} ended: {why}; epoch {} goes on", agent.epoch);
    let epic = agent.work.as_ref().map(|work| work.epic);
    draft.put(Record::Agent(Box::new(agent)));
    let event = draft.event(EventKind::AgentReplaced, "04 Crash recovery", reason);
    (event.agent, event.epic) = (Some(id.clone()), epic);
    sessions::launch(draft, id, ends);
}
