//! What went wrong with a request, and when it may be sent again.

use std::borrow::Cow;
use std::time::Duration;

use genai::{Error, webc};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::time::Millis;

use tetrarch_core::redaction;

/// Requests for one turn.
pub const TRIES: u32 = 4;
/// How long nothing is sent after one that failed.
const BACKOFF: Backoff = Backoff { base: Millis::from_secs(1), max: Millis::from_secs(30) };
/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// What is kept of a server's words, in bytes.
const WORDS_BYTES: usize = 400;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// In words, without secrets.
    pub words: String,
    /// The status of the answer; none when none came, or it broke off.
    pub status: Option<u16>,
    /// In a word, for whoever counts.
    kind: &'static str,
    /// Whether it may be sent again.
    pub again: bool,
    /// How long the server wants to be left alone.
    pub after: Option<Duration>,
    /// Whether the model had begun to answer, or may have: then the request has its price.
    pub heard: bool,
}

impl ModelFailure {
    /// No answer in time.
    #[must_use]
    pub fn late(within: Duration) -> Self {
        Self {
            words: format!("no answer within {within:?}"),
            status: None,
            kind: "timeout",
            again: true,
            after: None,
            heard: true,
        }
    }

    /// An answer that ended before it was complete.
    pub(crate) fn broken_off() -> Self {
        let words = "the answer broke off before its end".to_owned();
        Self { words, status: None, kind: "broken_off", again: true, after: None, heard: true }
    }

    /// In a word: the status of the answer, or what became of it.
    #[must_use]
    pub fn kind(&self) -> Cow<'static, str> {
        self.status.map_or(Cow::Borrowed(self.kind), |status| status.to_string().into())
    }

    pub(crate) fn of(error: &Error) -> Self {
        // What comes instead of a stream is wrapped in what reads it.
        let inner = if let Error::WebStream { error: inner, .. } = error {
            inner.downcast_ref()
        } else {
            None
        };
        let error: &Error = inner.unwrap_or(error);
        let status = error.status().map(|status| status.as_u16());
        let again = match status {
            Some(status) => status == 408 || status == 429 || status >= 500,
            // Nothing came, or it broke off.
            None => is_passing(error),
        };
        let said = error.to_string();
        let said = redaction::text(&said);
        let said = beginning(&said);
        let words = match status {
            Some(status) => format!("HTTP {status}: {said}"),
            None => said.to_owned(),
        };
        let heard = status.is_none() && again && !is_unreached(error);
        let kind = if again { "connection_error" } else { "invalid_request" };
        Self { words, status, kind, again, after: error.headers().and_then(retry_after), heard }
    }
}

/// Whether an error without an HTTP status may be gone the next time.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::WebModelCall { .. }
            | Error::WebAdapterCall { .. }
            | Error::WebStream { .. }
            | Error::StreamParse { .. }
            | Error::ChatResponse { .. }
    )
}

/// Whether there was no connection at all.
fn is_unreached(error: &Error) -> bool {
    let cause = if let Error::WebStream { error, .. } = error {
        error.downcast_ref()
    } else if let Error::WebModelCall { webc_error: webc::Error::Reqwest(cause), .. } = error {
        Some(cause)
    } else {
        None
    };
    cause.is_some_and(reqwest::Error::is_connect)
}

fn beginning(words: &str) -> &str {
    words[..words.floor_char_boundary(WORDS_BYTES)].trim()
}

/// How long a server wants to be left alone, in seconds or milliseconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |value: &reqwest::header::HeaderValue| value.to_str().ok()?.trim().parse().ok();
    let ms = headers.get("retry-after-ms").and_then(number).map(Duration::from_millis);
    ms.or_else(|| headers.get(RETRY_AFTER).and_then(number).map(Duration::from_secs))
}

/// How long nothing is sent after so many requests that failed; `seed` tells one caller's waits from
/// another's.
#[must_use]
pub fn pause(tries: u32, seed: &str, after: Option<Duration>) -> Duration {
    let own = Duration::from_millis(BACKOFF.wait(tries.saturating_sub(1), seed).0);
    own.max(after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_honoured_up_to_a_bound() {
        let headers = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            retry_after(&headers)
        };
        assert_eq!(headers("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(headers("retry-after-ms", "70"), Some(Duration::from_millis(70)));
        assert_eq!(headers("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(pause(1, "a", Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(pause(1, "a", Some(Duration::from_secs(7_000))), RETRY_AFTER_MAX);
        assert!(pause(1, "a", None) <= Duration::from_secs(1));
        assert!(pause(64, "a", None) <= Duration::from_secs(30));
    }

    #[test]
    fn transient_failures_differ_from_permanent_ones() {
        redaction::know(b"sk-secret").unwrap();
        for (status, again) in
            [(400, false), (401, false), (408, true), (429, true), (500, true), (529, true)]
        {
            let error = Error::HttpError {
                status: StatusCode::from_u16(status).unwrap(),
                canonical_reason: String::new(),
                body: format!("no, sk-secret {}", "é".repeat(WORDS_BYTES)),
                headers: Box::default(),
            };
            let iden = genai::ModelIden::new(genai::adapter::AdapterKind::OpenAI, "m");
            let cause = String::new();
            let error = Error::WebStream { model_iden: iden, cause, error: Box::new(error) };
            let trouble = ModelFailure::of(&error);
            assert_eq!((trouble.status, trouble.again), (Some(status), again), "{trouble:?}");
            assert_eq!(trouble.kind(), status.to_string());
            assert!(!trouble.words.contains("sk-secret"), "{trouble:?}");
            assert!(trouble.words.len() <= WORDS_BYTES + 16, "{trouble:?}");
        }
    }
}
