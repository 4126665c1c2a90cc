//! Reservations of files: their records, and the operations on them.

use serde_json::Value;
use tetrarch_core::request::FileOp;
use tetrarch_core::reservation::{Mode, Reservation};

use super::error::CodecError;
use super::wire::{field, message, words};
use super::{json, read};
use crate::proto::v1 as pb;

words!(Mode);

message! { Reservation, Reservation {
    id, project, fencing, agent, session, epoch, paths, mode, until: until_unix_ms, reason,
} }

/// Reads the body of `file.reserve`.
pub(super) fn reserve(body: Value) -> Result<FileOp, CodecError> {
    let wanted: pb::FileReserve = json::request(body)?;
    let mode: Option<Mode> = field("mode", wanted.mode)?;
    let ttl = read::length("ttl", &wanted.ttl, None, None)?;
    let (paths, mode) = (wanted.paths, mode.unwrap_or(Mode::Exclusive));
    Ok(FileOp::Reserve { paths, mode, ttl, reason: wanted.reason })
}
