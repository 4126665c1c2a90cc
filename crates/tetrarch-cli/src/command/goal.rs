//! `goal`: gives goals to projects and decides on those that there are (spec 05, Status machines; spec
//! 08). The owner decides what is possible.

use std::path::PathBuf;

use serde_json::json;
use tetrarch_bus::state::Select;
use tetrarch_core::conversation::Turn;
use tetrarch_core::id::{ConversationName, EpicId};
use tetrarch_core::plan::schema;
use tetrarch_core::priority::Priority;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::{GoalOp, GoalUpdate, GoalVerb};

use super::describe::{self, DescribeArgs};
use super::get::{self, GetArgs, ListFilter, ResourceKind};
use super::project::{ask, report};
use super::run::{create_project, give_goal, prepared, project_name};
use crate::document::{Document, read_document};
use crate::{CliError, CliResult, Code, ConfirmArgs, Context, StateSnapshot};

/// Characters of a title that is made of what was said.
const TITLE_CHARS: usize = 80;

/// Subcommands of `goal`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch goal create plan.yaml --project site
  tetrarch goal create --title 'Find out why the build is slow' --profiles profiles.yaml
  tetrarch goal create --from site          # what was said last in the conversation site
  tetrarch goal list --state paused
  tetrarch goal pause @last --reason 'wait for the review'
  tetrarch goal priority goal_01JD8Z5W6T4QK3M9X2V7B1N0AC high
  tetrarch goal cancel site --yes           # the only open goal of the project site

