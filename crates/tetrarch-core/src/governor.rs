//! The governor's machine: one owner from what it loaded to the first commit that fails (spec 02, One ledger, one
//! owner). What arrives is queued and decided in its order; the decisions are grouped into entries, of which one is
//! in flight; what follows from an entry waits for its commit; what nobody asks for is done in time. It performs
//! nothing: the engine does on the bus, and the simulation on its own, what it says. A commit that fails ends it.
//!
//! A shell puts in what arrived, decides with [`Governor::next`] and [`Governor::decide`] until nothing fits, and
//! performs [`Governor::actions`]. It repeats that until there are none.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use queue::Queue;
pub use queue::{QueueItem, StoredRequest};

use crate::audit::CredentialAct;
use crate::id::{AgentId, CommitId, HostName, RequestId, RunId};
use crate::ledger::Entry;
use crate::mail::Mail;
use crate::overseer::Telemetry;
use crate::owner::{
    Archived, Failures, Fill, Group, Input, PlannerQuestion, Policy, Posted, Reclaim, Settlement,
    Unarchived, answer, archiving_at, decide, forgetting_is_late, is_due, next_deadline, reclaim,
    refusal_of_mail, unanswering_hosts, unarchived, unsettled,
};
use crate::records::Records;
use crate::request::Request;
use crate::time::{BusTime, Millis};
use crate::trouble::Trouble;

/// Answers to reads that wait for the commit of what they tell; nothing is decided meanwhile.
const ANSWERS_MAX: usize = 1024;
/// Time in which is decided before what else arrived is looked at: who asks one thing does not wait for the rest of an
/// entry of others.
const DECIDED_AT_ONCE: Duration = Duration::from_millis(10);
/// The least time to a deadline's tick: what one tick left over is not done in one go with requests.
const DEADLINE_PAUSE: Millis = Millis(20);
/// Time to the next look at journals of lost runs that have not ended.
const SETTLE_AGAIN: Millis = Millis(2_000);

/// What an owner begins with.
#[derive(Debug)]
pub struct OwnerStart {
    /// What tells its process from others.
    pub instance: String,
    /// Its epoch.
    pub epoch: u64,
    /// How often this epoch has loaded everything: no two of its commits have the same id.
    pub loads: u64,
    /// What an operator has set.
    pub policy: Policy,
    /// What it loaded.
    pub records: Records,
    /// What it found wrong with that.
    pub found: Vec<Trouble>,
}

/// What a shell has to do.
#[derive(Debug)]
pub enum GovernorAction {
    /// Put this into the ledger, do what follows from it, and call [`Governor::committed`].
    Commit(Outgoing),
    /// Send these, each with the sequence of its request: what they tell is committed.
    Reply(Vec<(u64, Mail)>),
    /// Call [`Governor::woken`] at this time, in place of the last one that was said; none: at no time.
    Wake(Option<BusTime>),
    /// Have the lease taken of a host that does not end what it was ordered to end in this epoch.
    Revoke(HostName, u64),
    /// Read the journals of these runs, each with whose record waits for it, after this time; then call
    /// [`Governor::settled`].
    Settle(Vec<(AgentId, RunId)>, Millis),
    /// Keep the journals of these runs, and then call [`Governor::archived`].
    Archive(Vec<Unarchived>),
}

/// An entry, and what follows once it is in the ledger and not before: the answers are sent, the planner is asked,
/// the outbox takes the entry.
#[derive(Debug)]
pub struct Outgoing {
    /// The entry; as long as its outcome is unknown the same is sent again.
    pub entry: Arc<Entry>,
    /// Answers that tell of it, each with the sequence of its request.
    pub answers: Vec<(u64, Mail)>,
    /// What the planner is asked.
    pub questions: Vec<PlannerQuestion>,
}

