//! A run's journal on the bus: appending to it, fenced by the sequence of its last entry, and
//! reading it (spec 02, 06). What is written is up to whoever executes the run.

mod moving;

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{iter, try_unfold, unfold};
use futures::{Stream, StreamExt, TryStreamExt};

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::error::{PublishError, ReadError};
use crate::follow::StreamFollower;
use crate::retry::Retry;
use crate::subject::Subject;
use crate::subject::pattern::RUNS;
use crate::{stamp, surely};
use tetrarch_core::converse::recorded::Kept;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{AgentId, RunId, SessionId};
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::metering::Tally;
use tetrarch_core::run::Run;
use tetrarch_core::time::BusTime;

pub use moving::move_old;

/// How long the end of a journal may take to show; one that is older than what `RUNS` keeps has none.
const END_SHOWS_WITHIN: Duration = Duration::from_secs(10);
/// Entries read at one stroke.
const BATCH: usize = 256;

/// Why a journal was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another writer's entry stands at the end: this session is over, its process has to stop.
    #[error(
        "cannot write the journal of {run}: another writer has entry {last}; this session ends"
    )]
    Fenced {
        /// Which run.
        run: RunId,
        /// The sequence of the last entry, 0 when the journal is gone.
        last: u64,
    },
    /// The entry breaks a bound.
    #[error(transparent)]
    Encoding(#[from] CodecError),
    /// The server refuses the write for good.
    #[error(transparent)]
    Refused(#[from] PublishError),
    /// The journal cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

/// Which journal: a run and the agent that makes it. The server lets nobody else write it but a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JournalName {
    /// The agent.
    pub agent: AgentId,
    /// The run.
    pub run: RunId,
}

impl JournalName {
    /// The journal of a run that is known.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self { agent: run.agent.clone(), run: run.id }
    }

    /// Where its entries are.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject::Run { agent: self.agent.clone(), run: self.run }
    }
}

/// Who writes a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The run.
    pub run: RunId,
    /// The agent that executes it.
    pub agent: AgentId,
    /// The incarnation.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
}

impl Writer {
    /// What it writes.
    #[must_use]
    pub fn journal(&self) -> JournalName {
        JournalName { agent: self.agent.clone(), run: self.run }
    }
}

/// The one writer of a run's journal.
#[derive(Debug)]
pub struct JournalWriter {
    bus: Bus,
    writer: Writer,
    last_seq: u64,
    index: u64,
    pending: Option<Bytes>,
}

impl JournalWriter {
    /// Begins the journal of an agent's first run. Nothing is read: should there be an entry all the same, the first
    /// append is fenced.
    #[must_use]
    pub fn first(bus: Bus, writer: Writer) -> Self {
        Self { bus, writer, last_seq: 0, index: 0, pending: None }
    }

