//! `worktree`: what runs left on this host, and its removal by a human who names it (spec 06, Worktrees
//! and the apply gate).

use std::path::Path;

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::change::Change;
use tetrarch_core::id::{AgentId, HostName, RunId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::liveness::Liveness;
use tetrarch_runner::{InventoryError, KeptWorktree, WorktreeState, remove_worktree, worktrees};

use super::host::{host_name, worktrees_dir};
use crate::output::{self, Cell, Sheet, TableRow, is_coloured};
use crate::{CliError, CliResult, Code, ConfirmArgs, Context, HumanClient, StateSnapshot};

/// Subcommands of `worktree`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch worktree list
  tetrarch worktree show run_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch worktree remove run_01JD8Z5W6T4QK3M9X2V7B1N0AC --force --yes

Worktrees are on the machine whose host made them. Run this command there.")]
pub(crate) enum WorktreeCommand {
    /// List the worktrees of a host on this machine.
    #[command(alias = "ls")]
    List {
        /// The host's name [default: the only host here, else the machine's name].
        #[arg(long)]
        host: Option<String>,
    },
    /// Show a worktree.
    Show {
        /// The run that the worktree belongs to.
        run: RunId,
        /// The host's name [default: the only host here, else the machine's name].
        #[arg(long)]
        host: Option<String>,
    },
    /// Remove a worktree and its branch.
    Remove {
        /// The run that the worktree belongs to.
        run: RunId,
        /// Remove it even when its work is not stored elsewhere, or when it is in use.
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
        /// The host's name [default: the only host here, else the machine's name].
        #[arg(long)]
        host: Option<String>,
    },
}

const COLUMNS: &str = "RUN|STATE|CHANGE|SIZE|UNCOMMITTED|FOR|+AGENT|+GOAL|+REPOSITORY|+DIRECTORY";

/// Runs the command.
///
/// # Errors
/// There is none, it holds work that is nowhere else, or the bus cannot be read.
pub(crate) async fn run(context: &Context, command: WorktreeCommand) -> CliResult {
    match command {
        WorktreeCommand::List { host } => list(context, host.as_ref()).await,
        WorktreeCommand::Show { run, host } => show(context, &run.to_string(), host.as_ref()).await,
        WorktreeCommand::Remove { run, force, confirm, host } => {
            confirm.to(&format!("remove the worktree of {run} and its branch"))?;
            remove(context, &run.to_string(), force, host.as_ref()).await
        }
    }
}

/// The host that is named, else the only one whose worktrees are in the data directory, else the machine's.
fn host(context: &Context, given: Option<&String>) -> CliResult<HostName> {
    let name = host_name(given.or(context.config.host.name.as_ref()))?;
    let here = worktrees_dir(context, &name);
    if given.is_some() || here.exists() {
        return Ok(name);
    }
    let others = here.parent().map(std::fs::read_dir).into_iter().flatten().flatten().flatten();
    let others = others.filter_map(|entry| HostName::new(entry.file_name().to_str()?).ok());
    let mut others: Vec<HostName> = others.collect();
    others.sort();
    match &others[..] {
        [] => Ok(name),
        [only] => Ok(only.clone()),
        [..] => {
            let all: Vec<String> = others.iter().map(ToString::to_string).collect();
            let what =
                format!("host {name} has no worktrees here; these hosts have: {}", all.join(", "));
            Err(CliError::new(Code::NotFound, what).hint("name one with --host"))
        }
    }
}

/// The latest change that came of each worktree.
async fn changes(client: &HumanClient) -> CliResult<StateSnapshot> {
    StateSnapshot::read(&client.bus, &[Select::Kind(KeyKind::Change)]).await
}

fn change_of<'s>(snapshot: &'s StateSnapshot, kept: &KeptWorktree) -> Option<&'s Change> {
    let of = |change: &&Change| {
        change.made.branch == kept.branch && change.agent.to_string() == kept.agent
    };
    snapshot.records.changes.values().filter(of).max_by_key(|change| (change.proposed, change.id))
}

fn value(snapshot: &StateSnapshot, kept: &KeptWorktree) -> Value {
    let change = change_of(snapshot, kept);
    json!({
        "run": kept.run,
        "agent": kept.agent,
        "goal": kept.goal,
        "state": kept.state.as_str(),
        "change": change.map(|change| change.id.to_string()),
        "changeStatus": change.map(|change| change.status.as_str()),
        "bytes": kept.bytes,
        "uncommitted": kept.uncommitted,
        "branch": kept.branch,
        "target": kept.target,
        "repository": kept.repository,
        "directory": kept.dir,
    })
}

async fn kept(context: &Context, dir: &Path) -> Vec<KeptWorktree> {
    worktrees(dir, &context.config.host.containment).await
}

