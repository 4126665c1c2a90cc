//! The owner's actor: brings core's governor what arrives, and does on the bus what it says. It decides
//! nothing itself.

mod taking;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::Bus;
use tetrarch_bus::commit::{CommitError, Committer};
use tetrarch_bus::inbox::Incoming;
use tetrarch_bus::intake::Intaken;
use tetrarch_bus::journal::JournalName;
use tetrarch_bus::mailbox::opening::Openings;
use tetrarch_bus::outbox::{Announcer, PlanPublisher, Recorder};
use tetrarch_core::governor::{Governor, GovernorAction, Outgoing, OwnerStart};
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::owner::{Archived, Fill, Input, Policy, Settlement, stalling};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::archiving;
use super::credentials::CredentialActs;
use super::diagnosing::{Diagnosed, Diagnosing};
use super::expiring;
use super::heartbeats::HeartbeatTable;
use super::intaking::{intake, looks, ticks};
use super::keeping::{self, Keeping, OutboxProgress};
use super::memory::StoredMemory;
use super::planning::{self, PlannerHandle};
use super::posting;
use super::publishing::{
    Committed, ENTRIES_TO_ANNOUNCE, ENTRIES_TO_PUBLISH, ENTRIES_TO_RECORD, OutboxPart, publish,
    record,
};
use super::reached;
use super::reclaiming;
use super::replying::Replying;
use super::restore::Restored;
use super::settling;
use super::sweeper_handle::SweeperHandle;
use super::sweeping;
use super::{GlobalConfig, TermEnd};
use crate::clock::Clock;
use crate::error::{EngineError, EngineResult};
use crate::metrics::Leading;
use crate::pump::{MailboxPermit, Pump, WithPermit};

/// How often what is due is done when nothing else happens.
const TICK_EVERY: Duration = Duration::from_secs(60);

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
    /// The time is there that the governor named.
    Woken,
    /// There is more to decide on.
    GoOn,
    /// The overseer is to look at what stands still.
    Oversee,
    /// What the journals of what stands still say; the overseer looks now.
    Diagnosed(Diagnosed),
    /// What the journals of lost runs say.
    Settled(Vec<Settlement>),
    /// Journals of ended runs are kept.
    Archived(Vec<Archived>),
    /// Something was done with credentials.
    Credentials(CredentialActs),
}

/// What it is started with.
pub(super) struct OwnerArgs {
    pub(super) bus: Bus,
    pub(super) config: GlobalConfig,
    pub(super) epoch: u64,
    pub(super) loads: u64,
    pub(super) clock: Clock,
    pub(super) restored: Restored,
    pub(super) memory: watch::Sender<StoredMemory>,
    pub(super) ready: watch::Sender<bool>,
    pub(super) ending: mpsc::Sender<EngineResult<TermEnd>>,
}

/// The actor.
pub(super) struct OwnerActor;

