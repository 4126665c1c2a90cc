//! What the shape of a plan says (spec 05, Insights): orders, paths, degrees, circles and
//! importance. An edge `a -> b` says that a depends on b. Names are whatever the caller has: work
//! nodes, or texts.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Node, NodeStatus, graph};
use crate::id::NodeId;
use crate::limits::{PAGERANK_DAMPING, PAGERANK_ROUNDS_MAX, PAGERANK_TOLERANCE};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Insights<K: Ord> {
    /// What is depended on before what depends on it, equals in their order; what is in a circle,
    /// or waits for one, is missing.
    pub topological: Vec<K>,
    /// The longest chain of dependencies, in the order it is worked through.
    pub critical_path: Vec<K>,
    /// Edges of the longest path from each node to one that depends on nothing; what is in a circle,
    /// or waits for one, is missing.
    pub longest: BTreeMap<K, usize>,
    /// How many depend on each node.
    pub in_degree: BTreeMap<K, usize>,
    /// On how many each node depends.
    pub out_degree: BTreeMap<K, usize>,
    /// Sets of nodes that wait for each other.
    pub cycles: Vec<Vec<K>>,
    /// How much of the plan rests on each node; all of them together are 1.
    pub pagerank: BTreeMap<K, f64>,
    /// What is not done and depends only on what is.
    pub ready: Vec<K>,
    /// What is not done and holds up the most others, directly or not; most first, none that holds
    /// up nothing.
    pub bottlenecks: Vec<(K, usize)>,
    /// Edges that lead to or from a name that is no node; they are ignored.
    pub unknown: Vec<(K, K)>,
}

/// Looks at a graph. Edges from a node to itself are ignored, and so are repeated ones.
#[must_use]
pub fn insights<K: Ord + Clone>(
    nodes: &BTreeSet<K>,
    edges: &[(K, K)],
    done: &BTreeSet<K>,
) -> Insights<K> {
    let shape = Shape::of(nodes, edges);
    let order = shape.order();
    let longest = shape.longest(&order);
    let name = |index: &NodeIndex| shape.names[index.index()].clone();
    let degree = |direction| {
        let of = |index| (name(&index), shape.graph.neighbors_directed(index, direction).count());
        shape.graph.node_indices().map(of).collect()
    };
    let pending = |index: &NodeIndex| !done.contains(&shape.names[index.index()]);
    let ready = |index: &NodeIndex| {
        pending(index) && !shape.graph.neighbors(*index).any(|needed| pending(&needed))
    };
    let ranks = shape.pagerank();
    Insights {
        topological: order.iter().map(name).collect(),
        critical_path: shape.critical_path(&longest).iter().map(name).collect(),
        longest: longest.iter().map(|(index, edges)| (name(index), *edges)).collect(),
        in_degree: degree(Direction::Incoming),
        out_degree: degree(Direction::Outgoing),
        cycles: shape.cycles().iter().map(|knot| knot.iter().map(name).collect()).collect(),
        pagerank: shape.names.iter().cloned().zip(ranks).collect(),
        ready: shape.graph.node_indices().filter(ready).map(|index| name(&index)).collect(),
        bottlenecks: shape.bottlenecks(&order, pending),
        unknown: shape.unknown,
    }
}

/// Looks at a plan's leaves: what each waits for, with phases and tasks replaced by what is below
/// them. Ready is what nobody works on yet.
#[must_use]
pub fn of_plan(
    nodes: &BTreeMap<NodeId, Node>,
    statuses: &BTreeMap<NodeId, NodeStatus>,
) -> Insights<NodeId> {
    let leaves: BTreeSet<NodeId> = graph::leaves(nodes).into_iter().collect();
    let needs = |id: &NodeId| {
        let id = *id;
        graph::effective_dependencies(nodes, id).into_iter().map(move |needed| (id, needed))
    };
    let edges: Vec<(NodeId, NodeId)> = leaves.iter().flat_map(needs).collect();
    let status = |id: &NodeId| statuses.get(id).copied().unwrap_or(NodeStatus::Todo);
    let done = leaves.iter().filter(|id| status(id) == NodeStatus::Done).copied().collect();
    let mut found = insights(&leaves, &edges, &done);
    found.ready.retain(|id| matches!(status(id), NodeStatus::Todo | NodeStatus::Queued));
    found
}

/// The graph with its names in their order, so that a lower index is an earlier name.
struct Shape<K> {
    names: Vec<K>,
    graph: DiGraph<(), ()>,
    unknown: Vec<(K, K)>,
}

