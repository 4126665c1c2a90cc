//! Reading STATE: all of it at start, some of it for views (spec 02). STATE is a copy that may
//! lag behind the ledger, so nothing is decided on it alone; what cannot be read is handed on,
//! never dropped.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::follow::{FollowStep, StreamFollower};
use crate::retry::Retry;
use crate::stamp;
use crate::subject::key::key_of_subject;
use crate::subject::pattern::STATE;
use crate::subject::{KeyKind, Subject};
use crate::surely;
use tetrarch_core::held::{Held, Unread};
use tetrarch_core::id::{EpicId, HumanName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::records::Records;

/// Subjects that one direct read can match at most; more are read in batches.
const TOO_MANY: u64 = 413;
/// Values that are decoded in one piece, beside the reading.
const CHUNK: usize = 2_048;

/// The revision of every key of STATE, by its subject.
pub type Revisions = HashMap<String, u64>;

/// How far the owner got: the `meta` record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnerMeta {
    /// Everything that ledger entries up to this sequence make visible is out.
    pub outbox_through: u64,
    /// Every request up to this sequence of `REQUESTS` is decided.
    pub intake_seq: u64,
    /// The epoch of the owner that wrote it.
    pub owner_epoch: u64,
    /// When the server made the ledger, as it says it.
    pub ledger_created: String,
    /// The highest sequence of the ledger ever acknowledged.
    pub ledger_high: u64,
    /// The start of the server that took it ([`Bus::server_start`]); empty when it does not say.
    pub server: String,
}

impl OwnerMeta {
    /// The JSON that STATE holds; numbers of 64 bits are text, as in all of it.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        json!({
            "outboxThrough": self.outbox_through.to_string(),
            "intakeSeq": self.intake_seq.to_string(),
            "ownerEpoch": self.owner_epoch.to_string(),
            "ledgerCreated": self.ledger_created,
            "ledgerHigh": self.ledger_high.to_string(),
            "server": self.server,
        })
        .to_string()
        .into_bytes()
    }

    pub(crate) fn from_json(payload: &[u8]) -> Result<Self, UnreadableMeta> {
        let value: Value = serde_json::from_slice(payload)
            .map_err(|error| UnreadableMeta { reason: error.to_string() })?;
        let text = |field: &str| {
            value.get(field).and_then(Value::as_str).ok_or_else(|| UnreadableMeta {
                reason: format!("{field} is missing or not a string"),
            })
        };
        let number = |field: &str| {
            text(field)?.parse::<u64>().map_err(|error| UnreadableMeta {
                reason: format!("{field} is not a number: {error}"),
            })
        };
        Ok(Self {
            outbox_through: number("outboxThrough")?,
            intake_seq: number("intakeSeq")?,
            owner_epoch: number("ownerEpoch")?,
            ledger_created: text("ledgerCreated")?.to_owned(),
            ledger_high: number("ledgerHigh")?,
            // Earlier versions did not write it.
            server: value.get("server").and_then(Value::as_str).unwrap_or_default().to_owned(),
        })
    }
}

/// The `meta` record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the meta record of STATE: {reason}; rebuild STATE from the ledger")]
pub struct UnreadableMeta {
    /// What is wrong with it.
    reason: String,
}

impl UnreadableMeta {
    fn at(self, message: &RawMessage) -> Unreadable {
        Unreadable {
            subject: message.subject.clone(),
            revision: message.seq,
            ledger_seq: stamp::ledger_seq(message),
            error: CodecError::Json { what: "meta", reason: self.reason },
        }
    }
}

/// Why the `meta` record cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] UnreadableMeta),
    /// The bus does not give it.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A value of STATE that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its subject.
    pub subject: String,
    /// Its revision.
    pub revision: u64,
    /// The ledger sequence it carries, 0 when unknown.
    pub ledger_seq: u64,
    /// What is wrong with it.
    pub error: CodecError,
}

impl Unreadable {
    /// What a newer version wrote there; none when it is garbage.
    #[must_use]
    pub fn newer(&self) -> Option<Held> {
        let held = codec::held(key_of_subject(&self.subject)?, &self.error)?;
        matches!(held.why, Unread::Newer { .. }).then_some(held)
    }
}

/// Everything STATE holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// How far the owner got; none in a new installation, and when it cannot be read.
    pub meta: Option<OwnerMeta>,
    /// Every record with the ledger sequence it comes from.
    pub records: Vec<(Record, u64)>,
    /// What cannot be read; an after-image of a later entry may still replace it.
    pub unreadable: Vec<Unreadable>,
    /// The revision of every key that is not dropped.
    pub revisions: Revisions,
}

