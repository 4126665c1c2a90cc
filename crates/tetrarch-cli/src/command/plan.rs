//! `plan`: shows an epic's plan as a tree with derived statuses, its versions from the public plan
//! events and what lies between two of them; changes it, proposes changes and decides on them
//! (spec 05).

mod change;
mod check;
mod diff;
pub(crate) mod drafts;

mod planner;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::watch::{From, last_plan_event, plan_events};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::Record;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::graph::dependencies;
use tetrarch_core::plan::proposal::DraftVerdict;
use tetrarch_core::plan::{Node, NodeState, NodeStatus, Plan, PlanEvent};

use crate::context::{Context, Desk};
use crate::exit::{CliError, Code};
use crate::obstacles;
use crate::output::{self, Cell, Column, Listing, Row, Sheet, is_coloured, now, stamp};
use crate::snapshot::Snapshot;

/// What `plan` can do.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch plan check plan.yaml
  tetrarch plan check plan.yaml --project site
  tetrarch plan show goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch plan history goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o wide
  tetrarch plan diff goal_01JD8Z5W6T4QK3M9X2V7B1N0AC 3 5
  tetrarch plan apply goal_01JD8Z5W6T4QK3M9X2V7B1N0AC plan.yaml --reason 'the parser comes first'
  tetrarch plan drafts goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch plan propose --goal 'say what the log is about'
  tetrarch plan provenance goal_01JD8Z5W6T4QK3M9X2V7B1N0AC

A change is made for a version of the plan: the one it has, unless --base says another. What changed
since and has nothing to do with it is kept; otherwise it is refused with 5, and `plan diff` shows what
came between. What is done stays done, what is worked on is not touched, and no id is used again: what
goes away stays in the plan as cancelled.")]
pub(crate) enum PlanCommand {
    /// Show a plan as it is now.
    Show {
        /// The epic.
        epic: EpicId,
    },
    /// Check plan files and say everything that is wrong with them; a bus is needed only for --project.
    Check(check::CheckArgs),
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
    /// Show what lies between two versions of a plan.
    Diff(diff::DiffArgs),
    /// Change a plan to what a file says.
    Apply(change::ApplyArgs),
    /// Propose what a file says, and leave it to others to decide.
    Draft(change::DraftArgs),
    /// Add a task to a phase, or a subtask to a task.
    Add(change::AddArgs),
    /// Give a task subtasks.
    Split(change::SplitArgs),
    /// Make several leaves one.
    Merge(change::MergeArgs),
    /// List what was proposed.
    Drafts(drafts::DraftsArgs),
    /// Apply what was proposed.
    Approve(drafts::ApproveArgs),
    /// Leave a proposal open and tell its author what to change.
    Refine(drafts::DecideArgs),
    /// Turn a proposal down.
    Reject(drafts::DecideArgs),
}

/// Runs the command.
///
/// # Errors
/// There is no such epic; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: PlanCommand) -> Result<(), CliError> {
    let desk = async || context.desk().await;
    match command {
        PlanCommand::Check(args) => check::run(context, &args).await,
        PlanCommand::Show { epic } => show(context, &desk().await?, epic).await,
        PlanCommand::History { epic } => history(context, &desk().await?.bus, epic).await,
        PlanCommand::Diff(args) => diff::run(context, &desk().await?, &args).await,
        PlanCommand::Apply(args) => change::apply(context, &desk().await?, args).await,
        PlanCommand::Draft(args) => change::draft(context, &desk().await?, args).await,
        PlanCommand::Add(args) => change::add(context, &desk().await?, args).await,
        PlanCommand::Split(args) => change::split(context, &desk().await?, args).await,
        PlanCommand::Merge(args) => change::merge(context, &desk().await?, args).await,
        PlanCommand::Drafts(args) => drafts::list(context, &desk().await?, &args).await,
        PlanCommand::Approve(args) => drafts::approve(context, &desk().await?, args).await,
        PlanCommand::Refine(args) => {
            drafts::decide(context, &desk().await?, args, DraftVerdict::Refine).await
        }
        PlanCommand::Reject(args) => {
            drafts::decide(context, &desk().await?, args, DraftVerdict::Reject).await
        }
        PlanCommand::Provenance { epic } => {
            planner::provenance(context, &desk().await?.bus, epic).await
        }
        PlanCommand::Propose { epic, goal } => planner::propose_plan(context, epic, goal).await,
    }
}

