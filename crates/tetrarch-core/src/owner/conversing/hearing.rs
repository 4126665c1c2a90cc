//! A turn hears of the work that was done for it: it goes on with the outcome, and its guards see what the work took.

use serde_json::json;

use crate::conversation::Turn;
use crate::error::DenialReason;
use crate::goal::GoalStatus;
use crate::id::{EpicId, NodeId};
use crate::owner::goals;
use crate::plan::{ATTEMPTS_EXHAUSTED, NodeStatus, STOPPED};
use crate::step::Draft;

use super::due;

/// Something happened to a goal: a turn that waits for it goes on when it is over, or when no agent will try it or try it
/// again, which ends the goal.
pub(in crate::owner) fn heard(draft: &mut Draft<'_>, epic: EpicId) {
    let known = draft.base().turn_of(epic).and_then(|turn| draft.turn(&turn.id));
    let waits = known.filter(|turn| turn.working && turn.epic == Some(epic));
    let Some(mut turn) = waits.cloned() else { return };
    note_work(draft, epic, &mut turn);
    let Some(state) = draft.goal_state(epic).cloned() else { return };
    match state.status {
        GoalStatus::Completed => {
            let Some(result) = state.result else { return };
            let said = [result.deliverable, result.summary];
            let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
            due(draft, turn, "success", &said);
        }
        GoalStatus::Cancelled | GoalStatus::Archived => {
            due(draft, turn, "cancelled", "the goal was cancelled");
        }
        GoalStatus::Active | GoalStatus::Paused => {
            let leaf = draft.node_state(epic, NodeId::task(1, 1));
            let blocker = leaf.filter(|leaf| leaf.status == NodeStatus::Blocked);
            let blocker = blocker.and_then(|leaf| leaf.blocker.as_ref());
            let denied =
                |kind: &str| DenialReason::ALL.iter().any(|reason| reason.as_str() == kind);
            let over = |kind: &str| kind == ATTEMPTS_EXHAUSTED || kind == STOPPED || denied(kind);
            let Some(blocker) = blocker.filter(|blocker| over(&blocker.kind)).cloned() else {
                return;
            };
            due(draft, turn, "failure", &blocker.detail);
            goals::end_for_turn(draft, epic, &blocker.kind);
        }
    }
}

/// What guards see of work: `attempt` is how often it was tried, `budget` what its last run used.
fn note_work(draft: &Draft<'_>, epic: EpicId, turn: &mut Turn) {
    let Some(leaf) = draft.node_state(epic, NodeId::task(1, 1)) else { return };
    let Some(position) = &mut turn.position else { return };
    position.values.insert("attempt".to_owned(), json!(leaf.attempts));
    let last = leaf.latest.and_then(|id| draft.assignment(id));
    if let Some(run) = last.and_then(|assignment| draft.run_status(assignment.run)) {
        let usage = run.usage;
        let tokens = usage.tokens_in.saturating_add(usage.tokens_out);
        let used = json!({"tokens": tokens, "costMicro": usage.cost_micro, "turns": usage.turns});
        position.values.insert("budget".to_owned(), used);
    }
}
