//! The owner's actor: decides on what the intake brings, commits, and hands committed entries
//! to the outbox. It holds core's records and decides nothing itself.

mod taking;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::Bus;
use tetrarch_bus::commit::{CommitError, Committer};
use tetrarch_bus::inbox::Incoming;
use tetrarch_bus::intake::Intaken;
use tetrarch_bus::journal::JournalName;
use tetrarch_bus::mailbox::opening::Openings;
use tetrarch_bus::outbox::{Announcer, Recorder};
use tetrarch_core::id::{CommitId, HostName};
use tetrarch_core::mail::Mail;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::owner::{
    Archived, Fill, Group, Input, Policy, Settlement, forgetting_is_late, is_due, next_deadline,
    stalling, unanswering_hosts, unsettled,
};
use tetrarch_core::records::Records;
use tetrarch_core::snapshot::Retention;
use tetrarch_core::time::BusTime;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::TermEnd;
use super::archiving::Archiving;
use super::credentials::CredentialActs;
use super::diagnosing::{Diagnosed, Diagnosing};
use super::expiring;
use super::heartbeats::HeartbeatTable;
use super::intaking::{intake, looks, ticks};
use super::keeping::{self, Keeping, OutboxProgress};
use super::memory::StoredMemory;
use super::planning::{self, PlannerConfig, PlannerHandle, PlannerQuestion};
use super::posting;
use super::publishing::{Committed, ENTRIES_FOR_OUTBOX, announce, record};
use super::queue::Queue;
use super::reached;
use super::reclaiming;
use super::replying::Replying;
use super::restore::Restored;
use super::settling::Settling;
use super::sweeper_handle::SweeperHandle;
use super::sweeping::{self, SweepConfig, SweeperMsg};
use crate::clock::Clock;
use crate::error::EngineError;
use crate::metrics::Leading;
use crate::pump::{Pump, WithPermit};

/// How often what is due is done when nothing else happens.
const TICK_EVERY: Duration = Duration::from_secs(60);
/// The least time to a deadline's tick: what one tick left over is not done in one go with requests.
const DEADLINE_PAUSE: Duration = Duration::from_millis(20);

/// Answers to reads that wait for the commit of what they tell; no more is read meanwhile.
const ANSWERS_MAX: usize = 1024;

/// What the owner's actor is told.
pub(super) enum OwnerMsg {
    /// Requests arrived.
    Intake(WithPermit<Vec<Intaken>>),
    /// A message to GO.
    Posted(WithPermit<Box<Incoming>>),
    /// An external agent gave a sign of life.
    Heard(WithPermit<Input>),
    /// The commit in flight has an outcome.
    Committed(Box<Result<Committer, CommitError>>),
    /// The sweeper, or the keeper of the ledger, found something.
    Found(Box<Input>),
    /// How full the streams are that others fill.
    Filled(Box<Fill>),
    /// Something may be due.
    Tick,
    /// The overseer is to look at what stands still.
    Oversee,
    /// What the journals of what stands still say; the overseer looks now.
    Diagnosed(Diagnosed),
    /// What the journals of lost runs say.
    Settled(Vec<Settlement>),
    /// Journals of ended runs have waited for long enough.
    ArchivingIsDue,
    /// Journals of ended runs are kept.
    Archived(Vec<Archived>),
    /// Something was done with credentials.
    Credentials(CredentialActs),
}

/// What it is started with.
pub(super) struct OwnerArgs {
    pub(super) bus: Bus,
    pub(super) policy: Policy,
    pub(super) planner: Option<PlannerConfig>,
    pub(super) halted: watch::Receiver<Option<String>>,
    pub(super) retention: Retention,
    pub(super) mail_age: Duration,
    pub(super) instance: String,
    pub(super) epoch: u64,
    pub(super) patience: SweepConfig,
    pub(super) tick_every: Option<Duration>,
    pub(super) clock: Clock,
    pub(super) restored: Restored,
    pub(super) memory: watch::Sender<StoredMemory>,
    pub(super) ready: watch::Sender<bool>,
    pub(super) ending: mpsc::Sender<Result<TermEnd, EngineError>>,
}

/// The actor.
pub(super) struct OwnerActor;

