//! What agents answer (spec 05, Status updates): that something arrived, and how the work stands.

use std::fmt::Write as _;

use crate::assignment::{Assignment, AssignmentStatus};
use crate::dispatch::DispatchOutcome;
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, DispatchId};
use crate::limits::TEXT_BYTES_MAX;
use crate::overseer::update::{Said, Update, from_text, from_value};
use crate::overseer::{Telemetry, next_rung};
use crate::step::Draft;
use crate::time::BusTime;

use super::{conclude, consumed, escalating, put, rungs, tell, ticking};
use crate::owner::{Policy, crystallizing, fit, plans};

/// The agent has a dispatch. One that was followed by another says nothing any more.
pub(in crate::owner) fn arrived(draft: &mut Draft<'_>, id: &AgentId, dispatch: DispatchId) {
    let Some(assignment) = assignment_of(draft, id) else { return };
    if assignment.recovery.dispatch == Some(dispatch) {
        let id = assignment.id;
        consumed(draft, id);
    }
}

fn assignment_of<'d>(draft: &'d Draft<'_>, id: &AgentId) -> Option<&'d Assignment> {
    draft.assignment(draft.agent(id)?.work.as_ref()?.assignment)
}

/// A status update: activity, and unless it calls work done that it shows nothing of, the ladder
/// begins anew.
///
/// # Errors
/// It cannot be read, or is about something else.
pub(in crate::owner) fn update(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    (dispatch, expected): (Option<DispatchId>, Option<BusTime>),
    text: &str,
) -> Result<(), Refusal> {
    let update = read(text)?;
    let Some(mut assignment) = assignment_of(draft, id).cloned() else { return Ok(()) };
    about(&assignment, &update)?;
    if assignment.status.is_terminal() {
        return Ok(());
    }
    if dispatch.is_some() && assignment.recovery.dispatch == dispatch {
        conclude(draft, &assignment, DispatchOutcome::Ok);
        assignment.recovery.consumed = true;
        // Who answers is not waited for any more.
        assignment.recovery.backoff_until = BusTime(0);
    }
    let shows = !update.evidence.is_empty() || !update.references.is_empty();
    let unproven = update.status == Some(Said::Done) && !shows;
    crystallizing::of_update(draft, &assignment, &update);
    assignment.recovery.last_activity = draft.now;
    assignment.recovery.expected_next_update = expected;
    if !unproven {
        assignment.recovery.retries = 0;
        assignment.recovery.backoff_until = BusTime(0);
    }
    let said = in_words(&update);
    tell(draft, &assignment, format!("update: {said}"));
    let of = assignment.id;
    put(draft, assignment, AssignmentStatus::Active, &said);
    let Some(assignment) = draft.assignment(of).cloned() else { return Ok(()) };
    if plans::is_closed(draft, assignment.epic) {
        return Ok(());
    }
    if update.status == Some(Said::Blocked) && !update.blockers.is_empty() {
        let why = format!("it says that it is blocked: {}", update.blockers.join("; "));
        escalating::escalate(draft, assignment, &why);
    } else if unproven {
        unproved(draft, policy, assignment);
    }
    Ok(())
}

/// Work that is called done, with nothing to show: asked for, as often as for a status. While nothing is
/// to be sent it is the next tick's business.
fn unproved(draft: &mut Draft<'_>, policy: &Policy, assignment: Assignment) {
    if !plans::is_open(draft, assignment.epic) {
        // Nothing is sent; who says no more is asked by a tick once the goal is worked on again.
        return;
    }
    if assignment.recovery.backoff_until > draft.now {
        return;
    }
    let why = "it says that it is done, and shows nothing";
    let mut view = ticking::view(draft, policy, &assignment, &Telemetry::default());
    if let Some(view) = &mut view {
        // What is called done is neither too large nor unclear.
        view.means.replan = false;
    }
    let patience = assignment.policy.patience(&policy.overseer);
    match view.filter(|view| view.retries >= patience.max_retries) {
        Some(view) => {
            let (rung, _) = next_rung(&view, &patience);
            rungs::climb(draft, policy, assignment, rung, (why, &[]));
        }
        None => rungs::ask_evidence(draft, policy, assignment, why),
    }
}

/// The update in a text: the object itself, or words that hold it.
fn read(text: &str) -> Result<Update, Refusal> {
    let invalid = |error: String| Refusal::new(ErrorCode::InvalidRequest, error);
    if let Some(update) = from_text(text, 1).map_err(|error| invalid(error.to_string()))? {
        return Ok(update);
    }
    let value = serde_json::from_str(text)
        .map_err(|error| invalid(format!("there is no overseerUpdate in it: {error}")))?;
    from_value(&value).map_err(|error| invalid(error.to_string()))
}

/// What it does not name is taken from the assignment; what it names must be that.
fn about(assignment: &Assignment, update: &Update) -> Result<(), Refusal> {
    let Assignment { epic, node, .. } = assignment;
    let goal = update.goal.filter(|goal| goal != epic);
    let other = update.node.filter(|other| other != node);
    let detail = match (goal, other) {
        (Some(goal), _) => format!("goalId: {goal}"),
        (None, Some(other)) => format!("workNodeId: {other}"),
        (None, None) => return Ok(()),
    };
    let detail = format!("{detail} is not what it works on, which is {node} of {epic}");
    Err(Refusal::new(ErrorCode::InvalidRequest, detail))
}

fn in_words(update: &Update) -> String {
    let mut said = update.status.map_or("goes on", Said::as_str).to_owned();
    let parts = [("summary", update.summary.clone()), ("next", update.next.clone())];
    let blockers = (!update.blockers.is_empty()).then(|| update.blockers.join("; "));
    for (name, part) in parts.into_iter().chain([("blockers", blockers)]) {
        if let Some(part) = part {
            // Writing to a text cannot fail.
            let _written = write!(said, "; {name}: {part}");
        }
    }
    if !update.evidence.is_empty() || !update.references.is_empty() {
        said.push_str("; with evidence");
    }
    fit::Room::of(TEXT_BYTES_MAX).text(&said, usize::MAX)
}
