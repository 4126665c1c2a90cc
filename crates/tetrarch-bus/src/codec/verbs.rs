//! Verbs for running agents: operations, orders, receipts.

use serde_json::Value;
use tetrarch_core::mail::VerbOrder;
use tetrarch_core::verb::{Command, Receipt, Stage, Verb, Verbs, Wanted};

use super::error::CodecError;
use super::json;
use super::wire::{Wire, message, words};
use crate::proto::v1 as pb;

words!(Stage, Verb);

message!(
    VerbOrder,
    VerbOrder {
        agent,
        session,
        epoch,
        command: Command { id: id, by: by, wanted: text as steered },
    }
);

/// Without the topic an order is one to steer.
mod steered {
    use super::{CodecError, Wanted};

    pub(super) fn put(wanted: &Wanted) -> String {
        wanted.text().to_owned()
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields are read alike")]
    pub(super) fn get(_: &str, text: String) -> Result<Wanted, CodecError> {
        Ok(Wanted::Steer { text })
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

message! { Receipt, VerbReceipt {
    id, verb, run, by, stage, queued: queued_unix_ms, delivered: delivered_unix_ms,
    ended: ended_unix_ms, why,
} }

message!(Verbs, AgentVerbs { receipts, paused_by });
