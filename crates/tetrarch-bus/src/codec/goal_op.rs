//! Operations on a goal that there is.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::plan::schema;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::{GoalOp, GoalUpdate, GoalVerb};

use super::error::CodecError;
use super::json;
use super::op::body;
use super::planning;
use super::wire::field;
use crate::proto::v1 as pb;

/// The body of an operation.
pub(super) fn encode(op: &GoalOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let GoalOp { epic, verb, reason } = op;
    match verb {
        GoalVerb::Pause | GoalVerb::Resume | GoalVerb::Cancel | GoalVerb::Archive => {
            body!(id, GoalMove { epic, reason })
        }
        GoalVerb::Prioritise(priority) => body!(id, GoalPrioritise { epic, priority, reason }),
    }
}

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

/// Reads the body of `goal.<verb>`.
pub(super) fn decode(verb: &str, body: Value) -> Result<Op, CodecError> {
    let verb = match verb {
        "pause" => GoalVerb::Pause,
        "resume" => GoalVerb::Resume,
        "cancel" => GoalVerb::Cancel,
        "archive" => GoalVerb::Archive,
        "prioritise" => {
            let it: pb::GoalPrioritise = json::request(body)?;
            let (epic, reason) = (field("epic", it.epic)?, it.reason);
            let verb = GoalVerb::Prioritise(field("priority", it.priority)?);
            return Ok(Op::Goal(GoalOp { epic, verb, reason }));
        }
        other => return Err(super::op::unknown(&format!("goal.{other}"))),
    };
    let it: pb::GoalMove = json::request(body)?;
    Ok(Op::Goal(GoalOp { epic: field("epic", it.epic)?, verb, reason: it.reason }))
}
