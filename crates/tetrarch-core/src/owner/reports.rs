//! Reports of agents and their hosts: a session is up, a run moved or ended, a process is gone
//! (spec 02, 06). A report that comes twice finds the state it made and changes nothing, so
//! reports need no decision records.

use crate::agent::Hosting;
use crate::brief::{Outcome, RunResult, Usage};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal, RequestId, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::TEXT_BYTES_MAX;
use crate::liveness::Liveness;
use crate::mail::{MailBody, ResultReady, SessionOrder};
use crate::request::{HOST_RESTART, Report, Request};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::step::Draft;

use super::stopping::{self, Stopper};
use super::{
    Policy, changes, circuits, conversing, ending, fit, overseeing, plans, post, questions,
    recovery, sessions, spending, verbs,
};

/// Decides on a report.
pub(super) fn report(draft: &mut Draft<'_>, policy: &Policy, request: &Request, report: &Report) {
    let outcome = match super::current(draft, &request.sender) {
        Ok(agent) => {
            let id = agent.id.clone();
            apply(draft, policy, &id, report)
        }
        Err(refusal) => Err(refusal),
    };
    let Err(refusal) = outcome else { return };
    if said_already(draft, request, report) {
        return;
    }
    let event = draft.event(
        EventKind::Refused,
        "02 Subjects",
        format!("report {}: {refusal}", report.kind()),
    );
    event.agent = request.sender.from.agent().cloned();
    if refusal.code == ErrorCode::Superseded {
        supersede(draft, request, &refusal);
    }
}

/// Whether a host says of a session that has ended that its process is gone: it was ordered to kill
/// it, and is not to be told of that again.
fn said_already(draft: &Draft<'_>, request: &Request, report: &Report) -> bool {
    let agent = request.sender.from.agent().and_then(|id| draft.agent(id));
    let ended = agent.is_some_and(|agent| {
        agent.liveness == Liveness::Terminated || agent.epoch > request.sender.epoch
    });
    matches!(report, Report::Gone { .. }) && ended
}

/// Tells a session that it is not the current one: its HO, or the external agent itself.
fn supersede(draft: &mut Draft<'_>, request: &Request, refusal: &Refusal) {
    let Some(agent) = request.sender.from.agent() else { return };
    let order = SessionOrder {
        agent: agent.clone(),
        session: request.sender.session,
        epoch: request.sender.epoch,
        host_epoch: 0,
        reason: refusal.detail.clone(),
    };
    let to = match &request.sender.via {
        Some(host) => AgentId::Ho(host.clone()),
        None => agent.clone(),
    };
    draft.mail(Principal::Agent(to), None, MailBody::Superseded(order));
}

fn apply(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    report: &Report,
) -> Result<(), Refusal> {
    match report {
        Report::Ready => {
            sessions::first_heartbeat(draft, id);
            conversing::remind(draft, id);
            Ok(())
        }
        Report::Gone { cause } => {
            gone(draft, policy, id, &short(cause));
            Ok(())
        }
        Report::Crashed { cause } => {
            crashed(draft, policy, id, &short(cause));
            Ok(())
        }
        Report::Run { run, event, reason, usage } => {
            moved(draft, id, *run, *event, &short(reason), *usage)
        }
        Report::Result { run: Some(run), result, .. } => {
            ended(draft, policy, id, *run, &fit::result(result))
        }
        Report::Result { run: None, epic: Some(epic), result } => {
            plans::book_goal_result(draft, *epic, id, &fit::result(result))
        }
        Report::Result { run: None, epic: None, .. } => {
            Err(Refusal::new(ErrorCode::InvalidRequest, "a result must name its run or its goal"))
        }
        Report::Ask { run, id: question, question: text, options } => {
            own_run(draft, id, *run)?;
            questions::ask(draft, id, *run, *question, text, options)
        }
        Report::Consumed { run, dispatch } => {
            own_run(draft, id, *run)?;
            overseeing::arrived(draft, id, *dispatch);
            Ok(())
        }
        Report::Update { run, dispatch, update, expected } => {
            own_run(draft, id, *run)?;
            overseeing::update(draft, policy, id, (*dispatch, *expected), update)
        }
        Report::Verb { run, id: verb_id, verb, stage, why } => {
            own_run(draft, id, *run)?;
            verbs::receipt(draft, id, *run, (*verb_id, *verb, *stage), why);
            Ok(())
        }
        Report::SetAside(letter) => {
            post::reported_set_aside(draft, id, letter);
            Ok(())
        }
        Report::Change { run, made } => {
            own_run(draft, id, *run)?;
            changes::propose(draft, policy, id, *run, made)
        }
        Report::Settled { change, outcome } => changes::settled(draft, id, *change, outcome),
        Report::Draw { run, total } => {
            own_run(draft, id, *run)?;
            spending::draw(draft, id, *total)
        }
        Report::BudgetWarning { run, counter, used, limit } => {
            own_run(draft, id, *run)?;
            spending::warn(draft, id, *counter, *used, *limit);
            Ok(())
        }
        Report::SponsorSilent { request, sponsor } => sponsor_silent(draft, id, *request, sponsor),
    }
}

