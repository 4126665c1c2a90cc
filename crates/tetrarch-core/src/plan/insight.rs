//! What the shape of a plan says (spec 05, Insights): orders, paths, degrees, circles and
//! importance. An edge `a -> b` says that a depends on b. Names are whatever the caller has: work
//! nodes, or texts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use petgraph::algo::kosaraju_scc;
use petgraph::csr::Csr;
use petgraph::graph::DiGraph;

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
    let pending: Vec<bool> = shape.names.iter().map(|name| !done.contains(name)).collect();
    let named = |places: &[usize]| -> Vec<K> {
        places.iter().map(|place| shape.names[*place].clone()).collect()
    };
    let degrees = |edges: &Edges| {
        let of = |(place, name): (usize, &K)| (name.clone(), edges.neighbors_slice(place).len());
        shape.names.iter().enumerate().map(of).collect()
    };
    let ready: Vec<usize> = (0..shape.names.len())
        .filter(|place| pending[*place] && !shape.needs(*place).iter().any(|at| pending[*at]))
        .collect();
    let ranks = shape.pagerank();
    Insights {
        topological: named(&order),
        critical_path: named(&shape.critical_path(&longest)),
        longest: shape
            .names
            .iter()
            .zip(&longest)
            .filter_map(|(name, edges)| Some((name.clone(), (*edges)?)))
            .collect(),
        in_degree: degrees(&shape.dependents),
        out_degree: degrees(&shape.needs),
        cycles: shape.cycles(&longest).iter().map(|knot| named(knot)).collect(),
        pagerank: shape.names.iter().cloned().zip(ranks).collect(),
        ready: named(&ready),
        bottlenecks: shape.bottlenecks(&order, &pending),
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

/// Edges by the place of the name they leave, each node's in the order of places.
type Edges = Csr<(), (), petgraph::Directed, usize>;

/// The graph with its names in their order, so that a lower place is an earlier name.
struct Shape<K> {
    names: Vec<K>,
    needs: Edges,
    dependents: Edges,
    unknown: Vec<(K, K)>,
}

impl<K: Ord + Clone> Shape<K> {
    fn of(nodes: &BTreeSet<K>, edges: &[(K, K)]) -> Self {
        let names: Vec<K> = nodes.iter().cloned().collect();
        let place = |name: &K| names.binary_search(name).ok();
        let (mut known, mut unknown) = (Vec::with_capacity(edges.len()), Vec::new());
        for (from, to) in edges {
            match (place(from), place(to)) {
                (Some(from), Some(to)) if from != to => known.push((from, to)),
                (Some(_), Some(_)) => {}
                (_, _) => unknown.push((from.clone(), to.clone())),
            }
        }
        let needs = listed(names.len(), &mut known);
        known.iter_mut().for_each(|(from, to)| std::mem::swap(from, to));
        let dependents = listed(names.len(), &mut known);
        Self { names, needs, dependents, unknown }
    }

    fn needs(&self, at: usize) -> &[usize] {
        self.needs.neighbors_slice(at)
    }

    fn dependents(&self, at: usize) -> &[usize] {
        self.dependents.neighbors_slice(at)
    }

    /// What is depended on first; of what could come next, the first name.
    fn order(&self) -> Vec<usize> {
        let mut waits: Vec<usize> = (0..self.names.len()).map(|at| self.needs(at).len()).collect();
        let free = |at: &usize| waits[*at] == 0;
        let mut next: BinaryHeap<_> = (0..self.names.len()).filter(free).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.names.len());
        while let Some(Reverse(at)) = next.pop() {
            order.push(at);
            for dependent in self.dependents(at) {
                waits[*dependent] -= 1;
                if waits[*dependent] == 0 {
                    next.push(Reverse(*dependent));
                }
            }
        }
        order
    }

    /// Edges of the longest path from each place; none for what is not in the order.
    fn longest(&self, order: &[usize]) -> Vec<Option<usize>> {
        let mut longest = vec![None; self.names.len()];
        for at in order {
            let below = self.needs(*at).iter().filter_map(|needed| longest[*needed]).max();
            longest[*at] = Some(below.map_or(0, |edges: usize| edges + 1));
        }
        longest
    }

    fn critical_path(&self, longest: &[Option<usize>]) -> Vec<usize> {
        let Some(most) = longest.iter().flatten().max() else { return Vec::new() };
        let mut path = Vec::with_capacity(most + 1);
        let mut next = longest.iter().position(|edges| edges.as_ref() == Some(most));
        while let Some(at) = next {
            path.push(at);
            let left = longest[at].and_then(|edges| edges.checked_sub(1));
            let goes_on = |needed: &&usize| left.is_some() && longest[**needed] == left;
            next = self.needs(at).iter().find(goes_on).copied();
        }
        path.reverse();
        path
    }

    /// Looked for only among what the order has no place for.
    fn cycles(&self, longest: &[Option<usize>]) -> Vec<Vec<usize>> {
        let knotted: Vec<usize> =
            (0..self.names.len()).filter(|at| longest[*at].is_none()).collect();
        let mut graph = DiGraph::<usize, ()>::with_capacity(knotted.len(), 0);
        let vertices: BTreeMap<usize, _> =
            knotted.iter().map(|at| (*at, graph.add_node(*at))).collect();
        for (at, vertex) in &vertices {
            for needed in self.needs(*at).iter().filter_map(|needed| vertices.get(needed)) {
                graph.add_edge(*vertex, *needed, ());
            }
        }
        let mut knots: Vec<Vec<usize>> = kosaraju_scc(&graph)
            .into_iter()
            .filter(|knot| knot.len() > 1)
            .map(|knot| knot.into_iter().map(|vertex| graph[vertex]).collect())
            .collect();
        knots.iter_mut().for_each(|knot| knot.sort_unstable());
        knots.sort_unstable();
        knots
    }

    /// Power iteration; what depends on nothing hands its rank to all alike.
    fn pagerank(&self) -> Vec<f64> {
        let count = self.names.len();
        let share = 1.0 / count as f64;
        let mut ranks = vec![share; count];
        let mut handed = vec![0.0; count];
        for _ in 0..PAGERANK_ROUNDS_MAX {
            let mut lost = 0.0;
            for (at, rank) in ranks.iter().enumerate() {
                let needed = self.needs(at).len();
                if needed == 0 {
                    lost += rank;
                }
                handed[at] = rank / needed.max(1) as f64;
            }
            let all = (1.0 - PAGERANK_DAMPING) * share + PAGERANK_DAMPING * lost * share;
            let mut moved = 0.0;
            for (at, rank) in ranks.iter_mut().enumerate() {
                let given: f64 = self.dependents(at).iter().map(|from| handed[*from]).sum();
                let next = all + PAGERANK_DAMPING * given;
                moved += (next - *rank).abs();
                *rank = next;
            }
            if moved < PAGERANK_TOLERANCE {
                break;
            }
        }
        ranks
    }

    /// How many pending nodes wait for each pending node, over any number of steps. Counted from the
    /// end of the order back, with the waiting ones as bits, kept only until all that they wait for
    /// has been counted.
    fn bottlenecks(&self, order: &[usize], pending: &[bool]) -> Vec<(K, usize)> {
        let words = self.names.len().div_ceil(64);
        let mut waiting: Vec<Vec<u64>> = vec![Vec::new(); self.names.len()];
        let mut uncounted: Vec<usize> =
            (0..self.names.len()).map(|at| self.needs(at).len()).collect();
        let mut spare: Vec<Vec<u64>> = Vec::new();
        let mut found = Vec::new();
        for at in order.iter().rev().copied() {
            let mut bits = spare.pop().unwrap_or_else(|| vec![0; words]);
            bits.fill(0);
            for dependent in self.dependents(at).iter().copied() {
                bits.iter_mut().zip(&waiting[dependent]).for_each(|(bits, more)| *bits |= more);
                if pending[dependent] {
                    bits[dependent / 64] |= 1 << (dependent % 64);
                }
                uncounted[dependent] -= 1;
                if uncounted[dependent] == 0 && !waiting[dependent].is_empty() {
                    spare.push(std::mem::take(&mut waiting[dependent]));
                }
            }
            if pending[at] {
                let held: usize = bits.iter().map(|bits| bits.count_ones() as usize).sum();
                found.extend((held > 0).then_some((held, at)));
            }
            let unneeded = self.needs(at).is_empty();
            if unneeded { spare.push(bits) } else { waiting[at] = bits }
        }
        found.sort_unstable_by_key(|(held, at)| (Reverse(*held), *at));
        found.into_iter().map(|(held, at)| (self.names[at].clone(), held)).collect()
    }
}

