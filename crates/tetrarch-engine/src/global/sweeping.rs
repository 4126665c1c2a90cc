//! The sweeper's shell (spec 04): hears the renewals of hosts' leases and the heartbeats of
//! external agents, its own heartbeat as canary among them, and tells the owner what core's
//! sweeper proposes. A silent host counts as lost only when its lease could be taken from it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::error::PublishError;
use tetrarch_bus::lease::{Lease, LeaseKey, LeaseSeen, Renewal, Renewals};
use tetrarch_bus::watch::{AgentHeartbeat, Heartbeats};
use tetrarch_core::agent::{Agent, Hosting};
use tetrarch_core::id::{AgentId, HostName, SessionId};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::owner::{Input, Silence};
use tetrarch_core::records::Records;
use tetrarch_core::sweep::{
    Heard, LeaseLook, MassPolicy, Proposal, Rows, Sweeper, Taking, Takings, Watch, Windows,
};
use tetrarch_core::time::{Millis, Moment};
use tetrarch_failpoint::{Failpoint, reach, reach_if};
use tokio::sync::mpsc;

use super::heartbeats::HeartbeatTable;
use super::owner::OwnerMsg;
use crate::error::EngineError;
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

/// Whom it watches: every session but the owner's own. Hosts and external agents say by themselves
/// that they are alive; the rest is named by its host.
pub(super) fn is_watched(agent: &Agent) -> bool {
    agent.hosting != Hosting::Owner && agent.session.is_some()
}

/// What the sweeper goes by.
pub(super) struct SweepConfig {
    /// The liveness window.
    pub(super) window: Duration,
    /// How long a session's first sign may take.
    pub(super) register_deadline: Duration,
    /// When silence is a mass failure.
    pub(super) mass: MassPolicy,
}

