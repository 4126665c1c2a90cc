//! What people, GO and a goal's owner do with a goal (spec 05, Status machines): it is paused, goes on,
//! is given up, is put away, or is said to be more or less urgent.

use crate::error::{ErrorCode, Refusal};
use crate::goal::{Goal, GoalState, GoalStatus};
use crate::id::{AgentId, EpicId, NodeId, Principal, ProjectName};
use crate::ledger::{EventKind, Record};
use crate::limits::{
    CLOSED_GOALS_MAX, ENDED_LEAST, OPEN_GOALS_MAX, RECORD_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::mail::OpReply;
use crate::plan::{NodeStatus, PlanReason};
use crate::priority::{Priority, Voice};
use crate::request::Request;
use crate::request::goals::{GoalOp, GoalUpdate, GoalVerb};
use crate::step::Draft;
use crate::time::BusTime;

use super::stopping::{self, Stopper};
use super::{conversing, plans, questions, weight};

const RULE: &str = "05 Status machines";

/// Whether a project may have one more goal.
pub(super) fn has_room(draft: &Draft<'_>, project: &ProjectName) -> Result<(), Refusal> {
    let records = draft.base();
    let of_project = records.goals.values().filter(|goal| goal.project == *project);
    let open =
        |goal: &&Goal| draft.goal_state(goal.id).is_some_and(|state| !state.status.is_closed());
    if of_project.filter(open).nth(OPEN_GOALS_MAX - 1).is_some() {
        let detail = format!(
            "{project} has {OPEN_GOALS_MAX} open goals; wait until one ends, or cancel one"
        );
        return Err(Refusal::new(ErrorCode::Unavailable, detail));
    }
    let lately = BusTime(draft.now.0.saturating_sub(ENDED_LEAST.0));
    let closed = records.closed().rev().take_while(|(since, _)| *since > lately);
    let of_project =
        |(_, epic): &(_, EpicId)| records.goals.get(epic).is_some_and(|it| it.project == *project);
    if closed.filter(of_project).nth(CLOSED_GOALS_MAX - 1).is_some() {
        let minutes = ENDED_LEAST.0 / 60_000;
        let detail = format!(
            "{CLOSED_GOALS_MAX} goals of {project} have closed within {minutes} minutes; send the same \
             request again later"
        );
        return Err(Refusal::new(ErrorCode::Unavailable, detail));
    }
    Ok(())
}

/// Does what is asked; says what came of it.
///
/// # Errors
/// No such goal, not the sender's to decide, or not from where the goal stands.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &GoalOp,
) -> Result<String, Refusal> {
    let goal = known(draft, op.epic)?.clone();
    authorize(draft, request, &goal)?;
    fits("reason", &op.reason, TEXT_BYTES_MAX)?;
    let by = &request.sender.from;
    let why = if op.reason.is_empty() { format!("{by} said so") } else { op.reason.clone() };
    match op.verb {
        GoalVerb::Pause => move_goal(draft, op.epic, GoalStatus::Paused, &why)?,
        GoalVerb::Resume => {
            move_goal(draft, op.epic, GoalStatus::Active, &why)?;
            plans::settle(draft, op.epic);
        }
        GoalVerb::Cancel => {
            move_goal(draft, op.epic, GoalStatus::Cancelled, &why)?;
            let stopped = give_up(draft, op.epic);
            return Ok(match stopped {
                0 => "cancelled".to_owned(),
                count => format!("cancelled; {count} at work are asked to stop"),
            });
        }
        GoalVerb::Archive => move_goal(draft, op.epic, GoalStatus::Archived, &why)?,
        GoalVerb::Prioritise(priority) => {
            prioritise(draft, op.epic, voice_of(by), priority, &why)?;
            return Ok(priority.map_or_else(|| "none".to_owned(), |said| said.to_string()));
        }
    }
    let state = draft.goal_state(op.epic);
    Ok(state.map_or_else(String::new, |state| state.status.to_string()))
}

/// Says anew what is wanted, as far as it is given. Work that was begun keeps its brief; what is begun later has the
/// new title in its placeholders (spec 05, Records).
///
/// # Errors
/// No such goal, not the sender's to change, or over; a definition that is larger than a record may be.
pub(super) fn update(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &GoalUpdate,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let answer = |detail: &str| OpReply { epic: Some(op.epic), detail: detail.to_owned(), ..reply };
    let goal = known(draft, op.epic)?.clone();
    authorize(draft, request, &goal)?;
    fits("reason", &op.reason, TEXT_BYTES_MAX)?;
    let status = state_of(draft, op.epic)?.status;
    if status.is_closed() {
        let detail = format!("{} is {status}; create a new goal instead", op.epic);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let spec = op.change.onto(&goal.spec);
    if spec == goal.spec {
        return Ok(answer("nothing changed"));
    }
    let changed = Goal { spec, updated: draft.now, ..goal };
    let size = weight::goal(&changed);
    if size > RECORD_BYTES_MAX {
        let detail = format!("goal: about {size} bytes in all; the limit is {RECORD_BYTES_MAX}");
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    draft.put(Record::Goal(Box::new(changed)));
    let why = if op.reason.is_empty() { "no reason given" } else { &op.reason };
    let reason = format!("changed by {}: {why}", request.sender.from);
    draft.event(EventKind::GoalUpdated, "05 Records", reason).epic = Some(op.epic);
    draft.touch(op.epic, PlanReason::ManualOverride);
    Ok(answer("updated"))
}

/// A goal's definition.
///
/// # Errors
/// There is none.
pub(super) fn known<'d>(draft: &Draft<'d>, epic: EpicId) -> Result<&'d Goal, Refusal> {
    let goal = draft.base().goals.get(&epic);
    goal.ok_or_else(|| {
        let detail = format!("goal {epic} was not found; `tetrarch goal list` lists all");
        Refusal::new(ErrorCode::NotFound, detail)
    })
}

