//! What happened, as the ledger tells it: its entries one after another, and an event as a line
//! for people or as JSON. Which events are wanted is the commands' business.

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{LedgerItem, read_ledger};
use tetrarch_core::ledger::{Entry, Event, EventKind};

use crate::exit::CliError;
use crate::output::{Cell, Reader, Tone, align, is_coloured, stamp};

/// Entries read at one stroke.
const STRETCH: u64 = 2_000;
/// Width of the kinds' column: the longest kind.
const KIND_WIDTH: usize = 17;

/// Reads the ledger from a sequence, or where it begins now, to another, both included, as long as somebody reads what is
/// made of it; gives the last entry's epoch, none when nobody reads any more.
///
/// # Errors
/// Those of `see`.
pub(crate) async fn each(
    bus: &Bus,
    from: u64,
    last: u64,
    mut see: impl FnMut(&LedgerItem) -> Result<Reader, CliError>,
) -> Result<Option<u64>, CliError> {
    let mut next = from.max(bus.stream_extent(LEDGER).await?.first);
    let mut epoch = 0;
    while next <= last {
        let through = last.min(next.saturating_add(STRETCH - 1));
        for item in read_ledger(bus, next, through, epoch).await {
            if let Ok(entry) = &item.entry {
                epoch = entry.epoch;
            }
            if see(&item)? == Reader::Gone {
                return Ok(None);
            }
        }
        next = through + 1;
    }
    Ok(Some(epoch))
}

fn tone(kind: EventKind) -> Tone {
    match kind {
        EventKind::Alert | EventKind::Refused | EventKind::SpawnDenied => Tone::Bad,
        EventKind::Question
        | EventKind::Recovery
        | EventKind::PlannerAsked
        | EventKind::AgentEnding
        | EventKind::AgentReplaced => Tone::Warn,
        EventKind::OwnerStarted
        | EventKind::QuestionAnswered
        | EventKind::QuestionWithdrawn
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
        | EventKind::RunArchived
        | EventKind::GoalArchived
        | EventKind::LedgerSnapshot
        | EventKind::IntakeMoved
        | EventKind::LedgerAccepted
        | EventKind::PlannerAnswered
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

/// One event as a line for people.
pub(crate) fn line(item: &LedgerItem, event: &Event) -> String {
    let kind = Cell::from(event.kind.as_str()).toned(tone(event.kind));
    columns(item, kind, &about(event), &event.reason)
}

/// A line for people: when, where on the ledger, what, about what, why.
pub(crate) fn columns(item: &LedgerItem, kind: Cell, about: &str, reason: &str) -> String {
    // One line at a time cannot know the widths of those to come: what is short is padded here.
    let pad = |width: usize| Cell::from(" ".repeat(width));
    let cells = [
        vec![stamp(item.at).into(), item.seq.to_string().into(), kind, about.into(), reason.into()],
        vec![Cell::default(), pad(6), pad(KIND_WIDTH), pad(32)],
    ];
    let both = align(&cells, is_coloured());
    both.lines().next().unwrap_or_default().to_owned()
}

/// One event for programs.
pub(crate) fn value(item: &LedgerItem, entry: &Entry, event: &Event) -> Value {
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
