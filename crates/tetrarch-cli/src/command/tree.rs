//! `tree`: agents by parent, GO at the top. Drawing is pure, so `run` shows the tree of its epic
//! with the same code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::Agent;
use tetrarch_core::id::{AgentId, EpicId, ProjectName, RunId};
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunStatus;
use tetrarch_core::time::BusTime;

use crate::command::get::rows::place_of;
use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::output::{self, Cell, Tone, age, align, is_coloured, is_terminal, now};
use crate::snapshot::StateSnapshot;

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch tree
  tetrarch tree --project demo --all
  tetrarch tree --epic goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o json")]
pub(crate) struct TreeArgs {
    /// Filter by project.
    #[arg(long, conflicts_with = "epic")]
    project: Option<ProjectName>,
    /// Filter by goal.
    #[arg(long)]
    epic: Option<EpicId>,
    /// Include terminated agents.
    #[arg(short, long)]
    all: bool,
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
pub(crate) async fn run(context: &Context, args: TreeArgs) -> Result<(), CliError> {
    let bus = context.client().await?.bus;
    let wanted = [KeyKind::Agent, KeyKind::RunStatus].map(Select::Kind);
    let snapshot = StateSnapshot::read(&bus, &wanted).await?;
    let TreeArgs { project, epic, all } = args;
    let options = TreeOptions { project, epic, all, ..TreeOptions::suiting_output() };
    let agents: Vec<Agent> = snapshot.records.agents.values().cloned().collect();
    let narrowed = options.project.is_some() || options.epic.is_some();
    let everyone = TreeOptions { all: true, ..options.clone() };
    if narrowed && Forest::of(&agents, &everyone).shown.is_empty() {
        let what = match (&options.project, options.epic) {
            (Some(project), _) => format!("project {project} has no agents"),
            (None, Some(epic)) => format!("no agent worked on {epic}"),
            (None, None) => "no agents".to_owned(),
        };
        return Err(CliError::new(Code::NotFound, what).hint("list agents with `tetrarch tree`"));
    }
    let forest = Forest::of(&agents, &options);
    let whole = if output::is_for_programs(context.output) { forest.roots() } else { Vec::new() };
    let roots: Result<Vec<Value>, CliError> =
        whole.into_iter().map(|root| nested(&snapshot, &forest, root)).collect();
    output::record(context.output, &Value::Array(roots?), || {
        render(&agents, &snapshot.records.run_status, &options)
    })?;
    Ok(())
}

/// The agents that are shown, by parent.
struct Forest<'a> {
    shown: BTreeMap<&'a AgentId, &'a Agent>,
    children: BTreeMap<&'a AgentId, Vec<&'a Agent>>,
}

impl<'a> Forest<'a> {
    fn of(agents: &'a [Agent], options: &TreeOptions) -> Self {
        let known: BTreeMap<&AgentId, &Agent> =
            agents.iter().map(|agent| (&agent.id, agent)).collect();
        let mut shown = BTreeMap::new();
        for agent in agents.iter().filter(|agent| is_wanted(agent, options)) {
            let mut next = Some(agent);
            while let Some(agent) = next {
                if shown.insert(&agent.id, agent).is_some() {
                    break;
                }
                next = agent.parent.as_ref().and_then(|parent| known.get(parent)).copied();
            }
        }
        let mut children: BTreeMap<&AgentId, Vec<&Agent>> = BTreeMap::new();
        for agent in shown.values() {
            if let Some(parent) = &agent.parent {
                children.entry(parent).or_default().push(agent);
            }
        }
        for siblings in children.values_mut() {
            siblings.sort_by_key(|agent| place_among_siblings(agent));
        }
        Self { shown, children }
    }

