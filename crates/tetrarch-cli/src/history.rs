//! What happened, as the ledger tells it: its entries one after another, and an event as a line
//! for people or as JSON. Which events are wanted is the commands' business.

use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{LedgerItem, first_since, follow_ledger, read_ledger};
use tetrarch_core::duration;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, Event};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_view::event::{EVENTS_SHOWN, EventRow, KIND_WIDTH, about, concerns, tone};

use crate::output::{Cell, StdoutReader, align, is_coloured, now, read_stamp, stamp};
use crate::{CliError, CliResult, Code};

/// Entries read at one stroke.
const STRETCH: u64 = 2_000;
/// Entries that are taken in at one stroke.
const ENTRIES: usize = 256;
/// Entries in which the latest events are looked for at one stroke, and in all.
const LOOKED_FOR: u64 = 300;
const LOOKED_FOR_MAX: u64 = 30_000;

/// A place on the ledger, as people say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Millis),
    /// This moment, by the bus's clock.
    Moment(BusTime),
    /// This sequence.
    Seq(u64),
}

/// A place in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamPosition {
    /// A moment, by the bus's clock.
    Moment(BusTime),
    /// A sequence.
    Seq(u64),
}

impl Since {
    /// Reads `10m`, `2026-11-22T08:00:00Z` or `4711`.
    ///
    /// # Errors
    /// What would be accepted.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if let Ok(seq) = text.parse() {
            return Ok(Self::Seq(seq));
        }
        if let Ok(ago) = duration::parse(text) {
            return Ok(Self::Ago(ago));
        }
        let moment = read_stamp(text).map(Self::Moment);
        moment
            .map_err(|error| format!("{error}; an age such as 10m and a sequence are also allowed"))
    }

    /// The place itself, as of now.
    pub(crate) fn place(self) -> StreamPosition {
        match self {
            Self::Ago(ago) => StreamPosition::Moment(BusTime(now().0.saturating_sub(ago.0))),
            Self::Moment(moment) => StreamPosition::Moment(moment),
            Self::Seq(seq) => StreamPosition::Seq(seq),
        }
    }

    /// The first sequence from there on; one more than `last`, the ledger's last, when there is
    /// none.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) async fn first(self, bus: &Bus, last: u64) -> CliResult<u64> {
        let moment = match self.place() {
            StreamPosition::Seq(seq) => return Ok(seq.max(1)),
            StreamPosition::Moment(moment) => moment,
        };
        let first = bus.stream_extent(LEDGER).await?.first;
        Ok(first_since(bus, moment, first, last).await?)
    }
}

/// The first ledger entry that the records of STATE do not show. It is asked for before they are read: what is newer
/// is in the ledger from there on.
///
/// # Errors
/// STATE cannot be read.
pub(crate) async fn next_entry(bus: &Bus) -> CliResult<u64> {
    let meta = load_meta(bus).await;
    let meta = meta.map_err(|error| CliError::new(Code::BusUnreachable, error.to_string()))?;
    Ok(meta.map_or(1, |meta| meta.outbox_through + 1))
}

/// The ledger's entries from a sequence on as they come, those together that are there already; for ever.
pub(crate) fn entries(bus: &Bus, from: u64) -> impl Stream<Item = Vec<LedgerItem>> + use<> {
    follow_ledger(bus, from, 0).ready_chunks(ENTRIES)
}

/// The events of entries through a sequence, the newest first: of one agent, or of all. As many as a screen shows.
///
/// # Errors
/// The bus does not answer.
pub(crate) async fn latest_events(
    bus: &Bus,
    through: u64,
    agent: Option<&AgentId>,
) -> CliResult<Vec<EventRow>> {
    let kept = bus.stream_extent(LEDGER).await?.first.max(1);
    let first = through.saturating_sub(LOOKED_FOR_MAX - 1).max(kept);
    let (mut rows, mut next) = (Vec::new(), through);
    while next >= first && rows.len() < EVENTS_SHOWN {
        let from = next.saturating_sub(LOOKED_FOR - 1).max(first);
        let items = read_ledger(bus, from, next, 0).await;
        rows.extend(items.into_iter().flat_map(|item| event_rows(item, agent)).rev());
        next = from - 1;
    }
    rows.truncate(EVENTS_SHOWN);
    Ok(rows)
}

/// The events of entries from a sequence on as they come, of one agent or of all; for ever.
pub(crate) fn events(
    bus: &Bus,
    from: u64,
    agent: Option<AgentId>,
) -> impl Stream<Item = Vec<EventRow>> + use<> {
    entries(bus, from).map(move |items| {
        items.into_iter().flat_map(|item| event_rows(item, agent.as_ref())).collect()
    })
}

/// The events of an entry that concern an agent, or all.
fn event_rows(item: LedgerItem, agent: Option<&AgentId>) -> Vec<EventRow> {
    let (seq, at) = (item.seq, item.at);
    let events = item.entry.map(|entry| entry.events).unwrap_or_default();
    let wanted = |event: &Event| agent.is_none_or(|agent| concerns(event, agent));
    events.into_iter().filter(wanted).map(|event| EventRow { seq, at, event }).collect()
}

/// Reads the ledger from a sequence, or where it begins now, to another, both included, a portion at a time, as long
/// as somebody reads what is made of it. `epoch`: that of the entries before; gives the last entry's epoch, none when nobody reads any more.
///
/// # Errors
/// Those of `see`.
pub(crate) async fn each(
    bus: &Bus,
    (from, last): (u64, u64),
    mut epoch: u64,
    mut see: impl FnMut(&LedgerItem) -> CliResult<StdoutReader>,
) -> CliResult<Option<u64>> {
    let mut next = from.max(bus.stream_extent(LEDGER).await?.first);
    while next <= last {
        let through = last.min(next.saturating_add(STRETCH - 1));
        for item in read_ledger(bus, next, through, epoch).await {
            if let Ok(entry) = &item.entry {
                epoch = entry.epoch;
            }
            if see(&item)? == StdoutReader::Gone {
                return Ok(None);
            }
        }
        next = through + 1;
    }
    Ok(Some(epoch))
}

/// One event as a line for people.
pub(crate) fn line(item: &LedgerItem, event: &Event) -> String {
    let kind = Cell::from(event.kind.as_str()).toned(tone(event.kind));
    columns(item, kind, &about(event, ToString::to_string), &event.reason)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_position_is_a_duration_timestamp_or_sequence() {
        assert_eq!(Since::read("10m"), Ok(Since::Ago(Millis(600_000))));
        assert_eq!(Since::read("4711"), Ok(Since::Seq(4711)));
        assert_eq!(Since::read("1970-01-01T00:00:01Z"), Ok(Since::Moment(BusTime(1_000))));
        assert!(Since::read("yesterday").is_err());
    }
}
