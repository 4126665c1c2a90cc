//! The sweeper's shell (spec 04): hears the renewals of hosts' leases and the heartbeats of external agents, its
//! own heartbeat as canary among them, and does at leases what core's failure detector says.

use std::time::{Duration, Instant};

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::error::PublishError;
use tetrarch_bus::lease::{Lease, LeaseKey, LeaseSeen, Renewal, Renewals};
use tetrarch_bus::watch::{AgentHeartbeat, Heartbeats};
use tetrarch_core::agent::Agent;
use tetrarch_core::detector::{FailureDetector, SweepAction};
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::owner::Input;
use tetrarch_core::records::Records;
use tetrarch_core::sweep::{LeaseLook, Windows};
use tetrarch_core::time::{Millis, Moment};
use tetrarch_failpoint::{Failpoint, reach, reach_if};
use tokio::sync::mpsc;

use super::GlobalConfig;
use super::heartbeats::HeartbeatTable;
use super::owner::OwnerMsg;
use crate::error::{EngineError, EngineResult};
use crate::pump::{MailboxSlots, Pump};

/// Canaries in one window: more than half a window without one is deafness.
const CANARIES_PER_WINDOW: u32 = 6;
/// Sweeps in one window: what is true is found out this much later at most.
const SWEEPS_PER_WINDOW: u32 = 6;
/// First heartbeats that wait in the owner's mailbox.
const HEARD_IN_MAILBOX: usize = 256;
/// Changed records and finished attempts at leases that wait.
const TOLD: usize = 4096;

/// What the sweeper is told by the owner and by its own attempts.
#[derive(Debug)]
pub(super) enum SweeperMsg {
    /// An agent's record changed.
    Changed(Box<Agent>),
    /// A host does not end what it was ordered to end in this epoch: its lease is to be taken.
    Revoke(HostName, u64),
    /// The lease of a silent host, as it is; none when it could not be read.
    Looked(HostName, Option<FoundLease>),
    /// Whether the lease of a silent host could be taken.
    Taken(HostName, bool),
}

/// A host's lease as it was found: the key, unless it was never held or expired.
type FoundLease = Option<LeaseSeen>;

/// Starts the sweeper on what the records say. Gives what it is told by, and its task.
pub(super) async fn start(
    bus: &Bus,
    (config, heartbeats): (&GlobalConfig, HeartbeatTable),
    records: &Records,
    owner: ActorRef<OwnerMsg>,
) -> EngineResult<(mpsc::Sender<SweeperMsg>, Pump)> {
    let GlobalConfig { window, register_deadline, mass, .. } = *config;
    let windows =
        Windows::new(Millis::from(window))?.with_register_deadline(Millis::from(register_deadline));
    let (tell, told) = mpsc::channel(TOLD);
    let beats = Heartbeats::listen(bus).await?;
    let renewals = Renewals::listen(bus).await?;
    let mut sweeping = Sweeping {
        bus: bus.clone(),
        window,
        since: Instant::now(),
        detector: FailureDetector::new(windows, mass),
        tell: tell.clone(),
        owner,
        slots: MailboxSlots::new(HEARD_IN_MAILBOX),
        heartbeats,
    };
    records.agents.values().for_each(|agent| sweeping.track(agent));
    Ok((tell, Pump::run(sweeping.run(told, beats, renewals))))
}

struct Sweeping {
    bus: Bus,
    window: Duration,
    since: Instant,
    detector: FailureDetector,
    tell: mpsc::Sender<SweeperMsg>,
    owner: ActorRef<OwnerMsg>,
    slots: MailboxSlots,
    heartbeats: HeartbeatTable,
}

