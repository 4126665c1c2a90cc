//! What a screen that stays open hears: the records and every entry after them, what hosts report, whether the bus is there, and
//! the journal of one run, or events. Each goes on by itself when the bus comes back.

use std::collections::VecDeque;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tetrarch_bus::Bus;
use tetrarch_bus::journal::{JournalName, Journaled, end_begins, follow_journal};
use tetrarch_bus::lease::Renewals;
use tetrarch_bus::spoken::SpokenWords;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::LedgerItem;
use tetrarch_core::id::{AgentId, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, RecordKey};
use tetrarch_core::time::BusTime;
use tetrarch_view::event::EventRow;
use tetrarch_view::news::{FleetNews, LinkState, RunNews};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::command::logs::Entries;
use crate::history;
use crate::obstacles::telemetry;
use crate::output::now;
use crate::{CliResult, HumanClient, StateSnapshot};

/// Entries at the end of a journal that are read at first.
pub(super) const JOURNAL_END: usize = 500;
/// The records that are shown; the rest of the ledger is passed over.
const SHOWN: [KeyKind; 16] = [
    KeyKind::Agent,
    KeyKind::Assignment,
    KeyKind::Change,
    KeyKind::Draft,
    KeyKind::Goal,
    KeyKind::GoalState,
    KeyKind::Host,
    KeyKind::Node,
    KeyKind::NodeState,
    KeyKind::Plan,
    KeyKind::Profile,
    KeyKind::Project,
    KeyKind::Question,
    KeyKind::Run,
    KeyKind::RunStatus,
    KeyKind::Turn,
];
/// Entries that are taken in at one stroke.
const ENTRIES: usize = 256;
/// Between two looks at whether the bus and the owner are there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the bus may take to answer such a look.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The end of a journal.
pub(super) type JournalTail = VecDeque<(BusTime, JournalEvent)>;

/// Begins to follow.
pub(super) fn start(client: &HumanClient, tell: &Sender<FleetNews>, tasks: &mut JoinSet<()>) {
    tasks.spawn(follow(client.clone(), tell.clone()));
    tasks.spawn(follow_reports(client.bus.clone(), tell.clone()));
}

