//! The owner's process: holds the GO lease, reads requests, commits what core decides and makes
//! it visible (spec 02, One ledger, one owner). One commit is in flight at a time; what arrives
//! meanwhile is decided at once and is the next commit.

mod accepting;
mod archiving;
mod credentials;
mod diagnosing;
mod expiring;
mod heartbeats;
mod intaking;
mod keeping;
mod memory;
mod owner;
mod planning;
mod posting;
mod publishing;
mod reached;
mod reclaiming;
mod replying;
mod restore;
mod settling;
mod spans;
mod sweeper_handle;
mod sweeping;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ractor::Actor;
use tetrarch_bus::Bus;
use tetrarch_bus::journal::move_old;
use tetrarch_bus::lease::{
    AcquireError, Lease, LeaseEvent, LeaseEvents, LeaseKey, LeaseRequest, RenewError,
};
use tetrarch_bus::subject::pattern::LEASES;
use tetrarch_bus::topology::{self, Ages, StreamSettings};
use tetrarch_core::owner::Policy;
use tetrarch_core::snapshot::Retention;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::trouble::{NoCommit, Trouble};
use tetrarch_failpoint::{Failpoint, reach};
use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, wall_unix_ms};
use crate::error::{EngineError, EngineResult};
use crate::patience::until_answered;
use crate::tree::ActorTree;

pub use accepting::{Acceptance, Accepted, accept_ledger};
pub use memory::{MemorySource, memories, remembered};
use memory::{MemoryWriter, StoredMemory};
use owner::{OwnerActor, OwnerArgs};
pub use planning::{
    ApiKey, BadPlanner, HttpClient, PlannerConfig, http_client, propose, provide_tls,
};

/// Renewals of the GO lease in one time to live (spec 04).
const RENEWALS_PER_TTL: u32 = 3;
/// Attempts at a renewal that failed, in one time to live: an election takes most of that in a
/// cluster, and what is left of it must do.
const ATTEMPTS_PER_TTL: u32 = 30;
/// How long after its time to live without a word the server may take to drop a lease.
const EXPIRY_LAG: Duration = Duration::from_millis(200);

/// What an owner is told by whoever starts it.
#[derive(Debug, Clone)]
pub struct GlobalConfig {
    /// The id of this installation's process, kept in its data directory.
    pub instance: String,
    /// Where it remembers what the ledger was; none keeps nothing beside STATE.
    pub data_dir: Option<PathBuf>,
    /// Where it runs, for people.
    pub address: String,
    /// Time to live of the lease, in seconds.
    pub ttl_secs: u32,
    /// Copies of each stream.
    pub replicas: usize,
    /// The liveness window, from 50 ms to 60 s.
    pub window: Duration,
    /// How long a session's first sign of life may take (`liveness.register_deadline`).
    pub register_deadline: Duration,
    /// When silence is a mass failure (`liveness.mass_silence`,
    /// `liveness.replacements_per_second`).
    pub mass: MassPolicy,
    /// What an operator may set.
    pub policy: Policy,
    /// How often the overseer looks at what stands still (`overseer.tick_every`); none when it is off.
    pub tick_every: Option<Duration>,
    /// Who makes plans; none when nobody does.
    pub planner: Option<PlannerConfig>,
    /// Why no work is taken, as long as it says so; what is given up says none.
    pub halted: watch::Receiver<Option<String>>,
    /// What an operator may set, when it is read again.
    pub reloads: watch::Receiver<Option<Policy>>,
    /// How long the ledger is kept.
    pub retention: Retention,
    /// How long other streams keep what they hold.
    pub ages: Ages,
}

/// How one term of ownership ended.
#[derive(Debug)]
pub(crate) enum TermEnd {
    /// A commit was refused: load everything and decide again.
    Reload,
    /// The server was started anew: what it may have lost has to be looked for.
    Restarted,
    /// Somebody asked for it.
    Stopped,
}

