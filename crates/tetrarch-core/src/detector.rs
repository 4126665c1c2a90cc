//! The sweeper's machine (spec 04, The sweeper): what it hears of hosts and agents and of their records, and what it
//! has done about those of whom it hears nothing. It neither listens nor touches a lease; a silent host counts as
//! lost only when its lease could be taken from it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::agent::{Agent, Hosting};
use crate::id::{AgentId, HostName, SessionId};
use crate::liveness::Liveness;
use crate::owner::{Input, Silence};
use crate::sweep::{
    Heard, LeaseLook, MassPolicy, Proposal, Rows, Sweeper, Taking, Takings, Watch, Windows,
};
use crate::time::{Millis, Moment};

/// What a shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepAction {
    /// Tell the owner: at most a few for each session that is watched.
    Tell(Input),
    /// Tell the owner of a heartbeat, or do not when it is behind: the next one says the same.
    Heard(Input),
    /// Look at the lease of a silent host after this time, and call [`FailureDetector::looked`].
    Look(HostName, Millis),
    /// Take the lease of a silent host, found as it is at the last look, and call [`FailureDetector::taken`].
    Take(HostName, u64),
    /// Take the lease of a host whoever renews it, unless another life of it holds it. It finds that out with its
    /// next renewal, or its guard does two windows after the last one; what it ran goes on when it joins anew, or
    /// when its silence has lasted three.
    Revoke(HostName, u64),
}

/// The machine.
#[derive(Debug)]
pub struct FailureDetector {
    sweeper: Sweeper<AgentId>,
    rows: Rows<AgentId>,
    takings: Takings,
    /// The current sessions of those who say by themselves that they are alive.
    sessions: BTreeMap<AgentId, SessionId>,
}

impl FailureDetector {
    /// Watches nobody, and has not heard its canary yet.
    #[must_use]
    pub fn new(windows: Windows, mass: MassPolicy) -> Self {
        Self {
            sweeper: Sweeper::new(windows, mass),
            rows: Rows::new(windows),
            takings: Takings::new(windows),
            sessions: BTreeMap::new(),
        }
    }

    /// Whom it watches: every session but the owner's own. Hosts and external agents say by themselves
    /// that they are alive; the rest is named by its host.
    #[must_use]
    pub fn watches(agent: &Agent) -> bool {
        agent.hosting != Hosting::Owner && agent.session.is_some()
    }

    /// Hosts that were silent for too long and whose lease is not taken yet.
    pub fn declared(&self) -> impl Iterator<Item = &HostName> {
        self.takings.declared()
    }

    /// Watches an agent as its record stands. What it said before this owner counts from now.
    pub fn track(&mut self, agent: &Agent, now: Moment) {
        if !Self::watches(agent) {
            return;
        }
        let over = matches!(agent.liveness, Liveness::Terminated | Liveness::Offline);
        if let (Hosting::Hosted, Some(placement)) = (agent.hosting, &agent.placement) {
            // Its host's renewals name it, unless its end is known or ordered.
            if over || agent.ending.is_some() {
                self.rows.forget(&agent.id);
            } else {
                let (who, host) = (agent.id.clone(), &placement.host);
                self.rows.track(who, host, agent.epoch, agent.liveness, now);
            }
        } else if over {
            self.sessions.remove(&agent.id);
            self.sweeper.forget(&agent.id);
        } else {
            self.sessions.extend(agent.session.map(|session| (agent.id.clone(), session)));
            // Of a session that it watches already the sweeper knows more than the record.
            if self.sweeper.epoch(&agent.id) != Some(agent.epoch)
                && let Some(host) = host_of(&agent.id)
            {
                self.watch(agent.id.clone(), host, (agent.epoch, agent.liveness), now);
            }
        }
    }

    fn watch(&mut self, who: AgentId, host: HostName, stands: (u64, Liveness), now: Moment) {
        let (epoch, state) = stands;
        self.sweeper.track(Watch { who, host, epoch, state, agents: 1 }, now);
    }

    /// Its own heartbeat came back.
    pub fn canary(&mut self, now: Moment) {
        self.sweeper.canary(now);
    }

    /// A heartbeat of an external agent: its first is told, and one of another session or epoch.
    pub fn beat(
        &mut self,
        agent: AgentId,
        (epoch, session): (u64, Option<SessionId>),
        now: Moment,
    ) -> Vec<SweepAction> {
        let first = self.sweeper.state(&agent) == Some(Liveness::Register);
        let known = self.sessions.get(&agent);
        let other = session.is_some_and(|session| known.is_some_and(|known| *known != session));
        let heard =
            if other { Heard::Superseded } else { self.sweeper.observe(&agent, epoch, now) };
        let told = match heard {
            Heard::Alive => first,
            Heard::Unknown | Heard::Superseded => self.sweeper.corrects(&agent, now),
        };
        let heard = told.then_some(SweepAction::Heard(Input::Heard { agent, epoch, session }));
        heard.into_iter().collect()
    }

