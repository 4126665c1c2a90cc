//! An owner's start (spec 02): what STATE shows, then the ledger's tail; and whether this is still
//! the ledger that was written to. Reads may lag behind what was acknowledged, so what was folded
//! says itself how far it goes; the next commit expects that sequence. It reads nothing itself.

use std::collections::BTreeMap;

use crate::held::Held;
use crate::id::{EpicId, NodeId};
use crate::ledger::{Entry, Record, RecordKey};
use crate::plan::folding::FoldedChildren;
use crate::plan::view::{changed, nodes_of};
use crate::plan::{Node, NodeState};
use crate::records::Records;

/// What somebody remembers of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// When the server made it, as the server says it; empty when nothing is remembered.
    pub created: String,
    /// The highest sequence ever acknowledged.
    pub high: u64,
}

/// The ledger lost what was acknowledged (spec 02, Amnesia guard; spec 10, 28).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Amnesia {
    /// It was made anew.
    #[error("it was created at {now}, the remembered one at {then}")]
    Another {
        /// When this one was made.
        now: String,
        /// When the one was made that is remembered.
        then: String,
    },
    /// It is shorter.
    #[error("its last sequence is {last}, but {high} was acknowledged")]
    Shorter {
        /// Its last sequence.
        last: u64,
        /// The highest that was acknowledged.
        high: u64,
    },
}

impl Amnesia {
    /// Whether a server that lags behind would say the same of a ledger that has everything: it is
    /// to be asked again, for longer than servers lag behind.
    #[must_use]
    pub fn may_be_lag(&self) -> bool {
        match self {
            Self::Another { .. } => false,
            Self::Shorter { .. } => true,
        }
    }
}

impl Memory {
    /// Judges a ledger that was made at `created` and whose last sequence is `last`.
    ///
    /// # Errors
    /// It is not the one that is remembered, or shorter: nothing may be decided on it.
    pub fn judge(&self, created: &str, last: u64) -> Result<(), Amnesia> {
        if !self.created.is_empty() && self.created != created {
            let (now, then) = (created.to_owned(), self.created.clone());
            return Err(Amnesia::Another { now, then });
        }
        if last < self.high {
            return Err(Amnesia::Shorter { last, high: self.high });
        }
        Ok(())
    }
}

/// Records with the sequences of the entries that wrote them.
pub type Images = BTreeMap<RecordKey, (Record, u64)>;

/// STATE with as much of the ledger's tail as was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Restart {
    /// Every record, with the sequence of the entry that wrote it.
    pub images: Images,
    /// The highest epoch of an owner.
    pub epoch: u64,
    /// Every request up to this sequence is decided.
    pub intake_seq: u64,
    /// The last entry that is folded in: what the next commit has to expect.
    pub through: u64,
    /// Records that this version cannot read, with the sequence of the entry that wrote each.
    pub held: BTreeMap<RecordKey, (Held, u64)>,
    /// Those of kinds that it does not know.
    pub foreign: Vec<Held>,
}

impl Restart {
    /// Folds the next entry that was read in. An after-image applies only if its entry is later
    /// than the one STATE has it from.
    pub fn add(&mut self, seq: u64, entry: &Entry) {
        self.through = self.through.max(seq);
        self.epoch = self.epoch.max(entry.epoch);
        self.intake_seq = entry.decided(self.intake_seq);
        for record in &entry.records {
            let key = record.key();
            if self.is_news(&key, seq) {
                self.held.remove(&key);
                self.images.insert(key, (record.clone(), seq));
            }
        }
        for key in &entry.dropped {
            if self.is_news(key, seq) {
                self.held.remove(key);
                self.images.remove(key);
            }
        }
        for held in &entry.held {
            self.hold(held.clone(), seq);
        }
    }

    /// A record that this version cannot read was written by an entry, unless a later one is known.
    pub fn hold(&mut self, held: Held, seq: u64) {
        match held.key.clone() {
            None => self.foreign.push(held),
            Some(key) if self.is_news(&key, seq) => {
                self.images.remove(&key);
                self.held.insert(key, (held, seq));
            }
            Some(_) => {}
        }
    }

