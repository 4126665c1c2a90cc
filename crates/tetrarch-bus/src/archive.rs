//! Ended runs' journals as artifacts (spec 06, Journal): kept once nobody writes them any more, and read
//! as the journals were. An artifact is JSON lines: a line that names a run, and after it a line for each
//! entry as the stream had it, with its sequence there and the time at which it was stored. Small
//! journals share one. A journal that one has no room for is several: the first line of the last one,
//! which is the one that is noted, names those before it.

mod keeping;
mod reading;

use data_encoding::BASE64;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::artifact::ArtifactError;
use crate::client::RawMessage;
use crate::error::ReadError;
use crate::outbox::OutboxError;

pub use keeping::{KeptJournals, keep};
pub use reading::Archive;

/// What kind of content it is.
pub const MEDIA_TYPE: &str = "application/vnd.tetrarch.journal+jsonl";

/// What comes before an entry in its line, after its place.
const ENTRY: &[u8] = b",\"entry\":";

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

/// The line before a journal's entries.
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

/// What an entry's line says; none when it is none.
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
