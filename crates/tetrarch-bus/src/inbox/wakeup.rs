//! The watch over `MAIL` that all inboxes of one connection share: after a reconnect, and once a
//! minute when the stream moved past what hints explained, it wakes them all (spec 02, Inbox).
//! It reads no mail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::Statistics;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::InboxError;
use crate::client::Bus;
use crate::error::ReadError;
use crate::subject::pattern::MAIL;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::Principal;

/// How often a reconnect is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// How often the stream's last sequence is compared.
const COMPARE: Duration = Duration::from_secs(60);

/// One connection's watch over `MAIL`. Dropping it ends the watch; inboxes go on with hints only.
#[derive(Debug)]
pub struct Wakeup {
    bus: Bus,
    signal: Arc<watch::Sender<u64>>,
    progress: Arc<AtomicU64>,
    last: Arc<AtomicU64>,
    watch: JoinHandle<()>,
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Wakeup {
    /// Starts the watch, as a task of the current runtime.
    #[must_use]
    pub fn start(bus: Bus) -> Self {
        let signal = Arc::new(watch::Sender::new(0));
        let progress = Arc::new(AtomicU64::new(0));
        let last = Arc::new(AtomicU64::new(0));
        let watch = tokio::spawn(keep_awake(
            bus.clone(),
            Arc::clone(&signal),
            Arc::clone(&progress),
            Arc::clone(&last),
        ));
        Self { bus, signal, progress, last, watch }
    }

    /// Has every inbox of this connection read, whether or not a hint came.
    pub fn nudge(&self) {
        nudge(&self.signal);
    }

    pub(super) fn bus(&self) -> &Bus {
        &self.bus
    }

    pub(super) fn signal(&self) -> Arc<watch::Sender<u64>> {
        Arc::clone(&self.signal)
    }

    pub(super) fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.progress)
    }

    /// Positions that the stream has: one beyond its end is set back there, as the stream was made
    /// anew or lost messages.
    ///
    /// # Errors
    /// The server refuses to tell its end.
    pub async fn within(
        &self,
        owner: &Principal,
        positions: Positions,
    ) -> Result<Positions, InboxError> {
        let highest = positions.mail.max(positions.ctl);
        if highest <= self.last.load(Ordering::Relaxed) {
            return Ok(positions);
        }
        let last = self.bus.stream_last_seq(MAIL).await?;
        self.last.fetch_max(last, Ordering::Relaxed);
        if highest > last {
            tracing::error!(%owner, highest, last, "the inbox is read beyond the end of the stream");
        }
        Ok(Positions { mail: positions.mail.min(last), ctl: positions.ctl.min(last) })
    }
}

fn nudge(signal: &watch::Sender<u64>) {
    signal.send_modify(|count| *count += 1);
}

async fn keep_awake(
    bus: Bus,
    signal: Arc<watch::Sender<u64>>,
    progress: Arc<AtomicU64>,
    last: Arc<AtomicU64>,
) {
    let statistics = bus.client.statistics();
    let mut connects = connected(&statistics);
    let mut compare_at = Instant::now() + COMPARE;
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = connected(&statistics);
        if now != connects {
            connects = now;
            nudge(&signal);
        }
        if Instant::now() < compare_at {
            continue;
        }
        compare_at = Instant::now() + COMPARE;
        match bus.stream_last_seq(MAIL).await {
            Ok(found) => {
                let before = last.fetch_max(found, Ordering::Relaxed);
                if found > before.max(progress.load(Ordering::Relaxed)) {
                    nudge(&signal);
                }
            }
            Err(error @ (ReadError::Unanswered { .. } | ReadError::Malformed { .. })) => {
                tracing::debug!(%error, "MAIL could not be compared");
            }
            Err(error @ ReadError::Refused { .. }) => {
                tracing::warn!(%error, "MAIL could not be compared");
            }
        }
    }
}

fn connected(statistics: &Statistics) -> u64 {
    statistics.connects.load(Ordering::Relaxed)
}
