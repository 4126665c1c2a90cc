//! The dependency graph of an epic: which nodes are leaves, what each waits for, which have
//! become ready, and which dependencies go round in a circle (spec 05).
//! It decides nothing about statuses beyond readiness; deriving them is in `rollup`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use crate::id::{NodeId, Tier};
use crate::plan::folding::FoldedChildren;
use crate::plan::rollup::rollup;
use crate::plan::{Node, NodeStatus};

/// Whether a node of the plan is one that agents are assigned to: a subtask, or a task without
/// subtasks (spec 05). A phase never is.
#[must_use]
pub fn is_leaf(nodes: &BTreeMap<NodeId, Node>, id: NodeId) -> bool {
    let mut after = nodes.range((Bound::Excluded(id), Bound::Unbounded));
    let has_child = after.next().is_some_and(|(next, _)| next.parent() == Some(id));
    id.tier() != Tier::Phase && !has_child && nodes.contains_key(&id)
}

/// The leaves of a plan, in its order.
#[must_use]
pub fn leaves(nodes: &BTreeMap<NodeId, Node>) -> Vec<NodeId> {
    nodes.keys().copied().filter(|id| is_leaf(nodes, *id)).collect()
}

/// Whether a node is another one or stands below it.
#[must_use]
pub fn is_within(id: NodeId, container: NodeId) -> bool {
    lineage(id).any(|above| above == container)
}

/// What a node waits for as the plan says it: its own dependencies and those of the task and
/// the phase it belongs to.
#[must_use]
pub fn dependencies(nodes: &BTreeMap<NodeId, Node>, id: NodeId) -> BTreeSet<NodeId> {
    lineage(id)
        .filter_map(|above| nodes.get(&above))
        .flat_map(|node| &node.depends_on)
        .copied()
        .collect()
}

/// The leaves that a node waits for: [`dependencies`] with phases and tasks replaced by all
/// the leaves below them.
#[must_use]
pub fn effective_dependencies(nodes: &BTreeMap<NodeId, Node>, id: NodeId) -> BTreeSet<NodeId> {
    let below = |container: NodeId| {
        nodes
            .range(container..)
            .map(|(id, _)| *id)
            .take_while(move |id| is_within(*id, container))
            .filter(|id| is_leaf(nodes, *id))
    };
    dependencies(nodes, id).into_iter().flat_map(below).collect()
}

/// The leaves in `todo` for which everything they depend on is done, in the plan's order.
///
/// A dependency on a phase or task holds when its derived status is `done`, so one that has a
/// cancelled leaf beside done ones holds too (spec 05). `statuses` needs the leaves only; a
/// leaf without one counts as `todo`. A dependency that is not in the plan never holds.
#[must_use]
pub fn newly_ready(
    nodes: &BTreeMap<NodeId, Node>,
    statuses: &BTreeMap<NodeId, NodeStatus>,
    folded: &FoldedChildren,
) -> Vec<NodeId> {
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let derived = rollup(statuses, &ids, folded).statuses;
    let stands = |id: &NodeId, wanted| derived.get(id) == Some(&wanted);
    let waits = |id: NodeId| {
        lineage(id)
            .filter_map(|above| nodes.get(&above))
            .flat_map(|node| &node.depends_on)
            .any(|needed| !nodes.contains_key(needed) || !stands(needed, NodeStatus::Done))
    };
    leaves(nodes).into_iter().filter(|id| stands(id, NodeStatus::Todo) && !waits(*id)).collect()
}

/// Dependencies that go round in a circle: one shortest closed path for each set of nodes that
/// wait for each other, starting at the first of them in the plan's order. `a, b` in a path
/// means that a depends on b, or that the one belongs to the other.
///
/// Takes every node with what it depends on; dependencies on unknown nodes are ignored.
#[must_use]
pub fn cycles<'a>(nodes: impl IntoIterator<Item = (NodeId, &'a [NodeId])>) -> Vec<Vec<NodeId>> {
    let waiting = Waiting::of(nodes.into_iter().collect());
    // No edge leads from a vertex to itself, so one alone waits for nothing of its own.
    let mut found: Vec<Vec<NodeId>> = kosaraju_scc(&waiting.graph)
        .into_iter()
        .filter(|knot| knot.len() > 1)
        .filter_map(|knot| waiting.shortest_cycle(&knot.into_iter().collect()))
        .collect();
    found.sort();
    found
}

