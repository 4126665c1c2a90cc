//! A control plane of the simulation: core's governor on the simulated bus, the outbox in its order, and the
//! ledger's fence as its only certainty.

mod overseeing;
mod settling;
mod sweeping;

use std::sync::Arc;

use tetrarch_core::governor::{Governor, GovernorAction, OwnerStart, StoredRequest};
use tetrarch_core::id::{AgentId, HostName, RunId};
use tetrarch_core::ledger::{Entry, RecordKey};
use tetrarch_core::mail::Lane;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::records::Records;
use tetrarch_core::request::Request;
use tetrarch_core::restart::{Amnesia, Memory};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_tests::simulated::{Commit, commit};

use crate::bug::Bug;
use crate::bus::{Bus, Published, Stored, View};
use crate::dice::Dice;
use crate::rules::Rules;
use crate::tally::Tally;

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
    governor: Governor<()>,
    /// How often it has loaded everything, and whether it has sent a commit.
    loads: u64,
    has_begun: bool,
    /// Entries of the ledger that are folded into the records.
    known: usize,
    /// Requests taken from the stream.
    taken: usize,
    /// Inputs that are decided and not in an entry, and whether an entry was of several.
    inputs: usize,
    grouped: bool,
    /// Entries whose outbox this one has done, and the classes of the next.
    published: usize,
    class: u8,
    /// When its governor wants to be woken.
    wake: Option<BusTime>,
    /// The journals of lost runs that are read next, and when.
    reading: Option<(BusTime, Vec<(AgentId, RunId)>)>,
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
            sweeping: Sweeping::start(&records, rules.mass, now),
            governor: governor(records, epoch, 0, &rules),
            rules,
            overseeing: Overseeing::start(now),
            paused: BusTime::default(),
            deaf: BusTime::default(),
            mute: BusTime::default(),
            muted: None,
            loads: 0,
            has_begun: false,
            known: 0,
            taken: 0,
            inputs: 0,
            grouped: false,
            published: 0,
            asked_again: false,
            class: 0,
            wake: None,
            reading: None,
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
        if restart.deposed_by(self.epoch, self.has_begun).is_some() {
            return Err(Stop::Deposed);
        }
        self.known = end;
        let records = restart.records();
        self.taken = usize::try_from(records.intake_seq).unwrap_or(usize::MAX);
        self.sweeping = Sweeping::start(&records, self.rules.mass, now);
        self.loads += 1;
        self.governor = governor(records, self.epoch, self.loads, &self.rules);
        (self.inputs, self.wake, self.reading) = (0, None, None);
        self.advance(now);
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

    /// Has the governor decide on what there is, and does what it says.
    fn advance(&mut self, now: BusTime) {
        while let Some(next) = self.governor.next(now) {
            self.governor.decide(&next, now);
            self.inputs += 1;
        }
        for action in self.governor.actions(now) {
            match action {
                GovernorAction::Commit(outgoing) => {
                    self.has_begun = true;
                    self.grouped |= std::mem::take(&mut self.inputs) > 1;
                    self.sweeping.learn(&outgoing.entry, now);
                }
                GovernorAction::Reply(answers) => {
                    assert!(answers.is_empty(), "nobody here asks what is only answered");
                }
                GovernorAction::Wake(at) => self.wake = at,
                GovernorAction::Revoke(host, epoch) => self.sweeping.revoke(host, epoch, now),
                GovernorAction::Settle(lost, wait) => self.reading = Some((now + wait, lost)),
                // Nobody here looks at journals that are kept.
                GovernorAction::Archive(_) => {}
            }
        }
    }

    /// Whether there is something to decide on.
    pub(crate) fn can_take(&self, bus: &Bus, now: BusTime) -> bool {
        let waits = self.taken < bus.requests.len() || !self.sweeping.found.is_empty();
        let due = self.next_deadline().is_some_and(|at| at <= now);
        self.is_up(now) && (waits || due) && self.governor.waiting() == 0
    }

    /// When something is due that nobody asks for.
    pub(crate) fn next_deadline(&self) -> Option<BusTime> {
        let reads = self.reading.as_ref().map(|(at, _)| *at);
        let looks = self.overseeing.next(self.governor.records());
        let own = self.wake.into_iter().chain(looks);
        own.filter(|_| self.rules.bug != Some(Bug::NeverDue)).chain(reads).min()
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

    /// Its sweeper does what is due.
    pub(crate) fn sweep(&mut self, outage: bool, around: &mut Around<'_>) {
        let now = around.now;
        if !self.is_up(now) {
            return;
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
        for found in std::mem::take(&mut self.sweeping.found) {
            self.governor.put(found);
        }
        for _ in 0..count {
            let Some(request) = bus.requests.get(self.taken) else { break };
            self.taken += 1;
            let request = self.spoilt(request);
            if self.governor.records().decisions.contains_key(&request.id) {
                tally.note("request repeated");
            }
            let stored = StoredRequest { last: true, at: now, bytes: 100 };
            self.governor.put_request(Box::new(request), stored, ());
        }
        if self.rules.bug != Some(Bug::NeverDue) && self.wake.take_if(|at| *at <= now).is_some() {
            let waiting = self.governor.waiting();
            self.governor.woken(now);
            if self.governor.waiting() > waiting {
                tally.note("deadline passed");
            }
        }
        let lost = self.settle(bus, now);
        let looked = self.oversee(now);
        self.advance(now);
        if std::mem::take(&mut self.grouped) {
            tally.note("group of several inputs");
        }
        if lost > self.unsettled() {
            tally.note("lost run settled");
        }
        looked.map_or(Ok(()), |looked| self.look_again(looked, now, tally))
    }

    /// A request as an owner with a planted bug takes it.
    fn spoilt(&self, request: &Request) -> Request {
        let mut request = request.clone();
        let sender = &mut request.sender;
        let agent = sender.from.agent().and_then(|id| self.governor.records().agents.get(id));
        if let Some(agent) = agent
            && self.rules.bug == Some(Bug::EpochUnchecked)
        {
            (sender.epoch, sender.session) = (agent.epoch, agent.session);
        }
        request
    }

    /// Whether it waits for journals of lost runs.
    pub(crate) fn reads(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether it has room for what comes of a deadline.
    pub(crate) fn can_decide(&self) -> bool {
        self.governor.waiting() == 0 && !self.can_send()
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
        self.governor.in_flight().is_some_and(|entry| Some(entry.commit) == last)
    }

    /// Whether a commit is in flight.
    pub(crate) fn can_send(&self) -> bool {
        self.governor.in_flight().is_some()
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
        let Some(entry) = self.governor.in_flight().map(Arc::clone) else { return Sent::Unknown };
        if self.rules.bug == Some(Bug::SentBeforeCommit) {
            Self::send_early(&entry, bus);
        }
        let mut written = Entry::clone(&entry);
        bug(&mut written);
        let unfenced = self.rules.bug == Some(Bug::UnfencedLedger);
        let expect = if unfenced { bus.ledger.len() } else { self.known };
        let sent = match way {
            Way::Lost | Way::Busy => return Sent::Unknown,
            Way::Refused => Commit::Reload(bus.ledger.len() as u64),
            Way::Clear | Way::Unheard => commit(&mut bus.ledger, &written, expect as u64),
        };
        let sent = match sent {
            Commit::Stored(seq) if way == Way::Unheard => return Sent::Applied(seq),
            Commit::Stored(seq) => Sent::Applied(seq),
            Commit::Known(_) => Sent::Known,
            Commit::Deposed(_) => return Sent::Deposed,
            Commit::Reload(_) => {
                return match self.reload(bus, sight, now) {
                    Ok(()) => Sent::Reloaded,
                    Err(Stop::Amnesia(_)) => Sent::Amnesia,
                    Err(Stop::Deposed) => Sent::Deposed,
                };
            }
        };
        self.known = bus.ledger.len();
        self.governor.committed();
        self.advance(now);
        sent
    }

    /// The records, when nothing is decided that is not on the ledger as this owner knows it.
    pub(crate) fn settled_records(&self) -> Option<&Records> {
        self.governor.is_settled().then(|| self.governor.records())
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

/// A governor that begins on these records, with what is planted.
fn governor(mut records: Records, epoch: u64, loads: u64, rules: &Rules) -> Governor<()> {
    let mut policy = rules.policy.clone();
    if rules.bug == Some(Bug::ForgottenRequest) {
        let decided: Vec<_> = records.decisions.keys().copied().collect();
        decided.into_iter().for_each(|id| records.remove(&RecordKey::Decision(id)));
    }
    if rules.bug == Some(Bug::BackoffForgotten) {
        policy.overseer.backoff = Backoff { base: Millis(0), max: Millis(0) };
    }
    let instance = format!("owner{epoch}");
    Governor::new(OwnerStart { instance, epoch, loads, policy, records, found: Vec::new() })
}
