//! The sweeper alone: a million external agents that send three heartbeats a window, on one core
//! and without a bus. Its floor is a bare ordered map in which the same times are written, and a
//! walk over all of it for a sweep.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use tetrarch_core::id::{AgentId, HostName, Ulid};
use tetrarch_core::limits::WINDOW;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::sweep::{MassPolicy, Proposal, Sweeper, Watch, Windows};
use tetrarch_core::time::Moment;

use crate::Effort;
use crate::table::{Aim, Line, Unit};

const AGENTS: usize = 1_000_000;
const HOSTS: usize = 1_000;
/// Heartbeats of one agent in one window, and canaries of the sweeper (spec 04).
const HEARTBEATS: u64 = 3;
/// Sweeps in one window.
const SWEEPS: u64 = 30;
/// Goes through all agents in an order that is not that of their names.
const STRIDE: usize = 618_033;
/// Heartbeats in one second on one core (spec 10).
const RATE: f64 = 200_000.0;

/// Measures heartbeats with their sweeps, the sweeps alone, and the sweep in which all are silent.
pub(crate) fn measure(effort: Effort) -> Vec<Line> {
    let agents = if effort.rounds == 1 { 10_000 } else { AGENTS };
    let mut beats = Line::new(
        &format!("sweeper, heartbeats of {agents} agents, with sweeps"),
        Unit::PerSecond,
        Aim::PerSecond(RATE),
    );
    let mut sweeps = Line::new("sweeper, the 30 sweeps of a window", Unit::Micros, Aim::None);
    let mut silence =
        Line::new("sweeper, the sweep that finds all silent", Unit::Micros, Aim::None);
    let names: Vec<AgentId> = (0..agents).map(name).collect();
    let mut bare: BTreeMap<AgentId, u64> = names.iter().map(|name| (name.clone(), 0)).collect();
    for _ in 0..effort.rounds {
        let mut crowd = Crowd::new(&names);
        crowd.window();
        let before = crowd.sweeping;
        let started = Instant::now();
        crowd.window();
        let whole = started.elapsed().as_secs_f64();
        let swept = crowd.sweeping - before;
        let found = crowd.fall_silent();
        #[expect(clippy::cast_precision_loss, reason = "a few millions")]
        let count = (agents as u64 * HEARTBEATS) as f64;
        beats.push(count / whole, count / written(&names, &mut bare));
        sweeps.push(swept * 1e6, walked(&bare) * 1e6 * 30.0);
        silence.push(found * 1e6, walked(&bare) * 1e6);
    }
    vec![beats, sweeps, silence]
}

fn name(index: usize) -> AgentId {
    AgentId::Worker(Ulid::from_parts(index as u64, index as u128))
}

fn written(names: &[AgentId], bare: &mut BTreeMap<AgentId, u64>) -> f64 {
    let started = Instant::now();
    for beat in 0..HEARTBEATS {
        for index in 0..names.len() {
            if let Some(last) = bare.get_mut(&names[index * STRIDE % names.len()]) {
                *last = (*last).max(beat);
            }
        }
    }
    started.elapsed().as_secs_f64()
}

fn walked(bare: &BTreeMap<AgentId, u64>) -> f64 {
    let started = Instant::now();
    black_box(bare.values().filter(|last| **last > black_box(HEARTBEATS)).count());
    started.elapsed().as_secs_f64()
}

/// Agents under a sweeper, and the time that has passed for them.
struct Crowd<'a> {
    names: &'a [AgentId],
    sweeper: Sweeper<AgentId>,
    now: u64,
    /// Spent in sweeps, in seconds.
    sweeping: f64,
}

impl<'a> Crowd<'a> {
    fn new(names: &'a [AgentId]) -> Self {
        let mut sweeper = Sweeper::new(Windows::new(WINDOW).unwrap(), MassPolicy::default());
        sweeper.listening(Moment(0), Moment(0));
        for (index, who) in names.iter().enumerate() {
            let host = HostName::new(&format!("h{}", index % HOSTS)).unwrap();
            let state = Liveness::Active;
            let watch = Watch { who: who.clone(), host, epoch: 1, state, agents: 1 };
            sweeper.track(watch, Moment(0));
        }
        Self { names, sweeper, now: 0, sweeping: 0.0 }
    }

    /// One window in which every agent is heard three times.
    fn window(&mut self) {
        let each = self.names.len() / usize::try_from(SWEEPS / HEARTBEATS).unwrap();
        for sweep in 0..SWEEPS {
            let first = usize::try_from(sweep % (SWEEPS / HEARTBEATS)).unwrap() * each;
            for index in first..first + each {
                let who = &self.names[index * STRIDE % self.names.len()];
                self.sweeper.observe(who, 1, Moment(self.now));
            }
            let proposals = self.pass(WINDOW.0 / SWEEPS);
            assert_eq!(proposals, [], "nobody is silent");
        }
    }

    /// Seconds that the sweep takes in which everybody has missed a window.
    fn fall_silent(&mut self) -> f64 {
        let end = self.now + WINDOW.0;
        while self.now < end {
            self.now += WINDOW.0 / SWEEPS;
            self.sweeper.canary(Moment(self.now));
        }
        let before = self.sweeping;
        let proposals = self.pass(0);
        assert!(matches!(proposals[..], [Proposal::MassSilence { .. }]), "the guard holds");
        self.sweeping - before
    }

    fn pass(&mut self, time: u64) -> Vec<Proposal<AgentId>> {
        self.now += time;
        self.sweeper.canary(Moment(self.now));
        let started = Instant::now();
        let proposals = self.sweeper.sweep(Moment(self.now));
        self.sweeping += started.elapsed().as_secs_f64();
        proposals
    }
}
