//! Records of assignments.

use tetrarch_core::assignment::{Assignment, AssignmentStatus, Purpose};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

pub(super) const PURPOSES: [Purpose; 2] = [Purpose::Execute, Purpose::Review];

pub(super) fn purpose_word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Execute => "execute",
        Purpose::Review => "review",
    }
}

impl From<&Assignment> for pb::Assignment {
    fn from(assignment: &Assignment) -> Self {
        Self {
            id: assignment.id.to_string(),
            epic: assignment.epic.to_string(),
            node: assignment.node.to_string(),
            purpose: purpose_word(assignment.purpose).to_owned(),
            agent: assignment.agent.to_string(),
            run: assignment.run.to_string(),
            status: assignment.status.as_str().to_owned(),
            reason: assignment.reason.clone(),
            attempt: assignment.attempt,
            follows: read::show(assignment.follows.as_ref()),
            created_unix_ms: assignment.created.0,
            updated_unix_ms: assignment.updated.0,
        }
    }
}

impl TryFrom<pb::Assignment> for Assignment {
    type Error = CodecError;
    fn try_from(assignment: pb::Assignment) -> Result<Self, CodecError> {
        let status = &assignment.status;
        Ok(Self {
            id: read::text("id", &assignment.id)?,
            epic: read::text("epic", &assignment.epic)?,
            node: read::text("node", &assignment.node)?,
            purpose: read::word("purpose", &assignment.purpose, &PURPOSES, purpose_word)?,
            agent: read::text("agent", &assignment.agent)?,
            run: read::text("run", &assignment.run)?,
            status: read::word("status", status, &AssignmentStatus::ALL, AssignmentStatus::as_str)?,
            reason: assignment.reason,
            attempt: assignment.attempt,
            follows: read::optional("follows", &assignment.follows)?,
            created: BusTime(assignment.created_unix_ms),
            updated: BusTime(assignment.updated_unix_ms),
        })
    }
}
