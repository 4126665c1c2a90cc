//! The ledger as a test follows it: entries folded into records, waited on for a state, and held against STATE.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::pin::Pin;
use std::time::{Duration, Instant};

use flate2::read::ZlibDecoder;
use futures::{Stream, StreamExt};
use tetrarch_bus::Bus;
use tetrarch_bus::codec::encode_entry;
use tetrarch_bus::snapshot;
use tetrarch_bus::state::{load, load_meta};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{LedgerItem, follow_ledger, read_ledger};
use tetrarch_core::check::check_entry;
use tetrarch_core::id::{AgentId, CommitId, Ulid};
use tetrarch_core::ledger::{Entry, Event, EventKind, Record};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::wait::{self, SOON, soon};

/// An entry that changes nothing.
#[must_use]
pub fn empty_entry(commit: u128, epoch: u64) -> Entry {
    Entry::empty(CommitId(Ulid(commit)), epoch, BusTime(1_000), 0)
}

/// How large an entry is before it is packed: its bounds are meant so.
///
/// # Panics
/// It breaks a bound.
#[must_use]
pub fn entry_bytes(entry: &Entry) -> usize {
    plain_entry(&encode_entry(entry).unwrap()).len()
}

/// The bytes of an entry before it was packed, of what is stored of it.
pub fn plain_entry(stored: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match ZlibDecoder::new(stored).read_to_end(&mut plain) {
        Ok(_) => plain,
        // A small one is stored as it is.
        Err(_) => stored.to_owned(),
    }
}

/// The ledger from its beginning to where a test has read it.
pub struct Ledger {
    items: Pin<Box<dyn Stream<Item = LedgerItem> + Send>>,
    /// What the entries so far come to.
    pub records: Records,
    /// Every entry so far, with its sequence.
    pub entries: Vec<(u64, Entry)>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Begins to read.
    #[must_use]
    pub fn follow(bus: &Bus) -> Self {
        let items = Box::pin(follow_ledger(bus, 1, 0));
        Self { items, records: Records::default(), entries: Vec::new() }
    }

    /// Reads on until the records show what is looked for.
    ///
    /// # Panics
    /// They do not in time, or an entry is invalid.
    pub async fn until<T>(&mut self, what: &str, look: impl Fn(&Records) -> Option<T>) -> T {
        wait::soon(what, async {
            loop {
                if let Some(seen) = look(&self.records) {
                    return seen;
                }
                self.read_on().await;
            }
        })
        .await
    }

    /// Reads on until this entry is read.
    ///
    /// # Panics
    /// It does not come in time, or an entry is invalid.
    pub async fn until_seq(&mut self, seq: u64) {
        wait::soon(&format!("entry {seq}"), async {
            while self.entries.last().map_or(0, |(last, _)| *last) < seq {
                self.read_on().await;
            }
        })
        .await;
    }

    /// Reads one entry more.
    ///
    /// # Panics
    /// None comes in time, or it is invalid.
    pub async fn until_next(&mut self, what: &str) {
        wait::soon(what, self.read_on()).await;
    }

    /// Reads on for as long as said, to see what does not happen.
    ///
    /// # Panics
    /// An entry is invalid.
    pub async fn during(&mut self, length: Duration) {
        let reading = async {
            loop {
                self.read_on().await;
            }
        };
        // It never ends by itself.
        let _over: Result<(), _> = tokio::time::timeout(length, reading).await;
    }

    async fn read_on(&mut self) {
        let Some(item) = self.items.next().await else { panic!("the ledger ended") };
        let entry = item.entry.unwrap_or_else(|error| panic!("{}: {error}", item.seq));
        self.records.apply(&entry);
        self.entries.push((item.seq, entry));
    }

    /// The events of a kind in the entries so far.
    #[must_use]
    pub fn events(&self, kind: EventKind) -> Vec<&Event> {
        let all = self.entries.iter().flat_map(|(_, entry)| &entry.events);
        all.filter(|event| event.kind == kind).collect()
    }

    /// The most slots each agent ever held at once, in the entries so far.
    #[must_use]
    pub fn widest(&self) -> BTreeMap<AgentId, usize> {
        let mut widest = BTreeMap::new();
        for record in self.entries.iter().flat_map(|(_, entry)| &entry.records) {
            if let Record::Agent(agent) = record {
                let most = widest.entry(agent.id.clone()).or_insert(0);
                *most = agent.slots.len().max(*most);
            }
        }
        widest
    }
}

/// What the ledger comes to, from the latest snapshot on.
async fn replayed(bus: &Bus) -> Records {
    let base = snapshot::base(bus).await.unwrap();
    let mut records = base.folded();
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    for item in read_ledger(bus, base.through + 1, last, base.epoch).await {
        let Ok(entry) = item.entry else { continue };
        assert_eq!(check_entry(&records, item.seq, &entry), []);
        records.apply(&entry);
    }
    records
}

/// The first lines in which two differ.
fn differing(left: &Records, right: &Records) -> String {
    let (left, right) = (format!("{left:#?}"), format!("{right:#?}"));
    let pairs = left.lines().zip(right.lines()).filter(|(left, right)| left != right);
    pairs.take(5).map(|(left, right)| format!("{} / {}; ", left.trim(), right.trim())).collect()
}

/// Waits until STATE is what the ledger comes to, and all of it can be read.
///
/// # Panics
/// It does not get there in time, or an entry breaks a rule.
pub async fn agreeing(bus: &Bus) -> Records {
    let end = Instant::now() + SOON;
    loop {
        let records = soon("a replay of the ledger", replayed(bus)).await;
        let loaded = soon("all of STATE", load(bus)).await;
        let mut state = Records::default();
        state.epoch = records.epoch;
        state.intake_seq = records.intake_seq;
        loaded.records.into_iter().for_each(|(record, _)| state.put(record));
        if loaded.unreadable.is_empty() && state == records && loaded.meta.is_some() {
            return records;
        }
        let apart = Instant::now() >= end;
        assert!(!apart, "{}{:?}", differing(&state, &records), loaded.unreadable);
    }
}

/// Waits until everything that was committed is published and in STATE.
///
/// # Panics
/// It does not get there in time.
pub async fn settled(bus: &Bus) {
    let visible = async {
        loop {
            let last = bus.stream_last_seq(LEDGER).await.unwrap();
            let meta = load_meta(bus).await.unwrap();
            if meta.is_some_and(|meta| last > 0 && meta.outbox_through == last) {
                return;
            }
        }
    };
    soon("all of the ledger in STATE", visible).await;
}
