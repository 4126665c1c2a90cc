//! Pumps: tasks that pull from the bus or a channel and put into an actor's mailbox. Mailboxes
//! are unbounded, so each message carries a permit of a bounded number, given back when the
//! actor has handled it (spec 01).

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, Message};
use tetrarch_bus::inbox::{Inbox, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::error::{EngineError, EngineResult};
use crate::session::{CheckedMessage, Session};

/// Messages of one inbox that are in its actor's mailbox.
pub(crate) const INBOX_IN_MAILBOX: usize = 64;

/// A place in a mailbox, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MailboxPermit {
    _permit: OwnedSemaphorePermit,
}

/// Something with its place in a mailbox.
#[derive(Debug)]
pub(crate) struct WithPermit<T> {
    /// What it is.
    pub(crate) item: T,
    /// Where it is.
    pub(crate) permit: MailboxPermit,
}

/// What comes from the bus into a mailbox, or why nothing does any more: an actor ends with that.
pub(crate) type FromBus<T> = EngineResult<WithPermit<Box<T>>>;

/// The places of a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct MailboxSlots(Arc<Semaphore>);

impl MailboxSlots {
    /// A number of places.
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a place; none when the process is ending.
    pub(crate) async fn reserve<T>(&self, item: T) -> Option<WithPermit<T>> {
        self.reserve_many(item, 1).await
    }

    /// Waits for some places, at most for all there are; none when the process is ending.
    pub(crate) async fn reserve_many<T>(&self, item: T, places: u32) -> Option<WithPermit<T>> {
        let permit = Arc::clone(&self.0).acquire_many_owned(places).await.ok()?;
        Some(WithPermit { item, permit: MailboxPermit { _permit: permit } })
    }

    /// Takes a place when one is free.
    pub(crate) fn try_reserve<T>(&self, item: T) -> Option<WithPermit<T>> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        Some(WithPermit { item, permit: MailboxPermit { _permit: permit } })
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

    /// Sends an actor a message after a while.
    pub(crate) fn after<M: Message>(wait: Duration, to: ActorRef<M>, message: M) -> Self {
        Self::run(async move {
            tokio::time::sleep(wait).await;
            // An actor that ended needs no timer.
            let _ended = to.cast(message);
        })
    }

    /// Opens a session's inbox and puts its messages into its actor's mailbox, each with whether its sender
    /// may write there; `put` says whether it still takes any. What there is to wait for at a
    /// message is waited for here: its actor has more to hear of. An inbox that cannot be read any
    /// more is the last that is put.
    pub(crate) fn inbox(
        opening: impl Future<Output = EngineResult<Inbox>> + Send + 'static,
        session: Session,
        put: impl Fn(FromBus<CheckedMessage>) -> bool + Send + 'static,
    ) -> Self {
        Self::run(async move {
            let slots = MailboxSlots::new(INBOX_IN_MAILBOX);
            let mut inbox = match opening.await {
                Ok(inbox) => inbox,
                Err(error) => {
                    put(Err(error));
                    return;
                }
            };
            loop {
                let judged = match inbox.next().await {
                    Ok(incoming) => session.judge(incoming).await,
                    Err(error) => {
                        put(Err(error.into()));
                        return;
                    }
                };
                let Some(placed) = slots.reserve(Box::new(judged)).await else { return };
                if !put(Ok(placed)) {
                    return;
                }
            }
        })
    }

    /// Puts an inbox's messages into an actor's mailbox as they are, as long as it is waited for and
    /// the actor takes them.
    ///
    /// # Errors
    /// The inbox cannot be read any more.
    pub(crate) async fn pour(
        mut inbox: Inbox,
        put: impl Fn(WithPermit<Box<Incoming>>) -> bool,
    ) -> EngineResult {
        let slots = MailboxSlots::new(INBOX_IN_MAILBOX);
        loop {
            let incoming = Box::new(inbox.next().await?);
            let Some(placed) = slots.reserve(incoming).await else { return Ok(()) };
            if !put(placed) {
                return Ok(());
            }
        }
    }

    /// The same, whose owner cannot go on without it: it is told when it ends by itself, and why.
    pub(crate) fn or_ends<T: Send + 'static>(
        mut self,
        name: &'static str,
        owner: &mpsc::Sender<EngineResult<T>>,
    ) -> Self {
        let owner = owner.clone();
        Self::run(async move {
            let why = match (&mut self.0).await {
                Ok(()) => "it ended".to_owned(),
                Err(panicked) => panicked.to_string(),
            };
            // It may have said better why, or its owner have ended.
            let _ended = owner.try_send(Err(EngineError::ActorDied(name.to_owned(), why)));
        })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    async fn told(pump: impl Future<Output = ()> + Send + 'static) -> String {
        let (owner, mut told) = mpsc::channel::<EngineResult>(1);
        let _watched = Pump::run(pump).or_ends("sweeper", &owner);
        told.recv().await.unwrap().unwrap_err().to_string()
    }

    #[tokio::test]
    async fn required_pump_reports_its_end_however_it_ends() {
        assert_eq!(told(async {}).await, "actor sweeper failed: it ended");
        let panicked = told(async { panic!("on purpose") }).await;
        assert!(panicked.contains("panicked"), "{panicked}");
    }

    #[tokio::test]
    async fn pump_ends_with_its_owner_even_when_required() {
        let (owner, mut told) = mpsc::channel::<EngineResult>(1);
        let (held, gone) = oneshot::channel::<()>();
        let pump = Pump::run(async move {
            let _held = held;
            std::future::pending().await
        });
        drop(pump.or_ends("sweeper", &owner));
        gone.await.unwrap_err();
        drop(owner);
        assert!(told.recv().await.is_none(), "nobody is told of what ends with its owner");
    }
}
