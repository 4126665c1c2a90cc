//! What goes wrong in a storm, and how often: each seed has its own weather.

use tetrarch_core::agent::Mode;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::AgentId;

use tetrarch_core::time::{BusTime, Millis};

use super::{WINDOW, Which, World};
use crate::bug::Bug;
use crate::dice::Dice;
use crate::host::Host;
use crate::people::{People, proposal};
use crate::seat::Seat;
use crate::work;

/// How often things go wrong, in times of a hundred, or of a thousand steps.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    pub(super) on: bool,
    pub(super) lost: usize,
    pub(super) unacknowledged: usize,
    pub(super) repeat: usize,
    /// Renewals that a sweeper does not hear of.
    pub(super) unheard: usize,
    /// Reads that a replica answers which lags behind.
    pub(super) stale: usize,
    /// Writes that are refused for nothing.
    pub(super) spurious: usize,
    pub(super) unanswered: usize,
    lags: usize,
    elections: usize,
    bus: usize,
    sweepers: usize,
    crowds: usize,
    owners: usize,
    hosts: usize,
    actors: usize,
    people: usize,
    plans: usize,
}

impl Faults {
    /// The weather of a seed: some kinds of faults are there, others are not.
    pub(super) fn by_chance(dice: &mut Dice, bug: Option<Bug>) -> Self {
        let mut often = |most: usize| if dice.percent(50) { dice.range(1, most) } else { 0 };
        let weather = Self {
            on: true,
            lost: often(20),
            unacknowledged: often(20),
            repeat: often(15),
            unheard: often(40),
            stale: often(40),
            spurious: often(6),
            unanswered: often(60),
            lags: often(15),
            elections: often(6),
            bus: often(6),
            sweepers: often(15),
            crowds: often(6),
            owners: often(20),
            hosts: often(15),
            actors: often(15),
            people: often(15),
            plans: often(60),
        };
        match bug {
            Some(Bug::LeaseNotTaken) => Self { sweepers: 15, owners: 0, bus: 0, ..weather },
            Some(Bug::EpochUnchecked) => Self { actors: 40, repeat: 40, ..weather },
            Some(Bug::MassUnguarded) => Self { crowds: 15, owners: 0, ..weather },
            Some(Bug::NeverDue) => Self { unanswered: 60, ..weather },
            Some(_) | None => weather,
        }
    }
}

impl World {
    /// Something breaks, or nothing.
    pub(super) fn break_something(&mut self) {
        let Faults { owners, hosts, actors, people, bus, sweepers, crowds, .. } = self.faults;
        let Faults { lags, elections, plans, .. } = self.faults;
        let happens = |dice: &mut Dice, chance| chance > 0 && dice.below(1000) < chance;
        if happens(&mut self.dice, bus) {
            self.tally.note("bus gone");
            self.outage = self.for_some_time();
        }
        if happens(&mut self.dice, elections) {
            self.change_leader();
        }
        if happens(&mut self.dice, lags) {
            self.lag = self.for_some_time();
        }
        if happens(&mut self.dice, sweepers) {
            self.break_sweeper();
        }
        if happens(&mut self.dice, crowds) {
            self.cut_off_many();
        }
        if happens(&mut self.dice, owners) {
            self.break_owner();
        }
        if happens(&mut self.dice, hosts) {
            self.break_host();
        }
        if happens(&mut self.dice, actors) {
            self.break_actor();
        }
        if happens(&mut self.dice, people) {
            self.meddle();
        }
        if happens(&mut self.dice, plans) {
            self.change_plans();
        }
        if self.dice.below(1000) < 10 {
            self.restart_hosts(50);
        }
        if !self.zombies.is_empty() && self.dice.below(1000) < 15 {
            self.zombies.remove(0);
        }
    }

    /// Half a window to five.
    pub(super) fn for_some_time(&mut self) -> BusTime {
        self.now + Millis(self.dice.range(1, 10) as u64 * WINDOW.0 / 2)
    }

