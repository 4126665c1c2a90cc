//! The records of a fleet with the ledger sequence each comes from, and what follows from them for views.
//! Entries of the ledger are folded in, in any order: what is older than what is known changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::folding::FoldedChildren;
use tetrarch_core::plan::rollup::{Rollup, rollup};
use tetrarch_core::records::Records;
use tetrarch_core::restart::Images;

/// Some records.
#[derive(Debug, Default)]
pub struct RecordFold {
    /// The records, by kind and key.
    pub records: Records,
    sequences: BTreeMap<RecordKey, u64>,
    rollups: BTreeMap<EpicId, Rollup>,
}

impl RecordFold {
    /// Adds records that were read, each with its sequence.
    pub fn add(&mut self, found: impl IntoIterator<Item = (Record, u64)>) {
        for (record, seq) in found {
            self.put(record, seq);
        }
        let epics: Vec<EpicId> = self.records.nodes.keys().copied().collect();
        epics.into_iter().for_each(|epic| self.roll_up(epic));
    }

    /// What the records were after an entry, with the sequences of those that wrote them.
    #[must_use]
    pub fn past(images: &Images) -> Self {
        let mut fold = Self::default();
        fold.add(images.values().cloned());
        fold
    }

    /// Folds a ledger entry in; gives the keys of what is newer in it.
    pub fn apply(&mut self, seq: u64, entry: &Entry) -> Vec<RecordKey> {
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
    #[must_use]
    pub fn rollup(&self, epic: EpicId) -> Option<&Rollup> {
        self.rollups.get(&epic)
    }

    /// A node's status, derived where it is not given.
    #[must_use]
    pub fn node_status(&self, epic: EpicId, node: NodeId) -> NodeStatus {
        let derived = self.rollup(epic).and_then(|rollup| rollup.statuses.get(&node));
        derived.copied().unwrap_or(NodeStatus::Todo)
    }

    /// The ledger sequence a record comes from, 0 when it was not read.
    #[must_use]
    pub fn sequence(&self, key: &RecordKey) -> u64 {
        self.sequences.get(key).copied().unwrap_or(0)
    }
}
