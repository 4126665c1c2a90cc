//! What the overseer would ask a person waits while their conversation has a turn at work (spec 05, The tick), and not for
//! ever. What an agent itself asks or is blocked by does not wait: it has nothing else to do.

use crate::assignment::{Assignment, AssignmentStatus};
use crate::conversation::lane::TurnLane;
use crate::conversation::{Turn, TurnStatus};
use crate::id::{NodeId, Principal};
use crate::limits::ESCALATION_HELD_MAX;
use crate::overseer::{Patience, View};
use crate::plan::NodeStatus;
use crate::run::RunState;
use crate::step::Draft;

use super::{put, tell};

/// Why a person is not asked yet.
const HELD: &str = "a person is to be asked, whose conversation has a turn at work";

/// Whether a question to the person of an assignment's goal waits. It would have been asked when the assignment was due,
/// and waits no longer than [`ESCALATION_HELD_MAX`] from then on.
pub(super) fn is_held(
    draft: &Draft<'_>,
    assignment: &Assignment,
    view: &View,
    patience: &Patience,
) -> bool {
    let idle = view.last_activity.max(view.last_dispatch) + patience.idle_after;
    let overdue = view.expected_next_update.map_or(idle, |expected| expected.min(idle));
    let due = overdue.max(view.backoff_until);
    draft.now < due + ESCALATION_HELD_MAX && is_busy(draft, assignment)
}

/// Leaves it as it is and says so, once.
pub(super) fn hold(draft: &mut Draft<'_>, mut assignment: Assignment) -> Option<String> {
    if assignment.reason == HELD {
        return None;
    }
    tell(draft, &assignment, format!("held: {HELD}"));
    HELD.clone_into(&mut assignment.reason);
    put(draft, assignment, AssignmentStatus::Stalled, HELD);
    Some(format!("held: {HELD}"))
}

/// Whether the person of an assignment's goal has a turn in their conversation that something goes on for. A turn that
/// waits for its lane or for its person does not count, nor the one that the goal itself is worked on for.
pub(super) fn is_busy(draft: &Draft<'_>, assignment: &Assignment) -> bool {
    let owner = draft.base().goals.get(&assignment.epic).map(|goal| &goal.owner);
    let Some(Principal::Human(human)) = owner else { return false };
    draft.base().open_turns(human).any(|turn| {
        turn.lane == TurnLane::Conversation
            && turn.status == TurnStatus::Running
            && turn.epic != Some(assignment.epic)
            && !asks(draft, turn)
    })
}

/// Whether the agent that works for a turn waits for a person.
fn asks(draft: &Draft<'_>, turn: &Turn) -> bool {
    let working = turn.epic.filter(|_| turn.working);
    let leaf = working.and_then(|epic| draft.node_state(epic, NodeId::task(1, 1)));
    leaf.is_some_and(|leaf| {
        let assigned = leaf.assignment.and_then(|id| draft.assignment(id));
        let run = assigned.and_then(|assigned| draft.run_status(assigned.run));
        let awaits = run.is_some_and(|run| run.state == RunState::AwaitingInput);
        leaf.status == NodeStatus::Blocked || awaits
    })
}
