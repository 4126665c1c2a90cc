//! STATE made anew from the ledger: the latest snapshot and what was committed after it (spec 02).
//! For when something of STATE cannot be read; costly, so never without need.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_bus::Bus;
use tetrarch_bus::outbox::{PlanTips, StateRepair};
use tetrarch_bus::snapshot::{self, Base};
use tetrarch_bus::state::Loaded;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::restart::Restart;
use tetrarch_core::snapshot::Snapshot;

use crate::error::EngineResult;

/// Entries that are read at one stroke.
const STRETCH: u64 = 2048;

/// How long before the ledger's end a plan event may be that a server lost though it had acknowledged it, in
/// milliseconds: it waits for the disk once a second at least. Older ones are gone because of their age.
const PLANS_LOST_WITHIN_MS: u64 = 10 * 60 * 1000;

/// What the ledger says.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    pub(crate) restart: Restart,
    /// Late entries with plan events that are not published, without anything else of them.
    pub(crate) plans: BTreeMap<u64, Entry>,
    /// From which entry on each epoch was.
    raised: Vec<(u64, u64)>,
}

/// Folds the ledger up to an entry. `hint`: the latest snapshot, when it is known; `tips`: how far plan
/// events are published, when what is missing there is wanted.
///
/// # Errors
/// The ledger begins behind an entry that no snapshot holds, or the snapshot cannot be read.
pub(crate) async fn rebuild(
    bus: &Bus,
    hint: Option<Snapshot>,
    last: u64,
    tips: Option<&PlanTips>,
) -> EngineResult<Rebuilt> {
    let first = bus.stream_extent(LEDGER).await?.first;
    let base =
        if first <= 1 { Base::default() } else { base(bus, hint.as_ref(), first, last).await? };
    let (through, epoch) = (base.through, base.epoch);
    let (raised, plans) = (vec![(through, epoch)], BTreeMap::new());
    let mut rebuilt = Rebuilt { restart: base.restart(), plans, raised };
    each(bus, through + 1, last, epoch, |seq, entry| {
        rebuilt.add(seq, entry);
        if let Some(tips) = tips {
            rebuilt.note_plans(tips, seq, entry);
        }
    })
    .await;
    Ok(rebuilt)
}

async fn base(bus: &Bus, hint: Option<&Snapshot>, first: u64, last: u64) -> EngineResult<Base> {
    let reaches = |snapshot: &&Snapshot| snapshot.through + 1 >= first;
    if let Some(known) = hint.filter(reaches)
        && let Ok(base) = snapshot::read(bus, known).await
    {
        return Ok(base);
    }
    // The entry that tells of the snapshot behind which the ledger was trimmed is still there.
    let mut latest: Option<Snapshot> = None;
    each(bus, first, last, 0, |_, entry| {
        for record in &entry.records {
            if let Record::Snapshot(told) = record {
                latest = Some((**told).clone());
            }
        }
    })
    .await;
    match latest.as_ref().filter(reaches) {
        Some(known) => Ok(snapshot::read(bus, known).await?),
        None => Err(snapshot::SnapshotError::Gap { first }.into()),
    }
}

async fn each(bus: &Bus, from: u64, last: u64, epoch: u64, mut take: impl FnMut(u64, &Entry)) {
    let (mut next, mut highest) = (from, epoch);
    while next <= last {
        let through = last.min(next.saturating_add(STRETCH - 1));
        for item in read_ledger(bus, next, through, highest).await {
            if let Ok(entry) = &item.entry {
                highest = entry.epoch;
                take(item.seq, entry);
            }
        }
        next = through + 1;
    }
}

impl Rebuilt {
    fn add(&mut self, seq: u64, entry: &Entry) {
        if entry.epoch > self.restart.epoch {
            self.raised.push((seq, entry.epoch));
        }
        self.restart.add(seq, entry);
    }

    /// Keeps the plan events of an entry that was just added, when they are not published; and forgets those
    /// that are too old to be missing.
    fn note_plans(&mut self, tips: &PlanTips, seq: u64, entry: &Entry) {
        let oldest = entry.at.0.saturating_sub(PLANS_LOST_WITHIN_MS);
        while let Some(first) = self.plans.first_entry()
            && first.get().at.0 < oldest
        {
            first.remove();
        }
        let lacking = entry.plans.iter().filter(|event| tips.lacks(seq, event)).cloned();
        let plans: Vec<_> = lacking.collect();
        if !plans.is_empty() {
            let mut lost = Entry { plans, ..entry.clone() };
            self.restart.complete(&mut lost);
            let lost = Entry {
                plans: lost.plans,
                ..Entry::empty(entry.commit, entry.epoch, entry.at, entry.intake_seq)
            };
            self.plans.insert(seq, lost);
        }
    }

    /// The highest epoch up to an entry.
    pub(crate) fn epoch_at(&self, seq: u64) -> u64 {
        let before = self.raised.iter().rev().find(|(from, _)| *from <= seq);
        before.map_or(0, |(_, epoch)| *epoch)
    }

    /// Up to where STATE shows that the outbox got: an image is written after everything before it
    /// went out. Forged ones, which the ledger does not have, show nothing.
    pub(crate) fn shown(&self, loaded: &Loaded) -> u64 {
        let known = |(record, seq): &&(Record, u64)| {
            self.restart
                .images
                .get(&record.key())
                .is_some_and(|known| known.0 == *record && known.1 == *seq)
        };
        loaded.records.iter().filter(known).map(|(_, seq)| *seq).max().unwrap_or(0)
    }

    /// The keys of STATE that are not as the ledger says, of those that the outbox has written.
    pub(crate) fn repairs(&self, loaded: &Loaded, outbox_through: u64) -> Vec<StateRepair> {
        let mut found: BTreeMap<RecordKey, &(Record, u64)> =
            loaded.records.iter().map(|image| (image.0.key(), image)).collect();
        let mut repairs = Vec::new();
        let garbage = loaded.unreadable.iter().filter(|it| it.newer().is_none());
        let mut broken: Vec<&String> = garbage.map(|it| &it.subject).collect();
        let newer = loaded.unreadable.iter().filter(|it| it.newer().is_some());
        let newer: BTreeSet<&String> = newer.map(|it| &it.subject).collect();
        for key in self.restart.held.keys() {
            let subject = Subject::State(key.clone()).to_string();
            broken.retain(|other| **other != subject);
            found.remove(key);
        }
        for (key, known) in &self.restart.images {
            let subject = Subject::State(key.clone()).to_string();
            if newer.contains(&subject) {
                continue;
            }
            let had = broken.len();
            broken.retain(|other| **other != subject);
            let same = found.remove(key).is_some_and(|found| found == known);
            if had != broken.len() || !same && known.1 <= outbox_through {
                repairs.push(StateRepair { subject, known: Some(known.clone()) });
            }
        }
        let meta = Subject::StateMeta.to_string();
        let unknown = broken.into_iter().filter(|subject| **subject != meta).cloned();
        let unknown = unknown.chain(
            found
                .into_iter()
                .filter(|(_, image)| image.1 <= outbox_through)
                .map(|(key, _)| Subject::State(key).to_string()),
        );
        repairs.extend(unknown.map(|subject| StateRepair { subject, known: None }));
        repairs
    }
}
