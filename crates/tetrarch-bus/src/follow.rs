//! Reading a stream from a position on, in order, through everything that may happen to the
//! consumer: lost heartbeats, gaps, reconnects, and a consumer that is silently dead. The
//! position is the reader's own, so nothing is acknowledged (spec 02). Whoever may not make a consumer
//! reads in batches and is woken by hints, which is in `reading`. It does not look into
//! what it reads, and gives up never: whoever does not want to wait drops the future.

mod reading;

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Bus, RawMessage};
use crate::error::ReadError;
use crate::retry::Retry;
use crate::subject::pattern;
use reading::BatchReader;

/// Messages asked for at once; half as many are always on their way.
const BATCH: usize = 1_000;
/// How often the server says that a pull is still waiting; twice that without a word is a loss.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long one pull waits.
const EXPIRES: Duration = Duration::from_secs(30);
/// How long the server keeps a consumer that nobody reads.
const ABANDONED: Duration = Duration::from_secs(30);
/// Messages read in the careful way after one that broke a connection: where one is there are more,
/// and a new connection costs more than all of these.
const CAREFUL: u32 = 64;
/// Silence after which the position is compared with the stream's last sequence.
const QUIET: Duration = Duration::from_secs(5);

/// What one step of reading gave.
#[derive(Debug)]
pub(crate) enum FollowStep {
    /// The next message, and how many more the server had when it sent it: a hint, since it counts what is
    /// deleted meanwhile, so that 0 may never come.
    Message { message: RawMessage, pending: u64 },
    /// There is nothing from the position on: when the consumer was made, or after a silence.
    Nothing,
}

/// A reader with a position of its own.
#[derive(Debug)]
pub(crate) struct StreamFollower {
    bus: Bus,
    stream: &'static str,
    filters: Vec<String>,
    next: u64,
    /// The stream's last sequence when nothing waited. A replica that serves the consumer may lag
    /// behind it, so it is no position.
    quiet_at: u64,
    live: Option<Live>,
    /// How it reads without a consumer.
    reading: Option<BatchReader>,
    /// So many of the next messages may break the connection they come on.
    suspect: u32,
    retry: Retry,
    look_at: Instant,
}

struct Live {
    messages: pull::Stream,
    losses: watch::Receiver<u64>,
    delivered: u64,
    /// Deletes the consumer once nobody reads it.
    _guard: ConsumerGuard,
}

/// A consumer's place on the server. The server would keep it for a while, and thousands of them
/// slow down every publish to their stream.
struct ConsumerGuard {
    client: async_nats::Client,
    delete: String,
}

impl Drop for ConsumerGuard {
    fn drop(&mut self) {
        let (client, delete) = (self.client.clone(), std::mem::take(&mut self.delete));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Should it be lost, the server forgets the consumer by itself.
            drop(runtime.spawn(async move { client.publish(delete, Bytes::new()).await }));
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("delivered", &self.delivered).finish_non_exhaustive()
    }
}

impl StreamFollower {
    /// Reads `stream` from sequence `from` on; all of it when there are no filters. Nothing is
    /// asked of the server before the first step.
    pub(crate) fn new(bus: Bus, stream: &'static str, filters: Vec<String>, from: u64) -> Self {
        Self {
            bus,
            stream,
            filters,
            next: from.max(1),
            quiet_at: 0,
            live: None,
            reading: None,
            suspect: 0,
            retry: Retry::new(Duration::from_millis(50), Duration::from_secs(2), None),
            look_at: Instant::now() + QUIET,
        }
    }

    /// The next message. Safe to drop: nothing is lost.
    pub(crate) async fn next(&mut self) -> RawMessage {
        loop {
            if let FollowStep::Message { message, .. } = self.step().await {
                return message;
            }
        }
    }

    /// The next message if it has already arrived.
    pub(crate) fn arrived(&mut self) -> Option<RawMessage> {
        loop {
            let item = self.live.as_mut()?.messages.next().now_or_never()?;
            match item {
                Some(Ok(message)) => {
                    if let Some((message, _)) = self.take(&message) {
                        return Some(message);
                    }
                }
                Some(Err(error)) => self.lose(&error.to_string()),
                None => self.lose("the consumer's stream ended"),
            }
        }
    }

