//! Reading what was written to somebody, for people's views: nothing is taken away and no
//! position moves. Agents read their inboxes with `inbox`; this decides nothing.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{ConsumerCreateStrictErrorKind, Stream};
use bytes::Bytes;
use futures::StreamExt;

use crate::client::Bus;
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::retry::Retry;
use crate::subject::Subject;
use crate::subject::pattern::{MAIL, inbox_token};
use tetrarch_core::id::Principal;
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::request::Sender;
use tetrarch_core::time::BusTime;

/// Messages asked for at once.
const BATCH: usize = 200;
/// How long another reader of the same inbox is waited for.
const OTHER_READS_FOR: Duration = Duration::from_secs(10);
/// How long the server keeps the consumer of a reader that died.
const ABANDONED: Duration = Duration::from_secs(5);

/// A message as it is kept.
#[derive(Debug)]
pub struct Letter {
    /// Its sequence in `MAIL`.
    pub seq: u64,
    /// When the server stored it.
    pub at: BusTime,
    /// Its subject.
    pub subject: String,
    /// What it says and who wrote it, or why that cannot be read.
    pub content: Result<(Mail, Sender), CodecError>,
    /// Its bytes as they came.
    pub payload: Bytes,
}

/// What is kept of the mail to `owner`, oldest first, read with a credential that may read all
/// mail.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn read_any(bus: &Bus, owner: &Principal) -> Result<Vec<Letter>, ReadError> {
    let pattern = Subject::inbox(Lane::Mail, owner);
    let mut letters: Vec<Letter> = Vec::new();
    let mut next = 1;
    loop {
        let batch = bus.next_by_subject_batch(MAIL, &pattern, next, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(letters) };
        next = last.seq + 1;
        letters.extend(batch.into_iter().map(|message| Letter {
            seq: message.seq,
            at: BusTime(message.time_unix_ms),
            content: codec::decode_mail(&message.subject, &message.headers, &message.payload),
            subject: message.subject,
            payload: message.payload,
        }));
    }
}

/// What is kept of the mail to `owner`, oldest first, read with its own credential: that one may
/// only make the one consumer of its name (spec 02, Inbox), so readers take turns.
///
/// # Errors
/// The bus is away, another program keeps reading this inbox, or the credential is another's.
pub async fn read_own(bus: &Bus, owner: &Principal) -> Result<Vec<Letter>, ReadError> {
    let name = format!("mail-{owner}");
    let failed = |reason: String| ReadError::Unanswered { what: name.clone(), reason };
    let stream = bus
        .jetstream()
        .get_stream_no_info(MAIL)
        .await
        .map_err(|error| failed(error.to_string()))?;
    // Tells this reader's consumer from another's, so that the server does not let them share it.
    let mark = inbox_token(&bus.client.new_inbox()).to_owned();
    let letters = read_with(&stream, owner, &name, mark).await;
    if !matches!(letters, Err(ReadError::Refused { .. })) {
        // The server drops it soon by itself; the next reader need not wait for that.
        let _dropped = stream.delete_consumer(&name).await;
    }
    letters
}

async fn read_with(
    stream: &Stream<()>,
    owner: &Principal,
    name: &str,
    mark: String,
) -> Result<Vec<Letter>, ReadError> {
    let failed = |reason: String| ReadError::Unanswered { what: name.to_owned(), reason };
    let config = pull::Config {
        name: Some(name.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::None,
        filter_subject: Subject::inbox(Lane::Mail, owner),
        description: Some(mark),
        inactive_threshold: ABANDONED,
        memory_storage: true,
        num_replicas: 1,
        ..pull::Config::default()
    };
    let mut others = Retry::until(OTHER_READS_FOR);
    let consumer = loop {
        let error = match stream.create_consumer_strict(config.clone()).await {
            Ok(consumer) => break consumer,
            Err(error) => error,
        };
        let taken = matches!(error.kind(), ConsumerCreateStrictErrorKind::AlreadyExists);
        if !taken {
            return Err(failed(error.to_string()));
        }
        if !others.pause().await {
            return Err(ReadError::Refused {
                what: name.to_owned(),
                code: 0,
                text: "another program reads this inbox; try again when it is done".to_owned(),
            });
        }
    };
    let mut letters = Vec::new();
    let mut left = consumer.cached_info().num_pending;
    while left > 0 {
        let mut batch = consumer
            .fetch()
            .max_messages(BATCH)
            .messages()
            .await
            .map_err(|error| failed(error.to_string()))?;
        while let Some(message) = batch.next().await {
            let message = message.map_err(|error| failed(error.to_string()))?;
            left = left.saturating_sub(1);
            letters.push(letter(&message).map_err(failed)?);
        }
    }
    Ok(letters)
}

fn letter(message: &jetstream::Message) -> Result<Letter, String> {
    let info = message.info().map_err(|error| error.to_string())?;
    let millis = info.published.unix_timestamp_nanos() / 1_000_000;
    let headers = message.headers.clone().unwrap_or_default();
    let subject = message.subject.to_string();
    Ok(Letter {
        seq: info.stream_sequence,
        at: BusTime(u64::try_from(millis).unwrap_or(0)),
        content: codec::decode_mail(&subject, &headers, &message.payload),
        subject,
        payload: message.payload.clone(),
    })
}
