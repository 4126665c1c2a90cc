//! Sessions of agents: their first heartbeat, their launch, and their end with everything that
//! hangs on it (spec 03, 04). The next session of the same name is `recovery`'s.

use crate::agent::{Agent, DelegationOptions, HeldGrant, Hosting, LostRun, is_command};
use crate::assignment::AssignmentStatus;
use crate::brief::{SPAWN_TOOL, Usage};
use crate::error::{ErrorCode, Refusal};
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, Principal, RunId};
use crate::ledger::{EventKind, Record, Seal};
use crate::limits::PROFILES_TOLD_MAX;
use crate::liveness::Liveness;
use crate::mail::{Alert, Duty, Launch, MailBody, SessionOrder};
use crate::role::{Parenthood, Role, parenthood};
use crate::run::{Run, RunEvent, RunState, RunStatus};
use crate::step::Draft;

use super::{affording, conversing, overseeing, plans, questions, settling, stopping, verbs};

/// Moves an agent's session, when the table allows it.
pub(super) fn move_session(draft: &mut Draft<'_>, id: &AgentId, to: Liveness, why: &str) -> bool {
    let Some(mut agent) = draft.agent(id).cloned() else { return false };
    let from = agent.liveness;
    if from.to(to).is_err() {
        return false;
    }
    agent.liveness = to;
    why.clone_into(&mut agent.reason);
    agent.since = draft.now;
    if matches!(to, Liveness::Offline | Liveness::Terminated) {
        agent.ending = None;
        verbs::session_over(draft, &mut agent);
    }
    draft.put(Record::Agent(Box::new(agent)));
    let reason = format!("{from} -> {to}: {why}");
    draft.event(EventKind::AgentLiveness, "04 The five states", reason).agent = Some(id.clone());
    true
}

/// The first heartbeat of a session: it is active, its run is running, its dispatch consumed.
pub(super) fn first_heartbeat(draft: &mut Draft<'_>, id: &AgentId) {
    let waiting = draft.agent(id).is_some_and(|agent| agent.liveness == Liveness::Register);
    if !waiting || !move_session(draft, id, Liveness::Active, "first heartbeat") {
        return;
    }
    let work = draft.agent(id).and_then(|agent| agent.work.clone());
    let Some(work) = work else { return };
    // A refusal means that a stop or a loss came first, which then stands.
    let _stands = move_run(draft, work.run, RunEvent::SpawnSucceeded, "its process is up");
    overseeing::consumed(draft, work.assignment);
    if let Some(assignment) = draft.assignment(work.assignment).cloned() {
        plans::move_assignment(draft, assignment, AssignmentStatus::Active, "its run is running");
    }
    verbs::pause_again(draft, id);
}

/// Moves a run.
///
/// # Errors
/// No such run, or a pair that is not in the table.
pub(super) fn move_run(
    draft: &mut Draft<'_>,
    id: RunId,
    event: RunEvent,
    why: &str,
) -> Result<RunState, Refusal> {
    let Some(mut status) = draft.run_status(id).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("run {id} was not found")));
    };
    let from = status.state;
    status
        .apply(event, draft.now)
        .map_err(|error| Refusal::new(ErrorCode::InvalidRequest, error.to_string()))?;
    let (to, agent) = (status.state, status.agent.clone());
    draft.put(Record::RunStatus(Box::new(status)));
    let reason = format!("{from} -> {to} on {event}: {why}");
    let noted = draft.event(EventKind::RunState, "06 The run's state machine", reason);
    noted.run = Some(id);
    noted.agent = Some(agent);
    Ok(to)
}

/// Ends a run whose session is over without a result; what it is known to have used is charged, the
/// rest when its journal is read. One that has ended before stays as it ended.
pub(super) fn lose_run(draft: &mut Draft<'_>, id: &AgentId, run: RunId, why: &str) {
    if move_run(draft, run, RunEvent::HeartbeatLost, why).is_err() {
        return;
    }
    if let Some(usage) = draft.run_status(run).map(|status| status.usage) {
        charge(draft, id, usage);
        settling::owe(draft, id, LostRun { run, charged: usage.spend() });
    }
}

/// Books what a run used.
pub(super) fn charge(draft: &mut Draft<'_>, id: &AgentId, usage: Usage) {
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    agent.account.charge(usage.spend());
    draft.put(Record::Agent(Box::new(agent)));
}