/// A specialist's sponsor is its project's orchestrator (spec 03).
fn sponsor_silent(
    draft: &mut Draft<'_>,
    id: &AgentId,
    request: RequestId,
    sponsor: &AgentId,
) -> Result<(), Refusal> {
    let project = draft.agent(id).and_then(|agent| agent.project.clone());
    if Role::of(id) != Role::Specialist || project.map(AgentId::Po).as_ref() != Some(sponsor) {
        let detail = format!("{sponsor} is not the sponsor of {id}");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let reason = format!("{sponsor} did not answer {request}");
    let event = draft.event(EventKind::Alert, "03 Specialists escalate", reason);
    event.agent = Some(id.clone());
    let (agent, sponsor) = (id.clone(), sponsor.clone());
    let body = MailBody::SponsorSilent { agent, sponsor: sponsor.clone(), request };
    draft.mail(Principal::Agent(sponsor), None, body);
    Ok(())
}

fn short(text: &str) -> String {
    fit::Room::of(TEXT_BYTES_MAX).text(text, usize::MAX)
}

/// A run moved, but did not end: that is what a result is for.
fn moved(
    draft: &mut Draft<'_>,
    id: &AgentId,
    run: RunId,
    event: RunEvent,
    reason: &str,
    usage: Usage,
) -> Result<(), Refusal> {
    own_run(draft, id, run)?;
    match event {
        // The owner asked for it, or it came twice.
        RunEvent::CancelRequested if stopping::is_asked_for(draft, run) => return Ok(()),
        RunEvent::InputNeeded
        | RunEvent::InputReceived
        | RunEvent::ExternalBlocked
        | RunEvent::Unblocked
        | RunEvent::UserPaused
        | RunEvent::Resumed
        | RunEvent::CompactionStarted
        | RunEvent::CompactionEnded
        | RunEvent::CancelRequested => {}
        RunEvent::SlotGranted
        | RunEvent::SpawnSucceeded
        | RunEvent::SpawnFailed
        | RunEvent::DrainedDone
        | RunEvent::DrainedFailed
        | RunEvent::Completed
        | RunEvent::Failed
        | RunEvent::HeartbeatLost => {
            let detail =
                format!("{event} cannot be reported as a state change; report `ready` or `result`");
            return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
        }
    }
    if let Some(mut status) = draft.run_status(run).cloned() {
        status.usage = status.usage.max(usage);
        draft.put(Record::RunStatus(Box::new(status)));
    }
    sessions::move_run(draft, run, event, reason)?;
    if event == RunEvent::InputReceived {
        questions::withdraw_of(draft, id, "it was answered by mail");
    }
    if event == RunEvent::CancelRequested {
        stopping::stop_below(draft, id, Stopper::Plan, reason);
    }
    Ok(())
}

fn own_run(draft: &Draft<'_>, id: &AgentId, run: RunId) -> Result<(), Refusal> {
    let own = draft.agent(id).and_then(|agent| agent.work.as_ref()).map(|work| work.run);
    if own == Some(run) {
        return Ok(());
    }
    Err(Refusal::new(ErrorCode::NotFound, format!("{run} is not the current run of {id}")))
}

/// A run ended: its attempt, its node, its session; the parent gets the result.
fn ended(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    run: RunId,
    result: &RunResult,
) -> Result<(), Refusal> {
    own_run(draft, id, run)?;
    end(draft, policy, id, run, result)
}

/// Ends an agent's run with this result, and the agent with it. Its process is gone, or ordered to
/// be killed.
pub(super) fn end(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    run: RunId,
    result: &RunResult,
) -> Result<(), Refusal> {
    let Some(run) = draft.run(run).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("run {run} was not found")));
    };
    let succeeded = result.outcome == Outcome::Success;
    let status = draft.run_status(run.id);
    let stopping = stopping::is_asked_for(draft, run.id);
    let spawning = status.is_some_and(|status| status.state == RunState::Spawning);
    if spawning && !succeeded {
        sessions::move_run(draft, run.id, RunEvent::SpawnFailed, &result.error)?;
        if let Some(agent) = draft.agent(id).cloned() {
            // Whatever it leads to, this attempt is over.
            circuits::charge(draft, policy.intensity, &agent, &result.error);
        }
    } else {
        end_run(draft, id, run.id, result, succeeded)?;
    }
    if let Some(mut status) = draft.run_status(run.id).cloned() {
        status.usage = status.usage.max(result.usage);
        status.result = Some(result.clone());
        sessions::charge(draft, id, status.usage);
        draft.put(Record::RunStatus(Box::new(status)));
    }
    // Whatever a stopped program says of itself, trying again would undo the stop; one that its host
    // stopped since its grant is used up says so.
    let kept = succeeded || result.outcome == Outcome::BudgetExceeded;
    let outcome = if stopping && !kept { Outcome::Cancelled } else { result.outcome };
    plans::end_attempt(draft, &run, &RunResult { outcome, ..result.clone() });
    if let Some(parent) = draft.agent(id).and_then(|agent| agent.parent.clone()) {
        let ready = ResultReady {
            agent: id.clone(),
            node: run.node,
            run: run.id,
            result: result.clone(),
            verdict: result.verdict.clone(),
        };
        draft.mail(
            Principal::Agent(parent),
            Some(run.epic),
            MailBody::ResultReady(Box::new(ready)),
        );
    }
    sessions::terminate(draft, id, &format!("its run ended: {}", result.outcome));
    plans::settle(draft, run.epic);
    Ok(())
}

