//! A host orchestrator of the simulation: joins, reads what the owner sends it, and seats the
//! sessions that are launched on it. It does what the engine's shells do around core's machines.

mod keeper;

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::cursor::{Claim, Positions};
use tetrarch_core::id::{AgentId, HostName, Principal, RequestId, SessionId, Ulid};
use tetrarch_core::mail::{Duty, Lane, Launch, Mail, MailBody, SessionOrder};
use tetrarch_core::request::{HostJoin, Op, Report, RequestBody, Sender};
use tetrarch_core::time::BusTime;

use crate::bus::{Bus, Reader, Stored};
use crate::seat::{Agent, Project, Seat};
use crate::wire::{Reach, Wire};

use keeper::{Keeper, Kept};

pub(crate) use keeper::Renewal;

/// One life of a host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: HostName,
    pub(crate) life: u64,
    keeper: Keeper,
    capacity: u32,
    join: RequestId,
    joined: Option<(SessionId, u64)>,
    reader: Reader,
    pub(crate) seats: BTreeMap<AgentId, Seat>,
    reports: u64,
    named: BTreeSet<(AgentId, u64)>,
    /// Stopped until then: its process does nothing, its guard and its programs go on.
    pub(crate) paused: BusTime,
    /// Cut off from the bus until then.
    pub(crate) cut: BusTime,
    /// It can do nothing more.
    pub(crate) dead: bool,
}

impl Host {
    /// A new life, which asks to join at once.
    pub(crate) fn start(name: &HostName, life: u64, capacity: u32, reach: &mut Reach<'_>) -> Self {
        let who = Principal::Agent(AgentId::Ho(name.clone()));
        let seen = reach.view();
        let mut host = Self {
            name: name.clone(),
            life,
            keeper: Keeper::take(name, reach),
            capacity,
            join: RequestId(Ulid(u128::from(life) << 64 | 1)),
            joined: None,
            reader: Reader::at(reach.bus.end_of(&who, seen.mail)),
            seats: BTreeMap::new(),
            reports: 0,
            named: BTreeSet::new(),
            paused: BusTime::default(),
            cut: BusTime::default(),
            dead: false,
        };
        host.ask_to_join(reach);
        host
    }

    fn id(&self) -> AgentId {
        AgentId::Ho(self.name.clone())
    }

    fn instance(&self) -> String {
        format!("life{}", self.life)
    }

    fn sender(&self, from: AgentId, session: Option<SessionId>, epoch: u64) -> Sender {
        Sender { from: from.into(), via: Some(self.name.clone()), session, epoch }
    }

    fn ask_to_join(&mut self, reach: &mut Reach<'_>) {
        let op = Op::HostJoin(HostJoin {
            instance: self.instance(),
            lease_epoch: self.keeper.epoch,
            labels: Vec::new(),
            capacity: self.capacity,
            address: String::new(),
        });
        let sender = self.sender(self.id(), None, self.keeper.epoch);
        reach.send(Wire::request(sender, self.join, RequestBody::Op(op)), self.life);
    }

    /// Whether there is a message to read.
    pub(crate) fn can_read(&self, bus: &Bus) -> bool {
        !self.dead && self.next(bus).is_some()
    }

