//! Steer, interrupt, pause and resume (spec 06, The three verbs): who may ask, of which run, what
//! is sent, and what its receipts lead to. A stop is `stopping`'s.

use crate::agent::{Agent, Hosting};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal, RequestId, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{INSTRUCTION_BYTES_MAX, TEXT_BYTES_MAX, VERB_WHY_BYTES, VERBS_KEPT};
use crate::liveness::Liveness;
use crate::mail::{MailBody, OpReply, VerbOrder};
use crate::request::Request;
use crate::request::verbs::VerbOp;
use crate::run::RunState;
use crate::step::Draft;
use crate::verb::{Command, Receipt, Stage, Verb, Wanted};

use super::{fit, replacing, sessions};

const RULE: &str = "06 The three verbs";

/// Commits a verb and sends it to the session that makes the agent's run.
///
/// # Errors
/// Not from above and no human, no words or too many, no such agent, no run that can be asked.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &VerbOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let id = &op.agent;
    replacing::authorize(draft, request, id)?;
    words(&op.wanted)?;
    let agent = replacing::known(draft, id)?;
    if agent.liveness == Liveness::Terminated {
        return Err(replacing::ended(&agent));
    }
    let (run, state) = run_of(draft, &agent)?;
    let verb = op.wanted.verb();
    standing(&agent, verb, state)?;
    let command =
        Command { id: request.id, by: request.sender.from.clone(), wanted: op.wanted.clone() };
    let goes_on = verb == Verb::Resume && !has_session(&agent);
    let (detail, data) = if goes_on {
        forget_pause(draft, agent);
        (format!("{id} has no process now; its next session is not paused"), None)
    } else {
        let data = format!("{{\"verb\":\"{}\",\"run\":\"{run}\"}}", command.id);
        queue(draft, agent, run, command);
        (format!("{} is queued for {id}", verb.as_str()), Some(data))
    };
    let agent = replacing::known(draft, id)?;
    Ok(OpReply {
        detail,
        data,
        agent: Some(id.clone()),
        session: agent.session,
        agent_epoch: Some(agent.epoch),
        liveness: Some(agent.liveness),
        ..reply
    })
}

/// The words of a verb, within their bounds.
fn words(wanted: &Wanted) -> Result<(), Refusal> {
    let refused = |detail| Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    match wanted {
        Wanted::Steer { text } if text.trim().is_empty() => {
            refused("text: it is empty; give an instruction".to_owned())
        }
        Wanted::Steer { text } if text.len() > INSTRUCTION_BYTES_MAX => {
            let size = text.len();
            refused(format!("text: {size} bytes; the limit is {INSTRUCTION_BYTES_MAX}"))
        }
        Wanted::Interrupt { reason } if reason.len() > TEXT_BYTES_MAX => {
            let size = reason.len();
            refused(format!("reason: {size} bytes; the limit is {TEXT_BYTES_MAX}"))
        }
        Wanted::Steer { .. } | Wanted::Interrupt { .. } | Wanted::Pause | Wanted::Resume => Ok(()),
    }
}

/// The run that an agent makes, and where it stands.
fn run_of(draft: &Draft<'_>, agent: &Agent) -> Result<(RunId, RunState), Refusal> {
    let id = &agent.id;
    let status = agent.work.as_ref().and_then(|work| draft.run_status(work.run));
    let Some(status) = status else {
        let detail = match agent.hosting {
            Hosting::Owner => format!("{id} is the control plane and has no run"),
            Hosting::Hosted | Hosting::External => format!(
                "{id} has no run; verbs are for agents with a run, `tetrarch goal pause <goal>` pauses a goal"
            ),
        };
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    };
    Ok((status.id, status.state))
}

/// Whether its session can be told something: it has a process and is not to end for its next.
fn has_session(agent: &Agent) -> bool {
    agent.has_process() && agent.ending.is_none()
}

/// Whether an agent's run may be asked for a verb as it stands.
fn standing(agent: &Agent, verb: Verb, state: RunState) -> Result<(), Refusal> {
    let id = &agent.id;
    let conflict = |detail| Err(Refusal::new(ErrorCode::Conflict, detail));
    let paused_by = agent.verbs.paused_by.as_ref();
    match (verb, paused_by) {
        (Verb::Pause, Some(by)) => return conflict(format!("{id} is already paused, by {by}")),
        // What was asked first is done first.
        (Verb::Resume, Some(_)) => {}
        (Verb::Resume, None) if state != RunState::PausedByUser => {
            return conflict(format!("{id} is not paused; its run is {state}"));
        }
        (Verb::Steer | Verb::Interrupt | Verb::Pause | Verb::Resume, _) => {
            if !has_session(agent) {
                let detail = match &agent.ending {
                    Some(ending) => format!("its session is to end: {}", ending.reason),
                    None => "no host runs it now".to_owned(),
                };
                return conflict(format!(
                    "{id} cannot be reached: {detail}; try again when it runs"
                ));
            }
            if !verb.fits(state) {
                let word = verb.as_str();
                return conflict(format!(
                    "the run of {id} is {state}; {word} is not possible in this state"
                ));
            }
        }
    }
    if agent.verbs.queued().count() >= VERBS_KEPT {
        let detail = format!("{VERBS_KEPT} verbs wait for the host of {id}; try again later");
        return Err(Refusal::new(ErrorCode::Unavailable, detail));
    }
    Ok(())
}

