//! The outbox: what a committed entry makes visible, each class acknowledged before the next (spec
//! 02, Outbox): seals, then control that needs them, mail beside both; plan events; then STATE and
//! how far it got. The three parts work side by side, so that nobody's mail waits for plan events or
//! images of earlier entries (docs/decisions/0008). Every class may be repeated from any entry
//! on, by this owner or the next one, and ends in the same. It decides nothing and reads the
//! entries only.

mod image;
mod pending;
mod plan;
mod post;
mod seal;

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

use crate::client::Bus;
use crate::codec::CodecError;
use crate::error::{PublishError, ReadError};
use crate::state::{OwnerMeta, Revisions};
use crate::subject::Subject;
use crate::subject::pattern::CURSORS;
use crate::surely;
use pending::PendingImages;
pub use plan::PlanTips;
use plan::Tip;
pub use seal::{JournalEnd, end_journal};
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::mail::{Duty, Lane, Mail, MailBody};
use tetrarch_failpoint::{Failpoint, reach_if};

/// Publishes of one class that are on their way at once.
const IN_FLIGHT: usize = 512;
/// Purges that are on their way at once: each is work for the server.
const PURGES_IN_FLIGHT: usize = 8;

/// Why a batch is not out. Whatever of it is out stays; the whole batch is sent again from its
/// first entry on.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The server refuses something for good.
    #[error("cannot publish the outbox: {0}; it is sent again from its first entry")]
    Refused(#[from] PublishError),
    /// What a refusal named cannot be read, for good.
    #[error(
        "cannot read what the outbox conflicts with: {0}; it is sent again from its first entry"
    )]
    Unreadable(#[from] ReadError),
    /// Something in an entry cannot be encoded.
    #[error("cannot encode an entry of the outbox: {0}; run the version of tetrarch that wrote it")]
    Encoding(#[from] CodecError),
}

/// The first part of the owner's outbox: seals, orders and mail.
#[derive(Debug)]
pub struct Announcer {
    bus: Bus,
}

/// The second part of the owner's outbox: plan events.
#[derive(Debug)]
pub struct PlanPublisher {
    bus: Bus,
    tips: HashMap<String, Tip>,
}

/// The third part of the owner's outbox: what anybody may look up.
#[derive(Debug)]
pub struct Recorder {
    bus: Bus,
    created: String,
    server: String,
    revisions: Revisions,
    pending: PendingImages,
}

impl Announcer {
    /// The first part of a new owner's outbox.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    /// Sends the seals, orders and mail of these valid entries, in the ledger's order and
    /// each with its sequence. Waits while the bus is away; dropping it leaves nothing that
    /// repeating it does not repair.
    ///
    /// # Errors
    /// See [`OutboxError`]; the caller sends the whole batch again.
    pub async fn announce(&self, entries: &[(u64, Arc<Entry>)]) -> Result<(), OutboxError> {
        let (orders, mail): (Vec<_>, Vec<_>) =
            post::messages(entries)?.into_iter().partition(|message| message.lane == Lane::Ctl);
        let sealed = async {
            self.seals(entries).await?;
            reach_if(Failpoint::SealsPublished, || launch_runs(entries));
            self.send(orders).await
        };
        // Only orders need seals.
        futures::try_join!(sealed, self.send(mail))?;
        reach_if(Failpoint::LaunchPublished, || launch_runs(entries));
        Ok(())
    }

    async fn seals(&self, entries: &[(u64, Arc<Entry>)]) -> Result<(), OutboxError> {
        let lines = by_line(entries.iter().flat_map(|(_, entry)| {
            let seals = entry.seals.iter().filter(|seal| !seal.is_of_new(&entry.mail));
            seals.map(|seal| (seal.agent.clone(), seal.clone()))
        }));
        let bus = &self.bus;
        run(lines.into_iter().map(|seals| {
            let bus = bus.clone();
            async move {
                for order in &seals {
                    seal::seal(&bus, order).await?;
                }
                Ok(())
            }
        }))
        .await
    }

    /// One at a time to each recipient and lane, so that what a recipient gets only grows, also
    /// when one of them is lost or refused; recipients side by side.
    async fn send(&self, messages: Vec<post::OutboxMessage>) -> Result<(), OutboxError> {
        let lines = by_line(messages.into_iter().map(|message| (message.subject.clone(), message)));
        let bus = &self.bus;
        run(lines.into_iter().map(|messages| {
            let bus = bus.clone();
            async move {
                for message in &messages {
                    post::send(&bus, message).await?;
                }
                Ok(())
            }
        }))
        .await
    }
}

impl PlanPublisher {
    /// The second part of a new owner's outbox.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus, tips: HashMap::new() }
    }

    /// Publishes the plan events of these announced entries: one at a time for each epic, epics side by side.
    /// Waits while the bus is away.
    ///
    /// # Errors
    /// See [`OutboxError`]; the caller sends the whole batch again, from its announcement on.
    pub async fn publish(&mut self, entries: &[(u64, Arc<Entry>)]) -> Result<(), OutboxError> {
        let lines =
            by_line(plan::notices(entries)?.into_iter().map(|notice| (notice.epic, notice)));
        let bus = &self.bus;
        let tips = &self.tips;
        let moved: Vec<Vec<(String, Tip)>> = stream::iter(lines.into_iter().map(|notices| {
            let bus = bus.clone();
            let known: Vec<Option<Tip>> =
                notices.iter().map(|notice| tips.get(&notice.subject).copied()).collect();
            plan::publish_line(bus, notices, known)
        }))
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await?;
        self.tips.extend(moved.into_iter().flatten());
        for key in entries.iter().flat_map(|(_, entry)| &entry.dropped) {
            if let RecordKey::Plan(epic) = key {
                for subject in plan::subjects(*epic) {
                    self.tips.remove(&subject);
                }
            }
        }
        reach_if(Failpoint::PlanPublished, || {
            entries.iter().any(|(_, entry)| !entry.plans.is_empty())
        });
        Ok(())
    }
}

