//! `events`: what happened, from the ledger: one line each with time, sequence, kind, subject and
//! reason. It explains nothing; `reason` and `rule` are the owner's words.

use futures::StreamExt;
use serde_json::json;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{LedgerItem, follow_ledger};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Event, EventKind};
use tetrarch_view::event::concerns;

use crate::history::{self, Since};
use crate::options::OutputFormat;
use crate::output::{self, Cell, StdoutReader, Tone, stamp};
use crate::{CliError, CliResult, Code, Context};

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch events --since 10m
  tetrarch events --since 4711 --kind spawn.denied
  tetrarch events --follow --agent PO-demo
  tetrarch events -o json | jq .reason

Without --since, all kept events are shown. With --follow, new events are shown.")]
pub(crate) struct EventsArgs {
    /// Start at an age (10m, 2h), a time (RFC 3339) or a ledger sequence.
    #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
    since: Option<Since>,
    /// Follow new output until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Filter by agent, as subject or actor.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Filter by kind, such as run.state, or by a family of kinds, such as run.
    #[arg(long)]
    kind: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; a kind that is none.
pub(crate) async fn run(context: &Context, args: EventsArgs) -> CliResult {
    check_kind(&args)?;
    let bus = context.client().await?.bus;
    let last = bus.stream_last_seq(LEDGER).await?;
    let from = match (args.since, args.follow) {
        (Some(since), _) => since.first(&bus, last).await?,
        (None, true) => last + 1,
        (None, false) => 1,
    };
    let shown =
        history::each(&bus, (from, last), 0, |item| show(context.output, item, &args)).await?;
    let Some(epoch) = shown.filter(|_| args.follow) else { return Ok(()) };
    let mut items = std::pin::pin!(follow_ledger(&bus, from.max(last + 1), epoch));
    while let Some(item) = items.next().await {
        if show(context.output, &item, &args)? == StdoutReader::Gone {
            break;
        }
    }
    Ok(())
}

fn check_kind(args: &EventsArgs) -> CliResult {
    let Some(kind) = &args.kind else { return Ok(()) };
    if EventKind::ALL.iter().any(|known| is_kind(*known, kind)) {
        return Ok(());
    }
    let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(CliError::new(Code::Usage, format!("{kind:?} is not a kind of event"))
        .hint(format!("use one of {}", known.join(", "))))
}

/// Whether a kind is the wanted one or of the wanted family.
fn is_kind(kind: EventKind, wanted: &str) -> bool {
    let rest = kind.as_str().strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn show(output: OutputFormat, item: &LedgerItem, args: &EventsArgs) -> CliResult<StdoutReader> {
    let entry = match &item.entry {
        Ok(entry) => entry,
        Err(error) => {
            let all = args.agent.is_none() && args.kind.is_none();
            let value =
                json!({"time": stamp(item.at), "seq": item.seq, "invalid": error.to_string()});
            let kind = Cell::from("invalid").toned(Tone::Bad);
            let line = history::columns(item, kind, "", &error.to_string());
            return if all { output::item(output, &value, &line) } else { Ok(StdoutReader::There) };
        }
    };
    let mut reader = StdoutReader::There;
    for event in entry.events.iter().filter(|event| is_wanted(event, args)) {
        let (line, value) = (history::line(item, event), history::value(item, entry, event));
        reader = output::item(output, &value, &line)?;
    }
    Ok(reader)
}

fn is_wanted(event: &Event, args: &EventsArgs) -> bool {
    args.agent.as_ref().is_none_or(|agent| concerns(event, agent))
        && args.kind.as_ref().is_none_or(|kind| is_kind(event.kind, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_kinds_match_exactly_or_by_family() {
        assert!(is_kind(EventKind::RunState, "run"));
        assert!(is_kind(EventKind::RunState, "run.state"));
        assert!(!is_kind(EventKind::RunState, "run.s"));
        assert!(!is_kind(EventKind::AgentLiveness, "run"));
    }
}
