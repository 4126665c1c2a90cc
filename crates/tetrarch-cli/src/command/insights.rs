//! `insights`: what the shape of a plan says (spec 05, Insights), for its leaves.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::plan::insight::{Insights, of_plan};

use crate::output::{self, Cell, Sheet, is_coloured};
use crate::{CliResult, Context, StateSnapshot, no_plan_of};

/// Arguments of `insights`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The critical path is the longest chain of work, in order. HOLDS UP is the number of unfinished
nodes that wait for a node, directly or indirectly. RANK is the PageRank of a node; all ranks add
up to 1.

Examples:
  tetrarch insights goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch insights goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o json")]
pub(crate) struct InsightsArgs {
    /// The goal.
    epic: EpicId,
}

/// Runs the command.
///
/// # Errors
/// There is no such epic; the bus cannot be read.
pub(crate) async fn run(context: &Context, args: InsightsArgs) -> CliResult {
    let epic = args.epic;
    let bus = context.client().await?.bus;
    let wanted = [
        Select::One(RecordKey::Goal(epic)),
        Select::One(RecordKey::Plan(epic)),
        Select::OfEpic(KeyKind::Node, epic),
        Select::OfEpic(KeyKind::NodeState, epic),
    ];
    let snapshot = StateSnapshot::read(&bus, &wanted).await?;
    let Some(nodes) = snapshot.records.nodes.get(&epic) else { return Err(no_plan_of(epic)) };
    let states = snapshot.records.node_states.get(&epic).into_iter().flatten();
    let found = of_plan(nodes, &states.map(|(id, state)| (*id, state.status)).collect());
    output::record(context.output, &json(epic, &found), || sheet(&snapshot, epic, &found))
}

fn texts(ids: &[NodeId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn json(epic: EpicId, found: &Insights<NodeId>) -> Value {
    fn by_node<N: Copy + Into<Value>>(of: &BTreeMap<NodeId, N>) -> Value {
        of.iter().map(|(id, number)| (id.to_string(), (*number).into())).collect()
    }
    let held: BTreeMap<NodeId, usize> = found.bottlenecks.iter().copied().collect();
    let cycles: Vec<Vec<String>> = found.cycles.iter().map(|cycle| texts(cycle)).collect();
    json!({
        "epic": epic.to_string(),
        "topological": texts(&found.topological),
        "criticalPath": texts(&found.critical_path),
        "longest": by_node(&found.longest),
        "inDegree": by_node(&found.in_degree),
        "outDegree": by_node(&found.out_degree),
        "cycles": cycles,
        "pagerank": by_node(&found.pagerank),
        "ready": texts(&found.ready),
        "bottlenecks": by_node(&held),
    })
}

fn sheet(snapshot: &StateSnapshot, epic: EpicId, found: &Insights<NodeId>) -> String {
    let records = &snapshot.records;
    let title = records.goals.get(&epic).map_or("plan", |goal| goal.spec.title.as_str());
    let list = |ids: &[NodeId]| texts(ids).join(" ");
    let mut sheet = Sheet::new(title, is_coloured());
    sheet
        .field("critical path", list(&found.critical_path))
        .field("steps", found.critical_path.len().to_string())
        .field("ready", list(&found.ready));
    if !found.cycles.is_empty() {
        let cycles: Vec<String> = found.cycles.iter().map(|cycle| list(cycle)).collect();
        sheet.field("circles", cycles.join("; "));
    }
    let held: BTreeMap<NodeId, usize> = found.bottlenecks.iter().copied().collect();
    let name = |id: &NodeId| {
        let node = records.nodes.get(&epic).and_then(|nodes| nodes.get(id));
        node.map_or("", |node| node.name.as_str())
    };
    let mut lines =
        vec![["NODE", "STATUS", "HOLDS UP", "WAITS FOR", "RANK", "NAME"].map(Cell::from).to_vec()];
    lines.extend(found.pagerank.iter().map(|(id, rank)| {
        let count = |of: &BTreeMap<NodeId, usize>| of.get(id).copied().unwrap_or(0).to_string();
        vec![
            id.to_string().into(),
            Cell::state(snapshot.node_status(epic, *id).as_str()),
            count(&held).into(),
            count(&found.out_degree).into(),
            format!("{rank:.3}").into(),
            name(id).into(),
        ]
    }));
    sheet.table("nodes", lines);
    sheet.finish()
}
