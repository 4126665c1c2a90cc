//! Sessions whose process may still be there and has to end before the next session of the same
//! name starts (spec 04, Crash recovery, step 4): the order to end, and what follows when the host
//! says that it did.

use crate::agent::Ending;
use crate::id::AgentId;
use crate::intensity::FailureCause;
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::step::Draft;

use super::hosts::on_live_host;
use super::{Policy, circuits, recovery, sessions};

/// Orders a hosted session to end; when its host says that the process is gone, the agent goes on
/// in its next session. The agent's record keeps what for, and by when the host has to have said
/// it. Where no process can be any more, the next session follows at once. Of two orders the first
/// stands, but one to rotate gives way to a kill.
pub(super) fn replace_when_gone(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    cause: FailureCause,
    why: &str,
) {
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    let ordered = agent.ending.as_ref().map(|ending| ending.cause);
    if ordered.is_some_and(|first| first != FailureCause::Rotated || cause == first) {
        return;
    }
    match agent.liveness {
        Liveness::Register | Liveness::Active | Liveness::Stale => {}
        Liveness::Offline => return recovery::recover_one(draft, id, why),
        Liveness::Terminated => return,
    }
    if !on_live_host(draft, &agent) {
        return next(draft, policy, id, cause, why);
    }
    let until = draft.now + policy.ending();
    agent.ending = Some(Ending { cause, reason: why.to_owned(), until });
    draft.put(Record::Agent(Box::new(agent.clone())));
    let reason = format!("{}: {why}", cause.as_str());
    draft.event(EventKind::AgentEnding, "04 Crash recovery", reason).agent = Some(id.clone());
    if cause == FailureCause::Rotated {
        sessions::rotate(draft, &agent, why);
    } else {
        sessions::kill(draft, &agent, why);
    }
}

/// A session's process is gone. False when it was not ordered to end for a next one.
pub(super) fn gone(draft: &mut Draft<'_>, policy: &Policy, id: &AgentId) -> bool {
    let Some(ending) = draft.agent(id).and_then(|agent| agent.ending.clone()) else { return false };
    next(draft, policy, id, ending.cause, &ending.reason);
    true
}

/// The next session, unless the failure that this was is one too many.
fn next(draft: &mut Draft<'_>, policy: &Policy, id: &AgentId, cause: FailureCause, why: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    if !cause.is_charged() || circuits::charge(draft, policy.intensity, &agent, why) {
        recovery::recover_one(draft, id, why);
        if cause.is_charged() {
            draft.blame(id);
        }
    } else {
        recovery::hold(draft, id, why);
    }
}
