//! The mass-failure guard (spec 04): much silence at once is held back for one window, and
//! declared at a limited rate after that. It counts and waits; whom it concerns is not its
//! business.

use crate::limits::{
    MASS_AGENTS_MIN, MASS_HOSTS_MIN, MASS_SHARE, OFFLINE_WINDOWS, REPLACEMENTS_PER_SECOND,
    STALE_WINDOWS,
};
use crate::sweep::census::Census;
use crate::time::{Millis, Moment};

/// What replacing one agent costs, so that a millisecond of the rate is a whole number.
const COST: i64 = 1_000;

/// When silence is a mass failure, and how fast it is declared afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MassPolicy {
    /// The share of active agents, in thousandths, that more than this have to be silent.
    pub share: u32,
    /// Agents declared offline in a second after the window of waiting.
    pub per_second: u32,
}

impl Default for MassPolicy {
    fn default() -> Self {
        Self { share: MASS_SHARE, per_second: REPLACEMENTS_PER_SECOND }
    }
}

/// Where the guard stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// What is silent is declared at once.
    Calm,
    /// Nothing is declared until then.
    Holding(Moment),
    /// Declared at the limited rate, at least until then: by that moment whoever was silent when
    /// the waiting ended is declared, waits for its turn, or was heard again.
    Limited(Moment),
}

#[derive(Debug, Clone)]
pub(super) struct Guard {
    policy: MassPolicy,
    phase: Phase,
    /// What may be spent on declaring, in `COST`s; below zero after somebody who stands for many.
    credit: i64,
    paid_until: Moment,
}

impl Guard {
    pub(super) fn new(policy: MassPolicy) -> Self {
        Self { policy, phase: Phase::Calm, credit: 0, paid_until: Moment(0) }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn calm_down(&mut self) {
        self.phase = Phase::Calm;
        self.credit = 0;
    }

    /// Looks at the census before anything is declared; `waiting` says whether somebody was held
    /// back. True when this is the moment to raise the alert.
    pub(super) fn look(
        &mut self,
        census: &Census,
        waiting: bool,
        (now, window): (Moment, Millis),
    ) -> bool {
        let mass = self.is_mass(census);
        match self.phase {
            Phase::Calm if mass => {
                self.phase = Phase::Holding(now + window);
                return true;
            }
            Phase::Holding(until) if now >= until && !mass && !waiting => self.calm_down(),
            Phase::Holding(until) if now >= until => {
                let rest = Millis(window.0.saturating_mul(OFFLINE_WINDOWS - STALE_WINDOWS));
                self.phase = Phase::Limited(until + rest);
                self.credit = 0;
                self.paid_until = until;
            }
            Phase::Limited(until) if now >= until && !mass && !waiting => self.calm_down(),
            Phase::Calm | Phase::Holding(_) | Phase::Limited(_) => {}
        }
        false
    }

    /// Adds what the time since the last time is worth, at most one second.
    pub(super) fn earn(&mut self, now: Moment) {
        let time = (now - self.paid_until).min(Millis::from_secs(1));
        let earned = time.0.saturating_mul(u64::from(self.policy.per_second));
        self.credit = self.credit.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        self.paid_until = self.paid_until.max(now);
    }

    /// Whether one more may be declared, who stands for so many agents.
    pub(super) fn spend(&mut self, agents: u32) -> bool {
        let allowed = self.credit >= COST;
        if allowed {
            self.credit = self.credit.saturating_sub(COST.saturating_mul(i64::from(agents.max(1))));
        }
        allowed
    }

    /// What was not needed is not saved up for a burst.
    pub(super) fn forgo(&mut self) {
        self.credit = self.credit.min(COST - 1);
    }

    fn is_mass(&self, census: &Census) -> bool {
        let (silent, heard) = (u128::from(census.silent()), u128::from(census.heard()));
        census.heard() >= MASS_AGENTS_MIN
            && census.silent_hosts() >= MASS_HOSTS_MIN
            && silent * 1_000 > heard * u128::from(self.policy.share)
    }
}
