//! The sweeper's machine (spec 04): who has been silent for how long, and what that means. It
//! proposes; the owner decides and commits. It is told what time it is, on the monotonic clock of
//! its own process, and never compares that with anybody else's.
//!
//! Signs of life only move a time; whoever may be overdue is found in order of deadlines. So both
//! a sign and an expiry cost O(log n), and an expiry happens at most once a window for each.

mod census;
mod guard;
mod hearing;
mod rows;
mod silence;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use census::{Census, Share};
pub use guard::MassPolicy;
use guard::{Guard, Phase};
use hearing::Hearing;
pub use rows::{Absence, Rows};
pub use silence::{Signs, WindowError, Windows};
pub use taking::{LeaseLook, Taking, Takings};

use crate::id::HostName;
use crate::liveness::Liveness;
use crate::time::Moment;

/// One session that is watched: a host, by the renewals of its lease, or an external agent, by
/// its heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch<K> {
    /// Who it is.
    pub who: K,
    /// The host it is on: silence on one host alone is never a mass failure.
    pub host: HostName,
    /// The epoch of its record; signs of any other are superseded.
    pub epoch: u64,
    /// Where its record says it stands.
    pub state: Liveness,
    /// Agents that fall silent with it, itself included: 1 for an external agent, all active ones
    /// of a host for a host.
    pub agents: u32,
}

/// Senders that are told in one window that they are superseded.
const CORRECTED_MAX: usize = 10_000;

/// What a sign of life came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nobody of that name is watched.
    Unknown,
    /// It is of another epoch, or its session is offline or ended: nothing changed, and the
    /// sender is to be told that it is superseded.
    Superseded,
    /// It counts.
    Alive,
}

/// What the owner is asked to commit, or to raise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal<K> {
    /// The first heartbeat of a session, or one that resumes: `register` or `stale` to `active`.
    Active {
        /// Who.
        who: K,
        /// The epoch that was heard.
        epoch: u64,
    },
    /// One or two windows missed: `active` to `stale`.
    Stale {
        /// Who.
        who: K,
        /// The epoch that is silent.
        epoch: u64,
        /// Whole windows missed.
        missed: u64,
    },
    /// Three windows missed, or no first heartbeat in time. Comes without [`Self::Stale`] before
    /// it when both became true between two sweeps; the owner then commits both.
    Offline {
        /// Who.
        who: K,
        /// The epoch that is silent.
        epoch: u64,
        /// Whole windows missed.
        missed: u64,
    },
    /// The alert `sweeper.mass_silence`: nothing is declared for one window.
    MassSilence {
        /// Agents that are silent.
        silent: u64,
        /// Agents that were active, the silent ones included.
        active: u64,
        /// Hosts that the silent ones are on.
        hosts: usize,
    },
}

/// Where somebody stands in the order of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing can expire.
    Nowhere,
    /// In the queue, at a moment not later than the deadline.
    Queued(Moment),
    /// Overdue and held back, in order of the last sign of life.
    Waiting(Moment),
}

#[derive(Debug, Clone)]
struct Watched {
    host: HostName,
    epoch: u64,
    agents: u32,
    signs: Signs,
    share: Share,
    place: Place,
}

/// Watches sessions for silence.
#[derive(Debug, Clone)]
pub struct Sweeper<K> {
    windows: Windows,
    hearing: Option<Hearing>,
    watched: BTreeMap<K, Watched>,
    queue: BTreeSet<(Moment, K)>,
    waiting: BTreeSet<(Moment, K)>,
    resumed: BTreeSet<K>,
    /// When whoever is superseded was told so last.
    corrected: BTreeMap<K, Moment>,
    census: Census,
    guard: Guard,
}

impl<K: Ord + Clone> Sweeper<K> {
    /// A sweeper that watches nobody and has not heard its canary yet.
    #[must_use]
    pub fn new(windows: Windows, policy: MassPolicy) -> Self {
        Self {
            windows,
            hearing: None,
            watched: BTreeMap::new(),
            queue: BTreeSet::new(),
            waiting: BTreeSet::new(),
            resumed: BTreeSet::new(),
            corrected: BTreeMap::new(),
            census: Census::default(),
            guard: Guard::new(policy),
        }
    }

    /// Watches a session, in place of an earlier one of that name. `at` is its last sign of life;
    /// for one in `register`, its admission; after a take-over, now.
    pub fn track(&mut self, watch: Watch<K>, at: Moment) {
        self.forget(&watch.who);
        let signs = Signs { state: watch.state, last: at, preparing: false };
        let mut watched = Watched {
            host: watch.host,
            epoch: watch.epoch,
            agents: watch.agents,
            signs,
            share: Share::default(),
            place: Place::Nowhere,
        };
        if matches!(watch.state, Liveness::Active | Liveness::Stale) {
            self.census.count(&mut watched.share, &watched.host, u64::from(watch.agents));
        }
        if let Some(next) = self.windows.next(signs, self.listening_since()) {
            watched.place = Place::Queued(next);
            self.queue.insert((next, watch.who.clone()));
        }
        self.watched.insert(watch.who, watched);
    }