A paused goal starts no new work; running work goes on. A cancelled goal stops its running
programs. `tetrarch run` creates a goal and follows it to its end.")]
pub(crate) enum GoalCommand {
    /// Create a goal in a project.
    Create(GoalCreateArgs),
    /// List goals; --all includes archived goals.
    List(ListFilter),
    /// Show everything about a goal.
    Show {
        /// The goal.
        epic: EpicId,
    },
    /// Pause a goal: start no new work.
    Pause(GoalMoveArgs),
    /// Resume a paused goal.
    Resume(GoalMoveArgs),
    /// Cancel a goal and stop its running work.
    Cancel {
        /// The goal and the reason.
        #[command(flatten)]
        goal: GoalMoveArgs,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Change what a goal says; what is not given stays.
    Update(GoalUpdateArgs),
    /// Archive a closed goal.
    Archive(GoalMoveArgs),
    /// Set the priority of a goal.
    Priority {
        /// The goal.
        epic: EpicId,
        /// The priority: 0 to 100, low, normal, high, urgent, or none to unset it.
        #[arg(value_parser = priority)]
        priority: PriorityChange,
        /// The reason.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
}

/// Arguments of `goal create`.
#[derive(Debug, clap::Args)]
pub(crate) struct GoalCreateArgs {
    /// The work.
    #[command(flatten)]
    pub(super) work: WorkArgs,
    /// The conversation it comes from: its project works on it, and its last words say what is wanted.
    #[arg(long, value_name = "CONVERSATION")]
    from: Option<ConversationName>,
}

/// A goal and its project.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// The plan file: YAML, TOML or JSON.
    #[arg(conflicts_with = "title")]
    pub(super) plan: Option<PathBuf>,
    /// A goal in one line instead of a plan file; it gets one task.
    #[arg(long)]
    pub(super) title: Option<String>,
    /// The project that works on the goal [default: the plan's project, or `main`].
    #[arg(long)]
    pub(super) project: Option<String>,
    /// A file of profiles to add to the plan's own: a mapping from names to profiles.
    #[arg(long, value_name = "FILE")]
    pub(super) profiles: Option<PathBuf>,
    /// Arguments for the plan's programs, passed as TETRARCH_ARGS.
    #[arg(last = true)]
    pub(super) arguments: Vec<String>,
}

/// Arguments of `goal update`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch goal update goal_01JD8Z5W6T4QK3M9X2V7B1N0AC --title 'Tidy the shop'
  tetrarch goal update @last --criterion 'the floor is clean' --reason 'as agreed'
  tetrarch goal update @last goal.yaml

FILE is a mapping with the keys of a plan file's goal. Work that has begun keeps its brief.")]
pub(crate) struct GoalUpdateArgs {
    /// The goal.
    epic: EpicId,
    /// A file with the fields to change: YAML, TOML or JSON.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The title.
    #[arg(long)]
    title: Option<String>,
    /// The problem to solve.
    #[arg(long, value_name = "TEXT")]
    problem: Option<String>,
    /// A success criterion; repeat it for several, which replace the earlier ones.
    #[arg(long, value_name = "TEXT")]
    criterion: Vec<String>,
    /// A constraint; repeat it for several, which replace the earlier ones.
    #[arg(long, value_name = "TEXT")]
    constraint: Vec<String>,
    /// The reason.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// The goal and the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct GoalMoveArgs {
    /// The goal.
    epic: EpicId,
    /// The reason.
    #[arg(long, default_value = "", hide_default_value = true)]
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
pub(crate) async fn run(context: &Context, command: GoalCommand) -> CliResult {
    match command {
        GoalCommand::Create(args) => create(context, args).await,
        GoalCommand::List(filter) => {
            get::run(context, GetArgs::of(ResourceKind::Goals, filter)).await
        }
        GoalCommand::Show { epic } => describe::run(context, DescribeArgs::of(epic)).await,
        GoalCommand::Pause(args) => decide(context, args, GoalVerb::Pause).await,
        GoalCommand::Resume(args) => decide(context, args, GoalVerb::Resume).await,
        GoalCommand::Cancel { goal, confirm } => {
            confirm.to(&format!("cancel {} and stop its running work", goal.epic))?;
            decide(context, goal, GoalVerb::Cancel).await
        }
        GoalCommand::Update(args) => update(context, args).await,
        GoalCommand::Archive(args) => decide(context, args, GoalVerb::Archive).await,
        GoalCommand::Priority { epic, priority: PriorityChange(said), reason } => {
            decide(context, GoalMoveArgs { epic, reason }, GoalVerb::Prioritise(said)).await
        }
    }
}

async fn create(context: &Context, args: GoalCreateArgs) -> CliResult {
    let WorkArgs { plan, title, project, profiles, arguments } = args.work;
    let said = match &args.from {
        Some(conversation) => Some(last_said(context, conversation).await?),
        None => None,
    };
    let line = said.as_ref().and_then(|turn| turn.text.lines().find(|it| !it.trim().is_empty()));
    let of_turn = line.map(|line| line.trim().chars().take(TITLE_CHARS).collect::<String>());
    let title = title.or(of_turn.filter(|_| plan.is_none()));
    let mut prepared =
        prepared(plan.as_deref(), title.as_deref(), profiles.as_deref(), &arguments)?;
    let of_turn = said.as_ref().map(|turn| turn.project.to_string());
    let project = project.or(of_turn.filter(|_| prepared.plan.project.is_none()));
    let project = project_name(project.as_deref(), &prepared.plan)?;
    if let Some(turn) = &said {
        prepared.comes_from(turn);
    }
    let client = context.client().await?;
    prepared.warn_of_here(context, &client);
    prepared.describe_repository().await;
    create_project(&client, &prepared.plan, &project).await?;
    let reply = give_goal(&client, &prepared.document.value, &project, None).await?;
    let epic = reply.epic.map(|epic| epic.to_string()).unwrap_or_default();
    report(context, &reply, &epic)
}

/// What was said last in a conversation of whoever asks.
async fn last_said(context: &Context, conversation: &ConversationName) -> CliResult<Turn> {
    let human = context.human()?;
    let client = context.client().await?;
    let turns = [Select::TurnsOf(human.clone())];
    let records = StateSnapshot::read(&client.bus, &turns).await?.0.records;
    let last = records.turns_of(&human, conversation).next_back().cloned();
    last.ok_or_else(|| {
        let what = format!("conversation {conversation} was not found");
        CliError::new(Code::NotFound, what).hint("`tetrarch chat --list` lists all")
    })
}

async fn update(context: &Context, args: GoalUpdateArgs) -> CliResult {
    let GoalUpdateArgs { epic, file, title, problem, criterion, constraint, reason } = args;
    let mut document = match &file {
        Some(file) => read_document(file)?,
        None => Document::of("goal", json!({})),
    };
    if let Some(fields) = document.value.as_object_mut() {
        let texts = [("title", title), ("problemStatement", problem)];
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, json!(text?))));
        let lists = [("successCriteria", criterion), ("constraints", constraint)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        fields.extend(
            texts
                .chain(lists.map(|(key, list)| (key, json!(list))))
                .map(|(key, value)| (key.to_owned(), value)),
        );
    }
    if file.is_none() && document.value == json!({}) {
        return Err(CliError::new(Code::Usage, "nothing to change was given")
            .hint("give a file, --title, --problem, --criterion or --constraint"));
    }
    let change = schema::parse_goal_change(&document.value)
        .map_err(|problems| document.refused("goal", &problems))?;
    let op = Op::GoalUpdate(Box::new(GoalUpdate { epic, change, reason }));
    ask(context, &op, |reply| format!("{epic}: {}", reply.detail)).await
}

async fn decide(context: &Context, args: GoalMoveArgs, verb: GoalVerb) -> CliResult {
    let GoalMoveArgs { epic, reason } = args;
    ask(context, &Op::Goal(GoalOp { epic, verb, reason }), |reply| {
        format!("{epic}: {}", reply.detail)
    })
    .await
}
