//! `plan diff`: what lies between two versions of a plan, from the public plan events: nodes that are
//! new, gone or defined otherwise, and those that moved, with why.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use serde_json::{Map, Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::codec::record_json;
use tetrarch_bus::watch::{From, last_plan_event, plan_events};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::Record;
use tetrarch_core::plan::{Node, NodeStatus, PlanEvent};

use crate::output::{self, Cell, TableRow};
use crate::{CliError, CliResult, Code, Context, HumanClient, no_plan_of};

/// Arguments of `plan diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan diff goal_01JD8Z5W6T4QK3M9X2V7B1N0AC 3 5
  tetrarch plan diff goal_01JD8Z5W6T4QK3M9X2V7B1N0AC 1 -o json")]
pub(crate) struct PlanDiffArgs {
    /// The goal.
    epic: EpicId,
    /// The earlier version.
    from: u32,
    /// The later version [default: current version].
    to: Option<u32>,
}

const COLUMNS: &str = "NODE|WHAT|FROM|TO|FIELDS|WHY";

/// Runs the command.
///
/// # Errors
/// There is no such epic or version; the bus cannot be read.
pub(super) async fn run(context: &Context, client: &HumanClient, args: &PlanDiffArgs) -> CliResult {
    let events = versions(&client.bus, args.epic).await?;
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err(no_plan_of(args.epic));
    };
    let to = args.to.unwrap_or(last.version);
    for version in [args.from, to] {
        if version < first.version || version > last.version {
            let what = format!("version {version} of the plan was not found");
            return Err(CliError::new(Code::NotFound, what)
                .hint(format!("versions {} to {} are kept", first.version, last.version)));
        }
    }
    if args.from > to {
        let what = format!("version {} is later than {to}", args.from);
        return Err(CliError::new(Code::Usage, what).hint("give the earlier one first"));
    }
    let (was, is) = (PlanVersion::at(&events, args.from), PlanVersion::at(&events, to));
    let between = events.iter().filter(|event| (args.from + 1..=to).contains(&event.version));
    let rows = rows(args.epic, &was, &is, &whys(between))?;
    output::listing(context.output, COLUMNS, rows, "Nothing changed between these versions.")
}

/// A plan in one version.
#[derive(Debug, Default)]
struct PlanVersion {
    nodes: BTreeMap<NodeId, Node>,
    statuses: BTreeMap<NodeId, NodeStatus>,
}

impl PlanVersion {
    fn at(events: &[PlanEvent], version: u32) -> Self {
        let mut state = Self::default();
        for event in events.iter().take_while(|event| event.version <= version) {
            let defined = event.definitions.iter().map(|node| (node.id, node.clone()));
            state.nodes.extend(defined);
            if event.full {
                state.statuses.clear();
            }
            state.statuses.extend(event.nodes.iter().map(|view| (view.id, view.status)));
            state.statuses.retain(|id, _| !event.folded.contains(id));
        }
        state
    }
}

/// Why each node moved, each reason once.
fn whys<'a>(events: impl Iterator<Item = &'a PlanEvent>) -> BTreeMap<NodeId, Vec<String>> {
    let mut whys: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for change in events.flat_map(|event| &event.changes) {
        let known = whys.entry(change.node).or_default();
        if !known.contains(&change.why) {
            known.push(change.why.clone());
        }
    }
    whys
}

fn rows(
    epic: EpicId,
    was: &PlanVersion,
    is: &PlanVersion,
    whys: &BTreeMap<NodeId, Vec<String>>,
) -> CliResult<Vec<TableRow>> {
    let ids: BTreeSet<NodeId> = was.statuses.keys().chain(is.statuses.keys()).copied().collect();
    let mut rows = Vec::new();
    for id in ids {
        let (from, to) = (was.statuses.get(&id), is.statuses.get(&id));
        let fields = fields(epic, was.nodes.get(&id), is.nodes.get(&id))?;
        let gone = to == Some(&NodeStatus::Cancelled) && from != to;
        let what = match from {
            None => "added",
            Some(_) if gone => "gave up",
            Some(_) if !fields.is_empty() => "redefined",
            Some(_) if from != to => "moved",
            Some(_) => continue,
        };
        let why = whys.get(&id).cloned().unwrap_or_default();
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let word = |status: Option<&NodeStatus>| status.map(|status| status.as_str());
        rows.push(TableRow {
            cells: vec![
                id.to_string().into(),
                what.into(),
                word(from).map_or_else(Cell::default, Cell::state),
                word(to).map_or_else(Cell::default, Cell::state),
                names.join(" ").into(),
                why.join("; ").into(),
            ],
            record: json!({
                "node": id.to_string(), "what": what, "from": word(from), "to": word(to),
                "fields": fields, "why": why,
            }),
        });
    }
    Ok(rows)
}

/// The fields in which two definitions differ, each with both values; none when there were not two.
fn fields(epic: EpicId, was: Option<&Node>, is: Option<&Node>) -> CliResult<Map<String, Value>> {
    let (Some(was), Some(is)) = (was, is) else { return Ok(Map::new()) };
    let (was, is) = (definition(epic, was)?, definition(epic, is)?);
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differs = names.into_iter().filter(|name| was.get(*name) != is.get(*name));
    Ok(differs
        .map(|name| (name.clone(), json!({"from": was.get(name), "to": is.get(name)})))
        .collect())
}

/// A definition as its public JSON has it, without the versions it came with.
fn definition(epic: EpicId, node: &Node) -> CliResult<Map<String, Value>> {
    let node = Node { added: 0, defined: 0, ..node.clone() };
    let bytes = record_json(&Record::Node(epic, Box::new(node)), 0).map_err(CliError::failed)?;
    let value = serde_json::from_slice(&bytes).map_err(CliError::failed)?;
    let mut value = output::plain("EpicNode", value);
    Ok(match value.get_mut("node").map(Value::take) {
        Some(Value::Object(fields)) => fields,
        Some(_) | None => Map::new(),
    })
}

/// The plan events of an epic that are kept, in order.
///
/// # Errors
/// There is no plan, or the bus cannot be read.
pub(in crate::command) async fn versions(bus: &Bus, epic: EpicId) -> CliResult<Vec<PlanEvent>> {
    let Some(last) = last_plan_event(bus, epic).await? else { return Err(no_plan_of(epic)) };
    let mut events = std::pin::pin!(plan_events(bus, Some(epic), From::Start).await?);
    let mut versions = Vec::new();
    while let Some((seq, event)) = events.next().await {
        match event {
            Ok(event) => versions.push(event),
            Err(error) => tracing::warn!(seq, %error, "cannot read a plan event"),
        }
        if seq >= last {
            break;
        }
    }
    Ok(versions)
}
