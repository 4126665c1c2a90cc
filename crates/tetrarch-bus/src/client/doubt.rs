//! Doubt in the server behind a connection that stands: one that is cut off from the rest of its
//! cluster takes everything and acknowledges nothing, for as long as it lasts. A client that hears
//! no acknowledgement looks for another server. It judges no single answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Bus;
use crate::error::PublishError;

/// So long without an answer, and another server may know more. Less than an election takes: during
/// one a change of servers costs nothing.
const DOUBT_AFTER: Duration = Duration::from_secs(4);

/// Since when nothing was answered that needs a majority; none when something was since. Reads of
/// messages do not count: a server that is cut off answers them with what it has.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    writes: Since,
    asks: Since,
}

#[derive(Debug, Default)]
struct Since(Mutex<Option<Instant>>);

impl Since {
    fn answered(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Something that was sent at `sent` was not answered until `now`; whether that is too long.
    fn unanswered(&self, sent: Instant, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *since.get_or_insert(sent);
        let long = now.duration_since(first) >= DOUBT_AFTER;
        if long {
            *since = Some(now);
        }
        long
    }
}

impl Bus {
    /// Takes note of how a publish that was sent at `sent` ended.
    pub(super) async fn note_publish(&self, sent: Instant, ended: Option<&PublishError>) {
        let unanswered = ended.is_some_and(PublishError::is_passing);
        self.note(&self.doubt.writes, sent, unanswered).await;
    }

    /// Takes note of whether a question to the JetStream API that was asked at `sent` was answered.
    pub(crate) async fn note_ask(&self, sent: Instant, answered: bool) {
        self.note(&self.doubt.asks, sent, !answered).await;
    }

    async fn note(&self, since: &Since, sent: Instant, unanswered: bool) {
        if !unanswered {
            since.answered();
            return;
        }
        let elsewhere = self.servers > 1 || !self.client.server_info().connect_urls.is_empty();
        if since.unanswered(sent, Instant::now()) && elsewhere {
            tracing::warn!("this server answers nothing that needs a majority; trying another");
            // A connection that is closed for good needs no other server.
            let _closed = self.client.force_reconnect().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_is_doubted_and_each_server_is_given_its_time() {
        let (since, at) = (Since::default(), Instant::now());
        let later = |ms| at + Duration::from_millis(ms);
        assert!(!since.unanswered(at, later(3_999)));
        assert!(since.unanswered(later(3_000), later(4_000)), "counted from the first");
        assert!(!since.unanswered(later(4_000), later(7_999)), "another server, another time");
        since.answered();
        assert!(!since.unanswered(later(7_999), later(8_000)), "what was answered is believed");
    }
}