    /// Watches it no longer.
    pub fn forget(&mut self, who: &K) {
        let Some(mut watched) = self.watched.remove(who) else { return };
        self.census.leave(&mut watched.share, &watched.host);
        self.resumed.remove(who);
        match watched.place {
            Place::Nowhere => {}
            Place::Queued(at) => drop(self.queue.remove(&(at, who.clone()))),
            Place::Waiting(at) => drop(self.waiting.remove(&(at, who.clone()))),
        }
    }

    /// Where it stands, as far as the sweeper has proposed it; none when it is not watched.
    #[must_use]
    pub fn state(&self, who: &K) -> Option<Liveness> {
        self.watched.get(who).map(|watched| watched.signs.state)
    }

    /// The epoch whose signs count; none when it is not watched.
    #[must_use]
    pub fn epoch(&self, who: &K) -> Option<u64> {
        self.watched.get(who).map(|watched| watched.epoch)
    }

    /// Its host says that it prepares the session: more time for the first heartbeat.
    pub fn prepares(&mut self, who: &K) {
        if let Some(watched) = self.watched.get_mut(who) {
            watched.signs.preparing = true;
        }
    }

    /// So many agents fall silent with it from now on ([`Watch::agents`]).
    pub fn weigh(&mut self, who: &K, agents: u32) {
        let Some(watched) = self.watched.get_mut(who) else { return };
        watched.agents = agents;
        if matches!(watched.signs.state, Liveness::Active | Liveness::Stale) {
            let silent = self.census.is_silent(&watched.share);
            self.census.count(&mut watched.share, &watched.host, u64::from(agents));
            if silent {
                self.census.silence(&mut watched.share, &watched.host);
            }
        }
    }

    /// Whether a sender that is superseded or unknown is to be told now: once in a window, however often
    /// it is heard of.
    pub fn corrects(&mut self, who: &K, now: Moment) -> bool {
        let window = self.windows.window();
        let lately = |told: &Moment| now.0.saturating_sub(told.0) < window.0;
        if self.corrected.get(who).is_some_and(lately) {
            return false;
        }
        if self.corrected.len() >= CORRECTED_MAX {
            self.corrected.retain(|_, told| lately(told));
        }
        let room = self.corrected.len() < CORRECTED_MAX;
        if room {
            self.corrected.insert(who.clone(), now);
        }
        room
    }

    /// A sign of life of a session, heard at `at`.
    pub fn observe(&mut self, who: &K, epoch: u64, at: Moment) -> Heard {
        let Some(watched) = self.watched.get_mut(who) else { return Heard::Unknown };
        let before = watched.signs.state;
        let Some(state) = before.heard(watched.epoch, epoch) else { return Heard::Superseded };
        watched.signs.last = watched.signs.last.max(at);
        if before == state && matches!(watched.place, Place::Queued(_)) {
            return Heard::Alive;
        }
        watched.signs.state = state;
        if before == Liveness::Register {
            self.census.count(&mut watched.share, &watched.host, u64::from(watched.agents));
        } else {
            self.census.hear(&mut watched.share, &watched.host);
        }
        if before != state {
            self.resumed.insert(who.clone());
        }
        self.requeue(who);
        Heard::Alive
    }

    /// The sweeper has heard its own canary without a gap from `since` to `until`: after a start
    /// or a reconnect both are now. What was silent before is forgiven.
    pub fn listening(&mut self, since: Moment, until: Moment) {
        self.hearing = Some(Hearing::new(since, until));
        self.forgive();
    }

    /// The sweeper's own canary came back at `at`. After more than half a window without it, it
    /// was deaf, and hears only since `at`.
    pub fn canary(&mut self, at: Moment) {
        let before = self.hearing;
        let after = before.map_or(Hearing::new(at, at), |hearing| hearing.canary(at, self.windows));
        self.hearing = Some(after);
        if before.is_none_or(|before| !after.goes_on_from(before)) {
            self.forgive();
        }
    }

    /// What has become true by `now`. A sweeper that has not heard its canary within half a
    /// window declares nobody.
    pub fn sweep(&mut self, now: Moment) -> Vec<Proposal<K>> {
        let mut proposals: Vec<Proposal<K>> = Vec::new();
        for who in mem::take(&mut self.resumed) {
            if let Some(watched) = self.watched.get(&who) {
                proposals.push(Proposal::Active { who, epoch: watched.epoch });
            }
        }
        if self.hearing.and_then(|hearing| hearing.since(now, self.windows)).is_none() {
            return proposals;
        }
        let mut overdue = self.expire(now);
        let held = self.guard.phase();
        let waiting = !self.waiting.is_empty() || !overdue.is_empty();
        if self.guard.look(&self.census, waiting, (now, self.windows.window())) {
            proposals.push(Proposal::MassSilence {
                silent: self.census.silent(),
                active: self.census.heard(),
                hosts: self.census.silent_hosts(),
            });
        }
        if matches!(held, Phase::Holding(_)) && matches!(self.guard.phase(), Phase::Limited(_)) {
            overdue.extend(mem::take(&mut self.waiting));
        }
        overdue.sort_unstable();
        for (last, who) in overdue {
            self.declare_or_wait(last, who, now, &mut proposals);
        }
        if matches!(self.guard.phase(), Phase::Limited(_)) {
            self.declare_in_turn(now, &mut proposals);
        }
        proposals
    }