/// Runs the owner until `stop` turns true; waits as a standby while another holds the lease.
/// `ready` turns true when its first commit is in.
///
/// # Errors
/// The lease is lost, the ledger shrank, the bus refuses something for good.
pub async fn serve_global(
    bus: Bus,
    config: GlobalConfig,
    mut stop: watch::Receiver<bool>,
    ready: watch::Sender<bool>,
) -> EngineResult {
    let shape = StreamSettings { replicas: config.replicas, ages: config.ages };
    tokio::select! {
        applied = until_answered(|| topology::apply(&bus, shape)) => applied?,
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    }
    let Some(mut lease) = stand_by(&bus, &config, &mut stop).await? else { return Ok(()) };
    reach(Failpoint::OwnerLeaseHeld);
    let moved = move_old(&bus).await?;
    if moved > 0 {
        tracing::info!(moved, "journals of an earlier version were moved");
    }
    let clock = clock_of(&bus, &lease).await?;
    let memory_writer = MemoryWriter::begin(config.data_dir.clone());
    let (epoch, told) = (lease.epoch(), BTreeSet::new());
    let mut term =
        LeaderTerm { epoch, clock, has_begun: false, loads: 0, told, told_of_held: false };
    let ended = loop {
        term.loads += 1;
        let running = run_term(&bus, &config, &mut term, &memory_writer, ready.clone());
        let ending = tokio::select! {
            ending = running => ending,
            lost = keep(&mut lease, config.ttl_secs) => break Err(lost),
            _ = stop.wait_for(|stop| *stop) => Ok(TermEnd::Stopped),
        };
        match ending {
            Ok(TermEnd::Reload) => {
                tracing::warn!("a commit was refused; deciding again");
                term.has_begun = true;
            }
            Ok(TermEnd::Restarted) => {
                tracing::info!("the server was restarted; comparing STATE and plan events");
                term.has_begun |= *ready.borrow();
            }
            Ok(TermEnd::Stopped) => break lease.release().await.map_err(EngineError::from),
            // It waits for a human, who has to be able to act in its stead.
            Err(stopped @ (EngineError::Amnesia { .. } | EngineError::Memory { .. })) => {
                lease.release().await?;
                break Err(stopped);
            }
            Err(failed) => break Err(failed),
        }
    };
    memory_writer.end().await;
    ended
}

/// One time of holding the lease.
struct LeaderTerm {
    epoch: u64,
    clock: Clock,
    /// Whether it has sent a commit.
    has_begun: bool,
    /// How often it has loaded everything.
    loads: u64,
    /// Of what people were told already: once is enough of each.
    told: BTreeSet<NoCommit>,
    /// Whether they were told of records that cannot be read.
    told_of_held: bool,
}

impl LeaderTerm {
    /// What people have not been told yet.
    fn news(&mut self, troubles: Vec<Trouble>) -> Vec<Trouble> {
        let mut news = troubles;
        news.retain(|trouble| {
            if let Trouble::NoCommits { cause, .. } = trouble {
                return self.told.insert(*cause);
            }
            let is_of_held = matches!(trouble, Trouble::RecordsHeld { .. });
            !is_of_held || !std::mem::replace(&mut self.told_of_held, true)
        });
        news
    }
}

