//! `describe`: everything that is known of one agent, run, goal, node, project or host, from STATE and
//! the run's journal. How each is laid out is
//! in `sheets`, what programs get in `whole`.

mod handoffs;
pub(super) mod journal;
mod sheets;
mod whole;

use std::collections::VecDeque;

use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, Journaled};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, ProjectName, RunId};
use tetrarch_core::ledger::RecordKey;

use super::logs::Entries;
use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::name;
use crate::output;
use crate::snapshot::Snapshot;

/// Entries of a journal that are shown: the last ones.
const JOURNAL_SHOWN: usize = 20;

/// What `describe` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch describe PO-demo
  tetrarch describe W:01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch describe run_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch describe goal_01JD8Z5W6T4QK3M9X2V7B1N0AC -o yaml
  tetrarch describe goal_01JD8Z5W6T4QK3M9X2V7B1N0AC/T1.2
  tetrarch describe project/demo
  tetrarch describe host/box")]
pub(crate) struct DescribeArgs {
    /// An agent, a run, a goal, <goal>/<node>, project/<name> or host/<name>.
    #[arg(value_name = "THING")]
    thing: name::Thing,
}

impl DescribeArgs {
    /// Those that describe a goal.
    pub(crate) fn of(epic: EpicId) -> Self {
        Self { thing: name::Thing(epic.to_string()) }
    }

    /// Those that describe a node of its plan.
    pub(crate) fn of_node(epic: EpicId, node: NodeId) -> Self {
        Self { thing: name::Thing(format!("{epic}/{node}")) }
    }
}

/// What is described.
enum Thing {
    Agent(AgentId),
    Run(RunId),
    Goal(EpicId),
    Node(EpicId, NodeId),
    Project(ProjectName),
    Host(HostName),
}

impl Thing {
    fn named(text: &str) -> Result<Self, CliError> {
        let wrong =
            |error: tetrarch_core::id::IdError| CliError::new(Code::Usage, error.to_string());
        if let Some(name) = text.strip_prefix("project/") {
            return ProjectName::new(name).map(Self::Project).map_err(wrong);
        }
        if let Some(name) = text.strip_prefix("host/") {
            return HostName::new(name).map(Self::Host).map_err(wrong);
        }
        let run = text.strip_prefix("run/").unwrap_or(text);
        if run.starts_with("run_") {
            return run.parse().map(Self::Run).map_err(wrong);
        }
        if let Some((epic, node)) =
            text.split_once('/').filter(|(epic, _)| epic.starts_with("goal_"))
        {
            let epic = epic.parse().map_err(wrong)?;
            return node.parse().map(|node| Self::Node(epic, node)).map_err(wrong);
        }
        if text.starts_with("goal_") {
            return text.parse().map(Self::Goal).map_err(wrong);
        }
        let agent: Result<AgentId, _> = text.parse();
        agent.map(Self::Agent).map_err(|error| {
            wrong(error)
                .hint("name an agent, a run, a goal, <goal>/<node>, project/<name> or host/<name>")
        })
    }

    /// The record that has to be there.
    fn key(&self) -> RecordKey {
        match self {
            Self::Agent(id) => RecordKey::Agent(id.clone()),
            Self::Run(run) => RecordKey::Run(*run),
            Self::Goal(epic) => RecordKey::Goal(*epic),
            Self::Node(epic, node) => RecordKey::Node(*epic, *node),
            Self::Project(name) => RecordKey::Project(name.clone()),
            Self::Host(host) => RecordKey::Host(host.clone()),
        }
    }

    /// Everything that is read with it at once.
    fn records(&self) -> Vec<Select> {
        let mut wanted = vec![Select::One(self.key())];
        match self {
            Self::Agent(AgentId::Ho(host)) => {
                wanted.push(Select::One(RecordKey::Host(host.clone())));
                wanted.push(Select::Kind(KeyKind::Agent));
            }
            Self::Agent(_) => {}
            Self::Run(run) => wanted.push(Select::One(RecordKey::RunStatus(*run))),
            Self::Goal(epic) => {
                wanted.push(Select::One(RecordKey::GoalState(*epic)));
                wanted.push(Select::One(RecordKey::Plan(*epic)));
                wanted.push(Select::OfEpic(KeyKind::Node, *epic));
                wanted.push(Select::OfEpic(KeyKind::NodeState, *epic));
                wanted.push(Select::OfEpic(KeyKind::Crystallization, *epic));
            }
            Self::Node(epic, node) => {
                wanted.push(Select::One(RecordKey::Plan(*epic)));
                wanted.push(Select::OfEpic(KeyKind::NodeState, *epic));
                wanted.push(Select::One(RecordKey::Crystallization(*epic, Some(*node))));
            }
            Self::Project(name) => {
                wanted.push(Select::One(RecordKey::Agent(AgentId::Po(name.clone()))));
                wanted.extend(
                    [KeyKind::Profile, KeyKind::Goal, KeyKind::GoalState].map(Select::Kind),
                );
            }
            Self::Host(host) => {
                wanted.push(Select::One(RecordKey::Agent(AgentId::Ho(host.clone()))));
                wanted.push(Select::Kind(KeyKind::Agent));
            }
        }
        wanted
    }
}

