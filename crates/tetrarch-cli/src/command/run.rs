//! `tetrarch run <plan>`: brings a fleet up if none is there, gives the plan to it, follows it
//! and exits by its outcome.

mod fleet;
mod follow;
mod prepare;
mod summary;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tetrarch_bus::codec;
use tetrarch_bus::subject::OpName;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::ProjectName;
use tetrarch_core::mail::OpReply;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::plan::schema::PlanFile;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_telemetry::{invoke_workflow, trace};

use crate::context::{Context, Desk, new_id};
use crate::exit::{CliError, Code};
use follow::{Ending, Follower};
pub(super) use prepare::{Prepared, prepared};

/// How long the summary of a run that was interrupted may take.
const PARTING: Duration = Duration::from_secs(5);
/// The project of a plan that names none.
const PROJECT: &str = "main";

/// Executes a plan and follows it to its end.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch run plan.yaml\n  tetrarch run plan.yaml --project site -- path/to/repository\n  tetrarch run --goal 'say what the log is about'\n\nA goal without a plan gets one from the planner when there is one ([planner] in the configuration), else it is one task.\nExits with 0 when the goal is reached, 1 when unsettled work remains that nobody can do."
)]
pub(crate) struct RunArgs {
    /// The plan, or a goal without one: YAML, TOML or JSON.
    #[arg(required_unless_present = "goal")]
    plan: Option<PathBuf>,
    /// A goal in one line, instead of a file.
    #[arg(long, conflicts_with = "plan")]
    goal: Option<String>,
    /// The project that works on it; the plan's own, or `main`, unless said.
    #[arg(long)]
    project: Option<String>,
    /// Keep waiting when nothing can go on by itself.
    #[arg(long)]
    wait: bool,
    /// Print the result only.
    #[arg(long, short)]
    quiet: bool,
    /// What the plan's programs get as TETRARCH_ARGS.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The plan is wrong, the fleet cannot be brought up, the goal is not reached.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<(), CliError> {
    let prepared = prepared(args.plan.as_deref(), args.goal.as_deref(), &args.arguments)?;
    let project = project_name(args.project.as_deref(), &prepared.plan)?;
    let (desk, own) = fleet::ensure(context).await?;
    let outcome = execute(&desk, &args, &prepared, &project).await;
    // A connection that outlives its bus complains about it.
    drop(desk);
    if let Some(fleet) = own {
        fleet.stop().await?;
    }
    outcome
}

/// The project that is to work on a plan: the one that was named, the plan's own, or `main`.
///
/// # Errors
/// The name cannot be one.
pub(super) fn project_name(named: Option<&str>, plan: &PlanFile) -> Result<ProjectName, CliError> {
    match (named, &plan.project) {
        (Some(name), _) => ProjectName::new(name),
        (None, Some(name)) => Ok(name.clone()),
        (None, None) => ProjectName::new(PROJECT),
    }
    .map_err(|error| CliError::new(Code::Usage, error.to_string()))
}

async fn execute(
    desk: &Desk,
    args: &RunArgs,
    prepared: &Prepared,
    project: &ProjectName,
) -> Result<(), CliError> {
    let started = Instant::now();
    let from = desk.bus.stream_last_seq(LEDGER).await?;
    let (span, caller) = (invoke_workflow("plan"), trace::of_environment());
    trace::follow(&span, caller.as_deref());
    let trace = trace::onward(&span, caller.as_deref());
    create_project(desk, &prepared.plan, project).await?;
    let reply = give_goal(desk, &prepared.document, project, trace).await?;
    let none = || CliError::new(Code::Failed, "the owner's answer names no goal");
    let epic = reply.epic.ok_or_else(none)?;
    let mut follower = Follower::new(args.quiet, started);
    let ending = follower.follow(&desk.bus, epic, args.wait).await?;
    drop(span);
    let report = follower.result();
    let summary = summary::print(desk, epic, from, started.elapsed(), report, args.quiet);
    if matches!(ending, Ending::Interrupted) {
        // Whoever gives up waiting does not wait for a bus that is away.
        let _incomplete = tokio::time::timeout(PARTING, summary).await;
    } else {
        summary.await?;
    }
    match ending {
        Ending::Completed => Ok(()),
        Ending::Cancelled => Err(CliError::new(Code::Failed, "the goal was cancelled")),
        Ending::Stuck(list) => Err(CliError::new(
            Code::Failed,
            format!("nothing is ready or running, and this is unsettled:\n{}", list.join("\n")),
        )
        .hint(format!(
            "see `tetrarch plan show {epic}` and what people are asked, `tetrarch inbox`; an answer \
             puts the work back in the queue"
        ))),
        Ending::Interrupted => Err(CliError::new(Code::Interrupted, "interrupted")
            .hint(format!("a fleet that stays up goes on; see `tetrarch plan show {epic}`"))),
    }
}

/// The project with the tools its plan names; one that exists already is used as it is.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn create_project(
    desk: &Desk,
    plan: &PlanFile,
    project: &ProjectName,
) -> Result<(), CliError> {
    let of_profiles = plan.profiles.iter().flat_map(|profile| profile.tools.names());
    let of_nodes = plan.nodes.iter().flat_map(|node| node.tools.names());
    let tools: Tools = of_profiles.chain(of_nodes).collect();
    let create = Op::ProjectCreate(ProjectCreate {
        project: project.clone(),
        mode: plan.mode.unwrap_or_default(),
        external: false,
        tools,
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    });
    match desk.operate(&create).await {
        Ok(_) => Ok(()),
        Err(error) if error.code == Code::Conflict => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a goal with the plan of this document.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn give_goal(
    desk: &Desk,
    document: &Value,
    project: &ProjectName,
    trace: Option<String>,
) -> Result<OpReply, CliError> {
    let id = new_id();
    let payload = codec::encode_goal_create(id, project, document)
        .map_err(|error| CliError::new(Code::Usage, error.to_string()))?;
    let op: OpName =
        "goal.create".parse().map_err(|error| CliError::new(Code::Failed, format!("{error}")))?;
    desk.ask(op, id, payload, trace).await
}