    /// A host renewed its lease, and said how many agents it runs and which sessions. None when no such host is
    /// watched.
    pub fn renewed<'a>(
        &mut self,
        host: &HostName,
        load: u32,
        named: impl IntoIterator<Item = (&'a AgentId, u64)>,
        now: Moment,
    ) -> Option<Vec<SweepAction>> {
        let who = AgentId::Ho(host.clone());
        let epoch = self.sweeper.epoch(&who)?;
        self.sweeper.weigh(&who, load.saturating_add(1));
        self.sweeper.observe(&who, epoch, now);
        let absent = self.rows.renewed(host, named, now).into_iter();
        Some(absent.map(|(agent, epoch, it)| found(agent, epoch, Silence::Absent(it))).collect())
    }

    /// Whether this session was placed on this host.
    #[must_use]
    pub fn holds(&self, host: &HostName, agent: &AgentId, epoch: u64) -> bool {
        self.rows.holds(host, agent, epoch)
    }

    /// What has become true by now.
    pub fn sweep(&mut self, now: Moment) -> Vec<SweepAction> {
        let mut actions = Vec::new();
        for proposal in self.sweeper.sweep(now) {
            match proposal {
                Proposal::Active { who, epoch } => {
                    if let AgentId::Ho(host) = &who {
                        self.takings.broken(host);
                    }
                    actions.push(found(who, epoch, Silence::Broken));
                }
                Proposal::Stale { who, epoch, missed } => {
                    if let AgentId::Ho(host) = &who {
                        let taking = self.takings.begun(host, epoch);
                        actions.extend(self.follow(host.clone(), taking, now));
                    }
                    actions.push(found(who, epoch, Silence::Begun { missed }));
                }
                Proposal::Offline { who: AgentId::Ho(host), epoch, missed } => {
                    let taking = self.takings.long(&host, epoch, missed, now);
                    actions.extend(self.follow(host, taking, now));
                }
                Proposal::Offline { who, epoch, missed } => {
                    actions.push(found(who, epoch, Silence::Long { missed }));
                }
                Proposal::MassSilence { silent, active, .. } => {
                    actions.push(SweepAction::Tell(Input::MassSilence { silent, active }));
                }
            }
        }
        actions
    }

    /// What a look at a lease found; none when it could not be read.
    pub fn looked(
        &mut self,
        host: HostName,
        look: Option<LeaseLook>,
        now: Moment,
    ) -> Option<SweepAction> {
        let taking = self.takings.looked(&host, look, now);
        self.follow(host, taking, now)
    }

    /// Whether a lease could be taken.
    pub fn taken(&mut self, host: HostName, taken: bool, now: Moment) -> Option<SweepAction> {
        let taking = self.takings.revoked(&host, taken);
        self.follow(host, taking, now)
    }

    /// A host does not end what it was ordered to end in this epoch.
    #[must_use]
    pub fn revoke(&self, host: HostName, epoch: u64) -> Option<SweepAction> {
        let known = self.sweeper.epoch(&AgentId::Ho(host.clone()));
        (known == Some(epoch)).then_some(SweepAction::Revoke(host, epoch))
    }

    fn follow(&mut self, host: HostName, taking: Taking, now: Moment) -> Option<SweepAction> {
        match taking {
            Taking::Wait => None,
            Taking::Look(after) => Some(SweepAction::Look(host, after)),
            Taking::Revoke(seq) => Some(SweepAction::Take(host, seq)),
            Taking::Lost { epoch, missed } => {
                Some(found(AgentId::Ho(host), epoch, Silence::Long { missed }))
            }
            Taking::Alive { epoch } => {
                self.watch(AgentId::Ho(host.clone()), host, (epoch, Liveness::Stale), now);
                None
            }
        }
    }
}

fn found(agent: AgentId, epoch: u64, found: Silence) -> SweepAction {
    SweepAction::Tell(Input::Swept { agent, epoch, found })
}

/// Where an agent falls silent: external ones count as on one host of their own.
fn host_of(agent: &AgentId) -> Option<HostName> {
    if let AgentId::Ho(host) = agent { Some(host.clone()) } else { HostName::new("external").ok() }
}