    fn listening_since(&self) -> Moment {
        self.hearing.map_or(Moment(0), Hearing::begin)
    }

    /// Deafness ended: nobody is silent, and whoever was held back is watched as before.
    fn forgive(&mut self) {
        self.census.forgive();
        self.guard.calm_down();
        for (_, who) in mem::take(&mut self.waiting) {
            self.requeue(&who);
        }
    }

    /// Puts it into the queue at its next deadline.
    fn requeue(&mut self, who: &K) {
        let since = self.listening_since();
        let Some(watched) = self.watched.get_mut(who) else { return };
        match watched.place {
            Place::Nowhere => {}
            Place::Queued(at) => drop(self.queue.remove(&(at, who.clone()))),
            Place::Waiting(at) => drop(self.waiting.remove(&(at, who.clone()))),
        }
        watched.place = Place::Nowhere;
        if let Some(next) = self.windows.next(watched.signs, since) {
            watched.place = Place::Queued(next);
            self.queue.insert((next, who.clone()));
        }
    }

    /// Takes whoever is overdue out of the queue, and counts the silent.
    fn expire(&mut self, now: Moment) -> Vec<(Moment, K)> {
        let since = self.listening_since();
        let mut overdue = Vec::new();
        while let Some((at, who)) = self.queue.pop_first() {
            if at > now {
                self.queue.insert((at, who));
                break;
            }
            let Some(watched) = self.watched.get_mut(&who) else { continue };
            let silent = self.windows.missed(watched.signs.last, since, now) > 0;
            if silent && watched.signs.state != Liveness::Register {
                self.census.silence(&mut watched.share, &watched.host);
            }
            match self.windows.next(watched.signs, since) {
                Some(next) if next > now => {
                    watched.place = Place::Queued(next);
                    self.queue.insert((next, who));
                }
                Some(_) => {
                    watched.place = Place::Nowhere;
                    overdue.push((watched.signs.last, who));
                }
                None => watched.place = Place::Nowhere,
            }
        }
        overdue
    }

    /// Declares what the guard lets through; the rest waits.
    fn declare_or_wait(
        &mut self,
        last: Moment,
        who: K,
        now: Moment,
        proposals: &mut Vec<Proposal<K>>,
    ) {
        let since = self.listening_since();
        let Some(watched) = self.watched.get_mut(&who) else { return };
        let judged = self.windows.judge(watched.signs, since, now);
        let waits = match self.guard.phase() {
            Phase::Calm => false,
            Phase::Holding(_) => true,
            Phase::Limited(_) => judged == Liveness::Offline,
        };
        if !waits {
            self.declare(who, judged, now, proposals);
            return;
        }
        watched.place = Place::Waiting(last);
        let line = matches!(self.guard.phase(), Phase::Limited(_));
        if line && watched.signs.state == Liveness::Active {
            watched.signs.state = Liveness::Stale;
            let missed = self.windows.missed(last, since, now);
            proposals.push(Proposal::Stale { who: who.clone(), epoch: watched.epoch, missed });
        }
        self.waiting.insert((last, who));
    }

    /// Declares those who wait, oldest first, at the limited rate.
    fn declare_in_turn(&mut self, now: Moment, proposals: &mut Vec<Proposal<K>>) {
        self.guard.earn(now);
        while let Some((last, who)) = self.waiting.pop_first() {
            let agents = self.watched.get(&who).map_or(0, |watched| watched.agents);
            if !self.guard.spend(agents) {
                self.waiting.insert((last, who));
                return;
            }
            self.declare(who, Liveness::Offline, now, proposals);
        }
        self.guard.forgo();
    }

    fn declare(&mut self, who: K, state: Liveness, now: Moment, proposals: &mut Vec<Proposal<K>>) {
        let since = self.listening_since();
        let Some(watched) = self.watched.get_mut(&who) else { return };
        let missed = self.windows.missed(watched.signs.last, since, now);
        let epoch = watched.epoch;
        watched.place = Place::Nowhere;
        watched.signs.state = state;
        if state == Liveness::Offline {
            self.census.leave(&mut watched.share, &watched.host);
            proposals.push(Proposal::Offline { who, epoch, missed });
        } else {
            self.requeue(&who);
            proposals.push(Proposal::Stale { who, epoch, missed });
        }
    }
}