/// A cycle as people read it: `T1.1 -> T1.2 -> T1.1`.
#[must_use]
pub fn cycle_text(cycle: &[NodeId]) -> String {
    cycle.iter().map(ToString::to_string).collect::<Vec<_>>().join(" -> ")
}

/// A node, then what it belongs to.
fn lineage(id: NodeId) -> impl Iterator<Item = NodeId> {
    std::iter::successors(Some(id), |id| id.parent())
}

/// What has to happen before what. Every node is two vertices, its beginning and its end; that
/// keeps the graph linear in the plan where one phase waits for another.
struct Waiting {
    ids: Vec<NodeId>,
    /// Edges lead from the earlier to the later; the weight tells dependencies from the edges
    /// within and between tiers.
    graph: DiGraph<(), bool>,
}

impl Waiting {
    fn of(nodes: BTreeMap<NodeId, &[NodeId]>) -> Self {
        let ids: Vec<NodeId> = nodes.keys().copied().collect();
        let place = |id: &NodeId| ids.binary_search(id).ok();
        let mut graph = DiGraph::with_capacity(ids.len() * 2, ids.len() * 4);
        for _ in 0..ids.len() * 2 {
            graph.add_node(());
        }
        for (own, (id, depends_on)) in nodes.into_iter().enumerate() {
            graph.add_edge(begin(own), end(own), false);
            if let Some(parent) = id.parent().and_then(|parent| place(&parent)) {
                graph.add_edge(begin(parent), begin(own), false);
                graph.add_edge(end(own), end(parent), false);
            }
            for needed in depends_on.iter().filter_map(place) {
                graph.add_edge(end(needed), begin(own), true);
            }
        }
        Self { ids, graph }
    }

    /// The shortest way from the first node that waits within a knot back to itself.
    fn shortest_cycle(&self, knot: &BTreeSet<NodeIndex>) -> Option<Vec<NodeId>> {
        let waits = |at: &NodeIndex| {
            let mut before = self.graph.edges_directed(*at, petgraph::Direction::Incoming);
            before.any(|edge| *edge.weight() && knot.contains(&edge.source()))
        };
        let home = knot.iter().copied().find(waits)?;
        let mut came_by = BTreeMap::new();
        let mut queue = VecDeque::from([home]);
        while let Some(at) = queue.pop_front() {
            for edge in self.graph.edges(at).filter(|edge| knot.contains(&edge.target())) {
                if came_by.contains_key(&edge.target()) {
                    continue;
                }
                came_by.insert(edge.target(), (at, *edge.weight()));
                queue.push_back(edge.target());
            }
            if came_by.contains_key(&home) {
                break;
            }
        }
        let mut path = vec![self.id(home)];
        let mut at = home;
        loop {
            let (before, dependency) = *came_by.get(&at)?;
            if dependency {
                for id in [self.id(at), self.id(before)] {
                    if path.last() != Some(&id) {
                        path.push(id);
                    }
                }
            }
            at = before;
            if at == home {
                break;
            }
        }
        // Open where the path came in from above or below, or where a node waits for itself.
        if path.last() != path.first() || path.len() == 1 {
            path.push(self.id(home));
        }
        Some(path)
    }

    fn id(&self, vertex: NodeIndex) -> NodeId {
        self.ids[vertex.index() / 2]
    }
}

fn begin(place: usize) -> NodeIndex {
    NodeIndex::new(place * 2)
}