/// Notes what people have to look at, and tells everybody's interaction orchestrator of it.
pub(super) fn alert(draft: &mut Draft<'_>, about: &AgentId, alert: Alert, rule: &str, text: &str) {
    let noted = draft.event(EventKind::Alert, rule, format!("{}: {text}", alert.as_str()));
    noted.agent = Some(about.clone());
    let people: Vec<AgentId> = draft.base().people().cloned().collect();
    for io in people {
        let body = MailBody::Alert { alert, text: text.to_owned() };
        draft.mail(Principal::Agent(io), None, body);
    }
}

/// Gives a run its first state: queued, and granted its slot at once, since the governor has
/// just given it one.
pub(super) fn put_run(draft: &mut Draft<'_>, run: Run) {
    let (id, agent) = (run.id, run.agent.clone());
    draft.put(Record::RunStatus(Box::new(RunStatus {
        id,
        agent,
        state: RunState::Queued,
        cancel_kept: false,
        dropped: false,
        since: draft.now,
        reminded: None,
        usage: Usage::default(),
        result: None,
        archive: None,
    })));
    draft.put(Record::Run(Box::new(run)));
    let _granted = move_run(draft, id, RunEvent::SlotGranted, "admitted");
}

/// Orders an agent's current session to be started where it is placed, its cursor sealed.
pub(super) fn launch(draft: &mut Draft<'_>, id: &AgentId, ends: Option<RunId>) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let (Some(session), Some(parent)) = (agent.session, agent.parent.clone()) else { return };
    overseeing::launched(draft, &agent);
    let run = agent.work.as_ref().map(|work| work.run);
    draft.seal(Seal { agent: id.clone(), session, epoch: agent.epoch, run, ends, blames: false });
    let (Some(placement), Some(duty)) = (agent.placement.clone(), duty(draft, &agent)) else {
        return;
    };
    let order = Launch {
        agent: id.clone(),
        session,
        epoch: agent.epoch,
        host_epoch: placement.host_epoch,
        parent,
        project: agent.project.clone(),
        depth: agent.depth,
        delegation: delegation(draft, &agent),
        duty,
    };
    let to = Principal::Agent(AgentId::Ho(placement.host));
    let epic = agent.work.map(|work| work.epic);
    draft.mail(to, epic, MailBody::Launch(Box::new(order)));
}

/// What an agent is told of delegating that may ask for agents and has the tool for it. Commands of plans are no
/// profiles to choose from.
fn delegation(draft: &Draft<'_>, agent: &Agent) -> Option<DelegationOptions> {
    let asks = agent.work.is_some() && agent.tools.has(SPAWN_TOOL);
    if !asks || parenthood(Role::of(&agent.id), Role::Worker) == Parenthood::Never {
        return None;
    }
    let base = draft.base();
    let project = base.projects.get(agent.project.as_ref()?)?;
    let profiles = base.profiles.iter();
    let profiles =
        profiles.filter(|((of, name), _)| *of == project.name && !is_command(name.as_str()));
    let profiles = profiles.map(|((_, name), profile)| (name.to_string(), profile.purpose()));
    Some(DelegationOptions {
        mode: conversing::mode_of(draft, agent),
        profiles: profiles.take(PROFILES_TOLD_MAX).collect(),
    })
}

fn duty(draft: &Draft<'_>, agent: &Agent) -> Option<Duty> {
    match &agent.id {
        AgentId::Po(project) => {
            let open = |epic: &EpicId| {
                let state = draft.goal_state(*epic);
                state.is_some_and(|state| {
                    matches!(state.status, GoalStatus::Active | GoalStatus::Paused)
                        || (state.status == GoalStatus::Completed && state.result.is_none())
                })
            };
            let goals = draft.base().goals.values();
            let epics = goals.filter(|goal| goal.project == *project).map(|goal| goal.id);
            Some(Duty::Project(epics.filter(open).collect()))
        }
        AgentId::Io(human) => Some(Duty::Human(human.clone())),
        AgentId::Specialist(..) | AgentId::Reviewer(..) | AgentId::Worker(_) => {
            let run = agent.work.as_ref()?.run;
            draft.run(run).cloned().map(Duty::Run)
        }
        AgentId::Go | AgentId::Ho(_) => None,
    }
}

