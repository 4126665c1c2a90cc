//! An ended run's journal as an artifact (spec 06, Journal): kept once nobody writes it any more, and read
//! as the journal was. It is JSON lines: the first names the run, each other one is an entry as the
//! stream had it, with its sequence there and the time at which it was stored. A journal that one
//! artifact has no room for is several: the first line of the last one, which is the one that is
//! noted, names those before it.

use std::collections::VecDeque;

use data_encoding::BASE64;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWriteExt, DuplexStream};

use crate::artifact::{ArtifactError, ArtifactLines, Artifacts, pipe};
use crate::client::{Bus, RawMessage};
use crate::codec;
use crate::error::ReadError;
use crate::journal::{Journaled, Writer};
use crate::outbox::{OutboxError, end_journal};
use crate::subject::pattern::RUNS;
use tetrarch_core::id::RunId;
use tetrarch_core::journal::JournalEvent;

/// What kind of content it is.
pub const MEDIA_TYPE: &str = "application/vnd.tetrarch.journal+jsonl";

/// Entries read at one stroke: some journals are kept at once, and an entry may be half a megabyte.
const BATCH: usize = 32;
/// What comes before an entry in its line, after its place.
const ENTRY: &[u8] = b",\"entry\":";
/// Why the owner ends a journal.
const GIVEN_UP: &str = "nobody goes on from it";

/// Why a journal was not kept or not read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An artifact could not be stored or read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The stream cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal's end cannot be written.
    #[error(transparent)]
    End(#[from] OutboxError),
    /// The server that was asked does not have all of it.
    #[error(
        "cannot archive {journal}: read up to {read}, but it ends at {last}; it will be read again"
    )]
    Lagging {
        /// The journal's subject.
        journal: String,
        /// The sequence of the last entry that was read.
        read: u64,
        /// The sequence of its last entry.
        last: u64,
    },
    /// It is no journal.
    #[error("artifact {sha256} is not a run journal: {reason}")]
    NoJournal {
        /// Its name.
        sha256: String,
        /// What it is.
        reason: String,
    },
}

/// The first line of a part.
#[derive(Debug, Serialize, Deserialize)]
struct ArchiveHeader {
    run: String,
    /// The parts before it, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
}

/// An entry's place.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryPosition {
    seq: u64,
    stored_unix_ms: u64,
    /// What is no JSON, or not in one line, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Keeps an ended run's journal in artifacts of at most so many bytes, though each has an entry at least;
/// gives the name of the last one, none when whoever writes it has not ended it and may still. Of one
/// that is `overdue` the end is written first, so that nothing follows what is kept. Doing it again
/// gives the same.
///
/// # Errors
/// See [`ArchiveError`]; it may be tried again.
pub async fn keep(
    bus: &Bus,
    writer: &Writer,
    overdue: bool,
    bytes_max: usize,
) -> Result<Option<String>, ArchiveError> {
    let subject = writer.journal().subject().to_string();
    let found = bus.last_by_subject(RUNS, &subject).await?;
    let last = match found.filter(is_end) {
        Some(end) => end.seq,
        None if !overdue => return Ok(None),
        None => {
            let next = Writer { epoch: writer.epoch.saturating_add(1), ..writer.clone() };
            end_journal(bus, &next, GIVEN_UP).await?.seq
        }
    };
    let artifacts = Artifacts::new(bus);
    let mut header = ArchiveHeader { run: writer.run.to_string(), before: Vec::new() };
    let mut first = 1;
    loop {
        let (sink, source) = pipe();
        let part = ArchivePart { bus, subject: &subject, first, last, bytes_max };
        let (written, sent) = futures::join!(part.write(&header, sink), artifacts.upload(source));
        let next = written?;
        let sha256 = artifacts.name(sent?, MEDIA_TYPE).await?.sha256;
        let Some(next) = next else { return Ok(Some(sha256)) };
        header.before.push(sha256);
        first = next;
    }
}

