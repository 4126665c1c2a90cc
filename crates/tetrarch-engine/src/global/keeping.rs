//! Keeping the ledger short (spec 02, Snapshots): a task beside the owner that takes snapshots and
//! trims behind them, and one that removes artifacts that nothing names. It reads STATE and the ledger's tail as a new owner would, so that no commit
//! waits for it; what is due is core's to say, that a snapshot counts the owner's to commit.

mod artifacts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::ActorRef;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::first_since;
use tetrarch_bus::{Bus, snapshot};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::owner::Input;
use tetrarch_core::records::Records;
use tetrarch_core::snapshot::{Due, Extent, Retention, Snapshot};
use tetrarch_core::time::{BusTime, Millis};
use tokio::sync::watch;

use artifacts::SweptArtifacts;

use super::owner::OwnerMsg;
use super::restore;
use crate::clock::Clock;
use crate::error::EngineResult;
use crate::pump::Pump;

/// How often it is looked at when little happens.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often artifacts are looked at in the time that they are kept.
const SWEEPS: u64 = 4;
/// How often it is looked at in the time of one snapshot's entries.
const LOOKS_PER_SNAPSHOT: u64 = 100;

/// How far the outbox got.
#[derive(Debug, Clone, Default)]
pub(super) struct OutboxProgress {
    through: u64,
    snapshot: Option<Arc<Snapshot>>,
    /// One that is recorded, with its entry; not everything before that is out.
    coming: Option<(u64, Arc<Snapshot>)>,
}

impl OutboxProgress {
    /// Notes how far everything is out, and what was recorded of these entries.
    pub(super) fn add(&mut self, entries: &[(u64, Arc<Entry>)], through: Option<u64>) {
        self.through = self.through.max(through.unwrap_or(0));
        for (seq, entry) in entries {
            let taken = entry.records.iter().find_map(|record| {
                if let Record::Snapshot(snapshot) = record { Some(snapshot) } else { None }
            });
            if let Some(taken) = taken {
                self.coming = Some((*seq, Arc::new((**taken).clone())));
            }
        }
        // The ledger may be trimmed behind it.
        if self.coming.as_ref().is_some_and(|(seq, _)| *seq <= self.through) {
            self.snapshot = self.coming.take().map(|(_, snapshot)| snapshot);
        }
    }
}

/// What it is started with.
pub(super) struct Keeping {
    pub(super) bus: Bus,
    pub(super) retention: Retention,
    pub(super) clock: Clock,
    pub(super) owner: ActorRef<OwnerMsg>,
    /// Whether there are records that only the ledger can keep: then all of it is kept.
    pub(super) holds: bool,
}

/// Starts it on what the records say; `recorded` tells of what the outbox has done.
pub(super) fn start(
    keeping: Keeping,
    records: &Records,
    recorded: watch::Receiver<OutboxProgress>,
) -> Pump {
    let began = records.agents.get(&AgentId::Go).map(|go| go.created);
    let keeper = SnapshotKeeper {
        began: began.unwrap_or_else(|| keeping.clock.now()),
        with: keeping,
        kept: records.snapshot.clone().map(Arc::new),
        tidied: 0,
        asked: 0,
        looked: 0,
        swept: None,
    };
    Pump::run(keeper.run(recorded))
}

struct SnapshotKeeper {
    with: Keeping,
    /// When the installation began.
    began: BusTime,
    /// The latest snapshot, which STATE tells of.
    kept: Option<Arc<Snapshot>>,
    /// The snapshot whose predecessor is removed, by its last entry.
    tidied: u64,
    /// The snapshot that the owner was told of last, by its last entry.
    asked: u64,
    /// Where the outbox was when the ledger was looked at.
    looked: u64,
    /// When artifacts were looked at.
    swept: Option<BusTime>,
}

