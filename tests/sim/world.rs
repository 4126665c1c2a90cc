//! The world of one seed: everything that runs, one thing at a time, in an order that chance
//! decides; faults first, then quiet, in which everything has to settle.

mod arrivals;
mod clockwork;
mod faults;
mod look;
mod memory;
mod overseen;
mod replicas;
mod settle;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::intensity::Intensity;
use tetrarch_core::records::Records;
use tetrarch_core::restart::Memory;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_tests::simulated::Leases;

use crate::bug::Bug;
use crate::bus::{Bus, View};
use crate::dice::Dice;
use crate::host::Host;
use crate::owner::{Owner, Stop, Way};
use crate::people::People;
use crate::rules::{self, Rules};
use crate::seat::{Seat, Turn};
use crate::tally::Tally;
use crate::wire::{Reach, Sending, Watch};

use faults::Faults;

/// The liveness window of every seed.
pub(crate) const WINDOW: Millis = Millis(600);
/// Steps with faults.
const STORMY: usize = 500;
/// Hosts of a seed that has many.
const CROWD: usize = 12;
/// Steps in which everything has to settle after that.
const QUIET_MAX: usize = 40_000;
/// The same for a seed with a planted bug, of which many settle never.
const QUIET_PLANTED_MAX: usize = 6_000;
/// Messages on their way, at most: senders wait then.
const WIRES_MAX: usize = 400;

/// What is told of an owner that the amnesia guard stopped.
const STOPPED: &str = "owner stopped: the ledger lost its memory";
/// Commits after which an owner's records are compared with a replay: it is much to compare.
const COMPARED_EVERY: usize = 7;

/// Something that can happen next.
#[derive(Debug, Clone)]
enum Act {
    Deliver,
    Decide(usize),
    Commit(usize),
    Publish(usize),
    HostReads(Which),
    AgentReads(Which, AgentId),
    ProgramRuns(Which, AgentId),
    ProjectTurns(Which, AgentId, Turn),
    People,
}

/// A present host, or a paused one that came back as a zombie.
#[derive(Debug, Clone, Copy)]
enum Which {
    Host(usize),
    Zombie(usize),
}

/// The world.
pub(crate) struct World {
    dice: Dice,
    now: BusTime,
    bus: Bus,
    owners: Vec<Owner>,
    owner_epochs: u64,
    hosts: Vec<Host>,
    zombies: Vec<Host>,
    lives: u64,
    /// Hosts whose process died; their guards and programs are still there.
    orphans: Vec<Host>,
    leases: Leases,
    /// Nobody reaches the bus until then.
    outage: BusTime,
    /// Nobody leads the streams until then.
    election: BusTime,
    /// What a replica shows, which does not catch up until then.
    replica: View,
    lag: BusTime,
    /// What the owner's data directory remembers of the ledger.
    kept: Memory,
    /// The step at which the bus forgets, in some seeds, and how much it knew after that.
    forgets: Option<usize>,
    shrunk: Option<usize>,
    rules: Rules,
    /// When the last fault was over.
    calmed: BusTime,
    /// What the operators of this seed bear.
    intensity: Intensity,
    wires: Vec<Sending>,
    people: People,
    faults: Faults,
    bug: Option<Bug>,
    watch: Watch,
    /// What the ledger says, folded and looked at entry by entry.
    truth: Records,
    looked_at: usize,
    tally: Tally,
    history: String,
}

/// What came of a seed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Every step, to compare two runs by.
    pub(crate) history: String,
    /// What was broken first, when something was.
    pub(crate) broken: Option<String>,
}