    fn is_news(&self, key: &RecordKey, seq: u64) -> bool {
        let image = self.images.get(key).map(|(_, known)| *known);
        let held = self.held.get(key).map(|(_, known)| *known);
        image.max(held).is_none_or(|known| known < seq)
    }

    /// Makes an entry that was read, and just added, what it was when it was decided: the ledger does not
    /// keep the nodes of its plan events. Where STATE is ahead of the entry they are as STATE has them,
    /// and the event was published before.
    pub fn complete(&self, entry: &mut Entry) {
        let Entry { plans, records, dropped, .. } = entry;
        let keys: Vec<RecordKey> = records.iter().map(Record::key).collect();
        for event in plans.iter_mut().filter(|event| event.nodes.is_empty()) {
            let epic = event.epic;
            let folded = match self.images.get(&RecordKey::Plan(epic)) {
                Some((Record::Plan(plan), _)) => plan.folded.clone(),
                Some(_) | None => FoldedChildren::new(),
            };
            let changed = changed(epic, keys.iter().chain(dropped.iter()));
            let (nodes, states) = (self.nodes(epic), self.node_states(epic));
            event.nodes = nodes_of(event, &changed, &nodes, &states, &folded);
        }
    }

    fn nodes(&self, epic: EpicId) -> BTreeMap<NodeId, Node> {
        let images = self.images.range(RecordKey::Node(epic, NodeId::phase(0))..);
        let nodes = images.map_while(|(_, (record, _))| {
            let Record::Node(of, node) = record else { return None };
            (*of == epic).then(|| (node.id, (**node).clone()))
        });
        nodes.collect()
    }

    fn node_states(&self, epic: EpicId) -> BTreeMap<NodeId, NodeState> {
        let images = self.images.range(RecordKey::NodeState(epic, NodeId::phase(0))..);
        let states = images.map_while(|(_, (record, _))| {
            let Record::NodeState(of, state) = record else { return None };
            (*of == epic).then(|| (state.id, (**state).clone()))
        });
        states.collect()
    }

    /// A message that is no valid commit was read: everyone skips it.
    pub fn skip(&mut self, seq: u64) {
        self.through = self.through.max(seq);
    }

    /// The epoch of another owner behind which the one of `epoch` may not write: a later one's, or,
    /// before its own first commit, one that was given the same epoch (spec 10, 8). A commit that was
    /// refused does not say so when what refused it cannot be read.
    #[must_use]
    pub fn deposed_by(&self, epoch: u64, has_begun: bool) -> Option<u64> {
        let deposed = self.epoch > epoch || (self.epoch == epoch && !has_begun);
        deposed.then_some(self.epoch)
    }