    /// Goes on where the journal ends. An entry of a higher epoch, the owner's seal for instance,
    /// means that this session is over.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub async fn open(bus: Bus, writer: Writer) -> Result<Self, JournalError> {
        let subject = writer.journal().subject().to_string();
        let found = surely::last_by_subject(&bus, RUNS, &subject).await?;
        let last_seq = found.as_ref().map_or(0, |message| message.seq);
        let last = found.and_then(|message| codec::decode_journal(&message.payload).ok());
        if last.as_ref().is_some_and(|last| last.epoch > writer.epoch) {
            return Err(JournalError::Fenced { run: writer.run, last: last_seq });
        }
        let index = last.map_or(0, |last| last.index);
        Ok(Self { bus, writer, last_seq, index, pending: None })
    }

    /// The sequence of the last entry in `RUNS`, 0 when there is none.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Appends what happened, with the inbox positions that are handled with it; gives the
    /// entry's sequence. An unknown outcome is resolved by sending the same again, so it waits
    /// while the bus is away. Dropping it half way leaves an entry that may be in the journal; the
    /// next append writes it first.
    ///
    /// # Errors
    /// See [`JournalError`]; after `Fenced` the process has to stop.
    pub async fn append(
        &mut self,
        positions: Positions,
        event: JournalEvent,
    ) -> Result<u64, JournalError> {
        self.append_all(positions, event, Vec::new()).await
    }

    /// The same of several things that happened one after the other, as one entry.
    ///
    /// # Errors
    /// See [`JournalWriter::append`].
    pub async fn append_all(
        &mut self,
        positions: Positions,
        event: JournalEvent,
        then: Vec<JournalEvent>,
    ) -> Result<u64, JournalError> {
        if self.pending.is_some() {
            self.settle().await?;
        }
        let Writer { run, agent, session, epoch } = self.writer.clone();
        let index = self.index.saturating_add(1);
        let entry = JournalEntry { run, agent, session, epoch, index, positions, event, then };
        match codec::encode_journal(&entry) {
            Ok(bytes) => {
                self.pending = Some(bytes.into());
                self.settle().await
            }
            Err(CodecError::TooLarge { .. }) if !entry.then.is_empty() => {
                for single in entry.each() {
                    let next = self.index.saturating_add(1);
                    let single = JournalEntry { index: next, ..single };
                    self.pending = Some(codec::encode_journal(&single)?.into());
                    self.settle().await?;
                }
                Ok(self.last_seq)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn settle(&mut self) -> Result<u64, JournalError> {
        let Some(payload) = self.pending.clone() else {
            return Ok(self.last_seq);
        };
        let run = self.writer.run;
        let subject = self.writer.journal().subject();
        let headers = stamp::of_session(self.writer.session, self.writer.epoch).headers(&subject);
        let text = subject.to_string();
        let sent = surely::publish(&self.bus, &text, &headers, &payload, Some(self.last_seq));
        let seq = match sent.await {
            Ok(seq) => seq,
            Err(PublishError::WrongLast { last, .. }) => {
                match surely::named(&self.bus, RUNS, last).await? {
                    Some(found) if found.payload == payload => last,
                    Some(_) | None => return Err(JournalError::Fenced { run, last }),
                }
            }
            Err(error) => return Err(error.into()),
        };
        self.last_seq = seq;
        self.index = self.index.saturating_add(1);
        self.pending = None;
        Ok(seq)
    }
}

/// A thing that happened, as an entry of a journal where it was stored.
#[derive(Debug)]
pub struct Journaled {
    /// Its sequence in `RUNS`.
    pub seq: u64,
    /// When the server stored it.
    pub at: BusTime,
    /// The entry, or why it cannot be read.
    pub entry: Result<JournalEntry, CodecError>,
}

impl Journaled {
    /// What was stored there then: each thing that happened by itself.
    pub(crate) fn read(seq: u64, stored_unix_ms: u64, payload: &[u8]) -> Vec<Self> {
        let at = BusTime(stored_unix_ms);
        match codec::decode_journal(payload) {
            Ok(entry) => entry.each().map(|entry| Self { seq, at, entry: Ok(entry) }).collect(),
            Err(error) => vec![Self { seq, at, entry: Err(error) }],
        }
    }

    fn of(message: &RawMessage) -> Vec<Self> {
        Self::read(message.seq, message.time_unix_ms, &message.payload)
    }
}

/// Every entry of a run's journal from sequence `from` in `RUNS` on.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn read_journal(
    bus: &Bus,
    journal: &JournalName,
    from: u64,
) -> Result<Vec<Journaled>, ReadError> {
    stream_journal(bus, journal, from).try_collect().await
}

/// The same, a batch at a time: nothing that was passed on is kept.
pub fn stream_journal(
    bus: &Bus,
    journal: &JournalName,
    from: u64,
) -> impl Stream<Item = Result<Journaled, ReadError>> + Send + use<> {
    let (bus, subject) = (bus.clone(), journal.subject().to_string());
    let batches = try_unfold(from, move |next| {
        let (bus, subject) = (bus.clone(), subject.clone());
        async move {
            let batch = bus.next_by_subject_batch(RUNS, &subject, next, BATCH).await?;
            let Some(last) = batch.last().map(|last| last.seq) else { return Ok(None) };
            let entries = batch.iter().flat_map(Journaled::of).map(Ok);
            Ok(Some((iter(entries.collect::<Vec<_>>()), last + 1)))
        }
    });
    batches.try_flatten()
}

/// Whether the stream has a run's journal from its first entry on, or is not known to lack it.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn is_whole(bus: &Bus, journal: &JournalName) -> Result<bool, ReadError> {
    let subject = journal.subject().to_string();
    let first = bus.next_by_subject_batch(RUNS, &subject, 1, 1).await?;
    let Some(first) = first.first() else { return Ok(false) };
    Ok(codec::decode_journal(&first.payload).map_or(true, |entry| entry.index <= 1))
}

/// Every entry of a run's journal from this sequence of the stream on, as they come, for ever. Waits
/// while the bus is away.
pub fn follow_journal(
    bus: &Bus,
    journal: &JournalName,
    from: u64,
) -> impl Stream<Item = Journaled> + Send + use<> {
    let subject = journal.subject().to_string();
    let follower = StreamFollower::new(bus.clone(), RUNS, vec![subject], from);
    let messages = unfold(follower, |mut follower| async move {
        let message = follower.next().await;
        Some((iter(Journaled::of(&message)), follower))
    });
    messages.flatten()
}