/// The machine. `P`: what holds a place of the queue until it is decided on.
#[derive(Debug)]
pub struct Governor<P> {
    /// What ids of commits derive from.
    seed: String,
    epoch: u64,
    policy: Policy,
    /// With what is decided and not committed.
    records: Records,
    queue: Queue<P>,
    group: Group,
    /// Answers that wait for the commit of what they tell.
    answers: Vec<(u64, Mail)>,
    /// Time that deciding took since there were actions.
    spent: Duration,
    /// The entry that is sent and whose outcome is not known.
    in_flight: Option<Arc<Entry>>,
    commits: usize,
    /// When the overseer looked last; at the start of time when it has not.
    looked: BusTime,
    /// When it has to be woken, as it said last.
    wake: Option<BusTime>,
    /// Whether journals of lost runs are being read, and of which they were last.
    settling: (bool, Vec<(AgentId, RunId)>),
    /// Runs whose journals are being kept.
    archiving: Option<Vec<RunId>>,
    failures: Failures,
    /// Hosts whose lease it had taken, with their epochs.
    revoked: BTreeSet<(HostName, u64)>,
    actions: Vec<GovernorAction>,
}

impl<P> Governor<P> {
    /// A governor that has its start to decide on.
    #[must_use]
    pub fn new(start: OwnerStart) -> Self {
        let OwnerStart { instance, epoch, loads, policy, records, found } = start;
        let mut governor = Self {
            seed: format!("{instance} {epoch} {loads}"),
            epoch,
            queue: Queue::new(policy.requests_per_second),
            policy,
            records,
            group: Group::default(),
            answers: Vec::new(),
            spent: Duration::ZERO,
            in_flight: None,
            commits: 0,
            looked: BusTime(0),
            wake: None,
            settling: (false, Vec::new()),
            archiving: None,
            failures: Failures::default(),
            revoked: BTreeSet::new(),
            actions: Vec::new(),
        };
        governor.put(Input::Started { epoch, instance });
        found.into_iter().for_each(|trouble| governor.put(Input::Trouble(trouble)));
        governor
    }

    /// The records, with what is decided and not committed.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// What an operator has set.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many inputs wait for a decision.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When the overseer looked last; at the start of time when it has not.
    #[must_use]
    pub fn looked(&self) -> BusTime {
        self.looked
    }

    /// The entry whose outcome is not known; the same is to be sent again.
    #[must_use]
    pub fn in_flight(&self) -> Option<&Arc<Entry>> {
        self.in_flight.as_ref()
    }

    /// Whether everything that is decided is committed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_none() && self.group.is_empty()
    }
}

/// What arrives.
impl<P> Governor<P> {
    /// Queues what holds no place: there are few of it.
    pub fn put(&mut self, input: Input) {
        self.queue.push(input);
    }

    /// Queues what holds a place until it is decided on.
    pub fn put_placed(&mut self, input: Input, place: P) {
        self.queue.push_placed(input, place);
    }

    /// Queues a message of `REQUESTS`.
    pub fn put_request(&mut self, request: Box<Request>, stored: StoredRequest, place: P) {
        self.queue.push_request(request, stored, place);
    }

    /// Queues a message to GO, unless it is beyond its writer's share. Gives why GO does not take it, when it is
    /// to be set aside.
    pub fn put_mail(&mut self, posted: Posted, place: P, now: BusTime) -> Option<String> {
        if !self.queue.takes_mail(&posted, now) {
            return None;
        }
        let refused = refusal_of_mail(&self.records, &posted);
        self.queue.push_placed(Input::Post(Box::new(posted)), place);
        refused
    }

    /// Queues acts on credentials; gives those that the ledger has.
    pub fn put_acts(&mut self, acts: Vec<CredentialAct>) -> Vec<RequestId> {
        let is_known = |act: &CredentialAct| self.records.decisions.contains_key(&act.id);
        let (known, new): (Vec<_>, Vec<_>) = acts.into_iter().partition(is_known);
        for act in new {
            self.put(Input::Credential(Box::new(act)));
        }
        // With a commit in flight the records are ahead of the ledger.
        let is_settled = self.is_settled();
        known.into_iter().filter(|_| is_settled).map(|act| act.id).collect()
    }

