//! Start of an owner: STATE, then the ledger's tail (spec 02). What was committed but perhaps
//! not made visible is given back to be published again. What of STATE cannot be read is made anew
//! from the ledger, of which STATE is a projection.

mod rebuild;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::outbox::{self, PlanTips};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{self, Loaded, MetaError, OwnerMeta, Revisions};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{Origin, Subject};
use tetrarch_bus::tail::{InvalidEntry, last_epoch, read_ledger};
use tetrarch_core::held::{Held, Unread};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::records::Records;
use tetrarch_core::restart::{Memory, Restart};
use tetrarch_core::snapshot::{Extent, Snapshot};
use tetrarch_core::trouble::{NoCommit, Trouble};

use super::memory::{StoredMemory, memories};
use crate::error::{EngineError, EngineResult};

pub(super) use rebuild::{Rebuilt, rebuild};

/// How long a server may lag behind what was acknowledged: a partitioned leader was measured to do
/// so for 8.8 s (spec 02, Client rules).
const LAGS_AT_MOST: Duration = Duration::from_secs(15);

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
    /// The start of the server that STATE was loaded from.
    pub(crate) server: String,
    /// What there is to remember.
    pub(crate) kept: StoredMemory,
    /// What people have to be told.
    pub(crate) troubles: Vec<Trouble>,
    /// Whether there are records that this version cannot read.
    pub(crate) holds: bool,
}