    /// Until it has joined, only the answer to that concerns it.
    fn next<'b>(&self, bus: &'b Bus) -> Option<(Lane, &'b Stored)> {
        let (who, at) = (Principal::Agent(self.id()), self.reader.positions);
        if self.joined.is_some() { bus.next(&who, at) } else { bus.next_mail(&who, at) }
    }

    /// Reads one message.
    pub(crate) fn read(&mut self, reach: &mut Reach<'_>) {
        let Some((lane, stored)) = self.next(reach.bus) else { return };
        let stored = stored.clone();
        advance(&mut self.reader.positions, lane);
        if !self.reader.is_new(lane, &stored) {
            reach.tally.note("mail repeated, dropped");
            return;
        }
        let from = stored.from;
        let answer = stored.mail.correlation == Some(self.join);
        let body = stored.mail.body.clone();
        if let MailBody::Reply(reply) = body {
            match (reply.session, reply.agent_epoch, reply.error) {
                (Some(session), Some(epoch), None) if answer => {
                    self.joined = Some((session, epoch));
                }
                (_, _, _) => self.dead |= answer,
            }
        } else if let MailBody::Launch(launch) = body {
            self.launch(*launch, reach);
        } else if let MailBody::Kill(order) | MailBody::Rotate(order) = body {
            self.end_session(&order, from, stored.mail, reach);
        } else if let MailBody::Superseded(order) = body {
            let session = self.joined.map(|(session, _)| session);
            if order.agent == self.id() {
                self.dead |= session.is_some() && order.session == session;
            } else {
                self.pass_on(&order, from, stored.mail, reach);
            }
        }
    }

    fn launch(&mut self, launch: Launch, reach: &mut Reach<'_>) {
        let ours = self.joined.is_some_and(|(_, epoch)| epoch == launch.host_epoch);
        let known = self.seats.get(&launch.agent);
        if !ours || known.is_some_and(|seat| seat.epoch() >= launch.epoch) {
            return;
        }
        if let Some(Seat::Agent(before)) = self.seats.get_mut(&launch.agent) {
            if before.runs() {
                let what = format!("invariant 7: {} is launched over itself", launch.agent);
                reach.watch.broken.push(what);
            }
            before.kill_program();
        }
        if !launch.is_first() && reach.bus.sealed_for(&launch.agent) < launch.epoch {
            let what = format!("invariant 7: {} is launched before its seal", launch.agent);
            reach.watch.broken.push(what);
        }
        let claim = Claim {
            host: self.name.clone(),
            host_epoch: launch.host_epoch,
            instance: self.instance(),
        };
        let id = launch.agent.clone();
        let seat = match launch.duty.clone() {
            Duty::Run(run) => Agent::start(launch, run, claim, self.life, reach).map(Seat::agent),
            Duty::Project(epics) => {
                Project::start(launch, epics, claim, self.life, reach).map(Seat::project)
            }
            Duty::Human(_) => None,
        };
        match seat {
            Some(seat) => drop(self.seats.insert(id, seat)),
            None => drop(self.seats.remove(&id)),
        }
    }

    fn end_session(
        &mut self,
        order: &SessionOrder,
        from: Principal,
        mail: Mail,
        reach: &mut Reach<'_>,
    ) {
        let says_so = matches!(self.seats.get(&order.agent), Some(Seat::Agent(_)));
        self.pass_on(order, from, mail, reach);
        let own = self.joined.is_some_and(|(_, epoch)| order.is_told_by(epoch));
        if let Some(session) = order.session
            && !says_so
            && own
        {
            let report = Report::Gone { cause: order.reason.clone() };
            self.report(order.agent.clone(), session, order.epoch, report, reach);
        }
    }

    fn report(
        &mut self,
        who: AgentId,
        session: SessionId,
        epoch: u64,
        report: Report,
        reach: &mut Reach<'_>,
    ) {
        self.reports += 1;
        let id = RequestId(Ulid(u128::from(self.life) << 64 | u128::from(self.reports + 1)));
        let sender = self.sender(who, Some(session), epoch);
        reach.send(Wire::request(sender, id, RequestBody::Report(report)), self.life);
    }

    fn pass_on(
        &mut self,
        order: &SessionOrder,
        from: Principal,
        mail: Mail,
        reach: &mut Reach<'_>,
    ) {
        let Some(seat) = self.seats.get_mut(&order.agent) else { return };
        if order.session.is_some_and(|session| session != seat.session()) {
            return;
        }
        let what = mail.body.topic().to_owned();
        reach.tally.note(if what == "rotate" { "session rotated" } else { "session superseded" });
        match seat {
            Seat::Agent(agent) => agent.hear(from, mail, reach),
            Seat::Project(_) => drop(self.seats.remove(&order.agent)),
        }
    }

    /// An actor dies of a fault in it: its program is killed, the owner is told.
    pub(crate) fn lose_actor(&mut self, who: &AgentId, reach: &mut Reach<'_>) {
        let Some(seat) = self.seats.remove(who) else { return };
        let report = Report::Crashed { cause: "its actor died".to_owned() };
        self.report(who.clone(), seat.session(), seat.epoch(), report, reach);
        reach.tally.note("actor died");
    }

    /// Leaves in good order.
    pub(crate) fn leave(&mut self, reach: &mut Reach<'_>) {
        if let Some((session, epoch)) = self.joined {
            let id = RequestId(Ulid(u128::from(self.life) << 64));
            let sender = self.sender(self.id(), Some(session), epoch);
            let report = Report::Gone { cause: "the host was stopped".to_owned() };
            reach.send(Wire::request(sender, id, RequestBody::Report(report)), self.life);
        }
        self.seats.clear();
        self.keeper.release(reach.leases, &self.name);
        self.dead = true;
    }

    /// Clears the seats whose sessions are over. Nothing runs on a host that ended in order.
    pub(crate) fn tidy(&mut self) {
        let dead = self.dead;
        self.seats.retain(|_, seat| !dead && !seat.is_over());
    }

    /// Whether its process does something and reaches the bus.
    pub(crate) fn is_up(&self, now: BusTime) -> bool {
        !self.dead && self.paused <= now && self.cut <= now
    }

    /// Whether it has joined.
    pub(crate) fn has_joined(&self) -> bool {
        self.joined.is_some() && !self.dead
    }

    /// Whether its guard holds its programs still.
    pub(crate) fn is_frozen(&self, now: BusTime) -> bool {
        self.keeper.is_frozen(now)
    }

    /// When its lease's task has something to do.
    pub(crate) fn next_beat(&self) -> Option<BusTime> {
        (!self.dead).then(|| self.keeper.next().max(self.paused))
    }

    /// Keeps its lease, or ends with it; gives the renewal that the bus stored now.
    pub(crate) fn keep(&mut self, outage: bool, reach: &mut Reach<'_>) -> Option<Renewal> {
        if self.dead {
            return None;
        }
        let reached = !outage && self.cut <= reach.now;
        let stored = self.keeper.arrive(reached, reach);
        if self.paused > reach.now {
            return stored;
        }
        let Self { keeper, seats, named, name, .. } = self;
        let rows = |beats: usize| {
            let turn = seats.iter().enumerate().filter_map(|(at, (agent, seat))| {
                let row = (agent.clone(), seat.epoch());
                (named.insert(row.clone()) || at % 3 == beats % 3).then_some(row)
            });
            let (rows, load) = (turn.collect(), u32::try_from(seats.len()).unwrap_or(u32::MAX));
            let progress = seats
                .iter()
                .filter_map(|(agent, seat)| Some((agent.clone(), seat.epoch(), seat.progress()?)));
            Renewal { host: name.clone(), rows, progress: progress.collect(), load }
        };
        match keeper.keep(reached, rows, reach) {
            Kept::Held => {}
            Kept::Thawed => {
                reach.tally.note("host thawed");
                reach.tell(format_args!("{} is thawed", self.name));
            }
            Kept::Lost => {
                reach.tally.note("host lost its lease");
                reach.tell(format_args!("{} lost its lease", self.name));
                self.dead = true;
            }
        }
        stored
    }
}

/// One message further in its lane.
pub(crate) fn advance(positions: &mut Positions, lane: Lane) {
    match lane {
        Lane::Ctl => positions.ctl += 1,
        Lane::Mail => positions.mail += 1,
    }
}