/// Reads the records, and then every entry of the ledger, and whether the bus is there.
async fn follow(client: HumanClient, tell: Sender<FleetNews>) {
    let from = loop {
        match read_records(&client.bus, &tell).await {
            Ok(from) => break from,
            // Until then nothing is shown that could be stale.
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    let entries = history::entries(&client.bus, from);
    tokio::join!(follow_entries(entries, &tell), follow_link(&client, &tell));
}

async fn follow_entries(entries: impl Stream<Item = Vec<LedgerItem>>, tell: &Sender<FleetNews>) {
    let mut entries = std::pin::pin!(entries);
    while let Some(items) = entries.next().await {
        let entries: Vec<(u64, Entry)> = items.into_iter().filter_map(shown).collect();
        if !entries.is_empty() && tell.send(FleetNews::Entries(entries)).await.is_err() {
            return;
        }
    }
}

async fn read_records(bus: &Bus, tell: &Sender<FleetNews>) -> CliResult<u64> {
    // Read before the records: what is newer than this is in the ledger from there on.
    let from = history::next_entry(bus).await?;
    let snapshot = StateSnapshot::read(bus, &SHOWN.map(Select::Kind)).await?;
    let _gone = tell.send(FleetNews::Loaded(Box::new(snapshot.0))).await;
    Ok(from)
}

/// An entry with what is shown of it.
fn shown(item: LedgerItem) -> Option<(u64, Entry)> {
    let mut entry = item.entry.ok()?;
    entry.records.retain(|record| SHOWN.contains(&KeyKind::of(&record.key())));
    entry.dropped.retain(|key| SHOWN.contains(&KeyKind::of(key)));
    let is_empty = entry.records.is_empty() && entry.dropped.is_empty();
    (!is_empty).then_some((item.seq, entry))
}

/// Hears what hosts say of their sessions.
async fn follow_reports(bus: Bus, tell: Sender<FleetNews>) {
    let mut renewals = loop {
        match Renewals::listen(&bus).await {
            Ok(renewals) => break renewals,
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    loop {
        let rows = renewals.next().await.rows;
        if !rows.is_empty() && tell.send(FleetNews::Reported(rows)).await.is_err() {
            return;
        }
    }
}

/// Looks now and then whether the bus answers and who owns the ledger.
async fn follow_link(client: &HumanClient, tell: &Sender<FleetNews>) {
    let mut seen = now();
    loop {
        let asked = now();
        let link = match tokio::time::timeout(ANSWERED_WITHIN, telemetry(client)).await {
            Ok(Ok(telemetry)) => {
                seen = asked;
                if tell.send(FleetNews::Told(telemetry)).await.is_err() {
                    return;
                }
                LinkState::Live
            }
            Ok(Err(_)) | Err(_) => LinkState::Stale(seen),
        };
        if tell.send(FleetNews::Linked(link)).await.is_err() {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reads the end of a run's journal, and then what comes: its entries and its words.
pub(super) async fn read_along(client: HumanClient, tell: Sender<RunNews>, name: JournalName) {
    let (bus, run) = (client.bus, name.run);
    let (mut words, from) = loop {
        match open(&bus, &name, &tell).await {
            Ok(opened) => break opened,
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    let entries = follow_journal(&bus, &name, from).ready_chunks(ENTRIES);
    let mut entries = std::pin::pin!(entries);
    loop {
        let input = tokio::select! {
            biased;
            Some(read) = entries.next() => journal(run, read),
            text = words.next() => RunNews::Text { run, text },
        };
        if tell.send(input).await.is_err() {
            return;
        }
    }
}

/// Reads the latest events through an entry, or until now and then those that come: of one agent, or of all.
pub(super) async fn read_events(
    client: HumanClient,
    tell: Sender<Vec<EventRow>>,
    agent: Option<AgentId>,
    through: Option<u64>,
) {
    let (last, mut rows) = loop {
        match latest_events(&client.bus, agent.as_ref(), through).await {
            Ok(read) => break read,
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    rows.reverse();
    if tell.send(rows).await.is_err() || through.is_some() {
        return;
    }
    let mut events = std::pin::pin!(history::events(&client.bus, last + 1, agent));
    while let Some(rows) = events.next().await {
        if !rows.is_empty() && tell.send(rows).await.is_err() {
            return;
        }
    }
}

/// The last entry that was looked at, and its and earlier events, the newest first.
async fn latest_events(
    bus: &Bus,
    agent: Option<&AgentId>,
    through: Option<u64>,
) -> CliResult<(u64, Vec<EventRow>)> {
    let last = match through {
        Some(seq) => seq,
        None => bus.stream_last_seq(LEDGER).await?,
    };
    Ok((last, history::latest_events(bus, last, agent).await?))
}

/// Listens to a run's words, and finds where the end of its journal begins. What the stream does not have any
/// more is read from the artifact that it was kept as.
async fn open(
    bus: &Bus,
    name: &JournalName,
    tell: &Sender<RunNews>,
) -> CliResult<(SpokenWords, u64)> {
    let words = SpokenWords::of(bus, name).await?;
    if let Some((from, _)) = end_begins(bus, name, JOURNAL_END).await? {
        return Ok((words, from));
    }
    let end = kept_end(bus, name).await?;
    if !end.is_empty() {
        let _gone = tell.send(RunNews::Journal { run: name.run, entries: end.into() }).await;
    }
    Ok((words, 1))
}

/// The end of a run's journal, with when each entry was stored.
///
/// # Errors
/// The bus is away, or the journal cannot be read.
pub(super) async fn read_end(bus: &Bus, name: &JournalName) -> CliResult<JournalTail> {
    match end_begins(bus, name, JOURNAL_END).await? {
        Some((from, _)) => end_of(Entries::stored(bus, name, from)).await,
        None => kept_end(bus, name).await,
    }
}

/// The end of a journal that the stream does not have any more; empty when it was not kept.
async fn kept_end(bus: &Bus, name: &JournalName) -> CliResult<JournalTail> {
    let wanted = [Select::One(RecordKey::RunStatus(name.run))];
    let known = StateSnapshot::read(bus, &wanted).await?;
    let status = known.records.run_status.get(&name.run);
    match status.and_then(|status| status.archive.clone()) {
        Some(sha256) => end_of(Entries::of(bus, name, Some(sha256)).await?).await,
        None => Ok(JournalTail::new()),
    }
}

async fn end_of(mut entries: Entries) -> CliResult<JournalTail> {
    let mut end = JournalTail::new();
    while let Some(entry) = entries.next().await? {
        end.extend(readable(entry));
        if end.len() > JOURNAL_END {
            end.pop_front();
        }
    }
    Ok(end)
}

/// Entries that can be read, as a screen hears of them.
fn journal(run: RunId, read: impl IntoIterator<Item = Journaled>) -> RunNews {
    RunNews::Journal { run, entries: read.into_iter().filter_map(readable).collect() }
}

fn readable(stored: Journaled) -> Option<(BusTime, JournalEvent)> {
    Some((stored.at, stored.entry.ok()?.event))
}
