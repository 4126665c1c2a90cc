//! What work does to its plan: nodes and assignments move, nodes become ready, goals are reached
//! (spec 05). What an ended run means is `attempt`'s, making and closing goals `goal`'s. Statuses only
//! move by the machines of `plan`, `assignment` and `goal`.

mod attempt;
mod goal;
mod waiting;

use std::collections::BTreeMap;

use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::error::{ErrorCode, Refusal};
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId};
use crate::intensity::Failures;
use crate::ledger::{EventKind, Record};
use crate::limits::TEXT_BYTES_MAX;
use crate::plan::{
    Blocker, CREDENTIAL_MISSING, DEPENDS, Node, NodeChange, NodeState, NodeStatus, PlanReason,
    folding, graph, rollup,
};
use crate::priority::Priorities;
use crate::request::Request;
use crate::run::Run;
use crate::step::Draft;

use super::{conversing, crystallizing};

pub(super) use attempt::end_attempt;
pub(super) use goal::{book_goal_result, create_goal, goal_of, may_give, put_profiles};

/// Moves a node, when the table allows it, and lets the caller change what goes with it.
pub(super) fn move_node(
    draft: &mut Draft<'_>,
    epic: EpicId,
    id: NodeId,
    to: NodeStatus,
    why: &str,
    change: impl FnOnce(&mut NodeState),
) {
    let Some(mut state) = draft.node_state(epic, id).cloned() else { return };
    let from = state.status;
    change(&mut state);
    if from != to {
        if from.to(to, state.result.is_some()).is_err() {
            return;
        }
        state.status = to;
        state.since = draft.now;
        let version = draft.next_version(epic);
        if to == NodeStatus::InProgress {
            state.begun = version;
            state.started.get_or_insert(draft.now);
        }
        if to.is_settled() {
            state.settled = version;
        }
        let event = draft.event(
            EventKind::NodeStatus,
            "05 Status machines",
            format!("{from} -> {to}: {why}"),
        );
        event.epic = Some(epic);
        event.node = Some(id);
    }
    draft.put(Record::NodeState(epic, Box::new(state)));
    let reason = match to {
        NodeStatus::InProgress => PlanReason::Spawn,
        NodeStatus::Todo
        | NodeStatus::Queued
        | NodeStatus::Blocked
        | NodeStatus::Done
        | NodeStatus::Cancelled => PlanReason::TaskCompletion,
    };
    let change = NodeChange { node: id, from: Some(from), to, why: why.to_owned() };
    draft.touch(epic, reason).changes.push(change);
}

/// Moves an assignment, when the table allows it.
pub(super) fn move_assignment(
    draft: &mut Draft<'_>,
    mut assignment: Assignment,
    to: AssignmentStatus,
    why: &str,
) {
    let from = assignment.status;
    if from.to(to, true).is_err() {
        return;
    }
    assignment.status = to;
    why.clone_into(&mut assignment.reason);
    assignment.updated = draft.now;
    let (epic, node, agent) = (assignment.epic, assignment.node, assignment.agent.clone());
    draft.put(Record::Assignment(Box::new(assignment)));
    let reason = format!("{from} -> {to}: {why}");
    let event = draft.event(EventKind::AssignmentStatus, "05 Status machines", reason);
    event.epic = Some(epic);
    event.node = Some(node);
    event.agent = Some(agent);
}

/// Blocks a node that waits for an agent at the request of its project's orchestrator or a human.
///
/// # Errors
/// No such node, another project's, or one that does not wait for an agent.
pub(super) fn block_ready(
    draft: &mut Draft<'_>,
    request: &Request,
    epic: EpicId,
    id: NodeId,
    blocker: &Blocker,
) -> Result<(), Refusal> {
    let goal = draft.base().goals.get(&epic);
    let goal = goal
        .ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("goal {epic} was not found")))?;
    if request.sender.from.agent().is_some() {
        let sender = super::current(draft, &request.sender)?;
        if sender.id != AgentId::Po(goal.project.clone()) {
            let detail = format!("{} does not orchestrate {}", sender.id, goal.project);
            return Err(Refusal::new(ErrorCode::Unauthorized, detail));
        }
    }
    let size = blocker.kind.len() + blocker.detail.len() + blocker.needs.len();
    if size > TEXT_BYTES_MAX {
        let detail = format!("blocker: {size} bytes; the limit is {TEXT_BYTES_MAX}");
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    if blocker.kind == CREDENTIAL_MISSING && blocker.needs.is_empty() {
        let detail =
            "blocker.needs is empty; name the kind of credential and where it is configured";
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let state = draft.node_state(epic, id);
    let state = state
        .ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("{epic} has no leaf {id}")))?;
    let waits = match state.purpose {
        Purpose::Execute => state.status == NodeStatus::Queued,
        Purpose::Review => state.status == NodeStatus::InProgress,
    };
    if !waits || state.assignment.is_some() {
        let detail =
            format!("{id} is {}; only a node that waits for an agent can be blocked", state.status);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    move_node(draft, epic, id, NodeStatus::Blocked, &blocker.kind, |state| {
        state.blocker = Some(blocker.clone());
    });
    settle(draft, epic);
    conversing::heard(draft, epic);
    Ok(())
}

