//! Operations on the work of a goal.

use serde_json::Value;
use tetrarch_core::id::{NodeId, RequestId};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::priority::Priority;
use tetrarch_core::request::Op;
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};

use super::error::CodecError;
use super::op::{body, finish};
use super::wire::{Wire, absent, field, kept};
use super::{json, read};
use crate::proto::v1 as pb;

/// The body of an operation.
pub(super) fn encode(op: &WorkOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let WorkOp { epic, verb } = op;
    match verb {
        WorkVerb::Complete(done) => {
            let Completion { node, crystallization, evidence, reason } = &**done;
            finish(&pb::TodoComplete {
                request_id: id.to_string(),
                sender: String::new(),
                epic: epic.put(),
                node: node.put(),
                crystallization: crystallization.clone(),
                evidence: absent::put(evidence),
                reason: reason.clone(),
            })
        }
        WorkVerb::List { status, page } => {
            let (limit, after) = (&read::limit(page), &page.after);
            body!(id, TodoList { epic, status, limit, after })
        }
        WorkVerb::Reprioritise { priorities, reason } => {
            body!(id, TodoReprioritise { epic, priorities, reason })
        }
        WorkVerb::Insights { page } => {
            let (limit, after) = (&read::limit(page), &page.after);
            body!(id, TodoInsights { epic, limit, after })
        }
        WorkVerb::Recommend { limit } => body!(id, TodoRecommend { epic, limit }),
        WorkVerb::Unblock { node, note } => body!(id, WorkUnblock { epic, node, note }),
    }
}

/// Reads the body of an operation of this name.
pub(super) fn decode(name: &str, body: Value) -> Result<Op, CodecError> {
    let (epic, verb) = match name {
        "todo.complete" => complete(body)?,
        "todo.list" => {
            let it: pb::TodoList = json::request(body)?;
            let status: Option<NodeStatus> = field("status", it.status)?;
            (it.epic, WorkVerb::List { status, page: read::page(it.limit, it.after)? })
        }
        "todo.reprioritise" => {
            let it: pb::TodoReprioritise = json::request(body)?;
            let priorities = field("priorities", it.priorities)?;
            (it.epic, WorkVerb::Reprioritise { priorities, reason: it.reason })
        }
        "todo.graph_insights" => {
            let it: pb::TodoInsights = json::request(body)?;
            (it.epic, WorkVerb::Insights { page: read::page(it.limit, it.after)? })
        }
        "todo.recommend" => {
            let it: pb::TodoRecommend = json::request(body)?;
            (it.epic, WorkVerb::Recommend { limit: it.limit })
        }
        "work.unblock" => {
            let it: pb::WorkUnblock = json::request(body)?;
            (it.epic, WorkVerb::Unblock { node: field("node", it.node)?, note: it.note })
        }
        other => return Err(super::op::unknown(other)),
    };
    Ok(Op::Work(WorkOp { epic: field("epic", epic)?, verb }))
}

fn complete(body: Value) -> Result<(String, WorkVerb), CodecError> {
    let it: pb::TodoComplete = json::request(body)?;
    let completion = Completion {
        node: field("node", it.node)?,
        crystallization: it.crystallization,
        evidence: kept::get("evidence", it.evidence)?,
        reason: it.reason,
    };
    Ok((it.epic, WorkVerb::Complete(Box::new(completion))))
}

impl Wire<pb::NodePriority> for (NodeId, Option<Priority>) {
    fn put(&self) -> pb::NodePriority {
        pb::NodePriority { node: self.0.put(), priority: self.1.put() }
    }

    fn get(held: pb::NodePriority) -> Result<Self, CodecError> {
        Ok((field("node", held.node)?, field("priority", held.priority)?))
    }
}
