//! The plan that a change would leave behind: structure, bounds, ids that were used, dependencies
//! within the epic and without circles, done work as it was (spec 05, `E_INVALID_PLAN`). All of it is
//! said at once.

use std::collections::BTreeSet;

use crate::id::{NodeId, Tier};
use crate::limits::{PHASES_MAX, PLAN_NODES_MAX, SUBTASKS_MAX, TASKS_MAX};
use crate::plan::graph::{cycle_text, cycles, is_within};
use crate::plan::{Node, NodeStatus};

use super::{ChangeError, Standing, Touched};

/// Refuses a change that breaks a rule.
pub(super) fn check(standing: &Standing<'_>, touched: &Touched) -> Result<(), ChangeError> {
    let mut found = Vec::new();
    settled(standing, touched, &mut found);
    places(standing, touched, &mut found);
    bounds(touched, &mut found);
    for node in touched.added.iter().chain(&touched.changed) {
        dependencies(touched, node, &mut found);
    }
    left_waiting(standing, touched, &mut found);
    begun_too_early(standing, touched, &mut found);
    circles(touched, &mut found);
    output(touched, &mut found);
    if found.is_empty() { Ok(()) } else { Err(ChangeError::Invalid(found)) }
}

fn is_cancelled(touched: &Touched, id: NodeId) -> bool {
    touched.derived.get(&id) == Some(&NodeStatus::Cancelled)
}

/// What is done stays as it was, and what was given up is not taken up under its old id.
fn settled(standing: &Standing<'_>, touched: &Touched, found: &mut Vec<String>) {
    let changed = touched.changed.iter().map(|node| node.id);
    let removed = touched.removed.iter().copied();
    let own: BTreeSet<NodeId> =
        changed.chain(removed).chain(touched.split.iter().copied()).collect();
    for id in own {
        match (standing.status(id), standing.is_leaf(id)) {
            (NodeStatus::Done, true) => {
                found.push(format!("{id} is done and cannot change"));
            }
            (NodeStatus::Cancelled, _) => {
                found.push(format!("{id} was cancelled; ids are never reused, choose another"));
            }
            (
                NodeStatus::Done
                | NodeStatus::Todo
                | NodeStatus::Queued
                | NodeStatus::InProgress
                | NodeStatus::Blocked,
                _,
            ) => {}
        }
    }
}

/// Everything new stands below something that is there and wanted.
fn places(standing: &Standing<'_>, touched: &Touched, found: &mut Vec<String>) {
    for node in &touched.added {
        let id = node.id;
        match id.parent() {
            Some(parent) if !touched.nodes.contains_key(&parent) => {
                found.push(format!("{id} has no parent: the plan has no {parent}"));
            }
            Some(parent) if standing.status(parent) == NodeStatus::Cancelled => {
                found.push(format!("{id} has no parent: {parent} was cancelled"));
            }
            Some(_) => {}
            None => {
                let has_task = touched.nodes.keys().any(|child| child.parent() == Some(id));
                if !has_task {
                    found.push(format!("{id} has no task; a phase has 1 to {TASKS_MAX}"));
                }
            }
        }
        if touched.leaves.contains_key(&id) && node.acceptance.is_empty() {
            found.push(format!("{id} has no acceptance; name at least one criterion"));
        }
    }
}

/// What is neither done nor given up counts, in the whole plan and below every node that gets more: neither
/// freezes for what was done in it (spec 03, Requests). All nodes have to fit into a plan event, which every
/// step is held to.
fn bounds(touched: &Touched, found: &mut Vec<String>) {
    let is_open = |id: &NodeId| touched.derived.get(id).is_none_or(|status| !status.is_settled());
    let open = touched.nodes.keys().filter(|id| is_open(id)).count();
    if open > PLAN_NODES_MAX && !touched.added.is_empty() {
        found.push(format!(
            "the plan would have {open} nodes that are not settled; the limit is {PLAN_NODES_MAX} nodes"
        ));
    }
    let growing: BTreeSet<Option<NodeId>> =
        touched.added.iter().map(|node| node.id.parent()).collect();
    for parent in growing {
        let counts = |id: &&NodeId| id.parent() == parent && is_open(id);
        let count = touched.nodes.keys().filter(counts).count();
        let (max, what) = match parent.map(NodeId::tier) {
            None => (PHASES_MAX, "phases"),
            Some(Tier::Phase) => (TASKS_MAX, "tasks"),
            Some(Tier::Task | Tier::Subtask) => (SUBTASKS_MAX, "subtasks"),
        };
        if count > max {
            let place = parent.map_or_else(|| "the plan".to_owned(), |parent| parent.to_string());
            found.push(format!(
                "{place} would have {count} {what} that are not settled; the limit is {max} {what}"
            ));
        }
    }
}