/// Waits for the lease; none when it is asked to stop meanwhile.
async fn stand_by(
    bus: &Bus,
    config: &GlobalConfig,
    stop: &mut watch::Receiver<bool>,
) -> EngineResult<Option<Lease>> {
    let mut changes = LeaseEvents::of(bus, &LeaseKey::Go).await?;
    let ttl = Duration::from_secs(u64::from(config.ttl_secs));
    let mut patience = ttl;
    let me = (config.instance.as_str(), config.address.as_str());
    loop {
        match until_answered(|| acquire(bus, me, config.ttl_secs)).await {
            Ok(lease) => return Ok(Some(lease)),
            Err(EngineError::Lease(AcquireError::Held { holder, .. })) => {
                tracing::debug!(holder = %holder.instance, at = %holder.address, "standing by");
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            renewed = until_free(&mut changes, patience, ttl) => {
                patience = if renewed { ttl } else { EXPIRY_LAG };
            }
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    }
}

/// Tries to become the owner, above every epoch that is known.
async fn acquire(
    bus: &Bus,
    (instance, address): (&str, &str),
    ttl_secs: u32,
) -> EngineResult<Lease> {
    let floor = restore::highest_epoch(bus).await?;
    let claim = LeaseRequest {
        key: LeaseKey::Go,
        instance: instance.to_owned(),
        address: address.to_owned(),
        floor,
        ttl_secs: Some(ttl_secs),
        now_unix_ms: wall_unix_ms(),
        body: Vec::new(),
    };
    Ok(Lease::acquire(bus, claim).await?)
}

/// Waits until the lease is given back, or nothing was heard of it for `patience`; after a renewal
/// for its time to live. Says whether it was renewed meanwhile.
async fn until_free(changes: &mut LeaseEvents, patience: Duration, ttl: Duration) -> bool {
    let mut silence = patience;
    let mut renewed = false;
    while let Ok(LeaseEvent::Renewed) = tokio::time::timeout(silence, changes.next()).await {
        silence = ttl;
        renewed = true;
    }
    renewed
}

/// The server's time, as it stamped our lease.
async fn clock_of(bus: &Bus, lease: &Lease) -> EngineResult<Clock> {
    let stamped = until_answered(|| bus.get_seq(LEASES, lease.seq())).await?;
    Ok(Clock::set(stamped.map_or_else(wall_unix_ms, |message| message.time_unix_ms)))
}

/// Renews the lease until it is lost; gives why. It stops acting before the lease can be
/// another's: a third of the time to live before the last acknowledged renewal ends.
async fn keep(lease: &mut Lease, ttl_secs: u32) -> EngineError {
    let ttl = Duration::from_secs(u64::from(ttl_secs));
    let margin = ttl / RENEWALS_PER_TTL / 2;
    let mut wait = ttl / RENEWALS_PER_TTL;
    loop {
        tokio::time::sleep(wait).await;
        wait = ttl / ATTEMPTS_PER_TTL;
        let deadline = lease.sent_at() + ttl - margin;
        let renewal = tokio::time::timeout_at(deadline.into(), lease.renew(Vec::new())).await;
        match renewal {
            Ok(Ok(_)) => wait = ttl / RENEWALS_PER_TTL,
            Ok(Err(error @ (RenewError::Lost { .. } | RenewError::WentBack { .. }))) => {
                return EngineError::LeaseLost(error.to_string());
            }
            Ok(Err(error)) => tracing::warn!(%error, "a renewal of the GO lease failed"),
            Err(_) => {
                return EngineError::LeaseLost("no renewal was acknowledged in time".to_owned());
            }
        }
        if std::time::Instant::now() >= lease.sent_at() + ttl - margin {
            return EngineError::LeaseLost("no renewal was acknowledged in time".to_owned());
        }
    }
}

/// One term of ownership: from loading to the first refused commit.
async fn run_term(
    bus: &Bus,
    config: &GlobalConfig,
    term: &mut LeaderTerm,
    memory_writer: &MemoryWriter,
    ready: watch::Sender<bool>,
) -> EngineResult<TermEnd> {
    let kept = match &config.data_dir {
        Some(data_dir) => StoredMemory::read(data_dir).await?,
        None => None,
    };
    let me = (term.epoch, term.has_begun);
    let alone = config.replicas == 1;
    let mut restored = until_answered(|| restore::restore(bus, kept.as_ref(), me, alone)).await?;
    let server = restored.server.clone();
    restored.troubles = term.news(restored.troubles);
    let mut tree = ActorTree::start().await?;
    let (tell, mut endings) = mpsc::channel(1);
    let args = OwnerArgs {
        bus: bus.clone(),
        config: config.clone(),
        epoch: term.epoch,
        loads: term.loads,
        clock: term.clock,
        restored,
        memory: memory_writer.told(),
        ready,
        ending: tell,
    };
    let (owner, _) = Actor::spawn_linked(None, OwnerActor, args, tree.supervisor())
        .await
        .map_err(|error| EngineError::Actor("owner", error.to_string()))?;
    let _noting = config.data_dir.clone().map(|dir| credentials::start(dir, &owner));
    let ending = tokio::select! {
        ending = endings.recv() => ending.unwrap_or(Ok(TermEnd::Reload)),
        () = bus.server_started_anew(&server), if alone => Ok(TermEnd::Restarted),
        ended = tree.ended() => {
            let failure = ended.and_then(|ended| ended.failure);
            let why = failure.unwrap_or_else(|| "it ended".to_owned());
            Err(EngineError::ActorDied("owner".to_owned(), why))
        }
    };
    tree.stop().await;
    ending
}