/// The last entries of a run's journal, oldest first, at most `count` and [`BATCH`] of them; those that
/// cannot be read are left out. Where they begin is found by their places in the journal, so a long
/// one is not read whole; of one whose places do not grow, only the last entry is given.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn journal_end(
    bus: &Bus,
    journal: &JournalName,
    count: usize,
) -> Result<Vec<JournalEntry>, ReadError> {
    let subject = journal.subject().to_string();
    let count = count.clamp(1, BATCH);
    let Some((from, last)) = end_begins(bus, journal, count).await? else { return Ok(Vec::new()) };
    let end = bus.next_by_subject_batch(RUNS, &subject, from, count).await?;
    let end = if end.iter().any(|it| it.seq == last.seq) { end } else { vec![last] };
    let entries = end.iter().filter_map(|message| codec::decode_journal(&message.payload).ok());
    Ok(entries.flat_map(JournalEntry::each).collect())
}

/// Where the last entries of a run's journal begin by their places in it, as a sequence in `RUNS`, with
/// its last message; none when there is none, or it cannot be read. Of a journal whose places do not
/// grow it says little.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn end_begins(
    bus: &Bus,
    journal: &JournalName,
    count: usize,
) -> Result<Option<(u64, RawMessage)>, ReadError> {
    let subject = journal.subject().to_string();
    let Some(last) = bus.last_by_subject(RUNS, &subject).await? else { return Ok(None) };
    let Ok(newest) = codec::decode_journal(&last.payload) else { return Ok(None) };
    let before = newest.index.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    // What is after `before` begins at a sequence in `from..=to`.
    let (mut from, mut to) = (1, last.seq);
    while before > 0 && from < to {
        let middle = from + (to - from) / 2;
        let found = bus.next_by_subject_batch(RUNS, &subject, middle, 1).await?;
        let Some(found) = found.first() else { break };
        match codec::decode_journal(&found.payload) {
            Ok(entry) if entry.index <= before => from = found.seq + 1,
            Ok(_) | Err(_) => to = middle,
        }
    }
    Ok(Some((from, last)))
}

/// What a run's journal says to whoever goes on from it or settles its grant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalState {
    /// The newest state from which a successor can go on, as JSON text; none when there is none.
    pub checkpoint: Option<String>,
    /// What it recorded last of its conversation with a model.
    pub conversation: Kept,
    /// What was used of the grant.
    pub tally: Tally,
    /// How often a result was handed back, in this run and those that it goes on from.
    pub returned: u32,
    /// Whether nothing follows.
    pub ended: bool,
}

impl JournalState {
    fn take(&mut self, event: JournalEvent) {
        self.tally.take(&event);
        self.ended = matches!(event, JournalEvent::Ended { .. });
        if let JournalEvent::Checkpoint { state } = event {
            self.checkpoint = Some(state);
        } else if let JournalEvent::Returned { times, .. } = event {
            self.returned = self.returned.max(times);
        } else if let Some(recorded) = event.into_recorded() {
            self.conversation.push(recorded);
        }
    }
}

/// What a run's journal says so far; entries that cannot be read are left out. The journal is read in
/// batches and not kept.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn left(bus: &Bus, journal: &JournalName) -> Result<JournalState, ReadError> {
    let subject = journal.subject().to_string();
    let mut left = JournalState::default();
    let mut next = 1;
    loop {
        let batch = bus.next_by_subject_batch(RUNS, &subject, next, BATCH).await?;
        let Some(last) = batch.last() else {
            return Ok(left);
        };
        next = last.seq + 1;
        let entries = batch.iter().filter_map(|it| codec::decode_journal(&it.payload).ok());
        entries.flat_map(JournalEntry::each).for_each(|entry| left.take(entry.event));
    }
}

/// The newest state from which a successor can go on, as JSON text; none when there is none.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn last_checkpoint(
    bus: &Bus,
    journal: &JournalName,
) -> Result<Option<String>, ReadError> {
    Ok(left(bus, journal).await?.checkpoint)
}

/// What a run that another one goes on from left: waits while the bus is away, and for the end of
/// that journal, which the owner wrote before it ordered the other one but a replica may not have yet.
///
/// # Errors
/// The bus does not let this credential read.
pub async fn finally_left(bus: &Bus, journal: &JournalName) -> Result<JournalState, ReadError> {
    let mut lagging = Retry::until(END_SHOWS_WITHIN);
    loop {
        let found =
            surely::until_settled(None, ReadError::is_passing, || left(bus, journal)).await?;
        if found.ended || !lagging.pause().await {
            return Ok(found);
        }
    }
}
