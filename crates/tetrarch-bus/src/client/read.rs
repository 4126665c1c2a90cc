//! Reads straight from a stream, without a consumer: one message, the next ones of a filter, the
//! last ones of many subjects. Answers with a hole are refused, never patched.

use std::collections::BTreeMap;
use std::time::Instant;

use async_nats::jetstream::message::StreamMessage;
use async_nats::{HeaderMap, Message, StatusCode, Subscriber, header};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use super::{ANSWER_WITHIN, Bus, NOT_ALLOWED, denied, lost};
use crate::error::ReadError;
use crate::subject::pattern;
use tetrarch_core::snapshot::Extent;

/// What matches every subject.
const ANY: &str = ">";
/// The end of a batch.
const END_OF_BATCH: u16 = 204;
/// More subjects match than one answer may hold.
const TOO_MANY: u16 = 413;
const LAST_SEQUENCE: &str = "Nats-Last-Sequence";

/// A message as it is stored in a stream.
#[derive(Debug, Clone)]
pub struct RawMessage {
    /// Its sequence in the stream.
    pub seq: u64,
    /// Its subject.
    pub subject: String,
    /// Its headers; those of the answer itself start with `Nats-`.
    pub headers: HeaderMap,
    /// Its bytes.
    pub payload: Bytes,
    /// When the server stored it, in milliseconds since the Unix epoch.
    pub time_unix_ms: u64,
}

impl RawMessage {
    /// A header's value, none when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(header::HeaderValue::as_str)
    }
}

/// Believes what is said of a stream only where somebody leads it. A server that is cut off from its
/// cluster goes on to answer with what it had, and names no leader.
fn led(stream: &str, info: Value) -> Result<Value, ReadError> {
    let text = |at: &str| info.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let replicas = info.pointer("/cluster/replicas").and_then(Value::as_array);
    if replicas.is_some_and(|replicas| !replicas.is_empty()) && text("/cluster/leader").is_empty() {
        let reason = "the stream has no leader".to_owned();
        return Err(ReadError::Unanswered { what: stream.to_owned(), reason });
    }
    Ok(info)
}

/// What an answer of the JetStream API says; one that is an error is one.
fn api_answer(stream: &str, answer: &Message) -> Result<Value, ReadError> {
    let body: Value = serde_json::from_slice(&answer.payload).map_err(|error| {
        ReadError::Malformed { what: stream.to_owned(), reason: error.to_string() }
    })?;
    let code = body.pointer("/error/err_code").and_then(Value::as_u64);
    match code {
        None => Ok(body),
        Some(code) => Err(ReadError::Refused {
            what: stream.to_owned(),
            code,
            text: text_at(&body, "/error/description"),
        }),
    }
}

