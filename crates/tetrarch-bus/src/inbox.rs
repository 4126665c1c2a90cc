//! A party's inbox: hints wake, the cursor reads (spec 02, Inbox). Subscriptions only say that
//! there may be something; messages are taken from the stream in its order, control before every
//! mail. It moves no cursor: the reader does, with what each message caused.

mod lane;
mod wakeup;

use std::sync::Arc;

use async_nats::Subscriber;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::subject::Subject;
use crate::{stamp, surely};
use lane::LaneReader;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{HostName, Principal};
use tetrarch_core::limits::MESSAGE_ID_BYTES_MAX;
use tetrarch_core::mail::receipt::About;
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::request::Sender;

pub use wakeup::Wakeup;

/// Why an inbox cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// No subscription can be made.
    #[error("cannot subscribe to the inbox of {owner}: {reason}")]
    Subscribe {
        /// Whose inbox.
        owner: String,
        /// What the client said.
        reason: String,
    },
    /// The server refuses to give messages, for good.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

/// A message that came in.
#[derive(Debug)]
pub struct Incoming {
    /// On which lane.
    pub lane: Lane,
    /// Its sequence in `MAIL`: the position of its lane once it is handled.
    pub seq: u64,
    /// Its message id, from which ids of what it causes derive; made of its sequence when it has
    /// none.
    pub id: String,
    /// Its subject.
    pub subject: String,
    /// When the server stored it, in milliseconds since the Unix epoch.
    pub time_unix_ms: u64,
    /// The entry of the ledger it comes from; 0 when it is not the owner's.
    pub ledger_seq: u64,
    /// What it says and who wrote it, or why that cannot be read.
    pub content: Result<(Mail, Sender), CodecError>,
    /// Its bytes as they came, for a dead letter.
    pub payload: bytes::Bytes,
}

impl Incoming {
    /// Which message it is, for its writer; its topic as far as it can be read.
    #[must_use]
    pub fn about(&self) -> About {
        let topic = self.content.as_ref().map_or("", |(mail, _)| mail.body.topic());
        let cut = |text: &str| text.chars().take(MESSAGE_ID_BYTES_MAX / 4).collect();
        About { seq: self.seq, message: cut(&self.id), topic: cut(topic) }
    }

    /// Who wrote it, and the host that published it, as its subject says; none when that is no mail.
    #[must_use]
    pub fn writer(&self) -> Option<(Principal, Option<HostName>)> {
        let subject: Subject = self.subject.parse().ok()?;
        let (from, via) = subject.sender()?;
        Some((from.clone(), via.cloned()))
    }
}

/// One party's inbox.
#[derive(Debug)]
pub struct Inbox {
    bus: Bus,
    ctl: LaneReader,
    mail: LaneReader,
    ctl_hints: Subscriber,
    mail_hints: Subscriber,
    woken: watch::Receiver<u64>,
    hold: Option<watch::Receiver<bool>>,
    /// Keeps the signal open when the watch has ended.
    _signal: Arc<watch::Sender<u64>>,
    retry: crate::retry::Retry,
}

impl Inbox {
    /// Opens an inbox behind what is handled already. `wakeup` is this connection's one watch
    /// over `MAIL`; a position beyond the end of the stream is set back to its end.
    ///
    /// # Errors
    /// See [`InboxError`].
    pub async fn open(
        wakeup: &Wakeup,
        owner: &Principal,
        positions: Positions,
    ) -> Result<Self, InboxError> {
        let bus = wakeup.bus().clone();
        let positions = wakeup.within(owner, positions).await?;
        let ctl_hints = hints(&bus, Lane::Ctl, owner).await?;
        let mail_hints = hints(&bus, Lane::Mail, owner).await?;
        Ok(Self {
            ctl: LaneReader::new(Lane::Ctl, owner, positions.ctl, wakeup.progress()),
            mail: LaneReader::new(Lane::Mail, owner, positions.mail, wakeup.progress()),
            ctl_hints,
            mail_hints,
            woken: wakeup.signal().subscribe(),
            hold: None,
            _signal: wakeup.signal(),
            retry: surely::policy(None),
            bus,
        })
    }

