//! A stop asked of an agent is one of everything below it, children first (spec 06, The three
//! verbs): each is told when nothing below it runs any more, and all of it is over within one drain
//! and kill budget, which `deadlines` watches. How a host ends a process is the runner's.

use crate::brief::Outcome;
use crate::id::{AgentId, Principal, RunId};
use crate::ledger::Record;
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::run::{RunEvent, RunState, RunStatus};
use crate::step::Draft;

use super::hosts::on_live_host;
use super::{recovery, sessions};

/// Who asks for a stop, which says what becomes of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopper {
    /// A person, or whoever ends the goal: the plan says what becomes of it.
    Plan,
    /// An agent above it: nobody wants it any more.
    Above,
}

/// Asks an agent that executes a run, and all below it, to come to a safe end. Of two stops the first says what becomes
/// of the work.
pub(super) fn stop(draft: &mut Draft<'_>, id: &AgentId, by: Stopper, why: &str) {
    stop_below(draft, id, by, why);
    let Some(work) = draft.agent(id).and_then(|agent| agent.work.clone()) else { return };
    if is_asked_for(draft, work.run) {
        return;
    }
    // One that has ended needs no stop.
    if sessions::move_run(draft, work.run, RunEvent::CancelRequested, why).is_err() {
        return;
    }
    let status = draft.run_status(work.run).filter(|_| by == Stopper::Above).cloned();
    if let Some(status) = status {
        draft.put(Record::RunStatus(Box::new(RunStatus { dropped: true, ..status })));
    }
    go_on(draft, id, why);
}

/// Asks all below an agent to come to a safe end.
pub(super) fn stop_below(draft: &mut Draft<'_>, id: &AgentId, by: Stopper, why: &str) {
    for child in sessions::sub_agents(draft, id) {
        stop(draft, &child, by, why);
    }
}

/// Whether a stop of a run was asked for and it has not ended yet.
pub(super) fn is_asked_for(draft: &Draft<'_>, run: RunId) -> bool {
    draft
        .run_status(run)
        .is_some_and(|status| status.cancel_kept || status.state == RunState::Cancelling)
}

/// Tells an agent that is to stop, once nothing below it runs any more. One whose host is gone is
/// given up at once: nobody would hear it.
pub(super) fn go_on(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let Some(work) = &agent.work else { return };
    if agent.liveness == Liveness::Terminated
        || !is_asked_for(draft, work.run)
        || !sessions::sub_agents(draft, id).is_empty()
    {
        return;
    }
    if agent.liveness == Liveness::Offline || !on_live_host(draft, &agent) {
        recovery::give_up(draft, id, Outcome::Cancelled, why);
        return;
    }
    let order = sessions::order(&agent, why);
    draft.mail(Principal::Agent(id.clone()), Some(work.epic), MailBody::Stop(order));
}
