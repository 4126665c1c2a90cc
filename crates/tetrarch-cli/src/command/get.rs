//! `get`: lists of agents, hosts, runs, goals and work nodes, from one read of STATE; with
//! `--watch` what changes of them, from the ledger. What a row shows is in `rows`.

pub(crate) mod rows;

use std::collections::BTreeMap;

use futures::StreamExt;
use tetrarch_bus::Bus;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::tail::follow_ledger;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{EpicId, ProjectName};

use crate::command::get::rows::{RowKey, RowOptions};
use crate::history;
use crate::options::OutputFormat;
use crate::output::{self, StdoutReader, TableRow, is_coloured, now};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `get`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch get agents --project demo
  tetrarch get runs --state running -o wide
  tetrarch get nodes --epic @last
  tetrarch get goals --all                # with archived goals
  tetrarch get agents PO-demo -o yaml
  tetrarch get agents --watch -o json")]
pub(crate) struct GetArgs {
    /// The kind to list.
    #[arg(value_enum)]
    kind: ResourceKind,
    /// Show only this one.
    name: Option<String>,
    /// Filter by goal.
    #[arg(long)]
    epic: Option<EpicId>,
    /// Filters.
    #[command(flatten)]
    filter: ListFilter,
}

/// Filters of a list.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ListFilter {
    /// Filter by project.
    #[arg(long)]
    project: Option<ProjectName>,
    /// Filter by state.
    #[arg(long)]
    state: Option<String>,
    /// Include archived goals.
    #[arg(short, long)]
    all: bool,
    /// Watch for changes until interrupted.
    #[arg(short, long)]
    watch: bool,
}

impl GetArgs {
    /// Whether something that is there may be left out.
    fn is_filtered(&self) -> bool {
        let ListFilter { project, state, .. } = &self.filter;
        self.name.is_some() || self.epic.is_some() || project.is_some() || state.is_some()
    }

    /// Those that list things of a kind.
    pub(crate) fn of(kind: ResourceKind, filter: ListFilter) -> Self {
        Self { kind, name: None, epic: None, filter }
    }

    /// Those that list the nodes of a goal's plan.
    pub(crate) fn nodes(epic: EpicId, state: Option<String>) -> Self {
        let filter = ListFilter { state, ..ListFilter::default() };
        Self { epic: Some(epic), ..Self::of(ResourceKind::Nodes, filter) }
    }

    /// Whether goals that are archived are left out.
    fn hides(&self, state: &str) -> bool {
        let wanted = self.filter.all || self.name.is_some() || self.filter.state.is_some();
        self.kind == ResourceKind::Goals && !wanted && state == GoalStatus::Archived.as_str()
    }
}

/// Kinds that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResourceKind {
    /// Agents: orchestrators, specialists, reviewers and workers.
    #[value(alias = "agent")]
    Agents,
    /// Hosts.
    #[value(alias = "host")]
    Hosts,
    /// Runs: attempts at briefs.
    #[value(alias = "run")]
    Runs,
    /// Goals.
    #[value(alias = "goal")]
    Goals,
    /// Work nodes of plans.
    #[value(alias = "node")]
    Nodes,
}

impl ResourceKind {
    /// The records that its rows are made of. Goals tell whose project an epic is.
    fn records(self, args: &GetArgs, output: OutputFormat) -> Vec<Select> {
        let all = |kinds: &[KeyKind]| kinds.iter().copied().map(Select::Kind).collect::<Vec<_>>();
        match self {
            // Only the wide table shows an agent's run: it takes as long to read as the agents.
            Self::Agents if output == OutputFormat::Wide => {
                all(&[KeyKind::Agent, KeyKind::RunStatus])
            }
            Self::Agents => all(&[KeyKind::Agent]),
            Self::Hosts => all(&[KeyKind::Host, KeyKind::Agent]),
            Self::Runs => all(&[KeyKind::Run, KeyKind::RunStatus, KeyKind::Goal]),
            Self::Goals => all(&[KeyKind::Goal, KeyKind::GoalState]),
            Self::Nodes => {
                let mut wanted = all(&[KeyKind::Goal, KeyKind::Plan]);
                wanted.extend([KeyKind::Node, KeyKind::NodeState].map(|kind| match args.epic {
                    Some(epic) => Select::OfEpic(kind, epic),
                    None => Select::Kind(kind),
                }));
                wanted
            }
        }
    }