    /// The same, giving control only while `hold` is true: mail stays where it is.
    #[must_use]
    pub fn held_by(self, hold: watch::Receiver<bool>) -> Self {
        Self { hold: Some(hold), ..self }
    }

    /// The next message, control before mail. Waits for one, also while the bus is away. Safe to
    /// drop: nothing is lost. What the owner sent again is left out.
    ///
    /// # Errors
    /// The server refuses to give messages, for good.
    pub async fn next(&mut self) -> Result<Incoming, InboxError> {
        loop {
            self.take_hints();
            if let Some(message) = self.ctl.pop() {
                return Ok(incoming(Lane::Ctl, message));
            }
            let held = self.hold.as_mut().is_some_and(|hold| *hold.borrow_and_update());
            if !held
                && !self.ctl.is_due()
                && let Some(message) = self.mail.pop()
            {
                return Ok(incoming(Lane::Mail, message));
            }
            let lane = if held || self.ctl.is_due() { &mut self.ctl } else { &mut self.mail };
            if !lane.is_due() {
                self.wait(held).await?;
                continue;
            }
            match lane.read(&self.bus).await {
                Ok(()) => self.retry.reset(),
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "reading the inbox again");
                    self.retry.pause().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_hints(&mut self) {
        while let Some(Some(hint)) = self.ctl_hints.next().now_or_never() {
            self.ctl.announced(&hint);
        }
        while let Some(Some(hint)) = self.mail_hints.next().now_or_never() {
            self.mail.announced(&hint);
        }
        if self.woken.has_changed().unwrap_or(false) {
            self.woken.mark_unchanged();
            self.ctl.wake();
            self.mail.wake();
        }
    }

    /// Waits until there may be something to read.
    async fn wait(&mut self, held: bool) -> Result<(), InboxError> {
        let closed = || ReadError::Unanswered {
            what: "the inbox".to_owned(),
            reason: "the connection was closed".to_owned(),
        };
        let of_mail = self.mail.read_again_at().filter(|_| !held);
        let again = [self.ctl.read_again_at(), of_mail];
        let again = again.into_iter().flatten().min();
        tokio::select! {
            hint = self.ctl_hints.next() => self.ctl.announced(&hint.ok_or_else(closed)?),
            hint = self.mail_hints.next() => self.mail.announced(&hint.ok_or_else(closed)?),
            changed = self.woken.changed() => {
                changed.map_err(|_| closed())?;
                self.ctl.wake();
                self.mail.wake();
            }
            () = until(again) => {}
            () = changed(&mut self.hold) => {}
        }
        Ok(())
    }
}

/// Waits until mail is held back or given again; for ever when nobody does either.
async fn changed(hold: &mut Option<watch::Receiver<bool>>) {
    let gone = match hold {
        Some(hold) => hold.changed().await.is_err(),
        None => true,
    };
    if gone {
        std::future::pending().await
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn hints(bus: &Bus, lane: Lane, owner: &Principal) -> Result<Subscriber, InboxError> {
    let pattern = Subject::inbox(lane, owner);
    bus.client.subscribe(pattern).await.map_err(|error| InboxError::Subscribe {
        owner: owner.to_string(),
        reason: error.to_string(),
    })
}

pub(crate) fn incoming(lane: Lane, message: RawMessage) -> Incoming {
    let id =
        stamp::message_id(&message.headers).map_or_else(|| message.seq.to_string(), str::to_owned);
    let ledger_seq = stamp::ledger_seq(&message);
    let content = codec::decode_mail(&message.subject, &message.headers, &message.payload);
    Incoming {
        lane,
        seq: message.seq,
        id,
        subject: message.subject,
        time_unix_ms: message.time_unix_ms,
        ledger_seq,
        content,
        payload: message.payload,
    }
}
