//! What a run says as it comes (spec 07, Streaming): sent to whoever listens and kept by nobody. Messages of a session are
//! numbered, so that a listener sees what it missed; the run's journal has that.

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use tetrarch_core::id::SessionId;

use crate::client::{Bus, next_published};
use crate::envelope::{NUMBER, SESSION};
use crate::error::ReadError;
use crate::journal::JournalName;
use crate::subject::Subject;

/// The session of a run, as it speaks.
#[derive(Debug)]
pub struct SpeakingRun {
    subject: String,
    session: SessionId,
    said: u64,
}

impl SpeakingRun {
    /// A session that has said nothing yet.
    #[must_use]
    pub fn new(journal: &JournalName, session: SessionId) -> Self {
        let JournalName { agent, run } = journal.clone();
        Self { subject: Subject::Stream { agent, run }.to_string(), session, said: 0 }
    }

    /// Says something, with its number from 1. Best effort: what is not heard is in the journal.
    pub async fn say(&mut self, bus: &Bus, text: String) {
        self.said += 1;
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, self.session.to_string());
        headers.insert(NUMBER, self.said.to_string());
        let subject = self.subject.clone();
        let _unheard = bus.client().publish_with_headers(subject, headers, Bytes::from(text)).await;
    }
}

/// What a run says, heard.
#[derive(Debug)]
pub struct SpokenWords {
    heard: Subscriber,
    last: Option<PlaceOfWords>,
}

impl SpokenWords {
    /// Listens to a run.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn of(bus: &Bus, journal: &JournalName) -> Result<Self, ReadError> {
        let JournalName { agent, run } = journal.clone();
        let heard = bus.listen(Subject::Stream { agent, run }.to_string()).await?;
        Ok(Self { heard, last: None })
    }

    /// The next words, with a line before them that says what was missed; none ever when the connection was closed. Safe
    /// to drop.
    pub async fn next(&mut self) -> String {
        let Some(message) = next_published(&mut self.heard).await else {
            return std::future::pending().await;
        };
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        let Some(place) = message.headers.as_ref().and_then(PlaceOfWords::read) else {
            return text;
        };
        let missed = self.last.as_ref().map_or(0, |last| place.missed_after(last));
        self.last = Some(place);
        match missed {
            0 => text,
            missed => {
                format!("[{missed} messages were missed; the journal has all]\n{text}")
            }
        }
    }
}

/// Which message of which session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlaceOfWords {
    session: String,
    number: u64,
}

impl PlaceOfWords {
    /// None of a sender that does not number what it says.
    fn read(headers: &HeaderMap) -> Option<Self> {
        let number = headers.get(NUMBER)?.as_str().parse().ok()?;
        let session = headers.get(SESSION)?.as_str().to_owned();
        Some(Self { session, number })
    }

    /// How many lie between this and what was heard last. What another session said before is not known.
    fn missed_after(&self, last: &Self) -> u64 {
        let next = if self.session == last.session { last.number.saturating_add(1) } else { 1 };
        self.number.saturating_sub(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(session: &str, number: u64) -> PlaceOfWords {
        PlaceOfWords { session: session.to_owned(), number }
    }

    #[test]
    fn gap_between_numbers_is_counted_within_a_session_and_from_its_first() {
        for (last, heard, missed) in [
            (place("a", 1), place("a", 2), 0),
            (place("a", 1), place("a", 5), 3),
            (place("a", 9), place("b", 1), 0),
            (place("a", 9), place("b", 3), 2),
            (place("a", 2), place("a", 2), 0),
            (place("a", u64::MAX), place("a", 1), 0),
        ] {
            assert_eq!(heard.missed_after(&last), missed, "{last:?} {heard:?}");
        }
    }

    #[test]
    fn words_without_a_number_have_no_place() {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, "a");
        assert_eq!(PlaceOfWords::read(&headers), None);
        headers.insert(NUMBER, "x");
        assert_eq!(PlaceOfWords::read(&headers), None);
        headers.insert(NUMBER, "7");
        assert_eq!(PlaceOfWords::read(&headers), Some(place("a", 7)));
    }
}
