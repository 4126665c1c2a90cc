//! Records of goals.

use serde_json::Value;
use tetrarch_core::goal::{Goal, GoalResult, GoalSpec, GoalState, GoalStatus, Risk};
use tetrarch_core::id::RequestId;
use tetrarch_core::plan::schema;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::GoalUpdate;

use super::error::CodecError;
use super::op::body;
use super::wire::{absent, field, message, words};
use super::{json, planning};
use crate::proto::v1 as pb;

words!(GoalStatus);

message!(Goal, Goal {
    id, project,
    spec: GoalSpec {
        title: title, problem_statement: problem_statement, success_criteria: success_criteria,
        non_goals: non_goals, constraints: constraints, assumptions: assumptions, risks: risks,
        stakeholders: stakeholders, repo_context: repo_context_snapshot, tags: tags, origin: origin,
    },
    owner, created: created_unix_ms, updated: updated_unix_ms,
}, first: |goal: &mut pb::Goal| {
    // An earlier version did not write down when a definition changed: it did not change.
    if goal.updated_unix_ms == 0 {
        goal.updated_unix_ms = goal.created_unix_ms;
    }
    Ok::<(), CodecError>(())
});

message!(Risk, Risk { risk, impact, mitigation });

message!(GoalState, GoalState {
    id, status, percent, result, since: since_unix_ms, priorities as absent,
});

message!(GoalResult, GoalResult { summary, deliverable, artifacts });

/// The body of `goal.update`.
pub(super) fn encode_update(op: &GoalUpdate, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let GoalUpdate { epic, change, reason } = op;
    let goal = schema::written_goal(change).to_string();
    let goal = &goal;
    body!(id, GoalUpdate { epic, goal, reason })
}

/// Reads the body of `goal.update`.
pub(super) fn decode_update(body: Value) -> Result<Op, CodecError> {
    let it: pb::GoalUpdate = json::request(body)?;
    let epic = field("epic", it.epic)?;
    let goal = planning::document("goal", &it.goal)?;
    let wrong = |problems| CodecError::field("goal", planning::said(problems));
    let change = schema::parse_goal_change(&goal).map_err(wrong)?;
    Ok(Op::GoalUpdate(Box::new(GoalUpdate { epic, change, reason: it.reason })))
}
