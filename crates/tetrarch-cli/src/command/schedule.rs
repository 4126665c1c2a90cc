//! `schedule`: what begins at set times (spec 05, Schedules; spec 07, Lanes). The owner decides and begins it.

use serde_json::Value;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::duration;
use tetrarch_core::id::{ConversationName, GraphName, HumanName, Principal, ScheduleId};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::limits::SCHEDULE_PLAN_BYTES_MAX;
use tetrarch_core::request::Op;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::schedule::{Deed, Rhythm, Schedule, ScheduledTurn, UTC};
use tetrarch_core::time::Millis;

use super::goal::WorkArgs;
use super::mail;
use super::project::ask;
use super::run::{PROJECT, Prepared, create_project, prepared, project_name};
use crate::output::{self, Cell, Sheet, TableRow, is_coloured, now, stamp};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Subcommands of `schedule`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch schedule create --cron '30 6 * * 1-5' --zone Europe/Berlin nightly.yaml --project site
  tetrarch schedule create --every 6h --title 'Look for broken links' --profiles profiles.yaml
  tetrarch schedule create --cron '0 9 1 * *' --mail-to human:ada --text 'the month is over'
  tetrarch schedule create --every 1d --say 'look for broken links' --conversation night --project site
  tetrarch schedule list
  tetrarch schedule delete sch_01JD8Z5W6T4QK3M9X2V7B1N0AC

A time that daylight saving skips is due right after the skip; a time that occurs twice is due the
first time. Firings that were missed while nothing ran start once.")]
pub(crate) enum ScheduleCommand {
    /// Create a schedule for a goal, mail or a turn of a conversation.
    Create(Box<ScheduleCreateArgs>),
    /// List schedules.
    List,
    /// Show a schedule.
    Show {
        /// The schedule.
        schedule: ScheduleId,
    },
    /// Delete a schedule.
    Delete {
        /// The schedule.
        schedule: ScheduleId,
    },
}

/// Arguments of `schedule create`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["cron", "every"]))]
#[command(group = clap::ArgGroup::new("what").required(true).args(["plan", "title", "mail_to", "say"]))]
pub(crate) struct ScheduleCreateArgs {
    /// A cron expression: minute, hour, day of month, month, day of week.
    #[arg(long)]
    cron: Option<String>,
    /// The time zone of --cron.
    #[arg(long, default_value = UTC, conflicts_with = "every")]
    zone: String,
    /// An interval, such as 90m; at least 1m for a goal or a turn.
    #[arg(long, value_parser = duration::parse)]
    every: Option<Millis>,
    /// Send mail to this recipient: an agent or human:<name>.
    #[arg(long, value_name = "WHO", requires = "text")]
    mail_to: Option<Principal>,
    /// The text of the mail.
    #[arg(long, requires = "mail_to")]
    text: Option<String>,
    /// Say this in a conversation of yours, as a turn in the background; its transcript has the answer.
    #[arg(long, value_name = "TEXT", requires = "conversation")]
    say: Option<String>,
    /// The conversation of --say; a new name begins one in --project.
    #[arg(short, long, value_name = "NAME", requires = "say")]
    conversation: Option<ConversationName>,
    /// The graph that routes the turn [default: the conversation's, or `default`].
    #[arg(long, requires = "say")]
    graph: Option<GraphName>,
    /// Send the answer of the turn to this person by mail.
    #[arg(long, value_name = "NAME", requires = "say")]
    tell: Option<HumanName>,
    /// The goal to start.
    #[command(flatten)]
    goal: WorkArgs,
}

const COLUMNS: &str = "SCHEDULE|WHEN|WHAT|NEXT|BEGUN|+LAST|+OWNER|+OUTCOME";

/// Runs the command.
///
/// # Errors
/// The plan is wrong; the owner refuses, or does not answer; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: ScheduleCommand) -> CliResult {
    match command {
        ScheduleCommand::Create(args) => create(context, *args).await,
        ScheduleCommand::List => list(context).await,
        ScheduleCommand::Show { schedule } => show(context, schedule).await,
        ScheduleCommand::Delete { schedule } => {
            let op = Op::Schedule(ScheduleOp::Delete { schedule });
            ask(context, &op, |_| format!("{schedule} deleted")).await
        }
    }
}

