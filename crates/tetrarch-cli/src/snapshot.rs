//! The fleet as STATE shows it, for views: records with the ledger sequence each comes from, and
//! what follows from them. Nothing is decided on it (spec 02, Client rules).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tetrarch_bus::Bus;
use tetrarch_bus::codec;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::EpicId;
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::folding::FoldedChildren;
use tetrarch_core::plan::rollup::{Rollup, rollup};
use tetrarch_core::records::Records;
use tetrarch_core::restart::Images;

use crate::exit::{CliError, Code};
use crate::output::plain;

/// Some records of STATE.
#[derive(Debug, Default)]
pub(crate) struct StateSnapshot {
    /// The records, by kind and key.
    pub(crate) records: Records,
    sequences: BTreeMap<RecordKey, u64>,
    rollups: BTreeMap<EpicId, Rollup>,
}

impl StateSnapshot {
    /// Reads records.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read STATE.
    pub(crate) async fn read(bus: &Bus, wanted: &[Select]) -> Result<Self, CliError> {
        let mut snapshot = Self::default();
        snapshot.add(bus, wanted).await?;
        Ok(snapshot)
    }

    /// Reads more records.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read STATE.
    pub(crate) async fn add(&mut self, bus: &Bus, wanted: &[Select]) -> Result<(), CliError> {
        let found = read_records(bus, wanted).await?;
        for unreadable in &found.unreadable {
            tracing::warn!(
                subject = unreadable.subject,
                error = %unreadable.error,
                "a record of STATE cannot be read and is left out"
            );
        }
        for (record, seq) in found.records {
            self.put(record, seq);
        }
        self.roll_up_all();
        Ok(())
    }

    fn roll_up_all(&mut self) {
        let epics: Vec<EpicId> = self.records.nodes.keys().copied().collect();
        epics.into_iter().for_each(|epic| self.roll_up(epic));
    }

    /// What the records were after an entry, with the sequences of those that wrote them.
    pub(crate) fn past(images: &Images) -> Self {
        let mut snapshot = Self::default();
        images.values().for_each(|(record, seq)| snapshot.put(record.clone(), *seq));
        snapshot.roll_up_all();
        snapshot
    }

    /// Folds a ledger entry in; gives the keys of what is newer in it.
    pub(crate) fn apply(&mut self, seq: u64, entry: &Entry) -> Vec<RecordKey> {
        let mut changed = Vec::new();
        let mut epics = BTreeSet::new();
        for record in &entry.records {
            let key = record.key();
            if self.sequence(&key) >= seq {
                continue;
            }
            if let RecordKey::Node(epic, _)
            | RecordKey::NodeState(epic, _)
            | RecordKey::Plan(epic) = &key
            {
                epics.insert(*epic);
            }
            self.put(record.clone(), seq);
            changed.push(key);
        }
        for key in entry.dropped.iter().filter(|key| self.sequence(key) < seq).collect::<Vec<_>>() {
            self.sequences.remove(key);
            self.records.remove(key);
        }
        epics.into_iter().for_each(|epic| self.roll_up(epic));
        changed
    }

    fn put(&mut self, record: Record, seq: u64) {
        self.sequences.insert(record.key(), seq);
        self.records.put(record);
    }

    fn roll_up(&mut self, epic: EpicId) {
        let Some(nodes) = self.records.nodes.get(&epic) else { return };
        let all: Vec<_> = nodes.keys().copied().collect();
        let states = self.records.node_states.get(&epic).into_iter().flatten();
        let leaves = states.map(|(id, state)| (*id, state.status)).collect();
        let none = FoldedChildren::new();
        let folded = self.records.plans.get(&epic).map_or(&none, |plan| &plan.folded);
        self.rollups.insert(epic, rollup(&leaves, &all, folded));
    }

    /// What an epic's nodes come to; none when none of them was read.
    pub(crate) fn rollup(&self, epic: EpicId) -> Option<&Rollup> {
        self.rollups.get(&epic)
    }

    /// A node's status, derived where it is not given.
    pub(crate) fn node_status(&self, epic: EpicId, node: tetrarch_core::id::NodeId) -> NodeStatus {
        let derived = self.rollup(epic).and_then(|rollup| rollup.statuses.get(&node));
        derived.copied().unwrap_or(NodeStatus::Todo)
    }

    /// The ledger sequence a record comes from, 0 when it was not read.
    pub(crate) fn sequence(&self, key: &RecordKey) -> u64 {
        self.sequences.get(key).copied().unwrap_or(0)
    }

    /// A record's JSON as it is printed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn json(&self, record: &Record) -> Result<Value, CliError> {
        let broken = |error: String| CliError::new(Code::Failed, error);
        let bytes = codec::record_json(record, self.sequence(&record.key()))
            .map_err(|error| broken(error.to_string()))?;
        let value = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        Ok(plain(codec::record_message(KeyKind::of(&record.key())), value))
    }
}

/// There is no plan of an epic.
pub(crate) fn no_plan_of(epic: EpicId) -> CliError {
    CliError::new(Code::NotFound, format!("{epic} has no plan"))
        .hint("list goals with `tetrarch get goals`")
}
