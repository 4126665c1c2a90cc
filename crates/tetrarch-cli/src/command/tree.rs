//! `tree`: agents by parent, GO at the top. Drawing is pure, so `run` shows the tree of its epic
//! with the same code.

mod person;

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::admission::queued::QueuedSpawn;
use tetrarch_core::brief::Outcome;
use tetrarch_core::id::{EpicId, HumanName, ProjectName};
use tetrarch_core::ledger::Record;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::time::BusTime;
use tetrarch_view::lineage::Lineage;
use tetrarch_view::row::{AgentRow, ReportedVitals, rows};
use tetrarch_view::session_tree::{SessionTree, TURNS_SHOWN};

use crate::history;
use crate::output::{self, Cell, StdoutReader, Tone, age, align, is_coloured, is_terminal, now};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Between two drawings of a tree that changes.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch tree
  tetrarch tree --project demo --all
  tetrarch tree --human ada
  tetrarch tree --watch
  tetrarch tree --epic goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o json")]
pub(crate) struct TreeArgs {
    /// Filter by project.
    #[arg(long, conflicts_with = "epic")]
    project: Option<ProjectName>,
    /// Show the conversations of a person, and the agents that work for each turn.
    #[arg(long = "human", value_name = "NAME", conflicts_with_all = ["project", "epic"])]
    person: Option<HumanName>,
    /// Filter by goal.
    #[arg(long)]
    epic: Option<EpicId>,
    /// Include terminated agents, and every turn.
    #[arg(short, long)]
    all: bool,
    /// Show the tree again whenever it changes, until interrupted.
    #[arg(short, long)]
    watch: bool,
}

/// How a tree is drawn.
#[derive(Debug, Clone)]
pub(crate) struct TreeOptions {
    /// Only this project's agents and those above them.
    pub(crate) project: Option<ProjectName>,
    /// Only those that worked on this epic and those above them.
    pub(crate) epic: Option<EpicId>,
    /// Include terminated agents.
    pub(crate) all: bool,
    /// With lines from parent to child, rather than blanks alone.
    pub(crate) drawn: bool,
    /// With colours.
    pub(crate) coloured: bool,
    /// When it is, for the time of what goes on.
    pub(crate) now: BusTime,
}