fn is_end(message: &RawMessage) -> bool {
    let entry = codec::decode_journal(&message.payload);
    entry.is_ok_and(|entry| matches!(entry.event, JournalEvent::Ended { .. }))
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
    async fn write(
        self,
        header: &ArchiveHeader,
        mut sink: DuplexStream,
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

/// An entry in its line.
fn line(message: &RawMessage) -> Vec<u8> {
    let payload = &message.payload;
    let is_text = std::str::from_utf8(payload).is_ok() && !payload.contains(&b'\n');
    let is_json = is_text && serde_json::from_slice::<IgnoredAny>(payload).is_ok();
    let base64 = (!is_json).then(|| BASE64.encode(payload));
    let mut line =
        json(&EntryPosition { seq: message.seq, stored_unix_ms: message.time_unix_ms, base64 });
    if is_json {
        line.pop();
        line.extend_from_slice(ENTRY);
        line.extend_from_slice(payload);
        line.push(b'}');
    }
    line.push(b'\n');
    line
}

/// What a line says; none when it is no entry's.
fn parsed(line: &[u8]) -> Option<(EntryPosition, Vec<u8>)> {
    let line = line.strip_suffix(b"\n")?;
    // Before an entry stand numbers only, so the first one is where it begins.
    let Some(at) = line.windows(ENTRY.len()).position(|window| window == ENTRY) else {
        let place: EntryPosition = serde_json::from_slice(line).ok()?;
        let payload = BASE64.decode(place.base64.as_ref()?.as_bytes()).ok()?;
        return Some((place, payload));
    };
    let mut place = line.get(..at)?.to_vec();
    place.push(b'}');
    let payload = line.get(at + ENTRY.len()..)?.strip_suffix(b"}")?.to_vec();
    Some((serde_json::from_slice(&place).ok()?, payload))
}

#[expect(clippy::expect_used, reason = "texts and numbers in a struct are always JSON")]
fn json<T: Serialize>(it: &T) -> Vec<u8> {
    serde_json::to_vec(it).expect("a struct of texts and numbers")
}

/// A kept journal that is read, entry by entry.
#[derive(Debug)]
pub struct Archive {
    artifacts: Artifacts,
    sha256: String,
    /// Which run's it is.
    run: RunId,
    /// Parts that are not begun.
    before: VecDeque<String>,
    /// The part that is read.
    current: Option<ArtifactLines>,
    /// The last part, behind its header.
    head: Option<ArtifactLines>,
}

impl Archive {
    /// Begins to read a kept journal by the artifact that was noted.
    ///
    /// # Errors
    /// There is none of this name, it is no journal, or what the bus answered.
    pub async fn open(bus: &Bus, sha256: &str) -> Result<Self, ArchiveError> {
        let artifacts = Artifacts::new(bus);
        let (header, head) = begun(&artifacts, sha256).await?;
        let run = header.run.parse().map_err(|error: tetrarch_core::id::IdError| {
            ArchiveError::NoJournal { sha256: sha256.to_owned(), reason: error.to_string() }
        })?;
        let (sha256, before) = (sha256.to_owned(), header.before.into());
        Ok(Self { artifacts, sha256, run, before, current: None, head: Some(head) })
    }

    /// Which run's journal it is.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The next entry, with the sequence and the time that it had in `RUNS`; none after the last one.
    ///
    /// # Errors
    /// A part is damaged or missing, or what the bus answered.
    pub async fn next(&mut self) -> Result<Option<Journaled>, ArchiveError> {
        loop {
            if let Some(lines) = &mut self.current
                && let Some(line) = lines.next().await?
            {
                let (place, payload) = parsed(&line).ok_or_else(|| ArchiveError::NoJournal {
                    sha256: self.sha256.clone(),
                    reason: format!("{:?} is not an entry", String::from_utf8_lossy(&line)),
                })?;
                return Ok(Some(Journaled::read(place.seq, place.stored_unix_ms, &payload)));
            }
            self.current = match self.before.pop_front() {
                Some(part) => Some(begun(&self.artifacts, &part).await?.1),
                None => self.head.take(),
            };
            if self.current.is_none() {
                return Ok(None);
            }
        }
    }
}

/// A part behind its header.
async fn begun(
    artifacts: &Artifacts,
    sha256: &str,
) -> Result<(ArchiveHeader, ArtifactLines), ArchiveError> {
    let no_journal = |reason: String| ArchiveError::NoJournal { sha256: sha256.to_owned(), reason };
    let (known, mut lines) = artifacts.lines(sha256).await?;
    if known.media_type != MEDIA_TYPE {
        return Err(no_journal(format!("it is {:?}", known.media_type)));
    }
    let line = lines.next().await?.unwrap_or_default();
    let header = serde_json::from_slice(&line).map_err(|error| no_journal(error.to_string()))?;
    Ok((header, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8]) -> RawMessage {
        RawMessage {
            seq: 7,
            subject: String::new(),
            headers: crate::HeaderMap::new(),
            payload: payload.to_vec().into(),
            time_unix_ms: 1_000,
        }
    }

    #[test]
    fn archive_entry_round_trips_as_one_line() {
        for payload in [
            br#"{"a": 1.50, "entry":2}"#.as_slice(),
            br#"{"x":",\"entry\":"}"#,
            b"{\n\"pretty\": true\n}",
            b"{} trailing",
            b"no json",
            b"",
            b"\xff\xfe",
            b"{\"a\":\"\xff\"}",
            "\"\u{2028}\"".as_bytes(),
        ] {
            let line = line(&message(payload));
            let ends = line.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!((ends, line.last()), (1, Some(&b'\n')), "{line:?}");
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!((&value["seq"], &value["storedUnixMs"]), (&7.into(), &1_000.into()));
            let (place, found) = parsed(&line).unwrap();
            assert_eq!((place.seq, found.as_slice()), (7, payload), "{line:?}");
        }
        let plain = line(&message(br#"{"index":1}"#));
        assert_eq!(plain, b"{\"seq\":7,\"storedUnixMs\":1000,\"entry\":{\"index\":1}}\n");
        for bad in ["", "\n", "{}\n", "{\"seq\":1,\"storedUnixMs\":2}\n", "[1]\n", "{\"seq\":1"] {
            assert!(parsed(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
