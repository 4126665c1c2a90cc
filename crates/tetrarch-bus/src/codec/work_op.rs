//! Operations on the work of a goal.

use serde_json::Value;
use tetrarch_core::brief::Evidence;
use tetrarch_core::id::RequestId;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::request::Op;
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};

use super::brief::evidence;
use super::error::CodecError;
use super::json::{self, Unknown};
use super::op::finish;
use super::plan::status;
use super::{priority, read};
use crate::proto::v1 as pb;

/// The body of an operation.
pub(super) fn encode(op: &WorkOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    let epic = op.epic.to_string();
    match &op.verb {
        WorkVerb::Complete(done) => finish(
            "TodoComplete",
            &pb::TodoComplete {
                request_id,
                sender,
                epic,
                node: done.node.to_string(),
                crystallization: done.crystallization.clone(),
                evidence: evidence(&done.evidence),
                reason: done.reason.clone(),
            },
        ),
        WorkVerb::List { status, page } => {
            let status = status.map_or("", NodeStatus::as_str).to_owned();
            let (limit, after) = read::shown_page(page);
            finish("TodoList", &pb::TodoList { request_id, sender, epic, status, limit, after })
        }
        WorkVerb::Reprioritise { priorities, reason } => {
            let each = priorities.iter().map(|(node, said)| pb::NodePriority {
                node: node.to_string(),
                priority: said.map(|said| u32::from(said.number())),
            });
            let (priorities, reason) = (each.collect(), reason.clone());
            let message = pb::TodoReprioritise { request_id, sender, epic, priorities, reason };
            finish("TodoReprioritise", &message)
        }
        WorkVerb::Insights { page } => {
            let (limit, after) = read::shown_page(page);
            finish("TodoInsights", &pb::TodoInsights { request_id, sender, epic, limit, after })
        }
        WorkVerb::Recommend { limit } => {
            let limit = *limit;
            finish("TodoRecommend", &pb::TodoRecommend { request_id, sender, epic, limit })
        }
        WorkVerb::Unblock { node, note } => {
            let (node, note) = (node.to_string(), note.clone());
            finish("WorkUnblock", &pb::WorkUnblock { request_id, sender, epic, node, note })
        }
    }
}

/// Reads the body of an operation of this name.
pub(super) fn decode(name: &str, body: Value) -> Result<Op, CodecError> {
    let (epic, verb) = match name {
        "todo.complete" => complete(body)?,
        "todo.list" => {
            let list: pb::TodoList = json::message("TodoList", body, Unknown::Refused)?;
            let wanted = read::some(list.status).map(|word| status("status", &word)).transpose()?;
            let page = read::page(list.limit, &list.after)?;
            (list.epic, WorkVerb::List { status: wanted, page })
        }
        "todo.reprioritise" => reprioritise(body)?,
        "todo.graph_insights" => {
            let shape: pb::TodoInsights = json::message("TodoInsights", body, Unknown::Refused)?;
            (shape.epic, WorkVerb::Insights { page: read::page(shape.limit, &shape.after)? })
        }
        "todo.recommend" => {
            let best: pb::TodoRecommend = json::message("TodoRecommend", body, Unknown::Refused)?;
            (best.epic, WorkVerb::Recommend { limit: best.limit })
        }
        "work.unblock" => {
            let again: pb::WorkUnblock = json::message("WorkUnblock", body, Unknown::Refused)?;
            let node = read::text("node", &again.node)?;
            (again.epic, WorkVerb::Unblock { node, note: again.note })
        }
        other => return Err(super::op::unknown(other)),
    };
    Ok(Op::Work(WorkOp { epic: read::text("epic", &epic)?, verb }))
}

fn complete(body: Value) -> Result<(String, WorkVerb), CodecError> {
    let done: pb::TodoComplete = json::message("TodoComplete", body, Unknown::Refused)?;
    let completion = Completion {
        node: read::text("node", &done.node)?,
        crystallization: done.crystallization,
        evidence: done.evidence.map(Evidence::from).unwrap_or_default(),
        reason: done.reason,
    };
    Ok((done.epic, WorkVerb::Complete(Box::new(completion))))
}

fn reprioritise(body: Value) -> Result<(String, WorkVerb), CodecError> {
    let said: pb::TodoReprioritise = json::message("TodoReprioritise", body, Unknown::Refused)?;
    let each = |(index, one): (usize, pb::NodePriority)| {
        let field = |name| format!("priorities[{index}].{name}");
        let node = read::text(&field("node"), &one.node)?;
        Ok((node, priority::number(&field("priority"), one.priority)?))
    };
    let priorities = said.priorities.into_iter().enumerate().map(each);
    let priorities = priorities.collect::<Result<_, CodecError>>()?;
    Ok((said.epic, WorkVerb::Reprioritise { priorities, reason: said.reason }))
}
