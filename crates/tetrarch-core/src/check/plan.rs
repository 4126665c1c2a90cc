//! Goals and their plans: every leaf stands where its work and its dependencies put it, and the
//! goal where its leaves put it (spec 10, invariants 10, 13, 14, 27; spec 05).

use std::collections::BTreeSet;
use std::fmt;

use crate::assignment::Purpose;
use crate::goal::{Goal, GoalState, GoalStatus};
use crate::id::{EpicId, NodeId};
use crate::plan::rollup::GoalRollup;
use crate::plan::{DEPENDS, Node, NodeState, NodeStatus, Plan, graph, rollup};
use crate::records::Records;

use super::Findings;

/// Looks at every goal.
pub(super) fn check(records: &Records, found: &mut Findings) {
    for goal in records.goals.values() {
        let id = goal.id;
        let (plan, state) = (records.plans.get(&id), records.goal_states.get(&id));
        let (Some(plan), Some(state)) = (plan, state) else {
            found.must(false, 13, &id, "it has no plan or no state");
            continue;
        };
        header(goal, plan, found);
        leaves(records, plan, found);
        whole(records, plan, state, found);
    }
    let known = |id: &EpicId| records.goals.contains_key(id);
    for id in records.plans.keys().chain(records.goal_states.keys()).chain(records.nodes.keys()) {
        found.must(known(id), 13, id, "there is a plan without its goal");
    }
}

fn header(goal: &Goal, plan: &Plan, found: &mut Findings) {
    found.must(
        plan.version >= 1,
        13,
        &goal.id,
        format_args!("its plan has version {}", plan.version),
    );
    found.must(plan.project == goal.project, 13, &goal.id, "goal and plan are of two projects");
}

fn leaves(records: &Records, plan: &Plan, found: &mut Findings) {
    let epic = plan.epic;
    let (Some(nodes), Some(states)) = (records.nodes.get(&epic), records.node_states.get(&epic))
    else {
        found.must(false, 13, &epic, "its plan has no nodes");
        return;
    };
    let leaves: BTreeSet<NodeId> = graph::leaves(nodes).into_iter().collect();
    found.must(!leaves.is_empty(), 13, &epic, "its plan has nothing to do");
    for id in &leaves {
        found.must(states.contains_key(id), 14, &At(epic, *id), "a leaf has no state");
    }
    let statuses = states.iter().map(|(id, state)| (*id, state.status)).collect();
    for id in graph::newly_ready(nodes, &statuses, &plan.folded) {
        found.must(false, 27, &At(epic, id), "all it depends on is done, and it is not queued");
    }
    for state in states.values() {
        match nodes.get(&state.id) {
            Some(node) if leaves.contains(&state.id) => {
                one_leaf(records, epic, node, state, found);
            }
            Some(_) | None => {
                found.must(false, 14, &At(epic, state.id), "it has a state and is no leaf");
            }
        }
    }
}

/// A node of an epic, for people.
struct At(EpicId, NodeId);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

fn one_leaf(records: &Records, epic: EpicId, node: &Node, state: &NodeState, found: &mut Findings) {
    let subject = At(epic, node.id);
    let status = state.status;
    let open = state.assignment.and_then(|id| records.assignments.get(&id));
    match status {
        NodeStatus::InProgress => {
            let reviewed = state.purpose == Purpose::Review && state.result.is_some();
            let worked = open.is_some_and(|assignment| !assignment.status.is_terminal());
            let waits = state.assignment.is_none() && state.assignee.is_none() && reviewed;
            let what = "it is in progress, and nobody works on it or is to review it";
            found.must(worked || waits, 14, &subject, what);
            if let Some(assignment) = open {
                let own = (assignment.epic, assignment.node) == (epic, node.id);
                found.must(own, 14, &subject, "its assignment is another node's");
            }
        }
        NodeStatus::Todo
        | NodeStatus::Queued
        | NodeStatus::Blocked
        | NodeStatus::Done
        | NodeStatus::Cancelled => {
            found.must(
                state.assignment.is_none(),
                14,
                &subject,
                format_args!("it is {status} and has an open assignment"),
            );
        }
    }
    let blocked = status == NodeStatus::Blocked;
    found.must(!blocked || state.blocker.is_some(), 10, &subject, "it is blocked by nothing");
    let done = status == NodeStatus::Done;
    found.must(!done || state.result.is_some(), 10, &subject, "it is done, with nothing to show");
    let (attempts, limit) = (state.attempts, node.max_attempts);
    found.must(
        attempts <= limit,
        10,
        &subject,
        format_args!("{attempts} attempts of at most {limit}"),
    );
    let waits_again =
        blocked && state.blocker.as_ref().is_some_and(|blocker| blocker.kind == DEPENDS);
    if !matches!(status, NodeStatus::Todo | NodeStatus::Cancelled) && !waits_again {
        early(records, epic, state, found);
    }
}

/// A leaf that is done stays done; what was done of a whole phase may become more.
fn early(records: &Records, epic: EpicId, state: &NodeState, found: &mut Findings) {
    let (Some(nodes), Some(states)) = (records.nodes.get(&epic), records.node_states.get(&epic))
    else {
        return;
    };
    for needed in graph::dependencies(nodes, state.id) {
        let open = states.get(&needed).filter(|needed| needed.status != NodeStatus::Done);
        if let Some(open) = open {
            found.must(
                false,
                10,
                &At(epic, state.id),
                format_args!("it is {}, {needed} that it needs is {}", state.status, open.status),
            );
        }
    }
}

fn whole(records: &Records, plan: &Plan, state: &GoalState, found: &mut Findings) {
    let (Some(nodes), Some(states)) =
        (records.nodes.get(&state.id), records.node_states.get(&state.id))
    else {
        return;
    };
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let statuses = states.iter().map(|(id, state)| (*id, state.status)).collect();
    let derived = rollup::rollup(&statuses, &ids, &plan.folded);
    // A goal that was given up keeps how far it had come.
    let kept = matches!(state.status, GoalStatus::Cancelled | GoalStatus::Archived);
    found.must(
        kept || state.percent == derived.percent,
        10,
        &state.id,
        format_args!("{} % are noted, {} % are done", state.percent, derived.percent),
    );
    let agrees = match (state.status, derived.goal) {
        (GoalStatus::Active | GoalStatus::Paused, goal) => {
            !matches!(goal, GoalRollup::Completed | GoalRollup::Cancelled)
        }
        (GoalStatus::Completed, goal) => goal == GoalRollup::Completed,
        (GoalStatus::Cancelled | GoalStatus::Archived, _) => true,
    };
    found.must(
        agrees,
        27,
        &state.id,
        format_args!("it is {}, its leaves come to {}", state.status, derived.goal.as_str()),
    );
    let early = state.result.is_some()
        && !matches!(state.status, GoalStatus::Completed | GoalStatus::Archived);
    found.must(!early, 10, &state.id, format_args!("it is {} and has a result", state.status));
}
