//! Snapshots of all live records among the artifacts (spec 02, Snapshots): made in parts, read
//! back whole. When one is made and what goes behind it is decided elsewhere.

use tokio::task::spawn_blocking;

use crate::artifact::{ArtifactError, Artifacts};
use crate::client::Bus;
use crate::codec::{CodecError, PartBuilder, decode_part};
use crate::error::ReadError;
use crate::state;
use crate::subject::pattern::LEDGER;
use tetrarch_core::held::Held;
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::limits::SNAPSHOT_PARTS_MAX;
use tetrarch_core::records::Records;
use tetrarch_core::restart::Restart;
use tetrarch_core::snapshot::Snapshot;
use tetrarch_core::time::BusTime;

/// What the parts are among the artifacts.
const MEDIA_TYPE: &str = "application/vnd.tetrarch.snapshot";

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A part was not stored or cannot be read.
    #[error("cannot read a part of the snapshot: {0}")]
    Artifact(#[from] ArtifactError),
    /// A record cannot be written or read.
    #[error("cannot read a part of the snapshot: {0}")]
    Encoding(#[from] CodecError),
    /// The stream cannot be asked.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The record that names the latest one cannot be read.
    #[error("cannot read the record of the latest snapshot: {0}")]
    Record(CodecError),
    /// There is a record that this version cannot write as it came.
    #[error("cannot take a snapshot or trim the ledger: {0}; run that version again")]
    Held(Held),
    /// More parts than a record can name.
    #[error(
        "the records have more than {SNAPSHOT_PARTS_MAX} parts; let fewer things be remembered, or \
         split the installation into cells"
    )]
    TooMany,
    /// The parts do not hold what the record says.
    #[error("the snapshot through {through} has {found} records instead of {expected}")]
    Incomplete {
        /// Its last entry.
        through: u64,
        /// How many there are.
        found: u64,
        /// How many there should be.
        expected: u64,
    },
    /// What is asked for is older than what is kept.
    #[error("ledger entry {wanted} was trimmed; the first available entry is {first}")]
    Before {
        /// The entry that is asked for.
        wanted: u64,
        /// The earliest one there is something to begin with.
        first: u64,
    },
    /// The ledger begins later than the latest snapshot reaches.
    #[error(
        "the ledger begins at {first}, and no snapshot reaches that far; what was before is lost, \
         STATE still has the present"
    )]
    Gap {
        /// Its first sequence.
        first: u64,
    },
}

/// Records with the sequences of the entries that wrote them, and what replay needs besides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Base {
    /// The last entry that is folded in, 0 before the first.
    pub through: u64,
    /// The epoch of that entry's owner.
    pub epoch: u64,
    /// Every request up to this sequence is decided.
    pub intake_seq: u64,
    /// The records.
    pub records: Vec<(Record, u64)>,
    /// Those that this version cannot read.
    pub held: Vec<(Held, u64)>,
}

impl Base {
    /// What reading the ledger on from here begins with.
    #[must_use]
    pub fn restart(self) -> Restart {
        let Self { through, epoch, intake_seq, records, held } = self;
        let images = records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
        let images = images.collect();
        let mut restart = Restart { images, epoch, intake_seq, through, ..Restart::default() };
        held.into_iter().for_each(|(held, seq)| restart.hold(held, seq));
        restart
    }

    /// The records alone.
    #[must_use]
    pub fn folded(&self) -> Records {
        let mut records = Records::default();
        records.epoch = self.epoch;
        records.intake_seq = self.intake_seq;
        self.records.iter().for_each(|(record, _)| records.put(record.clone()));
        self.held.iter().for_each(|(held, _)| records.hold(held.clone()));
        records
    }
}