/// Some records of STATE.
#[derive(Debug, Default)]
pub struct Selected {
    /// The records with the ledger sequence each comes from.
    pub records: Vec<(Record, u64)>,
    /// What cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// First and longest wait between two looks at how far STATE is.
const LAG_LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Readers of STATE at once: each has a subscription, of which a connection has a thousand.
const READERS_MAX: usize = 32;

/// Which records to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// One record.
    One(RecordKey),
    /// Every record of a kind.
    Kind(KeyKind),
    /// Every record of a kind that belongs to an epic: nodes and their states.
    OfEpic(KeyKind, EpicId),
    /// Every turn of a person's conversations.
    TurnsOf(HumanName),
}

impl Select {
    fn subject(&self) -> String {
        match self {
            Self::One(key) => Subject::State(key.clone()).to_string(),
            Self::Kind(kind) => kind.pattern(),
            Self::OfEpic(kind, epic) => kind.pattern_of(*epic),
            Self::TurnsOf(human) => KeyKind::turns_of(human),
        }
    }
}

/// Reads the `meta` record alone; none in a new installation.
///
/// # Errors
/// It is unreadable, or the bus refuses to give it.
pub async fn load_meta(bus: &Bus) -> Result<Option<OwnerMeta>, MetaError> {
    let found = surely::last_by_subject(bus, STATE, &Subject::StateMeta.to_string()).await?;
    Ok(found.map(|message| OwnerMeta::from_json(&message.payload)).transpose()?)
}

/// Reads all of STATE. Waits while the bus is away.
pub async fn load(bus: &Bus) -> Loaded {
    let mut meta = None;
    let mut broken = None;
    let mut revisions = Revisions::new();
    let meta_subject = Subject::StateMeta.to_string();
    let mut follower = StreamFollower::new(bus.clone(), STATE, Vec::new(), 1);
    let mut decoding = Decoding::default();
    while let FollowStep::Message { message, pending } = follower.step().await {
        if stamp::is_dropped(&message) {
            revisions.remove(&message.subject);
        } else {
            revisions.insert(message.subject.clone(), message.seq);
        }
        if message.subject == meta_subject {
            match OwnerMeta::from_json(&message.payload) {
                Ok(read) => meta = Some(read),
                Err(error) => broken = Some(error.at(&message)),
            }
        } else {
            decoding.push(message).await;
        }
        if pending == 0 {
            break;
        }
    }
    let values = decoding.finish().await;
    let Selected { records, mut unreadable } = sorted(values);
    unreadable.extend(broken);
    Loaded { meta, records, unreadable, revisions }
}

/// Reads one record as it is once STATE has this entry of the ledger: mail of an entry may be ahead of
/// its images and of those of entries before it. Waits until the record is there or STATE has got so
/// far; none when it is not known then.
///
/// # Errors
/// The `meta` record is unreadable, or the bus refuses to give it.
pub async fn record_after(
    bus: &Bus,
    key: RecordKey,
    entry: u64,
) -> Result<Option<Record>, MetaError> {
    let (wanted, meta) = (Subject::State(key).to_string(), Subject::StateMeta.to_string());
    let mut retry = surely::policy(None);
    loop {
        // Both from one server at one time: another one may lag behind.
        let found = surely::last_per_subject(bus, STATE, &[&wanted, &meta]).await?;
        let mut through = 0;
        for message in found {
            if message.subject == meta {
                through = OwnerMeta::from_json(&message.payload)?.outbox_through;
            } else if !stamp::is_dropped(&message)
                && let Ok((record, _)) = codec::record_from_json(&wanted, &message.payload)
            {
                return Ok(Some(record));
            }
        }
        if through >= entry {
            return Ok(None);
        }
        retry.pause().await;
    }
}

