//! What the overseer knows of assignments (spec 05, The tick): what was sent for each and whether it
//! arrived. The rules are in `crate::overseer`; what a tick looks at is in `ticking`, the rungs in
//! `rungs`, the last of them in `escalating` and how long that waits in `holding`, what agents answer in `updates`, what it
//! proposes by itself in `proposing`.

mod escalating;
mod holding;
mod proposing;
mod rungs;
mod ticking;
mod updates;

use crate::agent::Agent;
use crate::assignment::{Assignment, AssignmentStatus, Recovery};
use crate::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use crate::id::{AssignmentId, DispatchId, Principal, sha256_hex};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::{LAUNCH_TEXT_BYTES, LIST_MAX};
use crate::step::Draft;

use super::{fit, plans};

pub(super) use escalating::{answered, try_again};
pub(super) use proposing::propose;
pub(super) use rungs::after_replan;
pub use ticking::stalling;
pub(super) use ticking::{looked, tick, view};
pub(super) use updates::{arrived, update};

const RULE: &str = "05 The tick";

/// Notes that a session was ordered to start for its assignment. What was sent to the session before it
/// and did not arrive never will.
pub(super) fn launched(draft: &mut Draft<'_>, agent: &Agent) {
    let Some(work) = &agent.work else { return };
    let Some(mut assignment) = draft.assignment(work.assignment).cloned() else { return };
    let Some(goal) = draft.run(work.run).map(|run| run.brief.goal.clone()) else { return };
    conclude(draft, &assignment, DispatchOutcome::Error);
    let label = format!("launch {}", agent.epoch);
    let dispatch = Dispatch {
        id: DispatchId::derive(draft.now, &assignment.id.to_string(), &label, 0),
        assignment: assignment.id,
        at: draft.now,
        mode: DispatchMode::Spawn,
        rung: None,
        to: Principal::Agent(agent.id.clone()),
        session: agent.session,
        text: fit::Room::of(LAUNCH_TEXT_BYTES).text(&goal, usize::MAX),
        hash: sha256_hex(goal.as_bytes()),
        outcome: DispatchOutcome::Accepted,
        run: Some(work.run),
        notes: format!("epoch {}", agent.epoch),
    };
    assignment.recovery = Recovery {
        dispatch: Some(dispatch.id),
        dispatched: draft.now,
        consumed: false,
        last_activity: draft.now,
        expected_next_update: None,
        ..assignment.recovery
    };
    assignment.updated = draft.now;
    note(draft, dispatch);
    draft.put(Record::Assignment(Box::new(assignment)));
}

/// Keeps a dispatch; the earliest of too many is forgotten.
fn note(draft: &mut Draft<'_>, dispatch: Dispatch) {
    let of = dispatch.assignment;
    let base = draft.base();
    let over = (base.dispatched_for(of).count() + 1).saturating_sub(LIST_MAX);
    let sent = base.dispatched_for(of).filter(|sent| !base.is_first_launch(*sent));
    for earliest in sent.take(over) {
        draft.forget(RecordKey::Dispatch(earliest));
    }
    draft.put(Record::Dispatch(Box::new(dispatch)));
}

/// Says what was done about an assignment, or heard of it, and why.
fn tell(draft: &mut Draft<'_>, assignment: &Assignment, what: String) {
    let event = draft.event(EventKind::Recovery, RULE, what);
    event.agent = Some(assignment.agent.clone());
    event.run = Some(assignment.run);
    event.epic = Some(assignment.epic);
    event.node = Some(assignment.node);
}

/// Notes what came of the last dispatch, unless that is known.
fn conclude(draft: &mut Draft<'_>, assignment: &Assignment, outcome: DispatchOutcome) {
    let last = assignment.recovery.dispatch.and_then(|id| draft.dispatch(id));
    let open = last.filter(|last| last.outcome == DispatchOutcome::Accepted);
    if let Some(dispatch) = open.cloned() {
        draft.put(Record::Dispatch(Box::new(Dispatch { outcome, ..dispatch })));
    }
}

/// What came of a dispatch that was no mail.
pub(super) fn concluded(draft: &mut Draft<'_>, assignment: &Assignment, outcome: DispatchOutcome) {
    conclude(draft, assignment, outcome);
}

/// The agent has what was last sent to it.
pub(super) fn consumed(draft: &mut Draft<'_>, id: AssignmentId) {
    let Some(mut assignment) = draft.assignment(id).cloned() else { return };
    if assignment.status.is_terminal() || assignment.recovery.consumed {
        return;
    }
    conclude(draft, &assignment, DispatchOutcome::Ok);
    assignment.recovery.consumed = true;
    assignment.recovery.last_activity = draft.now;
    let stalled = assignment.status == AssignmentStatus::Stalled;
    let to = if stalled { AssignmentStatus::Active } else { assignment.status };
    put(draft, assignment, to, "it has what was sent");
}

/// Writes an assignment, which may move by it.
fn put(draft: &mut Draft<'_>, mut assignment: Assignment, to: AssignmentStatus, why: &str) {
    if assignment.status != to && assignment.status.to(to, true).is_ok() {
        plans::move_assignment(draft, assignment, to, why);
        return;
    }
    assignment.updated = draft.now;
    draft.put(Record::Assignment(Box::new(assignment)));
}