/// Its state.
pub(super) struct OwnerState {
    bus: Bus,
    policy: Policy,
    halted: watch::Receiver<Option<String>>,
    instance: String,
    epoch: u64,
    clock: Clock,
    heartbeats: HeartbeatTable,
    diagnosing: Diagnosing,
    /// When the overseer looked last; at the start of time when it has not.
    looked: BusTime,
    leading: Leading,
    settling: Settling,
    archiving: Archiving,
    records: Records,
    group: Group,
    queue: Queue,
    /// Answers that wait for the commit of what they tell.
    answers: Vec<(u64, Mail)>,
    replying: Replying,
    committer: Option<Committer>,
    commits: usize,
    sweeper_handle: SweeperHandle,
    asking: PlannerHandle,
    outbox: mpsc::Sender<Committed>,
    memory: watch::Sender<StoredMemory>,
    ready: watch::Sender<bool>,
    ending: mpsc::Sender<Result<TermEnd, EngineError>>,
    pumps: Vec<Pump>,
    /// The next deadline, and the timer set to it.
    timer: Option<(BusTime, Pump)>,
    /// Hosts whose lease the sweeper was told to take, with their epochs.
    revoked: HashSet<(HostName, u64)>,
}

impl Actor for OwnerActor {
    type Msg = OwnerMsg;
    type State = OwnerState;
    type Arguments = OwnerArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<OwnerMsg>,
        args: OwnerArgs,
    ) -> Result<OwnerState, ActorProcessingErr> {
        let OwnerArgs { bus, policy, retention, instance, epoch, patience, clock, .. } = args;
        let heartbeats = HeartbeatTable::new(clock);
        let (asking, answers) =
            planning::start(args.planner.as_ref(), &args.restored.records, myself.clone())?;
        let OwnerArgs { halted, restored, memory, ready, ending, tick_every, mail_age, .. } = args;
        let Restored { records, last, intake_seq, unpublished, revisions, .. } = restored;
        let Restored { server, kept, troubles, holds, .. } = restored;
        let (outbox, entries) = mpsc::channel(ENTRIES_FOR_OUTBOX);
        let (announced, images) = mpsc::channel(ENTRIES_FOR_OUTBOX);
        let (recorded, told) = watch::channel(OutboxProgress::default());
        let announcer = Announcer::new(bus.clone());
        let recorder = Recorder::new(bus.clone(), revisions, kept.ledger.created.clone(), server);
        memory.send_replace(kept);
        let keeping = Keeping { bus: bus.clone(), retention, clock, owner: myself.clone(), holds };
        let (reading, shrunk) = intake(&bus, intake_seq, &myself).await?;
        let (sweeper, sweeping) =
            sweeping::start(&bus, (patience, heartbeats.clone()), &records, myself.clone()).await?;
        let mut pumps = vec![
            ("announcer", announce(announcer, unpublished, entries, announced, ending.clone())),
            ("recorder", record(recorder, images, (recorded, memory.clone()), ending.clone())),
            ("keeper", keeping::start(keeping, &records, told)),
            ("intake", reading),
            ("sweeper", sweeping),
            ("openings", Pump::run(Openings::listen(&bus).await?.serve())),
            ("planner", answers),
            ("clock", ticks(&myself, TICK_EVERY, || OwnerMsg::Tick)),
            ("reclaimer", reclaiming::start(&bus, &myself)),
            ("post", posting::start(&bus, &records, &myself, ending.clone())),
            ("expiry", expiring::start(&bus, mail_age, clock, &myself)),
        ];
        pumps.extend(tick_every.map(|it| ("overseer", ticks(&myself, it, || OwnerMsg::Oversee))));
        let ending_pumps = pumps.into_iter().map(|(name, pump)| pump.or_ends(name, &ending));
        let pumps = ending_pumps.chain(looks(&bus, &records, &myself)).collect();
        let found = troubles.into_iter().chain(shrunk).map(Input::Trouble);
        let first = std::iter::once(Input::Started { epoch, instance: instance.clone() });
        let mut state = OwnerState {
            queue: Queue::new(policy.requests_per_second, first.chain(found)),
            committer: Some(Committer::new(bus.clone(), last, epoch)),
            heartbeats,
            diagnosing: Diagnosing::new(bus.clone()),
            looked: BusTime(0),
            leading: Leading::new(),
            settling: Settling::new(bus.clone()),
            replying: Replying::new(bus.clone(), epoch),
            archiving: Archiving::new(bus.clone()),
            bus,
            policy,
            halted,
            instance,
            epoch,
            clock,
            records,
            group: Group::default(),
            answers: Vec::new(),
            commits: 0,
            sweeper_handle: SweeperHandle::new(sweeper),
            asking,
            outbox,
            memory,
            ready,
            ending,
            pumps,
            timer: None,
            revoked: HashSet::new(),
        };
        state.advance(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<OwnerMsg>,
        message: OwnerMsg,
        state: &mut OwnerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OwnerMsg::Intake(WithPermit { item: batch, permit }) => {
                let permit = Arc::new(permit);
                for taken in batch {
                    state.take(taken, &permit);
                }
            }
            OwnerMsg::Posted(WithPermit { item, permit }) => state.post(*item, permit),
            OwnerMsg::Heard(WithPermit { item, permit }) => {
                state.queue.push_with_permit(item, Arc::new(permit))
            }
            OwnerMsg::Found(found) => state.queue.push(*found),
            OwnerMsg::Filled(fill) => state.make_room(*fill),
            OwnerMsg::Tick => {
                // Another is set when more is due.
                state.timer = None;
                state.queue.tell_over_share();
                state.queue.push(Input::Tick);
            }
            OwnerMsg::Oversee => {
                let (now, telemetry) = (state.clock.now(), state.telemetry());
                let stalling = stalling(&state.records, &state.policy, &telemetry, now);
                let known = stalling.iter().filter_map(|run| state.records.runs.get(run));
                let journals = known.map(JournalName::of).collect();
                if !state.diagnosing.begins(journals, &myself) {
                    state.oversee();
                }
            }
            OwnerMsg::Diagnosed(known) => {
                state.diagnosing.ended(known);
                state.oversee();
            }
            OwnerMsg::Settled(read) => {
                state.settling.ended();
                if !read.is_empty() {
                    state.queue.push(Input::Settled(read));
                }
            }
            OwnerMsg::ArchivingIsDue => state.archiving.is_due(),
            OwnerMsg::Archived(kept) => {
                state.archiving.ended(&kept, state.clock.now());
                for it in kept {
                    state.queue.push(Input::Archived(it));
                }
            }
            OwnerMsg::Credentials(done) => state.credentials(done),
            OwnerMsg::Committed(outcome) => state.committed(*outcome),
        }
        state.advance(&myself);
        state.settle_the_lost(&myself);
        state.keep_journals(&myself);
        state.sweeper_handle.tell(&state.records);
        state.revoke_the_unanswering();
        state.set_timer(&myself);
        Ok(())
    }
}

