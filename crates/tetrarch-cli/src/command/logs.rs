//! `logs`: what a run did, entry by entry of its journal and when, and what it does (spec 06, 08). Where the stream
//! does not have it any more, it is read from the artifact that it was kept as.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::{Stream, StreamExt};
use tetrarch_bus::Bus;
use tetrarch_bus::archive::{Archive, ArchiveError};
use tetrarch_bus::error::ReadError;
use tetrarch_bus::journal::{
    JournalName, Journaled, end_begins, follow_journal, is_whole, stream_journal,
};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{AgentId, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::RecordKey;

use super::artifact::explained;
use super::describe::journal;
use crate::name::{Journal, NodePath};
use crate::options::OutputFormat;
use crate::output::{self, StdoutReader};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch logs W:01JD8Z5W6T4QK3M9X2V7B1N0AC        # the current or last run
  tetrarch logs run_01JD8Z5W6T4QK3M9X2V7B1N0AC -o json
  tetrarch logs run_01JD8Z5W6T4QK3M9X2V7B1N0AC --tail 20
  tetrarch logs W:01JD8Z5W6T4QK3M9X2V7B1N0AC -f      # follow until the run ends
  tetrarch logs T1.2 -f                              # the latest run, in the only open goal
  tetrarch logs @last/T1.2 --tail 20
  tetrarch logs 9f86d0...0a08/run_01JD8Z5W6T4QK3M9X2V7B1N0AC   # a forgotten run, by its archive

The journal of an ended run is kept in an artifact for 30 days. `tetrarch describe <run>` shows
its name. Runs share it: without a run, `tetrarch logs DIGEST` shows them all.")]
pub(crate) struct LogsArgs {
    /// An agent, a run, a node (T1.2 or <goal>/T1.2), or an archive (DIGEST or DIGEST/<run>).
    name: Journal,
    /// Follow new entries until the run ends.
    #[arg(long, short)]
    follow: bool,
    /// Show only the last COUNT entries.
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
}

/// Runs the command.
///
/// # Errors
/// There is no such agent, run or journal, or the bus cannot be read.
pub(crate) async fn run(context: &Context, args: LogsArgs) -> CliResult {
    let bus = context.client().await?.bus;
    let LogsArgs { name, follow, tail } = args;
    let (output, mut shown) = (context.output, LogPrinter::new(context.output, tail));
    if let Some((sha256, run)) = name.archived() {
        shown.pour(Entries::kept(&bus, &sha256, run).await?).await?;
        return shown.end();
    }
    let (run, kept) = named(&bus, &name.0).await?;
    if let Some(sha256) = needed(&bus, &run, kept).await? {
        shown.pour(Entries::kept(&bus, &sha256, Some(run.run)).await?).await?;
        return shown.end();
    }
    let begins = match tail {
        Some(count) => end_begins(&bus, &run, count.max(1)).await?.map_or(1, |(from, _)| from),
        None => 1,
    };
    shown.pour(Entries::stored(&bus, &run, begins)).await?;
    if begins > 1 && shown.lacks() {
        // Its places do not say where its end begins.
        shown = LogPrinter::new(output, tail);
        shown.pour(Entries::stored(&bus, &run, 1)).await?;
    }
    shown.end()?;
    let seen = shown.seen;
    if !follow || shown.ended || shown.gone {
        return Ok(());
    }
    let mut coming = std::pin::pin!(follow_journal(&bus, &run, seen + 1));
    while let Some(entry) = coming.next().await {
        if show(output, &entry)? == StdoutReader::Gone || is_end(&entry) {
            return Ok(());
        }
    }
    Ok(())
}

/// The artifact that a run's journal is kept as, unless the stream has all of it: from there it takes
/// fewer reads to begin.
async fn needed(bus: &Bus, run: &JournalName, kept: Option<String>) -> CliResult<Option<String>> {
    Ok(if kept.is_some() && is_whole(bus, run).await? { None } else { kept })
}

/// Where entries come from.
pub(in crate::command) enum Entries {
    Stored(Pin<Box<dyn Stream<Item = Result<Journaled, ReadError>> + Send>>),
    Kept(Box<Archive>),
}

impl Entries {
    /// A run's journal from this sequence of the stream on.
    pub(in crate::command) fn stored(bus: &Bus, run: &JournalName, from: u64) -> Self {
        Self::Stored(Box::pin(stream_journal(bus, run, from)))
    }

    async fn kept(bus: &Bus, sha256: &str, run: Option<RunId>) -> CliResult<Self> {
        let archive = Archive::open(bus, sha256, run).await.map_err(unread)?;
        Ok(Self::Kept(Box::new(archive)))
    }

    /// All of a run's journal, from the stream or else from the artifact that it is kept as.
    ///
    /// # Errors
    /// It is kept and cannot be read, or the bus cannot be.
    pub(in crate::command) async fn of(
        bus: &Bus,
        run: &JournalName,
        kept: Option<String>,
    ) -> CliResult<Self> {
        match needed(bus, run, kept).await? {
            Some(sha256) => Self::kept(bus, &sha256, Some(run.run)).await,
            None => Ok(Self::stored(bus, run, 1)),
        }
    }

    /// The next entry, none after the last one.
    ///
    /// # Errors
    /// It cannot be read.
    pub(in crate::command) async fn next(&mut self) -> CliResult<Option<Journaled>> {
        match self {
            Self::Stored(entries) => Ok(entries.next().await.transpose()?),
            Self::Kept(archive) => archive.next().await.map_err(unread),
        }
    }
}

/// What is shown: each entry as it is read, or the last ones once all are.
struct LogPrinter {
    output: OutputFormat,
    tail: Option<usize>,
    last: VecDeque<Journaled>,
    /// The sequence of the last entry that was read.
    seen: u64,
    /// Whether nothing follows it.
    ended: bool,
    /// Whether nobody looks any more.
    gone: bool,
}

impl LogPrinter {
    fn new(output: OutputFormat, tail: Option<usize>) -> Self {
        Self { output, tail, last: VecDeque::new(), seen: 0, ended: false, gone: false }
    }

    async fn pour(&mut self, mut entries: Entries) -> CliResult {
        while !self.gone
            && let Some(entry) = entries.next().await?
        {
            (self.seen, self.ended) = (entry.seq, is_end(&entry));
            let Some(tail) = self.tail else {
                self.gone = show(self.output, &entry)? == StdoutReader::Gone;
                continue;
            };
            self.last.push_back(entry);
            if self.last.len() > tail.max(1) {
                self.last.pop_front();
            }
        }
        Ok(())
    }

    /// Whether fewer entries were read than are to be shown.
    fn lacks(&self) -> bool {
        self.tail.is_some_and(|tail| self.last.len() < tail)
    }

    fn end(&self) -> CliResult {
        let skipped = self.last.len().saturating_sub(self.tail.unwrap_or_default());
        for entry in self.last.iter().skip(skipped) {
            if show(self.output, entry)? == StdoutReader::Gone {
                break;
            }
        }
        Ok(())
    }
}

fn unread(error: ArchiveError) -> CliError {
    match error {
        ArchiveError::Artifact(error) => explained(error),
        ArchiveError::Read(error) => error.into(),
        error @ (ArchiveError::End(_)
        | ArchiveError::Lagging { .. }
        | ArchiveError::NoJournal { .. }) => CliError::new(Code::Failed, error.to_string()),
    }
}

/// The run of that name, or the one that an agent of that name makes or made last; with the artifact that
/// its journal is kept as.
async fn named(bus: &Bus, name: &str) -> CliResult<(JournalName, Option<String>)> {
    let wrong = |error: tetrarch_core::id::IdError| {
        CliError::new(Code::Usage, error.to_string())
            .hint("name an agent, a run (run_<ulid>) or the sha256 of a kept journal")
    };
    let missing = |what: String| {
        CliError::new(Code::NotFound, what).hint("`tetrarch get agents` and `get runs` list them")
    };
    let run = if name.starts_with("run_") {
        name.parse().map_err(wrong)?
    } else if let Ok(place) = name.parse::<NodePath>() {
        let runs = StateSnapshot::read(bus, &[Select::Kind(KeyKind::Run)]).await?.0.records.runs;
        let of = runs.values().filter(|run| run.epic == place.epic && run.node == place.node);
        let latest = of.max_by_key(|run| (run.created, run.id)).map(|run| run.id);
        latest.ok_or_else(|| missing(format!("{name} has had no run yet")))?
    } else {
        let agent: AgentId = name.parse().map_err(wrong)?;
        let known =
            StateSnapshot::read(bus, &[Select::One(RecordKey::Agent(agent.clone()))]).await?;
        let Some(known) = known.records.agents.get(&agent) else {
            return Err(missing(format!("{agent} was not found")));
        };
        let work = known.work.as_ref().map(|work| work.run);
        work.ok_or_else(|| {
            let what = "has no runs: orchestrators and external agents keep no journal";
            missing(format!("{agent} {what}"))
        })?
    };
    let wanted = [RecordKey::Run(run), RecordKey::RunStatus(run)].map(Select::One);
    let known = StateSnapshot::read(bus, &wanted).await?.0.records;
    let (Some(made), Some(status)) = (known.runs.get(&run), known.run_status.get(&run)) else {
        return Err(missing(format!("{run} was not found")));
    };
    Ok((JournalName::of(made), status.archive.clone()))
}

fn is_end(stored: &Journaled) -> bool {
    stored.entry.as_ref().is_ok_and(|entry| matches!(entry.event, JournalEvent::Ended { .. }))
}

fn show(output: OutputFormat, entry: &Journaled) -> CliResult<StdoutReader> {
    let value = journal::value(entry)?;
    output::item(output, &value, &output::visible(&journal::line(entry)))
}