impl Bus {
    /// The last message of one subject, none when there is none.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn last_by_subject(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<RawMessage>, ReadError> {
        let at = pattern::direct_get_last(self.api_prefix(), stream, subject);
        single(subject, self.ask(subject, at, Bytes::new()).await?)
    }

    /// The last message whose subject matches a pattern, none when there is none.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn last_by_pattern(
        &self,
        stream: &str,
        pattern: &str,
    ) -> Result<Option<RawMessage>, ReadError> {
        let at = pattern::direct_get(self.api_prefix(), stream);
        let body = json!({ "last_by_subj": pattern }).to_string();
        single(pattern, self.ask(pattern, at, body.into()).await?)
    }

    /// The message at one sequence, none when there is none (or not yet on the asked replica).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn get_seq(&self, stream: &str, seq: u64) -> Result<Option<RawMessage>, ReadError> {
        let found = self.next_by_subject_batch(stream, ANY, seq, 1).await?;
        Ok(found.into_iter().next().filter(|message| message.seq == seq))
    }

    /// The next messages that match a filter, from a sequence on, in stream order, at most
    /// `batch` and of about 16 MiB. An empty answer means there are none (yet, on the asked replica).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn next_by_subject_batch(
        &self,
        stream: &str,
        filter: &str,
        start_seq: u64,
        batch: usize,
    ) -> Result<Vec<RawMessage>, ReadError> {
        let (seq, at) = (start_seq.max(1), pattern::direct_get(self.api_prefix(), stream));
        if batch == 1 {
            // It has one answer, which needs no subscription.
            let body = json!({ "seq": seq, "next_by_subj": filter }).to_string();
            let found = single(stream, self.ask(stream, at, body.into()).await?)?;
            return Ok(found.into_iter().collect());
        }
        let body =
            json!({ "seq": seq, "batch": batch, "max_bytes": BATCH_BYTES, "next_by_subj": filter });
        self.get_many(stream, at, &body).await
    }

    /// The last message of every subject that matches one of the filters, in stream order.
    /// At most 1024 subjects may match; the server refuses more.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn last_per_subject(
        &self,
        stream: &str,
        filters: &[&str],
    ) -> Result<Vec<RawMessage>, ReadError> {
        let at = pattern::direct_get(self.api_prefix(), stream);
        self.get_many(stream, at, &json!({ "multi_last": filters })).await
    }

    /// Listens to what is published on a subject or pattern from now on.
    ///
    /// # Errors
    /// The connection is closed.
    pub(crate) async fn listen(&self, pattern: String) -> Result<Subscriber, ReadError> {
        let subscribed = self.client.subscribe(pattern.clone()).await;
        subscribed
            .map_err(|error| ReadError::Unanswered { what: pattern, reason: error.to_string() })
    }

    /// The sequence of a stream's last message, 0 when it never had one.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn stream_last_seq(&self, stream: &str) -> Result<u64, ReadError> {
        let info = self.info(stream).await?;
        info.pointer("/state/last_seq").and_then(Value::as_u64).ok_or_else(|| {
            ReadError::Malformed {
                what: stream.to_owned(),
                reason: "the last sequence is missing".to_owned(),
            }
        })
    }

    /// When a stream was created, as the server writes it: a stream made anew has another text.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn stream_created(&self, stream: &str) -> Result<String, ReadError> {
        let info = self.info(stream).await?;
        info.get("created").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| {
            ReadError::Malformed {
                what: stream.to_owned(),
                reason: "the creation time is missing".to_owned(),
            }
        })
    }

    /// How much of a stream there is.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn stream_extent(&self, stream: &str) -> Result<Extent, ReadError> {
        let info = self.info(stream).await?;
        let state = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64);
        let malformed = || ReadError::Malformed {
            what: stream.to_owned(),
            reason: "the size is missing".to_owned(),
        };
        Ok(Extent {
            first: state("/state/first_seq").ok_or_else(malformed)?.max(1),
            last: state("/state/last_seq").ok_or_else(malformed)?,
            bytes: state("/state/bytes").ok_or_else(malformed)?,
            // No limit is a negative number.
            limit: state("/config/max_bytes").unwrap_or(0),
        })
    }

    /// How many messages a stream holds.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn stream_messages(&self, stream: &str) -> Result<u64, ReadError> {
        let info = self.info(stream).await?;
        info.pointer("/state/messages").and_then(Value::as_u64).ok_or_else(|| {
            ReadError::Malformed {
                what: stream.to_owned(),
                reason: "the number of messages is missing".to_owned(),
            }
        })
    }

    /// The subjects of a stream that match a pattern, each with how many messages it has. A server
    /// tells 100,000 at one stroke; the rest is left for when those are gone.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn stream_subjects(
        &self,
        stream: &str,
        pattern: &str,
    ) -> Result<BTreeMap<String, u64>, ReadError> {
        let at = pattern::stream_info(self.api_prefix(), stream);
        let body = serde_json::json!({ "subjects_filter": pattern }).to_string();
        let info = self.ask_api(stream, at, body.into()).await?;
        let subjects = info.pointer("/state/subjects").and_then(Value::as_object);
        let counted = subjects.into_iter().flatten();
        Ok(counted.filter_map(|(subject, n)| Some((subject.clone(), n.as_u64()?))).collect())
    }

    async fn info(&self, stream: &str) -> Result<Value, ReadError> {
        let (sent, at) = (Instant::now(), pattern::stream_info(self.api_prefix(), stream));
        let answer = self.ask(stream, at, Bytes::new()).await;
        let answer = answer.and_then(|answer| api_answer(stream, &answer));
        self.noted(sent, answer.and_then(|info| led(stream, info))).await
    }

    /// Asks the JetStream API; an answer that is an error is one.
    pub(super) async fn ask_api(
        &self,
        stream: &str,
        at: String,
        body: Bytes,
    ) -> Result<Value, ReadError> {
        let sent = Instant::now();
        let answer = self.ask(stream, at, body).await;
        self.noted(sent, answer.and_then(|answer| api_answer(stream, &answer))).await
    }

    async fn noted<T>(&self, sent: Instant, answer: Result<T, ReadError>) -> Result<T, ReadError> {
        let passing = answer.as_ref().err().is_some_and(ReadError::is_passing);
        self.note_ask(sent, !passing).await;
        answer
    }

    pub(super) async fn ask(
        &self,
        what: &str,
        at: String,
        body: Bytes,
    ) -> Result<Message, ReadError> {
        let (mut notices, mut losses) = (self.notices(), self.losses());
        tokio::select! {
            biased;
            answer = self.client.request(at.clone(), body) => answer.map_err(|error| {
                ReadError::Unanswered { what: what.to_owned(), reason: error.to_string() }
            }),
            () = denied(&at, &mut notices) => Err(not_allowed(what)),
            () = lost(&mut losses) => Err(gone(what)),
        }
    }

    async fn get_many(
        &self,
        stream: &str,
        at: String,
        body: &Value,
    ) -> Result<Vec<RawMessage>, ReadError> {
        let unanswered = |reason: String| ReadError::Unanswered { what: stream.to_owned(), reason };
        let inbox = self.client.new_inbox();
        let mut answers = self
            .client
            .subscribe(inbox.clone())
            .await
            .map_err(|error| unanswered(error.to_string()))?;
        let (mut notices, mut losses) = (self.notices(), self.losses());
        self.client
            .publish_with_reply(at.clone(), inbox, body.to_string().into())
            .await
            .map_err(|error| unanswered(error.to_string()))?;
        tokio::select! {
            biased;
            messages = collect(stream, &mut answers) => messages,
            () = denied(&at, &mut notices) => Err(not_allowed(stream)),
            () = lost(&mut losses) => Err(gone(stream)),
        }
    }
}