/// Ends a run whose program came up.
fn end_run(
    draft: &mut Draft<'_>,
    id: &AgentId,
    run: RunId,
    result: &RunResult,
    succeeded: bool,
) -> Result<(), Refusal> {
    if succeeded {
        // The program was faster than the report of being up.
        sessions::first_heartbeat(draft, id);
    }
    leave_waiting(draft, run)?;
    let cancelling =
        draft.run_status(run).is_some_and(|status| status.state == RunState::Cancelling);
    let event = match (cancelling, succeeded) {
        (true, true) => RunEvent::DrainedDone,
        (true, false) => RunEvent::DrainedFailed,
        (false, true) => RunEvent::Completed,
        (false, false) => RunEvent::Failed,
    };
    let why = if result.error.is_empty() { result.outcome.as_str() } else { &result.error };
    sessions::move_run(draft, run, event, &short(why)).map(drop)
}

/// A run that ends while it waits has stopped waiting first: the table has no other way.
fn leave_waiting(draft: &mut Draft<'_>, run: RunId) -> Result<(), Refusal> {
    let event = match draft.run_status(run).map(|status| status.state) {
        Some(RunState::AwaitingInput) => RunEvent::InputReceived,
        Some(RunState::Blocked) => RunEvent::Unblocked,
        Some(RunState::PausedByUser) => RunEvent::Resumed,
        Some(RunState::Compacting) => RunEvent::CompactionEnded,
        Some(RunState::Spawning) => RunEvent::SpawnSucceeded,
        Some(
            RunState::Queued
            | RunState::Running
            | RunState::Cancelling
            | RunState::Done
            | RunState::Failed
            | RunState::Orphaned,
        )
        | None => return Ok(()),
    };
    sessions::move_run(draft, run, event, "it ended").map(drop)
}

/// A process that is gone on purpose. A host orchestrator's end strands its agents.
fn gone(draft: &mut Draft<'_>, policy: &Policy, id: &AgentId, cause: &str) {
    if let AgentId::Ho(host) = id {
        draft.event(EventKind::HostLeft, "04 Hosts", cause.to_owned()).agent = Some(id.clone());
        sessions::move_session(draft, id, Liveness::Terminated, cause);
        recovery::recover_host(draft, host, cause);
        return;
    }
    let Some(agent) = draft.agent(id) else { return };
    if agent.hosting == Hosting::Hosted && agent.liveness == Liveness::Offline {
        // That it has no process is known: it waits for a host.
        return;
    }
    if !ending::gone(draft, policy, id) {
        sessions::cancel(draft, id, cause);
    }
}

/// A process that died without a result goes on in its next session, unless a stop had been asked
/// for. The attempt of an external agent has failed; without one it has to register again.
fn crashed(draft: &mut Draft<'_>, policy: &Policy, id: &AgentId, cause: &str) {
    if Role::of(id) == Role::Host {
        gone(draft, policy, id, cause);
        return;
    }
    let Some(agent) = draft.agent(id).cloned() else { return };
    match (agent.hosting, &agent.work) {
        (Hosting::Hosted, _) => {
            recovery::tell_parent(draft, id, true, cause);
            let stopped =
                agent.work.as_ref().is_some_and(|work| stopping::is_asked_for(draft, work.run));
            let charged = cause != HOST_RESTART && !stopped;
            if !charged || circuits::charge(draft, policy.intensity, &agent, cause) {
                recovery::recover_one(draft, id, cause);
                if charged {
                    draft.blame(id);
                }
            } else {
                recovery::hold(draft, id, cause);
            }
        }
        (Hosting::External, Some(_)) => {
            recovery::tell_parent(draft, id, true, cause);
            recovery::give_up(draft, id, Outcome::Failure, &format!("crashed: {cause}"));
        }
        (Hosting::External, None) => drop(recovery::strand(draft, id, cause)),
        (Hosting::Owner, _) => {}
    }
}
