//! What becomes of the lease of a host that fell silent (spec 04, Hosts). Renewals are only heard
//! of, and a word may be lost; so a lease that changed since it was looked at is a sign of life.
//! One that did not is taken at exactly the revision it has had all that time, and only when that
//! time is longer than what the host ran may run without a renewal. One that nobody held is taken
//! just so: a read may be answered by a replica that lags behind, and only a write at a revision
//! proves what was read. It takes nothing itself.

use std::collections::BTreeMap;

use super::Windows;
use crate::id::HostName;
use crate::limits::FREEZE_WINDOWS;
use crate::time::{Millis, Moment};

/// The part of a window in which programs are frozen and word of it is not needed any more: one
/// in so many.
const MARGIN_PART: u64 = 20;

/// A host's lease as a read found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseLook {
    /// The revision of the key; 0 when it was never written.
    pub seq: u64,
    /// Whether somebody holds it.
    pub held: bool,
}

/// What is to be done next about a silent host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// Nothing yet.
    Wait,
    /// Look at its lease, after this time.
    Look(Millis),
    /// Take its lease, held or not, if it still has this revision.
    Revoke(u64),
    /// It is lost: nobody holds its lease, and what it ran does not run any more.
    Lost {
        /// The epoch of its record that fell silent.
        epoch: u64,
        /// Whole windows missed.
        missed: u64,
    },
    /// It lives, or that cannot be found out: it has another three windows.
    Alive {
        /// The epoch of its record.
        epoch: u64,
    },
}

#[derive(Debug, Clone)]
struct Silent {
    epoch: u64,
    /// The lease as it has been since then.
    seen: Option<(LeaseLook, Moment)>,
    /// Windows missed, once they are too many.
    missed: Option<u64>,
}

/// Silent hosts, and what is known of their leases.
#[derive(Debug, Clone)]
pub struct Takings {
    patience: Millis,
    silent: BTreeMap<HostName, Silent>,
}

impl Takings {
    /// Knows of no silent host.
    #[must_use]
    pub fn new(windows: Windows) -> Self {
        let window = windows.window().0;
        let patience =
            Millis(window.saturating_mul(u64::from(FREEZE_WINDOWS)) + window.div_ceil(MARGIN_PART));
        Self { patience, silent: BTreeMap::new() }
    }

    /// Hosts whose lease is to be taken.
    pub fn declared(&self) -> impl Iterator<Item = &HostName> {
        self.silent.iter().filter(|(_, it)| it.missed.is_some()).map(|(host, _)| host)
    }

    /// A host missed a window: its lease is to be remembered as it is.
    pub fn begun(&mut self, host: &HostName, epoch: u64) -> Taking {
        let known = self.silent.get(host).is_some_and(|silent| silent.epoch == epoch);
        if known {
            return Taking::Wait;
        }
        self.silent.insert(host.clone(), Silent { epoch, seen: None, missed: None });
        Taking::Look(Millis(0))
    }

    /// A host was heard of again: what was seen before counts no more.
    pub fn broken(&mut self, host: &HostName) {
        self.silent.remove(host);
    }

    /// A host missed too many windows: its lease is to be taken.
    pub fn long(&mut self, host: &HostName, epoch: u64, missed: u64, now: Moment) -> Taking {
        let look = self.begun(host, epoch);
        let Some(silent) = self.silent.get_mut(host) else { return look };
        silent.missed = Some(missed);
        let since = silent.seen.map(|(_, since)| since);
        Taking::Look(since.map_or(Millis(0), |since| rest(self.patience, since, now)))
    }

    /// What a look at a lease found, known at `now`; none when it could not be read.
    pub fn looked(&mut self, host: &HostName, found: Option<LeaseLook>, now: Moment) -> Taking {
        let Some(silent) = self.silent.get_mut(host) else { return Taking::Wait };
        let Some(found) = found else {
            return if silent.missed.is_some() { self.alive(host) } else { Taking::Wait };
        };
        let before = silent.seen.filter(|(before, _)| before.seq == found.seq);
        let moved = silent.seen.is_some() && before.is_none();
        let (_, since) = *silent.seen.insert(before.unwrap_or((found, now)));
        if silent.missed.is_none() {
            return Taking::Wait;
        }
        if moved && found.held {
            return self.alive(host);
        }
        let rest = rest(self.patience, since, now);
        if rest > Millis(0) { Taking::Look(rest) } else { Taking::Revoke(found.seq) }
    }

    /// Whether a lease could be taken at the revision it was seen at.
    pub fn revoked(&mut self, host: &HostName, taken: bool) -> Taking {
        let known = self.silent.get(host).filter(|_| taken);
        let Some(&Silent { epoch, missed: Some(missed), .. }) = known else {
            return self.alive(host);
        };
        self.silent.remove(host);
        Taking::Lost { epoch, missed }
    }

    fn alive(&mut self, host: &HostName) -> Taking {
        let silent = self.silent.remove(host);
        silent.map_or(Taking::Wait, |Silent { epoch, .. }| Taking::Alive { epoch })
    }
}

