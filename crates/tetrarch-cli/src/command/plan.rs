//! `plan`: shows an epic's plan as a tree with derived statuses, and its versions from the public
//! plan events (spec 05).

mod planner;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::pattern::PLANS;
use tetrarch_bus::subject::{KeyKind, Subject};
use tetrarch_bus::watch::{From, plan_events};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::plan::{Node, NodeState, NodeStatus, PlanEvent};

use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::output::{self, Cell, Column, Listing, Row, Sheet, is_coloured, stamp};
use crate::snapshot::Snapshot;

/// What `plan` can do.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch plan show goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch plan history goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o wide
  tetrarch plan propose --goal 'say what the log is about'
  tetrarch plan provenance goal_01JD8Z5W6T4QK3M9X2V7B1N0AC")]
pub(crate) enum PlanCommand {
    /// Show a plan as it is now.
    Show {
        /// The epic.
        epic: EpicId,
    },
    /// Ask the planner configured here for a plan and print it; nothing is changed.
    Propose {
        /// The epic for whose goal it is.
        #[arg(required_unless_present = "goal")]
        epic: Option<EpicId>,
        /// A goal in one line, instead of an epic.
        #[arg(long, conflicts_with = "epic")]
        goal: Option<String>,
    },
    /// Show what the planner was asked about an epic, and what it answered.
    Provenance {
        /// The epic.
        epic: EpicId,
    },
    /// Show every version of a plan: when, by whom, why and what moved.
    History {
        /// The epic.
        epic: EpicId,
    },
}

/// Runs the command.
///
/// # Errors
/// There is no such epic; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: PlanCommand) -> Result<(), CliError> {
    let bus = async || context.desk().await.map(|desk| desk.bus);
    match command {
        PlanCommand::Propose { epic, goal } => planner::propose_plan(context, epic, goal).await,
        PlanCommand::Provenance { epic } => planner::provenance(context, &bus().await?, epic).await,
        PlanCommand::Show { epic } => show(context, &bus().await?, epic).await,
        PlanCommand::History { epic } => history(context, &bus().await?, epic).await,
    }
}

/// There is no plan of an epic.
pub(super) fn missing(epic: EpicId) -> CliError {
    CliError::new(Code::NotFound, format!("there is no plan of {epic}"))
        .hint("list goals with `tetrarch get goals`")
}

async fn show(context: &Context, bus: &Bus, epic: EpicId) -> Result<(), CliError> {
    let wanted = [
        Select::One(RecordKey::Goal(epic)),
        Select::One(RecordKey::GoalState(epic)),
        Select::One(RecordKey::Plan(epic)),
        Select::OfEpic(KeyKind::Node, epic),
        Select::OfEpic(KeyKind::NodeState, epic),
    ];
    let snapshot = Snapshot::read(bus, &wanted).await?;
    let Some(plan) = snapshot.records.plans.get(&epic) else { return Err(missing(epic)) };
    let nodes: Result<Vec<Value>, CliError> = nodes(&snapshot, epic)
        .map(|(node, state)| {
            let state =
                state.map(|state| snapshot.json(&Record::NodeState(epic, Box::new(state.clone()))));
            Ok(json!({
                "definition": snapshot.json(&Record::Node(epic, Box::new(node.clone())))?,
                "state": state.transpose()?,
                "status": snapshot.node_status(epic, node.id).as_str(),
                "waitsFor": waits_for(&snapshot, epic, node),
            }))
        })
        .collect();
    let value = json!({
        "plan": snapshot.json(&Record::Plan(Box::new(plan.clone())))?,
        "percent": snapshot.rollup(epic).map(|rollup| rollup.percent),
        "nodes": nodes?,
    });
    output::record(context.output, &value, || sheet(&snapshot, epic))?;
    Ok(())
}

fn nodes(snapshot: &Snapshot, epic: EpicId) -> impl Iterator<Item = (&Node, Option<&NodeState>)> {
    let states = snapshot.records.node_states.get(&epic);
    let nodes = snapshot.records.nodes.get(&epic).into_iter().flatten();
    nodes.map(move |(id, node)| (node, states.and_then(|states| states.get(id))))
}

