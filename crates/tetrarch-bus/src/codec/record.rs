//! Records: protobuf inside the ledger, canonical JSON in STATE. Both say which version wrote
//! them and which one reads them without loss.

use prost::Name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tetrarch_core::held::{Held, Unread};
use tetrarch_core::ledger::Record;
use tetrarch_core::limits::COMMIT_BYTES_MAX;

use super::error::{CodecError, within};
use super::upgrade::upgraded;
use super::wire::{Wire, field, put};
use super::{json, ledger};
use crate::envelope::SCHEMA_VERSION;
use crate::proto::v1 as pb;
use crate::proto::v1::record::Record as R;
use crate::subject::key::{is_key, parse_record_key, record_key};
use crate::subject::{KeyKind, Subject};

/// Oldest version that reads what this one writes.
const MIN_READER_VERSION: u32 = 1;
/// The same where it is said only when there is a version that does not read it.
const STATED_READER_VERSION: u32 = if MIN_READER_VERSION > 1 { MIN_READER_VERSION } else { 0 };

/// What there is for each kind of record: its message, by the kind's name in the core and in the schema. Records
/// without a message of their own follow, with its two fields. A decision may have an answer that cannot be written.
macro_rules! kinds {
    (
        [$($kind:ident: $message:ident),* $(,)?]
        [$($pair:ident: $both:ident { $of:ident, $it:ident }),* $(,)?]
    ) => {
        /// A record's value in STATE: its canonical JSON with `ledgerSeq`, `schemaVersion` and
        /// `minReaderVersion`. `seq` is the sequence of the ledger entry it comes from.
        ///
        /// # Errors
        /// A decision whose answer cannot be written.
        pub fn record_json(record: &Record, seq: u64) -> Result<Vec<u8>, CodecError> {
            match image(record)? {
                $(R::$kind(record) => stored(&record, seq),)*
                $(R::$pair(record) => stored(&record, seq),)*
                R::Decision(record) => stored(&record, seq),
            }
        }

        /// The message that a record's canonical JSON is one of.
        #[must_use]
        pub fn record_message(kind: KeyKind) -> &'static str {
            match kind {
                $(KeyKind::$kind => pb::$message::NAME,)*
                $(KeyKind::$pair => pb::$both::NAME,)*
                KeyKind::Decision => pb::Decision::NAME,
            }
        }

        /// A record's image of a value in STATE.
        fn from_state(kind: KeyKind, payload: &[u8]) -> Result<R, CodecError> {
            Ok(match kind {
                $(KeyKind::$kind => R::$kind(message(payload)?),)*
                $(KeyKind::$pair => R::$pair(message(payload)?),)*
                KeyKind::Decision => R::Decision(message(payload)?),
            })
        }

        fn image(record: &Record) -> Result<R, CodecError> {
            Ok(match record {
                $(Record::$kind(record) => R::$kind(record.put()),)*
                $(Record::$pair($of, $it) => R::$pair(put!($both { $of, $it })),)*
                Record::Decision(decision) => R::Decision(ledger::decision(decision)?),
            })
        }

        fn read(image: R) -> Result<Record, CodecError> {
            Ok(match image {
                $(R::$kind(record) => Record::$kind(Wire::get(record)?),)*
                $(R::$pair(it) => Record::$pair(
                    field(stringify!($of), it.$of)?,
                    field(stringify!($it), it.$it)?,
                ),)*
                R::Decision(it) => Record::Decision(Box::new(ledger::read_decision(it)?)),
            })
        }
    };
}

kinds! {
    [
        Agent: Agent, Host: Host, Project: Project, Run: Run, RunStatus: RunStatus, Goal: Goal,
        GoalState: GoalState, Plan: Plan, Assignment: Assignment, Dispatch: Dispatch,
        Planning: Planning, Question: QuestionRecord, Draft: PlanDraft,
        Crystallization: Crystallization, Schedule: ScheduleRecord, Graph: StateGraph, Note: ProjectNote, Turn: Turn,
        Reservation: Reservation, Change: Change, QueuedSpawn: QueuedSpawn,
        Snapshot: Snapshot,
    ]
    [
        Profile: ProjectProfile { project, profile }, Node: EpicNode { epic_id, node },
        NodeState: EpicNodeState { epic_id, state },
    ]
}

/// Reads a record of the ledger or of STATE, whichever version wrote it.
fn record(written: pb::Record) -> Result<Record, CodecError> {
    readable(|| "a record".to_owned(), written.min_reader_version)?;
    let image = written.record.ok_or_else(|| CodecError::TooNew {
        what: "a record of an unknown kind".to_owned(),
        needs: written.min_reader_version.max(written.schema_version),
        reads: SCHEMA_VERSION,
    })?;
    read(upgraded(image, written.schema_version))
}

