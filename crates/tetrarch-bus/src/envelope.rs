//! Headers: what a message says beside its body (spec 02, Mail). The sender is the subject's;
//! headers only add the incarnation. Nothing here judges whether an incarnation is current.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use nkeys::KeyPair;
use tetrarch_core::id::{SessionId, sha256_hex};
use tetrarch_core::mail::Lane;
use tetrarch_core::request::Sender;

use crate::subject::Subject;

/// By which the server drops repeats.
pub const MSG_ID: &str = "Nats-Msg-Id";
/// What the body is: name and schema version.
pub const KIND: &str = "Tetrarch-Kind";
/// The sender's incarnation.
pub const SESSION: &str = "Tetrarch-Session";
/// Its epoch; 1 when absent.
pub const EPOCH: &str = "Tetrarch-Epoch";
/// Owner mail's place in the ledger.
pub const SEQ: &str = "Tetrarch-Seq";
/// The number of what a session says of its run, from 1.
pub const NUMBER: &str = "Tetrarch-Number";
/// The W3C trace a message belongs to.
pub const TRACEPARENT: &str = "traceparent";
/// What tracing systems add to it.
pub const TRACESTATE: &str = "tracestate";
/// What the server says of the connection that a message crossed into the control plane's account by.
const REQUEST_INFO: &str = "Nats-Request-Info";
/// Characters of a user's public key.
const USER_KEY_CHARS: usize = 56;

/// Version of the bodies' schema.
pub const SCHEMA_VERSION: u32 = 1;
/// Longest `tracestate` that is passed on, in bytes (W3C).
const TRACESTATE_BYTES_MAX: usize = 512;

/// Why headers cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("header {name} is {value:?}; expected {expected}")]
pub struct EnvelopeError {
    /// Which header.
    pub name: &'static str,
    /// What it says.
    pub value: String,
    /// What would be accepted.
    pub expected: &'static str,
}

/// Where in the ledger a piece of owner mail comes from; grows for each recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerPosition {
    /// Sequence of the entry.
    pub ledger_seq: u64,
    /// Position in the entry's list of mail, from 0.
    pub index: u32,
}

impl fmt::Display for LedgerPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ledger_seq, self.index)
    }
}

impl FromStr for LedgerPosition {
    type Err = EnvelopeError;
    fn from_str(text: &str) -> Result<Self, EnvelopeError> {
        let read = || {
            let (ledger_seq, index) = text.split_once('.')?;
            Some(Self { ledger_seq: ledger_seq.parse().ok()?, index: index.parse().ok()? })
        };
        let expected = "<ledger sequence>.<index>";
        read().ok_or_else(|| EnvelopeError { name: SEQ, value: text.to_owned(), expected })
    }
}

/// Everything a message says beside its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    /// By which the server drops repeats.
    pub msg_id: Option<String>,
    /// The sender's incarnation.
    pub session: Option<SessionId>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// Owner mail's place in the ledger.
    pub place: Option<LedgerPosition>,
    /// A W3C `traceparent`.
    pub trace: Option<String>,
    /// A W3C `tracestate`.
    pub trace_state: Option<String>,
}

/// What this process alone knows. It is in nothing that is sent.
static SECRET: LazyLock<String> = LazyLock::new(|| KeyPair::new_user().public_key());
/// Characters that a message id has of a digest.
const DIGEST_CHARS: usize = 32;

/// An id that nobody else can tell beforehand, also who knows others of this process: a stream drops the second
/// message of one id, and the owner refuses the second request, whoever used it first. Repetitions by this
/// process have the same.
#[must_use]
pub fn own_msg_id(id: &str) -> String {
    let digest = sha256_hex(format!("{} {id}", *SECRET).as_bytes());
    format!("{id}.{}", &digest[..DIGEST_CHARS])
}

/// An id of this one sending, which is the same when it is repeated until it is stored: what is said again
/// later is stored again, where [`own_msg_id`] would have it dropped.
#[must_use]
pub fn once_msg_id(id: &str) -> String {
    static SENDINGS: AtomicU64 = AtomicU64::new(0);
    own_msg_id(&format!("{id}.{}", SENDINGS.fetch_add(1, Ordering::Relaxed)))
}

