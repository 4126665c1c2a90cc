//! `describe`: everything that is known of one agent, run, goal, node, project or host, from STATE and
//! the run's journal. How each is laid out is
//! in `sheets`, what programs get in `whole`.

mod handoffs;
pub(super) mod journal;
mod sheets;
mod target;
mod whole;

use std::collections::VecDeque;

use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, Journaled};
use tetrarch_bus::state::Select;
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::RecordKey;

use self::target::DescribeTarget;
use super::logs::Entries;
use crate::name;
use crate::output;
use crate::{CliResult, Code, Context, StateSnapshot};

/// Entries of a journal that are shown: the last ones.
const JOURNAL_SHOWN: usize = 20;

/// Arguments of `describe`.
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
    thing: name::ResourceName,
}

impl DescribeArgs {
    /// Those that describe a goal.
    pub(crate) fn of(epic: EpicId) -> Self {
        Self { thing: name::ResourceName(epic.to_string()) }
    }

    /// Those that describe a node of its plan.
    pub(crate) fn of_node(epic: EpicId, node: NodeId) -> Self {
        Self { thing: name::ResourceName(format!("{epic}/{node}")) }
    }
}

/// Runs the command.
///
/// # Errors
/// The name is none, or of nothing that is known; the bus cannot be read.
pub(crate) async fn run(context: &Context, args: DescribeArgs) -> CliResult {
    args.thing.must_be_shown_by("describe")?;
    let thing = DescribeTarget::named(&args.thing.0)?;
    let bus = context.client().await?.bus;
    let mut snapshot = StateSnapshot::read(&bus, &thing.records()).await?;
    if snapshot.sequence(&thing.key()) == 0 {
        return Err(match &thing {
            DescribeTarget::Node(epic, _) if !snapshot.records.plans.contains_key(epic) => {
                name::not_found(&epic.to_string())
            }
            DescribeTarget::Agent(_)
            | DescribeTarget::Run(_)
            | DescribeTarget::Goal(_)
            | DescribeTarget::Node(..)
            | DescribeTarget::Project(_)
            | DescribeTarget::Host(_) => name::not_found(&args.thing.0),
        });
    }
    add_what_it_points_to(&bus, &mut snapshot, &thing).await?;
    let journal = journal_of(&bus, &snapshot, &thing).await?;
    let value = whole::value(&snapshot, &thing, &journal)?;
    output::record(context.output, &value, || match &thing {
        DescribeTarget::Agent(id) => sheets::agent(&snapshot, id, &journal),
        DescribeTarget::Run(run) => sheets::run(&snapshot, *run, &journal),
        DescribeTarget::Goal(epic) => sheets::goal(&snapshot, *epic),
        DescribeTarget::Node(epic, node) => handoffs::node(&snapshot, *epic, *node),
        DescribeTarget::Project(name) => sheets::project(&snapshot, name),
        DescribeTarget::Host(host) => sheets::host(&snapshot, host),
    })
}

/// An agent's run, assignment and goal; a run's agent, assignment and goal.
async fn add_what_it_points_to(
    bus: &Bus,
    snapshot: &mut StateSnapshot,
    thing: &DescribeTarget,
) -> CliResult {
    let keys = match thing {
        DescribeTarget::Agent(id) => {
            let work = snapshot.records.agents.get(id).and_then(|agent| agent.work.clone());
            work.map(|work| {
                vec![
                    RecordKey::Run(work.run),
                    RecordKey::RunStatus(work.run),
                    RecordKey::Assignment(work.assignment),
                    RecordKey::Goal(work.epic),
                ]
            })
        }
        DescribeTarget::Run(run) => snapshot.records.runs.get(run).map(|run| {
            let agent = RecordKey::Agent(run.agent.clone());
            vec![agent, RecordKey::Assignment(run.assignment), RecordKey::Goal(run.epic)]
        }),
        DescribeTarget::Goal(_)
        | DescribeTarget::Node(..)
        | DescribeTarget::Project(_)
        | DescribeTarget::Host(_) => None,
    };
    let wanted: Vec<Select> = keys.unwrap_or_default().into_iter().map(Select::One).collect();
    if wanted.is_empty() { Ok(()) } else { snapshot.add(bus, &wanted).await }
}

/// The last entries of its run's journal, from where it was kept when the stream has it no more.
async fn journal_of(
    bus: &Bus,
    snapshot: &StateSnapshot,
    thing: &DescribeTarget,
) -> CliResult<Vec<Journaled>> {
    let run = match thing {
        DescribeTarget::Run(run) => Some(*run),
        DescribeTarget::Agent(id) => {
            let agent = snapshot.records.agents.get(id);
            agent.and_then(|agent| agent.work.as_ref()).map(|work| work.run)
        }
        DescribeTarget::Goal(_)
        | DescribeTarget::Node(..)
        | DescribeTarget::Project(_)
        | DescribeTarget::Host(_) => None,
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

async fn last_of(bus: &Bus, run: &JournalName, kept: Option<String>) -> CliResult<Vec<Journaled>> {
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