fn end(place: usize) -> NodeIndex {
    NodeIndex::new(place * 2 + 1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::brief::Tools;
    use crate::budget::Limits;
    use crate::overseer::policy::RecoveryPolicy;
    use crate::plan::PlacementWish;
    use crate::role::Role;
    use proptest::prelude::*;

    fn id(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    fn node(id: NodeId, depends_on: Vec<NodeId>) -> Node {
        Node {
            id,
            name: String::new(),
            objective: String::new(),
            acceptance: Vec::new(),
            expected_outcome: String::new(),
            definition_of_done: String::new(),
            estimated_effort: String::new(),
            risk_level: None,
            depends_on,
            role: Role::Worker,
            domain: None,
            profile: None,
            tools: Tools::default(),
            key_facts: Vec::new(),
            output_schema: None,
            scope_paths: Vec::new(),
            budget: Limits::default(),
            wall: None,
            max_attempts: 1,
            review: None,
            placement: PlacementWish::default(),
            recovery: RecoveryPolicy::default(),
            spawned: false,
            added: 0,
            defined: 0,
        }
    }

    /// A plan written as `id` or `id: dependency dependency`.
    pub(in crate::plan) fn plan(lines: &[&str]) -> BTreeMap<NodeId, Node> {
        let read = |line: &&str| {
            let (own, needed) = line.split_once(':').unwrap_or((line, ""));
            (id(own), node(id(own), needed.split_whitespace().map(id).collect()))
        };
        lines.iter().map(read).collect()
    }

    fn texts(ids: impl IntoIterator<Item = NodeId>) -> Vec<String> {
        ids.into_iter().map(|id| id.to_string()).collect()
    }

    fn cycles_of(lines: &[&str]) -> Vec<String> {
        let nodes = plan(lines);
        let found = cycles(nodes.iter().map(|(id, node)| (*id, node.depends_on.as_slice())));
        found.iter().map(|cycle| cycle_text(cycle)).collect()
    }

    #[test]
    fn leaves_are_subtasks_and_tasks_without_any() {
        let nodes = plan(&["P1", "T1.1", "S1.1.1", "S1.1.2", "T1.2", "P2", "T2.1"]);
        assert_eq!(texts(leaves(&nodes)), ["S1.1.1", "S1.1.2", "T1.2", "T2.1"]);
        assert!(!is_leaf(&nodes, id("P2")) && !is_leaf(&nodes, id("T1.1")));
        assert!(!is_leaf(&nodes, id("T9.9")));
    }

    #[test]
    fn dependencies_are_inherited_and_reach_every_leaf_below() {
        let nodes = plan(&["P1", "T1.1", "S1.1.1", "S1.1.2", "T1.2", "P2:P1", "T2.1", "T2.2:T2.1"]);
        assert_eq!(texts(dependencies(&nodes, id("T2.2"))), ["P1", "T2.1"]);
        assert_eq!(
            texts(effective_dependencies(&nodes, id("T2.2"))),
            ["S1.1.1", "S1.1.2", "T1.2", "T2.1"]
        );
        assert!(effective_dependencies(&nodes, id("T1.2")).is_empty());
    }

    #[test]
    fn leaf_is_ready_when_its_dependencies_are_done() {
        use NodeStatus::{Cancelled, Done, InProgress, Queued, Todo};
        let nodes = plan(&["P1", "T1.1", "T1.2", "P2:P1", "T2.1", "T2.2:T2.1"]);
        let ready = |first, second, third| {
            let statuses = [("T1.1", first), ("T1.2", second), ("T2.1", third)];
            texts(newly_ready(
                &nodes,
                &statuses.into_iter().map(|(t, s)| (id(t), s)).collect(),
                &FoldedChildren::new(),
            ))
        };
        assert_eq!(ready(Todo, Queued, Todo), ["T1.1"]);
        assert_eq!(ready(Done, InProgress, Todo), Vec::<String>::new());
        assert_eq!(ready(Done, Done, Todo), ["T2.1"]);
        assert_eq!(ready(Done, Done, Done), ["T2.2"]);
        // The phase is done although one of its tasks was given up.
        assert_eq!(ready(Done, Cancelled, Todo), ["T2.1"]);
        assert_eq!(ready(Cancelled, Cancelled, Todo), Vec::<String>::new());
        assert_eq!(ready(Done, Done, Cancelled), Vec::<String>::new());
    }

    #[test]
    fn unknown_dependency_blocks_nothing() {
        assert!(
            newly_ready(&plan(&["P1", "T1.1:T1.2"]), &BTreeMap::new(), &FoldedChildren::new())
                .is_empty()
        );
    }

    #[test]
    fn cycles_are_named() {
        assert_eq!(cycles_of(&["P1", "T1.1", "T1.2:T1.1", "T1.3:T1.1 T1.2"]), Vec::<String>::new());
        assert_eq!(cycles_of(&["P1", "T1.1:T1.1"]), ["T1.1 -> T1.1"]);
        assert_eq!(cycles_of(&["P1", "T1.1:T1.2", "T1.2:T1.1"]), ["T1.1 -> T1.2 -> T1.1"]);
        assert_eq!(
            cycles_of(&["P1", "T1.1:T1.2", "T1.2:T1.3", "T1.3:T1.1", "T1.4:T1.1"]),
            ["T1.1 -> T1.2 -> T1.3 -> T1.1"]
        );
        assert_eq!(cycles_of(&["P1:P2", "T1.1", "P2:P1", "T2.1"]), ["P1 -> P2 -> P1"]);
        assert_eq!(
            cycles_of(&["P1", "T1.1:T1.2", "T1.2:T1.1", "P2", "T2.1:T2.2", "T2.2:T2.1"]),
            ["T1.1 -> T1.2 -> T1.1", "T2.1 -> T2.2 -> T2.1"]
        );
    }

    #[test]
    fn cycles_through_the_tiers_are_found() {
        assert_eq!(
            cycles_of(&["P1", "T1.1:P2", "P2", "T2.1:T1.1"]),
            ["T1.1 -> P2 -> T2.1 -> T1.1"]
        );
        assert_eq!(cycles_of(&["P1", "T1.1:P1"]), ["T1.1 -> P1 -> T1.1"]);
        assert_eq!(cycles_of(&["P1:T1.1", "T1.1"]), ["P1 -> T1.1 -> P1"]);
        assert_eq!(
            cycles_of(&["P1:T2.1", "T1.1", "P2", "T2.1:S2.2.1", "T2.2:T1.1", "S2.2.1"]),
            ["P1 -> T2.1 -> S2.2.1 -> T2.2 -> T1.1 -> P1"]
        );
    }

    #[test]
    fn long_chains_are_followed_to_their_end() {
        let chain = |last: Vec<NodeId>| {
            let mut nodes: BTreeMap<NodeId, Node> = (2..10_000u32)
                .map(|n| {
                    (NodeId::task(1, n), node(NodeId::task(1, n), vec![NodeId::task(1, n - 1)]))
                })
                .collect();
            nodes.insert(NodeId::task(1, 1), node(NodeId::task(1, 1), last));
            nodes
        };
        let found = |nodes: &BTreeMap<NodeId, Node>| {
            cycles(nodes.iter().map(|(id, node)| (*id, node.depends_on.as_slice())))
        };
        assert!(found(&chain(Vec::new())).is_empty());
        assert_eq!(found(&chain(vec![NodeId::task(1, 9_999)]))[0].len(), 10_000);
        assert_eq!(
            newly_ready(&chain(Vec::new()), &BTreeMap::new(), &FoldedChildren::new()),
            [NodeId::task(1, 1)]
        );
    }

    proptest! {
        /// A cycle is found exactly when working through what is ready cannot finish the plan.
        #[test]
        fn acyclic_plan_can_be_finished(
            edges in prop::collection::vec((0usize..11, 0usize..11), 0..9),
        ) {
            const IDS: [&str; 11] =
                ["P1", "T1.1", "S1.1.1", "S1.1.2", "T1.2", "P2", "T2.1", "T2.2", "P3", "T3.1", "S3.1.1"];
            let mut nodes = plan(&IDS);
            for (from, to) in edges {
                nodes.get_mut(&id(IDS[from])).unwrap().depends_on.push(id(IDS[to]));
            }
            let mut statuses = BTreeMap::new();
            loop {
                let ready = newly_ready(&nodes, &statuses, &FoldedChildren::new());
                if ready.is_empty() {
                    break;
                }
                statuses.extend(ready.into_iter().map(|id| (id, NodeStatus::Done)));
            }
            let finished = statuses.len() == leaves(&nodes).len();
            let found = cycles(nodes.iter().map(|(id, node)| (*id, node.depends_on.as_slice())));
            prop_assert_eq!(finished, found.is_empty(), "{:?}", found);
        }
    }
}