/// Its state.
pub(super) struct OwnerState {
    bus: Bus,
    halted: watch::Receiver<Option<String>>,
    reloads: watch::Receiver<Option<Policy>>,
    clock: Clock,
    heartbeats: HeartbeatTable,
    diagnosing: Diagnosing,
    leading: Leading,
    governor: Governor<Arc<MailboxPermit>>,
    replying: Replying,
    /// None while a commit is in flight.
    committer: Option<Committer>,
    sweeper_handle: SweeperHandle,
    asking: PlannerHandle,
    outbox: mpsc::Sender<Committed>,
    memory: watch::Sender<StoredMemory>,
    ready: watch::Sender<bool>,
    ending: mpsc::Sender<EngineResult<TermEnd>>,
    pumps: Vec<Pump>,
    /// Whether it told itself that there is more to decide on.
    going_on: bool,
    /// The timer to the time that the governor named.
    wake: Option<Pump>,
    /// What reads journals of lost runs, and what keeps those of ended ones.
    settling: Option<Pump>,
    archiving: Option<Pump>,
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
        let OwnerArgs { bus, config, epoch, loads, clock, restored, memory, ready, ending } = args;
        let heartbeats = HeartbeatTable::new(clock);
        let (asking, answers) =
            planning::start(config.planner.as_ref(), &restored.records, myself.clone())?;
        let planner = config.planner.as_ref().map(|it| it.planner(&config.policy.prices));
        let Restored { records, last, intake_seq, unpublished, revisions, .. } = restored;
        let Restored { server, kept, troubles, holds, .. } = restored;
        let (outbox, entries) = mpsc::channel(ENTRIES_TO_ANNOUNCE);
        let (announced, plans) = mpsc::channel(ENTRIES_TO_PUBLISH);
        let (published, images) = mpsc::channel(ENTRIES_TO_RECORD);
        let (recorded, told) = watch::channel(OutboxProgress::default());
        let announcer = OutboxPart::Announce(Announcer::new(bus.clone()));
        let publisher = OutboxPart::Publish(PlanPublisher::new(bus.clone()));
        let recorder = Recorder::new(bus.clone(), revisions, kept.ledger.created.clone(), server);
        memory.send_replace(kept);
        let retention = config.retention;
        let keeping = Keeping { bus: bus.clone(), retention, clock, owner: myself.clone(), holds };
        let (reading, shrunk) = intake(&bus, intake_seq, &myself).await?;
        let (sweeper, sweeping) =
            sweeping::start(&bus, (&config, heartbeats.clone()), &records, myself.clone()).await?;
        let mut pumps = vec![
            ("announcer", publish(announcer, unpublished, entries, announced, ending.clone())),
            ("publisher", publish(publisher, Vec::new(), plans, published, ending.clone())),
            ("recorder", record(recorder, images, (recorded, memory.clone()), ending.clone())),
            ("keeper", keeping::start(keeping, &records, told)),
            ("intake", reading),
            ("sweeper", sweeping),
            ("openings", Pump::run(Openings::listen(&bus).await?.serve())),
            ("planner", answers),
            ("clock", ticks(&myself, TICK_EVERY, || OwnerMsg::Tick)),
            ("reclaimer", reclaiming::start(&bus, &myself)),
            ("post", posting::start(&bus, &records, &myself, ending.clone())),
            ("expiry", expiring::start(&bus, config.ages.mail, clock, &myself)),
        ];
        let overseer = |it| ("overseer", ticks(&myself, it, || OwnerMsg::Oversee));
        pumps.extend(config.tick_every.map(overseer));
        let ending_pumps = pumps.into_iter().map(|(name, pump)| pump.or_ends(name, &ending));
        let pumps = ending_pumps.chain(looks(&bus, &records, &myself)).collect();
        let found = troubles.into_iter().chain(shrunk).collect();
        let GlobalConfig { instance, policy, halted, reloads, .. } = config;
        let policy = Policy { planner, ..policy };
        let start = OwnerStart { instance, epoch, loads, policy, records, found };
        let mut state = OwnerState {
            governor: Governor::new(start),
            committer: Some(Committer::new(bus.clone(), last, epoch)),
            heartbeats,
            diagnosing: Diagnosing::new(bus.clone()),
            leading: Leading::new(),
            replying: Replying::new(bus.clone(), epoch),
            bus,
            halted,
            reloads,
            clock,
            sweeper_handle: SweeperHandle::new(sweeper),
            asking,
            outbox,
            memory,
            ready,
            ending,
            pumps,
            going_on: false,
            wake: None,
            settling: None,
            archiving: None,
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
                state.governor.put_placed(item, Arc::new(permit));
            }
            OwnerMsg::Found(found) => state.governor.put(*found),
            OwnerMsg::Filled(fill) => {
                reclaiming::carry_out(&state.bus, state.governor.filled(*fill))
            }
            OwnerMsg::Tick => state.governor.tick(),
            OwnerMsg::GoOn => state.going_on = false,
            OwnerMsg::Woken => state.governor.woken(state.clock.now()),
            OwnerMsg::Oversee => {
                let (now, telemetry) = (state.clock.now(), state.telemetry());
                let (records, policy) = (state.governor.records(), state.governor.policy());
                let stalling = stalling(records, policy, &telemetry, now);
                let known = stalling.iter().filter_map(|run| records.runs.get(run));
                let journals = known.map(JournalName::of).collect();
                if !state.diagnosing.begins(journals, &myself) {
                    state.oversee();
                }
            }
            OwnerMsg::Diagnosed(known) => {
                state.diagnosing.ended(known);
                state.oversee();
            }
            OwnerMsg::Settled(read) => state.governor.settled(read),
            OwnerMsg::Archived(kept) => state.governor.archived(kept, state.clock.now()),
            OwnerMsg::Credentials(CredentialActs { acts, told }) => {
                // Who asked may have ended: it asks again.
                let _unheard = told.send(state.governor.put_acts(acts));
            }
            OwnerMsg::Committed(outcome) => state.committed(*outcome),
        }
        state.advance(&myself);
        Ok(())
    }
}

