//! Verbs for running agents: operations, orders, receipts.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::mail::VerbOrder;
use tetrarch_core::request::Op;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::time::BusTime;
use tetrarch_core::verb::{Command, Receipt, Stage, Verb, Verbs, Wanted};

use super::error::CodecError;
use super::json::{self, Unknown};
use super::op::finish;
use super::read;
use crate::proto::v1 as pb;

/// The body of an operation.
pub(super) fn encode(op: &VerbOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender, agent) = (id.to_string(), String::new(), op.agent.to_string());
    match &op.wanted {
        Wanted::Steer { text } => {
            let text = text.clone();
            finish("AgentSteer", &pb::AgentSteer { request_id, sender, agent, text })
        }
        Wanted::Interrupt { reason } => {
            let reason = reason.clone();
            finish("AgentInterrupt", &pb::AgentInterrupt { request_id, sender, agent, reason })
        }
        Wanted::Pause => finish("AgentPause", &pb::AgentPause { request_id, sender, agent }),
        Wanted::Resume => finish("AgentResume", &pb::AgentResume { request_id, sender, agent }),
    }
}

/// Reads the body of `agent.<verb>`.
pub(super) fn decode(name: &str, body: Value) -> Result<Op, CodecError> {
    let (agent, wanted) = match name {
        "agent.steer" => {
            let it: pb::AgentSteer = json::message("AgentSteer", body, Unknown::Refused)?;
            (it.agent, Wanted::Steer { text: it.text })
        }
        "agent.interrupt" => {
            let it: pb::AgentInterrupt = json::message("AgentInterrupt", body, Unknown::Refused)?;
            (it.agent, Wanted::Interrupt { reason: it.reason })
        }
        "agent.pause" => {
            let it: pb::AgentPause = json::message("AgentPause", body, Unknown::Refused)?;
            (it.agent, Wanted::Pause)
        }
        "agent.resume" => {
            let it: pb::AgentResume = json::message("AgentResume", body, Unknown::Refused)?;
            (it.agent, Wanted::Resume)
        }
        other => return Err(super::op::unknown(other)),
    };
    Ok(Op::Verb(VerbOp { agent: read::text("agent", &agent)?, wanted }))
}

impl From<&VerbOrder> for pb::VerbOrder {
    fn from(order: &VerbOrder) -> Self {
        Self {
            agent: order.agent.to_string(),
            session: read::show(order.session.as_ref()),
            epoch: order.epoch,
            id: order.command.id.to_string(),
            by: order.command.by.to_string(),
            text: order.command.wanted.text().to_owned(),
        }
    }
}

/// Reads the order of a verb; the topic says which it is.
pub(super) fn order(verb: Verb, body: Value) -> Result<VerbOrder, CodecError> {
    let order: pb::VerbOrder = json::message("VerbOrder", body, Unknown::Ignored)?;
    let wanted = match verb {
        Verb::Steer => Wanted::Steer { text: order.text },
        Verb::Interrupt => Wanted::Interrupt { reason: order.text },
        Verb::Pause => Wanted::Pause,
        Verb::Resume => Wanted::Resume,
    };
    let (id, by) = (read::text("id", &order.id)?, read::text("by", &order.by)?);
    Ok(VerbOrder {
        agent: read::text("agent", &order.agent)?,
        session: read::optional("session", &order.session)?,
        epoch: order.epoch,
        command: Command { id, by, wanted },
    })
}

/// A verb by its word.
pub(super) fn verb(field: &str, text: &str) -> Result<Verb, CodecError> {
    read::word(field, text, &Verb::ALL, Verb::as_str)
}

/// A stage by its word.
pub(super) fn stage(field: &str, text: &str) -> Result<Stage, CodecError> {
    read::word(field, text, &Stage::ALL, Stage::as_str)
}

impl From<&Receipt> for pb::VerbReceipt {
    fn from(receipt: &Receipt) -> Self {
        Self {
            id: receipt.id.to_string(),
            verb: receipt.verb.as_str().to_owned(),
            run: receipt.run.to_string(),
            by: receipt.by.to_string(),
            stage: receipt.stage.as_str().to_owned(),
            queued_unix_ms: receipt.queued.0,
            delivered_unix_ms: receipt.delivered.map(|at| at.0),
            ended_unix_ms: receipt.ended.map(|at| at.0),
            why: receipt.why.clone(),
        }
    }
}

impl TryFrom<pb::VerbReceipt> for Receipt {
    type Error = CodecError;
    fn try_from(receipt: pb::VerbReceipt) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &receipt.id)?,
            verb: verb("verb", &receipt.verb)?,
            run: read::text("run", &receipt.run)?,
            by: read::text("by", &receipt.by)?,
            stage: stage("stage", &receipt.stage)?,
            queued: BusTime(receipt.queued_unix_ms),
            delivered: receipt.delivered_unix_ms.map(BusTime),
            ended: receipt.ended_unix_ms.map(BusTime),
            why: receipt.why,
        })
    }
}

/// What an agent's record says of its verbs; nothing when there is nothing to say.
pub(super) fn written(verbs: &Verbs) -> Option<pb::AgentVerbs> {
    (*verbs != Verbs::default()).then(|| pb::AgentVerbs {
        receipts: verbs.receipts.iter().map(Into::into).collect(),
        paused_by: read::show(verbs.paused_by.as_ref()),
    })
}

impl TryFrom<pb::AgentVerbs> for Verbs {
    type Error = CodecError;
    fn try_from(verbs: pb::AgentVerbs) -> Result<Self, CodecError> {
        Ok(Self {
            receipts: read::each("receipts", verbs.receipts)?,
            paused_by: read::optional("pausedBy", &verbs.paused_by)?,
        })
    }
}
