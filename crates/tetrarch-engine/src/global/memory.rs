//! What the owner remembers of the ledger beside STATE: a file in its data directory (spec 02,
//! Amnesia guard). It is written whole or not at all, by a task of its own, so that no commit waits
//! for a disk (docs/decisions/0021). What follows from it is core's to say.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::state::OwnerMeta;
use tetrarch_bus::tail::{Witness, last_told};
use tetrarch_core::restart::Memory;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{EngineError, EngineResult};

/// The file in the data directory.
const FILE: &str = "ledger.memory";
/// The least time between two writes.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Where it is remembered what the ledger was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// STATE's own record.
    State,
    /// The owner's data directory.
    DataDirectory,
    /// The last plan event.
    PlanEvent,
    /// The owner's last order to an agent.
    Order,
}

impl fmt::Display for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "STATE",
            Self::DataDirectory => "the data directory",
            Self::PlanEvent => "the last plan event",
            Self::Order => "the owner's last order to an agent",
        })
    }
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StoredMemory {
    /// What the guard compares.
    pub(crate) ledger: Memory,
    /// What entries up to here make visible is out: from where a lost STATE is made anew.
    pub(crate) outbox_through: u64,
}

impl StoredMemory {
    /// What a data directory remembers; nothing of an installation that is new there.
    ///
    /// # Errors
    /// It is there and cannot be read: what it knew, nobody knows any more.
    pub(crate) async fn read(data_dir: &Path) -> EngineResult<Option<Self>> {
        let path = data_dir.join(FILE);
        let unreadable = |reason: String| EngineError::Memory { path: path.clone(), reason };
        match tokio::fs::read(&path).await {
            Ok(bytes) => Self::parse(&bytes).map(Some).map_err(unreadable),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// Keeps it. When this returns it outlives the machine's death.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) async fn write(self, data_dir: &Path) -> EngineResult {
        let path = data_dir.join(FILE);
        let at = path.clone();
        let written = spawn_blocking(move || replace(&at, &self.text())).await;
        match written {
            Ok(written) => {
                written.map_err(|error| EngineError::Memory { path, reason: error.to_string() })
            }
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }

    fn text(&self) -> String {
        json!({
            "ledgerCreated": self.ledger.created,
            "ledgerHigh": self.ledger.high.to_string(),
            "outboxThrough": self.outbox_through.to_string(),
        })
        .to_string()
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let text = |field: &str| {
            let found = value.get(field).and_then(Value::as_str);
            found.ok_or_else(|| format!("{field} is missing or not a string"))
        };
        let number = |field: &str| {
            text(field)?.parse::<u64>().map_err(|error| format!("{field} is not a number: {error}"))
        };
        let ledger =
            Memory { created: text("ledgerCreated")?.to_owned(), high: number("ledgerHigh")? };
        Ok(Self { ledger, outbox_through: number("outboxThrough")? })
    }
}

/// Replaces a file: a reader sees the old text or the new one, also after the machine died.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(directory)?;
    let beside = path.with_extension("memory.new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

/// What a data directory remembers of the ledger; nothing where no owner ever was.
///
/// # Errors
/// It is there and cannot be read.
pub async fn remembered(data_dir: &Path) -> EngineResult<Option<Memory>> {
    Ok(StoredMemory::read(data_dir).await?.map(|kept| kept.ledger))
}

/// Everything that remembers the ledger: STATE, the data directory, and what came from an entry and was
/// published.
///
/// # Errors
/// The bus does not give it.
pub async fn memories(
    bus: &Bus,
    meta: Option<&OwnerMeta>,
    kept: Option<&Memory>,
) -> EngineResult<Vec<(MemorySource, Memory)>> {
    let told =
        meta.map(|meta| Memory { created: meta.ledger_created.clone(), high: meta.ledger_high });
    let mut memories: Vec<(MemorySource, Memory)> =
        told.into_iter().map(|memory| (MemorySource::State, memory)).collect();
    memories.extend(kept.cloned().map(|memory| (MemorySource::DataDirectory, memory)));
    let published =
        [(MemorySource::PlanEvent, Witness::PlanEvent), (MemorySource::Order, Witness::Order)];
    for (keeper, witness) in published {
        let high = last_told(bus, witness).await?;
        memories.push((keeper, Memory { created: String::new(), high }));
    }
    Ok(memories)
}

/// Keeps what it is told, once a second at most.
#[derive(Debug)]
pub(super) struct MemoryWriter {
    told: watch::Sender<StoredMemory>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl MemoryWriter {
    /// Begins; without a data directory nothing is kept.
    pub(super) fn begin(data_dir: Option<PathBuf>) -> Self {
        let (told, changes) = watch::channel(StoredMemory::default());
        let (end, ended) = oneshot::channel();
        Self { told, end, task: tokio::spawn(keep(data_dir, changes, ended)) }
    }

    /// Where to tell it.
    pub(super) fn told(&self) -> watch::Sender<StoredMemory> {
        self.told.clone()
    }

    /// Writes what is not written yet, and ends.
    pub(super) async fn end(self) {
        // It ends by itself only when nothing is to be kept.
        let _ended = self.end.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "storing the memory of the ledger failed");
        }
    }
}

async fn keep(
    data_dir: Option<PathBuf>,
    mut changes: watch::Receiver<StoredMemory>,
    mut ended: oneshot::Receiver<()>,
) {
    let Some(data_dir) = data_dir else { return };
    let mut ending = false;
    while !ending {
        tokio::select! {
            changed = changes.changed() => ending = changed.is_err(),
            _ = &mut ended => ending = true,
        }
        let kept = changes.borrow_and_update().clone();
        if kept == StoredMemory::default() {
            continue;
        }
        if let Err(error) = kept.write(&data_dir).await {
            tracing::error!(%error, "the amnesia guard uses only STATE");
        }
        if !ending {
            ending = tokio::time::timeout(WRITE_EVERY, &mut ended).await.is_ok();
            if ending && changes.has_changed().unwrap_or(false) {
                let last = changes.borrow_and_update().clone();
                if let Err(error) = last.write(&data_dir).await {
                    tracing::error!(%error, "the amnesia guard uses only STATE");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(high: u64) -> StoredMemory {
        let ledger = Memory { created: "then".to_owned(), high };
        StoredMemory { ledger, outbox_through: high / 2 }
    }

    #[tokio::test]
    async fn stored_memory_is_read_back_and_garbage_is_no_new_installation() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        assert_eq!(StoredMemory::read(&below).await.unwrap(), None);
        kept(7).write(&below).await.unwrap();
        kept(u64::MAX).write(&below).await.unwrap();
        assert_eq!(StoredMemory::read(&below).await.unwrap(), Some(kept(u64::MAX)));
        assert_eq!(std::fs::read_dir(&below).unwrap().count(), 1, "nothing is left beside it");
        for garbage in
            ["", "null", "{}", "{\"ledgerCreated\": \"then\", \"ledgerHigh\": 7}", "\u{0}"]
        {
            std::fs::write(below.join(FILE), garbage).unwrap();
            let refused = StoredMemory::read(&below).await.unwrap_err();
            assert!(refused.to_string().contains("--accept-ledger"), "{refused}");
        }
    }

    #[tokio::test]
    async fn last_update_is_stored_on_shutdown() {
        let dir = tempfile::tempdir().unwrap();
        let memory_writer = MemoryWriter::begin(Some(dir.path().to_owned()));
        for high in 1..=50 {
            memory_writer.told().send_replace(kept(high));
            tokio::task::yield_now().await;
        }
        memory_writer.end().await;
        assert_eq!(StoredMemory::read(dir.path()).await.unwrap(), Some(kept(50)));
    }
}
