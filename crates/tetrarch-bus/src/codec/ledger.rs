//! The ledger's entries, in protobuf, packed. Mail inside is kept as the JSON that is published.

use prost::Message as _;
use tetrarch_core::audit::Act;
use tetrarch_core::held::Held;
use tetrarch_core::ledger::{Decision, Entry, Event, EventKind, Seal};
use tetrarch_core::limits::{COMMIT_BYTES_MAX, RECORD_BYTES_MAX};
use tetrarch_core::mail::Mail;

use super::error::{CodecError, within};
use super::mail::{encode_mail, read_mail};
use super::packed::{pack, unpack};
use super::wire::{Wire, field, message, words};
use super::{plan_event, record};
use crate::proto::v1 as pb;
use crate::subject::key::{is_foreign, parse_record_key, record_key};

/// The body of a commit.
///
/// # Errors
/// A record, a mail or the whole has more bytes than allowed, or a record cannot be read by this
/// version; which one is named.
pub fn encode_entry(entry: &Entry) -> Result<Vec<u8>, CodecError> {
    if let Some(Held { name, why, .. }) = entry.held.first() {
        return Err(CodecError::field(name.clone(), format!("{why}; it is never written again")));
    }
    let mut records = Vec::with_capacity(entry.records.len());
    for image in &entry.records {
        let written = record::written(image)?;
        let size = written.encoded_len();
        if size > RECORD_BYTES_MAX {
            within(&record_key(&image.key()), size, RECORD_BYTES_MAX)?;
        }
        records.push(written);
    }
    let message = pb::Entry {
        commit: entry.commit.put(),
        epoch: entry.epoch,
        at_unix_ms: entry.at.put(),
        intake_seq: entry.intake_seq,
        events: entry.events.put(),
        records,
        dropped: entry.dropped.iter().map(record_key).collect(),
        seals: entry.seals.put(),
        mail: entry.mail.iter().map(out_mail).collect::<Result<_, _>>()?,
        plans: entry.plans.iter().map(plan_event::without_nodes).collect(),
        reviews: entry.reviews.put(),
    };
    within("commit", message.encoded_len(), COMMIT_BYTES_MAX)?;
    Ok(pack(message.encode_to_vec()))
}

/// Reads the body of a commit. A record in it that this version cannot read, and that says which one
/// it is, does not spoil the rest; nor do events and keys of kinds that it does not know.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_entry(payload: &[u8]) -> Result<Entry, CodecError> {
    let plain = unpack(payload)?;
    let entry = pb::Entry::decode(&*plain)
        .map_err(|error| CodecError::Protobuf { what: "commit", reason: error.to_string() })?;
    let (mut records, mut held) = (Vec::with_capacity(entry.records.len()), Vec::new());
    for (index, record) in entry.records.into_iter().enumerate() {
        let read = record::read_or_held(record);
        match read.map_err(|error| error.under(&format!("records[{index}]")))? {
            Ok(record) => records.push(record),
            Err(unread) => held.push(unread),
        }
    }
    let known = |event: &pb::Event| {
        event.kind.is_empty() || EventKind::ALL.iter().any(|kind| kind.as_str() == event.kind)
    };
    let events = entry.events.into_iter().filter(known).collect();
    let mail =
        entry.mail.into_iter().enumerate().map(|(index, mail)| {
            in_mail(mail).map_err(|error| error.under(&format!("mail[{index}]")))
        });
    let dropped = entry.dropped.iter().filter(|key| !is_foreign(key));
    Ok(Entry {
        commit: field("commit", entry.commit)?,
        epoch: entry.epoch,
        at: field("at_unix_ms", entry.at_unix_ms)?,
        intake_seq: entry.intake_seq,
        events: field("events", events)?,
        records,
        held,
        dropped: dropped.map(|key| parse_record_key(key)).collect::<Result<_, _>>()?,
        seals: field("seals", entry.seals)?,
        mail: mail.collect::<Result<_, _>>()?,
        plans: field("plans", entry.plans)?,
        reviews: field("reviews", entry.reviews)?,
    })
}

/// A mail as the ledger keeps it.
pub(super) fn out_mail(mail: &Mail) -> Result<pb::OutMail, CodecError> {
    let json = String::from_utf8(encode_mail(mail)?)
        .map_err(|error| CodecError::Json { what: "mail", reason: error.to_string() })?;
    Ok(pb::OutMail { to: mail.to.put(), traceparent: mail.trace.put(), json })
}

fn in_mail(mail: pb::OutMail) -> Result<Mail, CodecError> {
    read_mail(field("to", mail.to)?, Wire::get(mail.traceparent)?, mail.json.as_bytes())
}

message!(Act, Act { what, about, credential });

/// A decision's record.
pub(super) fn decision(decision: &Decision) -> Result<pb::Decision, CodecError> {
    Ok(pb::Decision {
        request: decision.request.put(),
        digest: decision.digest.clone(),
        sender: decision.sender.put(),
        answer: decision.answer.as_deref().map(out_mail).transpose()?,
        at_unix_ms: decision.at.put(),
        act: decision.act.put(),
        also: decision.also.iter().map(self::decision).collect::<Result<_, _>>()?,
    })
}

/// Reads a decision's record.
pub(super) fn read_decision(decision: pb::Decision) -> Result<Decision, CodecError> {
    let answer = decision.answer.map(in_mail).transpose().map_err(|error| error.under("answer"))?;
    let also = decision.also.into_iter().map(|other| match other.also.as_slice() {
        [] => read_decision(other),
        [..] => Err(CodecError::field("also", "it is in another's record and keeps others")),
    });
    Ok(Decision {
        request: field("request", decision.request)?,
        digest: decision.digest,
        sender: field("sender", decision.sender)?,
        answer: answer.map(Box::new),
        at: field("at_unix_ms", decision.at_unix_ms)?,
        act: field("act", decision.act)?,
        also: also.collect::<Result<_, _>>().map_err(|error: CodecError| error.under("also"))?,
    })
}

words!(EventKind);

message!(Event, Event { kind, actor, agent, run, epic, node, request, reason, rule });
message!(Seal, Seal { agent, session, epoch, run, ends, blames });