    /// The words `--state` may be.
    fn states(self) -> Vec<&'static str> {
        use tetrarch_core::{goal, liveness, plan, run};
        match self {
            Self::Agents | Self::Hosts => {
                liveness::Liveness::ALL.map(liveness::Liveness::as_str).to_vec()
            }
            Self::Runs => run::RunState::ALL.map(run::RunState::as_str).to_vec(),
            Self::Goals => goal::GoalStatus::ALL.map(goal::GoalStatus::as_str).to_vec(),
            Self::Nodes => plan::NodeStatus::ALL.map(plan::NodeStatus::as_str).to_vec(),
        }
    }

    /// What is told instead of an empty list. `filtered`: there may be others.
    fn empty(self, filtered: bool) -> &'static str {
        match (self, filtered) {
            (Self::Agents, false) => "No agents. Every project and every running host has one.",
            (Self::Hosts, false) => "No hosts. Start one with `tetrarch host` or `tetrarch up`.",
            (Self::Runs, false) => "No runs. A run is one attempt of an agent at its work.",
            (Self::Goals, false) => {
                "No goals. Create one with `tetrarch run PLAN` or `tetrarch goal create PLAN`."
            }
            (Self::Nodes, false) => {
                "No work. The phases, tasks and subtasks of goals are listed here."
            }
            (Self::Agents, true) => "No agents match. Remove the filters to list all.",
            (Self::Hosts, true) => "No hosts match. Remove the filters to list all.",
            (Self::Runs, true) => "No runs match. Remove the filters to list all.",
            (Self::Goals, true) => "No goals match. Remove the filters to list all.",
            (Self::Nodes, true) => "No work matches. Remove the filters to list all.",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Agents => "agent",
            Self::Hosts => "host",
            Self::Runs => "run",
            Self::Goals => "goal",
            Self::Nodes => "node",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; the name is of nothing that exists; a state that is none.
pub(crate) async fn run(context: &Context, args: GetArgs) -> CliResult {
    check_state(&args)?;
    let bus = context.client().await?.bus;
    // Read before the records: what is newer than this is in the ledger from there on.
    let from = if args.filter.watch { history::next_entry(&bus).await? } else { 0 };
    let snapshot = StateSnapshot::read(&bus, &args.kind.records(&args, context.output)).await?;
    let whole = output::is_for_programs(context.output);
    let rows = matching(&snapshot, &args, whole)?;
    if let (Some(name), true, false) = (&args.name, rows.is_empty(), args.filter.watch) {
        let what = format!("no {} {name}", args.kind.word());
        let hint = format!("list them with `tetrarch get {}s`", args.kind.word());
        return Err(CliError::new(Code::NotFound, what).hint(hint));
    }
    if args.filter.watch {
        return watch(context.output, &bus, from, snapshot, rows, &args).await;
    }
    let columns = rows::columns(args.kind);
    if args.name.is_some()
        && whole
        && let [row] = rows.values().collect::<Vec<_>>().as_slice()
    {
        return output::record(context.output, &row.record, String::new);
    }
    let empty = args.kind.empty(args.is_filtered());
    output::listing(context.output, columns, rows.into_values().collect(), empty)
}

fn check_state(args: &GetArgs) -> CliResult {
    let allowed = args.kind.states();
    match &args.filter.state {
        Some(state) if !allowed.contains(&state.as_str()) => {
            let what = format!("{state:?} is not a state of {}s", args.kind.word());
            let hint = format!("use one of {}", allowed.join(", "));
            Err(CliError::new(Code::Usage, what).hint(hint))
        }
        Some(_) | None => Ok(()),
    }
}

type RowsByKey = BTreeMap<RowKey, TableRow>;

fn matching(snapshot: &StateSnapshot, args: &GetArgs, whole: bool) -> CliResult<RowsByKey> {
    let mut found = RowsByKey::new();
    for key in rows::keys(snapshot, args.kind) {
        if let Some(row) = row_if_wanted(snapshot, args, &key, whole)? {
            found.insert(key, row);
        }
    }
    Ok(found)
}

fn row_if_wanted(
    snapshot: &StateSnapshot,
    args: &GetArgs,
    key: &RowKey,
    whole: bool,
) -> CliResult<Option<TableRow>> {
    let facts = rows::facts(snapshot, key);
    let named = args.name.as_ref().is_none_or(|name| key.is_named(name));
    let project = args.filter.project.as_ref().is_none_or(|project| facts.project == Some(project));
    let epic = args.epic.is_none_or(|epic| facts.epic == Some(epic));
    let state = args.filter.state.as_deref().is_none_or(|state| facts.state == state);
    if !(named && project && epic && state) || args.hides(facts.state) {
        return Ok(None);
    }
    rows::row(snapshot, key, RowOptions { now: now(), whole })
}

/// Prints the rows and then every row that changes.
async fn watch(
    output: OutputFormat,
    bus: &Bus,
    from: u64,
    mut snapshot: StateSnapshot,
    mut shown: RowsByKey,
    args: &GetArgs,
) -> CliResult {
    let whole = output::is_for_programs(output);
    let columns = rows::columns(args.kind);
    let mut printed = 0;
    let mut show = |rows: Vec<TableRow>| -> CliResult<StdoutReader> {
        let mut reader = StdoutReader::There;
        match output {
            OutputFormat::Table | OutputFormat::Wide => {
                let wide = output == OutputFormat::Wide;
                let table = output::table(columns, &rows, wide, is_coloured());
                let skipped = usize::from(printed > 0);
                let lines: Vec<&str> = table.lines().skip(skipped).collect();
                reader = output::text(&lines.join("\n"))?;
                printed += 1;
            }
            OutputFormat::Json | OutputFormat::Yaml => {
                for row in rows {
                    reader = output::item(output, &row.record, "")?;
                }
            }
        }
        Ok(reader)
    };
    let mut reader = show(shown.values().cloned().collect())?;
    let mut entries = std::pin::pin!(follow_ledger(bus, from, 0));
    while reader == StdoutReader::There {
        let Some(item) = entries.next().await else { break };
        let Ok(entry) = item.entry else { continue };
        let mut changed = Vec::new();
        let newer = snapshot.apply(item.seq, &entry);
        for key in rows::affected(&snapshot, &newer, args.kind) {
            let Some(row) = row_if_wanted(&snapshot, args, &key, whole)? else { continue };
            if shown.get(&key) != Some(&row) {
                shown.insert(key, row.clone());
                changed.push(row);
            }
        }
        if !changed.is_empty() {
            reader = show(changed)?;
        }
    }
    Ok(())
}
