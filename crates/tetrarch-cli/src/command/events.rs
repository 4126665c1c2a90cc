//! `events`: what happened, from the ledger: one line each with time, sequence, kind, subject and
//! reason. It explains nothing; `reason` and `rule` are the owner's words.

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{LedgerItem, follow_ledger, read_ledger};
use tetrarch_core::duration;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, Event, EventKind};
use tetrarch_core::time::{BusTime, Millis};

use crate::args::Output;
use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::output::{self, Cell, Reader, Tone, align, is_coloured, now, stamp};

/// Entries read at one stroke.
const STRETCH: u64 = 2_000;
/// Width of the kinds' column: the longest kind.
const KIND_WIDTH: usize = 17;

/// What `events` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch events --since 10m
  tetrarch events --since 4711 --kind spawn.denied
  tetrarch events --follow --agent PO-demo
  tetrarch events -o json | jq .reason

Without --since everything that is kept is shown; with --follow, what comes from now on.")]
pub(crate) struct EventsArgs {
    /// From so long ago (10m, 2h) or from this ledger sequence on.
    #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
    since: Option<Since>,
    /// Goes on with what comes, until it is interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Only events about this agent, or of its doing.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Only events of this kind, such as run.state; a family such as run is fine too.
    #[arg(long)]
    kind: Option<String>,
}

/// From where on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Millis),
    /// This sequence.
    Seq(u64),
}

impl Since {
    /// Reads `10m` or `4711`.
    ///
    /// # Errors
    /// What would be accepted.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if let Ok(seq) = text.parse() {
            return Ok(Self::Seq(seq));
        }
        duration::parse(text).map(Self::Ago).map_err(|error| format!("{error}, or a sequence"))
    }
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; a kind that is none.
pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<(), CliError> {
    check_kind(&args)?;
    let bus = context.desk().await?.bus;
    let last = bus.stream_last_seq(LEDGER).await?;
    let from = match (args.since, args.follow) {
        (Some(Since::Seq(seq)), _) => seq.max(1),
        (Some(Since::Ago(ago)), _) => {
            first_since(&bus, BusTime(now().0.saturating_sub(ago.0)), last).await?
        }
        (None, true) => last + 1,
        (None, false) => 1,
    };
    let mut next = from;
    let mut epoch = 0;
    while next <= last {
        let through = last.min(next.saturating_add(STRETCH - 1));
        for item in read_ledger(&bus, next, through, epoch).await {
            if let Ok(entry) = &item.entry {
                epoch = entry.epoch;
            }
            if show(context.output, &item, &args)? == Reader::Gone {
                return Ok(());
            }
        }
        next = through + 1;
    }
    if !args.follow {
        return Ok(());
    }
    let mut items = std::pin::pin!(follow_ledger(&bus, from.max(last + 1), epoch));
    while let Some(item) = items.next().await {
        if show(context.output, &item, &args)? == Reader::Gone {
            break;
        }
    }
    Ok(())
}

fn check_kind(args: &EventsArgs) -> Result<(), CliError> {
    let Some(kind) = &args.kind else { return Ok(()) };
    if EventKind::ALL.iter().any(|known| is_kind(*known, kind)) {
        return Ok(());
    }
    let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(CliError::new(Code::Usage, format!("{kind:?} is no kind of event"))
        .hint(format!("use one of {}", known.join(", "))))
}

