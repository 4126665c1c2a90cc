//! Class 2: control and mail of the owner. Each carries its ledger sequence and its place in the
//! entry, so a recipient can drop what it has had.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::client::Bus;
use crate::envelope::{Envelope, LedgerPosition, own_msg_id};
use crate::{codec, send, surely};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::Entry;
use tetrarch_core::mail::{Lane, Mail};

use super::OutboxError;

/// One message on its way.
#[derive(Debug)]
pub(super) struct OutboxMessage {
    /// Names recipient and lane, as the sender is always the owner.
    pub(super) subject: String,
    pub(super) lane: Lane,
    headers: HeaderMap,
    payload: Bytes,
}

/// The mail of these entries, in order.
pub(super) fn messages(entries: &[(u64, Arc<Entry>)]) -> Result<Vec<OutboxMessage>, OutboxError> {
    let mut messages = Vec::new();
    for (ledger, entry) in entries {
        for (index, mail) in (0u32..).zip(&entry.mail) {
            let subject = send::mail_subject(mail, &AgentId::Go.into(), None);
            let place = LedgerPosition { ledger_seq: *ledger, index };
            // The commit's id cannot be guessed, so nobody can take the message's id before it.
            let envelope = Envelope {
                msg_id: Some(format!("{}.{index}", entry.commit)),
                ..Envelope::of_owner(place, entry.epoch, mail.trace.clone())
            };
            messages.push(OutboxMessage {
                subject: subject.to_string(),
                lane: mail.body.lane(),
                headers: envelope.headers(&subject),
                payload: codec::encode_mail(mail)?.into(),
            });
        }
    }
    Ok(messages)
}

/// An answer that stands in no entry: it has no place in the ledger, and is known again by the sequence of
/// its request in REQUESTS. Who asks again is answered again.
pub(super) fn answer(asked: u64, mail: &Mail, epoch: u64) -> Result<OutboxMessage, OutboxError> {
    let subject = send::mail_subject(mail, &AgentId::Go.into(), None);
    let envelope = Envelope {
        msg_id: Some(own_msg_id(&format!("{}-{asked}", mail.to))),
        epoch: Some(epoch),
        trace: mail.trace.clone(),
        ..Envelope::default()
    };
    Ok(OutboxMessage {
        subject: subject.to_string(),
        lane: mail.body.lane(),
        headers: envelope.headers(&subject),
        payload: codec::encode_mail(mail)?.into(),
    })
}

/// Sends one until it is stored; a repetition within the stream's window is known again by its id.
pub(super) async fn send(bus: &Bus, message: &OutboxMessage) -> Result<(), OutboxError> {
    surely::publish(bus, &message.subject, &message.headers, &message.payload, None).await?;
    Ok(())
}
