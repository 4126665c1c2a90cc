//! Records of what was sent for assignments.

use tetrarch_core::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use tetrarch_core::overseer::Rung;
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&Dispatch> for pb::Dispatch {
    fn from(dispatch: &Dispatch) -> Self {
        Self {
            id: dispatch.id.to_string(),
            assignment: dispatch.assignment.to_string(),
            at_unix_ms: dispatch.at.0,
            mode: dispatch.mode.as_str().to_owned(),
            rung: read::show(dispatch.rung.as_ref()),
            to: dispatch.to.to_string(),
            session: read::show(dispatch.session.as_ref()),
            text: dispatch.text.clone(),
            hash: dispatch.hash.clone(),
            outcome: dispatch.outcome.as_str().to_owned(),
            run: read::show(dispatch.run.as_ref()),
            notes: dispatch.notes.clone(),
        }
    }
}

impl TryFrom<pb::Dispatch> for Dispatch {
    type Error = CodecError;
    fn try_from(dispatch: pb::Dispatch) -> Result<Self, CodecError> {
        let rung = |text: String| read::word("rung", &text, &Rung::ALL, Rung::as_str);
        let outcome = &dispatch.outcome;
        Ok(Self {
            id: read::text("id", &dispatch.id)?,
            assignment: read::text("assignment", &dispatch.assignment)?,
            at: BusTime(dispatch.at_unix_ms),
            mode: read::word("mode", &dispatch.mode, &DispatchMode::ALL, DispatchMode::as_str)?,
            rung: read::some(dispatch.rung).map(rung).transpose()?,
            to: read::text("to", &dispatch.to)?,
            session: read::optional("session", &dispatch.session)?,
            text: dispatch.text,
            hash: dispatch.hash,
            outcome: read::word(
                "outcome",
                outcome,
                &DispatchOutcome::ALL,
                DispatchOutcome::as_str,
            )?,
            run: read::optional("run", &dispatch.run)?,
            notes: dispatch.notes,
        })
    }
}