/// Keeps the records as they were after an entry. The bus knows nothing of it until an entry of the
/// ledger says so. Encoding is done on another thread; a part at a time is held.
///
/// # Errors
/// See [`SnapshotError`]; it may be made again.
pub async fn keep(bus: &Bus, base: Base, at: BusTime) -> Result<Snapshot, SnapshotError> {
    let Base { through, epoch, intake_seq, records, held } = base;
    if let Some((held, _)) = held.into_iter().next() {
        return Err(SnapshotError::Held(held));
    }
    let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
    let artifacts = Artifacts::new(bus);
    let mut left = records.into_iter();
    let (mut parts, mut bytes) = (Vec::new(), 0);
    loop {
        let (encoded, rest) = match spawn_blocking(move || encode(left)).await {
            Ok(encoded) => encoded?,
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        };
        left = rest;
        let Some(encoded) = encoded else { break };
        if parts.len() == SNAPSHOT_PARTS_MAX {
            return Err(SnapshotError::TooMany);
        }
        let kept = artifacts.put_bytes(&encoded, MEDIA_TYPE).await?;
        bytes += kept.size;
        parts.push(kept.sha256);
    }
    let before = Vec::new();
    Ok(Snapshot { through, epoch, intake_seq, at, records: count, bytes, parts, before })
}

type RecordIter = std::vec::IntoIter<(Record, u64)>;

/// The next part, none after the last one.
fn encode(mut left: RecordIter) -> Result<(Option<Vec<u8>>, RecordIter), CodecError> {
    let mut part = PartBuilder::default();
    while !part.is_full()
        && let Some((record, seq)) = left.next()
    {
        part.add(&record, seq)?;
    }
    let bytes = (!part.is_empty()).then(|| part.take());
    Ok((bytes, left))
}

/// Reads a snapshot back.
///
/// # Errors
/// A part is missing or damaged.
pub async fn read(bus: &Bus, snapshot: &Snapshot) -> Result<Base, SnapshotError> {
    let artifacts = Artifacts::new(bus);
    let (mut records, mut held) = (Vec::new(), Vec::new());
    for part in &snapshot.parts {
        let bytes = artifacts.get_bytes(part).await?;
        match spawn_blocking(move || decode_part(&bytes)).await {
            Ok(decoded) => {
                let contents = decoded?;
                records.extend(contents.records);
                held.extend(contents.held);
            }
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
    let found = u64::try_from(records.len() + held.len()).unwrap_or(u64::MAX);
    let Snapshot { through, epoch, intake_seq, records: expected, .. } = *snapshot;
    if found != expected {
        return Err(SnapshotError::Incomplete { through, found, expected });
    }
    Ok(Base { through, epoch, intake_seq, records, held })
}

/// The latest snapshot, as STATE tells of it; none before the first.
///
/// # Errors
/// STATE cannot be read, or the record is of a newer version.
pub async fn latest(bus: &Bus) -> Result<Option<Snapshot>, SnapshotError> {
    let wanted = [state::Select::One(RecordKey::Snapshot)];
    let found = state::read_records(bus, &wanted).await?;
    if let Some(broken) = found.unreadable.into_iter().next() {
        return Err(SnapshotError::Record(broken.error));
    }
    let mut records = found.records.into_iter();
    Ok(records.find_map(|(record, _)| {
        if let Record::Snapshot(snapshot) = record { Some(*snapshot) } else { None }
    }))
}

/// What reading the ledger up to an entry begins with: nothing when all of it is there, the latest
/// snapshot when it is trimmed.
///
/// # Errors
/// The snapshot cannot be read, or what is kept begins after the entry.
pub async fn base_before(bus: &Bus, through: u64) -> Result<Base, SnapshotError> {
    let base = base(bus).await?;
    if base.through > through {
        return Err(SnapshotError::Before { wanted: through, first: base.through });
    }
    Ok(base)
}

/// What reading the ledger from its beginning begins with: nothing when all of it is there, the
/// latest snapshot when it is trimmed.
///
/// # Errors
/// The snapshot cannot be read, or there is none that reaches to where the ledger begins.
pub async fn base(bus: &Bus) -> Result<Base, SnapshotError> {
    let first = bus.stream_extent(LEDGER).await?.first;
    if first <= 1 {
        return Ok(Base::default());
    }
    match latest(bus).await? {
        Some(snapshot) if snapshot.through + 1 >= first => read(bus, &snapshot).await,
        Some(_) | None => Err(SnapshotError::Gap { first }),
    }
}

/// Removes the parts of earlier snapshots. Doing it again changes nothing.
///
/// # Errors
/// What the bus answered.
pub async fn remove(bus: &Bus, parts: &[String]) -> Result<(), ArtifactError> {
    let artifacts = Artifacts::new(bus);
    for part in parts {
        artifacts.remove(part, MEDIA_TYPE).await?;
    }
    Ok(())
}
