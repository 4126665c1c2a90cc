//! The sweeper's shell of the simulation: hears renewals unless it is deaf, and its own canary
//! with them, tells its owner what core's sweeper proposes, and does at leases what core says.

use std::collections::BTreeMap;

use tetrarch_core::agent::{Agent, Hosting};
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::owner::{Input, Silence};
use tetrarch_core::records::Records;
use tetrarch_core::sweep::{
    LeaseLook, MassPolicy, Proposal, Rows, Sweeper, Taking, Takings, Watch, Windows,
};
use tetrarch_core::time::{BusTime, Millis, Moment};
use tetrarch_tests::simulated::{Leases, NOW};

use crate::bug::Bug;
use crate::dice::Dice;
use crate::host::Renewal;
use crate::tally::Tally;
use crate::world::WINDOW;

/// Canaries, and sweeps, in one window.
const PER_WINDOW: u64 = 6;
/// The longest that a read or write of a lease takes, in milliseconds.
const LATE_MAX: usize = 60;

/// Something at a lease that was begun.
#[derive(Debug, Clone, Copy)]
enum Work {
    Look,
    Looked(LeaseLook),
    Revoke(u64),
    Revoked(bool),
    /// The owner wants the lease of a host that does not do what it is told.
    RevokeAny,
}

/// What a sweeper can reach.
pub(crate) struct Around<'w> {
    pub(crate) leases: &'w mut Leases,
    pub(crate) dice: &'w mut Dice,
    pub(crate) tally: &'w mut Tally,
    pub(crate) broken: &'w mut Vec<String>,
    pub(crate) now: BusTime,
    pub(crate) faulty: bool,
    pub(crate) bug: Option<Bug>,
    /// How much of the leases a replica that lags behind shows, and how many reads of a hundred it
    /// answers.
    pub(crate) replica: (u64, usize),
}

impl Around<'_> {
    /// How much of the leases the next read shows.
    fn seen(&mut self) -> u64 {
        let (shown, stale) = self.replica;
        if !self.faulty || shown == self.leases.last_seq() || !self.dice.percent(stale) {
            return NOW;
        }
        self.tally.note("stale look at a lease");
        shown
    }
}

/// One spell of sweeping.
#[derive(Debug)]
pub(crate) struct Sweeping {
    since: BusTime,
    sweeper: Sweeper<AgentId>,
    rows: Rows<AgentId>,
    takings: Takings,
    canary: BusTime,
    sweep: BusTime,
    works: Vec<(BusTime, HostName, Work)>,
    /// Since when its canary came back without a gap of more than half a window, and when last.
    heard: (BusTime, BusTime),
    /// Whom it watches, with the agents that fall silent with them.
    watched: BTreeMap<AgentId, u32>,
    /// When it raised the alert of a mass failure last.
    alerted: BusTime,
    /// What it found, for its owner.
    pub(crate) found: Vec<Input>,
    revoked: BTreeMap<HostName, u64>,
}

impl Sweeping {
    /// Begins on what the records say.
    pub(crate) fn start(records: &Records, mass: MassPolicy, now: BusTime) -> Self {
        let windows = Windows::new(WINDOW).expect("it is a window");
        let mut sweeping = Self {
            since: now,
            sweeper: Sweeper::new(windows, mass),
            rows: Rows::new(windows),
            takings: Takings::new(windows),
            canary: now,
            sweep: now,
            works: Vec::new(),
            heard: (now, now),
            watched: BTreeMap::new(),
            alerted: BusTime::default(),
            found: Vec::new(),
            revoked: BTreeMap::new(),
        };
        for agent in records.agents.values() {
            sweeping.track(agent, now);
        }
        sweeping
    }

    fn moment(&self, now: BusTime) -> Moment {
        Moment((now - self.since).0)
    }

    /// An entry was decided.
    pub(crate) fn learn(&mut self, entry: &Entry, now: BusTime) {
        for record in &entry.records {
            if let Record::Agent(agent) = record {
                self.track(agent, now);
            }
        }
    }

    fn track(&mut self, agent: &Agent, now: BusTime) {
        let now = self.moment(now);
        if agent.hosting == Hosting::Owner || agent.session.is_none() {
            return;
        }
        if let Some(placement) = &agent.placement {
            let over = matches!(agent.liveness, Liveness::Terminated | Liveness::Offline);
            if over || agent.ending.is_some() {
                self.rows.forget(&agent.id);
            } else {
                let (who, epoch) = (agent.id.clone(), agent.epoch);
                self.rows.track(who, &placement.host, epoch, agent.liveness, now);
            }
            return;
        }
        let AgentId::Ho(host) = agent.id.clone() else { return };
        match agent.liveness {
            Liveness::Terminated | Liveness::Offline => {
                self.sweeper.forget(&agent.id);
                self.watched.remove(&agent.id);
            }
            state @ (Liveness::Register | Liveness::Active | Liveness::Stale) => {
                if self.sweeper.epoch(&agent.id) != Some(agent.epoch) {
                    let (who, epoch) = (agent.id.clone(), agent.epoch);
                    self.watched.insert(who.clone(), 1);
                    self.sweeper.track(Watch { who, host, epoch, state, agents: 1 }, now);
                }
            }
        }
    }

