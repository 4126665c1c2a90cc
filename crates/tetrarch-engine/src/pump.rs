//! Pumps: tasks that pull from the bus or a channel and put into an actor's mailbox. Mailboxes
//! are unbounded, so each message carries a permit of a bounded number, given back when the
//! actor has handled it (spec 01).

use std::sync::Arc;

use tetrarch_bus::inbox::{Inbox, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::session::{Judged, Session};

/// Messages of one inbox that are in its actor's mailbox.
pub(crate) const INBOX_IN_MAILBOX: usize = 64;

/// A place in a mailbox, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Something with its place in a mailbox.
#[derive(Debug)]
pub(crate) struct Placed<T> {
    /// What it is.
    pub(crate) it: T,
    /// Where it is.
    pub(crate) place: Place,
}

/// The places of a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Semaphore>);

impl Places {
    /// A number of places.
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a place; none when the process is ending.
    pub(crate) async fn place<T>(&self, it: T) -> Option<Placed<T>> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        Some(Placed { it, place: Place { _permit: permit } })
    }

    /// Takes a place when one is free.
    pub(crate) fn try_place<T>(&self, it: T) -> Option<Placed<T>> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        Some(Placed { it, place: Place { _permit: permit } })
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(crate) struct Pump(JoinHandle<()>);

impl Pump {
    /// Runs a future until it ends or the pump is dropped.
    pub(crate) fn run(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }

    /// Puts the messages of a session's inbox into its actor's mailbox, each with whether its sender
    /// may write there; `put` says whether it still takes any. What there is to wait for at a
    /// message is waited for here: its actor has more to hear of.
    pub(crate) fn inbox(
        mut inbox: Inbox,
        session: Session,
        put: impl Fn(Placed<Box<Judged>>) -> bool + Send + 'static,
    ) -> Self {
        Self::run(async move {
            let places = Places::new(INBOX_IN_MAILBOX);
            while let Some(incoming) = next(&mut inbox).await {
                let judged = session.judge(incoming).await;
                let Some(placed) = places.place(Box::new(judged)).await else { return };
                if !put(placed) {
                    return;
                }
            }
        })
    }

    /// Puts an inbox's messages into an actor's mailbox as they are, as long as it is waited for.
    pub(crate) async fn pour(mut inbox: Inbox, put: impl Fn(Placed<Box<Incoming>>) -> bool) {
        let places = Places::new(INBOX_IN_MAILBOX);
        while let Some(incoming) = next(&mut inbox).await {
            let Some(placed) = places.place(Box::new(incoming)).await else { return };
            if !put(placed) {
                return;
            }
        }
    }
}

async fn next(inbox: &mut Inbox) -> Option<Incoming> {
    match inbox.next().await {
        Ok(incoming) => Some(incoming),
        Err(error) => {
            tracing::error!(%error, "an inbox cannot be read any more");
            None
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}
