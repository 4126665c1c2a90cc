//! Reservations of files: their records, and the operations on them.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::request::FileOp;
use tetrarch_core::reservation::{Mode, Reservation};

use super::error::CodecError;
use super::op::{body, read as read_body};
use super::wire::{field, message, words};
use super::{json, read};
use crate::proto::v1 as pb;

words!(Mode);

message!(
    Reservation,
    Reservation {
        id,
        project,
        fencing,
        agent,
        session,
        epoch,
        paths,
        mode,
        until: until_unix_ms,
        reason,
    }
);

/// The body of an operation on reservations.
pub(super) fn encode(op: &FileOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    match op {
        FileOp::Reserve { paths, mode, ttl, reason } => {
            let ttl = &ttl.map(|ttl| format!("{}ms", ttl.0));
            body!(id, FileReserve { paths, mode, ttl, reason })
        }
        FileOp::Release { reservation } => body!(id, FileRelease { reservation }),
        FileOp::List { project, page } => {
            let (limit, after) = (&read::limit(page), &page.after);
            body!(id, FileList { project, limit, after })
        }
    }
}

/// Reads the body of `file.reserve`.
pub(super) fn reserve(body: Value) -> Result<FileOp, CodecError> {
    let wanted: pb::FileReserve = json::request(body)?;
    let mode: Option<Mode> = field("mode", wanted.mode)?;
    let ttl = read::length("ttl", &wanted.ttl, None, None)?;
    let (paths, mode) = (wanted.paths, mode.unwrap_or(Mode::Exclusive));
    Ok(FileOp::Reserve { paths, mode, ttl, reason: wanted.reason })
}

/// Reads the body of `file.release`.
pub(super) fn release(body: Value) -> Result<FileOp, CodecError> {
    Ok(read_body!(body, FileRelease, FileOp::Release { reservation }))
}

/// Reads the body of `file.list`.
pub(super) fn list(body: Value) -> Result<FileOp, CodecError> {
    let list: pb::FileList = json::request(body)?;
    let page = read::page(list.limit, list.after)?;
    Ok(FileOp::List { project: field("project", list.project)?, page })
}