    /// Takes how full the streams are that others fill; gives what has to go of it.
    pub fn filled(&mut self, fill: Fill) -> Reclaim {
        let given_up = reclaim(&self.records, &fill);
        self.queue.refuse_for_unread(fill.backlogs);
        if !given_up.senders.is_empty() {
            let senders = given_up.senders.clone();
            self.put(Input::Trouble(Trouble::MailDropped { senders }));
        }
        if let Some((agent, entries)) = given_up.writer.clone() {
            self.put(Input::Trouble(Trouble::JournalsDropped { agent, entries }));
        }
        given_up
    }

    /// Queues a look of the overseer's.
    pub fn oversee(&mut self, telemetry: Telemetry, now: BusTime) {
        self.put(Input::Oversee(Telemetry { looked: self.looked, ..telemetry }));
        self.looked = now;
    }

    /// No work is taken from now on, for this reason; none: it is.
    pub fn halt(&mut self, why: Option<String>) {
        self.policy.halted = why;
    }

    /// What an operator may set is this from now on, but for what a start settles: depth, window, the rate of senders,
    /// the planner (spec 12, Reload).
    pub fn reconfigure(&mut self, policy: Policy) {
        let Policy { max_depth, requests_per_second, window, planner, halted, .. } =
            std::mem::take(&mut self.policy);
        self.policy = Policy { max_depth, requests_per_second, window, planner, halted, ..policy };
    }

    /// Time has passed: what is due is done.
    pub fn tick(&mut self) {
        // Another wake-up is said when more is due.
        self.wake = None;
        self.queue.tell_over_share();
        self.put(Input::Tick);
    }

    /// The time is there that was said last.
    pub fn woken(&mut self, now: BusTime) {
        self.wake = None;
        if self.deadline(now).is_some_and(|at| at <= now) {
            self.tick();
        }
    }

    /// Journals of lost runs were read, as far as they could be.
    pub fn settled(&mut self, read: Vec<Settlement>) {
        self.settling.0 = false;
        if !read.is_empty() {
            self.put(Input::Settled(read));
        }
    }

    /// Journals of ended runs were kept, as far as they could be.
    pub fn archived(&mut self, kept: Vec<Archived>, now: BusTime) {
        self.failures.note(&self.archiving.take().unwrap_or_default(), &kept, now);
        kept.into_iter().for_each(|it| self.put(Input::Archived(it)));
    }

    /// The entry in flight is in the ledger. As long as this is not said nothing more is committed, so an owner whose
    /// commit failed commits nothing.
    pub fn committed(&mut self) {
        if self.in_flight.take().is_some() && is_due(&self.records, &self.policy) {
            self.put(Input::Tick);
        }
    }
}

/// What is decided, and what is to be done.
impl<P> Governor<P> {
    /// What is decided on next; none when nothing waits, or has room in the entry that is made, or when deciding took
    /// long enough.
    pub fn next(&mut self, now: BusTime) -> Option<QueueItem> {
        let has_time = self.spent < DECIDED_AT_ONCE;
        if has_time && self.has_room() { self.queue.next(now) } else { None }
    }

