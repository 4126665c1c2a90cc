//! Reservations of files: their records, and the operations on them.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::request::FileOp;
use tetrarch_core::reservation::{Mode, Reservation};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::json::{self, Unknown};
use super::{op, read};
use crate::proto::v1 as pb;

impl From<&Reservation> for pb::Reservation {
    fn from(reservation: &Reservation) -> Self {
        Self {
            id: reservation.id.to_string(),
            project: reservation.project.to_string(),
            fencing: reservation.fencing,
            agent: reservation.agent.to_string(),
            session: reservation.session.to_string(),
            epoch: reservation.epoch,
            paths: reservation.paths.clone(),
            mode: reservation.mode.as_str().to_owned(),
            until_unix_ms: reservation.until.0,
            reason: reservation.reason.clone(),
        }
    }
}

impl TryFrom<pb::Reservation> for Reservation {
    type Error = CodecError;
    fn try_from(reservation: pb::Reservation) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &reservation.id)?,
            project: read::text("project", &reservation.project)?,
            fencing: reservation.fencing,
            agent: read::text("agent", &reservation.agent)?,
            session: read::text("session", &reservation.session)?,
            epoch: reservation.epoch,
            paths: reservation.paths,
            mode: read::word("mode", &reservation.mode, &Mode::ALL, Mode::as_str)?,
            until: BusTime(reservation.until_unix_ms),
            reason: reservation.reason,
        })
    }
}

/// The body of an operation on reservations.
pub(super) fn encode(op: &FileOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    match op {
        FileOp::Reserve { paths, mode, ttl, reason } => op::finish(
            "FileReserve",
            &pb::FileReserve {
                request_id,
                sender,
                paths: paths.clone(),
                mode: mode.as_str().to_owned(),
                ttl: ttl.map(|ttl| format!("{}ms", ttl.0)).unwrap_or_default(),
                reason: reason.clone(),
            },
        ),
        FileOp::Release { reservation } => {
            let reservation = reservation.to_string();
            op::finish("FileRelease", &pb::FileRelease { request_id, sender, reservation })
        }
        FileOp::List { project, page } => {
            let (project, (limit, after)) = (read::show(project.as_ref()), read::shown_page(page));
            op::finish("FileList", &pb::FileList { request_id, sender, project, limit, after })
        }
    }
}

/// Reads the body of `file.reserve`.
pub(super) fn reserve(body: Value) -> Result<FileOp, CodecError> {
    let wanted: pb::FileReserve = json::message("FileReserve", body, Unknown::Refused)?;
    let mode = match read::some(wanted.mode) {
        Some(word) => read::word("mode", &word, &Mode::ALL, Mode::as_str)?,
        None => Mode::Exclusive,
    };
    let ttl = read::length("ttl", &wanted.ttl, None, None)?;
    Ok(FileOp::Reserve { paths: wanted.paths, mode, ttl, reason: wanted.reason })
}

/// Reads the body of `file.release`.
pub(super) fn release(body: Value) -> Result<FileOp, CodecError> {
    let release: pb::FileRelease = json::message("FileRelease", body, Unknown::Refused)?;
    Ok(FileOp::Release { reservation: read::text("reservation", &release.reservation)? })
}

/// Reads the body of `file.list`.
pub(super) fn list(body: Value) -> Result<FileOp, CodecError> {
    let list: pb::FileList = json::message("FileList", body, Unknown::Refused)?;
    let page = read::page(list.limit, &list.after)?;
    Ok(FileOp::List { project: read::optional("project", &list.project)?, page })
}
