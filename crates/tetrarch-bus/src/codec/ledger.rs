//! The ledger's entries, in protobuf. Mail inside is kept as the JSON that is published.

use prost::Message as _;
use tetrarch_core::audit::Act;
use tetrarch_core::held::Held;
use tetrarch_core::ledger::{Decision, Entry, Event, EventKind, Seal};
use tetrarch_core::limits::{COMMIT_BYTES_MAX, RECORD_BYTES_MAX};
use tetrarch_core::mail::Mail;
use tetrarch_core::time::BusTime;

use super::error::{CodecError, within};
use super::mail::{encode_mail, read_mail};
use super::{plan_event, read, record};
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
        commit: entry.commit.to_string(),
        epoch: entry.epoch,
        at_unix_ms: entry.at.0,
        intake_seq: entry.intake_seq,
        events: entry.events.iter().map(Into::into).collect(),
        records,
        dropped: entry.dropped.iter().map(record_key).collect(),
        seals: entry.seals.iter().map(Into::into).collect(),
        mail: entry.mail.iter().map(out_mail).collect::<Result<_, _>>()?,
        plans: entry.plans.iter().map(plan_event::kept).collect(),
        reviews: entry.reviews.iter().map(Into::into).collect(),
    };
    within("commit", message.encoded_len(), COMMIT_BYTES_MAX)?;
    Ok(message.encode_to_vec())
}

/// Reads the body of a commit. A record in it that this version cannot read, and that says which one
/// it is, does not spoil the rest; nor do events and keys of kinds that it does not know.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_entry(payload: &[u8]) -> Result<Entry, CodecError> {
    within("commit", payload.len(), COMMIT_BYTES_MAX)?;
    let entry = pb::Entry::decode(payload)
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
    let dropped = entry.dropped.iter().filter(|key| !is_foreign(key));
    Ok(Entry {
        commit: read::text("commit", &entry.commit)?,
        epoch: entry.epoch,
        at: BusTime(entry.at_unix_ms),
        intake_seq: entry.intake_seq,
        events: read::each("events", events)?,
        records,
        held,
        dropped: dropped.map(|key| parse_record_key(key)).collect::<Result<_, _>>()?,
        seals: read::each("seals", entry.seals)?,
        mail: read::each("mail", entry.mail)?,
        plans: read::each("plans", entry.plans)?,
        reviews: read::each("reviews", entry.reviews)?,
    })
}

/// A mail as the ledger keeps it.
pub(super) fn out_mail(mail: &Mail) -> Result<pb::OutMail, CodecError> {
    let json = String::from_utf8(encode_mail(mail)?)
        .map_err(|error| CodecError::Json { what: "mail", reason: error.to_string() })?;
    Ok(pb::OutMail { to: mail.to.to_string(), traceparent: read::show(mail.trace.as_ref()), json })
}

impl TryFrom<pb::OutMail> for Mail {
    type Error = CodecError;
    fn try_from(mail: pb::OutMail) -> Result<Self, CodecError> {
        read_mail(read::text("to", &mail.to)?, read::some(mail.traceparent), mail.json.as_bytes())
    }
}

/// A decision's record.
pub(super) fn decision(decision: &Decision) -> Result<pb::Decision, CodecError> {
    Ok(pb::Decision {
        request: decision.request.to_string(),
        digest: decision.digest.clone(),
        sender: decision.sender.to_string(),
        answer: decision.answer.as_deref().map(out_mail).transpose()?,
        at_unix_ms: decision.at.0,
        act: decision.act.as_deref().map(|act| pb::Act {
            what: act.what.clone(),
            about: act.about.clone(),
            credential: act.credential.clone().unwrap_or_default(),
        }),
    })
}

impl TryFrom<pb::Decision> for Decision {
    type Error = CodecError;
    fn try_from(decision: pb::Decision) -> Result<Self, CodecError> {
        Ok(Self {
            request: read::text("request", &decision.request)?,
            digest: decision.digest,
            sender: read::text("sender", &decision.sender)?,
            answer: read::maybe("answer", decision.answer)?.map(Box::new),
            at: BusTime(decision.at_unix_ms),
            act: decision.act.map(|pb::Act { what, about, credential }| {
                Box::new(Act { what, about, credential: read::some(credential) })
            }),
        })
    }
}

impl From<&Event> for pb::Event {
    fn from(event: &Event) -> Self {
        Self {
            kind: event.kind.as_str().to_owned(),
            actor: event.actor.to_string(),
            agent: read::show(event.agent.as_ref()),
            run: read::show(event.run.as_ref()),
            epic: read::show(event.epic.as_ref()),
            node: read::show(event.node.as_ref()),
            request: read::show(event.request.as_ref()),
            reason: event.reason.clone(),
            rule: event.rule.clone(),
        }
    }
}

impl TryFrom<pb::Event> for Event {
    type Error = CodecError;
    fn try_from(event: pb::Event) -> Result<Self, CodecError> {
        Ok(Self {
            kind: read::word("kind", &event.kind, &EventKind::ALL, EventKind::as_str)?,
            actor: read::text("actor", &event.actor)?,
            agent: read::optional("agent", &event.agent)?,
            run: read::optional("run", &event.run)?,
            epic: read::optional("epic", &event.epic)?,
            node: read::optional("node", &event.node)?,
            request: read::optional("request", &event.request)?,
            reason: event.reason,
            rule: event.rule,
        })
    }
}

impl From<&Seal> for pb::Seal {
    fn from(seal: &Seal) -> Self {
        Self {
            agent: seal.agent.to_string(),
            session: seal.session.to_string(),
            epoch: seal.epoch,
            run: read::show(seal.run.as_ref()),
            ends: read::show(seal.ends.as_ref()),
            blames: seal.blames,
        }
    }
}

impl TryFrom<pb::Seal> for Seal {
    type Error = CodecError;
    fn try_from(seal: pb::Seal) -> Result<Self, CodecError> {
        Ok(Self {
            agent: read::text("agent", &seal.agent)?,
            session: read::text("session", &seal.session)?,
            epoch: seal.epoch,
            run: read::optional("run", &seal.run)?,
            ends: read::optional("ends", &seal.ends)?,
            blames: seal.blames,
        })
    }
}
