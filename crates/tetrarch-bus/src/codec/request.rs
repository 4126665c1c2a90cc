//! Whatever comes by `REQUESTS`: decoding is total. What cannot be read becomes a malformed
//! request with the reason, so that its sender can be told; only a subject that carries no
//! request is an error.

use async_nats::HeaderMap;
use serde_json::Value;
use tetrarch_core::id::{EpicId, NodeId, Principal, RequestId, sha256_hex};
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::redaction;
use tetrarch_core::request::{DIGEST_HALF, MalformedKind, Request, RequestBody, Sender};
use tetrarch_core::time::BusTime;

use super::error::{CodecError, within};
use super::{json, op, read, report, spawn, wire};
use crate::envelope;
use crate::proto::v1 as pb;
use crate::subject::{OpName, Subject, WrongRequest};

/// Reads a message of `REQUESTS`, without what looks like a credential in it; `seq` is its sequence
/// there.
///
/// # Errors
/// A subject that carries no request.
pub fn decode_request(
    subject: &Subject,
    headers: &HeaderMap,
    payload: &[u8],
    seq: u64,
) -> Result<Request, CodecError> {
    let (Some(asked), Some((from, via))) = (RequestSubject::of(subject), subject.sender()) else {
        return Err(no_request(&subject.to_string()));
    };
    let known = envelope::sender(subject, headers);
    let sender = known.clone().unwrap_or_else(|_| Sender {
        from: from.clone(),
        via: via.cloned(),
        session: None,
        epoch: 1,
    });
    let value = within("request", payload.len(), REQUEST_BYTES_MAX)
        .and_then(|()| json::parse("request", payload));
    let id = value.as_ref().map_err(Clone::clone).and_then(request_id);
    let mut meaning = None;
    let body = match (known, &id) {
        (Ok(_), Ok(_)) => value.and_then(|mut value| {
            redaction::value(&mut value);
            let body = decode_body(&asked, from, value.clone())?;
            meaning = meaning_of(&asked, from, value);
            Ok(body)
        }),
        (Err(error), _) => Err(error.into()),
        (Ok(_), Err(error)) => Err(error.clone()),
    };
    let id = id.ok().or_else(|| legible_id(payload));
    let body = body.unwrap_or_else(|error| RequestBody::Malformed {
        kind: asked.malformed(&error),
        error: error.to_string(),
        nameless: id.is_none(),
    });
    Ok(Request {
        seq,
        sender,
        id: id.unwrap_or_else(|| derived_id(seq, 0)),
        digest: digest(&asked_by_whom(subject).to_string(), payload, meaning.as_deref()),
        trace: envelope::trace(headers),
        credential: None,
        body,
    })
}

/// Reads a message of `REQUESTS` by its subject's text: also one whose subject is wrong
/// somewhere, as long as its sender can be read from it.
///
/// # Errors
/// A subject that carries no request, or one from which no sender can be read.
pub fn decode_request_at(
    subject: &str,
    headers: &HeaderMap,
    payload: &[u8],
    seq: u64,
) -> Result<Request, CodecError> {
    let error = match subject.parse::<Subject>() {
        Ok(subject) => return decode_request(&subject, headers, payload, seq),
        Err(error) => error,
    };
    let Some(wrong) = WrongRequest::of(subject) else { return Err(error.into()) };
    Ok(unreadable(wrong, (subject, headers, payload), seq, &error.into()))
}

/// A request of which nothing but its sender can be read.
pub(super) fn unreadable(
    WrongRequest { from, via, spawn }: WrongRequest,
    (subject, headers, payload): (&str, &HeaderMap, &[u8]),
    seq: u64,
    error: &CodecError,
) -> Request {
    let id = legible_id(payload);
    Request {
        seq,
        sender: Sender { from, via, session: None, epoch: 1 },
        id: id.unwrap_or_else(|| derived_id(seq, 0)),
        digest: digest(subject, payload, None),
        trace: envelope::trace(headers),
        credential: None,
        body: RequestBody::Malformed {
            kind: if spawn { MalformedKind::Spawn } else { MalformedKind::Other },
            error: error.to_string(),
            nameless: id.is_none(),
        },
    }
}

fn no_request(subject: &str) -> CodecError {
    CodecError::WrongSubject { subject: subject.to_owned(), expected: "request" }
}

/// The subject without the host that publishes for its sender: the next session of an agent asks the same
/// from wherever it is placed.
fn asked_by_whom(subject: &Subject) -> Subject {
    let mut subject = subject.clone();
    if let Subject::SpawnRequest { via, .. }
    | Subject::Op { via, .. }
    | Subject::Report { via, .. } = &mut subject
    {
        *via = None;
    }
    subject
}

