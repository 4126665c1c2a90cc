//! Going on with a ledger that is not the one that is remembered, because a human said so (spec 02,
//! Amnesia guard). Its sequences are never used twice: mail, plan events and STATE tell old from new
//! by them. So what is missing up to the highest one known is filled with entries that change
//! nothing, and behind them STATE's images are written that the lost entries had written
//! (docs/decisions/0021). It is the owner for as long as it takes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::commit::{CommitError, Committer};
use tetrarch_bus::lease::{AcquireError, Lease};
use tetrarch_bus::outbox;
use tetrarch_bus::retry::Retry;
use tetrarch_bus::state::{self, Loaded, OwnerMeta, Unreadable};
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::id::{CommitId, HumanName, Principal};
use tetrarch_core::ledger::{Entry, Event, EventKind, Record, RecordKey};
use tetrarch_core::owner::{Frame, restoring};
use tetrarch_core::restart::{Memory, Restart};
use tetrarch_core::time::BusTime;

use super::memory::{StoredMemory, memories};
use super::restore::{self, Rebuilt};
use super::{acquire, clock_of, keep};
use crate::error::{EngineError, EngineResult};

/// Time to live of the lease while it is done.
const TTL_SECS: u32 = 30;
/// An owner that refuses the ledger gives its lease back, and takes it again to try once more.
const FREE_WITHIN: Duration = Duration::from_secs(6);

/// What a human decided.
#[derive(Debug, Clone)]
pub struct Acceptance {
    /// The ledger's last sequence, as the human saw it.
    pub seq: u64,
    /// Who it is.
    pub by: HumanName,
    /// What tells this process from others.
    pub instance: String,
    /// Where it runs.
    pub address: String,
    /// Where the owner remembers what the ledger was.
    pub data_dir: PathBuf,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Why the ledger was not recognized, in words; none when it was, and nothing was done.
    pub because: Option<String>,
    /// Sequences that were filled.
    pub filled: u64,
    /// Records that were written again as STATE has them.
    pub restored: u64,
    /// The ledger's last sequence now.
    pub last: u64,
}

/// Has the owner go on with the ledger as it is.
///
/// # Errors
/// Its last sequence is another, an owner is at work, or what the bus or the disk answered.
pub async fn accept_ledger(bus: Bus, acceptance: Acceptance) -> EngineResult<Accepted> {
    let mut lease = lease(&bus, &acceptance).await?;
    let clock = clock_of(&bus, &lease).await?;
    let seed = format!("{} {}", acceptance.instance, lease.epoch());
    let work = async {
        let found = LedgerSurvey::look(&bus, &acceptance).await?;
        match &found.because {
            None => Ok(Accepted { because: None, filled: 0, restored: 0, last: found.last }),
            Some(because) => {
                let frame = found.frame(&acceptance.by, clock.now(), because);
                let commit = |place: usize| CommitId::derive(frame.at, &seed, "accepted", place);
                found.go_on(&bus, &acceptance, &frame, commit).await
            }
        }
    };
    let done = tokio::select! {
        done = work => done,
        lost = keep(&mut lease, TTL_SECS) => return Err(lost),
    };
    lease.release().await?;
    done
}

async fn lease(bus: &Bus, acceptance: &Acceptance) -> EngineResult<Lease> {
    let mut retry = Retry::until(FREE_WITHIN);
    let me = (acceptance.instance.as_str(), acceptance.address.as_str());
    loop {
        match acquire(bus, me, TTL_SECS).await {
            Err(EngineError::Lease(AcquireError::Held { .. })) if retry.pause().await => {}
            Err(EngineError::Lease(AcquireError::Held { holder, .. })) => {
                return Err(EngineError::Held { what: "the ledger".to_owned(), holder });
            }
            settled => return settled,
        }
    }
}

/// What is there.
struct LedgerSurvey {
    last: u64,
    /// Whether the stream has no entry any more.
    empty: bool,
    created: String,
    loaded: Loaded,
    ledger: Rebuilt,
    /// The highest sequence that anybody knows of.
    high: u64,
    because: Option<String>,
}