/// What a node that has not begun waits for: nodes it depends on that are not done.
fn waits_for(snapshot: &Snapshot, epic: EpicId, node: &Node) -> Vec<String> {
    if snapshot.node_status(epic, node.id) != NodeStatus::Todo {
        return Vec::new();
    }
    let open = |id: &&NodeId| snapshot.node_status(epic, **id) != NodeStatus::Done;
    node.depends_on.iter().filter(open).map(ToString::to_string).collect()
}

fn sheet(snapshot: &Snapshot, epic: EpicId) -> String {
    let records = &snapshot.records;
    let goal = records.goals.get(&epic);
    let state = records.goal_states.get(&epic);
    let plan = records.plans.get(&epic);
    let mut sheet = Sheet::new(goal.map_or("plan", |goal| goal.title.as_str()), is_coloured());
    sheet
        .field("epic", epic.to_string())
        .field("goal", Cell::state(state.map_or("", |state| state.status.as_str())))
        .field("done", Cell::some(snapshot.rollup(epic).map(|r| format!("{}%", r.percent))))
        .field("version", Cell::some(plan.map(|plan| plan.version)))
        .field("updated", Cell::some(plan.map(|plan| stamp(plan.updated))))
        .field("output", Cell::some(plan.and_then(|plan| plan.output)));
    let lines = nodes(snapshot, epic).map(|(node, state)| {
        let depth = std::iter::successors(node.id.parent(), |id| id.parent()).count();
        let attempts = state.filter(|state| state.attempts > 0);
        let blocker = state.and_then(|state| state.blocker.as_ref());
        let waits = waits_for(snapshot, epic, node);
        let held = match blocker {
            Some(blocker) => format!("{}: {}", blocker.kind, blocker.detail),
            None if waits.is_empty() => String::new(),
            None => format!("waits for {}", waits.join(" ")),
        };
        vec![
            format!("{}{}", "  ".repeat(depth), node.id).into(),
            Cell::state(snapshot.node_status(epic, node.id).as_str()),
            Cell::some(attempts.map(|state| format!("{}/{}", state.attempts, node.max_attempts))),
            Cell::some(state.and_then(|state| state.assignee.as_ref())),
            node.name.as_str().into(),
            held.into(),
        ]
    });
    sheet.table("nodes", lines.collect());
    sheet.finish()
}

async fn history(context: &Context, bus: &Bus, epic: EpicId) -> Result<(), CliError> {
    let subjects = [Subject::PlanCreated(epic), Subject::PlanUpdated(epic)].map(|s| s.to_string());
    let texts: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let newest = bus.last_per_subject(PLANS, &texts).await?;
    let Some(last) = newest.iter().map(|message| message.seq).max() else {
        return Err(missing(epic));
    };
    let mut events = std::pin::pin!(plan_events(bus, Some(epic), From::Start).await?);
    let mut rows = Vec::new();
    while let Some((seq, event)) = events.next().await {
        match event {
            Ok(event) => rows.push(row(&event)?),
            Err(error) => tracing::warn!(seq, %error, "a plan event cannot be read"),
        }
        if seq >= last {
            break;
        }
    }
    let columns = vec![
        Column::always("VERSION"),
        Column::always("TIME"),
        Column::always("SOURCE"),
        Column::always("REASON"),
        Column::always("DONE"),
        Column::always("CHANGES"),
        Column::wide("GOAL"),
        Column::wide("WHY"),
    ];
    output::listing(context.output, &Listing { columns, rows })?;
    Ok(())
}

fn row(event: &PlanEvent) -> Result<Row, CliError> {
    let changes: Vec<String> = event
        .changes
        .iter()
        .map(|change| match change.from {
            Some(from) => format!("{} {from}>{}", change.node, change.to),
            None => format!("{} +{}", change.node, change.to),
        })
        .collect();
    let mut whys: Vec<&str> = event.changes.iter().map(|change| change.why.as_str()).collect();
    whys.dedup();
    let broken = |error: String| CliError::new(Code::Failed, error);
    let bytes = codec::encode_plan_event(event).map_err(|error| broken(error.to_string()))?;
    let record = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    let cells = vec![
        event.version.to_string().into(),
        stamp(event.at).into(),
        event.source.as_str().into(),
        event.reason.as_str().into(),
        format!("{}%", event.percent).into(),
        changes.join(", ").into(),
        Cell::state(event.goal.as_str()),
        whys.join("; ").into(),
    ];
    Ok(Row { cells, record })
}
