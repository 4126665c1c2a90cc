//! Plans of 10,000 nodes (spec 10): their shape from scratch, their circles, and what one move of a node
//! in the largest plan that there may be costs. Pure code, so there is no floor beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};
use tetrarch_core::id::NodeId;
use tetrarch_core::limits::{PHASES_MAX, SUBTASKS_MAX, TASKS_MAX};
use tetrarch_core::plan::folding::FoldedChildren;
use tetrarch_core::plan::insight::insights;
use tetrarch_core::plan::schema::parse;
use tetrarch_core::plan::{Node, NodeStatus, graph, rollup};

use crate::table::{Aim, Line, Unit};

/// Nodes of the graph.
const NODES: usize = 10_000;
/// Nodes side by side; each depends on three of the row before its own.
const WIDTH: usize = 100;
/// From scratch, in microseconds (spec 10).
const SCRATCH: f64 = 20_000.0;
/// After one move, in microseconds (spec 10).
const MOVE: f64 = 1_000.0;

/// Measures so many rounds.
pub(crate) fn measure(rounds: usize) -> Vec<Line> {
    let (nodes, needs) = wide();
    let edges: Vec<(NodeId, NodeId)> =
        needs.iter().flat_map(|(id, all)| all.iter().map(|needed| (*id, *needed))).collect();
    let done: BTreeSet<NodeId> = nodes.iter().take(NODES / 2).copied().collect();
    let plan = largest();
    let mut shape = Line::new(
        "10,000 nodes, 29,700 edges: order, critical path, degrees, circles, rank, ready, bottlenecks",
        Unit::Micros,
        Aim::Within(SCRATCH),
    );
    let what = "the same nodes: circles alone";
    let mut circles = Line::new(what, Unit::Micros, Aim::Within(SCRATCH));
    let what = "285 nodes: statuses and ready set after one move";
    let mut moved = Line::new(what, Unit::Micros, Aim::Within(MOVE));
    for _ in 0..rounds {
        shape.push_alone(timed(|| insights(&nodes, &edges, &done).ready.len()));
        let listed = || needs.iter().map(|(id, all)| (*id, all.as_slice()));
        circles.push_alone(timed(|| graph::cycles(listed()).len()));
        moved.push_alone(timed(|| after_a_move(&plan)));
    }
    vec![shape, circles, moved]
}

/// Microseconds that something takes.
fn timed<T>(act: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    black_box(act());
    started.elapsed().as_secs_f64() * 1e6
}

/// Rows of nodes, each row waiting for the one before.
fn wide() -> (BTreeSet<NodeId>, BTreeMap<NodeId, Vec<NodeId>>) {
    let id = |at: usize| {
        let number = |number: usize| u32::try_from(number + 1).unwrap();
        NodeId::task(number(at / WIDTH), number(at % WIDTH))
    };
    let before = |at: usize| match at.checked_sub(WIDTH) {
        Some(above) => {
            let row = above / WIDTH * WIDTH;
            (0..3).map(|n| id(row + (above + n * 7) % WIDTH)).collect()
        }
        None => Vec::new(),
    };
    let needs: BTreeMap<NodeId, Vec<NodeId>> = (0..NODES).map(|at| (id(at), before(at))).collect();
    (needs.keys().copied().collect(), needs)
}

/// Every node that a plan may have; each task waits for the one before it.
fn largest() -> BTreeMap<NodeId, Node> {
    let task = |p: usize, t: usize| {
        let below: Vec<Value> = (1..=SUBTASKS_MAX)
            .map(
                |s| json!({"id": format!("S{p}.{t}.{s}"), "name": "s", "acceptance": ["it holds"]}),
            )
            .collect();
        let before: Vec<String> = (t > 1).then(|| format!("T{p}.{}", t - 1)).into_iter().collect();
        json!({"id": format!("T{p}.{t}"), "name": "t", "deps": before, "subtasks": below})
    };
    let phase = |p: usize| {
        let tasks: Vec<Value> = (1..=TASKS_MAX).map(|t| task(p, t)).collect();
        json!({"id": format!("P{p}"), "name": "p", "tasks": tasks})
    };
    let phases: Vec<Value> = (1..=PHASES_MAX).map(phase).collect();
    let plan = parse(&json!({"title": "largest", "phases": phases})).unwrap();
    plan.nodes.into_iter().map(|node| (node.id, node)).collect()
}

/// What follows from the first leaf's end.
fn after_a_move(nodes: &BTreeMap<NodeId, Node>) -> usize {
    let first = graph::leaves(nodes).into_iter().next().unwrap();
    let statuses = BTreeMap::from([(first, NodeStatus::Done)]);
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let all = rollup::rollup(&statuses, &ids, &FoldedChildren::new()).statuses.len();
    all + graph::newly_ready(nodes, &statuses, &FoldedChildren::new()).len()
}
