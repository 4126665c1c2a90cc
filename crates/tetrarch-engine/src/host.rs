//! The host orchestrator's process: takes the host's lease, joins, and runs the sessions that
//! the owner places here (spec 04, Hosts). It starts nothing before the session's own cursor is
//! claimed and its journal says so; it ends what is no longer current.

mod lease;
mod roster;
mod rows;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetrarch_bus::Bus;
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::codec::{self, HostLease};
use tetrarch_bus::envelope::{Envelope, own_msg_id};
use tetrarch_bus::inbox::{Inbox, Wakeup};
use tetrarch_bus::lease::{AcquireError, Lease, LeaseKey, LeaseRequest as LeaseClaim};
use tetrarch_bus::send::{Author, Reports, send_request};
use tetrarch_bus::subject::pattern::MAIL;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_core::cursor::{Claim, Positions};
use tetrarch_core::error::Refusal;
use tetrarch_core::id::{AgentId, HostName, Principal, RequestId, SessionId, Ulid};
use tetrarch_core::mail::{MailBody, OpReply};
use tetrarch_core::order::{Observed, Order, StopWithin};
use tetrarch_core::request::{HostJoin, Op};
use tetrarch_core::vitals::Vitals;
use tetrarch_failpoint::{Failpoint, reach};
use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, wall_unix_ms};
use crate::correspond::Correspondents;
use crate::error::{EngineError, EngineResult};
use crate::metrics::HostMetrics;
use crate::patience::until_answered;
use crate::pump::{INBOX_IN_MAILBOX, Pump};
use crate::session::{Admitted, Session, Shared};
use crate::tree::ActorTree;
use lease::LeaseRenewer;
use roster::Roster;

/// Whether a host goes on, as whoever runs it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HostStop {
    /// It goes on.
    #[default]
    No,
    /// It ends once its programs reached a boundary, or their time for that is over (spec 06, The three verbs).
    Drain,
    /// It ends now.
    Now,
}

impl HostStop {
    fn is_wanted(&self) -> bool {
        *self != Self::No
    }
}

/// How long what ended its program may take to say so, beyond the time that programs have.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// How long a join waits for its answer.
const JOIN_WITHIN: Duration = Duration::from_secs(30);
/// How often in a window what is told of the sessions here is brought up to date.
const ROWS_PER_WINDOW: u32 = 3;

/// What a host orchestrator is told by whoever starts it.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The host.
    pub name: HostName,
    /// The id of this installation's process, kept in its data directory.
    pub instance: String,
    /// What tells this life from earlier ones of the same instance.
    pub life: Ulid,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Agents it takes.
    pub capacity: u32,
    /// Where it can be found, for people.
    pub address: String,
    /// The liveness window.
    pub window: Duration,
    /// How long a program that is asked to stop has.
    pub stop_within: StopWithin,
    /// Bytes of one artifact that is stored here (`runs.artifact_max`).
    pub artifact_max: u64,
}

