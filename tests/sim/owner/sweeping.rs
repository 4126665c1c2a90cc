//! The sweeper's shell of the simulation: hears renewals unless it is deaf, and its own canary with them, and does
//! at leases what core's failure detector says.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::agent::Agent;
use tetrarch_core::detector::{FailureDetector, SweepAction};
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::owner::Input;
use tetrarch_core::records::Records;
use tetrarch_core::sweep::{LeaseLook, MassPolicy, Windows};
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
    /// Whoever renews it.
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

/// One owner's sweeping.
#[derive(Debug)]
pub(crate) struct Sweeping {
    since: BusTime,
    detector: FailureDetector,
    canary: BusTime,
    sweep: BusTime,
    works: Vec<(BusTime, HostName, Work)>,
    /// Since when its canary came back without a gap of more than half a window, and when last.
    heard: (BusTime, BusTime),
    /// Hosts that are watched: their epochs, and how many agents fall silent with them.
    watched: BTreeMap<AgentId, (u64, u32)>,
    /// When it raised the alert of a mass failure last.
    alerted: BusTime,
    /// What it found, for its owner.
    pub(crate) found: Vec<Input>,
}

impl Sweeping {
    /// Begins on what the records say.
    pub(crate) fn start(records: &Records, mass: MassPolicy, now: BusTime) -> Self {
        let windows = Windows::new(WINDOW).expect("it is a window");
        let mut sweeping = Self {
            since: now,
            detector: FailureDetector::new(windows, mass),
            canary: now,
            sweep: now,
            works: Vec::new(),
            heard: (now, now),
            watched: BTreeMap::new(),
            alerted: BusTime::default(),
            found: Vec::new(),
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
        self.detector.track(agent, self.moment(now));
        if matches!(agent.liveness, Liveness::Terminated | Liveness::Offline) {
            self.watched.remove(&agent.id);
        } else if matches!(agent.id, AgentId::Ho(_)) {
            let known = self.watched.entry(agent.id.clone()).or_insert((agent.epoch, 1));
            if known.0 != agent.epoch {
                *known = (agent.epoch, 1);
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
        let (host, load) = (&renewal.host, renewal.load);
        let named = renewal.rows.iter().map(|(agent, epoch)| (agent, *epoch));
        let actions = self.detector.renewed(host, load, named, self.moment(now));
        if let Some((_, agents)) = self.watched.get_mut(&AgentId::Ho(host.clone())) {
            *agents = load + 1;
        }
        self.found.extend(actions.into_iter().flatten().filter_map(told));
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
                self.detector.canary(self.moment(now));
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
        let before: BTreeSet<HostName> = self.detector.declared().cloned().collect();
        let actions = self.detector.sweep(now);
        let declared = self.detector.declared().filter(|host| !before.contains(*host));
        let declared: Vec<HostName> = declared.cloned().collect();
        self.restrained(&declared, around);
        for host in &declared {
            self.observed(host, around);
        }
        if around.bug == Some(Bug::Restless) && !around.faulty && now.0 % 50 < 5 {
            self.found.push(Input::MassSilence { silent: 0, active: 0 });
        }
        self.perform(actions, around);
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
    fn restrained(&self, declared: &[HostName], around: &mut Around<'_>) {
        let weight =
            |who: &AgentId| self.watched.get(who).map_or(1, |(_, agents)| u64::from(*agents));
        let silent: u64 = declared.iter().map(|host| weight(&AgentId::Ho(host.clone()))).sum();
        let all: u64 = self.watched.keys().map(weight).sum();
        let told = around.now - self.alerted < Millis(100 * WINDOW.0);
        if all >= 12 && declared.len() >= 2 && silent * 2 > all && !told {
            let what =
                format!("invariant 23: {silent} of {all} are declared at once, and no alert");
            around.broken.push(what);
        }
    }

    fn perform(&mut self, actions: impl IntoIterator<Item = SweepAction>, around: &mut Around<'_>) {
        for action in actions {
            let mut late = || around.now + Millis(around.dice.below(LATE_MAX) as u64);
            match action {
                SweepAction::Tell(input) | SweepAction::Heard(input) => {
                    if matches!(input, Input::MassSilence { .. }) {
                        around.tally.note("mass silence");
                        self.alerted = around.now;
                    }
                    self.found.push(input);
                }
                SweepAction::Look(host, after) => {
                    self.works.push((late() + after, host, Work::Look))
                }
                SweepAction::Take(host, seq) => self.works.push((late(), host, Work::Revoke(seq))),
                SweepAction::Revoke(host, _) => self.works.push((late(), host, Work::RevokeAny)),
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
                let found = match around.bug {
                    // As if it had never changed.
                    Some(Bug::LeaseNotTaken | Bug::LeaseTakenBlindly) => {
                        LeaseLook { seq: 1, held: true }
                    }
                    Some(_) | None => around.leases.look(&key, seen),
                };
                self.works.push((late, host, Work::Looked(found)));
            }
            Work::Looked(found) => {
                let failed = around.faulty && around.dice.percent(5);
                let before = self.is_declared(&host);
                let action = self.detector.looked(host.clone(), (!failed).then_some(found), now);
                self.spared(&host, (before, action.is_some()), around);
                self.perform(action, around);
            }
            Work::Revoke(seq) => {
                let renewed = around.leases.renewed(&key);
                let LeaseLook { held, seq: last } = around.leases.look(&key, NOW);
                let blindly = around.bug == Some(Bug::LeaseTakenBlindly);
                let not_at_all = around.bug == Some(Bug::LeaseNotTaken);
                if not_at_all {
                    self.works.push((late, host, Work::Revoked(true)));
                    return;
                }
                let seq = if blindly { last } else { seq };
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
                let before = self.is_declared(&host);
                let action = self.detector.taken(host.clone(), taken, now);
                self.spared(&host, (before, action.is_some()), around);
                self.perform(action, around);
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

    fn is_declared(&self, host: &HostName) -> bool {
        self.detector.declared().any(|declared| declared == host)
    }

    /// Notes when nothing is to be done about a host any more that was declared.
    fn spared(&self, host: &HostName, (before, acts): (bool, bool), around: &mut Around<'_>) {
        if before && !acts && !self.is_declared(host) {
            around.tally.note("lease moved, host spared");
        }
    }

    /// The owner wants a lease taken.
    pub(crate) fn revoke(&mut self, host: HostName, epoch: u64, now: BusTime) {
        if let Some(SweepAction::Revoke(host, _)) = self.detector.revoke(host, epoch) {
            self.works.push((now, host, Work::RevokeAny));
        }
    }

    /// Whether nothing is under way at a lease.
    pub(crate) fn is_idle(&self) -> bool {
        self.works.is_empty() && self.found.is_empty()
    }
}

/// What an owner is told by a renewal.
fn told(action: SweepAction) -> Option<Input> {
    match action {
        SweepAction::Tell(input) | SweepAction::Heard(input) => Some(input),
        SweepAction::Look(..) | SweepAction::Take(..) | SweepAction::Revoke(..) => None,
    }
}