impl Envelope {
    /// The envelope of a piece of owner mail: its place is its identity.
    #[must_use]
    pub fn of_owner(place: LedgerPosition, epoch: u64, trace: Option<String>) -> Self {
        Self {
            msg_id: Some(place.to_string()),
            epoch: Some(epoch),
            place: Some(place),
            trace,
            ..Self::default()
        }
    }

    /// The headers of a message on this subject. A trace that is none is left out.
    #[must_use]
    pub fn headers(&self, subject: &Subject) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(KIND, kind(subject));
        if let Some(id) = self.msg_id.as_deref().filter(|id| is_plain(id)) {
            headers.insert(MSG_ID, id);
        }
        if let Some(session) = self.session {
            headers.insert(SESSION, session.to_string());
        }
        if let Some(epoch) = self.epoch {
            headers.insert(EPOCH, epoch.to_string());
        }
        if let Some(place) = self.place {
            headers.insert(SEQ, place.to_string());
        }
        if let Some(trace) = self.trace.as_deref().filter(|trace| is_traceparent(trace)) {
            headers.insert(TRACEPARENT, trace);
        }
        if let Some(state) = self.trace_state.as_deref().filter(|state| is_tracestate(state)) {
            headers.insert(TRACESTATE, state);
        }
        headers
    }

    /// Reads headers. A trace that is none is as good as absent (W3C).
    ///
    /// # Errors
    /// The header that is wrong.
    pub fn read(headers: &HeaderMap) -> Result<Self, EnvelopeError> {
        let get = |name: &'static str| headers.get(name).map(|value| value.as_str().to_owned());
        Ok(Self {
            msg_id: get(MSG_ID),
            session: parsed(headers, SESSION, "a ULID")?,
            epoch: parsed(headers, EPOCH, "a whole number")?,
            place: parsed(headers, SEQ, "<ledger sequence>.<index>")?,
            trace: trace(headers),
            trace_state: get(TRACESTATE).filter(|state| is_tracestate(state)),
        })
    }
}

fn parsed<T: FromStr>(
    headers: &HeaderMap,
    name: &'static str,
    expected: &'static str,
) -> Result<Option<T>, EnvelopeError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.as_str();
    let wrong = || EnvelopeError { name, value: text.to_owned(), expected };
    text.parse().map(Some).map_err(|_| wrong())
}

/// The epoch a message's sender says it has; none when it says nothing that can be read.
#[must_use]
pub fn epoch(headers: &HeaderMap) -> Option<u64> {
    headers.get(EPOCH)?.as_str().parse().ok()
}

/// The trace a message belongs to.
#[must_use]
pub fn trace(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.as_str();
    is_traceparent(text).then(|| text.to_owned())
}

/// The user whose connection a message of the fleet came by: its public key, as the server says where the
/// message crosses into the control plane's account. What a sender wrote under that name stands before.
#[must_use]
pub fn credential(headers: &HeaderMap) -> Option<String> {
    let info = headers.get_all(REQUEST_INFO).last()?;
    let info: serde_json::Value = serde_json::from_str(info.as_str()).ok()?;
    let user = info.get("user")?.as_str()?;
    let is_key = user.len() == USER_KEY_CHARS
        && user.starts_with('U')
        && user.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    is_key.then(|| user.to_owned())
}

/// Who sent a message, as its subject and headers say.
///
/// # Errors
/// The header that is wrong, or a subject that names no sender.
pub fn sender(subject: &Subject, headers: &HeaderMap) -> Result<Sender, EnvelopeError> {
    let Some((from, via)) = subject.sender() else {
        let expected = "a subject that names its sender";
        return Err(EnvelopeError { name: "subject", value: subject.to_string(), expected });
    };
    Ok(Sender {
        from: from.clone(),
        via: via.cloned(),
        session: parsed(headers, SESSION, "a ULID")?,
        epoch: parsed(headers, EPOCH, "a whole number")?.unwrap_or(1),
    })
}