/// The same body on another subject asks for something else. Two halves, as [`Request::digest`] says.
fn digest(subject: &str, payload: &[u8], meaning: Option<&str>) -> String {
    let half = |content: &[u8]| {
        let mut whole = sha256_hex(&[subject.as_bytes(), b"\0", content].concat());
        whole.truncate(DIGEST_HALF);
        whole
    };
    let said = half(payload);
    let meant = meaning.map_or_else(|| said.clone(), |meaning| half(meaning.as_bytes()));
    said + &meant
}

/// What a request says that may be decided on, in one spelling, however it was written; none of what is
/// only answered or reported, which no decision is remembered of.
fn meaning_of(asked: &RequestSubject<'_>, from: &Principal, mut value: Value) -> Option<String> {
    if matches!(asked, RequestSubject::Report) {
        return None;
    }
    // A document within it may be written in another order too.
    value.sort_all_objects();
    decode_body(asked, from, value).ok().map(|body| format!("{body:?}"))
}

/// The id that a request says it has, also when the rest of it cannot be read; none when it says none.
fn legible_id(payload: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(payload);
    let after = ["\"requestId\"", "\"request_id\""].iter().find_map(|key| text.split_once(key));
    let value = after?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    value.split('"').next()?.parse().ok()
}

/// `index`: which one of its message it is.
pub(super) fn derived_id(seq: u64, index: usize) -> RequestId {
    RequestId::derive(BusTime(0), &seq.to_string(), "request without id", index)
}

fn request_id(value: &Value) -> Result<RequestId, CodecError> {
    let given = value.get("requestId").or_else(|| value.get("request_id"));
    match given {
        None | Some(Value::Null) => Err(CodecError::missing().under("requestId")),
        Some(Value::String(text)) => wire::field("request_id", text.clone()),
        Some(_) => Err(CodecError::field("requestId", "expected text, a ULID")),
    }
}

/// What a subject asks for.
enum RequestSubject<'a> {
    Spawn(EpicId, Option<NodeId>),
    Op(&'a OpName),
    Report,
}

impl<'a> RequestSubject<'a> {
    fn of(subject: &'a Subject) -> Option<Self> {
        if let Subject::SpawnRequest { epic, node, .. } = subject {
            return Some(Self::Spawn(*epic, *node));
        }
        if let Subject::Op { op, .. } = subject {
            return Some(Self::Op(op));
        }
        matches!(subject, Subject::Report { .. }).then_some(Self::Report)
    }

    /// What it was meant to be, given what is wrong with it.
    fn malformed(&self, error: &CodecError) -> MalformedKind {
        match self {
            Self::Spawn(..) => MalformedKind::Spawn,
            Self::Op(op) if op.as_str() == "goal.create" && is_of_plan(error) => {
                MalformedKind::Plan
            }
            Self::Op(_) | Self::Report => MalformedKind::Other,
        }
    }
}

/// Whether it is the plan that is wrong, rather than what is around it.
fn is_of_plan(error: &CodecError) -> bool {
    let field = match error {
        CodecError::Field { field, .. } | CodecError::Missing { field } => field.as_str(),
        CodecError::Json { what, .. } => what,
        CodecError::Protobuf { .. }
        | CodecError::UnknownField { .. }
        | CodecError::TooLarge { .. }
        | CodecError::TooNew { .. }
        | CodecError::WrongSubject { .. }
        | CodecError::Subject(_)
        | CodecError::Header(_) => return false,
    };
    field == "plan"
}

fn decode_body(
    asked: &RequestSubject<'_>,
    from: &Principal,
    value: Value,
) -> Result<RequestBody, CodecError> {
    if let Some(claimed) = value.get("sender").and_then(Value::as_str) {
        let claimed: Option<Principal> = read::optional("sender", claimed)?;
        if claimed.is_some_and(|claimed| claimed != *from) {
            let reason = format!("the subject names {from}; the sender is the subject's");
            return Err(CodecError::field("sender", reason));
        }
    }
    match asked {
        RequestSubject::Spawn(epic, node) => {
            let message: pb::SpawnRequest = json::request(value)?;
            spawn::placed(message, *epic, *node).map(RequestBody::Spawn)
        }
        RequestSubject::Op(name) => op::decode(name, value).map(RequestBody::Op),
        RequestSubject::Report => report::decode(value).map(RequestBody::Report),
    }
}
