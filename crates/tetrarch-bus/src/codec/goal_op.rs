//! Operations on a goal that there is.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::{GoalOp, GoalVerb};

use super::error::CodecError;
use super::json::{self, Unknown};
use super::op::finish;
use super::{priority, read};
use crate::proto::v1 as pb;

/// The body of an operation.
pub(super) fn encode(op: &GoalOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    let (epic, reason) = (op.epic.to_string(), op.reason.clone());
    match op.verb {
        GoalVerb::Pause | GoalVerb::Resume | GoalVerb::Cancel | GoalVerb::Archive => {
            finish("GoalMove", &pb::GoalMove { request_id, sender, epic, reason })
        }
        GoalVerb::Prioritise(said) => {
            let priority = said.map(|said| u32::from(said.number()));
            let message = pb::GoalPrioritise { request_id, sender, epic, priority, reason };
            finish("GoalPrioritise", &message)
        }
    }
}

/// Reads the body of `goal.<verb>`.
pub(super) fn decode(verb: &str, body: Value) -> Result<Op, CodecError> {
    let moves = |verb, body| {
        let message: pb::GoalMove = json::message("GoalMove", body, Unknown::Refused)?;
        let epic = read::text("epic", &message.epic)?;
        Ok(Op::Goal(GoalOp { epic, verb, reason: message.reason }))
    };
    match verb {
        "pause" => moves(GoalVerb::Pause, body),
        "resume" => moves(GoalVerb::Resume, body),
        "cancel" => moves(GoalVerb::Cancel, body),
        "archive" => moves(GoalVerb::Archive, body),
        "prioritise" => {
            let message: pb::GoalPrioritise =
                json::message("GoalPrioritise", body, Unknown::Refused)?;
            let epic = read::text("epic", &message.epic)?;
            let said = priority::number("priority", message.priority)?;
            Ok(Op::Goal(GoalOp { epic, verb: GoalVerb::Prioritise(said), reason: message.reason }))
        }
        other => Err(super::op::unknown(&format!("goal.{other}"))),
    }
}
