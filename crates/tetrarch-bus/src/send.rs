//! Sending requests and mail: the same bytes under the same id until they are stored (spec 02).
//! It does not wait for an answer and does not judge what it sends.

mod reporting;

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::client::Bus;
use crate::codec::{self, CodecError};
use crate::envelope::{Envelope, own_msg_id};
use crate::error::PublishError;
use crate::subject::Subject;
use crate::surely;
use tetrarch_core::id::{HostName, Principal, SessionId};
use tetrarch_core::mail::Mail;
use tetrarch_core::redaction;

pub use reporting::Reports;

/// Why something was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No answer within the given patience: it may be stored or not. The same may be sent again.
    #[error("cannot send: the bus did not answer within {} ms: {last}; it is safe to send it again", within.as_millis())]
    BusDown {
        /// The patience.
        within: Duration,
        /// What the last attempt met.
        last: PublishError,
    },
    /// The server refuses it for good.
    #[error(transparent)]
    Refused(PublishError),
    /// It breaks a bound.
    #[error(transparent)]
    Encoding(#[from] CodecError),
    /// What sends the reports of the host ended; it may be stored or not.
    #[error("cannot send a report: its host has ended")]
    Ended,
}

/// In whose name mail is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Who writes.
    pub from: Principal,
    /// The host that publishes for an agent it hosts.
    pub via: Option<HostName>,
    /// The writer's session.
    pub session: Option<SessionId>,
    /// Its epoch.
    pub epoch: u64,
}

/// Sends a request, operation or report without what looks like a credential in it; gives its sequence
/// in `REQUESTS`. The headers carry a
/// message id that is the same for every repetition. `patience` is how long to try; none means
/// for ever.
///
/// # Errors
/// See [`SendError`].
pub async fn send_request(
    bus: &Bus,
    subject: &Subject,
    headers: HeaderMap,
    payload: Bytes,
    patience: Option<Duration>,
) -> Result<u64, SendError> {
    publish(bus, &subject.to_string(), headers, redacted(payload.into()).into(), patience).await
}

/// Sends mail or control that is not the owner's; gives its sequence in `MAIL`. `id` names it among
/// the messages of the author's session for ever: it derives from what caused it (spec 02, Inbox).
/// What the next session says again is a message of its own: nobody reads that of a session that
/// is over. `patience` as in [`send_request`].
///
/// # Errors
/// See [`SendError`].
pub async fn send_mail(
    bus: &Bus,
    author: &Author,
    mail: &Mail,
    id: &str,
    patience: Option<Duration>,
) -> Result<u64, SendError> {
    let subject = mail_subject(mail, &author.from, author.via.as_ref());
    let envelope = Envelope {
        msg_id: Some(own_msg_id(&format!("{}.{}.{id}", author.from, author.epoch))),
        session: author.session,
        epoch: Some(author.epoch),
        trace: mail.trace.clone(),
        ..Envelope::default()
    };
    let headers = envelope.headers(&subject);
    let payload = redacted(codec::encode_mail(mail)?).into();
    publish(bus, &subject.to_string(), headers, payload, patience).await
}

/// The body without what looks like a credential: somebody's words may be in it.
fn redacted(json: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(json) {
        Ok(mut json) => {
            redaction::redact_json(&mut json);
            json.into_bytes()
        }
        Err(no_text) => no_text.into_bytes(),
    }
}

/// Where a message goes: its lane follows from what it says.
pub(crate) fn mail_subject(mail: &Mail, from: &Principal, via: Option<&HostName>) -> Subject {
    Subject::Mail {
        lane: mail.body.lane(),
        to: mail.to.clone(),
        from: from.clone(),
        via: via.cloned(),
    }
}

async fn publish(
    bus: &Bus,
    subject: &str,
    headers: HeaderMap,
    payload: Bytes,
    patience: Option<Duration>,
) -> Result<u64, SendError> {
    let attempt = || bus.publish_expect(subject, headers.clone(), payload.clone(), None);
    let sent = surely::until_settled(patience, PublishError::is_passing, attempt).await;
    sent.map_err(|last| match patience {
        Some(within) if last.is_passing() => SendError::BusDown { within, last },
        Some(_) | None => SendError::Refused(last),
    })
}
