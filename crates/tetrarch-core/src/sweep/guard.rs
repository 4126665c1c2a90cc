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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::HostName;
    use crate::sweep::census::Share;

    const WINDOW: Millis = Millis(1_000);

    /// Hosts of ten agents each, so many of them silent.
    fn census(hosts: u64, silent: u64) -> Census {
        let mut census = Census::default();
        for number in 0..hosts {
            let host = HostName::new(&format!("h{number}")).unwrap();
            let mut share = Share::default();
            census.count(&mut share, &host, 10);
            if number < silent {
                census.silence(&mut share, &host);
            }
        }
        census
    }

    fn at(phase: Phase) -> Guard {
        Guard { phase, ..Guard::new(MassPolicy::default()) }
    }

    /// The phase after a look at this moment.
    fn after(phase: Phase, mass: bool, waiting: bool, now: u64) -> Phase {
        let mut guard = at(phase);
        let seen = if mass { census(4, 4) } else { census(4, 0) };
        guard.look(&seen, waiting, (Moment(now), WINDOW));
        guard.phase()
    }

    #[test]
    fn calm_returns_only_when_nobody_is_silent_or_waiting() {
        let holding = Phase::Holding(Moment(5_000));
        assert_eq!(after(holding, false, false, 4_999), holding);
        assert_eq!(after(holding, true, true, 4_999), holding);
        assert_eq!(after(holding, false, false, 5_000), Phase::Calm);
        let rest = WINDOW.0 * (OFFLINE_WINDOWS - STALE_WINDOWS);
        let limited = Phase::Limited(Moment(5_000 + rest));
        for (mass, waiting) in [(true, false), (false, true), (true, true)] {
            assert_eq!(after(holding, mass, waiting, 5_000), limited, "{mass} {waiting}");
        }
    }

    #[test]
    fn rate_is_limited_until_nobody_is_silent_or_waiting() {
        let limited = Phase::Limited(Moment(7_000));
        assert_eq!(after(limited, false, false, 6_999), limited);
        assert_eq!(after(limited, false, false, 7_000), Phase::Calm);
        for (mass, waiting) in [(true, false), (false, true), (true, true)] {
            assert_eq!(after(limited, mass, waiting, 7_000), limited, "{mass} {waiting}");
        }
    }

    #[test]
    fn only_a_calm_guard_raises_the_alert() {
        let (mass, calm) = (census(4, 4), census(4, 0));
        let time = (Moment(1_000), WINDOW);
        assert!(!at(Phase::Calm).look(&calm, true, time));
        let mut guard = at(Phase::Calm);
        assert!(guard.look(&mass, false, time));
        assert_eq!(guard.phase(), Phase::Holding(Moment(2_000)));
        assert!(!guard.look(&mass, false, (Moment(2_000), WINDOW)));
        assert!(!guard.look(&mass, false, (Moment(9_000), WINDOW)));
    }

    #[test]
    fn mass_failure_needs_the_share_on_two_hosts_of_ten_agents() {
        let policy = |share| Guard::new(MassPolicy { share, per_second: 50 });
        assert!(!policy(500).is_mass(&census(4, 2)), "exactly the share");
        assert!(policy(499).is_mass(&census(4, 2)));
        assert!(!policy(100).is_mass(&census(4, 1)), "on one host");
        assert!(policy(999).is_mass(&census(2, 2)));
        assert!(!policy(0).is_mass(&Census::default()));
    }

    #[test]
    fn credit_grows_at_the_rate_up_to_one_second() {
        let earned = |paid_until, now| {
            let mut guard = Guard { paid_until: Moment(paid_until), ..at(Phase::Calm) };
            guard.earn(Moment(now));
            (guard.credit, guard.paid_until)
        };
        assert_eq!(earned(1_000, 1_000), (0, Moment(1_000)));
        assert_eq!(earned(1_000, 1_020), (COST, Moment(1_020)), "one in a fiftieth");
        assert_eq!(earned(1_000, 2_000), (50 * COST, Moment(2_000)));
        assert_eq!(earned(1_000, 9_000), (50 * COST, Moment(9_000)));
        assert_eq!(earned(2_000, 1_000), (0, Moment(2_000)), "no time runs backwards");
    }

    #[test]
    fn declaring_a_large_host_is_paid_afterwards() {
        let spent = |credit, agents| {
            let mut guard = Guard { credit, ..at(Phase::Calm) };
            (guard.spend(agents), guard.credit)
        };
        assert_eq!(spent(COST - 1, 1), (false, COST - 1));
        assert_eq!(spent(COST, 1), (true, 0));
        assert_eq!(spent(COST, 0), (true, 0), "a host without agents costs one");
        assert_eq!(spent(COST, 7), (true, -6 * COST));
        let mut guard = Guard { credit: 5 * COST, ..at(Phase::Limited(Moment(0))) };
        guard.forgo();
        assert_eq!(guard.credit, COST - 1);
        guard.calm_down();
        assert_eq!((guard.credit, guard.phase()), (0, Phase::Calm));
    }
}
