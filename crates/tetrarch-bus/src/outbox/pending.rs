//! Images of STATE that are to be written: of each key the last one. While much goes on, one whose next is
//! near waits for it, so that a short life is one image a record (spec 02, Few messages). What is not
//! written is not out either.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tokio::time::Instant;

/// Agents whose images wait from which on much goes on.
const MANY_AGENTS: usize = 32;
/// The longest that an image waits.
const WAIT_MOST: Duration = Duration::from_secs(1);
/// Entries whose images wait at most; when they are as many all are written.
const ENTRIES_MAX: usize = 512;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    keys: BTreeMap<RecordKey, PendingImage>,
    /// Entries that are not out, in the ledger's order.
    entries: VecDeque<OutboxEntry>,
}

/// The last image of a key.
#[derive(Debug)]
pub(super) struct PendingImage {
    /// The entry of the first one that is not written.
    first: u64,
    /// When that came.
    since: Instant,
    /// The entry that it is from.
    pub(super) ledger: u64,
    entry: Arc<Entry>,
    /// Its place among the entry's records; none when the key is dropped.
    place: Option<usize>,
}

/// An entry on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxEntry {
    /// Its sequence in the ledger.
    pub(super) seq: u64,
    /// Every request up to this sequence is decided.
    pub(super) intake_seq: u64,
    /// The epoch of its owner.
    pub(super) epoch: u64,
}

impl PendingImage {
    /// The record; none when the key is dropped.
    pub(super) fn record(&self) -> Option<&Record> {
        self.place.and_then(|place| self.entry.records.get(place))
    }
}

impl PendingImages {
    /// Adds entries that are announced.
    pub(super) fn add(&mut self, entries: &[(u64, Arc<Entry>)], now: Instant) {
        for (seq, entry) in entries {
            let (intake_seq, epoch) = (entry.intake_seq, entry.epoch);
            self.entries.push_back(OutboxEntry { seq: *seq, intake_seq, epoch });
            for (place, record) in entry.records.iter().enumerate() {
                self.put(record.key(), (*seq, entry), Some(place), now);
            }
            for key in &entry.dropped {
                self.put(key.clone(), (*seq, entry), None, now);
            }
        }
    }

    fn put(
        &mut self,
        key: RecordKey,
        (ledger, entry): (u64, &Arc<Entry>),
        place: Option<usize>,
        now: Instant,
    ) {
        let known = self.keys.get(&key).map(|known| (known.first, known.since));
        let (first, since) = known.unwrap_or((ledger, now));
        let entry = Arc::clone(entry);
        self.keys.insert(key, PendingImage { first, since, ledger, entry, place });
    }

    /// Whether much goes on.
    fn is_busy(&self) -> bool {
        let agents = self.keys.keys().filter(|key| matches!(key, RecordKey::Agent(_)));
        agents.take(MANY_AGENTS).count() == MANY_AGENTS
    }

