//! What depends on what in a plan file: phases run in order unless the file says otherwise; other
//! dependencies stay within the epic and lead to no circle (spec 05, `E_INVALID_PLAN`).

use std::collections::BTreeMap;

use crate::id::{NodeId, Tier};
use crate::plan::graph::{cycle_text, cycles, is_within};
use crate::plan::schema::fields::Problems;
use crate::plan::schema::nodes::Placed;

/// Which phases of a plan may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PhaseOrder {
    /// Each phase waits for the one before it.
    #[default]
    Sequential,
    /// Only dependencies order the work.
    Parallel,
}

impl PhaseOrder {
    /// The words of a plan file.
    pub(super) const WORDS: &str = "sequential, parallel";

    /// Reads the word.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "sequential" => Some(Self::Sequential),
            "parallel" => Some(Self::Parallel),
            _ => None,
        }
    }
}

/// Makes each phase depend on the one that stands before it in the file. A dependency on a later phase is
/// told and taken out, since it could never hold.
pub(super) fn order_phases(placed: &mut [Placed], problems: &Problems) {
    let phases = placed.iter().filter(|one| one.known && one.node.id.tier() == Tier::Phase);
    let phases: Vec<NodeId> = phases.map(|one| one.node.id).collect();
    let rank =
        |id: NodeId| phases.iter().position(|phase| phase.phase_number() == id.phase_number());
    for one in placed.iter_mut().filter(|one| one.known) {
        let Some(own) = rank(one.node.id) else { continue };
        let needed = std::mem::take(&mut one.node.depends_on);
        let paths = std::mem::take(&mut one.dependency_paths);
        for (needed, path) in needed.into_iter().zip(paths) {
            if rank(needed).is_none_or(|rank| rank <= own) {
                one.node.depends_on.push(needed);
                one.dependency_paths.push(path);
                continue;
            }
            let id = one.node.id;
            let problem =
                format!("{id} depends on {needed}, which runs later: phases run in order");
            let allowed = "nodes of the same or an earlier phase, or `phaseOrder: parallel`";
            problems.add(path, problem, allowed);
        }
        if let (Tier::Phase, Some(before)) = (one.node.id.tier(), own.checked_sub(1))
            && !one.node.depends_on.contains(&phases[before])
        {
            one.node.depends_on.push(phases[before]);
            one.dependency_paths.push(format!("{}.deps", one.path));
        }
    }
}

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
        problems.add(format!("{path}.deps"), problem, "dependencies without a cycle");
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