impl TreeOptions {
    fn lineage<'r>(&self, rows: &'r [AgentRow]) -> Lineage<'r> {
        Lineage::of(rows, |row| {
            let project = self.project.is_none() || row.project == self.project;
            let epic = self.epic.is_none_or(|epic| row.work.is_some_and(|(of, _)| of == epic));
            (self.all || !row.ended) && project && epic
        })
    }

    /// The whole tree as it suits standard output: drawn and coloured only for a person.
    pub(crate) fn suiting_output() -> Self {
        Self {
            project: None,
            epic: None,
            all: false,
            drawn: is_terminal(),
            coloured: is_coloured(),
            now: now(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; no agent of that project or epic is known.
pub(crate) async fn run(context: &Context, args: TreeArgs) -> CliResult {
    let bus = context.client().await?.bus;
    let TreeArgs { project, person, epic, all, watch } = args;
    let wanted = [KeyKind::Agent, KeyKind::RunStatus, KeyKind::QueuedSpawn].map(Select::Kind);
    let turns = person.iter().cloned().map(Select::TurnsOf);
    let turns = turns.chain(person.iter().map(|_| Select::Kind(KeyKind::Goal)));
    let wanted: Vec<Select> = wanted.into_iter().chain(turns).collect();
    // Read before the records: what is newer than this is in the ledger from there on.
    let from = history::next_entry(&bus).await?;
    let mut snapshot = StateSnapshot::read(&bus, &wanted).await?;
    let mut options = TreeOptions { project, epic, all, ..TreeOptions::suiting_output() };
    let mut shown = tree(context, &snapshot, person.as_ref(), &options)?;
    if !watch {
        return output::record(context.output, &shown.0, || shown.1);
    }
    let mut reader = output::screen(context.output, &shown.0, &shown.1)?;
    let mut entries = std::pin::pin!(history::entries(&bus, from));
    while reader == StdoutReader::There {
        let Some(items) = entries.next().await else { break };
        for item in items {
            if let Ok(entry) = &item.entry {
                snapshot.apply(item.seq, entry);
            }
        }
        options.now = now();
        let next = tree(context, &snapshot, person.as_ref(), &options)?;
        if next != shown {
            shown = next;
            reader = output::screen(context.output, &shown.0, &shown.1)?;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    Ok(())
}

/// The tree for programs and for people; the former is made only where one asks.
fn tree(
    context: &Context,
    snapshot: &StateSnapshot,
    person: Option<&HumanName>,
    options: &TreeOptions,
) -> CliResult<(Value, String)> {
    let rows = rows(&snapshot.records, &ReportedVitals::new(), options.now);
    if let Some(human) = person {
        return of_person(snapshot, human, &rows, options);
    }
    let narrowed = options.project.is_some() || options.epic.is_some();
    let everyone = TreeOptions { all: true, ..options.clone() };
    if narrowed && everyone.lineage(&rows).is_empty() {
        let what = match (&options.project, options.epic) {
            (Some(project), _) => format!("project {project} has no agents"),
            (None, Some(epic)) => format!("no agent worked on {epic}"),
            (None, None) => "no agents".to_owned(),
        };
        return Err(CliError::new(Code::NotFound, what).hint("list agents with `tetrarch tree`"));
    }
    let lineage = options.lineage(&rows);
    let whole = if output::is_for_programs(context.output) { lineage.roots() } else { Vec::new() };
    let roots: CliResult<Vec<Value>> =
        whole.into_iter().map(|root| nested(snapshot, &lineage, root)).collect();
    Ok((Value::Array(roots?), draw(&lineage, &snapshot.records, options)))
}

fn of_person(
    snapshot: &StateSnapshot,
    human: &HumanName,
    rows: &[AgentRow],
    options: &TreeOptions,
) -> CliResult<(Value, String)> {
    let turns_max = if options.all { usize::MAX } else { TURNS_SHOWN };
    let tree = SessionTree::of(&snapshot.records, rows, human, turns_max);
    if tree.is_empty() {
        let what = format!("{human} has no conversations");
        return Err(CliError::new(Code::NotFound, what).hint("begin one with `tetrarch chat`"));
    }
    Ok((person::json(&tree, snapshot)?, person::draw(&tree, options)))
}

/// Draws agents as a tree: GO at the top, then hosts, projects and people's orchestrators, each
/// with its sub-agents in the order of their work, before them the requests that wait for a slot or a place. What is
/// shown of each: name, role, state (the run's when there is one), node, outcome, time, host and label.
pub(crate) fn render(records: &Records, options: &TreeOptions) -> String {
    let rows = rows(records, &ReportedVitals::new(), options.now);
    draw(&options.lineage(&rows), records, options)
}

fn draw(lineage: &Lineage<'_>, records: &Records, options: &TreeOptions) -> String {
    let mut lines = Vec::new();
    lineage.walk(|row, more| {
        lines.push(line(row, &prefix(more, options.drawn)));
        let followed = !lineage.below(&row.id).is_empty();
        let mut queued = records.spawns_queued_for(&row.id).peekable();
        while let Some(next) = queued.next() {
            let more = [more, &[followed || queued.peek().is_some()]].concat();
            lines.push(waiting(next, &prefix(&more, options.drawn), options.now));
        }
        true
    });
    align(&lines, options.coloured)
}

/// What stands before a name, by whether more siblings follow on each level above.
fn prefix(more: &[bool], drawn: bool) -> String {
    if !drawn {
        return "  ".repeat(more.len());
    }
    let Some((last, above)) = more.split_last() else { return String::new() };
    let mut prefix: String = above.iter().map(|more| if *more { "│  " } else { "   " }).collect();
    prefix.push_str(if *last { "├─ " } else { "└─ " });
    prefix
}

fn line(row: &AgentRow, prefix: &str) -> Vec<Cell> {
    let outcome = row.outcome.map_or("", Outcome::as_str);
    let outcome_tone = if outcome == "success" { Tone::Good } else { output::tone_of(outcome) };
    vec![
        format!("{prefix}{}", row.id).into(),
        Cell::from(Role::of(&row.id).as_str()).toned(Tone::Faint),
        Cell::state(row.state),
        Cell::some(row.work.map(|(_, node)| node)),
        Cell::from(outcome).toned(outcome_tone),
        Cell::some(row.elapsed),
        row.host.as_str().into(),
        row.label.as_str().into(),
    ]
}

/// A request that waits: its id, who is wanted, and for how long it waits.
fn waiting(queued: &QueuedSpawn, prefix: &str, now: BusTime) -> Vec<Cell> {
    let mut roles: Vec<&str> = queued.waiting.iter().map(|it| it.role.as_str()).collect();
    let count = roles.len();
    roles.dedup();
    let roles = roles.join(", ");
    vec![
        format!("{prefix}request {}", queued.request).into(),
        Cell::from(if count > 1 { format!("{count} {roles}") } else { roles }).toned(Tone::Faint),
        Cell::state("queued"),
        Cell::some(queued.wanted.node),
        Cell::default(),
        age(now, queued.since).into(),
        Cell::default(),
        Cell::from(queued.waiting.first().map_or("", |it| it.reason.as_str())),
    ]
}

fn nested(snapshot: &StateSnapshot, lineage: &Lineage<'_>, row: &AgentRow) -> CliResult<Value> {
    let children: CliResult<Vec<Value>> =
        lineage.below(&row.id).iter().map(|child| nested(snapshot, lineage, child)).collect();
    let agent = snapshot.records.agents.get(&row.id).cloned();
    let agent = agent.map(|agent| snapshot.json(&Record::Agent(Box::new(agent))));
    let run = row.run.and_then(|run| snapshot.records.run_status.get(&run)).cloned();
    let run = run.map(|status| snapshot.json(&Record::RunStatus(Box::new(status))));
    let queued = snapshot.records.spawns_queued_for(&row.id).cloned();
    let queued = queued.map(|it| snapshot.json(&Record::QueuedSpawn(Box::new(it))));
    Ok(json!({
        "agent": agent.transpose()?,
        "run": run.transpose()?,
        "queued": queued.collect::<CliResult<Vec<Value>>>()?,
        "children": children?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{agent, run_status, worker};
    use tetrarch_core::brief::RunResult;
    use tetrarch_core::id::{AgentId, Ulid};
    use tetrarch_core::ledger::RecordKey;
    use tetrarch_core::liveness::Liveness;
    use tetrarch_core::run::{RunState, RunStatus};

    fn fleet() -> Records {
        let mut records = Records::default();
        for agent in [
            agent("PO-demo", Some("GO"), Liveness::Active),
            worker(2, 2, Liveness::Active),
            worker(3, 1, Liveness::Terminated),
            agent("HO@box", Some("GO"), Liveness::Active),
            agent("GO", None, Liveness::Active),
        ] {
            records.put(Record::Agent(Box::new(agent)));
        }
        let done = RunStatus {
            result: Some(RunResult::ended(Outcome::Success, "")),
            ..run_status(3, RunState::Done)
        };
        for status in [run_status(2, RunState::Running), done] {
            records.put(Record::RunStatus(Box::new(status)));
        }
        records
    }

    fn options() -> TreeOptions {
        TreeOptions {
            project: None,
            epic: None,
            all: true,
            drawn: false,
            coloured: false,
            now: BusTime(61_000),
        }
    }

    #[test]
    fn ended_tree_shows_outcome_and_duration() {
        let records = fleet();
        let epic = Some(EpicId(Ulid::from_parts(1, 7)));
        let text = render(&records, &TreeOptions { epic, ..options() });
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["GO", "global", "active"]);
        assert_eq!(lines[1], ["PO-demo", "project", "active"]);
        assert_eq!(lines[2][1..], ["worker", "done", "T1.1", "success", "9s"]);
        assert_eq!(lines[3][1..], ["worker", "running", "T1.2", "1m"]);
        assert_eq!(lines.len(), 4, "{text}");
    }

    #[test]
    fn tree_lines_join_children_to_parents() {
        let records = fleet();
        let text = render(&records, &TreeOptions { drawn: true, all: false, ..options() });
        let names: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap()).collect();
        let worker = format!("   └─ {}", worker(2, 2, Liveness::Active).id);
        assert_eq!(names[..3], ["GO", "├─ HO@box", "└─ PO-demo"]);
        assert!(text.lines().nth(3).unwrap().starts_with(&worker), "{text}");
        assert_eq!(text.lines().count(), 4, "terminated agents are left out\n{text}");
    }

    #[test]
    fn orphaned_agents_are_shown() {
        let mut records = fleet();
        records.remove(&RecordKey::Agent(AgentId::Go));
        let text = render(&records, &options());
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("HO@box"), "{text}");
    }
}