fn millis(time: Duration) -> Millis {
    Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Starts the sweeper on what the records say. Gives what it is told by, and its task.
pub(super) async fn start(
    bus: &Bus,
    (patience, heartbeats): (SweepConfig, HeartbeatTable),
    records: &Records,
    owner: ActorRef<OwnerMsg>,
) -> Result<(mpsc::Sender<SweeperMsg>, Pump), EngineError> {
    let SweepConfig { window, register_deadline, mass } = patience;
    let windows = Windows::new(millis(window))?.with_register_deadline(millis(register_deadline));
    let (tell, told) = mpsc::channel(TOLD);
    let beats = Heartbeats::listen(bus).await?;
    let renewals = Renewals::listen(bus).await?;
    let mut sweeping = Sweeping {
        bus: bus.clone(),
        window,
        since: Instant::now(),
        sweeper: Sweeper::new(windows, mass),
        rows: Rows::new(windows),
        takings: Takings::new(windows),
        tell: tell.clone(),
        owner,
        slots: MailboxSlots::new(HEARD_IN_MAILBOX),
        heartbeats,
        sessions: HashMap::new(),
    };
    for agent in records.agents.values().filter(|agent| is_watched(agent)) {
        sweeping.track(agent);
    }
    Ok((tell, Pump::run(sweeping.run(told, beats, renewals))))
}

/// Where an agent falls silent: external ones count as on one host of their own.
fn host_of(agent: &Agent) -> Option<HostName> {
    match &agent.id {
        AgentId::Ho(host) => Some(host.clone()),
        AgentId::Go
        | AgentId::Po(_)
        | AgentId::Io(_)
        | AgentId::Specialist(..)
        | AgentId::Reviewer(..)
        | AgentId::Worker(_) => HostName::new("external").ok(),
    }
}

struct Sweeping {
    bus: Bus,
    window: Duration,
    since: Instant,
    sweeper: Sweeper<AgentId>,
    rows: Rows<AgentId>,
    takings: Takings,
    tell: mpsc::Sender<SweeperMsg>,
    owner: ActorRef<OwnerMsg>,
    slots: MailboxSlots,
    heartbeats: HeartbeatTable,
    /// The current sessions of those who say by themselves that they are alive.
    sessions: HashMap<AgentId, SessionId>,
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
                        let taking = self.takings.revoked(&host, taken);
                        self.follow(host, taking, None);
                    }
                    Some(SweeperMsg::Revoke(host, epoch)) => self.revoke(host, epoch),
                    None => return,
                },
                beat = beats.next() => self.beat(beat),
                renewal = renewals.next() => self.renewed(&renewal),
                _ = canaries.tick() => beats.send_canary().await,
                _ = sweeps.tick() => self.sweep(),
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Watches an agent as its record stands now. What it said before this owner counts from now.
    fn track(&mut self, agent: &Agent) {
        if let (Hosting::Hosted, Some(placement)) = (agent.hosting, &agent.placement) {
            self.track_row(agent, &placement.host.clone());
            return;
        }
        match agent.liveness {
            Liveness::Terminated | Liveness::Offline => {
                self.sessions.remove(&agent.id);
                self.sweeper.forget(&agent.id);
            }
            state @ (Liveness::Register | Liveness::Active | Liveness::Stale) => {
                self.sessions.extend(agent.session.map(|session| (agent.id.clone(), session)));
                // Of a session that it watches already the sweeper knows more than the record.
                if self.sweeper.epoch(&agent.id) == Some(agent.epoch) {
                    return;
                }
                let Some(host) = host_of(agent) else { return };
                let watch =
                    Watch { who: agent.id.clone(), host, epoch: agent.epoch, state, agents: 1 };
                self.sweeper.track(watch, self.now());
            }
        }
    }

    /// Expects a session in its host's renewals, unless its end is known or ordered.
    fn track_row(&mut self, agent: &Agent, host: &HostName) {
        let over = matches!(agent.liveness, Liveness::Terminated | Liveness::Offline);
        if over {
            self.heartbeats.forget(&agent.id);
        }
        if over || agent.ending.is_some() {
            self.rows.forget(&agent.id);
        } else {
            let now = self.now();
            self.rows.track(agent.id.clone(), host, agent.epoch, agent.liveness, now);
        }
    }

    fn beat(&mut self, AgentHeartbeat { agent, epoch, session }: AgentHeartbeat) {
        let now = self.now();
        if agent == AgentId::Go {
            self.sweeper.canary(now);
            return;
        }
        let first = self.sweeper.state(&agent) == Some(Liveness::Register);
        let known = self.sessions.get(&agent);
        let other = session.is_some_and(|session| known.is_some_and(|known| *known != session));
        let heard =
            if other { Heard::Superseded } else { self.sweeper.observe(&agent, epoch, now) };
        let told = match heard {
            Heard::Alive => first,
            Heard::Unknown | Heard::Superseded => self.sweeper.corrects(&agent, now),
        };
        if !told {
            return;
        }
        // With the owner behind by so many, the next heartbeat says the same.
        if let Some(placed) = self.slots.try_reserve(Input::Heard { agent, epoch, session }) {
            // An owner that ended needs no heartbeats.
            let _ended = self.owner.cast(OwnerMsg::Heard(placed));
        }
    }

    fn renewed(&mut self, renewal: &Renewal) {
        let who = AgentId::Ho(renewal.host.clone());
        let now = self.now();
        let Some(epoch) = self.sweeper.epoch(&who) else { return };
        self.sweeper.weigh(&who, renewal.load.saturating_add(1));
        self.sweeper.observe(&who, epoch, now);
        for row in &renewal.rows {
            self.heartbeats.progress(&row.agent, row.epoch, row.progress);
        }
        let named = renewal.rows.iter().map(|row| (&row.agent, row.epoch));
        for (agent, epoch, absence) in self.rows.renewed(&renewal.host, named, now) {
            self.found(agent, epoch, Silence::Absent(absence));
        }
    }

    fn sweep(&mut self) {
        let now = self.now();
        for proposal in self.sweeper.sweep(now) {
            match proposal {
                Proposal::Active { who, epoch } => {
                    if let AgentId::Ho(host) = &who {
                        self.takings.broken(host);
                    }
                    self.found(who, epoch, Silence::Broken);
                }
                Proposal::Stale { who, epoch, missed } => {
                    if let AgentId::Ho(host) = &who {
                        let taking = self.takings.begun(host, epoch);
                        self.follow(host.clone(), taking, None);
                    }
                    self.found(who, epoch, Silence::Begun { missed });
                }
                Proposal::Offline { who: AgentId::Ho(host), epoch, missed } => {
                    let taking = self.takings.long(&host, epoch, missed, now);
                    self.follow(host, taking, None);
                }
                Proposal::Offline { who, epoch, missed } => {
                    self.found(who, epoch, Silence::Long { missed });
                }
                Proposal::MassSilence { silent, active, hosts } => {
                    tracing::error!(
                        silent,
                        active,
                        hosts,
                        "mass silence: no agent is declared offline"
                    );
                    self.tell_owner(Input::MassSilence { silent, active });
                }
            }
        }
    }

    fn found(&self, agent: AgentId, epoch: u64, found: Silence) {
        tracing::info!(%agent, epoch, ?found, "the sweeper found");
        self.tell_owner(Input::Swept { agent, epoch, found });
    }

    /// At most a few findings for each session that is watched: they need no place.
    fn tell_owner(&self, input: Input) {
        // An owner that ended has no use for it.
        let _ended = self.owner.cast(OwnerMsg::Found(Box::new(input)));
    }
}

/// What core wants done at leases of silent hosts, and what comes of it.
impl Sweeping {
    /// `found`: the lease as it was looked at last.
    fn follow(&mut self, host: HostName, taking: Taking, found: FoundLease) {
        match taking {
            Taking::Wait => {}
            Taking::Look(after) => self.look(host, Duration::from_millis(after.0)),
            Taking::Revoke(_) => self.take(host, found),
            Taking::Lost { epoch, missed } => {
                self.found(AgentId::Ho(host), epoch, Silence::Long { missed });
            }
            Taking::Alive { epoch } => {
                tracing::info!(%host, "revoking the lease was refused: the host is alive");
                let now = self.now();
                let who = AgentId::Ho(host.clone());
                let watch = Watch { who, host, epoch, state: Liveness::Stale, agents: 1 };
                self.sweeper.track(watch, now);
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
        let taking = self.takings.looked(&host, look, self.now());
        self.follow(host, taking, found.flatten());
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

    /// Takes the lease of a host that renews it but does not do what it is told. It finds that
    /// out with its next renewal, or its guard does two windows after the last one; what it ran goes
    /// on when it joins anew, or when its silence has lasted three.
    fn revoke(&self, host: HostName, epoch: u64) {
        let who = AgentId::Ho(host.clone());
        if self.sweeper.epoch(&who) != Some(epoch) {
            return;
        }
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
async fn revoked(bus: &Bus, host: &HostName, first: &mut Option<u64>) -> Result<(), EngineError> {
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
