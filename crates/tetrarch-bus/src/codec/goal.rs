//! Records of goals.

use tetrarch_core::goal::{Goal, GoalResult, GoalState, GoalStatus};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::{priority, read};
use crate::proto::v1 as pb;

impl From<&Goal> for pb::Goal {
    fn from(goal: &Goal) -> Self {
        Self {
            id: goal.id.to_string(),
            project: goal.project.to_string(),
            title: goal.title.clone(),
            problem_statement: goal.problem_statement.clone(),
            success_criteria: goal.success_criteria.clone(),
            non_goals: goal.non_goals.clone(),
            constraints: goal.constraints.clone(),
            tags: goal.tags.clone(),
            owner: goal.owner.to_string(),
            created_unix_ms: goal.created.0,
        }
    }
}

impl TryFrom<pb::Goal> for Goal {
    type Error = CodecError;
    fn try_from(goal: pb::Goal) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &goal.id)?,
            project: read::text("project", &goal.project)?,
            title: goal.title,
            problem_statement: goal.problem_statement,
            success_criteria: goal.success_criteria,
            non_goals: goal.non_goals,
            constraints: goal.constraints,
            tags: goal.tags,
            owner: read::text("owner", &goal.owner)?,
            created: BusTime(goal.created_unix_ms),
        })
    }
}

impl From<&GoalState> for pb::GoalState {
    fn from(state: &GoalState) -> Self {
        Self {
            id: state.id.to_string(),
            status: state.status.as_str().to_owned(),
            percent: state.percent.into(),
            result: state.result.as_ref().map(Into::into),
            since_unix_ms: state.since.0,
            priorities: priority::written(state.priorities),
        }
    }
}

impl TryFrom<pb::GoalState> for GoalState {
    type Error = CodecError;
    fn try_from(state: pb::GoalState) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &state.id)?,
            status: read::word("status", &state.status, &GoalStatus::ALL, GoalStatus::as_str)?,
            percent: read::small("percent", state.percent)?,
            result: read::maybe("result", state.result)?,
            since: BusTime(state.since_unix_ms),
            priorities: priority::read(state.priorities)?,
        })
    }
}

impl From<&GoalResult> for pb::GoalResult {
    fn from(result: &GoalResult) -> Self {
        Self {
            summary: result.summary.clone(),
            deliverable: result.deliverable.clone(),
            artifacts: result.artifacts.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::GoalResult> for GoalResult {
    type Error = CodecError;
    fn try_from(result: pb::GoalResult) -> Result<Self, CodecError> {
        Ok(Self {
            summary: result.summary,
            deliverable: result.deliverable,
            artifacts: read::each("artifacts", result.artifacts)?,
        })
    }
}
