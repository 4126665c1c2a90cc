//! Reading a stream without a consumer: batches straight from the stream, and plain subscriptions that say
//! when to look again. What a subscription brings is a hint and nothing else: anybody in the account
//! can have an answer sent there.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Subscriber;
use futures::stream::{SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::FollowStep;
use crate::client::{Bus, RawMessage};
use crate::error::ReadError;
use crate::subject::pattern::{self, matches};

/// Messages of one batch.
const BATCH: usize = 1_000;
/// When to look again after a hint that found nothing: the message may be stored a moment later, and a
/// replica may lag behind (spec 02, Inbox).
const AGAIN: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(100)];
/// When to look again without a hint.
const QUIET: Duration = Duration::from_secs(1);
/// What matches every subject.
const ANY: &str = ">";
/// How many more there are behind a message of a batch.
const PENDING: &str = "Nats-Num-Pending";

/// A reader's batches and hints.
pub(super) struct BatchReader {
    stream: &'static str,
    filters: Vec<String>,
    hints: SelectAll<Subscriber>,
    losses: watch::Receiver<u64>,
    ready: VecDeque<RawMessage>,
    /// The last look found nothing.
    at_end: bool,
    /// The end was told since something was found, or since a silence.
    told: bool,
    pauses: Pauses,
    /// The highest sequence that a batch came to, of messages that no filter wants too.
    passed: u64,
}

/// How long to wait before looking again: a hint comes before its message is stored, and a message whose hint
/// came before anybody listened may be stored after the first look.
#[derive(Debug, Default)]
struct Pauses(usize);

impl Pauses {
    /// Something was found or announced.
    fn restart(&mut self) {
        self.0 = 0;
    }

    /// The next pause; none when only a hint, or a silence, is a reason to look again.
    fn next(&mut self) -> Option<Duration> {
        let pause = AGAIN.get(self.0).copied();
        self.0 += 1;
        pause
    }
}

impl std::fmt::Debug for BatchReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl BatchReader {
    /// Listens to what the stream takes, or to the filters.
    ///
    /// # Errors
    /// The connection is closed.
    pub(super) async fn open(
        bus: &Bus,
        stream: &'static str,
        filters: &[String],
    ) -> Result<Self, ReadError> {
        let losses = bus.losses();
        let taken = pattern::TAKES.iter().find(|(name, _)| *name == stream);
        let taken = taken.into_iter().flat_map(|(_, subjects)| subjects.iter());
        let heard: Vec<String> = match filters {
            [] => taken.map(|subject| (*subject).to_owned()).collect(),
            _ => filters.to_vec(),
        };
        let mut hints = Vec::new();
        for subject in heard {
            hints.push(bus.listen(subject).await?);
        }
        Ok(Self {
            stream,
            filters: filters.to_vec(),
            hints: select_all(hints),
            losses,
            ready: VecDeque::new(),
            at_end: false,
            told: false,
            pauses: Pauses::default(),
            passed: 0,
        })
    }

    /// The next message from a sequence on, or that there is none. Safe to drop.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub(super) async fn step(&mut self, bus: &Bus, from: u64) -> Result<FollowStep, ReadError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                let behind = message.header(PENDING).and_then(|count| count.parse().ok());
                let waiting = u64::try_from(self.ready.len()).unwrap_or(u64::MAX);
                return Ok(FollowStep::Message {
                    pending: behind.unwrap_or(0).max(waiting),
                    message,
                });
            }
            if self.at_end {
                if !self.told {
                    self.told = true;
                    return Ok(FollowStep::Nothing);
                }
                self.wait().await;
                self.at_end = false;
            }
            self.look(bus, from.max(self.passed + 1)).await?;
        }
    }

    /// Reads a batch.
    async fn look(&mut self, bus: &Bus, from: u64) -> Result<(), ReadError> {
        // What they tell of is found now, or is stored a moment later.
        while self.hints.next().now_or_never().flatten().is_some() {
            self.pauses.restart();
        }
        // The server takes one filter; of several, what is wanted is picked here.
        let filter = match self.filters.as_slice() {
            [one] => one.as_str(),
            _ => ANY,
        };
        let batch = bus.next_by_subject_batch(self.stream, filter, from, BATCH).await?;
        self.at_end = batch.is_empty();
        if let Some(last) = batch.last() {
            (self.passed, self.told) = (last.seq, false);
            self.pauses.restart();
        }
        let wanted = |message: &RawMessage| {
            self.filters.is_empty() || self.filters.iter().any(|it| matches(it, &message.subject))
        };
        self.ready = batch.into_iter().filter(wanted).collect();
        Ok(())
    }

    /// Until a hint comes, one that came is due again, or it was quiet for long enough.
    async fn wait(&mut self) {
        let pause = self.pauses.next();
        let until = Instant::now() + pause.unwrap_or(QUIET);
        tokio::select! {
            biased;
            hint = self.hints.next() => match hint {
                Some(_) => self.pauses.restart(),
                None => tokio::time::sleep_until(until).await,
            },
            _lost = self.losses.changed() => {}
            () = tokio::time::sleep_until(until) => self.told = pause.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_looks_again_soon_after_opening_and_after_each_hint() {
        let mut pauses = Pauses::default();
        let three = |pauses: &mut Pauses| [(); 3].map(|()| pauses.next());
        assert_eq!(three(&mut pauses), AGAIN.map(Some));
        assert_eq!(pauses.next(), None, "nothing is announced");
        pauses.restart();
        assert_eq!(three(&mut pauses), AGAIN.map(Some));
    }
}