/// Runs a seed from its first step to its last.
pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Outcome {
    let mut world = World::new(seed, bug);
    let broken = world.live().err();
    Outcome { tally: world.tally, history: world.history, broken }
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = Dice::new(seed);
        let faults = Faults::by_chance(&mut dice, bug);
        let goals = dice.range(1, 2);
        let mut rules = rules::by_chance(&mut dice, bug);
        let intensity = rules.policy.intensity;
        if bug == Some(Bug::Tireless) {
            rules.policy.intensity.max = u32::MAX;
        }
        let forgets = dice.percent(10) || bug == Some(Bug::AmnesiaUnnoticed);
        let forgets = forgets.then(|| dice.range(STORMY / 3, STORMY - STORMY / 8));
        let crowd = dice.percent(10) || bug == Some(Bug::MassUnguarded);
        let mut world = Self {
            dice,
            now: BusTime(1_700_000_000_000),
            bus: Bus::new(bug),
            owners: Vec::new(),
            owner_epochs: 0,
            hosts: Vec::new(),
            zombies: Vec::new(),
            lives: 0,
            orphans: Vec::new(),
            leases: Leases::default(),
            outage: BusTime::default(),
            election: BusTime::default(),
            replica: View::default(),
            lag: BusTime::default(),
            kept: Memory::default(),
            forgets,
            shrunk: None,
            calmed: BusTime(u64::MAX),
            intensity,
            rules,
            wires: Vec::new(),
            people: People::new(goals),
            faults,
            bug,
            watch: Watch::default(),
            truth: Records::default(),
            looked_at: 0,
            tally: Tally::default(),
            history: String::new(),
        };
        world.start_owner();
        let hosts = if crowd { CROWD } else { world.dice.range(2, 3) };
        for at in 1..=hosts {
            world.start_host(&HostName::new(&format!("h{at}")).expect("it is a name"));
        }
        world
    }

    /// Starts one, unless it does not know the ledger again.
    fn start_owner(&mut self) {
        self.owner_epochs += 1;
        let (rules, sight) = (self.rules.clone(), self.sight());
        match Owner::start(&self.bus, self.owner_epochs, rules, &sight, self.now) {
            Ok(owner) => {
                self.owners.push(owner);
                self.note_lag(self.owners.len() - 1);
            }
            Err(Stop::Amnesia(_)) => self.tally.note(STOPPED),
            Err(Stop::Deposed) => self.tally.note("owner deposed"),
        }
    }

    fn start_host(&mut self, name: &HostName) {
        self.lives += 1;
        // It ends what its machine's earlier lives left before it does anything else.
        self.orphans.retain(|orphan| orphan.name != *name);
        let (life, capacity) = (self.lives, [4, 8, 16][self.dice.below(3)]);
        let host = Host::start(name, life, capacity, &mut self.reach());
        self.hosts.push(host);
    }

    fn reach(&mut self) -> Reach<'_> {
        Reach {
            bus: &mut self.bus,
            leases: &mut self.leases,
            wires: &mut self.wires,
            dice: &mut self.dice,
            tally: &mut self.tally,
            watch: &mut self.watch,
            truth: &self.truth,
            history: &mut self.history,
            now: self.now,
            faulty: self.faults.on,
            unheard: self.faults.unacknowledged,
            replica: self.replica,
            stale: self.faults.stale,
            spurious: self.faults.spurious,
            unanswered: self.faults.unanswered,
            electing: self.election > self.now,
        }
    }

    /// A host with what it can reach.
    fn with_host<T>(
        &mut self,
        which: Which,
        act: impl FnOnce(&mut Host, &mut Reach<'_>) -> T,
    ) -> Option<T> {
        let mut hosts = std::mem::take(&mut self.hosts);
        let mut zombies = std::mem::take(&mut self.zombies);
        let host = match which {
            Which::Host(at) => hosts.get_mut(at),
            Which::Zombie(at) => zombies.get_mut(at),
        };
        let done = host.map(|host| {
            let done = act(host, &mut self.reach());
            host.tidy();
            done
        });
        self.hosts = hosts;
        self.zombies = zombies;
        done
    }

    fn live(&mut self) -> Result<(), String> {
        for at in 0..STORMY {
            self.break_something();
            if self.forgets == Some(at) {
                self.forget();
            }
            self.step()?;
        }
        self.calm();
        if self.shrunk.is_some() {
            return self.nobody_goes_on();
        }
        let quiet = if self.bug.is_some() { QUIET_PLANTED_MAX } else { QUIET_MAX };
        for _ in 0..quiet {
            if self.is_settled() {
                self.judge()?;
                return self.idle();
            }
            self.step()?;
        }
        Err(format!("invariant 27: nothing settles: {}", self.what_is_open()))
    }

    /// One thing happens.
    fn step(&mut self) -> Result<(), String> {
        let acts = self.possible();
        self.now.0 += self.dice.below(20) as u64;
        match self.dice.pick(&acts).cloned() {
            Some(act) => {
                let _ = writeln!(self.history, "{} {act:?}", self.now.0);
                self.perform(act)?;
            }
            None => self.wait(),
        }
        self.ring_timers();
        self.replicate();
        self.nobody_runs_twice()?;
        match self.watch.broken.pop() {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }

    fn possible(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.outage > self.now {
            return acts;
        }
        let cut = self.cut_off();
        if self.wires.iter().any(|sending| !cut.contains(&sending.life)) {
            acts.extend([Act::Deliver, Act::Deliver]);
        }
        for (at, owner) in self.owners.iter().enumerate() {
            if !owner.is_up(self.now) {
                continue;
            }
            if owner.can_take(&self.bus, self.now) {
                acts.push(Act::Decide(at));
            }
            if owner.can_send() {
                acts.push(Act::Commit(at));
            }
            if owner.can_publish(&self.bus) {
                acts.extend([Act::Publish(at), Act::Publish(at), Act::Publish(at)]);
            }
        }
        if self.election > self.now {
            // Everybody else waits for what it wrote to be acknowledged.
            return acts;
        }
        let all = (0..self.hosts.len()).map(Which::Host);
        let all: Vec<Which> = all.chain((0..self.zombies.len()).map(Which::Zombie)).collect();
        for which in all {
            self.with_host(which, |host, reach| host_acts(which, host, reach, &mut acts));
        }
        let people = std::mem::replace(&mut self.people, People::new(0));
        if people.can_act(&self.reach()) {
            acts.push(Act::People);
        }
        self.people = people;
        acts
    }

    /// Lives of hosts that do not reach the bus.
    fn cut_off(&self) -> BTreeSet<u64> {
        let cut = self.hosts.iter().filter(|host| host.cut > self.now);
        cut.map(|host| host.life).collect()
    }

    fn perform(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::Deliver => self.deliver(),
            Act::Decide(at) => {
                let count = self.dice.range(1, 6);
                self.owners[at].decide(&self.bus, self.now, count, &mut self.tally)?;
            }
            Act::Commit(at) => self.commit(at)?,
            Act::Publish(at) => {
                let (view, way) = (self.reach().view(), self.way_of_write());
                let World { owners, bus, dice, tally, .. } = self;
                if way != Way::Lost {
                    owners[at].publish(bus, dice, tally, (view, way == Way::Clear));
                }
            }
            Act::HostReads(which) => {
                self.with_host(which, Host::read);
            }
            Act::AgentReads(which, id) => self.with_agent(which, &id, |agent, r| agent.read(r)),
            Act::ProgramRuns(which, id) => {
                self.with_agent(which, &id, |agent, reach| agent.run_program(reach));
            }
            Act::ProjectTurns(which, id, turn) => {
                self.with_host(which, |host, reach| {
                    if let Some(Seat::Project(project)) = host.seats.get_mut(&id) {
                        project.turn(turn, reach);
                    }
                });
            }
            Act::People => {
                let mut people = std::mem::replace(&mut self.people, People::new(0));
                people.act(&mut self.reach());
                self.people = people;
            }
        }
        Ok(())
    }

    fn with_agent(
        &mut self,
        which: Which,
        id: &AgentId,
        act: impl FnOnce(&mut crate::seat::Agent, &mut Reach<'_>),
    ) {
        self.with_host(which, |host, reach| {
            if let Some(Seat::Agent(agent)) = host.seats.get_mut(id) {
                act(agent, reach);
            }
        });
    }
}

fn host_acts(which: Which, host: &Host, reach: &Reach<'_>, acts: &mut Vec<Act>) {
    if !host.is_up(reach.now) {
        return;
    }
    let frozen = host.is_frozen(reach.now);
    if host.can_read(reach.bus) {
        acts.extend([Act::HostReads(which), Act::HostReads(which)]);
    }
    for (id, seat) in &host.seats {
        match seat {
            Seat::Agent(agent) => {
                let (reads, runs) = agent.can(reach);
                if reads {
                    acts.push(Act::AgentReads(which, id.clone()));
                }
                if runs && !frozen {
                    acts.push(Act::ProgramRuns(which, id.clone()));
                }
            }
            Seat::Project(project) => {
                let turns = project.turns(reach).into_iter();
                acts.extend(turns.map(|turn| Act::ProjectTurns(which, id.clone(), turn)));
            }
        }
    }
}
