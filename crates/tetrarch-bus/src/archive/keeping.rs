//! Journals that are kept: small ones in artifacts that they share, so that a run costs a part of two
//! messages; one that is larger than that in artifacts of its own.

use futures::{StreamExt, stream};
use tetrarch_core::id::RunId;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::owner::Unarchived;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{ArchiveError, ArchiveHeader, MEDIA_TYPE, json, line};
use crate::artifact::{Artifacts, pipe};
use crate::client::{Bus, RawMessage};
use crate::codec;
use crate::journal::Writer;
use crate::outbox::end_journal;
use crate::subject::pattern::RUNS;

/// Entries read at one stroke: some journals are read at once, and an entry may be half a megabyte.
const BATCH: usize = 32;
/// Journals that are read at once.
const AT_ONCE: usize = 4;
/// Why the owner ends a journal.
const GIVEN_UP: &str = "nobody goes on from it";

/// Journals that one artifact keeps, or that could not be kept.
#[derive(Debug)]
pub struct KeptJournals {
    /// Whose they are.
    pub runs: Vec<RunId>,
    /// The artifact that a run names; an error is of now, and it may be tried again.
    pub sha256: Result<String, ArchiveError>,
}

/// Keeps ended runs' journals, in their order. Those of at most `shared_max` bytes share artifacts of so
/// many; a larger one is in artifacts of its own, of at most `bytes_max`, though each has an entry at
/// least. A run whose writer has not ended its journal and may still is left out. Of one that is overdue the
/// end is written first, so that nothing follows what is kept. Keeping the same runs again makes the
/// same artifacts.
pub async fn keep(
    bus: &Bus,
    ended: Vec<Unarchived>,
    (shared_max, bytes_max): (usize, usize),
) -> Vec<KeptJournals> {
    let mut reading = stream::iter(ended)
        .map(|of| async move { (of.run, read(bus, of, (shared_max, bytes_max)).await) })
        .buffered(AT_ONCE);
    let (mut kept, mut shared) = (Vec::new(), SharedText::default());
    while let Some((run, read)) = reading.next().await {
        match read {
            Ok(None) => {}
            Ok(Some(EndedJournal::Small(text))) => {
                if let Some(full) = shared.add(run, text, shared_max) {
                    kept.push(full.store(bus).await);
                }
            }
            Ok(Some(EndedJournal::Stored(sha256))) => {
                kept.push(KeptJournals { runs: vec![run], sha256: Ok(sha256) });
            }
            Err(error) => kept.push(KeptJournals { runs: vec![run], sha256: Err(error) }),
        }
    }
    if !shared.runs.is_empty() {
        kept.push(shared.store(bus).await);
    }
    kept
}

/// Journals, one after the other, that an artifact will keep.
#[derive(Debug, Default, PartialEq, Eq)]
struct SharedText {
    runs: Vec<RunId>,
    text: Vec<u8>,
}

impl SharedText {
    /// Adds a journal; gives those before it when there is no room beside them.
    fn add(&mut self, run: RunId, text: Vec<u8>, bytes_max: usize) -> Option<Self> {
        let full = !self.runs.is_empty() && self.text.len() + text.len() > bytes_max;
        let before = full.then(|| std::mem::take(self));
        self.runs.push(run);
        self.text.extend(text);
        before
    }

    async fn store(self, bus: &Bus) -> KeptJournals {
        let stored = Artifacts::new(bus).put_bytes(&self.text, MEDIA_TYPE).await;
        let sha256 = stored.map(|it| it.sha256).map_err(ArchiveError::from);
        KeptJournals { runs: self.runs, sha256 }
    }
}

/// A journal that has ended.
enum EndedJournal {
    /// All of it, as an artifact has it.
    Small(Vec<u8>),
    /// It shares nothing and is stored, by this name.
    Stored(String),
}

