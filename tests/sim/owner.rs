//! A control plane of the simulation: core's owner machine with group commit, one commit in
//! flight, the outbox in its order, and the ledger's fence as its only certainty.

mod overseeing;
mod settling;
mod sweeping;

use tetrarch_core::id::{CommitId, HostName};
use tetrarch_core::ledger::{Entry, RecordKey};
use tetrarch_core::mail::Lane;
use tetrarch_core::order::StopWithin;
use tetrarch_core::overseer::Patience;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::owner::{
    Deadlines, Group, Input, Policy, decide, is_due, next_deadline, unanswering_hosts,
};
use tetrarch_core::records::Records;
use tetrarch_core::request::Request;
use tetrarch_core::restart::{Amnesia, Memory};
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_tests::simulated::{Commit, commit};

use crate::bug::Bug;
use crate::bus::{Bus, Published, Stored, View};
use crate::dice::Dice;
use crate::tally::Tally;

pub(crate) use overseeing::look;
pub(crate) use sweeping::{Around, Sweeping};

use overseeing::Overseeing;

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
    /// The ledger is not what it was: this one stops, with an alert.
    Amnesia,
}

/// What becomes of a commit on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Clear,
    /// It does not arrive.
    Lost,
    /// It is stored, and nobody hears of it.
    Unheard,
    /// Another write is in progress, or was in the way and is not stored: it is refused, and not
    /// stored.
    Busy,
    /// It is refused for something that is not there.
    Refused,
}

/// Why an owner does not go on with what it loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Amnesia(Amnesia),
    Deposed,
}