/// Bytes of messages after which the server ends a batch.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// What the server says of a message in the headers of its answer.
const SAID: [&str; 6] = [
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    LAST_SEQUENCE,
];

/// Believes the server and not the message: it adds its headers behind those that are stored, and any sender
/// can store some of the same names.
fn believed(mut answer: Message) -> Message {
    if let Some(headers) = &mut answer.headers {
        for name in SAID {
            if let Some(said) = headers.get_last(name).cloned() {
                headers.insert(name, said);
            }
        }
    }
    answer
}

/// The message that was asked for.
fn single(what: &str, answer: Message) -> Result<Option<RawMessage>, ReadError> {
    let answer = believed(answer);
    match answer.status {
        None => stored(what, answer).map(Some),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(status) => Err(refused(what, status, &answer)),
    }
}

/// All messages of a batch, up to the answer that ends it.
async fn collect(stream: &str, answers: &mut Subscriber) -> Result<Vec<RawMessage>, ReadError> {
    let unanswered =
        |reason: &str| ReadError::Unanswered { what: stream.to_owned(), reason: reason.to_owned() };
    let mut messages: Vec<RawMessage> = Vec::new();
    loop {
        let answer = tokio::time::timeout(ANSWER_WITHIN, answers.next())
            .await
            .map_err(|_| unanswered("no answer in time"))?
            .ok_or_else(|| unanswered("the connection was closed"))?;
        let answer = believed(answer);
        let before = messages.last().map_or(0, |message| message.seq);
        match answer.status {
            None => messages.push(following(stream, before, answer)?),
            Some(StatusCode::NOT_FOUND) => return Ok(messages),
            Some(status) if status.as_u16() == END_OF_BATCH => {
                return match last_sequence(&answer.headers) {
                    Some(last) if last != before => Err(hole(stream, before, last)),
                    Some(_) | None => Ok(messages),
                };
            }
            Some(status) if status.as_u16() == TOO_MANY => {
                return Err(ReadError::Refused {
                    what: stream.to_owned(),
                    code: u64::from(TOO_MANY),
                    text: "more than 1024 subjects match; use narrower filters".to_owned(),
                });
            }
            Some(status) => return Err(refused(stream, status, &answer)),
        }
    }
}

