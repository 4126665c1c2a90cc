//! Doing one thing on the bus until its outcome is known: the same publish again, the same read
//! again, with the one retry policy. It never decides what an outcome means, and never gives up
//! on its own: whoever does not want to wait drops the future.

use std::fmt::Display;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::client::{Bus, RawMessage};
use crate::error::{PublishError, ReadError};
use crate::retry::Retry;

/// Waits between the attempts at one publish or read: 50 ms, growing to 2 s.
pub(crate) fn policy(patience: Option<Duration>) -> Retry {
    Retry::new(Duration::from_millis(50), Duration::from_secs(2), patience)
}

/// Tries again while what hinders it passes, and for as long as `patience`, if any: whoever has that is told
/// of the last attempt.
pub(crate) async fn until_settled<T, E: Display, F: Future<Output = Result<T, E>>>(
    patience: Option<Duration>,
    is_passing: fn(&E) -> bool,
    attempt: impl Fn() -> F,
) -> Result<T, E> {
    let mut retry = policy(patience);
    loop {
        match attempt().await {
            Err(error) if is_passing(&error) && retry.pause().await => match patience {
                Some(_) => tracing::debug!(%error, "trying it again"),
                None => tracing::warn!(%error, "trying it again"),
            },
            settled => return settled,
        }
    }
}

/// Publishes the same bytes until there is an answer; gives the sequence it is stored at. After
/// an unknown outcome `WrongLast` may name the very message that was sent: the caller reads it.
///
/// # Errors
/// `WrongLast` or a refusal that stays.
pub(crate) async fn publish(
    bus: &Bus,
    subject: &str,
    headers: &HeaderMap,
    payload: &Bytes,
    expect: Option<u64>,
) -> Result<u64, PublishError> {
    let attempt = || bus.publish_expect(subject, headers.clone(), payload.clone(), expect);
    until_settled(None, PublishError::is_passing, attempt).await
}

/// The last message of a subject, asked for until there is an answer.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn last_by_subject(
    bus: &Bus,
    stream: &str,
    subject: &str,
) -> Result<Option<RawMessage>, ReadError> {
    until_settled(None, ReadError::is_passing, || bus.last_by_subject(stream, subject)).await
}

/// The last messages of some subjects, as one server has them at one time, asked for until there is
/// an answer.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn last_per_subject(
    bus: &Bus,
    stream: &str,
    subjects: &[&str],
) -> Result<Vec<RawMessage>, ReadError> {
    until_settled(None, ReadError::is_passing, || bus.last_per_subject(stream, subjects)).await
}

/// A stream's last sequence, asked for until there is an answer.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn stream_last_seq(bus: &Bus, stream: &str) -> Result<u64, ReadError> {
    until_settled(None, ReadError::is_passing, || bus.stream_last_seq(stream)).await
}

/// The subjects of a stream that match a pattern.
pub(crate) async fn stream_subjects(
    bus: &Bus,
    stream: &str,
    pattern: &str,
) -> Result<Vec<String>, ReadError> {
    let found = until_settled(None, ReadError::is_passing, || bus.stream_subjects(stream, pattern));
    Ok(found.await?.into_keys().collect())
}

/// Purges a subject, until there is an answer.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn purge_subject(
    bus: &Bus,
    stream: &str,
    subject: &str,
) -> Result<u64, ReadError> {
    until_settled(None, ReadError::is_passing, || bus.purge(stream, Some(subject), None)).await
}

/// The message that a refused publish named. A replica may lag behind the one that refused, so it
/// is asked for again a few times; none means that it is gone again.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn named(
    bus: &Bus,
    stream: &str,
    seq: u64,
) -> Result<Option<RawMessage>, ReadError> {
    if seq == 0 {
        return Ok(None);
    }
    let mut lagging = Retry::until(Duration::from_secs(2));
    loop {
        let found = until_settled(None, ReadError::is_passing, || bus.get_seq(stream, seq)).await?;
        if found.is_some() || !lagging.pause().await {
            return Ok(found);
        }
    }
}