/// Sends answers to what only read the records: each once, as its request names it. Waits while the bus is
/// away.
///
/// # Errors
/// See [`OutboxError`]. One that cannot be encoded does not keep the others back.
pub async fn reply(bus: &Bus, answers: &[(u64, Mail)], epoch: u64) -> Result<(), OutboxError> {
    let (mut messages, mut failed) = (Vec::with_capacity(answers.len()), None);
    for (asked, mail) in answers {
        match post::answer(*asked, mail, epoch) {
            Ok(message) => messages.push(message),
            Err(error) => failed = Some(error),
        }
    }
    run(messages.into_iter().map(|message| {
        let bus = bus.clone();
        async move { post::send(&bus, &message).await }
    }))
    .await?;
    failed.map_or(Ok(()), Err)
}

/// A key of STATE that is not what the ledger says.
#[derive(Debug, Clone)]
pub struct StateRepair {
    /// Its subject.
    pub subject: String,
    /// What it has to hold, with the sequence of the entry that wrote it; none when the ledger knows
    /// nothing of it.
    pub known: Option<(Record, u64)>,
}

/// Writes these keys of STATE as the ledger has them. `through`: the ledger's last sequence. The
/// revisions follow; a key that somebody else writes meanwhile is left to them.
///
/// # Errors
/// See [`OutboxError`].
pub async fn repair(
    bus: &Bus,
    repairs: Vec<StateRepair>,
    through: u64,
    revisions: &mut Revisions,
) -> Result<(), OutboxError> {
    let stored: Vec<(String, Option<u64>)> = stream::iter(repairs.into_iter().map(|repair| {
        let expect = revisions.get(&repair.subject).copied().unwrap_or(0);
        let bus = bus.clone();
        async move {
            let StateRepair { subject, known } = repair;
            let stored = image::repair(&bus, &subject, known.as_ref(), through, expect).await?;
            Ok::<_, OutboxError>((subject, stored.filter(|_| known.is_some())))
        }
    }))
    .buffer_unordered(IN_FLIGHT)
    .try_collect()
    .await?;
    for (subject, revision) in stored {
        match revision {
            Some(revision) => drop(revisions.insert(subject, revision)),
            // It is found out again should it ever come back.
            None => drop(revisions.remove(&subject)),
        }
    }
    Ok(())
}

/// Writes STATE's own record over what stands there, whatever that says. The revisions follow.
///
/// # Errors
/// See [`OutboxError`]; somebody else wrote it meanwhile.
pub async fn settle(
    bus: &Bus,
    meta: &OwnerMeta,
    revisions: &mut Revisions,
) -> Result<(), OutboxError> {
    let image = image::meta(meta);
    let expect = revisions.get(&image.subject).copied().unwrap_or(0);
    let (subject, revision) = image::over(bus, image, expect).await?;
    revisions.insert(subject, revision);
    Ok(())
}

