//! Doing one thing on the bus until its outcome is known: the same publish again, the same read
//! again, with the one retry policy. It never decides what an outcome means, and never gives up
//! on its own: whoever does not want to wait drops the future.

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
    let mut retry = policy(None);
    loop {
        match bus.publish_expect(subject, headers.clone(), payload.clone(), expect).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "sending it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
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
    let mut retry = policy(None);
    loop {
        match bus.last_by_subject(stream, subject).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "reading it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
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
    let mut retry = policy(None);
    loop {
        match bus.last_per_subject(stream, subjects).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "reading it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
}

/// A stream's last sequence, asked for until there is an answer.
///
/// # Errors
/// A refusal that stays.
pub(crate) async fn stream_last_seq(bus: &Bus, stream: &str) -> Result<u64, ReadError> {
    let mut retry = policy(None);
    loop {
        match bus.stream_last_seq(stream).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "reading it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
}

/// The subjects of a stream that match a pattern.
pub(crate) async fn stream_subjects(
    bus: &Bus,
    stream: &str,
    pattern: &str,
) -> Result<Vec<String>, ReadError> {
    let mut retry = policy(None);
    loop {
        match bus.stream_subjects(stream, pattern).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "reading it again");
                retry.pause().await;
            }
            settled => return settled.map(|subjects| subjects.into_keys().collect()),
        }
    }
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
    let mut retry = policy(None);
    loop {
        match bus.purge(stream, Some(subject), None).await {
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "purging it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
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
    let mut retry = policy(None);
    let mut lagging = Retry::until(Duration::from_secs(2));
    loop {
        match bus.get_seq(stream, seq).await {
            Ok(None) => {
                if !lagging.pause().await {
                    return Ok(None);
                }
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "reading it again");
                retry.pause().await;
            }
            settled => return settled,
        }
    }
}