impl<K: Ord + Clone> Shape<K> {
    fn of(nodes: &BTreeSet<K>, edges: &[(K, K)]) -> Self {
        let names: Vec<K> = nodes.iter().cloned().collect();
        let place = |name: &K| names.binary_search(name).ok();
        let (mut known, mut unknown) = (BTreeSet::new(), Vec::new());
        for (from, to) in edges {
            match (place(from), place(to)) {
                (Some(from), Some(to)) if from != to => drop(known.insert((from, to))),
                (Some(_), Some(_)) => {}
                (_, _) => unknown.push((from.clone(), to.clone())),
            }
        }
        let mut graph = DiGraph::with_capacity(names.len(), known.len());
        for _ in &names {
            graph.add_node(());
        }
        for (from, to) in known {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
        Self { names, graph, unknown }
    }

    /// What is depended on first; of what could come next, the first name.
    fn order(&self) -> Vec<NodeIndex> {
        let mut waits: Vec<usize> =
            self.graph.node_indices().map(|index| self.graph.neighbors(index).count()).collect();
        let free = |index: &NodeIndex| waits[index.index()] == 0;
        let mut next: BinaryHeap<_> =
            self.graph.node_indices().filter(free).map(std::cmp::Reverse).collect();
        let mut order = Vec::with_capacity(self.names.len());
        while let Some(std::cmp::Reverse(at)) = next.pop() {
            order.push(at);
            for dependent in self.graph.neighbors_directed(at, Direction::Incoming) {
                waits[dependent.index()] -= 1;
                if waits[dependent.index()] == 0 {
                    next.push(std::cmp::Reverse(dependent));
                }
            }
        }
        order
    }

    fn longest(&self, order: &[NodeIndex]) -> BTreeMap<NodeIndex, usize> {
        let mut longest = BTreeMap::new();
        for at in order {
            let below = self.graph.neighbors(*at).filter_map(|needed| longest.get(&needed)).max();
            let edges: usize = below.map_or(0, |edges| edges + 1);
            longest.insert(*at, edges);
        }
        longest
    }

    fn critical_path(&self, longest: &BTreeMap<NodeIndex, usize>) -> Vec<NodeIndex> {
        let first_of_most = |found: Option<(NodeIndex, usize)>, (at, edges): (NodeIndex, usize)| {
            found.filter(|(_, most)| *most >= edges).or(Some((at, edges)))
        };
        let mut path = Vec::new();
        let mut next = longest.iter().map(|(at, edges)| (*at, *edges)).fold(None, first_of_most);
        while let Some((at, edges)) = next {
            path.push(at);
            let below: BTreeSet<NodeIndex> = self.graph.neighbors(at).collect();
            next = below
                .into_iter()
                .filter_map(|needed| Some((needed, *longest.get(&needed)?)))
                .find(|(_, left)| left + 1 == edges);
        }
        path.reverse();
        path
    }

    fn cycles(&self) -> Vec<Vec<NodeIndex>> {
        let mut knots = kosaraju_scc(&self.graph);
        knots.retain(|knot| knot.len() > 1);
        knots.iter_mut().for_each(|knot| knot.sort_unstable());
        knots.sort_unstable();
        knots
    }

    /// Power iteration; what depends on nothing hands its rank to all alike.
    fn pagerank(&self) -> Vec<f64> {
        let count = self.names.len();
        let share = 1.0 / count as f64;
        let mut ranks = vec![share; count];
        for _ in 0..PAGERANK_ROUNDS_MAX {
            let mut given = vec![0.0; count];
            let mut lost = 0.0;
            for at in self.graph.node_indices() {
                let rank = ranks[at.index()];
                let needed = self.graph.neighbors(at).count();
                if needed == 0 {
                    lost += rank;
                }
                for to in self.graph.neighbors(at) {
                    given[to.index()] += rank / needed as f64;
                }
            }
            let all = (1.0 - PAGERANK_DAMPING) * share + PAGERANK_DAMPING * lost * share;
            let next: Vec<f64> =
                given.into_iter().map(|given| all + PAGERANK_DAMPING * given).collect();
            let moved: f64 = next.iter().zip(&ranks).map(|(new, old)| (new - old).abs()).sum();
            ranks = next;
            if moved < PAGERANK_TOLERANCE {
                break;
            }
        }
        ranks
    }

    /// How many pending nodes wait for each pending node, over any number of steps. Counted from the
    /// end of the order back, with the waiting ones as bits.
    fn bottlenecks(
        &self,
        order: &[NodeIndex],
        pending: impl Fn(&NodeIndex) -> bool,
    ) -> Vec<(K, usize)> {
        let words = self.names.len().div_ceil(64);
        let mut waiting = vec![Vec::new(); self.names.len()];
        let mut found = Vec::new();
        for at in order.iter().rev() {
            let mut bits = vec![0u64; words];
            for dependent in self.graph.neighbors_directed(*at, Direction::Incoming) {
                let of_dependent: &Vec<u64> = &waiting[dependent.index()];
                bits.iter_mut().zip(of_dependent).for_each(|(bits, more)| *bits |= more);
                if pending(&dependent) {
                    bits[dependent.index() / 64] |= 1 << (dependent.index() % 64);
                }
            }
            let held: usize = bits.iter().map(|bits| bits.count_ones() as usize).sum();
            if held > 0 && pending(at) {
                found.push((self.names[at.index()].clone(), held));
            }
            waiting[at.index()] = bits;
        }
        found.sort_by(|(name, held), (other, more)| more.cmp(held).then_with(|| name.cmp(other)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        nodes: &[&'static str],
        edges: &[(&'static str, &'static str)],
    ) -> Insights<&'static str> {
        insights(&nodes.iter().copied().collect(), edges, &BTreeSet::new())
    }

    #[test]
    fn a_diamond() {
        // d depends on b and c, both on a; e stands alone.
        let found =
            of(&["a", "b", "c", "d", "e"], &[("d", "b"), ("d", "c"), ("b", "a"), ("c", "a")]);
        assert_eq!(found.topological, ["a", "b", "c", "d", "e"]);
        assert_eq!(found.critical_path, ["a", "b", "d"]);
        assert_eq!(found.longest, [("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 0)].into());
        assert_eq!(found.in_degree, [("a", 2), ("b", 1), ("c", 1), ("d", 0), ("e", 0)].into());
        assert_eq!(found.out_degree, [("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 0)].into());
        assert!(found.cycles.is_empty() && found.unknown.is_empty());
        assert_eq!(found.ready, ["a", "e"]);
        assert_eq!(found.bottlenecks, [("a", 3), ("b", 1), ("c", 1)]);
        let rank = |name| found.pagerank[name];
        assert!(rank("a") > rank("b") && rank("b") > rank("d"));
        assert!((rank("d") - rank("e")).abs() < 1e-9);
        assert!((found.pagerank.values().sum::<f64>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_done_holds_up_nothing() {
        let nodes = ["a", "b", "c"].into();
        let found = insights(&nodes, &[("b", "a"), ("c", "b")], &["a"].into());
        assert_eq!(found.ready, ["b"]);
        assert_eq!(found.bottlenecks, [("b", 1)]);
    }

    #[test]
    fn circles_are_sets_of_nodes_and_end_no_path() {
        let found = of(&["a", "b", "c", "d"], &[("a", "b"), ("b", "a"), ("c", "a"), ("d", "d")]);
        assert_eq!(found.cycles, [["a", "b"]]);
        assert_eq!(found.topological, ["d"]);
        assert_eq!(found.critical_path, ["d"]);
        assert_eq!(found.longest, [("d", 0)].into());
    }

    #[test]
    fn edges_to_strangers_are_told_and_ignored_and_repeated_ones_count_once() {
        let found = of(&["a", "b"], &[("a", "z"), ("z", "b"), ("a", "b"), ("a", "b")]);
        assert_eq!(found.unknown, [("a", "z"), ("z", "b")]);
        assert_eq!(found.out_degree, [("a", 1), ("b", 0)].into());
    }

    #[test]
    fn of_a_plan_only_leaves_count_and_only_what_is_not_begun_is_ready() {
        let nodes = graph::tests::plan(&["P1", "T1.1", "T1.2", "P2:P1", "T2.1"]);
        let id = |text: &str| text.parse::<NodeId>().unwrap();
        let of = |statuses: &[(&str, NodeStatus)]| {
            of_plan(&nodes, &statuses.iter().map(|(name, status)| (id(name), *status)).collect())
        };
        let fresh = of(&[]);
        assert_eq!(fresh.topological, ["T1.1", "T1.2", "T2.1"].map(id));
        assert_eq!(fresh.critical_path, ["T1.1", "T2.1"].map(id));
        assert_eq!(fresh.ready, ["T1.1", "T1.2"].map(id));
        let begun = of(&[("T1.1", NodeStatus::Done), ("T1.2", NodeStatus::InProgress)]);
        assert!(begun.ready.is_empty());
        assert_eq!(begun.bottlenecks, [(id("T1.2"), 1)]);
        let given_up = of(&[("T1.1", NodeStatus::Done), ("T1.2", NodeStatus::Cancelled)]);
        assert!(given_up.ready.is_empty(), "what waits for it is not ready either");
    }

    #[test]
    fn an_empty_plan_has_no_shape() {
        let found = of(&[], &[]);
        assert!(found.topological.is_empty() && found.critical_path.is_empty());
        assert!(found.pagerank.is_empty() && found.ready.is_empty());
    }

    #[test]
    fn pagerank_is_what_it_is_known_to_be() {
        // One dangling node beside a chain of two: solved by hand.
        let found = of(&["a", "b"], &[("a", "b")]);
        let a = 1.0 / (2.0 + 0.85);
        assert!((found.pagerank["a"] - a).abs() < 1e-6, "{:?}", found.pagerank);
        assert!((found.pagerank["b"] - (1.0 - a)).abs() < 1e-6);
    }
}
