//! The rungs of the recovery ladder (spec 05, The tick): what is written and sent for each.

use crate::assignment::{Assignment, AssignmentStatus, Recovery};
use crate::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use crate::id::{DispatchId, Principal, sha256_hex};
use crate::ledger::Record;
use crate::mail::{MailBody, StatusRequest};
use crate::overseer::Rung;
use crate::step::Draft;

use super::{conclude, escalating, holding, note, put, tell};
use crate::owner::{Policy, consulting, replacing};

/// What a status request says.
const STATUS: &str = "Say how it stands with one overseerUpdate: what changed since the last \
     instruction (summary), the next concrete action (next), what is needed to go on (blockers, with \
     status blocked). If you have finished: status done, with the evidence that shows it.";
/// What an agent is asked that says it has finished and shows nothing.
const EVIDENCE: &str = "You say that it is done and show nothing for it. Name the evidence in one \
     overseerUpdate: files touched, commands and tests run with their outcome, commits. If it is not \
     done: status in_progress, with the next concrete action.";

/// Does what a rung says. `words`: the last ones of the run's journal, for the planner.
pub(super) fn climb(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    rung: Rung,
    (why, words): (&str, &[String]),
) {
    match rung {
        Rung::Nudge => send(draft, policy, assignment, (AssignmentStatus::Stalled, STATUS), why),
        Rung::Resend => resend(draft, policy, assignment, AssignmentStatus::Stalled, why),
        Rung::Reassign => reassign(draft, &assignment, why),
        Rung::Replan => replan(draft, policy, &assignment, (why, words)),
        Rung::Escalate => escalating::escalate(draft, assignment, why),
    }
}

/// Has the planner asked how the node can be cut; the intent is written before anybody is.
fn replan(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: &Assignment,
    (why, words): (&str, &[String]),
) {
    conclude(draft, assignment, DispatchOutcome::Timeout);
    let asked = consulting::ask_to_split(draft, policy, assignment, (why, words));
    match asked {
        Some(Ok((dispatch, assignment))) => {
            note(draft, dispatch);
            put(draft, assignment, AssignmentStatus::Stalled, why);
        }
        Some(Err(why)) => after_replan(draft, policy, assignment.clone(), &why),
        None => {}
    }
}

/// The rung after the planner's, at once: asking it did not help. A person whose conversation has a turn at work is asked by
/// a tick, which does not ask the planner again.
pub(in crate::owner) fn after_replan(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    why: &str,
) {
    let (epic, node) = (assignment.epic, assignment.node);
    let attempts = draft.node_state(epic, node).map_or(u32::MAX, |state| state.attempts);
    let left = draft.node(epic, node).is_some_and(|node| attempts < node.max_attempts);
    let may = assignment.policy.reassign != Some(false);
    let rung = if left && may { Rung::Reassign } else { Rung::Escalate };
    let again = consulting::may_split(draft, policy, &assignment);
    if rung == Rung::Escalate && !again && holding::is_busy(draft, &assignment) {
        return;
    }
    tell(draft, &assignment, format!("{rung}: {why}"));
    climb(draft, policy, assignment, rung, (why, &[]));
}

/// Asks for what shows that it is done, unless it was just asked. A session launched since then does
/// not make the same words new.
pub(super) fn ask_evidence(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    why: &str,
) {
    let hash = sha256_hex(EVIDENCE.as_bytes());
    let is_same = |one: &Dispatch| one.hash == hash;
    let last = assignment.recovery.dispatch.and_then(|id| draft.dispatch(id));
    let same = last.is_some_and(is_same);
    let told = draft.base().dispatched_for(assignment.id).filter_map(|id| draft.dispatch(id));
    let told = told.filter(|one| one.mode == DispatchMode::Mail).max_by_key(|one| one.at);
    let least = assignment.policy.patience(&policy.overseer).min_resend_interval;
    let soon = assignment.recovery.last_retry.is_some_and(|sent| sent + least > draft.now);
    if soon && told.is_some_and(is_same) {
        return;
    }
    let status = assignment.status;
    let rung = if same && !assignment.recovery.consumed { Rung::Resend } else { Rung::Nudge };
    tell(draft, &assignment, format!("{rung}: {why}; evidence is asked for"));
    if rung == Rung::Resend {
        return resend(draft, policy, assignment, status, why);
    }
    send(draft, policy, assignment, (status, EVIDENCE), why);
}