/// Edges in their order and once each, and as what leaves each of so many places.
#[expect(clippy::expect_used, reason = "they have just been sorted and freed of repeats")]
fn listed(count: usize, edges: &mut Vec<(usize, usize)>) -> Edges {
    edges.sort_unstable();
    edges.dedup();
    let mut listed = Edges::from_sorted_edges(edges).expect("edges are in their order");
    while listed.node_count() < count {
        listed.add_node(());
    }
    listed
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
    fn diamond_has_its_known_figures() {
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
    fn done_work_blocks_nothing() {
        let nodes = ["a", "b", "c"].into();
        let found = insights(&nodes, &[("b", "a"), ("c", "b")], &["a"].into());
        assert_eq!(found.ready, ["b"]);
        assert_eq!(found.bottlenecks, [("b", 1)]);
    }

    #[test]
    fn cycles_are_node_sets_and_end_no_path() {
        let found = of(&["a", "b", "c", "d"], &[("a", "b"), ("b", "a"), ("c", "a"), ("d", "d")]);
        assert_eq!(found.cycles, [["a", "b"]]);
        assert_eq!(found.topological, ["d"]);
        assert_eq!(found.critical_path, ["d"]);
        assert_eq!(found.longest, [("d", 0)].into());
    }

    #[test]
    fn unknown_edges_are_reported_and_ignored_and_repeats_count_once() {
        let found = of(&["a", "b"], &[("a", "z"), ("z", "b"), ("a", "b"), ("a", "b")]);
        assert_eq!(found.unknown, [("a", "z"), ("z", "b")]);
        assert_eq!(found.out_degree, [("a", 1), ("b", 0)].into());
    }

    #[test]
    fn only_leaves_count_and_only_unstarted_ones_are_ready() {
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
    fn empty_plan_has_empty_figures() {
        let found = of(&[], &[]);
        assert!(found.topological.is_empty() && found.critical_path.is_empty());
        assert!(found.pagerank.is_empty() && found.ready.is_empty());
    }

    #[test]
    fn pagerank_matches_known_values() {
        // One dangling node beside a chain of two: solved by hand.
        let found = of(&["a", "b"], &[("a", "b")]);
        let a = 1.0 / (2.0 + 0.85);
        assert!((found.pagerank["a"] - a).abs() < 1e-6, "{:?}", found.pagerank);
        assert!((found.pagerank["b"] - (1.0 - a)).abs() < 1e-6);
    }
}