impl Sweeping {
    async fn run(
        mut self,
        mut told: mpsc::Receiver<SweeperMsg>,
        mut beats: Heartbeats,
        mut renewals: Renewals,
    ) {
        let mut canaries = tokio::time::interval(self.window / CANARIES_PER_WINDOW);
        let mut sweeps = tokio::time::interval(self.window / SWEEPS_PER_WINDOW);
        for ticks in [&mut canaries, &mut sweeps] {
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                told = told.recv() => match told {
                    Some(SweeperMsg::Changed(agent)) => self.track(&agent),
                    Some(SweeperMsg::Looked(host, found)) => self.looked(host, found),
                    Some(SweeperMsg::Taken(host, taken)) => {
                        let action = self.detector.taken(host, taken, self.now());
                        self.perform(action, None);
                    }
                    Some(SweeperMsg::Revoke(host, epoch)) => {
                        let action = self.detector.revoke(host, epoch);
                        self.perform(action, None);
                    }
                    None => return,
                },
                beat = beats.next() => self.beat(beat),
                renewal = renewals.next() => self.renewed(&renewal),
                _ = canaries.tick() => beats.send_canary().await,
                _ = sweeps.tick() => {
                    let actions = self.detector.sweep(self.now());
                    self.perform(actions, None);
                }
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(Millis::from(self.since.elapsed()).0)
    }

    fn track(&mut self, agent: &Agent) {
        if matches!(agent.liveness, Liveness::Terminated | Liveness::Offline) {
            self.heartbeats.forget(&agent.id);
        }
        self.detector.track(agent, self.now());
    }

    fn beat(&mut self, AgentHeartbeat { agent, epoch, session }: AgentHeartbeat) {
        let now = self.now();
        if agent == AgentId::Go {
            self.detector.canary(now);
        } else {
            let actions = self.detector.beat(agent, (epoch, session), now);
            self.perform(actions, None);
        }
    }

    fn renewed(&mut self, Renewal { host, load, rows }: &Renewal) {
        let named = rows.iter().map(|row| (&row.agent, row.epoch));
        let Some(actions) = self.detector.renewed(host, *load, named, self.now()) else { return };
        for row in rows.iter().filter(|row| self.detector.holds(host, &row.agent, row.epoch)) {
            self.heartbeats.progress(&row.agent, row.epoch, row.progress);
        }
        self.perform(actions, None);
    }

    /// `found`: the lease as it was looked at last.
    fn perform(&self, actions: impl IntoIterator<Item = SweepAction>, found: FoundLease) {
        for action in actions {
            match action {
                SweepAction::Tell(input) => {
                    if let Input::MassSilence { silent, active } = input {
                        tracing::error!(
                            silent,
                            active,
                            "mass silence: no agent is declared offline"
                        );
                    } else {
                        tracing::info!(?input, "the sweeper found");
                    }
                    // An owner that ended has no use for it.
                    let _ended = self.owner.cast(OwnerMsg::Found(Box::new(input)));
                }
                SweepAction::Heard(input) => {
                    if let Some(placed) = self.slots.try_reserve(input) {
                        // An owner that ended needs no heartbeats.
                        let _ended = self.owner.cast(OwnerMsg::Heard(placed));
                    }
                }
                SweepAction::Look(host, after) => self.look(host, Duration::from_millis(after.0)),
                SweepAction::Take(host, _) => self.take(host, found.clone()),
                SweepAction::Revoke(host, epoch) => self.revoke(host, epoch),
            }
        }
    }

    /// Reads a lease after this time.
    fn look(&self, host: HostName, after: Duration) {
        let (bus, tell) = (self.bus.clone(), self.tell.clone());
        drop(tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let found = Lease::look(&bus, &LeaseKey::Host(host.clone())).await;
            if let Err(error) = &found {
                tracing::warn!(%host, %error, "reading the lease of a silent host failed");
            }
            // A sweeper that ended has no use for it.
            let _ended = tell.send(SweeperMsg::Looked(host, found.ok())).await;
        }));
    }

    fn looked(&mut self, host: HostName, found: Option<FoundLease>) {
        let look = found.as_ref().map(|found| LeaseLook {
            seq: found.as_ref().map_or(0, |seen| seen.seq),
            held: found.as_ref().is_some_and(|seen| seen.holder.is_some()),
        });
        let action = self.detector.looked(host, look, self.now());
        self.perform(action, found.flatten());
    }

    /// Takes a lease as it was found.
    fn take(&self, host: HostName, found: FoundLease) {
        let (bus, tell) = (self.bus.clone(), self.tell.clone());
        drop(tokio::spawn(async move {
            reach(Failpoint::LossFound);
            let key = LeaseKey::Host(host.clone());
            let taken = Lease::revoke(&bus, &key, found.as_ref()).await;
            if let Err(error) = &taken {
                tracing::warn!(%host, %error, "revoking the lease of a silent host failed");
            }
            reach_if(Failpoint::LeaseTaken, || taken.is_ok());
            // A sweeper that ended has no use for it.
            let _ended = tell.send(SweeperMsg::Taken(host, taken.is_ok())).await;
        }));
    }

    /// Takes the lease of a host that renews it but does not do what it is told.
    fn revoke(&self, host: HostName, epoch: u64) {
        tracing::error!(%host, epoch, "a host did not end a session in time: revoking its lease");
        let (bus, window) = (self.bus.clone(), self.window);
        drop(tokio::spawn(async move {
            let mut first = None;
            while let Err(error) = revoked(&bus, &host, &mut first).await {
                tracing::warn!(%host, %error, "revoking the lease of a host failed; trying again");
                tokio::time::sleep(window).await;
            }
        }));
    }
}

/// Takes a lease whoever renews it, unless it is another life's than the one found `first`.
async fn revoked(bus: &Bus, host: &HostName, first: &mut Option<u64>) -> EngineResult {
    let key = LeaseKey::Host(host.clone());
    loop {
        let seen = Lease::look(bus, &key).await?;
        let held = seen.as_ref().filter(|seen| seen.holder.is_some());
        if held.is_some_and(|seen| *first.get_or_insert(seen.epoch) != seen.epoch) {
            return Ok(());
        }
        // Also when nobody seems to hold it: the write proves that.
        match Lease::revoke(bus, &key, seen.as_ref()).await {
            // It was renewed in between.
            Err(PublishError::WrongLast { .. }) => {}
            outcome => return outcome.map(drop).map_err(EngineError::from),
        }
    }
}
