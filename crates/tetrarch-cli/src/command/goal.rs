//! `goal`: gives goals to projects and decides on those that there are (spec 05, Status machines; spec
//! 08). The owner decides what is possible.

use std::path::PathBuf;

use tetrarch_core::id::EpicId;
use tetrarch_core::priority::Priority;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::{GoalOp, GoalVerb};

use super::describe::{self, DescribeArgs};
use super::get::{self, GetArgs, ListFilter, ResourceKind};
use super::project::report;
use super::run::{create_project, give_goal, prepared, project_name};
use crate::confirm::ConfirmArgs;
use crate::context::Context;
use crate::exit::CliError;

/// What `goal` can do.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch goal create plan.yaml --project site
  tetrarch goal create --title 'Find out why the build is slow' --profiles profiles.yaml
  tetrarch goal list --state paused
  tetrarch goal pause @last --reason 'wait for the review'
  tetrarch goal priority goal_01JD8Z5W6T4QK3M9X2V7B1N0AC high
  tetrarch goal cancel site --yes           # the only open goal of project site

While a goal is paused nothing new begins, and what runs goes on. A cancelled goal's programs are
asked to stop; `tetrarch run` follows a goal from its beginning to its end.")]
pub(crate) enum GoalCommand {
    /// Create a goal and give it to a project.
    Create(GoalCreateArgs),
    /// List goals; archived ones with --all.
    List(ListFilter),
    /// Show everything about a goal.
    Show {
        /// The goal.
        epic: EpicId,
    },
    /// Pause a goal: nothing new begins for it.
    Pause(GoalMoveArgs),
    /// Resume a paused goal.
    Resume(GoalMoveArgs),
    /// Cancel a goal and stop what runs for it.
    Cancel {
        /// Which goal, and why.
        #[command(flatten)]
        goal: GoalMoveArgs,
        /// Cancel it without asking.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Archive a closed goal: lists leave it out.
    Archive(GoalMoveArgs),
    /// Set how urgent a goal is.
    Priority {
        /// The goal.
        epic: EpicId,
        /// 0 to 100, low, normal, high, urgent, or none to take it back.
        #[arg(value_parser = priority)]
        priority: PriorityChange,
        /// Why.
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// What `goal create` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct GoalCreateArgs {
    /// What is to be done.
    #[command(flatten)]
    pub(super) work: WorkArgs,
}

/// A goal and whose work it is to be.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// The plan: YAML, TOML or JSON.
    #[arg(conflicts_with = "title")]
    pub(super) plan: Option<PathBuf>,
    /// The goal in one line, instead of a plan: one task.
    #[arg(long)]
    pub(super) title: Option<String>,
    /// The project that works on it; the plan's own, or `main`, unless said.
    #[arg(long)]
    pub(super) project: Option<String>,
    /// Profiles that it comes with besides the plan's own: a mapping from names to profiles.
    #[arg(long, value_name = "FILE")]
    pub(super) profiles: Option<PathBuf>,
    /// What the plan's programs get as TETRARCH_ARGS.
    #[arg(last = true)]
    pub(super) arguments: Vec<String>,
}

/// Which goal, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct GoalMoveArgs {
    /// The goal.
    epic: EpicId,
    /// Why.
    #[arg(long, default_value = "")]
    reason: String,
}

/// A priority, or that nothing is said any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriorityChange(pub(super) Option<Priority>);

/// Reads a priority, or `none`.
///
/// # Errors
/// What is allowed.
pub(super) fn priority(text: &str) -> Result<PriorityChange, String> {
    if text == "none" {
        return Ok(PriorityChange(None));
    }
    let read = text.parse().map_err(|error| format!("{error}, none"));
    read.map(|priority| PriorityChange(Some(priority)))
}

/// Runs the command.
///
/// # Errors
/// The plan is wrong; the owner refuses, or does not answer; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: GoalCommand) -> Result<(), CliError> {
    match command {
        GoalCommand::Create(args) => create(context, args).await,
        GoalCommand::List(filter) => {
            get::run(context, GetArgs::of(ResourceKind::Goals, filter)).await
        }
        GoalCommand::Show { epic } => describe::run(context, DescribeArgs::of(epic)).await,
        GoalCommand::Pause(args) => decide(context, args, GoalVerb::Pause).await,
        GoalCommand::Resume(args) => decide(context, args, GoalVerb::Resume).await,
        GoalCommand::Cancel { goal, confirm } => {
            confirm.to(&format!("cancel {} and stop what runs for it", goal.epic))?;
            decide(context, goal, GoalVerb::Cancel).await
        }
        GoalCommand::Archive(args) => decide(context, args, GoalVerb::Archive).await,
        GoalCommand::Priority { epic, priority: PriorityChange(said), reason } => {
            decide(context, GoalMoveArgs { epic, reason }, GoalVerb::Prioritise(said)).await
        }
    }
}

async fn create(context: &Context, args: GoalCreateArgs) -> Result<(), CliError> {
    let WorkArgs { plan, title, project, profiles, arguments } = args.work;
    let prepared = prepared(plan.as_deref(), title.as_deref(), profiles.as_deref(), &arguments)?;
    let project = project_name(project.as_deref(), &prepared.plan)?;
    let client = context.client().await?;
    prepared.warn_of_here(&client);
    create_project(&client, &prepared.plan, &project).await?;
    let reply = give_goal(&client, &prepared.document.value, &project, None).await?;
    let epic = reply.epic.map(|epic| epic.to_string()).unwrap_or_default();
    report(context, &reply, &epic)
}

async fn decide(context: &Context, args: GoalMoveArgs, verb: GoalVerb) -> Result<(), CliError> {
    let GoalMoveArgs { epic, reason } = args;
    let client = context.client().await?;
    let reply = client.operate(&Op::Goal(GoalOp { epic, verb, reason })).await?;
    let said = format!("{epic}: {}", reply.detail);
    report(context, &reply, &said)
}