/// There is no plan of an epic.
pub(super) fn missing(epic: EpicId) -> CliError {
    CliError::new(Code::NotFound, format!("there is no plan of {epic}"))
        .hint("list goals with `tetrarch get goals`")
}

async fn show(context: &Context, desk: &Desk, epic: EpicId) -> Result<(), CliError> {
    let (snapshot, obstacles) = obstacles::look(desk, Some(epic)).await?;
    let Some(plan) = snapshot.records.plans.get(&epic) else { return Err(missing(epic)) };
    let nodes: Result<Vec<Value>, CliError> = nodes(&snapshot, epic)
        .map(|(node, state)| {
            let state =
                state.map(|state| snapshot.json(&Record::NodeState(epic, Box::new(state.clone()))));
            Ok(json!({
                "definition": snapshot.json(&Record::Node(epic, Box::new(node.clone())))?,
                "state": state.transpose()?,
                "status": snapshot.node_status(epic, node.id).as_str(),
                "waitsFor": waits_for(&snapshot, epic, node.id),
                "obstacles": on(&obstacles, epic, node.id).map(|it| it.kind.as_str()).collect::<Vec<_>>(),
            }))
        })
        .collect();
    let value = json!({
        "plan": snapshot.json(&Record::Plan(Box::new(plan.clone())))?,
        "percent": snapshot.records.goal_states.get(&epic).map(|state| state.percent),
        "nodes": nodes?,
        "obstacles": obstacles.iter().map(|it| obstacles::value(context, it)).collect::<Vec<_>>(),
    });
    output::record(context.output, &value, || {
        let mut sheet = sheet(&snapshot, epic, &obstacles);
        sheet.table("obstacles", obstacles::lines(context, &obstacles, now()));
        sheet.finish()
    })?;
    Ok(())
}

/// The obstacles that a node waits for.
fn on(obstacles: &[Obstacle], epic: EpicId, node: NodeId) -> impl Iterator<Item = &Obstacle> {
    obstacles.iter().filter(move |it| it.nodes.contains(&(epic, node)))
}

fn nodes(snapshot: &Snapshot, epic: EpicId) -> impl Iterator<Item = (&Node, Option<&NodeState>)> {
    let states = snapshot.records.node_states.get(&epic);
    let nodes = snapshot.records.nodes.get(&epic).into_iter().flatten();
    nodes.map(move |(id, node)| (node, states.and_then(|states| states.get(id))))
}

/// What a node that has not begun waits for: nodes that it, its task or its phase depends on and that
/// are not done.
pub(super) fn waits_for(snapshot: &Snapshot, epic: EpicId, node: NodeId) -> Vec<String> {
    let nodes = snapshot.records.nodes.get(&epic);
    let Some(nodes) = nodes.filter(|_| snapshot.node_status(epic, node) == NodeStatus::Todo) else {
        return Vec::new();
    };
    let open = |id: &NodeId| snapshot.node_status(epic, *id) != NodeStatus::Done;
    dependencies(nodes, node).into_iter().filter(open).map(|id| id.to_string()).collect()
}

