//! Records of questions to the planner.

use tetrarch_core::budget::Spend;
use tetrarch_core::planner::{Planning, PlanningStatus, Purpose};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&Planning> for pb::Planning {
    fn from(planning: &Planning) -> Self {
        Self {
            id: planning.id.to_string(),
            at_unix_ms: planning.at.0,
            purpose: planning.purpose.as_str().to_owned(),
            epic: planning.epic.to_string(),
            goal: planning.goal.as_deref().map(Into::into),
            assignment: read::show(planning.assignment.as_ref()),
            node: read::show(planning.node.as_ref()),
            base_version: planning.base_version,
            model: planning.model.clone(),
            template: planning.template.clone(),
            template_hash: planning.template_hash.clone(),
            inputs: planning.inputs.clone(),
            status: planning.status.as_str().to_owned(),
            attempts: planning.attempts,
            answer: planning.answer.clone(),
            problems: planning.problems.clone(),
            reason: planning.reason.clone(),
            since_unix_ms: planning.since.0,
            calls: planning.calls,
            set_aside: Some(planning.set_aside.into()),
            used: Some(planning.used.into()),
            traceparent: read::show(planning.trace.as_ref()),
        }
    }
}

impl TryFrom<pb::Planning> for Planning {
    type Error = CodecError;
    fn try_from(planning: pb::Planning) -> Result<Self, CodecError> {
        let (purpose, status) = (&planning.purpose, &planning.status);
        Ok(Self {
            id: read::text("id", &planning.id)?,
            at: BusTime(planning.at_unix_ms),
            purpose: read::word("purpose", purpose, &Purpose::ALL, Purpose::as_str)?,
            epic: read::text("epic", &planning.epic)?,
            goal: read::maybe("goal", planning.goal)?.map(Box::new),
            assignment: read::optional("assignment", &planning.assignment)?,
            node: read::optional("node", &planning.node)?,
            base_version: planning.base_version,
            model: planning.model,
            template: planning.template,
            template_hash: planning.template_hash,
            inputs: planning.inputs,
            status: read::word("status", status, &PlanningStatus::ALL, PlanningStatus::as_str)?,
            calls: planning.calls,
            set_aside: planning.set_aside.map(Spend::from).unwrap_or_default(),
            used: planning.used.map(Spend::from).unwrap_or_default(),
            attempts: planning.attempts,
            answer: planning.answer,
            problems: planning.problems,
            reason: planning.reason,
            since: BusTime(planning.since_unix_ms),
            trace: read::some(planning.traceparent),
        })
    }
}
