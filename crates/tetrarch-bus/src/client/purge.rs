//! Purging: what a stream no longer needs goes, by sequence or by subject. Who may purge what is
//! the caller's business; nothing but the control plane's credential may at all.

use serde_json::{Map, Value};

use super::Bus;
use crate::error::ReadError;
use crate::subject::pattern;

impl Bus {
    /// Purges the messages up to a sequence, itself included; all of them without one, those of
    /// one subject when it is named. Doing it again changes nothing. Gives how many went.
    ///
    /// # Errors
    /// See [`ReadError`]; an unanswered one may have happened.
    pub async fn purge(
        &self,
        stream: &str,
        subject: Option<&str>,
        through: Option<u64>,
    ) -> Result<u64, ReadError> {
        let mut body = Map::new();
        if let Some(subject) = subject {
            body.insert("filter".to_owned(), subject.into());
        }
        if let Some(through) = through {
            // The server keeps the message of the sequence it is told.
            body.insert("seq".to_owned(), through.saturating_add(1).into());
        }
        let at = pattern::stream_purge(self.api_prefix(), stream);
        let body = Value::Object(body).to_string();
        let answer = self.ask_api(stream, at, body.into()).await?;
        answer.get("purged").and_then(Value::as_u64).ok_or_else(|| ReadError::Malformed {
            what: stream.to_owned(),
            reason: "the number of purged messages is missing".to_owned(),
        })
    }
}
