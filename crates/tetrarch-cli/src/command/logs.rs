//! `logs`: what a run did, entry by entry of its journal, and what it does (spec 06, 08).

use futures::StreamExt;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::{Journaled, follow_journal, read_journal};
use tetrarch_bus::state::Select;
use tetrarch_core::id::{AgentId, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::RecordKey;

use super::describe::journal;
use crate::args::Output;
use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::output::{self, Reader};
use crate::snapshot::Snapshot;

/// What `logs` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch logs W:01JD8Z5W6T4QK3M9X2V7B1N0AC        # of its present or last run
  tetrarch logs run_01JD8Z5W6T4QK3M9X2V7B1N0AC -o json
  tetrarch logs W:01JD8Z5W6T4QK3M9X2V7B1N0AC -f      # until the run ends")]
pub(crate) struct LogsArgs {
    /// An agent, or one of its runs.
    name: String,
    /// Go on with what comes, until the run ends.
    #[arg(long, short)]
    follow: bool,
    /// Only so many of the last entries, and what comes.
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
}

/// Runs the command.
///
/// # Errors
/// There is no such agent or run, or the bus cannot be read.
pub(crate) async fn run(context: &Context, args: LogsArgs) -> Result<(), CliError> {
    let bus = context.desk().await?.bus;
    let run = named(&bus, &args.name).await?;
    let entries = read_journal(&bus, run, 1).await?;
    let from = args.tail.map_or(0, |tail| entries.len().saturating_sub(tail));
    for entry in &entries[from..] {
        if show(context.output, entry)? == Reader::Gone {
            return Ok(());
        }
    }
    let seen = entries.last().map_or(0, |(seq, _)| *seq);
    if !args.follow || entries.last().is_some_and(is_end) {
        return Ok(());
    }
    let mut coming = std::pin::pin!(follow_journal(&bus, run, seen + 1));
    while let Some(entry) = coming.next().await {
        if show(context.output, &entry)? == Reader::Gone || is_end(&entry) {
            return Ok(());
        }
    }
    Ok(())
}

/// The run of that name, or the one that an agent of that name makes or made last.
async fn named(bus: &Bus, name: &str) -> Result<RunId, CliError> {
    let wrong = |error: tetrarch_core::id::IdError| {
        CliError::new(Code::Usage, error.to_string()).hint("name an agent or a run (run_<ulid>)")
    };
    let missing = |what: String| {
        CliError::new(Code::NotFound, what).hint("`tetrarch get agents` and `get runs` list them")
    };
    if name.starts_with("run_") {
        let run: RunId = name.parse().map_err(wrong)?;
        let known = Snapshot::read(bus, &[Select::One(RecordKey::Run(run))]).await?;
        let known = known.records.runs.contains_key(&run);
        return if known { Ok(run) } else { Err(missing(format!("there is no {run}"))) };
    }
    let agent: AgentId = name.parse().map_err(wrong)?;
    let known = Snapshot::read(bus, &[Select::One(RecordKey::Agent(agent.clone()))]).await?;
    let Some(known) = known.records.agents.get(&agent) else {
        return Err(missing(format!("there is no {agent}")));
    };
    known.work.as_ref().map(|work| work.run).ok_or_else(|| {
        missing(format!("{agent} makes no runs: orchestrators and external agents keep no journal"))
    })
}

fn is_end((_, entry): &Journaled) -> bool {
    entry.as_ref().is_ok_and(|entry| matches!(entry.event, JournalEvent::Ended { .. }))
}

fn show(output: Output, entry: &Journaled) -> Result<Reader, CliError> {
    let value = journal::value(entry)?;
    output::item(output, &value, &output::visible(&journal::line(entry)))
}
