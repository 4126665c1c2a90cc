//! A control plane of the simulation: core's owner machine with group commit, one commit in
//! flight, the outbox in its order, and the ledger's fence as its only certainty.

mod sweeping;

use tetrarch_core::id::CommitId;
use tetrarch_core::ledger::{Entry, RecordKey};
use tetrarch_core::mail::Lane;
use tetrarch_core::order::StopWithin;
use tetrarch_core::owner::{
    Deadlines, Group, Input, Policy, decide, is_due, next_deadline, unanswering_hosts,
};
use tetrarch_core::records::Records;
use tetrarch_core::request::Request;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::time::{BusTime, Millis};

use crate::bug::Bug;
use crate::bus::{Bus, Published, Stored};
use crate::dice::Dice;
use crate::tally::Tally;

pub(crate) use sweeping::{Around, Sweeping};

/// What became of a commit that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on the ledger, at this sequence; somebody has to look at it.
    Applied(u64),
    /// It was already on the ledger.
    Known,
    /// No answer.
    Unknown,
    /// Something else is there; decide again.
    Reloaded,
    /// A later owner is there: this one stops.
    Deposed,
}

/// One owner process.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) epoch: u64,
    instance: String,
    records: Records,
    /// Entries of the ledger that are folded into the records.
    known: usize,
    group: Group,
    in_flight: Option<Entry>,
    /// Requests taken from the stream.
    taken: usize,
    /// Entries whose outbox this one has done, and the classes of the next.
    published: usize,
    class: u8,
    commits: usize,
    rules: Rules,
    pub(crate) sweeping: Sweeping,
    /// Stopped until then.
    pub(crate) paused: BusTime,
    /// Its sweeper hears nothing until then, and knows it by its canary.
    pub(crate) deaf: BusTime,
    /// Its sweeper hears no renewal until then, and its canary all the same.
    pub(crate) mute: BusTime,
}

/// What operators of this seed have set.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) mass: MassPolicy,
    pub(crate) bug: Option<Bug>,
}

impl Owner {
    /// Takes over with the next epoch.
    pub(crate) fn start(bus: &Bus, epoch: u64, rules: Rules, now: BusTime) -> Self {
        let records = Records::default();
        let mut owner = Self {
            epoch,
            instance: format!("owner{epoch}"),
            sweeping: Sweeping::start(&records, rules.mass, now),
            rules,
            paused: BusTime::default(),
            deaf: BusTime::default(),
            mute: BusTime::default(),
            records,
            known: 0,
            group: Group::default(),
            in_flight: None,
            taken: 0,
            published: bus.outbox_through,
            class: 0,
            commits: 0,
        };
        owner.reload(bus, now);
        owner
    }

    /// Folds the ledger and begins its epoch on it.
    fn reload(&mut self, bus: &Bus, now: BusTime) {
        self.records = Records::default();
        for entry in &bus.ledger {
            self.records.apply(entry);
        }
        self.known = bus.ledger.len();
        self.group = Group::default();
        self.in_flight = None;
        self.taken = usize::try_from(self.records.intake_seq).unwrap_or(usize::MAX);
        self.sweeping = Sweeping::start(&self.records, self.rules.mass, now);
        let started = Input::Started { epoch: self.epoch, instance: self.instance.clone() };
        self.take(&started, None, now);
        self.close_group(now);
    }

    fn take(&mut self, input: &Input, seq: Option<u64>, now: BusTime) {
        let step = decide(&self.records, &self.rules.policy, now, input);
        self.group.add(&mut self.records, step, seq);
    }

    /// Whether there is something to decide on.
    pub(crate) fn can_take(&self, bus: &Bus, now: BusTime) -> bool {
        let waits = self.taken < bus.requests.len() || !self.sweeping.found.is_empty();
        self.is_up(now) && (waits || self.is_due(now)) && !self.group.is_full()
    }

    /// Whether a tick has something to do.
    fn is_due(&self, now: BusTime) -> bool {
        let does = self.rules.bug != Some(Bug::NeverDue);
        does && (self.next_deadline(now).is_some_and(|at| at <= now) || is_due(&self.records))
    }

    /// When something is due that nobody asks for.
    pub(crate) fn next_deadline(&self, now: BusTime) -> Option<BusTime> {
        let at = next_deadline(&self.records, &self.rules.policy, now);
        at.filter(|_| self.rules.bug != Some(Bug::NeverDue))
    }

    /// Whether its process does something.
    pub(crate) fn is_up(&self, now: BusTime) -> bool {
        self.paused <= now
    }

    /// Its sweeper does what is due; it has leases taken of hosts that do not answer.
    pub(crate) fn sweep(&mut self, outage: bool, around: &mut Around<'_>) {
        let now = around.now;
        if !self.is_up(now) {
            return;
        }
        for (host, epoch) in unanswering_hosts(&self.records, now) {
            self.sweeping.revoke(host, epoch, now);
        }
        self.sweeping.tick(outage || self.deaf > now, around);
    }

    /// Decides on up to this many requests, and on what is due.
    pub(crate) fn decide(&mut self, bus: &Bus, now: BusTime, count: usize, tally: &mut Tally) {
        while !self.group.is_full() && !self.sweeping.found.is_empty() {
            let found = self.sweeping.found.remove(0);
            self.take(&found, None, now);
        }
        for _ in 0..count {
            let Some(request) = bus.requests.get(self.taken) else { break };
            self.taken += 1;
            let request = self.spoilt(request);
            if self.records.decisions.contains_key(&request.id) {
                tally.note("request repeated");
            }
            let seq = request.seq;
            self.take(&Input::Request(Box::new(request)), Some(seq), now);
        }
        if self.is_due(now) {
            if !is_due(&self.records) {
                tally.note("deadline passed");
            }
            self.take(&Input::Tick, None, now);
        }
        if self.group.inputs() > 1 {
            tally.note("group of several inputs");
        }
        self.close_group(now);
    }