/// Ends the work of an agent that is not to go on. Nobody wants the node of a child that was asked for; work that was
/// planned is still wanted, and waits for somebody who says how it goes on.
pub(super) fn abandon(draft: &mut Draft<'_>, run: &Run, why: &str) {
    if let Some(assignment) = draft.assignment(run.assignment).cloned() {
        move_assignment(draft, assignment, AssignmentStatus::Cancelled, why);
    }
    let asked_for = draft.node(run.epic, run.node).is_none_or(|node| node.spawned);
    if asked_for || is_closed(draft, run.epic) || attempt::is_dropped(draft, run) {
        attempt::cancel(draft, run, why);
    } else {
        attempt::stopped(draft, run, why);
    }
    waiting::tell(draft, run.epic, run.node, why);
    settle(draft, run.epic);
}

/// Derives what follows from moved nodes: what is ready now, how far the goal is, whether it
/// is reached. Called once at the end of every decision that moved a node.
pub(super) fn settle(draft: &mut Draft<'_>, epic: EpicId) {
    let nodes = draft.nodes(epic);
    let mut statuses = draft.leaf_statuses(epic);
    for (id, status) in &mut statuses {
        if *status == NodeStatus::Blocked && waits_again(draft, epic, *id) {
            *status = NodeStatus::Todo;
        }
    }
    let folded = draft.folded(epic);
    for id in graph::newly_ready(&nodes, &statuses, folded) {
        move_node(draft, epic, id, NodeStatus::Queued, "all it depends on is done", |state| {
            state.blocker = None;
        });
    }
    give_up_failed(draft, epic, &nodes);
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let rollup = rollup::rollup(&draft.leaf_statuses(epic), &ids, folded);
    crystallizing::roll_up(draft, epic, &nodes, &rollup);
    let Some(mut state) = draft.goal_state(epic).cloned() else { return };
    let derived = rollup.goal.status();
    let moved = derived != state.status
        && derived != GoalStatus::Active
        && state.status.to(derived).is_ok();
    if moved {
        let reason = format!("{} -> {derived}: roll-up", state.status);
        draft.event(EventKind::GoalStatus, "05 Roll-up", reason).epic = Some(epic);
        state.status = derived;
        state.since = draft.now;
    }
    // What was given up keeps how far it came: without its cancelled leaves it would look done.
    let closed = matches!(state.status, GoalStatus::Cancelled | GoalStatus::Archived) && !moved;
    let percent = if closed { state.percent } else { rollup.percent };
    if moved || state.percent != percent {
        state.percent = percent;
        draft.put(Record::GoalState(Box::new(state)));
        conversing::heard(draft, epic);
    }
}

/// What failed of children that were asked for without a node is given up when it is no longer among the latest
/// that ended, so that it leaves the plan as the others do.
fn give_up_failed(draft: &mut Draft<'_>, epic: EpicId, nodes: &BTreeMap<NodeId, Node>) {
    for id in folding::beyond(nodes, |id| draft.node_state(epic, id)) {
        let failed = |state: &&NodeState| state.status == NodeStatus::Blocked;
        let Some(since) = draft.node_state(epic, id).filter(failed).map(|state| state.since) else {
            continue;
        };
        move_node(draft, epic, id, NodeStatus::Cancelled, "others have ended since", |_| {});
        if let Some(mut state) = draft.node_state(epic, id).cloned() {
            state.since = since;
            draft.put(Record::NodeState(epic, Box::new(state)));
        }
    }
}

/// Whether a node is blocked by nothing but what its changed plan has it wait for.
pub(super) fn waits_again(draft: &Draft<'_>, epic: EpicId, id: NodeId) -> bool {
    let blocker = draft.node_state(epic, id).and_then(|state| state.blocker.as_ref());
    blocker.is_some_and(|blocker| blocker.kind == DEPENDS)
}

/// Writes a definition that is new in its plan, or changed.
pub(super) fn define(draft: &mut Draft<'_>, epic: EpicId, node: &Node) {
    let version = draft.next_version(epic);
    let added = if draft.node(epic, node.id).is_some() { node.added } else { version };
    let node = Node { added, defined: version, ..node.clone() };
    draft.put(Record::Node(epic, Box::new(node)));
}

/// Whether the goal is worked on: nothing new starts while it is paused or ended.
pub(super) fn is_open(draft: &Draft<'_>, epic: EpicId) -> bool {
    draft.goal_state(epic).is_some_and(|state| state.status == GoalStatus::Active)
}

/// Whether nothing more is done for the goal.
pub(super) fn is_closed(draft: &Draft<'_>, epic: EpicId) -> bool {
    draft.goal_state(epic).is_some_and(|state| state.status.is_closed())
}

/// Gives a leaf its first state.
pub(super) fn put_leaf(draft: &mut Draft<'_>, epic: EpicId, id: NodeId) {
    let since = draft.now;
    draft.put(Record::NodeState(
        epic,
        Box::new(NodeState {
            id,
            status: NodeStatus::Todo,
            assignee: None,
            assignment: None,
            purpose: Purpose::Execute,
            attempts: 0,
            findings: Vec::new(),
            blocker: None,
            result: None,
            since,
            failures: Failures::default(),
            latest: None,
            begun: 0,
            settled: 0,
            priorities: Priorities::default(),
            created: since,
            started: None,
        }),
    ));
}
