//! Records of runs.

use tetrarch_core::brief::Usage;
use tetrarch_core::run::{Run, RunState, RunStatus};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&Run> for pb::Run {
    fn from(run: &Run) -> Self {
        Self {
            id: run.id.to_string(),
            agent: run.agent.to_string(),
            session: run.session.to_string(),
            epoch: run.epoch,
            epic: run.epic.to_string(),
            node: run.node.to_string(),
            assignment: run.assignment.to_string(),
            brief: Some((&run.brief).into()),
            continues: read::show(run.continues.as_ref()),
            placement: run.placement.as_ref().map(Into::into),
            created_unix_ms: run.created.0,
        }
    }
}

impl TryFrom<pb::Run> for Run {
    type Error = CodecError;
    fn try_from(run: pb::Run) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &run.id)?,
            agent: read::text("agent", &run.agent)?,
            session: read::text("session", &run.session)?,
            epoch: run.epoch,
            epic: read::text("epic", &run.epic)?,
            node: read::text("node", &run.node)?,
            assignment: read::text("assignment", &run.assignment)?,
            brief: read::message("brief", run.brief)?,
            continues: read::optional("continues", &run.continues)?,
            placement: read::maybe("placement", run.placement)?,
            created: BusTime(run.created_unix_ms),
        })
    }
}

impl From<&RunStatus> for pb::RunStatus {
    fn from(status: &RunStatus) -> Self {
        Self {
            id: status.id.to_string(),
            agent: status.agent.to_string(),
            state: status.state.as_str().to_owned(),
            cancel_kept: status.cancel_kept,
            since_unix_ms: status.since.0,
            reminded_unix_ms: status.reminded.map(|at| at.0),
            usage: Some(status.usage.into()),
            result: status.result.as_ref().map(Into::into),
            archive: status.archive.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<pb::RunStatus> for RunStatus {
    type Error = CodecError;
    fn try_from(status: pb::RunStatus) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &status.id)?,
            agent: read::text("agent", &status.agent)?,
            state: read::word("state", &status.state, &RunState::ALL, RunState::as_str)?,
            cancel_kept: status.cancel_kept,
            since: BusTime(status.since_unix_ms),
            reminded: status.reminded_unix_ms.map(BusTime),
            usage: status.usage.map(Usage::from).unwrap_or_default(),
            result: read::maybe("result", status.result)?,
            archive: Some(status.archive).filter(|sha256| !sha256.is_empty()),
        })
    }
}