    fn break_sweeper(&mut self) {
        let until = self.for_some_time();
        // Only while it misses what the bus hears does it show that a lease is not taken.
        let planted = self.bug == Some(Bug::LeaseNotTaken);
        let which = if planted { 1 } else { self.dice.below(3) };
        let one = planted || self.dice.percent(50);
        let Some(owner) = self.owners.last_mut() else { return };
        match which {
            0 => {
                self.tally.note("sweeper deaf");
                owner.deaf = until;
            }
            1 => {
                let hosts: Vec<_> = self.hosts.iter().map(|host| host.name.clone()).collect();
                owner.muted = self.dice.pick(&hosts).filter(|_| one).cloned();
                owner.mute = until;
                self.tally.note(match owner.muted {
                    Some(_) => "sweeper does not hear one host",
                    None => "sweeper does not hear renewals",
                });
            }
            _ => {
                self.tally.note("owner paused");
                owner.paused = until;
            }
        }
    }

    /// A switch fails: most hosts are cut off at once.
    fn cut_off_many(&mut self) {
        let until = self.for_some_time();
        for at in 0..self.hosts.len() {
            if self.dice.percent(60) {
                self.hosts[at].cut = until;
            }
        }
        self.tally.note("many hosts cut off");
    }

    fn break_owner(&mut self) {
        if self.dice.percent(50) {
            self.tally.note("owner crashed");
            self.owners.pop();
        }
        self.start_owner();
    }

    /// What a process had not noted as sent is lost with it, or not.
    fn lose_process(&mut self, life: u64) {
        let dice = &mut self.dice;
        self.wires.retain(|sending| sending.life != life || sending.kept || dice.percent(50));
    }

    fn break_host(&mut self) {
        if self.hosts.is_empty() {
            return self.restart_hosts(30);
        }
        let at = self.dice.below(self.hosts.len());
        match self.dice.below(6) {
            0 => {
                self.tally.note("host crashed");
                let host = self.hosts.remove(at);
                self.lose_process(host.life);
                self.start_host(&host.name);
            }
            1 => {
                self.tally.note("host left");
                self.with_host(Which::Host(at), Host::leave);
            }
            2 => {
                self.tally.note("host paused, and goes on");
                self.hosts[at].paused = self.for_some_time();
            }
            3 => {
                self.tally.note("host cut off");
                self.hosts[at].cut = self.for_some_time();
            }
            4 => {
                self.tally.note("host crashed, and stays away");
                let host = self.hosts.remove(at);
                self.lose_process(host.life);
                self.orphans.push(host);
            }
            _ => {
                self.tally.note("host paused, another life began");
                let host = self.hosts.remove(at);
                self.start_host(&host.name);
                self.zombies.push(host);
            }
        }
        self.restart_hosts(30);
    }

    /// Hosts that ended begin another life, each with this chance of a hundred.
    pub(super) fn restart_hosts(&mut self, chance: usize) {
        for at in (0..self.orphans.len()).rev() {
            if self.dice.percent(chance) {
                let name = self.orphans[at].name.clone();
                self.start_host(&name);
                // More than one may have been left under that name.
                return;
            }
        }

        for at in (0..self.hosts.len()).rev() {
            if self.hosts[at].dead && self.dice.percent(chance) {
                let host = self.hosts.remove(at);
                self.start_host(&host.name);
            }
        }
    }

    fn break_actor(&mut self) {
        if self.hosts.is_empty() {
            return;
        }
        let at = self.dice.below(self.hosts.len());
        let ids: Vec<AgentId> = self.hosts[at].seats.keys().cloned().collect();
        let spared = |id: &AgentId| {
            let work = self.truth.agents.get(id).and_then(|agent| agent.work.as_ref());
            work.is_some_and(|work| {
                let node = self.truth.nodes.get(&work.epic).and_then(|all| all.get(&work.node));
                let failed = self.watch.failures.get(&(work.epic, work.node)).copied();
                node.is_none_or(|node| failed.unwrap_or(0) + 1 >= node.max_attempts.min(5) as usize)
            })
        };
        let ids: Vec<AgentId> = ids.into_iter().filter(|id| !spared(id)).collect();
        let Some(id) = self.dice.pick(&ids).cloned() else { return };
        if let Some(work) = self.truth.agents.get(&id).and_then(|agent| agent.work.clone()) {
            *self.watch.failures.entry((work.epic, work.node)).or_default() += 1;
        }
        self.with_host(Which::Host(at), |host, reach| host.lose_actor(&id, reach));
    }

