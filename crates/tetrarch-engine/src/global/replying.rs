//! Answers to requests that only read the records: they stand in no entry and are sent beside the outbox.
//! Decides nothing.

use std::sync::Arc;

use tetrarch_bus::Bus;
use tetrarch_bus::outbox;
use tetrarch_core::mail::Mail;
use tokio::sync::Semaphore;

/// Batches of answers that are on their way at once.
const BATCHES_MAX: usize = 64;

/// Sends answers.
#[derive(Debug, Clone)]
pub(super) struct Replying {
    bus: Bus,
    epoch: u64,
    places: Arc<Semaphore>,
}

impl Replying {
    /// In the name of the owner of this epoch.
    pub(super) fn new(bus: Bus, epoch: u64) -> Self {
        Self { bus, epoch, places: Arc::new(Semaphore::new(BATCHES_MAX)) }
    }

    /// Sends them, each with the sequence of its request, beside everything else. When the bus takes none for long, they are dropped: nothing was
    /// decided, and whoever asked asks again.
    pub(super) fn send(&self, answers: Vec<(u64, Mail)>) {
        if answers.is_empty() {
            return;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!(
                count = answers.len(),
                "answers are dropped: the bus does not accept them"
            );
            return;
        };
        let (bus, epoch) = (self.bus.clone(), self.epoch);
        drop(tokio::spawn(async move {
            if let Err(error) = outbox::reply(&bus, &answers, epoch).await {
                tracing::error!(%error, "sending an answer failed");
            }
            drop(place);
        }));
    }
}