/// Reads an epic's goal, its plan and its nodes, none older than its plan: images of one entry are not written at
/// one stroke. Waits until STATE has got so far.
///
/// # Errors
/// The `meta` record is unreadable, or the bus refuses to give it.
pub async fn read_epic(bus: &Bus, epic: EpicId) -> Result<Records, MetaError> {
    let mut records = Records::default();
    let plan = [Select::One(RecordKey::Plan(epic))];
    let Some((plan, written)) = read_records(bus, &plan).await?.records.pop() else {
        return Ok(records);
    };
    let mut retry = Retry::new(LAG_LOOKS.0, LAG_LOOKS.1, None);
    while load_meta(bus).await?.is_none_or(|meta| meta.outbox_through < written) {
        retry.pause().await;
    }
    let wanted = [
        Select::One(RecordKey::Goal(epic)),
        Select::One(RecordKey::GoalState(epic)),
        Select::OfEpic(KeyKind::Node, epic),
        Select::OfEpic(KeyKind::NodeState, epic),
    ];
    let found = read_records(bus, &wanted).await?.records;
    found.into_iter().for_each(|(record, _)| records.put(record));
    records.put(plan);
    Ok(records)
}

/// Reads some records, for views. At most 1024 are read at one stroke, more kind by kind at once: of one
/// filter the server sends what matches, of several readers get all of STATE.
///
/// # Errors
/// The bus is away, or does not let this credential read STATE.
pub async fn read_records(bus: &Bus, wanted: &[Select]) -> Result<Selected, ReadError> {
    let filters: Vec<String> = wanted.iter().map(Select::subject).collect();
    let texts: Vec<&str> = filters.iter().map(String::as_str).collect();
    let mut decoding = Decoding::default();
    match bus.last_per_subject(STATE, &texts).await {
        Ok(messages) => {
            for message in messages {
                decoding.push(message).await;
            }
        }
        Err(ReadError::Refused { code: TOO_MANY, .. }) => {
            let read = stream::iter(filters).map(|filter| all_of(bus, filter));
            let mut read = read.buffered(READERS_MAX);
            while let Some(messages) = read.next().await {
                for message in messages {
                    decoding.push(message).await;
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(sorted(decoding.finish().await))
}

/// Every message of a filter. Waits while the bus is away.
async fn all_of(bus: &Bus, filter: String) -> Vec<RawMessage> {
    let mut follower = StreamFollower::new(bus.clone(), STATE, vec![filter], 1);
    let mut messages = Vec::new();
    while let FollowStep::Message { message, pending } = follower.step().await {
        messages.push(message);
        if pending == 0 {
            break;
        }
    }
    messages
}

/// What a key holds; none when it was dropped. A later message replaces an earlier one.
type StateValue = Option<StateRecord>;
type StateRecord = Result<(Record, u64), Unreadable>;
type Values = HashMap<String, StateRecord>;

/// Messages that are decoded on another thread while more are read; their order stays. What is
/// decoded is folded in at once, so that a key that was dropped takes no room.
#[derive(Default)]
struct Decoding {
    chunk: Vec<RawMessage>,
    running: Option<JoinHandle<Vec<(String, StateValue)>>>,
    values: Values,
}

impl Decoding {
    async fn push(&mut self, message: RawMessage) {
        self.chunk.push(message);
        if self.chunk.len() == CHUNK {
            self.settle().await;
            let chunk = std::mem::take(&mut self.chunk);
            self.running = Some(spawn_blocking(move || decode(&chunk)));
        }
    }

    async fn settle(&mut self) {
        let Some(running) = self.running.take() else { return };
        match running.await {
            Ok(decoded) => self.fold(decoded),
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }

    fn fold(&mut self, decoded: Vec<(String, StateValue)>) {
        for (key, found) in decoded {
            match found {
                Some(value) => drop(self.values.insert(key, value)),
                None => drop(self.values.remove(&key)),
            }
        }
    }

    async fn finish(mut self) -> Values {
        self.settle().await;
        // The last chunk is small for most views: not worth another thread.
        let last = decode(&self.chunk);
        self.fold(last);
        self.values
    }
}

fn decode(messages: &[RawMessage]) -> Vec<(String, StateValue)> {
    let found = |message: &RawMessage| {
        let record = codec::record_from_json(&message.subject, &message.payload);
        record.map_err(|error| Unreadable {
            subject: message.subject.clone(),
            revision: message.seq,
            ledger_seq: stamp::ledger_seq(message),
            error,
        })
    };
    messages
        .iter()
        .map(|message| {
            (message.subject.clone(), (!stamp::is_dropped(message)).then(|| found(message)))
        })
        .collect()
}

fn sorted(values: Values) -> Selected {
    let mut selected = Selected::default();
    for value in values.into_values() {
        match value {
            Ok(record) => selected.records.push(record),
            Err(unreadable) => selected.unreadable.push(unreadable),
        }
    }
    selected.records.sort_by_cached_key(|(record, _)| record.key());
    selected
}