    fn meddle(&mut self) {
        let mut people = std::mem::replace(&mut self.people, People::new(0));
        let live: Vec<AgentId> =
            self.hosts.iter().flat_map(|host| host.seats.keys().cloned()).collect();
        let active = people.goals.iter().copied().find(|epic| {
            self.truth.goal_states.get(epic).is_some_and(|goal| goal.status == GoalStatus::Active)
        });
        match (self.dice.below(9), active, self.dice.pick(&live).cloned()) {
            (0, Some(epic), _) => {
                self.tally.note("burst of requests");
                people.burst(epic, 8, &mut self.reach());
            }
            (1, _, Some(agent))
                if matches!(agent, AgentId::Worker(_) | AgentId::Specialist(..)) =>
            {
                self.tally.note("stopped by a human");
                people.stop(agent, &mut self.reach());
            }
            (2 | 3, ..) => {
                self.tally.note("mode switched");
                let mode = Mode::ALL[self.dice.below(Mode::ALL.len())];
                people.set_mode(mode, &mut self.reach());
            }
            (4, _, Some(agent)) => {
                self.tally.note("grant raised");
                people.raise(agent, &mut self.reach());
            }
            (5 | 6, _, Some(agent)) => {
                self.tally.note("rotation asked for");
                people.renew(agent, None, &mut self.reach());
            }
            (7 | 8, _, Some(agent)) => {
                self.tally.note("replacement asked for");
                let known = self.truth.agents.get(&agent).and_then(|agent| agent.session);
                people.renew(agent, known, &mut self.reach());
            }
            (_, _, _) => {}
        }
        self.people = people;
    }

    /// People change a plan or a goal, or its orchestrator proposes to.
    fn change_plans(&mut self) {
        let mut people = std::mem::replace(&mut self.people, People::new(0));
        let epic = self.dice.pick(&people.goals).copied();
        if let Some(epic) = epic {
            let orchestrator = AgentId::Po(work::project());
            let host = self.hosts.iter().position(|host| host.seats.contains_key(&orchestrator));
            match host.filter(|_| self.dice.percent(10)) {
                Some(at) => {
                    let now = self.now;
                    self.with_host(Which::Host(at), |host, reach| {
                        if let Some(Seat::Project(project)) = host.seats.get_mut(&orchestrator)
                            && let Some(op) = proposal(epic, reach)
                        {
                            project.asks(now, op, reach);
                        }
                    });
                }
                None => people.change_plan(epic, &mut self.reach()),
            }
        }
        self.people = people;
    }

    /// The storm is over: what is broken is gone, what has ended begins again, and nothing new
    /// breaks.
    pub(super) fn calm(&mut self) {
        self.faults.on = false;
        self.calmed = self.now;
        self.zombies.clear();
        self.outage = self.now;
        self.election = self.now;
        for host in &mut self.hosts {
            (host.paused, host.cut) = (self.now, self.now);
        }
        for owner in &mut self.owners {
            (owner.paused, owner.deaf, owner.mute) = (self.now, self.now, self.now);
        }
        self.restart_hosts(100);
        if self.owners.is_empty() {
            self.start_owner();
        }
        while !self.wires.is_empty() {
            self.deliver();
        }
        let mut people = std::mem::replace(&mut self.people, People::new(0));
        people.set_mode(Mode::Orchestrator, &mut self.reach());
        people.resume_all(&mut self.reach());
        self.people = people;
    }
}
