//! Publishing with acknowledgement: what was stored, what was refused, and what nobody knows.
//! async-nats 0.51 tells only one of the two conflict codes, so they are told apart here.

use std::error::Error as _;
use std::future::IntoFuture;
use std::time::Instant;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{
    PublishAckFuture, PublishError as NatsError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use tokio::sync::{broadcast, watch};

use super::{Bus, NOT_ALLOWED, ServerNotice, denied, lost};
use crate::error::PublishError;

const WRONG_LAST: u64 = 10071;
const BUSY: u64 = 10164;
/// A message of the same id waits for servers that agree on it.
const SAME_ID_BUSY: u64 = 10158;
const NO_STREAM: u64 = 503;
const TOO_LARGE: u64 = 413;

impl Bus {
    /// Publishes and waits for the acknowledgement; gives the stream sequence it is stored at.
    /// With `expect` it is stored only while the last message of the subject has that sequence,
    /// 0 meaning there is none.
    ///
    /// # Errors
    /// See [`PublishError`]: only `Unknown` leaves open whether it was stored.
    pub async fn publish_expect(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        expect: Option<u64>,
    ) -> Result<u64, PublishError> {
        let sent = self.start_publish(subject, headers, payload, expect).await?;
        sent.stored().await.map_err(|error| in_progress(error, expect))
    }

    /// Sends like [`Bus::publish_expect`] but does not wait for the acknowledgement, so that many
    /// can be in flight. Sends of one task reach the server in order.
    ///
    /// # Errors
    /// The publish could not even be sent.
    pub async fn start_publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        expect: Option<u64>,
    ) -> Result<PendingAck, PublishError> {
        let mut message = PublishMessage::build().headers(headers).payload(payload);
        if let Some(expect) = expect {
            message = message.expected_last_subject_sequence(expect);
        }
        let (notices, losses) = (self.notices(), self.losses());
        match self.js.send_publish(subject.to_owned(), message).await {
            Ok(ack) => {
                let (subject, bus, sent) = (subject.to_owned(), self.clone(), Instant::now());
                Ok(PendingAck { subject, ack, notices, losses, bus, sent })
            }
            Err(error) => Err(classify(subject, &error)),
        }
    }
}

/// A publish that is on its way.
#[derive(Debug)]
pub struct PendingAck {
    subject: String,
    ack: PublishAckFuture,
    notices: broadcast::Receiver<ServerNotice>,
    losses: watch::Receiver<u64>,
    bus: Bus,
    sent: Instant,
}

impl PendingAck {
    /// Waits for the acknowledgement; gives the stream sequence the message is stored at. With the
    /// connection goes the acknowledgement: nobody waits for it any longer.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn stored(self) -> Result<u64, PublishError> {
        let Self { subject, ack, mut notices, mut losses, bus, sent } = self;
        tokio::select! {
            biased;
            answer = ack.into_future() => {
                let answer = answer.map_err(|error| classify(&subject, &error));
                bus.note_publish(sent, answer.as_ref().err()).await;
                answer.map(|ack| ack.sequence)
            }
            () = denied(&subject, &mut notices) => Err(PublishError::Refused {
                subject,
                code: NOT_ALLOWED,
                text: "the credential does not allow this subject".to_owned(),
            }),
            () = lost(&mut losses) => Err(PublishError::Unknown {
                subject,
                reason: "the connection was lost before the acknowledgement".to_owned(),
            }),
        }
    }
}

fn classify(subject: &str, error: &NatsError) -> PublishError {
    let subject = subject.to_owned();
    let refused = |code, text| PublishError::Refused { subject: subject.clone(), code, text };
    match error.kind() {
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
            PublishError::Unknown { subject, reason: error.to_string() }
        }
        PublishErrorKind::StreamNotFound => refused(
            NO_STREAM,
            "no stream has this subject; start the owner, which creates the streams".to_owned(),
        ),
        PublishErrorKind::MaxPayloadExceeded => refused(TOO_LARGE, error.to_string()),
        PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence
        | PublishErrorKind::MaxAckPending
        | PublishErrorKind::Other => server_said(subject, error),
    }
}

fn server_said(subject: String, error: &NatsError) -> PublishError {
    let said = error.source().and_then(|source| {
        source
            .downcast_ref::<async_nats::jetstream::Error>()
            .map(|said| (said.error_code().0, said.to_string()))
    });
    match said {
        Some((WRONG_LAST, text)) => match wrong_last(&text) {
            Some(last) => PublishError::WrongLast { subject, last },
            None => PublishError::Refused { subject, code: WRONG_LAST, text },
        },
        Some((BUSY | SAME_ID_BUSY, _)) => PublishError::Busy { subject },
        Some((code, text)) => PublishError::Refused { subject, code, text },
        None => PublishError::Unknown { subject, reason: error.to_string() },
    }
}

/// A refusal that names the very sequence that was expected says that another write was in the way
/// and is not stored: the same as one in progress, so that nobody takes it for a lost session.
fn in_progress(error: PublishError, expect: Option<u64>) -> PublishError {
    match error {
        PublishError::WrongLast { subject, last } if Some(last) == expect => {
            PublishError::Busy { subject }
        }
        other @ (PublishError::WrongLast { .. }
        | PublishError::Busy { .. }
        | PublishError::Unknown { .. }
        | PublishError::Refused { .. }) => other,
    }
}

/// The sequence in `wrong last sequence: 17 (code ...)`.
fn wrong_last(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("wrong last sequence: ")?;
    let digits: &str = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_naming_the_expected_sequence_is_no_conflict() {
        let subject = "s".to_owned();
        let refused = |last| PublishError::WrongLast { subject: subject.clone(), last };
        let busy = PublishError::Busy { subject: subject.clone() };
        assert_eq!(in_progress(refused(7), Some(7)), busy);
        assert_eq!(in_progress(refused(0), Some(0)), busy);
        assert_eq!(in_progress(refused(8), Some(7)), refused(8));
        assert_eq!(in_progress(refused(7), None), refused(7));
    }

    #[test]
    fn write_in_progress_is_busy_and_other_refusals_are_not() {
        let said = |code: u64| {
            let json = format!(r#"{{"code":409,"err_code":{code},"description":"no"}}"#);
            let said: async_nats::jetstream::Error = serde_json::from_str(&json).unwrap();
            server_said("s".to_owned(), &NatsError::with_source(PublishErrorKind::Other, said))
        };
        let busy = PublishError::Busy { subject: "s".to_owned() };
        assert_eq!([said(BUSY), said(SAME_ID_BUSY)], [busy.clone(), busy]);
        assert!(matches!(said(10_047), PublishError::Refused { code: 10_047, .. }));
    }

    #[test]
    fn last_sequence_is_parsed_from_server_error() {
        assert_eq!(wrong_last("wrong last sequence: 17 (code 400, error code 10071)"), Some(17));
        assert_eq!(wrong_last("wrong last sequence: 0"), Some(0));
        assert_eq!(wrong_last("wrong last sequence"), None);
    }
}