fn gone(what: &str) -> ReadError {
    ReadError::Unanswered { what: what.to_owned(), reason: "the connection was lost".to_owned() }
}

fn not_allowed(what: &str) -> ReadError {
    ReadError::Refused {
        what: what.to_owned(),
        code: NOT_ALLOWED,
        text: "the credential does not allow this".to_owned(),
    }
}

/// The server names in each message of a batch the one before it, so a lost one shows.
fn following(stream: &str, before: u64, answer: Message) -> Result<RawMessage, ReadError> {
    match last_sequence(&answer.headers) {
        Some(last) if last != before => Err(hole(stream, before, last)),
        Some(_) | None => stored(stream, answer),
    }
}

fn last_sequence(headers: &Option<HeaderMap>) -> Option<u64> {
    headers.as_ref()?.get(LAST_SEQUENCE)?.as_str().parse().ok()
}

fn hole(stream: &str, before: u64, last: u64) -> ReadError {
    ReadError::Malformed {
        what: stream.to_owned(),
        reason: format!("a message was lost: the server skipped from {before} to {last}"),
    }
}

fn refused(what: &str, status: StatusCode, answer: &Message) -> ReadError {
    ReadError::Refused {
        what: what.to_owned(),
        code: u64::from(status.as_u16()),
        text: answer.description.clone().unwrap_or_default(),
    }
}

pub(super) fn text_at(body: &Value, pointer: &str) -> String {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn stored(what: &str, answer: Message) -> Result<RawMessage, ReadError> {
    let message = StreamMessage::try_from(answer).map_err(|error| ReadError::Malformed {
        what: what.to_owned(),
        reason: error.to_string(),
    })?;
    let millis = message.time.unix_timestamp_nanos() / 1_000_000;
    Ok(RawMessage {
        seq: message.sequence,
        subject: message.subject.to_string(),
        headers: message.headers,
        payload: message.payload,
        time_unix_ms: u64::try_from(millis).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_about_leaderless_stream_is_rejected() {
        let replica = |name: &str| json!({"name": name, "offline": true});
        let replicas = json!([replica("n1"), replica("n2"), replica("n3")]);
        for info in [
            json!({"state": {}}),
            json!({"cluster": {"leader": "n1"}}),
            json!({"cluster": {"leader": "n1", "replicas": [replica("n2")]}}),
            json!({"cluster": {"replicas": []}}),
        ] {
            assert_eq!(led("PLANS", info.clone()).unwrap(), info);
        }
        for info in [
            json!({"cluster": {"name": "c", "replicas": replicas}}),
            json!({"cluster": {"leader": "", "replicas": replicas}}),
        ] {
            assert!(led("PLANS", info).is_err_and(|error| error.is_passing()));
        }
    }
}