impl OwnerState {
    fn telemetry(&self) -> Telemetry {
        let Diagnosed { diagnoses, words } = self.diagnosing.known();
        let looked = self.governor.looked();
        Telemetry { looked, diagnosed: diagnoses, words, ..self.heartbeats.telemetry() }
    }

    fn oversee(&mut self) {
        self.governor.oversee(self.telemetry(), self.clock.now());
    }

    /// Has the governor decide, and does what it says.
    fn advance(&mut self, myself: &ActorRef<OwnerMsg>) {
        if self.halted.has_changed().unwrap_or(false) {
            self.governor.halt(self.halted.borrow_and_update().clone());
        }
        if self.reloads.has_changed().unwrap_or(false)
            && let Some(policy) = self.reloads.borrow_and_update().clone()
        {
            self.governor.reconfigure(policy);
        }
        let now = self.clock.now();
        self.decide_what_fits(now);
        for action in self.governor.actions(now) {
            self.perform(action, myself);
        }
        if !self.going_on && self.governor.goes_on() {
            self.going_on = true;
            // Behind what arrived meanwhile. An actor that ended decides nothing more.
            let _ended = myself.cast(OwnerMsg::GoOn);
        }
        let records = self.governor.records();
        self.leading.look(records, self.governor.waiting());
        self.sweeper_handle.tell(records);
    }

    fn perform(&mut self, action: GovernorAction, myself: &ActorRef<OwnerMsg>) {
        match action {
            GovernorAction::Commit(outgoing) => self.commit(outgoing, myself),
            GovernorAction::Reply(answers) => self.replying.send(answers),
            GovernorAction::Wake(at) => {
                self.wake =
                    at.map(|at| Pump::after(self.clock.until(at), myself.clone(), OwnerMsg::Woken));
            }
            GovernorAction::Revoke(host, epoch) => self.sweeper_handle.revoke(host, epoch),
            GovernorAction::Settle(lost, wait) => {
                let records = self.governor.records();
                self.settling = Some(settling::start(&self.bus, records, (lost, wait), myself));
            }
            GovernorAction::Archive(runs) => {
                self.archiving = Some(archiving::start(&self.bus, runs, myself));
            }
        }
    }

    /// Commits an entry, and then makes it visible: the next one waits until the outbox has this.
    fn commit(&mut self, outgoing: Outgoing, myself: &ActorRef<OwnerMsg>) {
        let Some(mut committer) = self.committer.take() else { return };
        let Outgoing { entry, answers, questions } = outgoing;
        self.sweeper_handle.note(&entry);
        let (to, outbox, memory) = (myself.clone(), self.outbox.clone(), self.memory.clone());
        let (asking, metrics) = (self.asking.clone(), self.leading.metrics.clone());
        let replying = self.replying.clone();
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

    fn committed(&mut self, outcome: Result<Committer, CommitError>) {
        let ending = match outcome {
            Ok(committer) => {
                self.committer = Some(committer);
                self.governor.committed();
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