/// The highest owner epoch that STATE and the ledger tell of.
pub(crate) async fn highest_epoch(bus: &Bus) -> EngineResult<u64> {
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
/// The ledger is shorter or younger than what was acknowledged, something of STATE cannot be read
/// and the ledger does not have it any more, or another owner writes it: `epoch` is the caller's,
/// which has begun when it has sent a commit before. `alone`: there is one server, so that one that was
/// started anew may have lost the end of STATE.
pub(crate) async fn restore(
    bus: &Bus,
    kept: Option<&StoredMemory>,
    (epoch, has_begun): (u64, bool),
    alone: bool,
) -> EngineResult<Restored> {
    let server = bus.server_start();
    let since = alone.then_some(server.as_str());
    let folded = fold(bus, kept, since).await?;
    let Folded { restart, empty, unpublished, revisions, created, outbox, troubles } = folded;
    if let Some(epoch) = restart.deposed_by(epoch, has_begun) {
        return Err(EngineError::Deposed { epoch });
    }
    let (high, intake_seq) = (restart.through, restart.intake_seq);
    // A commit expects nothing where everything was purged.
    let last = if empty { 0 } else { high };
    let kept = StoredMemory { ledger: Memory { created, high }, outbox_through: outbox };
    let holds = !(restart.held.is_empty() && restart.foreign.is_empty());
    let records = restart.records();
    Ok(Restored {
        records,
        last,
        intake_seq,
        unpublished,
        revisions,
        server,
        kept,
        troubles,
        holds,
    })
}

/// All records as they are after the ledger's last entry, read beside an owner that goes on, and
/// what people have to be told.
///
/// # Errors
/// As for [`restore`].
pub(crate) async fn base(bus: &Bus) -> EngineResult<(Base, Vec<Trouble>)> {
    let Folded { restart, mut troubles, .. } = fold(bus, None, None).await?;
    // The owner itself meets what is no commit.
    troubles.retain(|trouble| matches!(trouble, Trouble::StateMended { .. }));
    let Restart { images, epoch, intake_seq, through, held, .. } = restart;
    let (records, held) = (images.into_values().collect(), held.into_values().collect());
    Ok((Base { through, epoch, intake_seq, records, held }, troubles))
}

/// STATE with the ledger's tail.
struct Folded {
    restart: Restart,
    /// Whether the ledger has no entry any more.
    empty: bool,
    unpublished: Vec<(u64, Arc<Entry>)>,
    revisions: Revisions,
    created: String,
    /// Up to where the outbox got.
    outbox: u64,
    troubles: Vec<Trouble>,
}

/// What there is before the tail is read.
struct RestoreBase {
    restart: Restart,
    /// Late entries with plan events that are not published, without anything else of them.
    plans: BTreeMap<u64, Entry>,
    revisions: Revisions,
    /// Up to where the outbox got.
    outbox: u64,
    /// The highest epoch up to there: an entry of a lower one is a deposed owner's.
    epoch: u64,
    troubles: Vec<Trouble>,
}

/// `since`: the server's start, when all of STATE has to be of it.
async fn fold(bus: &Bus, kept: Option<&StoredMemory>, since: Option<&str>) -> EngineResult<Folded> {
    let loaded = state::load(bus).await;
    // Nothing of STATE can come from an entry after the last one.
    let (created, extent) = remembered(bus, loaded.meta.as_ref(), kept, since).await?;
    let newer = loaded.unreadable.iter().filter_map(|it| Some((it.newer()?, it.ledger_seq)));
    let newer: Vec<(Held, u64)> = newer.collect();
    let begun = match occasion(&loaded, extent.first, kept, since) {
        Some(occasion) => repair(bus, loaded, extent.last, kept, occasion).await?,
        None => as_it_is(loaded, extent.last),
    };
    let RestoreBase { mut restart, mut plans, revisions, outbox, epoch, mut troubles } = begun;
    for (held, seq) in newer {
        restart.hold(held, seq);
    }
    let as_they_were = plans.split_off(&(outbox + 1));
    let lost = plans.into_iter().map(|(seq, entry)| (seq, Arc::new(entry)));
    let (mut unpublished, mut invalid) = (lost.collect::<Vec<_>>(), BTreeMap::new());
    for item in read_ledger(bus, outbox + 1, extent.last, epoch).await {
        match item.entry {
            Ok(mut entry) => {
                restart.add(item.seq, &entry);
                if let Some(lost) = as_they_were.get(&item.seq) {
                    entry.plans.clone_from(&lost.plans);
                }
                restart.complete(&mut entry);
                for held in &entry.held {
                    note_held(bus, item.seq, held, &item.payload).await?;
                }
                unpublished.push((item.seq, Arc::new(entry)));
            }
            Err(error) => {
                restart.skip(item.seq);
                note(&mut invalid, item.seq, &error);
                set_aside(bus, item.seq, error.to_string(), item.payload).await?;
            }
        }
    }
    troubles.extend(invalid.into_values());
    let held: Vec<String> = restart
        .held
        .values()
        .map(|(held, _)| held)
        .chain(&restart.foreign)
        .map(ToString::to_string)
        .collect();
    if !held.is_empty() {
        troubles.push(Trouble::RecordsHeld { held });
    }
    let empty = extent.first > extent.last;
    Ok(Folded { restart, empty, unpublished, revisions, created, outbox, troubles })
}

/// When the server made the ledger, and what it holds, unless it is not the one that is remembered
/// (spec 02, Amnesia guard). A shorter one is looked at for as long as one of several servers may lag behind.
async fn remembered(
    bus: &Bus,
    meta: Option<&OwnerMeta>,
    kept: Option<&StoredMemory>,
    alone: Option<&str>,
) -> EngineResult<(String, Extent)> {
    let memories = memories(bus, meta, kept.map(|kept| &kept.ledger)).await?;
    let mut lagging = Retry::until(LAGS_AT_MOST);
    loop {
        let created = bus.stream_created(LEDGER).await?;
        let extent = bus.stream_extent(LEDGER).await?;
        let judged = memories.iter().try_for_each(|(keeper, memory)| {
            memory.judge(&created, extent.last).map_err(|lost| (*keeper, lost))
        });
        match judged {
            Ok(()) => return Ok((created, extent)),
            Err((_, lost)) if alone.is_none() && lost.may_be_lag() && lagging.pause().await => {
                tracing::warn!(%lost, "the ledger looks like another one; checking again");
            }
            Err((keeper, lost)) => return Err(EngineError::Amnesia { keeper, lost }),
        }
    }
}

/// Why STATE has to be compared with the ledger.
enum RebuildReason {
    /// The server was started anew, and may have lost what did not wait for the disk.
    Restarted,
    /// There is something wrong with it, in words.
    Damaged(String),
}

/// Why STATE has to be compared with the ledger; none when there is no need.
fn occasion(
    loaded: &Loaded,
    first: u64,
    kept: Option<&StoredMemory>,
    since: Option<&str>,
) -> Option<RebuildReason> {
    if let Some(broken) = loaded.unreadable.iter().find(|it| it.newer().is_none()) {
        let reason = format!("cannot read {}: {}", broken.subject, broken.error);
        return Some(RebuildReason::Damaged(reason));
    }
    let written =
        first > 1 || !loaded.records.is_empty() || kept.is_some_and(|kept| kept.outbox_through > 0);
    let lost = loaded.meta.is_none() && written;
    let told = loaded.meta.as_ref().map(|meta| meta.server.as_str());
    match since {
        // A server that did not wait for the disk may have lost all of it.
        Some(since) => {
            (lost || told.is_some_and(|told| told != since)).then_some(RebuildReason::Restarted)
        }
        None => lost.then(|| RebuildReason::Damaged("the written position is missing".to_owned())),
    }
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

/// What is wrong with a record of a commit is kept for people; what only a newer version reads is not
/// wrong.
async fn note_held(bus: &Bus, seq: u64, held: &Held, payload: &bytes::Bytes) -> EngineResult {
    match &held.why {
        Unread::Newer { .. } => Ok(()),
        Unread::Undecodable { .. } => set_aside(bus, seq, held.to_string(), payload.clone()).await,
    }
}

/// What is no valid commit is skipped by everyone, and kept for people with the reason (spec 02).
async fn set_aside(bus: &Bus, seq: u64, reason: String, payload: bytes::Bytes) -> EngineResult {
    tracing::error!(seq, reason, "an entry of the ledger was set aside");
    let subject = Subject::Ledger.to_string();
    let letter = DeadLetter { origin: Origin::Ledger, seq, subject, reason, payload };
    dead_letter(bus, &letter).await?;
    Ok(())
}

/// STATE, when there is nothing wrong with it, and a ledger that goes up to `last`.
fn as_it_is(loaded: Loaded, last: u64) -> RestoreBase {
    let meta = loaded.meta.unwrap_or_default();
    let images = loaded.records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
    let restart = Restart {
        images: images.collect(),
        epoch: meta.owner_epoch,
        intake_seq: meta.intake_seq,
        through: meta.outbox_through.min(last),
        ..Restart::default()
    };
    let (outbox, epoch) = (meta.outbox_through, meta.owner_epoch);
    let (plans, troubles) = (BTreeMap::new(), Vec::new());
    RestoreBase { restart, plans, revisions: loaded.revisions, outbox, epoch, troubles }
}

/// The ledger instead of STATE, which is made to agree with it.
async fn repair(
    bus: &Bus,
    loaded: Loaded,
    last: u64,
    kept: Option<&StoredMemory>,
    occasion: RebuildReason,
) -> EngineResult<RestoreBase> {
    let tips = PlanTips::read(bus).await?;
    let rebuilt = rebuild(bus, latest(&loaded).cloned(), last, Some(&tips)).await?;
    let remembered = kept.map_or(0, |kept| kept.outbox_through).min(last);
    let outbox = match &loaded.meta {
        Some(meta) => meta.outbox_through,
        None => rebuilt.shown(&loaded).max(remembered),
    };
    let repairs = rebuilt.repairs(&loaded, outbox);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let written = repairs.iter().filter(|repair| repair.known.is_some()).count();
    let (written, dropped) = (count(written), count(repairs.len() - written));
    let mut revisions = loaded.revisions;
    outbox::repair(bus, repairs, last, &mut revisions).await?;
    let epoch = rebuilt.epoch_at(outbox);
    let plans = rebuilt.plans;
    let mut restart = rebuilt.restart;
    restart.skip(outbox);
    let lost = plans.len();
    let troubles = match occasion {
        RebuildReason::Damaged(reason) => {
            tracing::error!(reason, written, dropped, lost, "STATE was repaired from the ledger");
            vec![Trouble::StateMended { written, dropped, reason }]
        }
        RebuildReason::Restarted => {
            tracing::info!(
                written,
                dropped,
                lost,
                "the server was restarted: STATE and plan events were compared with the ledger"
            );
            Vec::new()
        }
    };
    Ok(RestoreBase { restart, plans, revisions, outbox, epoch, troubles })
}

/// The latest snapshot that STATE tells of.
fn latest(loaded: &Loaded) -> Option<&Snapshot> {
    loaded.records.iter().find_map(|(record, _)| {
        if let Record::Snapshot(snapshot) = record { Some(&**snapshot) } else { None }
    })
}
