//! `project`: creates projects, sets their mode, retires them. The owner decides.

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::{Mode, Project, UnknownMode};
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{AgentId, HostName, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::OpReply;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};

use crate::output::{self, Cell, TableRow, age, now};
use crate::{CliResult, ConfirmArgs, Context, StateSnapshot};

/// Subcommands of `project`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch project list
  tetrarch project create demo --mode tight --tools git,shell --tokens 200000
  tetrarch project mode demo orchestrator
  tetrarch project retire demo --yes")]
pub(crate) enum ProjectCommand {
    /// List projects; --all includes retired projects.
    List {
        /// Include retired projects.
        #[arg(short, long)]
        all: bool,
    },
    /// Create a project and start its orchestrator.
    Create(ProjectCreateArgs),
    /// Set the delegation mode of a project.
    Mode {
        /// The project.
        name: ProjectName,
        /// The mode: solo, tight or orchestrator.
        #[arg(value_parser = mode)]
        mode: Mode,
    },
    /// Retire a project and end its agents.
    Retire {
        /// The project.
        name: ProjectName,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Arguments of `project create`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProjectCreateArgs {
    /// The project's name.
    name: ProjectName,
    /// The delegation mode: solo, tight or orchestrator [default: limits.mode].
    #[arg(long, value_parser = mode)]
    mode: Option<Mode>,
    /// The tools its agents may use, separated by commas; * allows all.
    #[arg(long, value_delimiter = ',')]
    tools: Vec<String>,
    /// The budget.
    #[command(flatten)]
    budget: BudgetLimitArgs,
    /// The host for its orchestrator.
    #[arg(long)]
    host: Option<HostName>,
    /// The deepest level of its agents below GO, 1 to 3.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    max_depth: Option<u8>,
}

/// A budget; an amount that is not given is not limited.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct BudgetLimitArgs {
    /// Model tokens.
    #[arg(long)]
    tokens: Option<u64>,
    /// US dollars, such as 2.50.
    #[arg(long, value_parser = dollars)]
    cost_usd: Option<MicroUsd>,
    /// Turns.
    #[arg(long)]
    turns: Option<u64>,
}

/// Millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MicroUsd(u64);

impl From<MicroUsd> for u64 {
    fn from(MicroUsd(micro): MicroUsd) -> Self {
        micro
    }
}

impl From<BudgetLimitArgs> for Limits {
    fn from(args: BudgetLimitArgs) -> Self {
        let BudgetLimitArgs { tokens, cost_usd, turns } = args;
        Self { tokens, cost_micro: cost_usd.map(|MicroUsd(micro)| micro), turns }
    }
}

/// Reads a mode's word.
pub(crate) fn mode(text: &str) -> Result<Mode, UnknownMode> {
    Mode::parse(text)
}

/// Dollars as millionths of one, without a detour through floating point.
pub(crate) fn dollars(text: &str) -> Result<MicroUsd, String> {
    let wrong =
        || format!("{text:?} is not an amount; allowed: dollars with at most 6 decimals, 2.50");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let micro: u64 = format!("{decimals:0<6}").parse().map_err(|_| wrong())?;
    let total = whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(micro));
    total.map(MicroUsd).ok_or_else(wrong)
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: ProjectCommand) -> CliResult {
    let (op, said) = match command {
        ProjectCommand::List { all } => return list(context, all).await,
        ProjectCommand::Create(args) => {
            let said = format!("project {} created", args.name);
            (Op::ProjectCreate(creation(context, args)), said)
        }
        ProjectCommand::Mode { name, mode } => {
            let said = format!("project {name} is {mode} now");
            (Op::ProjectMode { project: name, mode }, said)
        }
        ProjectCommand::Retire { name, confirm } => {
            confirm.to(&format!("retire project {name} and end all its agents"))?;
            let said = format!("project {name} retired");
            (Op::ProjectRetire { project: name }, said)
        }
    };
    ask(context, &op, |_| said).await
}

const COLUMNS: &str = "NAME|STATE|MODE|OPEN GOALS|AGE|+CREATED BY|+ORCHESTRATOR";