/// Name and schema version of what a subject carries.
#[must_use]
pub fn kind(subject: &Subject) -> String {
    let name = match subject {
        Subject::Ledger => "ledger",
        Subject::SpawnRequest { .. } => "spawn.request",
        Subject::Op { op, .. } => return format!("op.{op}/{SCHEMA_VERSION}"),
        Subject::Report { .. } => "report",
        Subject::Mail { lane: Lane::Mail, .. } => "mail",
        Subject::Mail { lane: Lane::Ctl, .. } => "ctl",
        Subject::PlanCreated(_) | Subject::PlanUpdated(_) => "plan",
        Subject::PlanReviewNeeded(_) => "plan.review_needed",
        Subject::Heartbeat(_) => "heartbeat",
        Subject::Cursor(_) => "cursor",
        Subject::Run { .. } => "journal",
        Subject::Stream { .. } => "text",
        Subject::Dead(_) => "dead",
        Subject::State(_) | Subject::StateMeta => "state",
        Subject::LeaseGo | Subject::LeaseBus | Subject::LeaseHost(_) => "lease",
    };
    format!("{name}/{SCHEMA_VERSION}")
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

fn is_tracestate(text: &str) -> bool {
    is_plain(text) && text.len() <= TRACESTATE_BYTES_MAX
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, lower case.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [2, 32, 16, 2] && parts.iter().all(|part| hex(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn report() -> Subject {
        "report.PO-demo.h1".parse().unwrap()
    }

    #[test]
    fn headers_round_trip() {
        let envelope = Envelope {
            msg_id: Some("17.3".to_owned()),
            session: Some("01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap()),
            epoch: Some(4),
            place: Some(LedgerPosition { ledger_seq: 17, index: 3 }),
            trace: Some(TRACE.to_owned()),
            trace_state: Some("a=1".to_owned()),
        };
        let headers = envelope.headers(&report());
        assert_eq!(Envelope::read(&headers).unwrap(), envelope);
        assert_eq!(headers.get(KIND).unwrap().as_str(), "report/1");
        let sender = sender(&report(), &headers).unwrap();
        assert_eq!(sender.from.to_string(), "PO-demo");
        assert_eq!(sender.via.unwrap().as_str(), "h1");
        assert_eq!((sender.session, sender.epoch), (envelope.session, 4));
    }

    #[test]
    fn absent_headers_mean_first_epoch_without_session() {
        let sender = sender(&report(), &HeaderMap::new()).unwrap();
        assert_eq!((sender.session, sender.epoch), (None, 1));
    }

    #[test]
    fn invalid_headers_are_named_and_invalid_traces_dropped() {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH, "four");
        assert_eq!(sender(&report(), &headers).unwrap_err().name, EPOCH);
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, "x");
        assert_eq!(Envelope::read(&headers).unwrap_err().name, SESSION);
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, "00-xyz");
        assert_eq!(Envelope::read(&headers).unwrap().trace, None);
        let envelope = Envelope { trace: Some("a\r\nb".to_owned()), ..Envelope::default() };
        assert!(envelope.headers(&report()).get(TRACEPARENT).is_none());
    }

    #[test]
    fn message_id_is_stable_and_unique_per_process() {
        let secret = |id: &str| {
            let whole = own_msg_id(id);
            assert_eq!(own_msg_id(id), whole);
            whole.strip_prefix(&format!("{id}.")).map(str::to_owned).unwrap()
        };
        let (one, next) = (secret("W:1.1.m7"), secret("W:1.1.m8"));
        assert_eq!(one.len(), DIGEST_CHARS);
        assert_ne!(one, next, "one id does not tell the next");
    }

    #[test]
    fn ledger_positions_grow_with_the_ledger() {
        let place = |text: &str| text.parse::<LedgerPosition>().unwrap();
        assert!(place("9.10") > place("9.9") && place("10.0") > place("9.10"));
        assert!("9".parse::<LedgerPosition>().is_err() && "9.x".parse::<LedgerPosition>().is_err());
    }
}