impl SnapshotKeeper {
    async fn run(mut self, mut recorded: watch::Receiver<OutboxProgress>) {
        let pause = Duration::from_millis((self.with.retention.unnamed.0 / SWEEPS).max(1));
        let mut beat = tokio::time::interval(LOOK_EVERY.min(pause));
        let stride = (self.with.retention.entries / LOOKS_PER_SNAPSHOT).max(1);
        loop {
            let on_time = tokio::select! {
                changed = recorded.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    false
                }
                _ = beat.tick() => true,
            };
            let OutboxProgress { through, snapshot, .. } = recorded.borrow_and_update().clone();
            let news = snapshot
                .filter(|new| self.kept.as_ref().is_none_or(|kept| kept.through < new.through));
            let fresh = news.is_some();
            if fresh {
                self.kept = news;
            }
            if !(on_time || fresh || through >= self.looked.saturating_add(stride)) {
                continue;
            }
            self.looked = through;
            if let Err(error) = self.look().await {
                tracing::error!(%error, "taking a snapshot or trimming the ledger failed; trying again");
            }
            if on_time && let Err(error) = self.sweep().await {
                tracing::error!(%error, "removing unreferenced artifacts failed; trying again");
            }
        }
    }

    /// Does what is due: removes what the latest snapshot replaces, trims behind it, takes the next.
    async fn look(&mut self) -> EngineResult {
        if self.with.holds {
            return Ok(());
        }
        if let Some(kept) = self.kept.clone() {
            self.tidy(&kept).await?;
            self.trim(&kept).await?;
        }
        let last = self.kept.as_ref().map_or((0, self.began), |kept| (kept.through, kept.at));
        if self.asked > last.0 {
            // The owner has not told of it yet.
            return Ok(());
        }
        let extent = self.with.bus.stream_extent(LEDGER).await?;
        let now = self.with.clock.now();
        match self.with.retention.due(last.0, last.1, &extent, now) {
            Some(due) => self.take(due).await,
            None => Ok(()),
        }
    }

    /// Removes artifacts that nothing names, a few times in the time that they are kept.
    async fn sweep(&mut self) -> EngineResult {
        let (now, kept) = (self.with.clock.now(), self.with.retention.unnamed);
        if self.swept.is_some_and(|at| now - at < Millis(kept.0 / SWEEPS)) {
            return Ok(());
        }
        let SweptArtifacts { artifacts, uploads } =
            artifacts::sweep(&self.with.bus, now, kept).await?;
        if artifacts + uploads > 0 {
            tracing::info!(artifacts, uploads, "removed unreferenced artifacts");
        }
        self.swept = Some(now);
        Ok(())
    }

    async fn tidy(&mut self, kept: &Snapshot) -> EngineResult {
        if self.tidied < kept.through {
            let gone = kept.before.iter().filter(|part| !kept.parts.contains(part));
            let gone: Vec<String> = gone.cloned().collect();
            snapshot::remove(&self.with.bus, &gone).await.map_err(snapshot::SnapshotError::from)?;
            self.tidied = kept.through;
        }
        Ok(())
    }

    async fn trim(&self, kept: &Snapshot) -> EngineResult {
        let bus = &self.with.bus;
        let extent = bus.stream_extent(LEDGER).await?;
        let aged = self.aged(&extent).await?;
        let Some(trim) = Retention::trim(kept, &extent, aged) else { return Ok(()) };
        let purged = bus.purge(LEDGER, None, Some(trim.through)).await?;
        tracing::info!(through = trim.through, purged, early = trim.early, "trimmed the ledger");
        if trim.early {
            let Extent { bytes, limit, .. } = extent;
            let through = trim.through;
            self.tell(Input::TrimmedEarly { through, bytes, limit });
        }
        Ok(())
    }

    /// The last entry that is older than the retention, 0 when none is.
    async fn aged(&self, extent: &Extent) -> EngineResult<u64> {
        let horizon = self.with.clock.now().0.saturating_sub(self.with.retention.ledger.0);
        let horizon = BusTime(horizon);
        let first = self.with.bus.get_seq(LEDGER, extent.first).await?;
        if first.is_none_or(|first| first.time_unix_ms >= horizon.0) {
            return Ok(0);
        }
        let since = first_since(&self.with.bus, horizon, extent.first, extent.last).await?;
        Ok(since - 1)
    }

    async fn take(&mut self, due: Due) -> EngineResult {
        let began = Instant::now();
        let (base, troubles) = restore::base(&self.with.bus).await?;
        for trouble in troubles {
            self.tell(Input::Trouble(trouble));
        }
        let read = began.elapsed();
        let taken = snapshot::keep(&self.with.bus, base, self.with.clock.now()).await?;
        tracing::info!(
            through = taken.through,
            records = taken.records,
            bytes = taken.bytes,
            read_ms = read.as_millis(),
            all_ms = began.elapsed().as_millis(),
            "took a snapshot"
        );
        self.asked = taken.through;
        self.tell(Input::Snapshot(Box::new(taken), due));
        Ok(())
    }

    fn tell(&self, input: Input) {
        // An actor that ended keeps nothing short any more.
        let _ended = self.with.owner.cast(OwnerMsg::Found(Box::new(input)));
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::{CommitId, Ulid};

    use super::*;

    #[test]
    fn snapshot_counts_when_everything_before_its_entry_is_out() {
        let snapshot = Snapshot {
            through: 4,
            epoch: 1,
            intake_seq: 1,
            at: BusTime(1),
            records: 1,
            bytes: 1,
            parts: Vec::new(),
            before: Vec::new(),
        };
        let mut entry = Entry::empty(CommitId(Ulid(1)), 1, BusTime(1), 1);
        entry.records.push(Record::Snapshot(Box::new(snapshot)));
        let mut progress = OutboxProgress::default();
        progress.add(&[(5, Arc::new(entry))], Some(4));
        assert!(progress.snapshot.is_none() && progress.through == 4);
        progress.add(&[], None);
        assert!(progress.snapshot.is_none());
        progress.add(&[], Some(5));
        assert_eq!(progress.snapshot.map(|snapshot| snapshot.through), Some(4));
    }
}
