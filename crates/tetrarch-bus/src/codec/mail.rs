//! Mail and control: an envelope whose topic says what the body is. The same mail always gives
//! the same bytes. `to` and the trace are not in the body: the subject and the headers say them.

use async_nats::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value};
use tetrarch_core::id::{EpicId, Principal, RequestId};
use tetrarch_core::limits::{CONTROL_BYTES_MAX, MAIL_BYTES_MAX};
use tetrarch_core::mail::{Lane, Mail, MailBody};
use tetrarch_core::request::Sender;

use super::error::{CodecError, within};
use super::wire::field;
use super::{json, mail_body};
use crate::envelope;
use crate::proto::v1 as pb;
use crate::subject::Subject;

/// The body of a mail or control message.
///
/// # Errors
/// More bytes than its lane allows; an unknown body that is no JSON.
pub fn encode_mail(mail: &Mail) -> Result<Vec<u8>, CodecError> {
    let bytes = mail_body::write(mail)?;
    within(mail.body.topic(), bytes.len(), lane_max(mail.body.lane()))?;
    Ok(bytes)
}

/// Reads a mail or control message; unknown fields are skipped, an unknown topic is kept as it
/// came.
///
/// # Errors
/// What is wrong, with the field; a subject that carries no mail.
pub fn decode_mail(
    subject: &str,
    headers: &HeaderMap,
    payload: &[u8],
) -> Result<(Mail, Sender), CodecError> {
    let parsed: Subject = subject.parse()?;
    let Subject::Mail { lane, to, .. } = &parsed else {
        let subject = subject.to_owned();
        return Err(CodecError::WrongSubject { subject, expected: "mail" });
    };
    within("mail", payload.len(), lane_max(*lane))?;
    let sender = envelope::sender(&parsed, headers)?;
    let mail = read_mail(to.clone(), envelope::trace(headers), payload)?;
    if matches!(mail.body, MailBody::Unknown { .. }) || mail.body.lane() == *lane {
        return Ok((mail, sender));
    }
    let reason = format!("{} is not allowed on this lane", mail.body.topic());
    Err(CodecError::field("topic", reason))
}

/// The body alone of a message as it came, as JSON text: what a program is handed.
///
/// # Errors
/// The message is no JSON.
pub fn mail_body_json(payload: &[u8]) -> Result<String, CodecError> {
    let value = json::parse("mail", payload)?;
    Ok(value.get("body").map_or_else(|| "{}".to_owned(), Value::to_string))
}

fn lane_max(lane: Lane) -> usize {
    match lane {
        Lane::Ctl => CONTROL_BYTES_MAX,
        Lane::Mail => MAIL_BYTES_MAX,
    }
}

/// Reads a body, given what is not in it.
pub(super) fn read_mail(
    to: Principal,
    trace: Option<String>,
    payload: &[u8],
) -> Result<Mail, CodecError> {
    let mut value = json::parse("mail", payload)?;
    let body = value.as_object_mut().and_then(|object| object.remove("body"));
    let body = body.filter(|body| !body.is_null()).unwrap_or(Value::Object(Map::new()));
    let head: pb::Mail = json::event(value)?;
    if head.topic.is_empty() {
        return Err(CodecError::missing().under("topic"));
    }
    Ok(Mail {
        to,
        epic: field("epic", head.epic)?,
        correlation: field("correlation", head.correlation)?,
        cause: head.cause,
        ack_required: head.ack_required,
        trace,
        body: mail_body::read(&head.topic, body).map_err(|error| error.under("body"))?,
    })
}

/// What is around a body, in the order it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a, B> {
    topic: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    ack_required: bool,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
    epic: Option<&'a EpicId>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
    correlation: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    cause: &'a str,
    body: &'a B,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn shown<T, S>(value: &Option<&T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: std::fmt::Display,
    S: serde::Serializer,
{
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// A mail around a body that is written already.
pub(super) fn around<B: Serialize>(mail: &Mail, body: &B) -> Result<Vec<u8>, CodecError> {
    let wire = Wire {
        topic: mail.body.topic(),
        kind: mail.body.kind().as_str(),
        ack_required: mail.ack_required,
        epic: mail.epic.as_ref(),
        correlation: mail.correlation.as_ref(),
        cause: &mail.cause,
        body,
    };
    json::write("mail", &wire)
}
