//! Snapshots: the record that tells of one, and its parts, in protobuf. A part is a sequence of
//! records with the entries they come from.

use prost::Message as _;
use tetrarch_core::held::Held;
use tetrarch_core::ledger::Record;
use tetrarch_core::limits::{ARTIFACT_BYTES_MAX, SNAPSHOT_PART_BYTES};
use tetrarch_core::snapshot::Snapshot;

use super::error::{CodecError, within};
use super::record;
use super::wire::message;
use crate::proto::v1 as pb;

/// A part in the making.
#[derive(Debug, Default)]
pub struct PartBuilder {
    message: pb::SnapshotPart,
    bytes: usize,
}

impl PartBuilder {
    /// Adds a record with the sequence of the entry that wrote it.
    ///
    /// # Errors
    /// A decision whose answer cannot be written.
    pub fn add(&mut self, record: &Record, ledger_seq: u64) -> Result<(), CodecError> {
        let placed = pb::PlacedRecord { ledger_seq, record: Some(record::written(record)?) };
        self.bytes += placed.encoded_len();
        self.message.records.push(placed);
        Ok(())
    }

    /// Whether the next record belongs to the next part.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= SNAPSHOT_PART_BYTES
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.message.records.is_empty()
    }

    /// Its bytes; it is empty afterwards.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self).message.encode_to_vec()
    }
}

/// What a part holds, each with the sequence of the entry that wrote it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartContents {
    /// Records.
    pub records: Vec<(Record, u64)>,
    /// Those that this version cannot read.
    pub held: Vec<(Held, u64)>,
}

/// Reads a part.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_part(payload: &[u8]) -> Result<PartContents, CodecError> {
    within("snapshot", payload.len(), ARTIFACT_BYTES_MAX)?;
    let part = pb::SnapshotPart::decode(payload)
        .map_err(|error| CodecError::Protobuf { what: "snapshot", reason: error.to_string() })?;
    let mut contents = PartContents::default();
    for placed in part.records {
        let record = placed.record.ok_or(CodecError::Missing { field: "record".to_owned() })?;
        match record::read_or_held(record)? {
            Ok(record) => contents.records.push((record, placed.ledger_seq)),
            Err(held) => contents.held.push((held, placed.ledger_seq)),
        }
    }
    Ok(contents)
}

message!(Snapshot, Snapshot {
    through, epoch, intake_seq, at: at_unix_ms, records, bytes, parts, before,
}, first: |snapshot: &mut pb::Snapshot| {
    if snapshot.through > 0 {
        return Ok(());
    }
    Err(CodecError::field("through", "no ledger entry has this sequence"))
});