impl OwnerState {
    fn telemetry(&self) -> Telemetry {
        let Diagnosed { diagnoses, words } = self.diagnosing.known();
        let looked = self.looked;
        Telemetry { looked, diagnosed: diagnoses, words, ..self.heartbeats.telemetry() }
    }

    /// Has the journals read of runs that ended without a result.
    fn settle_the_lost(&mut self, myself: &ActorRef<OwnerMsg>) {
        if self.settling.is_reading() || !self.queue.is_empty() {
            return;
        }
        let lost = unsettled(&self.records);
        if !lost.is_empty() {
            self.settling.begins(&self.records, lost, myself);
        }
    }

    /// Has the journals kept of runs that ended, when nothing else is to be decided on.
    fn keep_journals(&mut self, myself: &ActorRef<OwnerMsg>) {
        let busy = self.archiving.is_working() || !self.queue.is_empty();
        if busy || self.policy.halted.is_some() {
            return;
        }
        self.archiving.goes_on(&self.records, self.clock, myself);
    }

    fn oversee(&mut self) {
        let telemetry = self.telemetry();
        self.looked = self.clock.now();
        self.queue.push(Input::Oversee(telemetry));
    }

    /// Decides on what waits, as far as it fits into one entry, and commits when no commit is in
    /// flight.
    fn advance(&mut self, myself: &ActorRef<OwnerMsg>) {
        if self.halted.has_changed().unwrap_or(false) {
            self.policy.halted.clone_from(&self.halted.borrow_and_update());
        }
        self.decide_what_fits();
        self.leading.look(&self.records, self.queue.len());
        if self.group.is_empty() {
            if self.committer.is_some() {
                self.replying.send(std::mem::take(&mut self.answers));
            }
            return;
        }
        let Some(mut committer) = self.committer.take() else { return };
        self.commits += 1;
        let now = self.clock.now();
        let seed = format!("{} {}", self.instance, self.epoch);
        let commit = CommitId::derive(now, &seed, "commit", self.commits);
        let group = std::mem::take(&mut self.group);
        let entry = Arc::new(group.finish(&mut self.records, commit, self.epoch, now));
        self.sweeper_handle.note(&entry);
        let questions = PlannerQuestion::all_of(&entry, &self.records);
        let (to, outbox, memory) = (myself.clone(), self.outbox.clone(), self.memory.clone());
        let (asking, metrics) = (self.asking.clone(), self.leading.metrics.clone());
        let (replying, answers) = (self.replying.clone(), std::mem::take(&mut self.answers));
        // The task reports back by itself; a dropped actor has no use for the outcome.
        drop(tokio::spawn(async move {
            reached::decided(&entry);
            let began = Instant::now();
            let outcome = committer.commit(&entry).await.map(|seq| (seq, committer));
            if let Ok((seq, _)) = &outcome {
                reached::committed(&entry);
                metrics.committed(&entry, began.elapsed());
                replying.send(answers);
                memory.send_modify(|kept| kept.ledger.high = kept.ledger.high.max(*seq));
                asking.ask(questions).await;
                // A closed outbox has told why.
                let _closed = outbox.send((*seq, entry)).await;
            }
            let outcome = outcome.map(|(_, committer)| committer);
            let _ended = to.cast(OwnerMsg::Committed(Box::new(outcome)));
        }));
    }