async fn list(context: &Context, all: bool) -> CliResult {
    let bus = context.client().await?.bus;
    let kinds = [KeyKind::Project, KeyKind::Goal, KeyKind::GoalState].map(Select::Kind);
    let mut snapshot = StateSnapshot::read(&bus, &kinds).await?;
    let orchestrators = snapshot.records.projects.keys().cloned().map(AgentId::Po);
    let orchestrators =
        orchestrators.map(|id| Select::One(RecordKey::Agent(id))).collect::<Vec<_>>();
    if !orchestrators.is_empty() {
        snapshot.add(&bus, &orchestrators).await?;
    }
    let shown = snapshot.records.projects.values().filter(|project| all || !project.retired);
    let rows = shown.map(|project| row(&snapshot, project));
    let rows = rows.collect::<CliResult<Vec<TableRow>>>()?;
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No projects. `tetrarch run PLAN` creates its plan's, `tetrarch project create PROJECT` an empty one.",
    )
}

fn row(snapshot: &StateSnapshot, project: &Project) -> CliResult<TableRow> {
    let records = &snapshot.records;
    let open = records.goals.values().filter(|goal| goal.project == project.name).filter(|goal| {
        records.goal_states.get(&goal.id).is_some_and(|state| !state.status.is_closed())
    });
    let orchestrator = AgentId::Po(project.name.clone());
    let ended =
        records.agents.get(&orchestrator).is_some_and(|it| it.liveness == Liveness::Terminated);
    let state = match (project.retired, ended) {
        (true, _) => "retired",
        (false, true) => "stopped",
        (false, false) => "active",
    };
    let cells = vec![
        project.name.to_string().into(),
        Cell::state(state),
        project.mode.as_str().into(),
        open.count().to_string().into(),
        age(now(), project.created).into(),
        project.created_by.to_string().into(),
        orchestrator.to_string().into(),
    ];
    Ok(TableRow { cells, record: snapshot.json(&Record::Project(project.clone()))? })
}

fn creation(context: &Context, args: ProjectCreateArgs) -> ProjectCreate {
    ProjectCreate {
        project: args.name,
        mode: args.mode.unwrap_or(context.config.mode),
        external: false,
        tools: args.tools.into_iter().collect(),
        budget: args.budget.into(),
        local_max_depth: args.max_depth,
        placement: PlacementWish { host: args.host, labels: Vec::new() },
    }
}

/// Asks the owner for an operation and prints what came of it: `said` for people, the reply for programs.
///
/// # Errors
/// The operation is refused or not answered; standard output cannot be written.
pub(crate) async fn ask(
    context: &Context,
    op: &Op,
    said: impl FnOnce(&OpReply) -> String,
) -> CliResult {
    let reply = context.client().await?.operate(op).await?;
    report(context, &reply, &said(&reply))
}

/// Prints what came of an operation: `said` for people, the reply for programs.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn report(context: &Context, reply: &OpReply, said: &str) -> CliResult {
    output::record(context.output, &reply_json(reply), || match &reply.agent {
        Some(agent) => {
            let state = reply.liveness.map(|state| format!(", {state}")).unwrap_or_default();
            format!("{said} ({agent}{state})\n")
        }
        None => format!("{said}\n"),
    })
}

/// A reply as programs get it, with the names of its own JSON.
pub(crate) fn reply_json(reply: &OpReply) -> Value {
    json!({
        "op": reply.op,
        "detail": reply.detail,
        "epic": reply.epic.map(|epic| epic.to_string()),
        "version": reply.version,
        "agent": reply.agent.as_ref().map(ToString::to_string),
        "session": reply.session.map(|session| session.to_string()),
        "epoch": reply.agent_epoch,
        "liveness": reply.liveness.map(|state| state.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_parsed_exactly() {
        for (text, micro) in
            [("2.50", 2_500_000), ("0.000001", 1), ("3", 3_000_000), ("0.1", 100_000)]
        {
            assert_eq!(dollars(text), Ok(MicroUsd(micro)), "{text}");
        }
        for text in ["", ".5", "1.0000001", "-1", "1e3", "2,50", "99999999999999999999"] {
            assert!(dollars(text).is_err(), "{text}");
        }
    }
}
