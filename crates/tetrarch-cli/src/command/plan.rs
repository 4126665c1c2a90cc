//! `plan`: shows an epic's plan as a tree with derived statuses, its versions from the public plan
//! events and what lies between two of them; changes it, proposes changes and decides on them
//! (spec 05).

mod change;
mod check;
mod diff;
pub(crate) mod drafts;

mod planner;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::Record;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::graph::dependencies;
use tetrarch_core::plan::proposal::DraftVerdict;
use tetrarch_core::plan::{Node, NodeState, NodeStatus, Plan, PlanEvent};

pub(super) use self::diff::versions;
use crate::obstacles;
use crate::output::{self, Cell, Sheet, TableRow, is_coloured, now, stamp};
use crate::{CliError, CliResult, Context, HumanClient, StateSnapshot, no_plan_of};

/// Subcommands of `plan`.
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

A change is made for a base version of the plan: the current one, or the one given with --base.
Unrelated changes since then are kept. A conflicting change is refused with exit code 5; `plan
diff` shows what came between. Work that is done or in progress is not changed. Ids are never
reused: removed nodes stay in the plan as cancelled. A task that failed, also one with `run`, is
repaired in the file: apply it, then `tetrarch work unblock` the task.")]
pub(crate) enum PlanCommand {
    /// Show the current plan.
    Show {
        /// The goal.
        epic: EpicId,
    },
    /// Check plan files and report all errors; only --project needs a bus.
    Check(check::PlanCheckArgs),
    /// Print a plan made by the configured planner, without applying it.
    Propose {
        /// The goal to plan.
        #[arg(required_unless_present = "goal")]
        epic: Option<EpicId>,
        /// A goal in one line instead of an existing goal.
        #[arg(long, conflicts_with = "epic")]
        goal: Option<String>,
    },
    /// Show the planner's prompts and answers for a goal.
    Provenance {
        /// The goal.
        epic: EpicId,
    },
    /// Show all versions of a plan: time, author, reason and changes.
    History {
        /// The goal.
        epic: EpicId,
    },
    /// Show the difference between two versions of a plan.
    Diff(diff::PlanDiffArgs),
    /// Change a plan to match a file.
    Apply(change::PlanApplyArgs),
    /// Propose a change of a plan for review.
    Draft(change::PlanDraftArgs),
    /// Add a task to a phase, or a subtask to a task.
    Add(change::PlanAddArgs),
    /// Split a task into subtasks.
    Split(change::PlanSplitArgs),
    /// Merge several leaves into one.
    Merge(change::PlanMergeArgs),
    /// List the drafts of a plan.
    Drafts(drafts::DraftsArgs),
    /// Approve a draft and apply it.
    Approve(drafts::DraftApproveArgs),
    /// Ask the author of a draft for changes and leave it open.
    Refine(drafts::DraftDecideArgs),
    /// Reject a draft.
    Reject(drafts::DraftDecideArgs),
}

/// Runs the command.
///
/// # Errors
/// There is no such epic; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: PlanCommand) -> CliResult {
    let client = async || context.client().await;
    match command {
        PlanCommand::Check(args) => check::run(context, &args).await,
        PlanCommand::Show { epic } => show(context, &client().await?, epic).await,
        PlanCommand::History { epic } => history(context, &client().await?.bus, epic).await,
        PlanCommand::Diff(args) => diff::run(context, &client().await?, &args).await,
        PlanCommand::Apply(args) => change::apply(context, &client().await?, args).await,
        PlanCommand::Draft(args) => change::draft(context, &client().await?, args).await,
        PlanCommand::Add(args) => change::add(context, &client().await?, args).await,
        PlanCommand::Split(args) => change::split(context, &client().await?, args).await,
        PlanCommand::Merge(args) => change::merge(context, &client().await?, args).await,
        PlanCommand::Drafts(args) => drafts::list(context, &client().await?, &args).await,
        PlanCommand::Approve(args) => drafts::approve(context, &client().await?, args).await,
        PlanCommand::Refine(args) => {
            drafts::decide(context, &client().await?, args, DraftVerdict::Refine).await
        }
        PlanCommand::Reject(args) => {
            drafts::decide(context, &client().await?, args, DraftVerdict::Reject).await
        }
        PlanCommand::Provenance { epic } => {
            planner::provenance(context, &client().await?.bus, epic).await
        }
        PlanCommand::Propose { epic, goal } => planner::propose_plan(context, epic, goal).await,
    }
}

