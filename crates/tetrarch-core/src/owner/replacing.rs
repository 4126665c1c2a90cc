//! `op.agent.replace` and `op.agent.rotate` (spec 04): an agent's parent, or a human, wants its
//! next session, or gives it up. What the owner finds out by itself is in `recovery`.

use crate::agent::{Agent, Hosting};
use crate::brief::Outcome;
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal, SessionId};
use crate::intensity::FailureCause;
use crate::limits::TEXT_BYTES_MAX;
use crate::liveness::Liveness;
use crate::request::Request;
use crate::step::Draft;

use super::{Policy, ending, fit, recovery, sessions, stopping};

/// Replaces the named session, or gives its agent up; says what came of it so far. Where a process
/// may live it is killed, and the next session starts when its host says that it is gone.
pub(super) fn replace(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    id: &AgentId,
    (session, give_up): (SessionId, bool),
    reason: &str,
) -> Result<String, Refusal> {
    authorize(draft, request, id)?;
    let agent = known(draft, id)?;
    if agent.session != Some(session) {
        if agent.epoch > 1 {
            return Ok(so_far(draft, id));
        }
        let detail = format!(
            "{session} is not a session of {id}; `tetrarch describe {id}` shows its session"
        );
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    }
    if agent.liveness == Liveness::Terminated {
        return Err(ended(&agent));
    }
    let why = why(reason, "a replacement was asked for");
    if give_up {
        surrender(draft, &agent, &why)?;
        return Ok(so_far(draft, id));
    }
    hosted(&agent)?;
    not_stopping(draft, &agent)?;
    ending::replace_when_gone(draft, policy, id, FailureCause::Stopped, &why);
    Ok(so_far(draft, id))
}

/// Has an agent's session end at a boundary; its next one goes on from the last checkpoint.
/// Says what came of it so far.
pub(super) fn rotate(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    id: &AgentId,
    reason: &str,
) -> Result<String, Refusal> {
    authorize(draft, request, id)?;
    let agent = known(draft, id)?;
    hosted(&agent)?;
    match agent.liveness {
        Liveness::Active | Liveness::Stale => {}
        Liveness::Terminated => return Err(ended(&agent)),
        Liveness::Register => {
            let detail = format!("{id} is starting; rotate it when it is active");
            return Err(Refusal::new(ErrorCode::Conflict, detail));
        }
        Liveness::Offline => {
            let detail = format!(
                "{id} is offline and cannot write a checkpoint; it continues when a host has room"
            );
            return Err(Refusal::new(ErrorCode::Conflict, detail));
        }
    }
    not_stopping(draft, &agent)?;
    let why = why(reason, "a rotation was asked for");
    ending::replace_when_gone(draft, policy, id, FailureCause::Rotated, &why);
    Ok(so_far(draft, id))
}

/// An agent's sessions are for those above it and for humans.
pub(super) fn authorize(draft: &Draft<'_>, request: &Request, id: &AgentId) -> Result<(), Refusal> {
    let Principal::Agent(sender) = &request.sender.from else { return Ok(()) };
    super::current(draft, &request.sender)?;
    let above = |id: &AgentId| draft.agent(id).and_then(|agent| agent.parent.as_ref());
    let mut next = above(id);
    while let Some(ancestor) = next {
        if ancestor == sender {
            return Ok(());
        }
        next = above(ancestor);
    }
    let detail =
        format!("{sender} is not an ancestor of {id}; only its parent or a human may request this");
    Err(Refusal::new(ErrorCode::Unauthorized, detail))
}

/// What came of it so far, in words.
fn so_far(draft: &Draft<'_>, id: &AgentId) -> String {
    let Some(agent) = draft.agent(id) else { return String::new() };
    match (&agent.ending, agent.liveness) {
        (Some(_), _) => "its process ends first; then its next session starts".to_owned(),
        (None, Liveness::Offline) => {
            "no host has room now; its next session starts when one has".to_owned()
        }
        (None, _) => agent.reason.clone(),
    }
}

fn why(reason: &str, otherwise: &str) -> String {
    let reason = if reason.is_empty() { otherwise } else { reason };
    fit::Room::of(TEXT_BYTES_MAX).text(reason, usize::MAX)
}

pub(super) fn known(draft: &Draft<'_>, id: &AgentId) -> Result<Agent, Refusal> {
    let known = draft.agent(id).cloned();
    known.ok_or_else(|| {
        Refusal::new(
            ErrorCode::NotFound,
            format!("agent {id} was not found; `tetrarch agent list` lists all"),
        )
    })
}

pub(super) fn ended(agent: &Agent) -> Refusal {
    let detail = format!("{} has ended: {}; spawn another", agent.id, agent.reason);
    Refusal::new(ErrorCode::Conflict, detail)
}

/// Whether it has sessions that a host runs.
fn hosted(agent: &Agent) -> Result<(), Refusal> {
    let id = &agent.id;
    let detail = match (agent.hosting, id) {
        (Hosting::Owner, _) | (_, AgentId::Ho(_)) => {
            format!("{id} ends with its process; restart that process")
        }
        (Hosting::External, _) => {
            format!("{id} is an external agent; it starts its next session by registering")
        }
        (Hosting::Hosted, _) => return Ok(()),
    };
    Err(Refusal::new(ErrorCode::InvalidRequest, detail))
}

/// A run that is asked to stop is given up, never replaced (spec 04).
fn not_stopping(draft: &Draft<'_>, agent: &Agent) -> Result<(), Refusal> {
    if !agent.work.as_ref().is_some_and(|work| stopping::is_asked_for(draft, work.run)) {
        return Ok(());
    }
    let detail = format!("{} is being stopped; to end it at once, use --give-up", agent.id);
    Err(Refusal::new(ErrorCode::Conflict, detail))
}

/// Ends an agent's attempt as failed; what follows is its plan's. Its children are cancelled.
pub(super) fn surrender(draft: &mut Draft<'_>, agent: &Agent, why: &str) -> Result<(), Refusal> {
    if agent.work.is_none() {
        let detail = format!(
            "{} has no attempt to give up; `tetrarch agent retire {}` ends it",
            agent.id, agent.id
        );
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    if agent.liveness != Liveness::Offline {
        sessions::kill(draft, agent, why);
    }
    // Trying again would undo a stop.
    let stopping = not_stopping(draft, agent).is_err();
    let outcome = if stopping { Outcome::Cancelled } else { Outcome::Failure };
    recovery::give_up(draft, &agent.id, outcome, &format!("given up: {why}"));
    Ok(())
}
