//! Reads a stored message as JSON: the one way to a message whose subject or headers are no
//! text, or whose header block is none. Any sender can store such a message, and a connection
//! that is given it as it is breaks (spec 10, invariant 24). Slow, so only for what could not be
//! read otherwise.

use std::str::FromStr;

use async_nats::jetstream::stream::RawMessage as Stored;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::Bus;
use super::read::{RawMessage, text_at};
use crate::error::ReadError;
use crate::subject::pattern;

/// The server's code for: no such message.
const NO_MESSAGE: u64 = 10_037;
/// The first line of a message's headers; a status after it makes the message an answer.
const VERSION: &[u8] = b"NATS/1.0";
/// What matches every subject.
const ANY: &str = ">";

impl Bus {
    /// The next message from a sequence on that matches one of the filters, or any when there are
    /// none, and whether it is one that breaks a connection: there may be more of them. What is
    /// no text in its subject is replaced, what is no header is left out.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub(crate) async fn next_as_text(
        &self,
        stream: &str,
        filters: &[String],
        from: u64,
    ) -> Result<Option<(RawMessage, bool)>, ReadError> {
        let any = [ANY.to_owned()];
        let mut first: Option<(RawMessage, bool)> = None;
        for filter in if filters.is_empty() { &any } else { filters } {
            let found = self.one_as_text(stream, filter, from).await?;
            if let Some(found) = found
                && first.as_ref().is_none_or(|(first, _)| found.0.seq < first.seq)
            {
                first = Some(found);
            }
        }
        Ok(first)
    }

    async fn one_as_text(
        &self,
        stream: &str,
        filter: &str,
        from: u64,
    ) -> Result<Option<(RawMessage, bool)>, ReadError> {
        let at = pattern::message_get(self.api_prefix(), stream);
        let wanted = json!({ "seq": from.max(1), "next_by_subj": filter });
        let answer = self.ask(stream, at, wanted.to_string().into()).await?;
        let malformed = |reason: String| ReadError::Malformed { what: stream.to_owned(), reason };
        let mut body: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| malformed(error.to_string()))?;
        match body.pointer("/error/err_code").and_then(Value::as_u64) {
            Some(NO_MESSAGE) => return Ok(None),
            Some(code) => {
                let text = text_at(&body, "/error/description");
                return Err(ReadError::Refused { what: stream.to_owned(), code, text });
            }
            None => {}
        }
        let message: Stored = serde_json::from_value(body["message"].take())
            .map_err(|error| malformed(error.to_string()))?;
        read(message).map(Some).map_err(malformed)
    }
}

fn read(message: Stored) -> Result<(RawMessage, bool), String> {
    let bytes = |text: &str| BASE64.decode(text.as_bytes()).map_err(|error| error.to_string());
    let block = message.headers.as_deref().map(bytes).transpose()?.unwrap_or_default();
    let millis = message.time.unix_timestamp_nanos() / 1_000_000;
    let (headers, whole) = headers(&block);
    let breaks = !whole || message.subject.contains(char::REPLACEMENT_CHARACTER);
    let message = RawMessage {
        seq: message.sequence,
        subject: message.subject,
        headers,
        payload: bytes(&message.payload)?.into(),
        time_unix_ms: u64::try_from(millis).unwrap_or(0),
    };
    Ok((message, breaks))
}

/// The lines of a header block that are headers, and whether that is all there is.
fn headers(block: &[u8]) -> (HeaderMap, bool) {
    let mut headers = HeaderMap::new();
    let mut lines = block.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let mut whole = block.is_empty() || lines.next() == Some(VERSION);
    for line in lines.filter(|line| !line.is_empty()) {
        let header = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':'));
        let header = header.and_then(|(name, value)| {
            let name = Some(name.trim()).filter(|name| !name.is_empty())?;
            let value = HeaderValue::from_str(value.trim()).ok()?;
            Some((HeaderName::from_str(name).ok()?, value))
        });
        match header {
            Some((name, value)) => headers.append(name, value),
            None => whole = false,
        }
    }
    (headers, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_headers_of_a_broken_block_are_kept() {
        let block = b"HTTP/1.1 200\r\nNats-Msg-Id: one\r\nno colon\r\nBad: \xff\r\n: none\r\n\r\n";
        let (found, whole) = headers(block);
        assert_eq!(found.get("Nats-Msg-Id").map(HeaderValue::as_str), Some("one"));
        assert_eq!((found.len(), whole), (1, false));
        let (found, whole) = headers(b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n");
        assert_eq!((found.len(), whole), (1, true));
        assert!(headers(b"").1 && !headers(b"NATS/1.0 404\r\n\r\n").1);
    }
}