    /// The records alone.
    #[must_use]
    pub fn records(self) -> Records {
        let mut records = Records::default();
        records.epoch = self.epoch;
        records.intake_seq = self.intake_seq;
        self.images.into_values().for_each(|(record, _)| records.put(record));
        self.held.into_values().for_each(|(held, _)| records.hold(held));
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Host;
    use crate::held::Unread;
    use crate::id::{CommitId, HostName, Ulid};
    use crate::time::BusTime;

    #[test]
    fn different_or_shorter_ledger_stops_the_owner() {
        let memory = Memory { created: "then".to_owned(), high: 7 };
        assert_eq!(Memory::default().judge("now", 0), Ok(()), "a new installation");
        assert_eq!(memory.judge("then", 7), Ok(()));
        assert_eq!(memory.judge("then", 8), Ok(()));
        let shorter = memory.judge("then", 6).unwrap_err();
        assert_eq!(shorter, Amnesia::Shorter { last: 6, high: 7 });
        assert!(shorter.may_be_lag());
        let another = memory.judge("now", 8).unwrap_err();
        assert!(another.to_string().contains("created at now"), "{another}");
        assert!(!another.may_be_lag());
    }

    fn entry(seq: u64, capacity: u32) -> Entry {
        let host = Host {
            name: HostName::new("h1").unwrap(),
            instance: "one".to_owned(),
            labels: Vec::new(),
            capacity,
            address: String::new(),
            joined: BusTime(1),
            drained: false,
        };
        Entry {
            commit: CommitId(Ulid(seq.into())),
            epoch: 2,
            at: BusTime(1),
            intake_seq: seq,
            events: Vec::new(),
            records: vec![Record::Host(host)],
            held: Vec::new(),
            dropped: Vec::new(),
            seals: Vec::new(),
            mail: Vec::new(),
            plans: Vec::new(),
            reviews: Vec::new(),
        }
    }

    #[test]
    fn state_image_yields_only_to_later_entries() {
        let mut restart = Restart { through: 4, epoch: 1, ..Restart::default() };
        let Entry { records, .. } = entry(6, 60);
        restart.images = records.into_iter().map(|image| (image.key(), (image, 6))).collect();
        for (seq, capacity) in [(5, 50), (6, 61), (7, 70)] {
            restart.add(seq, &entry(seq, capacity));
            let shown = restart.clone().records();
            let expected = if seq < 7 { 60 } else { 70 };
            assert_eq!(shown.hosts.values().next().map(|host| host.capacity), Some(expected));
        }
        assert_eq!((restart.through, restart.epoch, restart.intake_seq), (7, 2, 7));
        let gone = Entry {
            dropped: restart.images.keys().cloned().collect(),
            records: Vec::new(),
            ..entry(8, 0)
        };
        restart.add(8, &gone);
        restart.skip(9);
        assert_eq!((restart.images.len(), restart.through), (0, 9));
    }

    #[test]
    fn newer_versions_record_yields_only_to_later_entries() {
        let Entry { records, .. } = entry(4, 40);
        let key = records[0].key();
        let why = Unread::Newer { needs: 2, reads: 1 };
        let held = |key| Held { name: "host.h1".to_owned(), key, why: why.clone() };
        let mut restart = Restart::default();
        restart.add(4, &entry(4, 40));
        restart.hold(held(Some(key.clone())), 6);
        restart.add(5, &entry(5, 50));
        let shown = restart.clone().records();
        assert_eq!((shown.hosts.len(), shown.held.len()), (0, 1), "an earlier image is no news");
        let told = Entry { records: Vec::new(), held: vec![held(None)], ..entry(7, 0) };
        restart.add(7, &told);
        assert_eq!((restart.foreign.len(), restart.held.len()), (1, 1));
        let gone = Entry { records: Vec::new(), dropped: vec![key], ..entry(8, 0) };
        let mut dropped = restart.clone();
        dropped.add(8, &gone);
        assert_eq!((dropped.images.len(), dropped.held.len()), (0, 0));
        restart.add(8, &entry(8, 80));
        let shown = restart.records();
        assert_eq!((shown.hosts.len(), shown.held.len()), (1, 0), "a later one is");
    }

    #[test]
    fn owner_never_writes_behind_one_of_its_or_a_later_epoch() {
        let restart = Restart { epoch: 6, ..Restart::default() };
        assert_eq!(restart.deposed_by(7, false), None);
        assert_eq!(restart.deposed_by(6, true), None, "its own entries");
        assert_eq!(restart.deposed_by(6, false), Some(6));
        assert_eq!(restart.deposed_by(5, true), Some(6));
        assert_eq!(Restart::default().deposed_by(1, false), None, "a new installation");
    }

    #[test]
    fn unread_records_are_not_expected() {
        // The server said that there are nine entries, and the replica that was read had six.
        let mut restart = Restart { through: 4, ..Restart::default() };
        (5..=6).for_each(|seq| restart.add(seq, &entry(seq, 1)));
        assert_eq!(restart.through, 6);
    }
}
