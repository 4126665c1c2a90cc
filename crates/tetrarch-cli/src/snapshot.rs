//! The fleet as STATE shows it, for views: how its records are read and printed. What they come to is
//! `tetrarch-view`'s. Nothing is decided on it (spec 02, Client rules).

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::id::EpicId;
use tetrarch_core::ledger::Record;
use tetrarch_core::restart::Images;
use tetrarch_view::fold::RecordFold;

use crate::history::next_entry;
use crate::output::plain;
use crate::{CliError, CliResult, Code};

/// Entries of the ledger that are read beside STATE; it lags by more only while something is wrong.
const UNWRITTEN_MAX: u64 = 1_000;

/// Some records of STATE.
#[derive(Debug, Default)]
pub(crate) struct StateSnapshot(pub(crate) RecordFold);

impl Deref for StateSnapshot {
    type Target = RecordFold;
    fn deref(&self) -> &RecordFold {
        &self.0
    }
}

impl DerefMut for StateSnapshot {
    fn deref_mut(&mut self) -> &mut RecordFold {
        &mut self.0
    }
}

impl StateSnapshot {
    /// Reads records.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read STATE.
    pub(crate) async fn read(bus: &Bus, wanted: &[Select]) -> CliResult<Self> {
        let mut snapshot = Self::default();
        snapshot.add(bus, wanted).await?;
        Ok(snapshot)
    }

    /// Reads records with what is committed and not in STATE yet: an operation is answered before STATE has what it
    /// did.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read STATE or the ledger.
    pub(crate) async fn read_committed(bus: &Bus, wanted: &[Select]) -> CliResult<Self> {
        let from = next_entry(bus).await?;
        let mut snapshot = Self::read(bus, wanted).await?;
        let through = bus.stream_last_seq(LEDGER).await?;
        for item in read_ledger(bus, from, through.min(from + UNWRITTEN_MAX), 0).await {
            if let Ok(entry) = &item.entry {
                snapshot.apply(item.seq, entry);
            }
        }
        Ok(snapshot)
    }

    /// Reads more records.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read STATE.
    pub(crate) async fn add(&mut self, bus: &Bus, wanted: &[Select]) -> CliResult {
        let found = read_records(bus, wanted).await?;
        for unreadable in &found.unreadable {
            tracing::warn!(
                subject = unreadable.subject,
                error = %unreadable.error,
                "a record of STATE cannot be read and is left out"
            );
        }
        self.0.add(found.records);
        Ok(())
    }

    /// What the records were after an entry, with the sequences of those that wrote them.
    pub(crate) fn past(images: &Images) -> Self {
        Self(RecordFold::past(images))
    }

    /// A record's JSON as it is printed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn json(&self, record: &Record) -> CliResult<Value> {
        let bytes =
            codec::record_json(record, self.sequence(&record.key())).map_err(CliError::failed)?;
        let value = serde_json::from_slice(&bytes).map_err(CliError::failed)?;
        Ok(plain(codec::record_message(KeyKind::of(&record.key())), value))
    }
}

/// There is no plan of an epic.
pub(crate) fn no_plan_of(epic: EpicId) -> CliError {
    CliError::new(Code::NotFound, format!("{epic} has no plan"))
        .hint("list goals with `tetrarch get goals`")
}