    /// Wakes this actor when the next deadline passes.
    fn set_timer(&mut self, myself: &ActorRef<OwnerMsg>) {
        if !self.queue.is_empty() {
            // What waits for room in a commit is decided first.
            return;
        }
        let deadline = next_deadline(&self.records, &self.policy, self.clock.now());
        let late = forgetting_is_late(&self.records, &self.policy);
        let Some(at) = deadline.into_iter().chain(late).min() else {
            self.timer = None;
            return;
        };
        if self.timer.as_ref().is_some_and(|(set, _)| *set == at) {
            return;
        }
        let (wait, to) = (self.clock.until(at).max(DEADLINE_PAUSE), myself.clone());
        let waking = Pump::run(async move {
            tokio::time::sleep(wait).await;
            // An actor that ended needs no timer.
            let _ended = to.cast(OwnerMsg::Tick);
        });
        self.timer = Some((at, waking));
    }

    /// Has the leases taken of hosts that do not end what they were ordered to end.
    fn revoke_the_unanswering(&mut self) {
        for (host, epoch) in unanswering_hosts(&self.records, self.clock.now()) {
            if self.revoked.insert((host.clone(), epoch))
                && let Err(error) =
                    self.sweeper_handle.sweeper.try_send(SweeperMsg::Revoke(host.clone(), epoch))
            {
                tracing::error!(%host, %error, "an order to the sweeper was dropped");
                // It is told at the next input.
                self.revoked.remove(&(host.clone(), epoch));
                return;
            }
        }
    }

    fn committed(&mut self, outcome: Result<Committer, CommitError>) {
        let ending = match outcome {
            Ok(committer) => {
                self.committer = Some(committer);
                if is_due(&self.records) {
                    self.queue.push(Input::Tick);
                }
                // Whoever waits for readiness may be gone.
                let _unwatched = self.ready.send(true);
                return;
            }
            Err(CommitError::Deposed { epoch }) => Err(EngineError::Deposed { epoch }),
            Err(CommitError::Reload { .. }) => Ok(TermEnd::Reload),
            Err(CommitError::Encoding(error)) => Err(error.into()),
            Err(CommitError::Refused(error)) => Err(error.into()),
            Err(CommitError::Unreadable(error)) => Err(error.into()),
        };
        // The term may have ended for another reason already.
        let _ended = self.ending.try_send(ending);
        self.pumps.clear();
    }
}