    /// Whether there is more to decide on as soon as the actions are performed.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.has_room() && self.queue.has_next()
    }

    fn has_room(&self) -> bool {
        !self.group.is_full() && self.answers.len() < ANSWERS_MAX
    }

    /// Decides on it. What only reads is answered from the records as they now are.
    pub fn decide(&mut self, next: &QueueItem, now: BusTime) {
        let (step, through) = match next {
            QueueItem::Decide(input, through) => {
                (decide(&self.records, &self.policy, now, input), *through)
            }
            QueueItem::Read(request, through) => {
                let mail = answer(&self.records, &self.policy, now, request);
                self.answers.extend(mail.map(|mail| (request.seq, mail)));
                (Default::default(), *through)
            }
            QueueItem::Passed(through) => (Default::default(), *through),
        };
        let wrote = self.group.add(&mut self.records, step, through);
        if let QueueItem::Decide(Input::Request(request), _) = next {
            self.queue.wrote(request, wrote, now);
        }
    }

    /// Counts what a decision took of the processor's time.
    pub fn took(&mut self, decided: &QueueItem, took: Duration, now: BusTime) {
        self.spent += took;
        match decided {
            QueueItem::Decide(Input::Request(request), _) | QueueItem::Read(request, _) => {
                self.queue.took(request, Millis::from(took), now);
            }
            QueueItem::Decide(..) | QueueItem::Passed(_) => {}
        }
    }

    /// What is to be done, in this order.
    #[must_use]
    pub fn actions(&mut self, now: BusTime) -> Vec<GovernorAction> {
        self.spent = Duration::ZERO;
        self.commit(now);
        self.settle();
        self.archive(now);
        self.revoke(now);
        self.set_wake(now);
        std::mem::take(&mut self.actions)
    }

    /// Makes the next entry when none is in flight.
    fn commit(&mut self, now: BusTime) {
        if self.in_flight.is_some() {
            return;
        }
        self.queue.next_entry();
        let answers = std::mem::take(&mut self.answers);
        if self.group.is_empty() {
            return self.reply(answers);
        }
        self.commits += 1;
        let commit = CommitId::derive(now, &self.seed, "commit", self.commits);
        let group = std::mem::take(&mut self.group);
        let entry = Arc::new(group.finish(&mut self.records, commit, self.epoch, now));
        let questions = PlannerQuestion::all_of(&entry, &self.records);
        self.in_flight = Some(Arc::clone(&entry));
        self.actions.push(GovernorAction::Commit(Outgoing { entry, answers, questions }));
    }

    fn reply(&mut self, answers: Vec<(u64, Mail)>) {
        if !answers.is_empty() {
            self.actions.push(GovernorAction::Reply(answers));
        }
    }

    /// Has the journals read of runs that ended without a result.
    fn settle(&mut self) {
        let (is_reading, last) = &mut self.settling;
        if *is_reading || !self.queue.is_empty() {
            return;
        }
        let lost = unsettled(&self.records);
        if lost.is_empty() {
            return;
        }
        // When the same are still to be read, their journals have not ended.
        let wait = if lost == *last { SETTLE_AGAIN } else { Millis(0) };
        last.clone_from(&lost);
        *is_reading = true;
        self.actions.push(GovernorAction::Settle(lost, wait));
    }

    /// When journals are to be kept next; at no time while some are, or other things are more urgent.
    fn archiving_at(&self, now: BusTime) -> Option<BusTime> {
        let busy = self.archiving.is_some() || !self.queue.is_empty();
        if busy || self.policy.halted.is_some() {
            return None;
        }
        archiving_at(&self.records, &self.failures, now)
    }

    /// Has the journals kept of runs that ended.
    fn archive(&mut self, now: BusTime) {
        if self.archiving_at(now).is_some_and(|at| at <= now) {
            let runs = unarchived(&self.records, &self.failures, now);
            self.archiving = Some(runs.iter().map(|it| it.run).collect());
            self.actions.push(GovernorAction::Archive(runs));
        }
    }

    /// Has the leases taken of hosts that do not end what they were ordered to end.
    fn revoke(&mut self, now: BusTime) {
        for (host, epoch) in unanswering_hosts(&self.records, now) {
            if self.revoked.insert((host.clone(), epoch)) {
                self.actions.push(GovernorAction::Revoke(host.clone(), epoch));
            }
        }
    }

    /// When something is due that nobody asks for.
    fn deadline(&self, now: BusTime) -> Option<BusTime> {
        let deadline = next_deadline(&self.records, &self.policy, now);
        deadline.into_iter().chain(forgetting_is_late(&self.records, &self.policy)).min()
    }

    fn set_wake(&mut self, now: BusTime) {
        if !self.queue.is_empty() {
            // What waits for room in a commit is decided first.
            return;
        }
        let at = self.deadline(now).into_iter().chain(self.archiving_at(now)).min();
        if at != self.wake {
            self.wake = at;
            self.actions.push(GovernorAction::Wake(at.map(|at| at.max(now + DEADLINE_PAUSE))));
        }
    }
}