    /// A request as an owner with a planted bug takes it.
    fn spoilt(&mut self, request: &Request) -> Request {
        let mut request = request.clone();
        let sender = &mut request.sender;
        let agent = sender.from.agent().and_then(|id| self.records.agents.get(id));
        if let Some(agent) = agent
            && self.rules.bug == Some(Bug::EpochUnchecked)
        {
            (sender.epoch, sender.session) = (agent.epoch, agent.session);
        }
        if self.rules.bug == Some(Bug::ForgottenRequest) {
            self.records.remove(&RecordKey::Decision(request.id));
        }
        request
    }

    /// Makes the next commit when none is in flight.
    fn close_group(&mut self, now: BusTime) {
        if self.in_flight.is_some() || self.group.is_empty() {
            return;
        }
        self.commits += 1;
        let commit = CommitId::derive(now, &self.instance, "commit", self.commits);
        let group = std::mem::take(&mut self.group);
        let entry = group.finish(&mut self.records, commit, self.epoch, now);
        self.sweeping.learn(&entry, now);
        self.in_flight = Some(entry);
    }

    /// Whether it has room for what comes of a deadline.
    pub(crate) fn can_decide(&self) -> bool {
        !self.group.is_full() && self.in_flight.is_none()
    }

    /// Whether a commit is in flight.
    pub(crate) fn can_send(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Sends the commit in flight, the same bytes each time. `unfenced` breaks the ledger's fence.
    pub(crate) fn send(
        &mut self,
        bus: &mut Bus,
        now: BusTime,
        (lost, unacknowledged): (bool, bool),
        unfenced: bool,
        bug: impl FnOnce(&mut Entry),
    ) -> Sent {
        let Some(entry) = &self.in_flight else { return Sent::Unknown };
        if lost {
            return Sent::Unknown;
        }
        if bus.ledger.len() == self.known || unfenced {
            let mut written = entry.clone();
            bug(&mut written);
            bus.ledger.push(written);
            let seq = bus.ledger.len() as u64;
            if !unacknowledged {
                self.acknowledged(bus.ledger.len(), now);
            }
            return Sent::Applied(seq);
        }
        match bus.ledger.last() {
            Some(last) if last.commit == entry.commit => {
                self.acknowledged(bus.ledger.len(), now);
                Sent::Known
            }
            Some(last) if last.epoch > self.epoch => Sent::Deposed,
            Some(_) | None => {
                self.reload(bus, now);
                Sent::Reloaded
            }
        }
    }

    fn acknowledged(&mut self, known: usize, now: BusTime) {
        self.known = known;
        self.in_flight = None;
        self.close_group(now);
    }

    /// The records, when nothing is decided that is not on the ledger as this owner knows it.
    pub(crate) fn settled_records(&self) -> Option<&Records> {
        (self.in_flight.is_none() && self.group.inputs() == 0).then_some(&self.records)
    }

    /// Whether an entry waits for its outbox.
    pub(crate) fn can_publish(&self) -> bool {
        self.published < self.known
    }

    /// Publishes the next class of the next entry: seals, mail, plan events, STATE.
    pub(crate) fn publish(
        &mut self,
        bus: &mut Bus,
        dice: &mut Dice,
        tally: &mut Tally,
        bug: Option<Bug>,
    ) {
        let index = self.published;
        let entry = bus.ledger[index].clone();
        let seq = index as u64 + 1;
        let late = bug == Some(Bug::SealedLate) && self.class < 2;
        match if late { 1 - self.class } else { self.class } {
            0 => entry.seals.iter().for_each(|seal| bus.publish_seal(seal)),
            1 => {
                for lane in [Lane::Ctl, Lane::Mail] {
                    let own = |mail: &tetrarch_core::mail::Mail| mail.body.lane() == lane;
                    let mail = entry.mail.iter().enumerate().filter(|(_, mail)| own(mail));
                    for (at, mail) in mail {
                        let known = bus.has_mail(&mail.to, lane, (seq, at));
                        let lost = bug.is_some_and(|bug| bug.loses(mail));
                        if lost || (known && dice.percent(70)) {
                            continue;
                        }
                        let from = tetrarch_core::id::AgentId::Go.into();
                        let place = Some((seq, at));
                        bus.store_mail(Stored { place, from, mail: mail.clone() });
                    }
                }
            }
            2 => {
                for event in &entry.plans {
                    if bus.publish_plan(seq, event) == Published::Known {
                        tally.note("plan event repeated, dropped");
                    }
                }
            }
            _ => {
                bus.publish_state(index);
                bus.outbox_through = bus.outbox_through.max(index + 1);
                self.published += 1;
            }
        }
        self.class = (self.class + 1) % 4;
    }
}

/// Short enough to pass while a fleet is at work.
pub(crate) fn deadlines() -> Deadlines {
    let stop = StopWithin { drain: Millis(100), kill_grace: Millis(100) };
    Deadlines {
        spawning: Millis(60_000),
        awaiting_input: Millis(600),
        stop,
        ..Deadlines::default()
    }
}
