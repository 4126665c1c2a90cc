//! Whether work is better cut up among agents or left to one: one judgement, for `advise`, for
//! the planner, whose prompt has `splitting.txt`, and for what the overseer proposes.

use std::collections::BTreeSet;

use super::{ATTEMPTS_EXHAUSTED, Node, NodeState, NodeStatus};
use crate::id::Tier;
use crate::limits::{CRITERIA_MAX, CRITERIA_OF_PART, TRIVIAL_OBJECTIVE_BYTES};

/// What speaks for and against cutting a leaf up, in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weighed {
    /// Why it is too much for one agent.
    pub pros: Vec<String>,
    /// Why more agents would not help.
    pub cons: Vec<&'static str>,
}

impl Weighed {
    /// Whether it is better cut up.
    #[must_use]
    pub fn splits(&self) -> bool {
        !self.pros.is_empty() && self.cons.is_empty()
    }
}

/// Weighs a leaf as it stands.
#[must_use]
pub fn weigh(node: &Node, state: &NodeState) -> Weighed {
    let criteria = node.acceptance.len();
    let blocked = state.blocker.as_ref().filter(|_| state.status == NodeStatus::Blocked);
    let exhausted = blocked.is_some_and(|blocker| blocker.kind == ATTEMPTS_EXHAUSTED);
    let places = places(&node.scope_paths);
    let apart = places.len() > 1 && criteria > CRITERIA_OF_PART;
    let many = format!("{} has {criteria} criteria, more than {CRITERIA_MAX}", node.id);
    let failed = format!("{} failed {} times as a whole", node.id, state.attempts);
    let parts =
        format!("its parts lie apart: {}", places.into_iter().collect::<Vec<_>>().join(", "));
    let pros = [(criteria > CRITERIA_MAX, many), (exhausted, failed), (apart, parts)];
    let cons = [
        (node.id.tier() != Tier::Task, "no level is left below it"),
        (criteria < 2, "it has one thing to show"),
        (is_trivial(node), "it is small: an agent more costs more than it saves"),
        (blocked.is_some() && !exhausted, "it is blocked"),
    ];
    Weighed {
        pros: pros.into_iter().filter(|(is_so, _)| *is_so).map(|(_, why)| why).collect(),
        cons: cons.into_iter().filter(|(is_so, _)| *is_so).map(|(_, why)| why).collect(),
    }
}

/// One short sentence with one thing to show.
pub(super) fn is_trivial(node: &Node) -> bool {
    node.acceptance.len() <= 1
        && node.objective.len() <= TRIVIAL_OBJECTIVE_BYTES
        && node.name.len() <= TRIVIAL_OBJECTIVE_BYTES
        && node.definition_of_done.is_empty()
        && node.expected_outcome.is_empty()
}

/// The directories at the top that paths lie in.
fn places(paths: &[String]) -> BTreeSet<&str> {
    paths.iter().filter_map(|path| path.trim_start_matches("./").split('/').next()).collect()
}