    /// When the first of them has waited for as long as it may.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.keys.values().map(|pending| pending.since + WAIT_MOST).min()
    }

    /// What is to be written now: everything, unless much goes on and no goal has ended, whose orchestrator
    /// waits until everything is out.
    pub(super) fn take_due(&mut self, now: Instant) -> BTreeMap<RecordKey, PendingImage> {
        let ends_goal = |image: &PendingImage| image.record().is_some_and(Record::ends_goal);
        let waited_for = self.keys.values().any(ends_goal);
        if !self.is_busy() || waited_for || self.entries.len() >= ENTRIES_MAX {
            return std::mem::take(&mut self.keys);
        }
        let waits = |pending: &PendingImage| {
            now < pending.since + WAIT_MOST && pending.record().is_some_and(Record::changes_soon)
        };
        self.keys.extract_if(.., |_, pending| !waits(pending)).collect()
    }

    /// The last entry up to which everything is taken, when that moved.
    pub(super) fn pass(&mut self) -> Option<OutboxEntry> {
        let first = self.keys.values().map(|pending| pending.first).min().unwrap_or(u64::MAX);
        let out = self.entries.partition_point(|entry| entry.seq < first);
        self.entries.drain(..out).next_back()
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_core::goal::{GoalState, GoalStatus};
    use tetrarch_core::id::{AgentId, CommitId, EpicId, Ulid};
    use tetrarch_core::plan::{Plan, PlanReason, PlanSource};
    use tetrarch_core::time::BusTime;

    use super::*;

    fn plan(number: u128) -> Record {
        Record::Plan(Box::new(Plan {
            id: "plan_01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap(),
            epic: EpicId(Ulid(number)),
            project: "demo".parse().unwrap(),
            version: 1,
            source: PlanSource::Overseer,
            reason: PlanReason::Spawn,
            output: None,
            folded: Default::default(),
            trace: None,
            created: BusTime(1),
            updated: BusTime(1),
        }))
    }

    /// An entry with these plans, that drops these agents.
    fn entry(seq: u64, plans: &[u128], agents: std::ops::Range<u128>) -> (u64, Arc<Entry>) {
        let entry = Entry {
            records: plans.iter().copied().map(plan).collect(),
            dropped: agents.map(|it| RecordKey::Agent(AgentId::Worker(Ulid(it)))).collect(),
            ..Entry::empty(CommitId(Ulid(1)), 1, BusTime(seq), seq * 10)
        };
        (seq, Arc::new(entry))
    }

    fn taken(pending: &mut PendingImages, now: Instant) -> Vec<u64> {
        pending.take_due(now).into_values().map(|image| image.ledger).collect()
    }

    fn passed(pending: &mut PendingImages) -> Option<(u64, u64)> {
        pending.pass().map(|entry| (entry.seq, entry.intake_seq))
    }

    #[test]
    fn images_are_written_at_once_while_little_goes_on() {
        let (mut pending, now) = (PendingImages::default(), Instant::now());
        let few = entry(1, &[1], 0..MANY_AGENTS as u128 - 1);
        pending.add(&[few], now);
        assert!(!pending.is_busy());
        assert_eq!(taken(&mut pending, now).len(), MANY_AGENTS);
        assert_eq!(passed(&mut pending), Some((1, 10)));
        assert_eq!((passed(&mut pending), pending.next_due()), (None, None));
    }

    #[test]
    fn images_of_what_goes_on_wait_while_much_does_and_are_one() {
        let (mut pending, began) = (PendingImages::default(), Instant::now());
        let many = MANY_AGENTS as u128;
        pending.add(&[entry(1, &[], 0..1), entry(2, &[1], 1..many)], began);
        assert!(pending.is_busy());
        assert_eq!(taken(&mut pending, began).len(), MANY_AGENTS, "the plan waits");
        assert_eq!(passed(&mut pending), Some((1, 10)), "what it waits with is not out");
        assert_eq!(pending.next_due(), Some(began + WAIT_MOST));

        let later = began + WAIT_MOST - Duration::from_millis(1);
        pending.add(&[entry(3, &[1], 0..many)], later);
        assert_eq!(taken(&mut pending, later).len(), MANY_AGENTS);
        assert_eq!(passed(&mut pending), None);
        pending.add(&[entry(4, &[], 0..many)], began + WAIT_MOST);
        let written = taken(&mut pending, began + WAIT_MOST);
        assert_eq!((written.len(), written.contains(&3)), (MANY_AGENTS + 1, true), "the last one");
        assert_eq!(passed(&mut pending), Some((4, 40)));
    }

    #[test]
    fn everything_is_written_when_a_goal_has_ended() {
        let state = |status| {
            let (id, since) = (EpicId(Ulid(9)), BusTime(1));
            let (result, priorities) = (None, Default::default());
            let state = GoalState { id, status, percent: 100, result, since, priorities };
            Record::GoalState(Box::new(state))
        };
        let many = MANY_AGENTS as u128;
        for (status, all) in [(GoalStatus::Active, false), (GoalStatus::Completed, true)] {
            let (mut pending, now) = (PendingImages::default(), Instant::now());
            let (seq, mut ended) = entry(1, &[1], 0..many);
            Arc::get_mut(&mut ended).unwrap().records.push(state(status));
            pending.add(&[(seq, ended)], now);
            let images = MANY_AGENTS + if all { 2 } else { 0 };
            assert_eq!(taken(&mut pending, now).len(), images, "{status}");
            assert_eq!(passed(&mut pending).is_some(), all, "{status}");
        }
    }

    #[test]
    fn everything_is_written_when_too_many_entries_wait() {
        let (mut pending, now) = (PendingImages::default(), Instant::now());
        let many = MANY_AGENTS as u128;
        for seq in 1..ENTRIES_MAX as u64 {
            pending.add(&[entry(seq, &[1], 0..many)], now);
            assert_eq!(taken(&mut pending, now).len(), MANY_AGENTS, "the plan waits");
            assert_eq!(passed(&mut pending), None);
        }
        let last = ENTRIES_MAX as u64;
        pending.add(&[entry(last, &[1], 0..many)], now);
        assert_eq!(taken(&mut pending, now).len(), MANY_AGENTS + 1);
        assert_eq!(passed(&mut pending), Some((last, last * 10)));
    }
}
