//! Cursors: JSON, since foreign agents write them too.

use tetrarch_core::cursor::{Claim, Cursor, Positions, Trials};
use tetrarch_core::limits::CONTROL_BYTES_MAX;

use super::error::{CodecError, within};
use super::json;
use super::wire::{Wire, absent, kept, message};
use crate::proto::v1 as pb;

/// The body of a cursor.
///
/// # Errors
/// A cursor of more bytes than allowed.
pub fn encode_cursor(cursor: &Cursor) -> Result<Vec<u8>, CodecError> {
    let message: pb::Cursor = cursor.put();
    json::bounded("cursor", &message, CONTROL_BYTES_MAX)
}

/// Reads the body of a cursor; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_cursor(payload: &[u8]) -> Result<Cursor, CodecError> {
    within("cursor", payload.len(), CONTROL_BYTES_MAX)?;
    Cursor::get(json::read::<pb::Cursor>(payload)?)
}

message!(Positions, Positions { mail, ctl });
message!(Claim, Claim { host, host_epoch, instance });

impl Wire<pb::Trials> for Trials {
    fn put(&self) -> pb::Trials {
        let each = self.failures.iter();
        pb::Trials {
            in_hand: self.in_hand.iter().copied().collect(),
            failed: each.map(|(&seq, &failures)| pb::FailedMessage { seq, failures }).collect(),
        }
    }

    fn get(held: pb::Trials) -> Result<Self, CodecError> {
        let each = held.failed.into_iter();
        Ok(Self {
            in_hand: held.in_hand.into_iter().collect(),
            failures: each.map(|failed| (failed.seq, failed.failures)).collect(),
        })
    }
}

message!(Cursor, Cursor {
    agent, session, epoch, positions as kept, run, claim, trials as absent, receipts,
});