async fn list(context: &Context, given: Option<&String>) -> CliResult {
    let name = host(context, given)?;
    let all = kept(context, &worktrees_dir(context, &name)).await;
    let snapshot = changes(&context.client().await?).await?;
    let rows: Vec<TableRow> = all.iter().map(|kept| row(&snapshot, kept)).collect();
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No worktrees on this host. Runs with `worktree: isolated` keep their worktree here until their change is decided.",
    )?;
    if !output::is_for_programs(context.output) && !all.is_empty() {
        let bytes: u64 = all.iter().map(|kept| kept.bytes).sum();
        let max = context.config.host.worktrees_max;
        output::text(&format!("{} of at most {max} on {name}, {}", all.len(), size(bytes)))?;
    }
    Ok(())
}

fn row(snapshot: &StateSnapshot, kept: &KeptWorktree) -> TableRow {
    let change = change_of(snapshot, kept);
    let change = change.map(|change| format!("{} {}", change.id, change.status));
    TableRow {
        cells: vec![
            kept.run.as_str().into(),
            Cell::state(kept.state.as_str()),
            Cell::some(change),
            size(kept.bytes).into(),
            kept.uncommitted.to_string().into(),
            kept.target.as_str().into(),
            kept.agent.as_str().into(),
            kept.goal.as_str().into(),
            kept.repository.as_str().into(),
            kept.dir.display().to_string().into(),
        ],
        record: value(snapshot, kept),
    }
}

async fn show(context: &Context, run: &str, given: Option<&String>) -> CliResult {
    let name = host(context, given)?;
    let all = kept(context, &worktrees_dir(context, &name)).await;
    let found = all.into_iter().find(|kept| kept.run == run);
    let kept = found.ok_or_else(|| refused(&InventoryError::None(run.to_owned())))?;
    let snapshot = changes(&context.client().await?).await?;
    output::record(context.output, &value(&snapshot, &kept), || {
        let mut sheet = Sheet::new(&format!("worktree of {run}"), is_coloured());
        sheet.field("state", Cell::state(kept.state.as_str()));
        if let Some(change) = change_of(&snapshot, &kept) {
            sheet.field("change", format!("{}, {}", change.id, change.status));
        }
        sheet.field("agent", kept.agent.as_str());
        sheet.field("goal", kept.goal.as_str());
        sheet.field("branch", kept.branch.as_str());
        sheet.field("for", kept.target.as_str());
        sheet.field("repository", kept.repository.as_str());
        sheet.field("directory", kept.dir.display().to_string());
        sheet.field("size", size(kept.bytes));
        sheet.field("uncommitted", format!("{} files", kept.uncommitted));
        sheet.finish()
    })
}

async fn remove(context: &Context, run: &str, force: bool, given: Option<&String>) -> CliResult {
    let name = host(context, given)?;
    let dir = worktrees_dir(context, &name);
    if !force && let Some(kept) = kept(context, &dir).await.into_iter().find(|it| it.run == run) {
        if let Ok(agent) = kept.agent.parse() {
            idle(context, agent).await?;
        }
        if kept.state == WorktreeState::Unapplied {
            return Err(unapplied(&changes(&context.client().await?).await?, kept));
        }
    }
    let removed = remove_worktree(&dir, run, force, &context.config.host.containment)
        .await
        .map_err(|error| refused(&error))?;
    let lost = match removed.state {
        WorktreeState::Unapplied => ", with work that was not stored elsewhere",
        WorktreeState::Applied | WorktreeState::Broken => "",
    };
    let value = json!({"run": removed.run, "branch": removed.branch, "removed": true});
    output::record(context.output, &value, || format!("worktree of {run} removed{lost}\n"))
}

/// Refuses while an agent may be at work in it.
async fn idle(context: &Context, agent: AgentId) -> CliResult {
    let client = context.client().await?;
    let wanted = [Select::One(RecordKey::Agent(agent.clone()))];
    let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let known = snapshot.records.agents.get(&agent);
    if known.is_some_and(|known| known.liveness != Liveness::Terminated) {
        return Err(CliError::new(Code::Conflict, format!("{agent} works in it"))
            .hint("stop the agent first, or use --force"));
    }
    Ok(())
}

/// Work that is nowhere else, and what can still become of it.
fn unapplied(snapshot: &StateSnapshot, kept: KeptWorktree) -> CliError {
    let change = change_of(snapshot, &kept);
    let next = match change.filter(|change| !change.status.is_terminal()) {
        Some(Change { id, .. }) => format!("decide on its change (`tetrarch change show {id}`)"),
        None => format!("merge its branch {} with git", kept.branch),
    };
    let KeptWorktree { run, target, .. } = kept;
    refused(&InventoryError::Unapplied { run, target })
        .hint(format!("{next}, or use --force to discard it"))
}

fn refused(error: &InventoryError) -> CliError {
    match error {
        InventoryError::None(_) => CliError::new(Code::NotFound, error.to_string())
            .hint("list them with `tetrarch worktree list`, on the machine of their host"),
        InventoryError::Unapplied { .. } => {
            CliError::new(Code::Conflict, error.to_string()).hint("use --force to discard it")
        }
        InventoryError::Refused(_) => CliError::new(Code::Failed, error.to_string()),
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}
