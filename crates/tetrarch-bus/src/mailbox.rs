//! Reading what was written to somebody, for people's views: nothing is taken away and no
//! position moves. Agents read their inboxes with `inbox`; what those outside read theirs with is in
//! `opening`. This decides nothing.

pub mod opening;

use bytes::Bytes;

use crate::client::Bus;
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::subject::Subject;
use crate::subject::pattern::MAIL;
use tetrarch_core::id::Principal;
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::request::Sender;
use tetrarch_core::time::BusTime;

/// Messages asked for at once.
const BATCH: usize = 200;

/// A message as it is kept.
#[derive(Debug)]
pub struct MailMessage {
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

/// What is kept of the mail to `owner`, oldest first.
///
/// # Errors
/// The bus is away, or does not let this credential read mail.
pub async fn read(bus: &Bus, owner: &Principal) -> Result<Vec<MailMessage>, ReadError> {
    let pattern = Subject::inbox(Lane::Mail, owner);
    let mut messages: Vec<MailMessage> = Vec::new();
    let mut next = 1;
    loop {
        let batch = bus.next_by_subject_batch(MAIL, &pattern, next, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(messages) };
        next = last.seq + 1;
        messages.extend(batch.into_iter().map(|message| MailMessage {
            seq: message.seq,
            at: BusTime(message.time_unix_ms),
            content: codec::decode_mail(&message.subject, &message.headers, &message.payload),
            subject: message.subject,
            payload: message.payload,
        }));
    }
}