/// What an owner sees when it loads everything: each of its reads may lag behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sight {
    pub(crate) state: View,
    /// What the server says of the ledger, and how much of it can be read.
    pub(crate) ledger: View,
    pub(crate) tail: View,
    /// The outbox stands between a record of STATE and the word that all are there.
    pub(crate) torn: bool,
    /// What its data directory remembers.
    pub(crate) kept: Memory,
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
    /// The ledger seemed shorter than is remembered, and was asked again.
    pub(crate) asked_again: bool,
    pub(crate) sweeping: Sweeping,
    pub(crate) overseeing: Overseeing,
    /// Stopped until then.
    pub(crate) paused: BusTime,
    /// Its sweeper hears nothing until then, and knows it by its canary.
    pub(crate) deaf: BusTime,
    /// Its sweeper hears no renewal until then, or none of one host, and its canary all the same.
    pub(crate) mute: BusTime,
    pub(crate) muted: Option<HostName>,
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
    pub(crate) fn start(
        bus: &Bus,
        epoch: u64,
        rules: Rules,
        sight: &Sight,
        now: BusTime,
    ) -> Result<Self, Stop> {
        let records = Records::default();
        let mut owner = Self {
            epoch,
            instance: format!("owner{epoch}"),
            sweeping: Sweeping::start(&records, rules.mass, now),
            rules,
            overseeing: Overseeing::start(now),
            paused: BusTime::default(),
            deaf: BusTime::default(),
            mute: BusTime::default(),
            muted: None,
            records,
            known: 0,
            group: Group::default(),
            in_flight: None,
            taken: 0,
            published: 0,
            asked_again: false,
            class: 0,
            commits: 0,
        };
        owner.reload(bus, sight, now)?;
        Ok(owner)
    }

    /// Folds STATE and the ledger's tail and begins its epoch on it.
    fn reload(&mut self, bus: &Bus, sight: &Sight, now: BusTime) -> Result<(), Stop> {
        let last = match self.remembered(bus, sight, sight.ledger.ledger) {
            Err(lost) if lost.may_be_lag() => {
                self.asked_again = true;
                self.remembered(bus, sight, bus.ledger.len())
            }
            told => told,
        };
        let last = last.map_err(Stop::Amnesia)?;
        let mut restart = bus.shown(sight.state.state.min(last));
        let begun = usize::try_from(restart.through).unwrap_or(usize::MAX);
        self.published = begun;
        self.class = 0;
        let next = bus.ledger.get(begun).filter(|_| sight.torn);
        if let Some(image) = next.and_then(|next| next.records.first()) {
            restart.images.insert(image.key(), (image.clone(), restart.through + 1));
        }
        let end = last.min(sight.tail.ledger).max(begun);
        for (index, entry) in bus.ledger.iter().enumerate().take(end).skip(begun) {
            restart.add(index as u64 + 1, entry);
        }
        if restart.deposed_by(self.epoch, self.commits > 0).is_some() {
            return Err(Stop::Deposed);
        }
        self.known = end;
        self.records = restart.records();
        self.group = Group::default();
        self.in_flight = None;
        self.taken = usize::try_from(self.records.intake_seq).unwrap_or(usize::MAX);
        self.sweeping = Sweeping::start(&self.records, self.rules.mass, now);
        let started = Input::Started { epoch: self.epoch, instance: self.instance.clone() };
        self.take(&started, None, now);
        self.close_group(now);
        Ok(())
    }

    /// How far the server says the ledger goes, unless it is not the one that is remembered.
    fn remembered(&self, bus: &Bus, sight: &Sight, last: usize) -> Result<usize, Amnesia> {
        if self.rules.bug != Some(Bug::AmnesiaUnnoticed) {
            for memory in [&bus.memory(sight.state.state), &sight.kept] {
                memory.judge(&bus.created(), last as u64)?;
            }
        }
        Ok(last)
    }

    fn take(&mut self, input: &Input, seq: Option<u64>, now: BusTime) {
        let step = decide(&self.records, &self.rules.policy, now, input);
        self.group.add(&mut self.records, step, seq);
    }

    /// Whether there is something to decide on.
    pub(crate) fn can_take(&self, bus: &Bus, now: BusTime) -> bool {
        let waits = self.taken < bus.requests.len() || !self.sweeping.found.is_empty();
        self.is_up(now)
            && (waits || self.is_due(now) || self.oversees(now))
            && !self.group.is_full()
    }

    /// Whether a tick has something to do.
    fn is_due(&self, now: BusTime) -> bool {
        let does = self.rules.bug != Some(Bug::NeverDue);
        does && (self.next_deadline(now).is_some_and(|at| at <= now) || is_due(&self.records))
    }

    /// When something is due that nobody asks for.
    pub(crate) fn next_deadline(&self, now: BusTime) -> Option<BusTime> {
        if self.rules.bug == Some(Bug::NeverDue) {
            return None;
        }
        let looks = self.overseeing.next(&self.records);
        next_deadline(&self.records, &self.rules.policy, now).into_iter().chain(looks).min()
    }

    /// Whether its sweeper hears a host's renewals.
    pub(crate) fn hears(&self, host: &HostName, now: BusTime) -> bool {
        let mute = self.mute > now && self.muted.as_ref().is_none_or(|muted| muted == host);
        self.is_up(now) && self.deaf <= now && !mute
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
    pub(crate) fn decide(
        &mut self,
        bus: &Bus,
        now: BusTime,
        count: usize,
        tally: &mut Tally,
    ) -> Result<(), String> {
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
        self.settle(bus, now, tally);
        let wrong = self.oversee(now, tally);
        if self.group.inputs() > 1 {
            tally.note("group of several inputs");
        }
        self.close_group(now);
        wrong.map_or(Ok(()), Err)
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

    /// Whether there are entries that it did not see when it loaded everything.
    pub(crate) fn lags_behind(&self, bus: &Bus) -> bool {
        self.known < bus.ledger.len()
    }

    /// Whether it has seen more entries than these.
    pub(crate) fn knows_more_than(&self, entries: usize) -> bool {
        self.known > entries
    }

    /// Whether its commit in flight is the ledger's last entry.
    pub(crate) fn is_stored(&self, bus: &Bus) -> bool {
        let last = bus.ledger.last().map(|entry| entry.commit);
        self.in_flight.as_ref().is_some_and(|entry| Some(entry.commit) == last)
    }

    /// Whether a commit is in flight.
    pub(crate) fn can_send(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Sends the commit in flight, the same bytes each time.
    pub(crate) fn send(
        &mut self,
        bus: &mut Bus,
        now: BusTime,
        way: Way,
        sight: &Sight,
        bug: impl FnOnce(&mut Entry),
    ) -> Sent {
        let Some(entry) = &self.in_flight else { return Sent::Unknown };
        if self.rules.bug == Some(Bug::SentBeforeCommit) {
            Self::send_early(entry, bus);
        }
        match way {
            Way::Lost | Way::Busy => return Sent::Unknown,
            Way::Refused => return self.refused(bus, sight, now),
            Way::Clear | Way::Unheard => {}
        }
        let mut written = entry.clone();
        bug(&mut written);
        let unfenced = self.rules.bug == Some(Bug::UnfencedLedger);
        let expect = if unfenced { bus.ledger.len() } else { self.known };
        match commit(&mut bus.ledger, &written, expect as u64) {
            Commit::Stored(seq) => {
                if way == Way::Clear {
                    self.acknowledged(bus.ledger.len(), now);
                }
                Sent::Applied(seq)
            }
            Commit::Known(_) => {
                self.acknowledged(bus.ledger.len(), now);
                Sent::Known
            }
            Commit::Deposed(_) => Sent::Deposed,
            Commit::Reload(_) => self.refused(bus, sight, now),
        }
    }

    /// Loads everything and decides again.
    fn refused(&mut self, bus: &Bus, sight: &Sight, now: BusTime) -> Sent {
        match self.reload(bus, sight, now) {
            Ok(()) => Sent::Reloaded,
            Err(Stop::Amnesia(_)) => Sent::Amnesia,
            Err(Stop::Deposed) => Sent::Deposed,
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
    pub(crate) fn can_publish(&self, bus: &Bus) -> bool {
        self.published < self.known.min(bus.ledger.len())
    }

    /// Publishes the next class of the next entry: seals, mail, plan events, STATE. What nobody
    /// acknowledges is published again.
    pub(crate) fn publish(
        &mut self,
        bus: &mut Bus,
        dice: &mut Dice,
        tally: &mut Tally,
        (view, acknowledged): (View, bool),
    ) {
        let bug = self.rules.bug;
        let index = self.published;
        let entry = bus.ledger[index].clone();
        let seq = index as u64 + 1;
        let late = bug == Some(Bug::SealedLate) && self.class < 2;
        match if late { 1 - self.class } else { self.class } {
            0 => {
                // Mail waits for no seal, and may be out before it.
                if dice.percent(50) {
                    send(&entry, seq, Lane::Mail, bug, bus, dice);
                }
                for seal in entry.seals.iter().filter(|seal| !seal.is_of_new(&entry.mail)) {
                    bus.publish_seal(seal, view);
                }
            }
            1 => {
                for lane in [Lane::Ctl, Lane::Mail] {
                    send(&entry, seq, lane, bug, bus, dice);
                }
            }
            2 => {
                for event in &entry.plans {
                    if bus.publish_plan(seq, &entry, event) == Published::Known {
                        tally.note("plan event repeated, dropped");
                    }
                }
            }
            _ => {
                bus.publish_state(index);
                self.published += usize::from(acknowledged);
            }
        }
        if acknowledged {
            self.class = (self.class + 1) % 4;
        }
    }
}

/// Sends the mail of an entry on one lane; of what is out, some again.
fn send(entry: &Entry, seq: u64, lane: Lane, bug: Option<Bug>, bus: &mut Bus, dice: &mut Dice) {
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
        bus.store_mail(Stored { place, from, mail: mail.clone(), seq: 0 });
    }
}

/// Short enough that agents which wait for what a fault kept from them climb the ladder; in some seeds
/// nothing may be sent for longer than silence is borne.
pub(crate) fn overseer(dice: &mut Dice) -> Patience {
    let mut either = |short, long| Millis(if dice.percent(50) { short } else { long });
    Patience {
        idle_after: either(800, 1_500),
        max_retries: 2,
        min_resend_interval: either(300, 1_000),
        backoff: Backoff { base: either(100, 1_500), max: either(400, 3_000) },
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