/// Runs a host orchestrator until it is to stop. `ready` turns true when it has joined.
/// `renewed` is told the moment at which each acknowledged renewal of the host's lease was sent:
/// the deadline by which its agents are to be frozen counts from there (spec 04, Hosts).
///
/// # Errors
/// The lease is held or lost, the join is refused, the bus refuses something for good.
pub async fn serve_host(
    bus: Bus,
    config: HostConfig,
    orders: mpsc::Sender<Order>,
    mut observed: mpsc::Receiver<Observed>,
    mut stop: watch::Receiver<HostStop>,
    ready: watch::Sender<bool>,
    renewed: watch::Sender<Option<Instant>>,
) -> EngineResult {
    let lease = tokio::select! {
        lease = until_answered(|| acquire(&bus, &config)) => lease?,
        _ = stop.wait_for(HostStop::is_wanted) => return Ok(()),
    };
    reach(Failpoint::HostLeaseHeld);
    let wakeup = Arc::new(Wakeup::start(bus.clone()));
    let lease_epoch = lease.epoch();
    let mut keeper = LeaseRenewer::start(lease, config.clone(), renewed);
    let (reply, positions, clock) = tokio::select! {
        joined = join(&bus, &wakeup, &config, lease_epoch) => joined?,
        lost = keeper.lost() => return Err(lost),
        _ = stop.wait_for(HostStop::is_wanted) => return keeper.release().await,
    };
    let host_epoch = reply.agent_epoch.unwrap_or(lease_epoch);
    let session = reply.session.unwrap_or(SessionId(config.life));
    let instance = format!("{}.{}", config.instance, config.life);
    let owner = Principal::Agent(AgentId::Ho(config.name.clone()));
    let (from, via) = (owner.clone(), Some(config.name.clone()));
    let author = Author { from, via, session: Some(session), epoch: host_epoch };
    let (reports, sending) = Reports::new(bus.clone(), author);
    let _reporting = Pump::run(sending);
    let shared = Shared {
        reports,
        artifacts: Artifacts::new(&bus).with_bytes_max(config.artifact_max),
        correspondents: Correspondents::new(bus.clone(), config.name.clone()),
        clock,
        stop_within: config.stop_within,
        claim: Claim { host: config.name.clone(), host_epoch, instance },
        wakeup,
        bus,
    };
    let own = Session::of_host(shared.clone(), session);
    let inbox = Inbox::open(&own.shared.wakeup, &owner, positions).await?;
    tracing::info!(host = %config.name, epoch = host_epoch, "host joined");
    let tree = ActorTree::start().await?;
    let (_admitting, mail) = admit(own.clone(), inbox);
    let mut roster = Roster::new(own, tree, orders);
    // Whoever waits for readiness may be gone.
    let _unwatched = ready.send(true);
    let outcome = run(&mut roster, &mut keeper, &config, mail, &mut observed, stop).await;
    // What may still run is not gone: the lease stays until it ends by itself.
    let ended = roster.end(&mut observed).await;
    let outcome = outcome.and(ended);
    if outcome.is_ok() {
        // Not before: what is said to be gone is started elsewhere.
        roster.leave().await;
        keeper.release().await?;
    }
    outcome
}

/// Takes the host's lease; a second process for the same host is told who holds it.
async fn acquire(bus: &Bus, config: &HostConfig) -> EngineResult<Lease> {
    let claim = LeaseClaim {
        key: LeaseKey::Host(config.name.clone()),
        instance: config.instance.clone(),
        address: config.address.clone(),
        floor: 0,
        ttl_secs: None,
        now_unix_ms: wall_unix_ms(),
        body: lease_body(config, 0, Vec::new())?,
    };
    match Lease::acquire(bus, claim).await {
        Ok(lease) => Ok(lease),
        Err(AcquireError::Held { holder, .. }) => {
            Err(EngineError::Held { what: format!("HO@{}", config.name), holder })
        }
        Err(error) => Err(error.into()),
    }
}

/// What a renewal says: `load` sessions run here, some of them in `rows`.
fn lease_body(config: &HostConfig, load: usize, rows: Vec<Vitals>) -> EngineResult<Vec<u8>> {
    let load = u32::try_from(load).unwrap_or(u32::MAX);
    let labels = config.labels.clone();
    Ok(codec::encode_host_lease(&HostLease { capacity: config.capacity, load, labels, rows })?)
}

