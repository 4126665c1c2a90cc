//! A plan's leaves laid out in layers: what is depended on stands left of what depends on it.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::id::NodeId;
use tetrarch_core::plan::graph::{effective_dependencies, leaves};
use tetrarch_core::plan::insight::of_plan;
use tetrarch_core::plan::{Node, NodeStatus};

/// Where a leaf stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphPlace {
    /// The leaf.
    pub id: NodeId,
    /// How many stand before it on the longest way to it.
    pub layer: usize,
    /// Its place within the layer.
    pub row: usize,
}

/// A plan's graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanGraph {
    /// The leaves, by layer and row.
    pub places: Vec<GraphPlace>,
    /// What is depended on, and what depends on it; what follows from others is left out.
    pub edges: Vec<(NodeId, NodeId)>,
    /// The longest chain of dependencies.
    pub critical: Vec<NodeId>,
}

/// Lays a plan out. What waits for itself stands in the first layer.
#[must_use]
pub fn plan_graph(
    nodes: &BTreeMap<NodeId, Node>,
    statuses: &BTreeMap<NodeId, NodeStatus>,
) -> PlanGraph {
    let insight = of_plan(nodes, statuses);
    let needs: BTreeMap<NodeId, BTreeSet<NodeId>> =
        leaves(nodes).into_iter().map(|id| (id, effective_dependencies(nodes, id))).collect();
    let mut layers: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for id in needs.keys() {
        layers.entry(insight.longest.get(id).copied().unwrap_or(0)).or_default().push(*id);
    }
    let mut rows: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (layer, mut ids) in layers {
        // Near what it depends on, so that fewer lines cross.
        let middle = |id: &NodeId| {
            let of = needs.get(id).into_iter().flatten().filter_map(|needed| rows.get(needed));
            let (sum, count) = of.fold((0, 0), |(sum, count), row| (sum + row * 100, count + 1));
            sum.checked_div(count).unwrap_or(usize::MAX)
        };
        ids.sort_by_key(|id| (middle(id), *id));
        for (row, id) in ids.into_iter().enumerate() {
            rows.insert(id, row);
            places.push(GraphPlace { id, layer, row });
        }
    }
    PlanGraph { places, edges: edges(&needs), critical: insight.critical_path }
}

/// Each dependency that no other one of the same leaf brings with it.
fn edges(needs: &BTreeMap<NodeId, BTreeSet<NodeId>>) -> Vec<(NodeId, NodeId)> {
    let mut edges = Vec::new();
    for (id, own) in needs {
        let implied: BTreeSet<NodeId> =
            own.iter().filter_map(|needed| needs.get(needed)).flatten().copied().collect();
        edges.extend(own.difference(&implied).map(|needed| (*needed, *id)));
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::node;

    fn plan(of: &[(&str, &[&str])]) -> BTreeMap<NodeId, Node> {
        let made = of.iter().map(|(id, needs)| {
            let mut node = node(id, id);
            node.depends_on = needs.iter().map(|id| id.parse().unwrap()).collect();
            (node.id, node)
        });
        made.collect()
    }

    #[test]
    fn leaves_stand_right_of_all_that_they_depend_on() {
        let nodes = plan(&[
            ("P1", &[]),
            ("T1.1", &[]),
            ("T1.2", &[]),
            ("T1.3", &["T1.2"]),
            ("T1.4", &["T1.1"]),
            ("P2", &["P1"]),
            ("T2.1", &[]),
        ]);
        let graph = plan_graph(&nodes, &BTreeMap::new());
        let shown: Vec<_> =
            graph.places.iter().map(|it| (it.id.to_string(), it.layer, it.row)).collect();
        let expected =
            [("T1.1", 0, 0), ("T1.2", 0, 1), ("T1.4", 1, 0), ("T1.3", 1, 1), ("T2.1", 2, 0)];
        assert_eq!(shown, expected.map(|(id, layer, row)| (id.to_owned(), layer, row)));
        let edges: Vec<_> = graph.edges.iter().map(|(a, b)| format!("{a}>{b}")).collect();
        assert_eq!(edges, ["T1.2>T1.3", "T1.1>T1.4", "T1.3>T2.1", "T1.4>T2.1"]);
        assert_eq!(graph.critical.len(), 3);
    }

    #[test]
    fn leaves_that_wait_for_each_other_are_laid_out_too() {
        let nodes = plan(&[("P1", &[]), ("T1.1", &["T1.2"]), ("T1.2", &["T1.1"])]);
        let graph = plan_graph(&nodes, &BTreeMap::new());
        assert_eq!(graph.places.len(), 2);
        assert_eq!(plan_graph(&BTreeMap::new(), &BTreeMap::new()), PlanGraph::default());
    }
}
