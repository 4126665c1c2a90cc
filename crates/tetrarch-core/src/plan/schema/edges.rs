//! What depends on what in a plan file: within the epic, not on oneself, not in a circle
//! (spec 05, `E_INVALID_PLAN`).

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::plan::graph::{cycle_text, cycles, is_within};
use crate::plan::schema::fields::Problems;
use crate::plan::schema::nodes::Placed;

pub(super) fn check_edges(placed: &[Placed], problems: &Problems) {
    let known: BTreeMap<NodeId, &Placed> =
        placed.iter().filter(|one| one.known).map(|one| (one.node.id, one)).collect();
    let mut edges: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    for one in placed {
        let id = one.node.id;
        let mut kept = Vec::new();
        for (needed, path) in one.node.depends_on.iter().zip(&one.dependency_paths) {
            match wrong_edge(one.known.then_some(id), *needed, &known) {
                Some(problem) => problems.add(path, problem, "ids of other nodes of this plan"),
                None => kept.push(*needed),
            }
        }
        if one.known {
            edges.push((id, kept));
        }
    }
    for cycle in cycles(edges.iter().map(|(id, needed)| (*id, needed.as_slice()))) {
        let path = cycle.first().and_then(|id| known.get(id)).map_or("plan", |one| &one.path);
        let problem = format!("dependency cycle {}", cycle_text(&cycle));
        problems.add(format!("{path}.deps"), problem, "dependencies that lead to no circle");
    }
}

/// Why a node cannot depend on another, looking at these two only. A node whose own id is wrong
/// stands nowhere.
fn wrong_edge(
    own: Option<NodeId>,
    needed: NodeId,
    known: &BTreeMap<NodeId, &Placed>,
) -> Option<String> {
    let circle = |id: NodeId, how: &str| {
        format!("{id} depends on {needed}, which {how}: {id} -> {needed} -> {id}")
    };
    match own {
        Some(id) if id == needed => Some(format!("{id} depends on itself: {id} -> {id}")),
        Some(id) if is_within(id, needed) => Some(circle(id, "it is part of")),
        Some(id) if is_within(needed, id) => Some(circle(id, "is part of it")),
        Some(_) | None if known.contains_key(&needed) => None,
        Some(_) | None => Some(format!("{needed} is outside the epic: the plan has no such node")),
    }
}