/// Joins: everything placed under an earlier life of this host ends with the answer. Gives the
/// answer, the inbox position behind all that was meant for earlier lives, and the bus's time.
async fn join(
    bus: &Bus,
    wakeup: &Wakeup,
    config: &HostConfig,
    lease_epoch: u64,
) -> EngineResult<(OpReply, Positions, Clock)> {
    let last = until_answered(|| bus.stream_last_seq(MAIL)).await?;
    let mut positions = Positions { mail: last, ctl: last };
    let owner = Principal::Agent(AgentId::Ho(config.name.clone()));
    let mut inbox = Inbox::open(wakeup, &owner, positions).await?;
    let op = Op::HostJoin(HostJoin {
        instance: format!("{}.{}", config.instance, config.life),
        lease_epoch,
        labels: config.labels.clone(),
        capacity: config.capacity,
        address: config.address.clone(),
    });
    let id = RequestId(config.life);
    let subject = Subject::Op { op: OpName::of(&op), from: owner, via: Some(config.name.clone()) };
    let envelope = Envelope {
        msg_id: Some(own_msg_id(&id.to_string())),
        epoch: Some(lease_epoch),
        ..Envelope::default()
    };
    let payload = codec::encode_op(&op, id)?.into();
    send_request(bus, &subject, envelope.headers(&subject), payload, None).await?;
    reach(Failpoint::JoinSent);
    let answered = tokio::time::timeout(JOIN_WITHIN, async {
        loop {
            let incoming = inbox.next().await?;
            positions.mail = positions.mail.max(incoming.seq);
            let clock = Clock::set(incoming.time_unix_ms);
            if let Ok((mail, _)) = incoming.content
                && mail.correlation == Some(id)
                && let MailBody::Reply(reply) = mail.body
            {
                return Ok::<_, EngineError>((reply, clock));
            }
        }
    });
    let Ok(answered) = answered.await else {
        return Err(EngineError::Unanswered("host.join", JOIN_WITHIN.as_secs()));
    };
    let (reply, clock) = answered?;
    if let Some(code) = reply.error {
        let refusal = Refusal::new(code, reply.detail);
        return Err(EngineError::Refused { op: "host.join", refusal });
    }
    // Control is read from where the join was sent: launches follow its answer at once.
    Ok((reply, positions, clock))
}

/// Reads the host's inbox beside its loop: what is set aside, and whoever is told how far a message
/// came, holds up nothing else. As many wait as are in the mailbox of an actor.
fn admit(own: Session, mut inbox: Inbox) -> (Pump, mpsc::Receiver<EngineResult<Admitted>>) {
    let (tell, admitted) = mpsc::channel(INBOX_IN_MAILBOX);
    let reading = Pump::run(async move {
        loop {
            let next = match inbox.next().await {
                Ok(incoming) => own.admit(incoming).await.transpose(),
                Err(error) => Some(Err(error.into())),
            };
            if let Some(next) = next
                && tell.send(next).await.is_err()
            {
                return;
            }
        }
    });
    (reading, admitted)
}

async fn run(
    roster: &mut Roster,
    keeper: &mut LeaseRenewer,
    config: &HostConfig,
    mut mail: mpsc::Receiver<EngineResult<Admitted>>,
    observed: &mut mpsc::Receiver<Observed>,
    mut stop: watch::Receiver<HostStop>,
) -> EngineResult {
    let mut rows = tokio::time::interval(config.window / ROWS_PER_WINDOW);
    rows.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let metrics = HostMetrics::new(config.name.as_str());
    let StopWithin { drain, kill_grace } = config.stop_within;
    let within = Duration::from_millis(drain.0.saturating_add(kill_grace.0)) + TOLD_WITHIN;
    let mut reached = HostStop::No;
    let mut drained = std::pin::pin!(tokio::time::sleep(within));
    loop {
        let before = reached;
        tokio::select! {
            admitted = mail.recv() => match admitted {
                Some(admitted) => roster.read(admitted?).await?,
                None => return Err(EngineError::ActorDied("inbox".to_owned(), "it ended".to_owned())),
            },
            seen = observed.recv() => match seen {
                Some(seen) => roster.observe(seen).await?,
                None => return Err(roster::runner_ended()),
            },
            ended = roster.ended() => roster.close(ended).await?,
            _ = rows.tick() => {
                let vitals = roster.vitals();
                metrics.sessions(vitals.len());
                keeper.tell(vitals);
            }
            lost = keeper.lost() => return Err(lost),
            wanted = stop.wait_for(|stop| *stop > before) => {
                // Who could say so is gone.
                reached = wanted.map_or(HostStop::Now, |stop| *stop);
                if reached == HostStop::Drain {
                    roster.drain();
                    drained.as_mut().reset(tokio::time::Instant::now() + within);
                }
            }
            () = &mut drained, if reached == HostStop::Drain => {
                tracing::warn!(host = %config.name, "programs that reached no boundary in time are killed");
                return Ok(());
            }
        }
        if reached == HostStop::Now || reached == HostStop::Drain && !roster.runs_programs() {
            return Ok(());
        }
    }
}