    /// When something is due.
    pub(crate) fn next(&self) -> BusTime {
        let work = self.works.iter().map(|(at, ..)| *at).min();
        self.canary.min(self.sweep).min(work.unwrap_or(self.canary))
    }

    /// A host's renewal is heard of.
    pub(crate) fn hear(&mut self, renewal: &Renewal, now: BusTime) {
        let who = AgentId::Ho(renewal.host.clone());
        let Some(epoch) = self.sweeper.epoch(&who) else { return };
        let now = self.moment(now);
        self.sweeper.weigh(&who, renewal.load + 1);
        self.watched.insert(who.clone(), renewal.load + 1);
        self.sweeper.observe(&who, epoch, now);
        let named = renewal.rows.iter().map(|(agent, epoch)| (agent, *epoch));
        for (agent, epoch, absence) in self.rows.renewed(&renewal.host, named, now) {
            self.found.push(Input::Swept { agent, epoch, found: Silence::Absent(absence) });
        }
    }

    /// Does what is due. A deaf one does not hear its canary.
    pub(crate) fn tick(&mut self, deaf: bool, around: &mut Around<'_>) {
        let (now, period) = (around.now, Millis(WINDOW.0 / PER_WINDOW));
        if self.canary <= now {
            self.canary = now + period;
            if !deaf {
                let gap = (now - self.heard.1).0 > WINDOW.0 / 2;
                self.heard = (if gap { now } else { self.heard.0 }, now);
            }
            if !deaf || around.bug == Some(Bug::DeafnessUnnoticed) {
                self.sweeper.canary(self.moment(now));
            }
        }
        if self.sweep <= now {
            self.sweep = now + period;
            self.propose(around);
        }
        for (_, host, work) in self.works.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>()
        {
            self.at_lease(host, work, deaf, around);
        }
    }

    fn propose(&mut self, around: &mut Around<'_>) {
        let now = self.moment(around.now);
        let proposals = self.sweeper.sweep(now);
        self.restrained(&proposals, around);
        if around.bug == Some(Bug::Restless) && !around.faulty && now.0 % 50 < 5 {
            self.found.push(Input::MassSilence { silent: 0, active: 0 });
        }
        for proposal in proposals {
            match proposal {
                Proposal::Active { who, epoch } => {
                    if let AgentId::Ho(host) = &who {
                        self.takings.broken(host);
                    }
                    let found = Silence::Broken;
                    self.found.push(Input::Swept { agent: who, epoch, found });
                }
                Proposal::Stale { who, epoch, missed } => {
                    if let AgentId::Ho(host) = &who {
                        let taking = self.takings.begun(host, epoch);
                        self.follow(host.clone(), taking, around);
                    }
                    let found = Silence::Begun { missed };
                    self.found.push(Input::Swept { agent: who, epoch, found });
                }
                Proposal::Offline { who: AgentId::Ho(host), epoch, missed } => {
                    self.observed(&host, around);
                    let taking = self.takings.long(&host, epoch, missed, now);
                    let taking = match around.bug {
                        Some(Bug::LeaseNotTaken) => Taking::Lost { epoch, missed },
                        Some(Bug::LeaseTakenBlindly) => {
                            Taking::Revoke(around.leases.look(&AgentId::Ho(host.clone()), NOW).seq)
                        }
                        Some(_) | None => taking,
                    };
                    self.follow(host, taking, around);
                }
                Proposal::Offline { .. } => {}
                Proposal::MassSilence { silent, active, .. } => {
                    around.tally.note("mass silence");
                    self.alerted = around.now;
                    self.found.push(Input::MassSilence { silent, active });
                }
            }
        }
    }

    /// Invariant 11: three windows in which this sweeper heard its canary.
    fn observed(&self, host: &HostName, around: &mut Around<'_>) {
        let gap = (around.now - self.heard.1).0 > WINDOW.0 / 2;
        let heard = if gap { Millis(0) } else { around.now - self.heard.0 };
        if heard.0 < 3 * WINDOW.0 {
            let what =
                format!("invariant 11: {host} is declared by a sweeper that hears for {heard}");
            around.broken.push(what);
        }
    }