/// Whether a kind is the wanted one or of the wanted family.
fn is_kind(kind: EventKind, wanted: &str) -> bool {
    let rest = kind.as_str().strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The first sequence that was stored at a time or after it, by halving: the ledger's times only
/// grow. What is no longer kept counts as older.
async fn first_since(bus: &Bus, time: BusTime, last: u64) -> Result<u64, CliError> {
    let (mut low, mut high) = (1, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = bus.get_seq(LEDGER, middle).await?;
        if found.is_some_and(|message| message.time_unix_ms >= time.0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

fn show(output: Output, item: &LedgerItem, args: &EventsArgs) -> Result<Reader, CliError> {
    let entry = match &item.entry {
        Ok(entry) => entry,
        Err(error) => {
            let all = args.agent.is_none() && args.kind.is_none();
            let value =
                json!({"time": stamp(item.at), "seq": item.seq, "invalid": error.to_string()});
            let line = line(item, Cell::from("invalid").toned(Tone::Bad), "", &error.to_string());
            return if all { output::item(output, &value, &line) } else { Ok(Reader::There) };
        }
    };
    let mut reader = Reader::There;
    for event in entry.events.iter().filter(|event| is_wanted(event, args)) {
        let tone = tone(event.kind);
        let kind = Cell::from(event.kind.as_str()).toned(tone);
        let line = line(item, kind, &about(event), &event.reason);
        reader = output::item(output, &value(item, entry, event), &line)?;
    }
    Ok(reader)
}

fn is_wanted(event: &Event, args: &EventsArgs) -> bool {
    let agent = args.agent.as_ref().is_none_or(|agent| {
        event.agent.as_ref() == Some(agent) || event.actor.agent() == Some(agent)
    });
    agent && args.kind.as_ref().is_none_or(|kind| is_kind(event.kind, kind))
}

fn tone(kind: EventKind) -> Tone {
    match kind {
        EventKind::Alert | EventKind::Refused | EventKind::SpawnDenied => Tone::Bad,
        EventKind::Question | EventKind::AgentEnding | EventKind::AgentReplaced => Tone::Warn,
        EventKind::OwnerStarted
        | EventKind::HostJoined
        | EventKind::HostLeft
        | EventKind::ProjectCreated
        | EventKind::ProjectMode
        | EventKind::ProjectRetired
        | EventKind::ProfileApplied
        | EventKind::AgentAdmitted
        | EventKind::AgentLiveness
        | EventKind::RunState
        | EventKind::GoalCreated
        | EventKind::GoalStatus
        | EventKind::NodeAdded
        | EventKind::NodeStatus
        | EventKind::AssignmentStatus
        | EventKind::CircuitClosed
        | EventKind::Verdict => Tone::Plain,
    }
}

/// What an event is about: the narrowest things it names.
fn about(event: &Event) -> String {
    let node = event.node.map(|node| node.to_string());
    let agent = event.agent.as_ref().map(ToString::to_string);
    let run = event.run.filter(|_| agent.is_none()).map(|run| run.to_string());
    let epic = event.epic.filter(|_| agent.is_none() && run.is_none()).map(|epic| epic.to_string());
    let parts: Vec<String> = [agent, run, epic, node].into_iter().flatten().collect();
    if parts.is_empty() { event.actor.to_string() } else { parts.join(" ") }
}

fn line(item: &LedgerItem, kind: Cell, about: &str, reason: &str) -> String {
    // One line at a time cannot know the widths of those to come: what is short is padded here.
    let pad = |width: usize| Cell::from(" ".repeat(width));
    let cells = [
        vec![stamp(item.at).into(), item.seq.to_string().into(), kind, about.into(), reason.into()],
        vec![Cell::default(), pad(6), pad(KIND_WIDTH), pad(32)],
    ];
    let both = align(&cells, is_coloured());
    both.lines().next().unwrap_or_default().to_owned()
}

fn value(item: &LedgerItem, entry: &Entry, event: &Event) -> Value {
    let text = |value: Option<String>| value.map_or(Value::Null, Value::String);
    json!({
        "time": stamp(item.at),
        "seq": item.seq,
        "commit": entry.commit.to_string(),
        "epoch": entry.epoch,
        "kind": event.kind.as_str(),
        "actor": event.actor.to_string(),
        "agent": text(event.agent.as_ref().map(ToString::to_string)),
        "run": text(event.run.map(|run| run.to_string())),
        "epic": text(event.epic.map(|epic| epic.to_string())),
        "node": text(event.node.map(|node| node.to_string())),
        "request": text(event.request.map(|request| request.to_string())),
        "reason": event.reason,
        "rule": event.rule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_sequence() {
        assert_eq!(Since::read("10m"), Ok(Since::Ago(Millis(600_000))));
        assert_eq!(Since::read("4711"), Ok(Since::Seq(4711)));
        assert!(Since::read("yesterday").is_err());
    }

    #[test]
    fn kinds_are_matched_whole_or_by_family() {
        assert!(is_kind(EventKind::RunState, "run"));
        assert!(is_kind(EventKind::RunState, "run.state"));
        assert!(!is_kind(EventKind::RunState, "run.s"));
        assert!(!is_kind(EventKind::AgentLiveness, "run"));
    }
}