async fn read(
    bus: &Bus,
    of: Unarchived,
    (shared_max, bytes_max): (usize, usize),
) -> Result<Option<EndedJournal>, ArchiveError> {
    let Unarchived { run, agent, session, epoch, overdue } = of;
    let writer = Writer { run, agent, session, epoch };
    let subject = writer.journal().subject().to_string();
    let found = bus.last_by_subject(RUNS, &subject).await?;
    let last = match found.filter(is_end) {
        Some(end) => end.seq,
        None if !overdue => return Ok(None),
        None => {
            let next = Writer { epoch: epoch.saturating_add(1), ..writer };
            end_journal(bus, &next, GIVEN_UP).await?.seq
        }
    };
    let mut header = ArchiveHeader { run: run.to_string(), before: Vec::new() };
    let part = |first, bytes_max| ArchivePart { bus, subject: &subject, first, last, bytes_max };
    let mut text = Vec::new();
    if part(1, shared_max).write(&header, &mut text).await?.is_none() {
        return Ok(Some(EndedJournal::Small(text)));
    }
    drop(text);
    let (artifacts, mut first) = (Artifacts::new(bus), 1);
    loop {
        let (sink, source) = pipe();
        let part = part(first, bytes_max);
        let (written, sent) = futures::join!(part.write(&header, sink), artifacts.upload(source));
        let next = written?;
        let sha256 = artifacts.name(sent?, MEDIA_TYPE).await?.sha256;
        let Some(next) = next else { return Ok(Some(EndedJournal::Stored(sha256))) };
        header.before.push(sha256);
        first = next;
    }
}

fn is_end(message: &RawMessage) -> bool {
    let entry = codec::decode_journal(&message.payload);
    entry.is_ok_and(|entry| matches!(entry.last(), JournalEvent::Ended { .. }))
}

/// A stretch of a journal that is written.
struct ArchivePart<'b> {
    bus: &'b Bus,
    subject: &'b str,
    first: u64,
    last: u64,
    bytes_max: usize,
}

impl ArchivePart<'_> {
    /// Writes as much as there is room for; gives the sequence from which the next part goes on. What
    /// reads it, and has ended, has an error of its own to tell.
    async fn write<W: AsyncWrite + Unpin>(
        self,
        header: &ArchiveHeader,
        mut sink: W,
    ) -> Result<Option<u64>, ArchiveError> {
        let Self { bus, subject, first, last, bytes_max } = self;
        let (mut text, mut next) = (json(header), first);
        text.push(b'\n');
        let mut bytes = text.len();
        if sink.write_all(&text).await.is_err() {
            return Ok(None);
        }
        loop {
            let read = next - 1;
            let batch = bus.next_by_subject_batch(RUNS, subject, next, BATCH).await?;
            for message in batch.iter().filter(|message| message.seq <= last) {
                let line = line(message);
                bytes += line.len();
                if bytes > bytes_max && next > first {
                    return Ok(Some(message.seq));
                }
                if sink.write_all(&line).await.is_err() || message.seq == last {
                    return Ok(None);
                }
                next = message.seq + 1;
            }
            if read == next - 1 {
                return Err(ArchiveError::Lagging { journal: subject.to_owned(), read, last });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::Ulid;

    use super::*;

    #[test]
    fn journals_share_a_text_until_one_has_no_room() {
        let mut shared = SharedText::default();
        let mut full = Vec::new();
        for (run, bytes) in [(1, 4), (2, 6), (3, 1), (4, 30), (5, 10)] {
            full.extend(shared.add(RunId(Ulid(run)), vec![b'x'; bytes], 10));
        }
        full.push(shared);
        let found =
            full.iter().map(|it| (it.runs.iter().map(|run| run.0.0).collect(), it.text.len()));
        let found: Vec<(Vec<u128>, usize)> = found.collect();
        assert_eq!(found, [(vec![1, 2], 10), (vec![3], 1), (vec![4], 30), (vec![5], 10)]);
    }
}