    /// The next message, or that there is none now. Safe to drop.
    pub(crate) async fn step(&mut self) -> FollowStep {
        loop {
            let asked = std::time::Instant::now();
            if self.suspect > 0 {
                match self.read_suspect().await {
                    Ok(Some(message)) => return FollowStep::Message { message, pending: 1 },
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(stream = self.stream, %error, "cannot read; trying again");
                        self.bus.note_ask(asked, !error.is_passing()).await;
                        self.retry.pause().await;
                    }
                }
                continue;
            }
            if !self.bus.consumes() {
                if let Some(step) = self.read().await {
                    return step;
                }
                continue;
            }
            let Some(live) = &mut self.live else {
                match self.build().await {
                    Ok(0) => return FollowStep::Nothing,
                    Ok(_) => {
                        self.bus.note_ask(asked, true).await;
                        continue;
                    }
                    Err(reason) => {
                        tracing::warn!(stream = self.stream, reason, "cannot read; trying again");
                        self.bus.note_ask(asked, false).await;
                        self.retry.pause().await;
                        continue;
                    }
                }
            };
            tokio::select! {
                biased;
                message = live.messages.next() => match message {
                    Some(Ok(message)) => {
                        if let Some((message, pending)) = self.take(&message) {
                            return FollowStep::Message { message, pending };
                        }
                    }
                    Some(Err(error)) => self.lose(&error.to_string()),
                    None => self.lose("the consumer's stream ended"),
                },
                lost = live.losses.changed() => {
                    // Without a sender there is no connection to lose; the stream says so itself.
                    if lost.is_ok() {
                        self.lose("the connection was lost");
                    }
                }
                () = tokio::time::sleep_until(self.look_at) => {
                    if self.is_at_the_end().await {
                        return FollowStep::Nothing;
                    }
                }
            }
        }
    }

    /// Reads the message at the position in the one way that no message can break.
    async fn read_suspect(&mut self) -> Result<Option<RawMessage>, ReadError> {
        let found = self.bus.next_as_text(self.stream, &self.filters, self.next).await?;
        self.suspect = match &found {
            Some((_, true)) => CAREFUL,
            Some((_, false)) => self.suspect.saturating_sub(1),
            None => 0,
        };
        Ok(found.map(|(message, _)| {
            self.next = message.seq + 1;
            message
        }))
    }

    /// Reads on without a consumer; none when that failed and is to be tried again.
    async fn read(&mut self) -> Option<FollowStep> {
        let asked = std::time::Instant::now();
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => match BatchReader::open(&self.bus, self.stream, &self.filters).await {
                Ok(reading) => self.reading.insert(reading),
                Err(error) => {
                    tracing::warn!(stream = self.stream, %error, "cannot read; trying again");
                    self.retry.pause().await;
                    return None;
                }
            },
        };
        match reading.step(&self.bus, self.next).await {
            Ok(step) => {
                if let FollowStep::Message { message, .. } = &step {
                    self.next = message.seq + 1;
                }
                self.retry.reset();
                Some(step)
            }
            Err(error) => {
                tracing::debug!(stream = self.stream, %error, next = self.next, "reading again");
                self.bus.note_ask(asked, !error.is_passing()).await;
                self.suspect = self.suspect.max(1);
                self.retry.pause().await;
                None
            }
        }
    }

    /// Makes a consumer at the position; gives how many messages wait there.
    async fn build(&mut self) -> Result<u64, String> {
        let losses = self.bus.losses();
        let last = self.last().await.map_err(|error| error.to_string())?;
        let handle =
            self.bus.js.get_stream_no_info(self.stream).await.map_err(|error| error.to_string())?;
        let consumer = handle
            .create_consumer(pull::Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.next },
                ack_policy: AckPolicy::None,
                filter_subjects: self.filters.clone(),
                inactive_threshold: ABANDONED,
                memory_storage: true,
                num_replicas: 1,
                ..pull::Config::default()
            })
            .await
            .map_err(|error| error.to_string())?;
        let pending = consumer.cached_info().num_pending;
        let name = &consumer.cached_info().name;
        let delete = pattern::consumer_delete(self.bus.api_prefix(), self.stream, name);
        let guard = ConsumerGuard { client: self.bus.client.clone(), delete };
        let messages = consumer
            .stream()
            .max_messages_per_batch(BATCH)
            .heartbeat(HEARTBEAT)
            .expires(EXPIRES)
            .messages()
            .await
            .map_err(|error| error.to_string())?;
        if pending == 0 {
            self.quiet_at = last;
        }
        self.live = Some(Live { messages, losses, delivered: 0, _guard: guard });
        self.retry.reset();
        self.look_at = Instant::now() + QUIET;
        Ok(pending)
    }

    /// Accepts a message at the position; none when it shows that one before it was lost.
    fn take(&mut self, message: &Message) -> Option<(RawMessage, u64)> {
        let (stored, delivered, pending) = match raw(message) {
            Ok(parts) => parts,
            Err(reason) => {
                self.lose(&reason);
                return None;
            }
        };
        let live = self.live.as_mut()?;
        if delivered != live.delivered + 1 || stored.seq < self.next {
            self.lose("a message was lost on the way");
            return None;
        }
        live.delivered = delivered;
        self.next = stored.seq + 1;
        self.look_at = Instant::now() + QUIET;
        Some((stored, pending))
    }

    fn lose(&mut self, reason: &str) {
        tracing::debug!(stream = self.stream, reason, next = self.next, "rebuilding a consumer");
        self.live = None;
        self.suspect = self.suspect.max(1);
    }

    /// Whether silence means that there is nothing to read: with filters the stream's last sequence
    /// says nothing, as others' messages move it. Else the consumer is made anew.
    async fn is_at_the_end(&mut self) -> bool {
        match self.missed().await {
            Ok(false) => {
                self.look_at = Instant::now() + QUIET;
                return true;
            }
            Ok(true) => self.lose("nothing came although there is more to read"),
            Err(error) => self.lose(&error.to_string()),
        }
        false
    }

    async fn missed(&mut self) -> Result<bool, ReadError> {
        let last = self.last().await?;
        if last < self.next || last <= self.quiet_at {
            return Ok(false);
        }
        if self.filters.is_empty() {
            return Ok(true);
        }
        let next = self.bus.next_as_text(self.stream, &self.filters, self.next).await?;
        if next.is_none() {
            self.quiet_at = last;
        }
        Ok(next.is_some())
    }

    async fn last(&self) -> Result<u64, ReadError> {
        self.bus.stream_last_seq(self.stream).await
    }
}

fn raw(message: &Message) -> Result<(RawMessage, u64, u64), String> {
    let info = message.info().map_err(|error| error.to_string())?;
    let millis = info.published.unix_timestamp_nanos() / 1_000_000;
    let stored = RawMessage {
        seq: info.stream_sequence,
        subject: message.subject.to_string(),
        headers: message.headers.clone().unwrap_or_default(),
        payload: message.payload.clone(),
        time_unix_ms: u64::try_from(millis).unwrap_or(0),
    };
    Ok((stored, info.consumer_sequence, info.pending))
}