impl Recorder {
    /// The third part of a new owner's outbox. It knows the revisions of STATE as they were
    /// loaded; unknown ones are found out. `ledger_created` is when the server says the ledger
    /// was made, for the amnesia guard; `server` the start of the server that STATE was loaded from.
    #[must_use]
    pub fn new(bus: Bus, revisions: Revisions, ledger_created: String, server: String) -> Self {
        let pending = PendingImages::default();
        Self { bus, created: ledger_created, server, revisions, pending }
    }

    /// When an image that waits is to be written, whatever comes; none when none waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.pending.next_due()
    }

    /// Writes the images of these entries, whose plan events are published, of each record the last one, with those that waited
    /// and are due, and how far everything is out; gives that sequence when it moved. Waits while the bus is
    /// away.
    ///
    /// # Errors
    /// See [`OutboxError`]; the caller sends the whole batch again, from its announcement on.
    pub async fn record(
        &mut self,
        entries: &[(u64, Arc<Entry>)],
        now: Instant,
    ) -> Result<Option<u64>, OutboxError> {
        self.pending.add(entries, now);
        let mut images = image::markers(entries)?;
        for (key, pending) in self.pending.take_due(now) {
            images.push(image::of(key, pending.ledger, pending.record())?);
        }
        self.state(images).await?;
        self.forget(entries).await?;
        reach_if(Failpoint::StateRecorded, || launch_runs(entries));
        let Some(newest) = self.pending.pass() else { return Ok(None) };
        let meta = OwnerMeta {
            outbox_through: newest.seq,
            intake_seq: newest.intake_seq,
            owner_epoch: newest.epoch,
            ledger_created: self.created.clone(),
            ledger_high: newest.seq,
            server: self.server.clone(),
        };
        self.state(vec![image::meta(&meta)]).await?;
        reach_if(Failpoint::ThroughRecorded, || launch_runs(entries));
        Ok(Some(newest.seq))
    }

    /// Nobody fences for an agent that is not known any more, so its cursor goes too. The revisions
    /// of what is dropped are found out again should it ever come back.
    async fn forget(&mut self, entries: &[(u64, Arc<Entry>)]) -> Result<(), OutboxError> {
        let dropped = entries.iter().flat_map(|(_, entry)| &entry.dropped);
        let mut cursors = Vec::new();
        for key in dropped {
            if let RecordKey::Agent(agent) = key {
                cursors.push(Subject::Cursor(agent.clone()).to_string());
            }
            self.revisions.remove(&Subject::State(key.clone()).to_string());
        }
        let bus = &self.bus;
        let purged = cursors.into_iter().map(|cursor| {
            let bus = bus.clone();
            async move {
                surely::purge_subject(&bus, CURSORS, &cursor).await?;
                Ok::<(), OutboxError>(())
            }
        });
        stream::iter(purged).buffer_unordered(PURGES_IN_FLIGHT).try_collect::<()>().await
    }

    async fn state(&mut self, images: Vec<image::StateImage>) -> Result<(), OutboxError> {
        let bus = &self.bus;
        let revisions = &self.revisions;
        let stored: Vec<(String, u64)> = stream::iter(images.into_iter().map(|image| {
            let expect = revisions.get(&image.subject).copied().unwrap_or(0);
            image::put(bus.clone(), image, expect)
        }))
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await?;
        self.revisions.extend(stored);
        Ok(())
    }
}

/// Whether a run's launch is among what these entries make visible.
fn launch_runs(entries: &[(u64, Arc<Entry>)]) -> bool {
    let mut mail = entries.iter().flat_map(|(_, entry)| &entry.mail);
    mail.any(|mail| {
        matches!(&mail.body, MailBody::Launch(launch) if matches!(launch.duty, Duty::Run(_)))
    })
}

/// Things that go out one after the other, by what they have in common; lines in the order of
/// their first thing.
fn by_line<K: Eq + std::hash::Hash, T>(things: impl Iterator<Item = (K, T)>) -> Vec<Vec<T>> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut lines: Vec<Vec<T>> = Vec::new();
    for (key, thing) in things {
        let place = *places.entry(key).or_insert(lines.len());
        match lines.get_mut(place) {
            Some(line) => line.push(thing),
            None => lines.push(vec![thing]),
        }
    }
    lines
}

async fn run(
    lines: impl Iterator<Item = impl Future<Output = Result<(), OutboxError>>>,
) -> Result<(), OutboxError> {
    stream::iter(lines).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
}