fn rest(patience: Millis, since: Moment, now: Moment) -> Millis {
    (since + patience) - now
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u64 = 1_000;
    const PATIENCE: u64 = 2 * W + W / 20;

    fn host() -> HostName {
        HostName::new("h1").unwrap()
    }

    fn takings() -> Takings {
        Takings::new(Windows::new(Millis(W)).unwrap())
    }

    fn held(seq: u64) -> Option<LeaseLook> {
        Some(LeaseLook { seq, held: true })
    }

    fn free(seq: u64) -> Option<LeaseLook> {
        Some(LeaseLook { seq, held: false })
    }

    #[test]
    fn unrenewed_lease_is_taken_when_its_programs_must_be_dead() {
        let mut takings = takings();
        assert_eq!(takings.begun(&host(), 4), Taking::Look(Millis(0)));
        assert_eq!(takings.begun(&host(), 4), Taking::Wait);
        assert_eq!(takings.looked(&host(), held(7), Moment(W)), Taking::Wait);
        assert_eq!(takings.long(&host(), 4, 3, Moment(3 * W)), Taking::Look(Millis(W / 20)));
        let early = takings.looked(&host(), held(7), Moment(W + PATIENCE - 1));
        assert_eq!(early, Taking::Look(Millis(1)));
        assert_eq!(takings.looked(&host(), held(7), Moment(W + PATIENCE)), Taking::Revoke(7));
        assert_eq!(takings.revoked(&host(), true), Taking::Lost { epoch: 4, missed: 3 });
        assert_eq!(takings.revoked(&host(), true), Taking::Wait, "it is said once");
    }

    #[test]
    fn lease_not_read_in_time_gets_the_run_on_period() {
        let mut takings = takings();
        assert_eq!(takings.long(&host(), 4, 3, Moment(3 * W)), Taking::Look(Millis(0)));
        let first = takings.looked(&host(), held(7), Moment(3 * W));
        assert_eq!(first, Taking::Look(Millis(PATIENCE)));
        let second = takings.looked(&host(), held(7), Moment(3 * W + PATIENCE));
        assert_eq!(second, Taking::Revoke(7));
    }

    #[test]
    fn renewed_or_unreadable_lease_is_a_sign_of_life() {
        let alive = Taking::Alive { epoch: 4 };
        let mut takings = takings();
        let silent = |takings: &mut Takings| {
            takings.begun(&host(), 4);
            takings.looked(&host(), held(7), Moment(W));
            takings.long(&host(), 4, 3, Moment(9 * W))
        };
        assert_eq!(silent(&mut takings), Taking::Look(Millis(0)));
        assert_eq!(takings.looked(&host(), held(8), Moment(9 * W)), alive);
        silent(&mut takings);
        assert_eq!(takings.looked(&host(), None, Moment(9 * W)), alive);
        silent(&mut takings);
        assert_eq!(takings.looked(&host(), held(7), Moment(9 * W)), Taking::Revoke(7));
        assert_eq!(takings.revoked(&host(), false), alive);
        silent(&mut takings);
        takings.broken(&host());
        assert_eq!(takings.looked(&host(), held(7), Moment(9 * W)), Taking::Wait);
    }

    #[test]
    fn lease_taken_by_another_is_waited_for_as_long() {
        let mut takings = takings();
        takings.begun(&host(), 4);
        takings.looked(&host(), held(7), Moment(W));
        takings.long(&host(), 4, 3, Moment(9 * W));
        let taken = takings.looked(&host(), free(8), Moment(9 * W));
        assert_eq!(taken, Taking::Look(Millis(PATIENCE)));
        let again = takings.looked(&host(), free(8), Moment(9 * W + PATIENCE));
        assert_eq!(again, Taking::Revoke(8));
        assert_eq!(takings.revoked(&host(), true), Taking::Lost { epoch: 4, missed: 3 });
    }

    #[test]
    fn free_lease_is_proved_by_a_write() {
        let mut takings = takings();
        let never = free(0);
        takings.begun(&host(), 4);
        takings.looked(&host(), never, Moment(W));
        assert_eq!(takings.long(&host(), 4, 3, Moment(9 * W)), Taking::Look(Millis(0)));
        assert_eq!(takings.looked(&host(), never, Moment(9 * W)), Taking::Revoke(0));
        let alive = Taking::Alive { epoch: 4 };
        assert_eq!(takings.revoked(&host(), false), alive, "a replica lagged behind");
    }

    #[test]
    fn new_epoch_starts_a_new_silence() {
        let mut takings = takings();
        takings.begun(&host(), 4);
        takings.looked(&host(), held(7), Moment(W));
        assert_eq!(takings.begun(&host(), 5), Taking::Look(Millis(0)));
        assert_eq!(takings.looked(&host(), held(7), Moment(9 * W)), Taking::Wait);
        assert_eq!(takings.long(&host(), 5, 3, Moment(9 * W)), Taking::Look(Millis(PATIENCE)));
    }
}
