//! Verbs for running agents: operations, orders, receipts.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::mail::VerbOrder;
use tetrarch_core::request::Op;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::verb::{Command, Receipt, Stage, Verb, Verbs, Wanted};

use super::error::CodecError;
use super::json;
use super::op::body;
use super::wire::{Wire, field, message, words};
use crate::proto::v1 as pb;

words!(Stage, Verb);

/// The body of an operation.
pub(super) fn encode(op: &VerbOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let VerbOp { agent, wanted } = op;
    match wanted {
        Wanted::Steer { text } => body!(id, AgentSteer { agent, text }),
        Wanted::Interrupt { reason } => body!(id, AgentInterrupt { agent, reason }),
        Wanted::Pause => body!(id, AgentPause { agent }),
        Wanted::Resume => body!(id, AgentResume { agent }),
    }
}

/// Reads the body of `agent.<verb>`.
pub(super) fn decode(name: &str, body: Value) -> Result<Op, CodecError> {
    let (agent, wanted) = match name {
        "agent.steer" => {
            let it: pb::AgentSteer = json::request(body)?;
            (it.agent, Wanted::Steer { text: it.text })
        }
        "agent.interrupt" => {
            let it: pb::AgentInterrupt = json::request(body)?;
            (it.agent, Wanted::Interrupt { reason: it.reason })
        }
        "agent.pause" => (json::request::<pb::AgentPause>(body)?.agent, Wanted::Pause),
        "agent.resume" => (json::request::<pb::AgentResume>(body)?.agent, Wanted::Resume),
        other => return Err(super::op::unknown(other)),
    };
    Ok(Op::Verb(VerbOp { agent: field("agent", agent)?, wanted }))
}

impl Wire<pb::VerbOrder> for VerbOrder {
    fn put(&self) -> pb::VerbOrder {
        pb::VerbOrder {
            agent: self.agent.put(),
            session: self.session.put(),
            epoch: self.epoch,
            id: self.command.id.put(),
            by: self.command.by.put(),
            text: self.command.wanted.text().to_owned(),
        }
    }

    /// Without the topic an order is one to steer.
    fn get(held: pb::VerbOrder) -> Result<Self, CodecError> {
        let wanted = Wanted::Steer { text: held.text };
        Ok(Self {
            agent: field("agent", held.agent)?,
            session: field("session", held.session)?,
            epoch: held.epoch,
            command: Command { id: field("id", held.id)?, by: field("by", held.by)?, wanted },
        })
    }
}

/// Reads the order of a verb; the topic says which it is.
pub(super) fn order(verb: Verb, body: Value) -> Result<VerbOrder, CodecError> {
    let order: pb::VerbOrder = json::event(body)?;
    let text = order.text.clone();
    let mut order = VerbOrder::get(order)?;
    order.command.wanted = match verb {
        Verb::Steer => Wanted::Steer { text },
        Verb::Interrupt => Wanted::Interrupt { reason: text },
        Verb::Pause => Wanted::Pause,
        Verb::Resume => Wanted::Resume,
    };
    Ok(order)
}

message!(
    Receipt,
    VerbReceipt {
        id,
        verb,
        run,
        by,
        stage,
        queued: queued_unix_ms,
        delivered: delivered_unix_ms,
        ended: ended_unix_ms,
        why,
    }
);

message!(Verbs, AgentVerbs { receipts, paused_by });