/// Sends words to the session, under an id of their own.
fn send(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    (to, text): (AssignmentStatus, &str),
    why: &str,
) {
    conclude(draft, &assignment, DispatchOutcome::Timeout);
    let hash = sha256_hex(text.as_bytes());
    let label = format!("{} {hash}", assignment.recovery.retries);
    let dispatch = Dispatch {
        id: DispatchId::derive(draft.now, &assignment.id.to_string(), &label, 0),
        assignment: assignment.id,
        at: draft.now,
        mode: DispatchMode::Mail,
        rung: Some(Rung::Nudge),
        to: Principal::Agent(assignment.agent.clone()),
        session: draft.agent(&assignment.agent).and_then(|agent| agent.session),
        text: text.to_owned(),
        hash,
        outcome: DispatchOutcome::Accepted,
        run: Some(assignment.run),
        notes: why.to_owned(),
    };
    put_retried(draft, policy, assignment, &dispatch, (to, why));
    note(draft, dispatch);
}

/// Sends the last words once more, under their id. A launch is no word to be repeated.
fn resend(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    to: AssignmentStatus,
    why: &str,
) {
    let last = assignment.recovery.dispatch.and_then(|id| draft.dispatch(id)).cloned();
    let session = draft.agent(&assignment.agent).and_then(|agent| agent.session);
    let open = |last: &Dispatch| {
        last.mode == DispatchMode::Mail
            && last.session == session
            && last.outcome == DispatchOutcome::Accepted
    };
    let Some(last) = last.filter(open) else {
        send(draft, policy, assignment, (to, STATUS), why);
        return;
    };
    let again = Dispatch { notes: format!("sent again: {why}"), ..last };
    put_retried(draft, policy, assignment, &again, (to, why));
    draft.put(Record::Dispatch(Box::new(again)));
}

/// Writes the intent: what is sent, that it counts as an attempt, and how long nothing follows.
fn put_retried(
    draft: &mut Draft<'_>,
    policy: &Policy,
    mut assignment: Assignment,
    dispatch: &Dispatch,
    (to, why): (AssignmentStatus, &str),
) {
    let retries = assignment.recovery.retries;
    let seed = format!("{} {}", assignment.id, dispatch.id);
    assignment.recovery = Recovery {
        dispatch: Some(dispatch.id),
        dispatched: draft.now,
        consumed: false,
        expected_next_update: None,
        retries: retries.saturating_add(1),
        last_retry: Some(draft.now),
        backoff_until: draft.now + policy.overseer.backoff.wait(retries, &seed),
        ..assignment.recovery
    };
    if let Some(session) = dispatch.session {
        let body = MailBody::StatusRequest(StatusRequest {
            dispatch: dispatch.id,
            assignment: assignment.id,
            node: assignment.node,
            session,
            text: dispatch.text.clone(),
        });
        draft.mail(Principal::Agent(assignment.agent.clone()), Some(assignment.epic), body);
    }
    put(draft, assignment, to, why);
}

/// Gives the node to another agent: this one's attempt ends as failed, and its plan staffs it anew.
fn reassign(draft: &mut Draft<'_>, assignment: &Assignment, why: &str) {
    conclude(draft, assignment, DispatchOutcome::Timeout);
    let Some(agent) = draft.agent(&assignment.agent).cloned() else { return };
    let given_up = replacing::surrender(draft, &agent, &format!("it stood still: {why}"));
    debug_assert!(given_up.is_ok(), "who is overseen has work: {given_up:?}");
}