    /// Invariant 23: most of a crowd is not declared at once, without a word.
    fn restrained(&self, proposals: &[Proposal<AgentId>], around: &mut Around<'_>) {
        let weight = |who: &AgentId| u64::from(self.watched.get(who).copied().unwrap_or(1));
        let declared = proposals.iter().filter_map(|proposal| match proposal {
            Proposal::Offline { who, .. } => Some(who),
            Proposal::Active { .. } | Proposal::Stale { .. } | Proposal::MassSilence { .. } => None,
        });
        let declared: Vec<&AgentId> = declared.collect();
        let silent: u64 = declared.iter().map(|who| weight(who)).sum();
        let all: u64 = self.watched.keys().map(weight).sum();
        let told = around.now - self.alerted < Millis(100 * WINDOW.0);
        if all >= 12 && declared.len() >= 2 && silent * 2 > all && !told {
            let what =
                format!("invariant 23: {silent} of {all} are declared at once, and no alert");
            around.broken.push(what);
        }
    }

    fn follow(&mut self, host: HostName, taking: Taking, around: &mut Around<'_>) {
        let now = self.moment(around.now);
        let late = Millis(around.dice.below(LATE_MAX) as u64);
        match taking {
            Taking::Wait => {}
            Taking::Look(after) => self.works.push((around.now + after + late, host, Work::Look)),
            Taking::Revoke(seq) => {
                self.works.push((around.now + late, host, Work::Revoke(seq)));
            }
            Taking::Lost { epoch, missed } => {
                let agent = AgentId::Ho(host);
                let found = Silence::Long { missed };
                self.found.push(Input::Swept { agent, epoch, found });
            }
            Taking::Alive { epoch } => {
                around.tally.note("lease moved, host spared");
                let who = AgentId::Ho(host.clone());
                let watch = Watch { who, host, epoch, state: Liveness::Stale, agents: 1 };
                self.sweeper.track(watch, now);
            }
        }
    }

    /// A word to or from a lease. While the bus cannot be reached it is said again.
    fn at_lease(&mut self, host: HostName, work: Work, deaf: bool, around: &mut Around<'_>) {
        let late = around.now + Millis(around.dice.below(LATE_MAX) as u64);
        if deaf {
            self.works.push((late + Millis(10), host, work));
            return;
        }
        let (now, key) = (self.moment(around.now), AgentId::Ho(host.clone()));
        match work {
            Work::Look => {
                let seen = around.seen();
                let found = around.leases.look(&key, seen);
                self.works.push((late, host, Work::Looked(found)));
            }
            Work::Looked(found) => {
                let failed = around.faulty && around.dice.percent(5);
                let taking = self.takings.looked(&host, (!failed).then_some(found), now);
                self.follow(host, taking, around);
            }
            Work::Revoke(seq) => {
                let renewed = around.leases.renewed(&key);
                let held = around.leases.look(&key, NOW).held;
                let taken = around.leases.clear(&key, seq).is_ok();
                if taken && held {
                    around.tally.note("lease taken from a silent host");
                    let silent = around.now - renewed;
                    if silent < Millis(2 * WINDOW.0) {
                        let what = "was heard by the bus";
                        let what = format!("invariant 11: {host} {what} {silent} before its end");
                        around.broken.push(what);
                    }
                }
                let unknown = around.faulty && around.dice.percent(10);
                self.works.push((late, host, Work::Revoked(taken && !unknown)));
            }
            Work::Revoked(taken) => {
                let taking = self.takings.revoked(&host, taken);
                self.follow(host, taking, around);
            }
            Work::RevokeAny => {
                let seen = around.seen();
                let found = around.leases.look(&key, seen);
                match around.leases.clear(&key, found.seq) {
                    Ok(_) if found.held => {
                        around.tally.note("lease taken from a host that does not answer");
                    }
                    Ok(_) => {}
                    Err(_) => self.works.push((late, host, work)),
                }
            }
        }
    }

    /// The owner wants a lease taken.
    pub(crate) fn revoke(&mut self, host: &HostName, epoch: u64, now: BusTime) {
        let who = AgentId::Ho(host.clone());
        let known = self.revoked.insert(host.clone(), epoch) == Some(epoch);
        if !known && self.sweeper.epoch(&who) == Some(epoch) {
            self.works.push((now, host.clone(), Work::RevokeAny));
        }
    }

    /// Whether nothing is under way at a lease.
    pub(crate) fn is_idle(&self) -> bool {
        self.works.is_empty() && self.found.is_empty()
    }
}
