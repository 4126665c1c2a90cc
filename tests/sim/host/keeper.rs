//! A host's hold on its lease, and what its guard makes of it: renewals every third of a window,
//! each of which may be late, lost, or stored without a word; its programs run until two windows
//! after the last acknowledged one was sent.

use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::limits::FREEZE_WINDOWS;
use tetrarch_core::time::{BusTime, Millis};

use tetrarch_tests::simulated::{Acquired, Leases, Renewed};

use crate::wire::Reach;
use crate::world::WINDOW;

/// Renewals in one window.
const RENEWALS: u64 = 3;
/// The longest that a message is on its way, in milliseconds.
const LATE_MAX: usize = 120;

/// What a host tells with a renewal.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    pub(crate) host: HostName,
    pub(crate) rows: Vec<(AgentId, u64)>,
    /// Sessions with their epochs, and how often their programs were heard of.
    pub(crate) progress: Vec<(AgentId, u64, u64)>,
    pub(crate) load: u32,
}

/// A renewal that was sent and not answered.
#[derive(Debug)]
struct Flight {
    sent: BusTime,
    arrives: Option<BusTime>,
    told: Renewal,
    answer: Option<(BusTime, Renewed)>,
}

/// One life's hold on its host's lease.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) epoch: u64,
    seq: u64,
    /// When the last acknowledged renewal was sent.
    renewed: BusTime,
    beat: BusTime,
    beats: usize,
    flight: Option<Flight>,
}

/// What came of a beat.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The lease is held, as far as is known.
    Held,
    /// The programs run on after they were frozen.
    Thawed,
    /// It is another's, or nobody's.
    Lost,
}

impl Keeper {
    /// Takes the lease, as each life of one installation does.
    pub(crate) fn take(host: &HostName, reach: &mut Reach<'_>) -> Self {
        let (now, through) = (reach.now, reach.view().leases);
        let key = AgentId::Ho(host.clone());
        let Acquired::Ours { epoch, seq } =
            reach.leases.acquire(&key, host.as_str(), 0, now, through)
        else {
            unreachable!("nobody else asks for the lease of {host}");
        };
        Self { epoch, seq, renewed: now, beat: now, beats: 0, flight: None }
    }

    /// Whether the guard holds everything still.
    pub(crate) fn is_frozen(&self, now: BusTime) -> bool {
        now >= self.renewed + Millis(u64::from(FREEZE_WINDOWS) * WINDOW.0)
    }

    /// When something is due.
    pub(crate) fn next(&self) -> BusTime {
        let flight = self.flight.as_ref();
        let arrives = flight.and_then(|flight| flight.arrives);
        let answer = flight.and_then(|flight| flight.answer).map(|(at, _)| at);
        self.beat.min(arrives.unwrap_or(self.beat)).min(answer.unwrap_or(self.beat))
    }

    /// Gives the lease back.
    pub(crate) fn release(&self, leases: &mut Leases, host: &HostName) {
        // Whoever does not hold it any more has nothing to give back.
        let _held = leases.clear(&AgentId::Ho(host.clone()), self.seq);
    }

    /// A renewal arrives at the bus, which tells whoever listens. `reached`: the bus can be.
    pub(crate) fn arrive(&mut self, reached: bool, reach: &mut Reach<'_>) -> Option<Renewal> {
        let now = reach.now;
        let flight = self.flight.as_mut().filter(|f| f.arrives.is_some_and(|at| at <= now))?;
        flight.arrives = None;
        if !reached {
            return None;
        }
        let host = &flight.told.host;
        if reach.electing && reach.dice.percent(50) {
            reach.tally.note("renewal lost with a leader");
            // It is heard all the same.
            return Some(flight.told.clone());
        }
        let (key, through) = (AgentId::Ho(host.clone()), reach.view().leases);
        let holder = (host.as_str(), self.epoch);
        let outcome = reach.leases.renew(&key, holder, self.seq, now, through);
        let unanswered = reach.electing || (reach.faulty && reach.dice.percent(reach.unheard));
        if unanswered {
            reach.tally.note("renewal not answered");
        } else {
            flight.answer = Some((now + late(reach), outcome));
        }
        matches!(outcome, Renewed::Stored(_)).then(|| flight.told.clone())
    }

    /// Reads the answer that came, and renews when it is time. The host's process does it.
    /// `reached`: the bus can be.
    pub(crate) fn keep(
        &mut self,
        reached: bool,
        told: impl FnOnce(usize) -> Renewal,
        reach: &mut Reach<'_>,
    ) -> Kept {
        let now = reach.now;
        let mut kept = Kept::Held;
        let mut again = false;
        let answer = self.flight.as_ref().and_then(|flight| Some((flight.sent, flight.answer?)));
        if let Some((sent, (at, outcome))) = answer
            && at <= now
            && reached
        {
            self.flight = None;
            match outcome {
                Renewed::Stored(seq) => {
                    let frozen = self.is_frozen(now);
                    (self.seq, self.renewed) = (seq, sent);
                    if frozen && !self.is_frozen(now) {
                        kept = Kept::Thawed;
                    }
                }
                Renewed::Own(seq) => {
                    reach.tally.note("renewal found its own before it");
                    self.seq = seq;
                    again = true;
                }
                Renewed::Unknown => reach.tally.note("renewal refused, nobody knows by whom"),
                Renewed::Lost => return Kept::Lost,
            }
        }
        let given_up = self.flight.as_ref().is_some_and(|flight| now - flight.sent >= WINDOW);
        if given_up {
            self.flight = None;
        }
        if (again || self.beat <= now) && self.flight.is_none() {
            let arrives = Some(now + late(reach));
            let told = told(self.beats);
            self.flight = Some(Flight { sent: now, arrives, told, answer: None });
            self.beats += 1;
        }
        if self.beat <= now {
            self.beat = now + Millis(WINDOW.0 / RENEWALS);
        }
        kept
    }
}

fn late(reach: &mut Reach<'_>) -> Millis {
    let most = if reach.faulty { LATE_MAX } else { LATE_MAX / 10 };
    Millis(reach.dice.below(most) as u64)
}