/// Runs the command.
///
/// # Errors
/// The name is none, or of nothing that is known; the bus cannot be read.
pub(crate) async fn run(context: &Context, args: DescribeArgs) -> Result<(), CliError> {
    let thing = Thing::named(&args.thing.0)?;
    let bus = context.desk().await?.bus;
    let mut snapshot = Snapshot::read(&bus, &thing.records()).await?;
    if snapshot.sequence(&thing.key()) == 0 {
        let what = format!("nothing is known of {}", args.thing.0);
        return Err(CliError::new(Code::NotFound, what)
            .hint("list what there is with `tetrarch get agents|hosts|runs|goals`"));
    }
    add_what_it_points_to(&bus, &mut snapshot, &thing).await?;
    let journal = journal_of(&bus, &snapshot, &thing).await?;
    let value = whole::value(&snapshot, &thing, &journal)?;
    output::record(context.output, &value, || match &thing {
        Thing::Agent(id) => sheets::agent(&snapshot, id, &journal),
        Thing::Run(run) => sheets::run(&snapshot, *run, &journal),
        Thing::Goal(epic) => sheets::goal(&snapshot, *epic),
        Thing::Node(epic, node) => handoffs::node(&snapshot, *epic, *node),
        Thing::Project(name) => sheets::project(&snapshot, name),
        Thing::Host(host) => sheets::host(&snapshot, host),
    })?;
    Ok(())
}

/// An agent's run and assignment; a run's agent and assignment.
async fn add_what_it_points_to(
    bus: &Bus,
    snapshot: &mut Snapshot,
    thing: &Thing,
) -> Result<(), CliError> {
    let keys = match thing {
        Thing::Agent(id) => {
            let work = snapshot.records.agents.get(id).and_then(|agent| agent.work.clone());
            work.map(|work| {
                vec![
                    RecordKey::Run(work.run),
                    RecordKey::RunStatus(work.run),
                    RecordKey::Assignment(work.assignment),
                ]
            })
        }
        Thing::Run(run) => snapshot.records.runs.get(run).map(|run| {
            vec![RecordKey::Agent(run.agent.clone()), RecordKey::Assignment(run.assignment)]
        }),
        Thing::Goal(_) | Thing::Node(..) | Thing::Project(_) | Thing::Host(_) => None,
    };
    let wanted: Vec<Select> = keys.unwrap_or_default().into_iter().map(Select::One).collect();
    if wanted.is_empty() { Ok(()) } else { snapshot.add(bus, &wanted).await }
}

/// The last entries of its run's journal, from where it was kept when the stream has it no more.
async fn journal_of(
    bus: &Bus,
    snapshot: &Snapshot,
    thing: &Thing,
) -> Result<Vec<Journaled>, CliError> {
    let run = match thing {
        Thing::Run(run) => Some(*run),
        Thing::Agent(id) => {
            let agent = snapshot.records.agents.get(id);
            agent.and_then(|agent| agent.work.as_ref()).map(|work| work.run)
        }
        Thing::Goal(_) | Thing::Node(..) | Thing::Project(_) | Thing::Host(_) => None,
    };
    let Some(run) = run.and_then(|run| snapshot.records.runs.get(&run)) else {
        return Ok(Vec::new());
    };
    let kept = snapshot.records.run_status.get(&run.id).and_then(|status| status.archive.clone());
    match last_of(bus, &JournalName::of(run), kept).await {
        // Kept for long enough, and removed.
        Err(error) if error.code == Code::NotFound => Ok(Vec::new()),
        entries => entries,
    }
}

async fn last_of(
    bus: &Bus,
    run: &JournalName,
    kept: Option<String>,
) -> Result<Vec<Journaled>, CliError> {
    let mut entries = Entries::of(bus, run, kept).await?;
    let mut last = VecDeque::with_capacity(JOURNAL_SHOWN + 1);
    while let Some(entry) = entries.next().await? {
        last.push_back(entry);
        if last.len() > JOURNAL_SHOWN {
            last.pop_front();
        }
    }
    Ok(last.into())
}