/// A record as the ledger keeps it.
pub(super) fn written(record: &Record) -> Result<pb::Record, CodecError> {
    Ok(pb::Record {
        schema_version: SCHEMA_VERSION,
        min_reader_version: MIN_READER_VERSION,
        key: record_key(&record.key()),
        record: Some(image(record)?),
    })
}

fn readable(what: impl FnOnce() -> String, needs: u32) -> Result<(), CodecError> {
    if needs <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(CodecError::TooNew { what: what(), needs, reads: SCHEMA_VERSION })
}

/// A record's message with the stamp of STATE beside its own fields.
#[derive(Serialize)]
struct StampedRecord<'a, P> {
    #[serde(flatten)]
    record: &'a P,
    #[serde(flatten)]
    stamp: pb::StateStamp,
}

fn stored<P: Serialize>(record: &P, ledger_seq: u64) -> Result<Vec<u8>, CodecError> {
    let stamp = pb::StateStamp {
        ledger_seq,
        schema_version: SCHEMA_VERSION,
        min_reader_version: STATED_READER_VERSION,
    };
    json::write("record", &StampedRecord { record, stamp })
}

/// Reads a record's value in STATE, and the sequence of the ledger entry it comes from.
/// Unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field; [`CodecError::TooNew`] for a record that only a newer version
/// reads without loss; a value that belongs to another key.
pub fn record_from_json(subject: &str, payload: &[u8]) -> Result<(Record, u64), CodecError> {
    let key = &match subject.parse() {
        Ok(Subject::State(key)) => key,
        Ok(_) => {
            let subject = subject.to_owned();
            return Err(CodecError::WrongSubject { subject, expected: "record" });
        }
        // It may be a kind that a newer version knows.
        Err(error) => {
            if let Ok(stamp) = stamp(payload) {
                readable(|| subject.to_owned(), stamp.min_reader_version)?;
            }
            return Err(error.into());
        }
    };
    within("record", payload.len(), COMMIT_BYTES_MAX)?;
    let stamp = stamp(payload)?;
    readable(|| record_key(key), stamp.min_reader_version)?;
    let record = record(pb::Record {
        schema_version: stamp.schema_version,
        min_reader_version: stamp.min_reader_version,
        key: String::new(),
        record: Some(from_state(KeyKind::of(key), payload)?),
    })?;
    if record.key() != *key {
        let reason = format!("the value belongs to {}", record_key(&record.key()));
        return Err(CodecError::field(record_key(key), reason));
    }
    Ok((record, stamp.ledger_seq))
}

fn stamp(payload: &[u8]) -> Result<pb::StateStamp, CodecError> {
    within("record", payload.len(), COMMIT_BYTES_MAX)?;
    message(payload)
}

/// What STATE says of a record that this version cannot read and that only the ledger has: where it
/// is. Whoever can read it makes the value anew from there.
pub(crate) fn held_json(held: &Held, seq: u64) -> Result<Vec<u8>, CodecError> {
    let needs = match held.why {
        Unread::Newer { needs, .. } => needs,
        Unread::Undecodable { .. } => MIN_READER_VERSION,
    };
    let stamp =
        pb::StateStamp { ledger_seq: seq, schema_version: needs, min_reader_version: needs };
    json::write("record", &stamp)
}

/// A record of the ledger, or what can be said of one that this version cannot read.
pub(super) fn read_or_held(record: pb::Record) -> Result<Result<Record, Held>, CodecError> {
    let name = record.key.clone();
    match self::record(record) {
        Ok(record) => Ok(Ok(record)),
        Err(error) => held(&name, &error).map(Err).ok_or(error),
    }
}

/// What can be said of a record that cannot be read, given its key as text; nothing when that is no
/// key that this version knows, nor a newer version's.
#[must_use]
pub fn held(name: &str, error: &CodecError) -> Option<Held> {
    let key = parse_record_key(name).ok();
    let why = if let CodecError::TooNew { needs, reads, .. } = error
        && is_key(name)
    {
        Unread::Newer { needs: *needs, reads: *reads }
    } else {
        Unread::Undecodable { reason: key.as_ref().map(|_| error.to_string())? }
    };
    Some(Held { name: name.to_owned(), key, why })
}

/// What we wrote ourselves is read at one stroke; anything else with care, so that an error
/// names the field.
pub(super) fn message<P: DeserializeOwned + Name>(payload: &[u8]) -> Result<P, CodecError> {
    serde_json::from_slice(payload).or_else(|_| json::read(payload))
}