/// A new or changed node depends on other nodes of the epic that are wanted still.
fn dependencies(touched: &Touched, node: &Node, found: &mut Vec<String>) {
    let id = node.id;
    let mut seen = BTreeSet::new();
    for needed in &node.depends_on {
        if !seen.insert(*needed) {
            continue;
        }
        if !touched.nodes.contains_key(needed) {
            found.push(format!("{id} depends on {needed}, which is outside the epic"));
        } else if id == *needed {
            found.push(format!("{id} depends on itself: dependency cycle {id} -> {id}"));
        } else if is_within(id, *needed) || is_within(*needed, id) {
            found.push(format!(
                "{id} and {needed} are parts of each other: dependency cycle {id} -> {needed} -> {id}"
            ));
        } else if is_cancelled(touched, *needed) {
            found.push(format!("{id} depends on {needed}, which is cancelled"));
        }
    }
}

/// Nobody is left waiting for what the change gives up.
fn left_waiting(standing: &Standing<'_>, touched: &Touched, found: &mut Vec<String>) {
    let own: BTreeSet<NodeId> =
        touched.added.iter().chain(&touched.changed).map(|node| node.id).collect();
    for node in touched.nodes.values().filter(|node| !own.contains(&node.id)) {
        if touched.derived.get(&node.id).is_none_or(|status| status.is_settled()) {
            continue;
        }
        let lost = |needed: &&NodeId| {
            is_cancelled(touched, **needed) && standing.status(**needed) != NodeStatus::Cancelled
        };
        for needed in node.depends_on.iter().filter(lost) {
            found.push(format!("{} depends on {needed}, which the change cancels", node.id));
        }
    }
}

/// What has begun cannot begin to wait.
fn begun_too_early(standing: &Standing<'_>, touched: &Touched, found: &mut Vec<String>) {
    for node in &touched.changed {
        let Some(old) = standing.present.nodes.get(&node.id) else { continue };
        let begun = standing
            .leaves_below(node.id)
            .find(|leaf| matches!(leaf.status, NodeStatus::InProgress | NodeStatus::Done));
        let Some(begun) = begun else { continue };
        let open = |needed: &&NodeId| {
            !old.depends_on.contains(needed)
                && touched.derived.get(needed) != Some(&NodeStatus::Done)
        };
        for needed in node.depends_on.iter().filter(open) {
            found.push(format!(
                "{} cannot begin to wait for {needed}: {} is {}",
                node.id, begun.id, begun.status
            ));
        }
    }
}

/// What was given up stands in nobody's way.
fn circles(touched: &Touched, found: &mut Vec<String>) {
    let wanted = touched.nodes.values().filter(|node| !is_cancelled(touched, node.id));
    let edges: Vec<(NodeId, Vec<NodeId>)> = wanted
        .map(|node| {
            let apart =
                |needed: &&NodeId| !is_within(node.id, **needed) && !is_within(**needed, node.id);
            (node.id, node.depends_on.iter().filter(apart).copied().collect())
        })
        .collect();
    for cycle in cycles(edges.iter().map(|(id, needed)| (*id, needed.as_slice()))) {
        found.push(format!("dependency cycle {}", cycle_text(&cycle)));
    }
}

fn output(touched: &Touched, found: &mut Vec<String>) {
    let Some(id) = touched.output else { return };
    if !touched.nodes.contains_key(&id) {
        found.push(format!("the output {id} is outside the epic"));
    } else if !touched.leaves.contains_key(&id) {
        found.push(format!("the output {id} has no deliverable of its own; name a leaf"));
    } else if is_cancelled(touched, id) {
        found.push(format!("the output {id} is cancelled; name another"));
    }
}
