//! The protocol half of the bus against a real nats-server: what happens when an answer is lost,
//! a server dies, somebody else writes, and everything comes twice.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod archive;
mod commit;
mod cursor;
mod inbox;
mod intake;
mod journal;
mod mailbox;
mod outbox;
mod reading;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::outbox::{Announcer, OutboxError, PlanPublisher, Recorder};
use tetrarch_bus::state::Revisions;
use tetrarch_core::agent::Host;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{
    AgentId, EpicId, HostName, PlanId, Principal, ProjectName, SessionId, Ulid,
};
use tetrarch_core::ledger::{Entry, Record, Seal};
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::plan::{PlanEvent, PlanReason, PlanSource};
use tetrarch_core::priority::Priorities;
use tetrarch_core::time::BusTime;
use tetrarch_tests::empty_entry;

/// Longest wait for something that has to happen.
const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {SOON:?}"),
    }
}

fn worker(number: u128) -> AgentId {
    AgentId::Worker(Ulid(number))
}

fn epic(number: u128) -> EpicId {
    EpicId(Ulid(number))
}

fn host(name: &str, capacity: u32) -> Record {
    Record::Host(Host {
        name: HostName::new(name).unwrap(),
        instance: "one".to_owned(),
        labels: Vec::new(),
        capacity,
        address: "here".to_owned(),
        joined: BusTime(1_000),
        drained: false,
    })
}

fn seal(agent: &AgentId, epoch: u64) -> Seal {
    Seal {
        agent: agent.clone(),
        session: SessionId(Ulid(epoch.into())),
        epoch,
        run: None,
        ends: None,
        blames: false,
    }
}

fn mail(to: &Principal, body: MailBody) -> Mail {
    Mail {
        to: to.clone(),
        epic: None,
        correlation: None,
        cause: "test".to_owned(),
        ack_required: false,
        trace: None,
        body,
    }
}

fn info(to: &Principal, text: &str) -> Mail {
    mail(to, MailBody::Info { text: text.to_owned() })
}

fn plan_event(epic: EpicId, version: u32) -> PlanEvent {
    PlanEvent {
        epic,
        plan: PlanId(epic.0),
        project: ProjectName::new("demo").unwrap(),
        version,
        source: PlanSource::Overseer,
        reason: PlanReason::TaskCompletion,
        changes: Vec::new(),
        full: false,
        nodes: Vec::new(),
        folded: Vec::new(),
        counts: Default::default(),
        definitions: Vec::new(),
        title: String::new(),
        output: None,
        goal: GoalStatus::Active,
        percent: 0,
        result: None,
        priorities: Priorities::default(),
        trace: None,
        at: BusTime(1_000),
    }
}

/// The three parts of an owner's outbox, one after the other.
struct Outbox(Announcer, PlanPublisher, Recorder);

impl Outbox {
    async fn publish(&mut self, entries: &[(u64, Arc<Entry>)]) -> Result<(), OutboxError> {
        self.0.announce(entries).await?;
        self.1.publish(entries).await?;
        self.2.record(entries, tokio::time::Instant::now()).await.map(drop)
    }
}

/// An outbox that knows nothing yet, as a new owner's.
fn outbox(bus: &Bus) -> Outbox {
    let recorder = Recorder::new(bus.clone(), Revisions::new(), "then".to_owned(), "s".to_owned());
    Outbox(Announcer::new(bus.clone()), PlanPublisher::new(bus.clone()), recorder)
}

/// Entries with ledger sequences from `first` on.
fn batch(first: u64, entries: &[Entry]) -> Vec<(u64, Arc<Entry>)> {
    (first..).zip(entries.iter().cloned().map(Arc::new)).collect()
}
