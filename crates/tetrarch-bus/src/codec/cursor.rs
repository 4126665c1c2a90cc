//! Cursors: JSON, since foreign agents write them too.

use tetrarch_core::cursor::{Claim, Cursor, Positions, Trials};
use tetrarch_core::limits::CONTROL_BYTES_MAX;

use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::read;
use crate::proto::v1 as pb;

/// The body of a cursor.
///
/// # Errors
/// A cursor of more bytes than allowed.
pub fn encode_cursor(cursor: &Cursor) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write("Cursor", &pb::Cursor::from(cursor))?;
    within("cursor", bytes.len(), CONTROL_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of a cursor; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_cursor(payload: &[u8]) -> Result<Cursor, CodecError> {
    within("cursor", payload.len(), CONTROL_BYTES_MAX)?;
    json::read::<pb::Cursor>("Cursor", payload, Unknown::Ignored)?.try_into()
}

impl From<Positions> for pb::Positions {
    fn from(positions: Positions) -> Self {
        Self { mail: positions.mail, ctl: positions.ctl }
    }
}

impl From<pb::Positions> for Positions {
    fn from(positions: pb::Positions) -> Self {
        Self { mail: positions.mail, ctl: positions.ctl }
    }
}

impl From<&Claim> for pb::Claim {
    fn from(claim: &Claim) -> Self {
        Self {
            host: claim.host.to_string(),
            host_epoch: claim.host_epoch,
            instance: claim.instance.clone(),
        }
    }
}

impl TryFrom<pb::Claim> for Claim {
    type Error = CodecError;
    fn try_from(claim: pb::Claim) -> Result<Self, CodecError> {
        Ok(Self {
            host: read::text("host", &claim.host)?,
            host_epoch: claim.host_epoch,
            instance: claim.instance,
        })
    }
}

impl From<&Trials> for pb::Trials {
    fn from(trials: &Trials) -> Self {
        let each = trials.failures.iter();
        Self {
            in_hand: trials.in_hand.iter().copied().collect(),
            failed: each.map(|(&seq, &failures)| pb::FailedMessage { seq, failures }).collect(),
        }
    }
}

impl From<pb::Trials> for Trials {
    fn from(trials: pb::Trials) -> Self {
        let each = trials.failed.into_iter();
        Self {
            in_hand: trials.in_hand.into_iter().collect(),
            failures: each.map(|failed| (failed.seq, failed.failures)).collect(),
        }
    }
}

impl From<&Cursor> for pb::Cursor {
    fn from(cursor: &Cursor) -> Self {
        Self {
            agent: cursor.agent.to_string(),
            session: cursor.session.to_string(),
            epoch: cursor.epoch,
            positions: Some(cursor.positions.into()),
            run: read::show(cursor.run.as_ref()),
            claim: cursor.claim.as_ref().map(Into::into),
            trials: (cursor.trials != Trials::default()).then(|| (&cursor.trials).into()),
            receipts: cursor.receipts,
        }
    }
}

impl TryFrom<pb::Cursor> for Cursor {
    type Error = CodecError;
    fn try_from(cursor: pb::Cursor) -> Result<Self, CodecError> {
        Ok(Self {
            agent: read::text("agent", &cursor.agent)?,
            session: read::text("session", &cursor.session)?,
            epoch: cursor.epoch,
            positions: cursor.positions.map(Positions::from).unwrap_or_default(),
            run: read::optional("run", &cursor.run)?,
            claim: read::maybe("claim", cursor.claim)?,
            trials: cursor.trials.map(Trials::from).unwrap_or_default(),
            receipts: cursor.receipts,
        })
    }
}
