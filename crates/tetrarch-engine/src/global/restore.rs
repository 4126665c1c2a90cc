//! Start of an owner: STATE, then the ledger's tail (spec 02). What was committed but perhaps
//! not made visible is given back to be published again. What of STATE cannot be read is made anew
//! from the ledger, of which STATE is a projection.

mod rebuild;

use std::collections::BTreeMap;
use std::sync::Arc;

use tetrarch_bus::Bus;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::outbox;
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{self, Loaded, Meta, MetaError, Revisions};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{Origin, Subject};
use tetrarch_bus::tail::{InvalidEntry, last_epoch, read_ledger};
use tetrarch_core::amnesia::{Amnesia, Keeper, Memory};
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::records::Records;
use tetrarch_core::snapshot::Snapshot;
use tetrarch_core::trouble::{NoCommit, Trouble};

use super::memory::Kept;
use crate::error::EngineError;

pub(super) use rebuild::{Rebuilt, rebuild};

/// Everything an owner starts with.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The records.
    pub(crate) records: Records,
    /// The sequence of the ledger's last entry, 0 when it has none.
    pub(crate) last: u64,
    /// Requests up to this sequence are decided.
    pub(crate) intake_seq: u64,
    /// Entries to be published again, with their sequences.
    pub(crate) unpublished: Vec<(u64, Arc<Entry>)>,
    /// The revisions of STATE.
    pub(crate) revisions: Revisions,
    /// What there is to remember.
    pub(crate) kept: Kept,
    /// What people have to be told.
    pub(crate) troubles: Vec<Trouble>,
}

/// The highest owner epoch that STATE and the ledger tell of.
pub(crate) async fn highest_epoch(bus: &Bus) -> Result<u64, EngineError> {
    let known = match state::load_meta(bus).await {
        Ok(meta) => meta.map_or(0, |meta| meta.owner_epoch),
        // It is made anew as soon as there is an owner.
        Err(MetaError::Unreadable(_)) => 0,
        Err(error @ MetaError::Read(_)) => return Err(error.into()),
    };
    Ok(last_epoch(bus, known).await?)
}

/// Loads STATE and folds the ledger's tail in. `kept`: what the data directory remembers.
///
/// # Errors
/// The ledger is shorter or younger than what was acknowledged, or something of STATE cannot be
/// read and the ledger does not have it any more.
pub(crate) async fn restore(bus: &Bus, kept: Option<&Kept>) -> Result<Restored, EngineError> {
    let folded = fold(bus, kept).await?;
    let Folded { images, epoch, intake_seq, last, empty, unpublished, revisions, .. } = folded;
    let Folded { created, outbox, troubles, .. } = folded;
    let mut records = Records::default();
    records.epoch = epoch;
    records.intake_seq = intake_seq;
    images.into_values().for_each(|(record, _)| records.put(record));
    let kept = Kept { ledger: Memory { created, high: last }, outbox_through: outbox };
    // A commit expects nothing where everything was purged.
    let last = if empty { 0 } else { last };
    Ok(Restored { records, last, intake_seq, unpublished, revisions, kept, troubles })
}

/// All records as they are after the ledger's last entry, read beside an owner that goes on, and
/// what people have to be told.
///
/// # Errors
/// As for [`restore`].
pub(crate) async fn base(bus: &Bus) -> Result<(Base, Vec<Trouble>), EngineError> {
    let Folded { images, epoch, intake_seq, last, mut troubles, .. } = fold(bus, None).await?;
    // The owner itself meets what is no commit.
    troubles.retain(|trouble| matches!(trouble, Trouble::StateMended { .. }));
    let records = images.into_values().collect();
    Ok((Base { through: last, epoch, intake_seq, records }, troubles))
}

/// Records with the sequences of the entries that wrote them.
type Images = BTreeMap<RecordKey, (Record, u64)>;

/// STATE with the ledger's tail.
struct Folded {
    images: Images,
    epoch: u64,
    /// The epoch below which the first entry of the tail is a deposed owner's.
    before: u64,
    intake_seq: u64,
    last: u64,
    /// Whether the ledger has no entry any more.
    empty: bool,
    unpublished: Vec<(u64, Arc<Entry>)>,
    revisions: Revisions,
    created: String,
    outbox: u64,
    troubles: Vec<Trouble>,
}

async fn fold(bus: &Bus, kept: Option<&Kept>) -> Result<Folded, EngineError> {
    let created = bus.stream_created(LEDGER).await?;
    let loaded = state::load(bus).await;
    // Nothing of STATE can come from an entry after this one.
    let extent = bus.stream_extent(LEDGER).await?;
    let last = extent.last;
    recognize(loaded.meta.as_ref(), kept, &created, last)?;
    let empty = extent.first > last;
    let mut folded = Folded { created, last, empty, ..Folded::nothing() };
    match occasion(&loaded, extent.first, kept) {
        Some(reason) => folded.mend(bus, loaded, kept, reason).await?,
        None => folded.load(loaded),
    }
    let mut troubles = BTreeMap::new();
    for item in read_ledger(bus, folded.outbox + 1, last, folded.before).await {
        match item.entry {
            Ok(entry) => {
                folded.add(item.seq, &entry);
                folded.unpublished.push((item.seq, Arc::new(entry)));
            }
            Err(error) => {
                note(&mut troubles, item.seq, &error);
                set_aside(bus, item.seq, error.to_string(), item.payload).await?;
            }
        }
    }
    folded.troubles.extend(troubles.into_values());
    Ok(folded)
}

