//! A plan as lines: phases with their tasks and subtasks, where each stands, who works on it, and which of them
//! the plan's length hangs on (spec 05, Insights).

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::id::{AgentId, EpicId, NodeId};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::graph::is_leaf;
use tetrarch_core::plan::insight::of_plan;

use crate::fold::RecordFold;

/// One node of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineLine {
    /// Its id.
    pub id: NodeId,
    /// Levels below a phase.
    pub depth: usize,
    /// Its name.
    pub title: String,
    /// Where it stands.
    pub status: NodeStatus,
    /// Attempts that were begun, and those that it has; none of what is made of others.
    pub attempts: Option<(u32, u32)>,
    /// Who works on it.
    pub who: Vec<AgentId>,
    /// Whether the longest chain of dependencies goes through it.
    pub critical: bool,
    /// Leaves below it that are settled, and all of them.
    pub settled: (usize, usize),
    /// Why it does not go on; empty while it does.
    pub blocked: String,
}

/// The lines of a plan, in its order; none of a plan that is not known.
#[must_use]
pub fn outline(fold: &RecordFold, epic: EpicId) -> Vec<OutlineLine> {
    let records = &fold.records;
    let Some(nodes) = records.nodes.get(&epic) else { return Vec::new() };
    let none = BTreeMap::new();
    let states = records.node_states.get(&epic).unwrap_or(&none);
    let statuses = states.iter().map(|(id, state)| (*id, state.status)).collect();
    let critical: BTreeSet<NodeId> = of_plan(nodes, &statuses).critical_path.into_iter().collect();
    let mut below: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
    for id in nodes.keys().filter(|id| is_leaf(nodes, **id)) {
        let settled = usize::from(fold.node_status(epic, *id).is_settled());
        for above in std::iter::successors(Some(*id), |id| id.parent()) {
            let counts = below.entry(above).or_default();
            *counts = (counts.0 + settled, counts.1 + 1);
        }
    }
    let line = |(id, node): (&NodeId, &tetrarch_core::plan::Node)| {
        let state = states.get(id).filter(|_| is_leaf(nodes, *id));
        let who = state.and_then(|state| state.assignee.clone());
        let lives = |agent: &AgentId| {
            let known = records.agents.get(agent);
            known.is_some_and(|agent| agent.liveness != Liveness::Terminated)
        };
        OutlineLine {
            id: *id,
            depth: std::iter::successors(id.parent(), |id| id.parent()).count(),
            title: node.name.clone(),
            status: fold.node_status(epic, *id),
            attempts: state.map(|state| (state.attempts, node.max_attempts)),
            who: who.into_iter().filter(lives).collect(),
            critical: critical.contains(id),
            settled: below.get(id).copied().unwrap_or_default(),
            blocked: state
                .and_then(|state| state.blocker.as_ref())
                .map(|blocker| format!("{}: {}", blocker.kind, blocker.detail))
                .unwrap_or_default(),
        }
    };
    nodes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{node, node_state, worker};
    use tetrarch_core::id::Ulid;
    use tetrarch_core::ledger::Record;

    #[test]
    fn outline_shows_progress_workers_and_the_critical_path() {
        let epic = EpicId(Ulid::from_parts(1, 7));
        let busy = worker(2, 2, Liveness::Active);
        let mut second = node("T1.2", "two");
        second.depends_on = vec!["T1.1".parse().unwrap()];
        let nodes = [node("P1", "all"), node("T1.1", "one"), second, node("T1.3", "three")];
        let mut working = node_state("T1.2", NodeStatus::InProgress);
        (working.assignee, working.attempts) = (Some(busy.id.clone()), 1);
        let mut fold = RecordFold::default();
        fold.add(nodes.map(|node| (Record::Node(epic, Box::new(node)), 1)));
        fold.add([
            (Record::Agent(Box::new(busy.clone())), 1),
            (Record::NodeState(epic, Box::new(node_state("T1.1", NodeStatus::Done))), 1),
            (Record::NodeState(epic, Box::new(working)), 1),
        ]);
        let lines = outline(&fold, epic);
        let shown: Vec<_> = lines
            .iter()
            .map(|line| (line.id.to_string(), line.depth, line.status, line.critical, line.settled))
            .collect();
        use NodeStatus::{Done, InProgress, Todo};
        assert_eq!(
            shown,
            [
                ("P1".to_owned(), 0, InProgress, false, (1, 3)),
                ("T1.1".to_owned(), 1, Done, true, (1, 1)),
                ("T1.2".to_owned(), 1, InProgress, true, (0, 1)),
                ("T1.3".to_owned(), 1, Todo, false, (0, 1)),
            ]
        );
        assert_eq!(lines[2].who, [busy.id]);
        assert_eq!((lines[2].attempts, lines[0].attempts), (Some((1, 1)), None));
    }
}