fn sheet(snapshot: &Snapshot, epic: EpicId, obstacles: &[Obstacle]) -> Sheet {
    let records = &snapshot.records;
    let goal = records.goals.get(&epic);
    let state = records.goal_states.get(&epic);
    let plan = records.plans.get(&epic);
    let mut sheet = Sheet::new(goal.map_or("plan", |goal| goal.title.as_str()), is_coloured());
    sheet
        .field("epic", epic.to_string())
        .field("goal", Cell::state(state.map_or("", |state| state.status.as_str())))
        .field("done", Cell::some(state.map(|state| format!("{}%", state.percent))))
        .field("version", Cell::some(plan.map(|plan| plan.version)))
        .field("updated", Cell::some(plan.map(|plan| stamp(plan.updated))))
        .field("output", Cell::some(plan.and_then(|plan| plan.output)));
    if let Some(ended) = plan.and_then(ended_earlier) {
        sheet.field("ended earlier", ended);
    }
    let lines = nodes(snapshot, epic).map(|(node, state)| {
        let depth = std::iter::successors(node.id.parent(), |id| id.parent()).count();
        let attempts = state.filter(|state| state.attempts > 0);
        let blocker = state.and_then(|state| state.blocker.as_ref());
        let waits = waits_for(snapshot, epic, node.id);
        let held = match blocker {
            Some(blocker) => format!("{}: {}", blocker.kind, blocker.detail),
            None if waits.is_empty() => {
                let over = on(obstacles, epic, node.id);
                let over = over.map(|it| format!("{}: {}", obstacles::kind(it), it.subject));
                over.collect::<Vec<_>>().join(", ")
            }
            None => format!("waits for {}", waits.join(" ")),
        };
        vec![
            format!("{}{}", "  ".repeat(depth), node.id).into(),
            Cell::state(snapshot.node_status(epic, node.id).as_str()),
            Cell::some(attempts.map(|state| format!("{}/{}", state.attempts, node.max_attempts))),
            Cell::some(state.and_then(|state| state.assignee.as_ref())),
            node.name.as_str().into(),
            held.into(),
            node.recovery.to_string().into(),
        ]
    });
    sheet.table("nodes", lines.collect());
    sheet
}

/// The children of a plan that are no nodes of it any more, in words; none when there is none.
pub(super) fn ended_earlier(plan: &Plan) -> Option<String> {
    let all = plan.folded.values();
    let counts = all.fold([0; 3], |[done, failed, cancelled], it| {
        [done + it.done, failed + it.failed, cancelled + it.cancelled]
    });
    let words = ["done", "failed", "cancelled"];
    let said = counts.iter().zip(words).filter(|(count, _)| **count > 0);
    let said: Vec<String> = said.map(|(count, word)| format!("{count} {word}")).collect();
    (!said.is_empty()).then(|| format!("{}; what they were is in its history", said.join(", ")))
}

/// The plan events of an epic that are kept, in order.
async fn versions(bus: &Bus, epic: EpicId) -> Result<Vec<PlanEvent>, CliError> {
    let Some(last) = last_plan_event(bus, epic).await? else { return Err(missing(epic)) };
    let mut events = std::pin::pin!(plan_events(bus, Some(epic), From::Start).await?);
    let mut versions = Vec::new();
    while let Some((seq, event)) = events.next().await {
        match event {
            Ok(event) => versions.push(event),
            Err(error) => tracing::warn!(seq, %error, "a plan event cannot be read"),
        }
        if seq >= last {
            break;
        }
    }
    Ok(versions)
}

async fn history(context: &Context, bus: &Bus, epic: EpicId) -> Result<(), CliError> {
    let whole = output::is_for_programs(context.output);
    let rows: Result<Vec<Row>, CliError> =
        versions(bus, epic).await?.iter().map(|event| row(event, whole)).collect();
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
    output::listing(
        context.output,
        &Listing { columns, rows: rows?, empty: "No versions of this plan are kept." },
    )?;
    Ok(())
}

fn record(event: &PlanEvent) -> Result<Value, CliError> {
    let broken = |error: String| CliError::new(Code::Failed, error);
    let bytes = codec::encode_plan_event(event).map_err(|error| broken(error.to_string()))?;
    let record = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    Ok(output::plain("PlanEvent", record))
}

/// A version in the list; its record too when it is printed `whole`.
fn row(event: &PlanEvent, whole: bool) -> Result<Row, CliError> {
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
    let record = if whole { record(event)? } else { Value::Null };
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