/// Refuses a text that is longer than its bound.
///
/// # Errors
/// The field, its size and the bound.
pub(super) fn fits(field: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.len() <= most {
        return Ok(());
    }
    let detail = format!("{field}: {} bytes; the limit is {most}", text.len());
    Err(Refusal::new(ErrorCode::InvalidRequest, detail))
}

/// Whose word a sender's is.
pub(super) fn voice_of(sender: &Principal) -> Voice {
    match sender {
        Principal::Human(_) => Voice::User,
        Principal::Agent(_) => Voice::Overseer,
    }
}

/// Goals are decided on by people, GO and whose they are.
fn authorize(draft: &Draft<'_>, request: &Request, goal: &Goal) -> Result<(), Refusal> {
    let Principal::Agent(sender) = &request.sender.from else { return Ok(()) };
    super::current(draft, &request.sender)?;
    if *sender == AgentId::Go || request.sender.from == goal.owner {
        return Ok(());
    }
    let detail = format!("{sender} does not own {}; {} does", goal.id, goal.owner);
    Err(Refusal::new(ErrorCode::Unauthorized, detail))
}

fn state_of(draft: &Draft<'_>, epic: EpicId) -> Result<GoalState, Refusal> {
    let state = draft.goal_state(epic).cloned();
    state.ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("{epic} has no state")))
}

fn move_goal(
    draft: &mut Draft<'_>,
    epic: EpicId,
    to: GoalStatus,
    why: &str,
) -> Result<(), Refusal> {
    let mut state = state_of(draft, epic)?;
    let from = state.status;
    if from.to(to).is_err() {
        let detail = if from == to {
            format!("{epic} is {from} already")
        } else if to == GoalStatus::Archived {
            format!("{epic} is {from}; cancel it first with `tetrarch goal cancel {epic}`")
        } else {
            format!("{epic} is {from} and cannot become {to}")
        };
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    state.status = to;
    state.since = draft.now;
    draft.put(Record::GoalState(Box::new(state)));
    let reason = format!("{from} -> {to}: {why}");
    draft.event(EventKind::GoalStatus, RULE, reason).epic = Some(epic);
    draft.touch(epic, PlanReason::ManualOverride);
    if to == GoalStatus::Cancelled {
        conversing::heard(draft, epic);
    }
    Ok(())
}

/// Ends the work of a goal that is given up: what runs is asked to stop, children first, and its leaf
/// is cancelled when it has; every other leaf is cancelled now. Why stands with the goal, once. Gives
/// how many are asked to stop.
fn give_up(draft: &mut Draft<'_>, epic: EpicId) -> usize {
    let why = "its goal was cancelled";
    questions::withdraw_escalated(draft, epic, None, why);
    let states = draft.base().node_states.get(&epic).into_iter().flatten();
    let (worked, idle): (Vec<_>, Vec<_>) = states
        .filter(|(_, state)| !state.status.is_settled())
        .partition(|(_, state)| state.assignment.is_some());
    let agents: Vec<AgentId> =
        worked.into_iter().filter_map(|(_, state)| state.assignee.clone()).collect();
    let idle: Vec<NodeId> = idle.into_iter().map(|(id, _)| *id).collect();
    for id in idle {
        plans::move_node(draft, epic, id, NodeStatus::Cancelled, why, |state| {
            state.assignee = None;
        });
    }
    for agent in &agents {
        stopping::stop(draft, agent, Stopper::Plan, why);
    }
    plans::settle(draft, epic);
    agents.len()
}

/// Ends a goal that a turn of a conversation waits for no more: its agent will not try again. One that cannot be
/// ended is over.
pub(super) fn end_for_turn(draft: &mut Draft<'_>, epic: EpicId, why: &str) {
    if move_goal(draft, epic, GoalStatus::Cancelled, why).is_ok() {
        give_up(draft, epic);
    }
}

/// Gives up every goal of a project that is not over: nobody is left to work on it.
///
/// # Errors
/// A goal has no state.
pub(super) fn cancel_all(
    draft: &mut Draft<'_>,
    project: &ProjectName,
    why: &str,
) -> Result<(), Refusal> {
    let goals = draft.base().goals.values().filter(|goal| goal.project == *project);
    let open = goals.map(|goal| goal.id).filter(|epic| !plans::is_closed(draft, *epic));
    let open: Vec<EpicId> = open.collect();
    for epic in open {
        move_goal(draft, epic, GoalStatus::Cancelled, why)?;
        give_up(draft, epic);
    }
    Ok(())
}

fn prioritise(
    draft: &mut Draft<'_>,
    epic: EpicId,
    voice: Voice,
    priority: Option<Priority>,
    why: &str,
) -> Result<(), Refusal> {
    let mut state = state_of(draft, epic)?;
    if state.status.is_closed() {
        let detail = format!("{epic} is {}; its work is over", state.status);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let said = state.priorities.with(voice, priority);
    if said == state.priorities {
        return Ok(());
    }
    state.priorities = said;
    draft.put(Record::GoalState(Box::new(state)));
    let reason = match priority {
        Some(priority) => format!("{}: {priority}: {why}", voice.as_str()),
        None => format!("{}: nothing is said any more: {why}", voice.as_str()),
    };
    draft.event(EventKind::GoalPriority, "05 Insights", reason).epic = Some(epic);
    draft.touch(epic, PlanReason::ManualOverride);
    Ok(())
}