impl LedgerSurvey {
    async fn look(bus: &Bus, acceptance: &Acceptance) -> EngineResult<Self> {
        let created = bus.stream_created(LEDGER).await?;
        let loaded = state::load(bus).await;
        let extent = bus.stream_extent(LEDGER).await?;
        let (last, accepted) = (extent.last, acceptance.seq);
        if last != accepted {
            return Err(EngineError::NotThat { last, accepted });
        }
        let kept = StoredMemory::read(&acceptance.data_dir).await;
        let (known, mut because) = match &kept {
            Ok(kept) => (kept.as_ref().map(|kept| &kept.ledger), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let memories = memories(bus, loaded.meta.as_ref(), known).await?;
        for (keeper, memory) in &memories {
            if let Err(lost) = memory.judge(&created, last) {
                because = Some(format!("{lost} (remembered by {keeper})"));
            }
        }
        let written = loaded.records.iter().map(|(_, seq)| *seq).max().unwrap_or(0);
        let known = memories.iter().map(|(_, memory)| memory.high).max().unwrap_or(0);
        let high = known.max(if because.is_some() { written } else { 0 }).max(last);
        let ledger = if because.is_none() {
            Rebuilt::default()
        } else {
            match restore::rebuild(bus, None, last, None).await {
                // Then what STATE has is all there is.
                Err(EngineError::Snapshot(error)) if !loaded.records.is_empty() => {
                    tracing::error!(%error, "the start of the ledger is lost");
                    Rebuilt::default()
                }
                rebuilt => rebuilt?,
            }
        };
        let newer = loaded.unreadable.iter().find_map(Unreadable::newer);
        let held = newer.or_else(|| ledger.restart.held.values().next().map(|it| it.0.clone()));
        if let Some(held) = held.filter(|_| because.is_some()) {
            return Err(EngineError::Unread(held));
        }
        let empty = extent.first > last;
        Ok(Self { last, empty, created, loaded, ledger, high, because })
    }

    fn frame(&self, by: &HumanName, at: BusTime, because: &str) -> Frame {
        let meta = self.loaded.meta.as_ref();
        let epoch = meta.map_or(0, |meta| meta.owner_epoch).max(self.ledger.restart.epoch);
        let decided = meta.map_or(0, |meta| meta.intake_seq).max(self.ledger.restart.intake_seq);
        let event = Event {
            kind: EventKind::LedgerAccepted,
            actor: Principal::Human(by.clone()),
            agent: None,
            run: None,
            epic: None,
            node: None,
            request: None,
            reason: format!("through {}, though {because}", self.last),
            rule: "02 Amnesia guard".to_owned(),
        };
        Frame { epoch, at, intake_seq: decided, event }
    }

    /// What the ledger says, and what it should. Where nothing is missing, and where STATE is gone,
    /// that is the same.
    fn images(&self) -> (BTreeMap<RecordKey, Record>, BTreeMap<RecordKey, Record>) {
        let images = &self.ledger.restart.images;
        let mut ledger: BTreeMap<RecordKey, Record> =
            images.iter().map(|(key, (record, _))| (key.clone(), record.clone())).collect();
        if self.last >= self.high || self.loaded.records.is_empty() {
            return (ledger.clone(), ledger);
        }
        let known = self.loaded.records.iter().map(|(record, _)| (record.key(), record.clone()));
        let mut state: BTreeMap<RecordKey, Record> = known.collect();
        // What cannot be read there is taken as it was.
        for broken in &self.loaded.unreadable {
            let same =
                |key: &&RecordKey| Subject::State((*key).clone()).to_string() == broken.subject;
            if let Some((key, record)) = ledger.iter().find(|(key, _)| same(key)) {
                state.insert(key.clone(), record.clone());
            }
        }
        // STATE has it from an entry that is lost: it is written again, even if it is the same.
        let lost = self.loaded.records.iter().filter(|(_, seq)| *seq > self.last);
        lost.for_each(|(record, _)| drop(ledger.remove(&record.key())));
        (ledger, state)
    }

    async fn go_on(
        &self,
        bus: &Bus,
        acceptance: &Acceptance,
        frame: &Frame,
        commit: impl Fn(usize) -> CommitId,
    ) -> EngineResult<Accepted> {
        let expected = if self.empty { 0 } else { self.last };
        let mut committer = Committer::new(bus.clone(), expected, frame.epoch);
        let (ledger, state) = self.images();
        let entries = restoring(&ledger, &state, frame, &commit);
        let mut number = entries.len();
        let mut last = self.last;
        while last < self.high {
            let Restart { epoch, intake_seq: decided, .. } = self.ledger.restart;
            let filler = Entry::empty(commit(number), epoch, frame.at, decided);
            last = committer.commit(&filler).await.map_err(refused)?;
            number += 1;
        }
        for entry in &entries {
            last = committer.commit(entry).await.map_err(refused)?;
        }
        let mut revisions = self.loaded.revisions.clone();
        let meta = OwnerMeta {
            outbox_through: self.high,
            intake_seq: frame.intake_seq,
            owner_epoch: frame.epoch,
            ledger_created: self.created.clone(),
            ledger_high: last,
            server: bus.server_start(),
        };
        if !self.loaded.records.is_empty() {
            outbox::settle(bus, &meta, &mut revisions).await?;
        }
        let memory = Memory { created: self.created.clone(), high: last };
        let kept = StoredMemory { ledger: memory, outbox_through: self.high };
        kept.write(&acceptance.data_dir).await?;
        let restored: usize =
            entries.iter().map(|entry| entry.records.len() + entry.dropped.len()).sum();
        Ok(Accepted {
            because: self.because.clone(),
            filled: self.high - self.last,
            restored: u64::try_from(restored).unwrap_or(u64::MAX),
            last,
        })
    }
}

fn refused(error: CommitError) -> EngineError {
    match error {
        CommitError::Deposed { epoch } => EngineError::Deposed { epoch },
        CommitError::Reload { last } => EngineError::NotThat { last, accepted: last },
        CommitError::Encoding(error) => error.into(),
        CommitError::Refused(error) => error.into(),
        CommitError::Unreadable(error) => error.into(),
    }
}