/// Ends a session for good: children first, then the run and its attempt, the account is
/// settled, the slot released, the parent told.
pub(super) fn terminate(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    cancel_below(draft, id, why);
    let Some(agent) = draft.agent(id) else { return };
    if agent.liveness == Liveness::Terminated {
        return;
    }
    if agent.liveness.to(Liveness::Terminated).is_err() {
        return;
    }
    affording::forfeit(draft, id);
    questions::withdraw_of(draft, id, why);
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    let lost = settling::close(&mut agent);
    agent.verbs.paused_by = None;
    draft.put(Record::Agent(Box::new(agent.clone())));
    move_session(draft, id, Liveness::Terminated, why);
    release(draft, &agent, lost);
    if let (Some(parent), Some(session)) = (agent.parent, agent.session) {
        let epic = agent.work.map(|work| work.epic);
        let body = MailBody::AgentCompleted { agent: id.clone(), session, reason: why.to_owned() };
        draft.mail(Principal::Agent(parent.clone()), epic, body);
        stopping::go_on(draft, &parent, why);
    }
}

/// Ends the children of an agent that ends.
pub(super) fn cancel_below(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    for child in sub_agents(draft, id) {
        cancel(draft, &child, &format!("its parent ended: {why}"));
    }
}

/// An agent's children that hold its slots and are not terminated.
pub(super) fn sub_agents(draft: &Draft<'_>, id: &AgentId) -> Vec<AgentId> {
    let alive = |child: &&AgentId| {
        draft.agent(child).is_some_and(|child| child.liveness != Liveness::Terminated)
    };
    let children = draft.base().children_of(id).filter(|child| Role::of(child).takes_slot());
    children.filter(alive).cloned().collect()
}

/// Gives an agent's slot back to its parent, and its grant once all its runs are settled.
fn release(draft: &mut Draft<'_>, agent: &Agent, lost: Vec<LostRun>) {
    let Some(parent) = &agent.parent else { return };
    let Some(mut parent) = draft.agent(parent).cloned() else { return };
    let Some(at) = parent.slots.iter().position(|slot| slot.child == agent.id) else { return };
    let slot = parent.slots.remove(at);
    let held =
        HeldGrant { child: slot.child, grant: slot.grant, spent: agent.account.spent, runs: lost };
    settling::hold(&mut parent, held);
    draft.put(Record::Agent(Box::new(parent)));
}

/// Ends an agent that is not to go on: all below it first, then its process is killed, its work
/// abandoned.
pub(super) fn cancel(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    if agent.liveness == Liveness::Terminated {
        return;
    }
    cancel_below(draft, id, why);
    if let Some(work) = &agent.work {
        let unfinished =
            draft.run_status(work.run).is_some_and(|status| !status.state.is_terminal());
        if unfinished {
            lose_run(draft, id, work.run, why);
            if let Some(run) = draft.run(work.run).cloned() {
                plans::abandon(draft, &run, why);
            }
        }
    }
    kill(draft, &agent, why);
    terminate(draft, id, why);
}

/// Keeps in mind that a person ended an external agent for good, also one that had ended before: it does not come back
/// by itself (spec 09, On the bus).
pub(super) fn retired(draft: &mut Draft<'_>, id: &AgentId) {
    let external = |agent: &&Agent| agent.hosting == Hosting::External && !agent.retired;
    let Some(agent) = draft.agent(id).filter(external).cloned() else { return };
    draft.put(Record::Agent(Box::new(Agent { retired: true, ..agent })));
}

/// Asks a hosted session to reach a boundary and end.
pub(super) fn rotate(draft: &mut Draft<'_>, agent: &Agent, why: &str) {
    let Some(placement) = &agent.placement else { return };
    let to = Principal::Agent(AgentId::Ho(placement.host.clone()));
    draft.mail(to, None, MailBody::Rotate(order(agent, why)));
}

/// Which session an order is about, and why it is given.
pub(super) fn order(agent: &Agent, why: &str) -> SessionOrder {
    SessionOrder {
        agent: agent.id.clone(),
        session: agent.session,
        epoch: agent.epoch,
        host_epoch: agent.placement.as_ref().map_or(0, |placement| placement.host_epoch),
        reason: why.to_owned(),
    }
}

/// Orders a session's processes to be killed; an external agent is told that it is over.
pub(super) fn kill(draft: &mut Draft<'_>, agent: &Agent, why: &str) {
    let order = order(agent, why);
    match (&agent.hosting, &agent.placement) {
        (Hosting::Hosted, Some(placement)) => {
            let to = Principal::Agent(AgentId::Ho(placement.host.clone()));
            draft.mail(to, None, MailBody::Kill(order));
        }
        (Hosting::External, _) => {
            let to = Principal::Agent(agent.id.clone());
            draft.mail(to, None, MailBody::Superseded(order));
        }
        (Hosting::Hosted, None) | (Hosting::Owner, _) => {}
    }
}