    /// GO, and agents whose parent is not known.
    fn roots(&self) -> Vec<&'a Agent> {
        let orphaned = |agent: &&&Agent| {
            agent.parent.as_ref().is_none_or(|parent| !self.shown.contains_key(parent))
        };
        self.shown.values().filter(orphaned).copied().collect()
    }

    fn below(&self, id: &AgentId) -> &[&'a Agent] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Orchestrators by role, then by name; sub-agents in the order of their work.
fn place_among_siblings(
    agent: &Agent,
) -> (Role, Option<(EpicId, tetrarch_core::id::NodeId)>, BusTime, AgentId) {
    let role = Role::of(&agent.id);
    let work = agent.work.as_ref().map(|work| (work.epic, work.node));
    // Specialists, reviewers and workers of one plan stand together.
    let role = if role.takes_slot() { Role::Worker } else { role };
    (role, work, agent.created, agent.id.clone())
}

fn is_wanted(agent: &Agent, options: &TreeOptions) -> bool {
    let living = options.all || agent.liveness != Liveness::Terminated;
    let project = options.project.is_none() || agent.project == options.project;
    let epic =
        options.epic.is_none_or(|epic| agent.work.as_ref().is_some_and(|work| work.epic == epic));
    living && project && epic
}

/// Draws agents as a tree: GO at the top, then hosts, projects and people's orchestrators, each
/// with its sub-agents in the order of their work. What is shown of each: name, role, state (the
/// run's when there is one), node, outcome, time, host and label.
pub(crate) fn render(
    agents: &[Agent],
    runs: &BTreeMap<RunId, RunStatus>,
    options: &TreeOptions,
) -> String {
    let forest = Forest::of(agents, options);
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for root in forest.roots() {
        draw(&forest, runs, options, root, &mut Branch::default(), &mut seen, &mut lines);
    }
    align(&lines, options.coloured)
}

/// What stands before a name: for each level above whether more siblings follow.
#[derive(Default)]
struct Branch {
    more: Vec<bool>,
}

impl Branch {
    fn prefix(&self, drawn: bool) -> String {
        if !drawn {
            return "  ".repeat(self.more.len());
        }
        let Some((last, above)) = self.more.split_last() else { return String::new() };
        let mut prefix: String =
            above.iter().map(|more| if *more { "│  " } else { "   " }).collect();
        prefix.push_str(if *last { "├─ " } else { "└─ " });
        prefix
    }
}

fn draw(
    forest: &Forest<'_>,
    runs: &BTreeMap<RunId, RunStatus>,
    options: &TreeOptions,
    agent: &Agent,
    branch: &mut Branch,
    seen: &mut BTreeSet<AgentId>,
    lines: &mut Vec<Vec<Cell>>,
) {
    if !seen.insert(agent.id.clone()) {
        return;
    }
    lines.push(line(agent, runs, options, &branch.prefix(options.drawn)));
    let below = forest.below(&agent.id);
    for (at, child) in below.iter().enumerate() {
        branch.more.push(at + 1 < below.len());
        draw(forest, runs, options, child, branch, seen, lines);
        branch.more.pop();
    }
}

fn line(
    agent: &Agent,
    runs: &BTreeMap<RunId, RunStatus>,
    options: &TreeOptions,
    prefix: &str,
) -> Vec<Cell> {
    let status = agent.work.as_ref().and_then(|work| runs.get(&work.run));
    let over = agent.liveness == Liveness::Terminated;
    let state = match status {
        Some(status) if over => status.state.as_str(),
        Some(status) if agent.liveness == Liveness::Active => status.state.as_str(),
        Some(_) | None => agent.liveness.as_str(),
    };
    let outcome = status
        .and_then(|status| status.result.as_ref())
        .map_or("", |result| result.outcome.as_str());
    let outcome_tone = if outcome == "success" { Tone::Good } else { output::tone_of(outcome) };
    let until = if over { agent.since } else { options.now };
    let time = if agent.work.is_some() { age(until, agent.created) } else { String::new() };
    vec![
        format!("{prefix}{}", agent.id).into(),
        Cell::from(Role::of(&agent.id).as_str()).toned(Tone::Faint),
        Cell::state(state),
        Cell::some(agent.work.as_ref().map(|work| work.node)),
        Cell::from(outcome).toned(outcome_tone),
        time.into(),
        place_of(agent).into(),
        agent.label.as_str().into(),
    ]
}

fn nested(snapshot: &StateSnapshot, forest: &Forest<'_>, agent: &Agent) -> Result<Value, CliError> {
    let children: Result<Vec<Value>, CliError> =
        forest.below(&agent.id).iter().map(|child| nested(snapshot, forest, child)).collect();
    let run = agent.work.as_ref().and_then(|work| snapshot.records.run_status.get(&work.run));
    let run = run.map(|status| snapshot.json(&Record::RunStatus(Box::new(status.clone()))));
    Ok(json!({
        "agent": snapshot.json(&Record::Agent(Box::new(agent.clone())))?,
        "run": run.transpose()?,
        "children": children?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{agent, worker};
    use tetrarch_core::brief::{Outcome, RunResult, Usage};
    use tetrarch_core::id::Ulid;
    use tetrarch_core::run::RunState;

    fn fleet() -> (Vec<Agent>, BTreeMap<RunId, RunStatus>) {
        let agents = vec![
            agent("PO-demo", Some("GO"), Liveness::Active),
            worker(2, 2, Liveness::Active),
            worker(3, 1, Liveness::Terminated),
            agent("HO@box", Some("GO"), Liveness::Active),
            agent("GO", None, Liveness::Active),
        ];
        let status = |n, state, result| RunStatus {
            id: RunId(Ulid::from_parts(1, n)),
            agent: AgentId::Go,
            state,
            cancel_kept: false,
            since: BusTime(0),
            reminded: None,
            usage: Usage::default(),
            result,
            archive: None,
        };
        let runs = [
            status(2, RunState::Running, None),
            status(3, RunState::Done, Some(RunResult::ended(Outcome::Success, ""))),
        ];
        (agents, runs.into_iter().map(|status| (status.id, status)).collect())
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
        let (agents, runs) = fleet();
        let epic = Some(EpicId(Ulid::from_parts(1, 7)));
        let text = render(&agents, &runs, &TreeOptions { epic, ..options() });
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
        let (agents, runs) = fleet();
        let text = render(&agents, &runs, &TreeOptions { drawn: true, all: false, ..options() });
        let names: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap()).collect();
        let worker = format!("   └─ {}", agents[1].id);
        assert_eq!(names[..3], ["GO", "├─ HO@box", "└─ PO-demo"]);
        assert!(text.lines().nth(3).unwrap().starts_with(&worker), "{text}");
        assert_eq!(text.lines().count(), 4, "terminated agents are left out\n{text}");
    }

    #[test]
    fn orphaned_agents_are_shown() {
        let (mut agents, runs) = fleet();
        agents.retain(|agent| agent.id != AgentId::Go);
        let text = render(&agents, &runs, &options());
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("HO@box"), "{text}");
    }
}