/// Commits a verb: its receipt, its event, its order to the session.
fn queue(draft: &mut Draft<'_>, mut agent: Agent, run: RunId, command: Command) {
    let (id, verb, by) = (command.id, command.wanted.verb(), command.by.clone());
    agent.verbs.keep(Receipt {
        id,
        verb,
        run,
        by: by.clone(),
        stage: Stage::Queued,
        queued: draft.now,
        delivered: None,
        ended: None,
        why: String::new(),
    });
    match verb {
        Verb::Pause => agent.verbs.paused_by = Some(by.clone()),
        Verb::Resume => agent.verbs.paused_by = None,
        Verb::Steer | Verb::Interrupt => {}
    }
    let said = fit::Room::of(TEXT_BYTES_MAX).text(command.wanted.text(), usize::MAX);
    let said = if said.is_empty() { format!("by {by}") } else { format!("by {by}: {said}") };
    note(draft, &agent.id, run, (id, verb, Stage::Queued), &said);
    let order =
        VerbOrder { agent: agent.id.clone(), session: agent.session, epoch: agent.epoch, command };
    let epic = agent.work.as_ref().map(|work| work.epic);
    draft.mail(Principal::Agent(agent.id.clone()), epic, MailBody::Verb(Box::new(order)));
    draft.put(Record::Agent(Box::new(agent)));
}

/// A pause of an agent without a process is over when it is said so.
fn forget_pause(draft: &mut Draft<'_>, mut agent: Agent) {
    agent.verbs.paused_by = None;
    let reason = "resume: it has no process now; its next session is not paused";
    draft.event(EventKind::AgentVerb, RULE, reason).agent = Some(agent.id.clone());
    draft.put(Record::Agent(Box::new(agent)));
}

fn note(
    draft: &mut Draft<'_>,
    agent: &AgentId,
    run: RunId,
    (id, verb, stage): (RequestId, Verb, Stage),
    said: &str,
) {
    let mut reason = format!("{} {id} {}", verb.as_str(), stage.as_str());
    if !said.is_empty() {
        reason.push(' ');
        reason.push_str(said);
    }
    let event = draft.event(EventKind::AgentVerb, RULE, reason);
    event.agent = Some(agent.clone());
    event.run = Some(run);
}

/// A receipt that an agent's host, or an external agent, reports of its run. One that comes twice
/// changes nothing; of a verb that is not kept only what it does to the run counts.
pub(super) fn receipt(
    draft: &mut Draft<'_>,
    id: &AgentId,
    run: RunId,
    (verb_id, verb, stage): (RequestId, Verb, Stage),
    why: &str,
) {
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    let why = fit::Room::of(VERB_WHY_BYTES).text(why, usize::MAX);
    if let Some(kept) = agent.verbs.of(verb_id) {
        if kept.verb != verb || !kept.reach(stage, draft.now, &why) {
            return;
        }
        if (verb, stage) == (Verb::Pause, Stage::Refused) {
            agent.verbs.paused_by = None;
        }
        draft.put(Record::Agent(Box::new(agent)));
    }
    let said = if why.is_empty() { String::new() } else { format!("because {why}") };
    note(draft, id, run, (verb_id, verb, stage), &said);
    let moves = verb.moves().filter(|_| stage == Stage::Effective);
    let state = draft.run_status(run).map(|status| status.state);
    if let (Some(event), Some(state)) = (moves, state)
        && state.on(event).is_ok()
    {
        // It was looked at just now.
        let _moved = sessions::move_run(draft, run, event, verb.as_str());
    }
}

/// What a session's host did not have when the session was over comes to nothing.
pub(super) fn session_over(draft: &mut Draft<'_>, agent: &mut Agent) {
    let why = "its session was over before it was delivered";
    let now = draft.now;
    let mut lost = Vec::new();
    for receipt in &mut agent.verbs.receipts {
        if receipt.stage == Stage::Queued && receipt.reach(Stage::Refused, now, why) {
            lost.push((receipt.run, (receipt.id, receipt.verb, Stage::Refused)));
        }
    }
    for (run, what) in lost {
        note(draft, &agent.id, run, what, &format!("because {why}"));
    }
}

/// A session that has just come up is paused when the one before it was: whoever paused the agent
/// has not said that it may go on.
pub(super) fn pause_again(draft: &mut Draft<'_>, id: &AgentId) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let Some(by) = agent.verbs.paused_by.clone() else { return };
    let Ok((run, RunState::Running)) = run_of(draft, &agent) else { return };
    let index = usize::try_from(agent.epoch).unwrap_or(usize::MAX);
    let seed = draft.seed(&run.to_string());
    let id = RequestId::derive(draft.now, &seed, "pause again", index);
    queue(draft, agent, run, Command { id, by, wanted: Wanted::Pause });
}