async fn create(context: &Context, args: ScheduleCreateArgs) -> CliResult {
    let ScheduleCreateArgs { cron, zone, every, mail_to, text, say, conversation, .. } = args;
    let (graph, tell, goal) = (args.graph, args.tell, args.goal);
    let rhythm = match (cron, every) {
        (Some(expression), _) => Rhythm::Cron { expression, zone },
        (None, Some(every)) => Rhythm::Every(every),
        (None, None) => return Err(CliError::new(Code::Usage, "give --cron or --every")),
    };
    let (deed, work) = match (mail_to, say, conversation) {
        (Some(to), _, _) => (Deed::Mail { to, text: text.unwrap_or_default() }, None),
        (None, Some(text), Some(conversation)) => {
            let project = goal.project.as_deref().unwrap_or(PROJECT);
            let project = project.parse().map_err(CliError::usage)?;
            (Deed::Turn(ScheduledTurn { conversation, project, graph, text, tell }), None)
        }
        (None, _, _) => {
            let (deed, prepared) = goal_of(goal)?;
            (deed, Some(prepared))
        }
    };
    // Before a project is made for it.
    rhythm.first(&deed, now()).map_err(|error| CliError::new(Code::Usage, error.to_string()))?;
    let client = context.client().await?;
    let reader = match &deed {
        Deed::Mail { to, .. } => Some(to.clone()),
        Deed::Turn(turn) => turn.tell.clone().map(Principal::Human),
        Deed::Goal { .. } => None,
    };
    if let Some(reader) = reader {
        mail::check_reads(context, &client, &reader).await?;
    }
    if let (Some(prepared), Deed::Goal { project, .. }) = (&work, &deed) {
        prepared.warn_of_here(context, &client);
        create_project(&client, &prepared.plan, project).await?;
    }
    let op = Op::Schedule(ScheduleOp::Create { rhythm, deed: Box::new(deed) });
    ask(context, &op, |reply| reply.detail.clone()).await
}

fn goal_of(goal: WorkArgs) -> CliResult<(Deed, Prepared)> {
    let WorkArgs { plan, title, project, profiles, arguments } = goal;
    let prepared = prepared(plan.as_deref(), title.as_deref(), profiles.as_deref(), &arguments)?;
    let project = project_name(project.as_deref(), &prepared.plan)?;
    let plan = prepared.document.value.to_string();
    if plan.len() > SCHEDULE_PLAN_BYTES_MAX {
        let what = format!(
            "the plan has {} bytes; a schedule carries at most {SCHEDULE_PLAN_BYTES_MAX}",
            plan.len()
        );
        return Err(CliError::new(Code::Usage, what)
            .hint("put long texts into files that its programs read"));
    }
    Ok((Deed::Goal { project, plan }, prepared))
}

async fn list(context: &Context) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::Kind(KeyKind::Schedule)]).await?;
    let rows = snapshot.records.schedules.values().map(|schedule| row(&snapshot, schedule));
    let rows = rows.collect::<CliResult<Vec<TableRow>>>()?;
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No schedules. Create one with `tetrarch schedule create PLAN --every 6h`.",
    )
}

fn json(snapshot: &StateSnapshot, schedule: &Schedule) -> CliResult<Value> {
    snapshot.json(&Record::Schedule(Box::new(schedule.clone())))
}

fn row(snapshot: &StateSnapshot, schedule: &Schedule) -> CliResult<TableRow> {
    let cells = vec![
        schedule.id.to_string().into(),
        schedule.rhythm.in_words().into(),
        what(schedule).into(),
        schedule.next.map_or_else(|| "never".to_owned(), stamp).into(),
        schedule.fired.to_string().into(),
        Cell::some(schedule.last.map(stamp)),
        schedule.owner.to_string().into(),
        schedule.outcome.as_str().into(),
    ];
    Ok(TableRow { cells, record: json(snapshot, schedule)? })
}

fn what(schedule: &Schedule) -> String {
    match &schedule.deed {
        Deed::Goal { project, plan } => {
            let plan: Value = serde_json::from_str(plan).unwrap_or_default();
            let title = plan["title"].as_str().or_else(|| plan["goal"]["title"].as_str());
            format!("goal for {project}: {}", title.unwrap_or_default())
        }
        Deed::Mail { to, .. } => format!("mail to {to}"),
        Deed::Turn(turn) => format!("turn of {}: {}", turn.conversation, turn.text),
    }
}

async fn show(context: &Context, id: ScheduleId) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::One(RecordKey::Schedule(id))]).await?;
    let Some(schedule) = snapshot.records.schedules.get(&id) else {
        return Err(CliError::new(Code::NotFound, format!("schedule {id} was not found"))
            .hint("list them with `tetrarch schedule list`"));
    };
    let value = json(&snapshot, schedule)?;
    output::record(context.output, &value, || {
        let mut sheet = Sheet::new(&id.to_string(), is_coloured());
        sheet
            .field("when", schedule.rhythm.in_words())
            .field("what", what(schedule))
            .field("owner", schedule.owner.to_string())
            .field("created", stamp(schedule.created))
            .field("begun", schedule.fired.to_string())
            .field("last due", Cell::some(schedule.last.map(stamp)))
            .field("outcome", schedule.outcome.as_str())
            .field("next", schedule.next.map_or_else(|| "never".to_owned(), stamp));
        match &schedule.deed {
            Deed::Goal { plan, .. } => sheet.passage("plan", plan),
            Deed::Mail { text, .. } => sheet.passage("text", text),
            Deed::Turn(turn) => sheet
                .field("project", turn.project.as_str())
                .field("graph", Cell::some(turn.graph.as_ref().map(GraphName::to_string)))
                .field("tells", Cell::some(turn.tell.as_ref().map(HumanName::to_string)))
                .passage("text", &turn.text),
        };
        sheet.finish()
    })
}