/// The amnesia guard (spec 02).
fn recognize(
    meta: Option<&Meta>,
    kept: Option<&Kept>,
    created: &str,
    last: u64,
) -> Result<(), Amnesia> {
    if let Some(meta) = meta {
        memory_of(meta).recognize(Keeper::State, created, last)?;
    }
    kept.map_or(Ok(()), |kept| kept.ledger.recognize(Keeper::DataDirectory, created, last))
}

/// What STATE remembers of the ledger.
pub(super) fn memory_of(meta: &Meta) -> Memory {
    Memory { created: meta.ledger_created.clone(), high: meta.ledger_high }
}

/// Why STATE has to be compared with the ledger; none when there is no need.
fn occasion(loaded: &Loaded, first: u64, kept: Option<&Kept>) -> Option<String> {
    if let Some(broken) = loaded.unreadable.first() {
        return Some(format!("{} could not be read: {}", broken.subject, broken.error));
    }
    let written =
        first > 1 || !loaded.records.is_empty() || kept.is_some_and(|kept| kept.outbox_through > 0);
    let lost = loaded.meta.is_none() && written;
    lost.then(|| "it does not say how far it is written".to_owned())
}

fn note(troubles: &mut BTreeMap<NoCommit, Trouble>, seq: u64, error: &InvalidEntry) {
    let cause = error.cause();
    let reason = || error.to_string();
    let told = troubles.entry(cause).or_insert_with(|| Trouble::NoCommits {
        cause,
        count: 0,
        first: seq,
        reason: reason(),
    });
    if let Trouble::NoCommits { count, .. } = told {
        *count += 1;
    }
}

/// What is no valid commit is skipped by everyone, and kept for people with the reason (spec 02).
async fn set_aside(
    bus: &Bus,
    seq: u64,
    reason: String,
    payload: bytes::Bytes,
) -> Result<(), EngineError> {
    tracing::error!(seq, reason, "no valid commit: skipped");
    let subject = Subject::Ledger.to_string();
    let letter = DeadLetter { origin: Origin::Ledger, seq, subject, reason, payload };
    dead_letter(bus, &letter).await?;
    Ok(())
}

impl Folded {
    fn nothing() -> Self {
        Self {
            images: Images::new(),
            epoch: 0,
            before: 0,
            empty: false,
            intake_seq: 0,
            last: 0,
            unpublished: Vec::new(),
            revisions: Revisions::new(),
            created: String::new(),
            outbox: 0,
            troubles: Vec::new(),
        }
    }

    /// Takes STATE as it is.
    fn load(&mut self, loaded: Loaded) {
        let meta = loaded.meta.unwrap_or_default();
        self.epoch = meta.owner_epoch;
        self.before = meta.owner_epoch;
        self.intake_seq = meta.intake_seq;
        self.outbox = meta.outbox_through;
        self.revisions = loaded.revisions;
        let images = loaded.records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
        self.images = images.collect();
    }

    /// Takes the ledger instead, and has STATE agree with it.
    async fn mend(
        &mut self,
        bus: &Bus,
        loaded: Loaded,
        kept: Option<&Kept>,
        reason: String,
    ) -> Result<(), EngineError> {
        tracing::error!(reason, "STATE is compared with the ledger");
        let rebuilt = rebuild(bus, latest(&loaded).cloned(), self.last).await?;
        let remembered = kept.map_or(0, |kept| kept.outbox_through).min(self.last);
        self.outbox = match &loaded.meta {
            Some(meta) => meta.outbox_through,
            None => rebuilt.shown(&loaded).max(remembered),
        };
        let mends = rebuilt.mends(&loaded, self.outbox);
        self.revisions = loaded.revisions;
        let written = mends.iter().filter(|mend| mend.known.is_some()).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let dropped = count(mends.len() - written);
        outbox::mend(bus, mends, self.last, &mut self.revisions).await?;
        self.troubles.push(Trouble::StateMended { written: count(written), dropped, reason });
        self.before = rebuilt.epoch_at(self.outbox);
        self.images = rebuilt.images;
        self.epoch = rebuilt.epoch;
        self.intake_seq = rebuilt.intake_seq;
        Ok(())
    }

    fn add(&mut self, seq: u64, entry: &Entry) {
        self.epoch = self.epoch.max(entry.epoch);
        self.intake_seq = entry.decided(self.intake_seq);
        fold_in(&mut self.images, seq, entry);
    }
}

/// The latest snapshot that STATE tells of.
fn latest(loaded: &Loaded) -> Option<&Snapshot> {
    loaded.records.iter().find_map(|(record, _)| {
        if let Record::Snapshot(snapshot) = record { Some(&**snapshot) } else { None }
    })
}

/// An after-image applies only if its entry is later than the one STATE has it from.
fn fold_in(images: &mut Images, seq: u64, entry: &Entry) {
    let newer =
        |images: &Images, key: &RecordKey| images.get(key).is_none_or(|(_, known)| *known < seq);
    for record in &entry.records {
        let key = record.key();
        if newer(images, &key) {
            images.insert(key, (record.clone(), seq));
        }
    }
    for key in &entry.dropped {
        if newer(images, key) {
            images.remove(key);
        }
    }
}