async fn show(context: &Context, client: &HumanClient, epic: EpicId) -> CliResult {
    let (snapshot, obstacles) = obstacles::look(client, Some(epic)).await?;
    let Some(plan) = snapshot.records.plans.get(&epic) else { return Err(no_plan_of(epic)) };
    let nodes: CliResult<Vec<Value>> = nodes(&snapshot, epic)
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
        sheet.table_with_notes("obstacles", obstacles::rows(context, &obstacles, now()));
        sheet.finish()
    })
}

/// The obstacles that a node waits for.
fn on(obstacles: &[Obstacle], epic: EpicId, node: NodeId) -> impl Iterator<Item = &Obstacle> {
    obstacles.iter().filter(move |it| it.nodes.contains(&(epic, node)))
}

fn nodes(
    snapshot: &StateSnapshot,
    epic: EpicId,
) -> impl Iterator<Item = (&Node, Option<&NodeState>)> {
    let states = snapshot.records.node_states.get(&epic);
    let nodes = snapshot.records.nodes.get(&epic).into_iter().flatten();
    nodes.map(move |(id, node)| (node, states.and_then(|states| states.get(id))))
}

/// What a node that has not begun waits for: nodes that it, its task or its phase depends on and that
/// are not done.
pub(super) fn waits_for(snapshot: &StateSnapshot, epic: EpicId, node: NodeId) -> Vec<String> {
    let nodes = snapshot.records.nodes.get(&epic);
    let Some(nodes) = nodes.filter(|_| snapshot.node_status(epic, node) == NodeStatus::Todo) else {
        return Vec::new();
    };
    let open = |id: &NodeId| snapshot.node_status(epic, *id) != NodeStatus::Done;
    dependencies(nodes, node).into_iter().filter(open).map(|id| id.to_string()).collect()
}

fn sheet(snapshot: &StateSnapshot, epic: EpicId, obstacles: &[Obstacle]) -> Sheet {
    let records = &snapshot.records;
    let goal = records.goals.get(&epic);
    let state = records.goal_states.get(&epic);
    let plan = records.plans.get(&epic);
    let mut sheet = Sheet::new(goal.map_or("plan", |goal| goal.spec.title.as_str()), is_coloured());
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
            Cell::prose(held),
            node.recovery.to_string().into(),
        ]
    });
    sheet.table("nodes", lines.collect());
    sheet
}

/// The children that are no longer nodes of a plan, in words; none when there are none.
pub(super) fn ended_earlier(plan: &Plan) -> Option<String> {
    let all = plan.folded.values();
    let counts = all.fold([0; 3], |[done, failed, cancelled], it| {
        [done + it.done, failed + it.failed, cancelled + it.cancelled]
    });
    let words = ["done", "failed", "cancelled"];
    let said = counts.iter().zip(words).filter(|(count, _)| **count > 0);
    let said: Vec<String> = said.map(|(count, word)| format!("{count} {word}")).collect();
    (!said.is_empty()).then(|| format!("{}; the plan's history has them", said.join(", ")))
}

async fn history(context: &Context, bus: &Bus, epic: EpicId) -> CliResult {
    let whole = output::is_for_programs(context.output);
    let rows: CliResult<Vec<TableRow>> =
        versions(bus, epic).await?.iter().map(|event| row(event, whole)).collect();
    let columns = "VERSION|TIME|SOURCE|REASON|DONE|CHANGES|+GOAL|+WHY";
    output::listing(context.output, columns, rows?, "No versions of this plan are stored.")
}

fn record(event: &PlanEvent) -> CliResult<Value> {
    let bytes = codec::encode_plan_event(event).map_err(CliError::failed)?;
    let record = serde_json::from_slice(&bytes).map_err(CliError::failed)?;
    Ok(output::plain("PlanEvent", record))
}

/// A version in the list; its record too when it is printed `whole`.
fn row(event: &PlanEvent, whole: bool) -> CliResult<TableRow> {
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
    Ok(TableRow { cells, record })
}
