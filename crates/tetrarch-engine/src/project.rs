//! The shell of a project orchestrator: follows its epics' plan events and its inbox, and
//! performs what core's `orchestrator` machine says.

use std::collections::BTreeMap;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::Bus;
use tetrarch_bus::client::RawMessage;
use tetrarch_bus::cursor::Claimed;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::state::read_epic;
use tetrarch_bus::subject::Origin;
use tetrarch_bus::subject::pattern::PLANS;
use tetrarch_bus::watch::{From, last_plan_event, plan_events};
use tetrarch_core::id::{EpicId, RequestId};
use tetrarch_core::mail::Launch;
use tetrarch_core::orchestrator::{Effect, Input, Orchestrator};
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::request::{HOST_RESTART, Report};
use tetrarch_telemetry::{create_agent, trace};
use tokio::sync::watch;

use crate::error::{EngineError, note_dead};
use crate::pulse::Pulse;
use crate::pump::{FromBus, MailboxSlots, Pump};
use crate::reading::InboxReader;
use crate::session::{Admitted, CheckedMessage, Session, Shared};

/// Plan events of one epic that are in the mailbox.
const PLANS_IN_MAILBOX: usize = 32;

/// What a project orchestrator's actor is told.
#[derive(Debug)]
pub(crate) enum ProjectMsg {
    /// Begin: claim, report, take the epics on.
    Begin(Vec<EpicId>),
    /// An epic's plan changed; it ends when nobody can tell any more.
    Plan(FromBus<PlanEvent>),
    /// A message in its inbox; it ends when there can be no more.
    Incoming(FromBus<CheckedMessage>),
    /// Nothing came after this many messages were read.
    Idle(usize),
    /// Its session is over.
    End,
    /// Something may be due.
    Tick,
}

/// What it is started with.
pub(crate) struct ProjectArgs {
    /// What the host's sessions share.
    pub(crate) shared: Shared,
    /// The order to start it.
    pub(crate) launch: Launch,
    /// Its open epics.
    pub(crate) epics: Vec<EpicId>,
    /// The trace of the order.
    pub(crate) trace: Option<String>,
    /// Where it tells how it is.
    pub(crate) pulse: watch::Sender<Pulse>,
}

/// The actor.
pub(crate) struct ProjectActor;

/// Its state.
pub(crate) struct ProjectState {
    session: Session,
    machine: Orchestrator,
    reader: Option<InboxReader>,
    handled: usize,
    reports: usize,
    inbox: Option<Pump>,
    plans: BTreeMap<EpicId, Pump>,
    timer: Option<Pump>,
    pulse: watch::Sender<Pulse>,
}

impl Actor for ProjectActor {
    type Msg = ProjectMsg;
    type State = ProjectState;
    type Arguments = ProjectArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<ProjectMsg>,
        args: ProjectArgs,
    ) -> Result<ProjectState, ActorProcessingErr> {
        let ProjectArgs { shared, launch, epics, trace, pulse } = args;
        let machine = Orchestrator::new(launch.agent.clone(), launch.session);
        let session = Session::hosted(shared, &launch, trace);
        myself.cast(ProjectMsg::Begin(epics))?;
        Ok(ProjectState {
            session,
            machine,
            reader: None,
            handled: 0,
            reports: 0,
            inbox: None,
            plans: BTreeMap::new(),
            timer: None,
            pulse,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ProjectMsg>,
        message: ProjectMsg,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        // The actor keeps room for this as long as it lives; what is boxed it needs only while it works.
        if !Box::pin(state.take(&myself, message)).await? {
            myself.stop(None);
        }
        Ok(())
    }
}

impl ProjectState {
    /// Takes one message; says whether the session goes on.
    async fn take(
        &mut self,
        myself: &ActorRef<ProjectMsg>,
        message: ProjectMsg,
    ) -> Result<bool, EngineError> {
        let inputs = match message {
            ProjectMsg::Begin(epics) => {
                if !self.begin(myself).await? {
                    return Ok(false);
                }
                epics.into_iter().map(Input::TakeOn).collect()
            }
            ProjectMsg::Plan(event) => vec![Input::Plan(event?.item)],
            ProjectMsg::Incoming(incoming) => {
                let inputs = self.read(*incoming?.item).await?;
                // It comes behind whatever is in the mailbox.
                let _ended = myself.cast(ProjectMsg::Idle(self.handled));
                inputs
            }
            ProjectMsg::Idle(handled) => {
                if handled == self.handled {
                    self.keep().await?;
                }
                return Ok(true);
            }
            ProjectMsg::Tick => vec![Input::Tick],
            ProjectMsg::End => return Ok(false),
        };
        for input in inputs {
            let now = self.session.shared.clock.now();
            let mut effects = self.machine.step(now, input);
            while !effects.is_empty() {
                let mut next = Vec::new();
                for effect in effects {
                    if let Some(input) = self.perform(myself, effect).await? {
                        let now = self.session.shared.clock.now();
                        next.extend(self.machine.step(now, input));
                    }
                }
                effects = next;
            }
        }
        self.handled_all().await?;
        let positions = self.reader.as_ref().map(InboxReader::positions);
        self.pulse.send_modify(|pulse| {
            pulse.progress += 1;
            pulse.positions = positions.unwrap_or_default();
        });
        self.set_timer(myself);
        Ok(true)
    }

    /// Claims the cursor, opens the inbox and says that the session is up.
    async fn begin(&mut self, myself: &ActorRef<ProjectMsg>) -> Result<bool, EngineError> {
        match self.session.claim(None).await? {
            Claimed::Ours { cursor, seq } => {
                let (reader, inbox) = InboxReader::open(&self.session, cursor, seq, false).await?;
                let to = myself.clone();
                self.inbox = Some(Pump::inbox(inbox, self.session.clone(), move |it| {
                    to.cast(ProjectMsg::Incoming(it)).is_ok()
                }));
                self.reader = Some(reader);
                self.report(&Report::Ready).await?;
                Ok(true)
            }
            Claimed::EarlierLife { .. } => {
                self.report(&Report::Crashed { cause: HOST_RESTART.to_owned() }).await?;
                Ok(false)
            }
            Claimed::DoNotStart { .. } => Ok(false),
        }
    }

    async fn read(&mut self, incoming: CheckedMessage) -> Result<Vec<Input>, EngineError> {
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        let Some(Admitted { mail, from, .. }) = reader.take(incoming).await? else {
            return Ok(Vec::new());
        };
        self.handled += 1;
        Ok(vec![Input::Mail { from, mail: Box::new(mail) }])
    }

    /// What was in hand is handled. Whoever waits to hear so hears it at once; else the cursor is
    /// written with what comes next, or when nothing does.
    async fn handled_all(&mut self) -> Result<(), EngineError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.settle();
        if reader.owes() { self.keep().await } else { Ok(()) }
    }

    /// Writes how far the inbox is handled, and tells whoever waits for that.
    async fn keep(&mut self) -> Result<(), EngineError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.write().await?;
        reader.kept().await
    }

    async fn perform(
        &mut self,
        myself: &ActorRef<ProjectMsg>,
        effect: Effect,
    ) -> Result<Option<Input>, EngineError> {
        match effect {
            Effect::Watch(epic) => self.watch(myself, epic),
            Effect::Leave(epic) => drop(self.plans.remove(&epic)),
            Effect::Collect(epic) => return self.collect(epic).await.map(Some),
            Effect::Request { id, request, trace } => {
                let span = create_agent(request.epic, request.node);
                trace::follow(&span, trace.as_deref());
                let onward = trace::onward(&span, trace.as_deref());
                self.session.request(id, &request, onward.as_deref()).await?;
            }
            Effect::Op { id, op } => self.session.operate(id, &op).await?,
            Effect::Report(report) => self.report(&report).await?,
            Effect::Mail(mail) => {
                let id = mail.correlation.map_or_else(String::new, |id| format!("{id}.relay"));
                self.session.write(&mail, &id).await?;
            }
        }
        Ok(None)
    }

    async fn report(&mut self, report: &Report) -> Result<(), EngineError> {
        self.reports += 1;
        let now = self.session.shared.clock.now();
        let seed = self.session.session.to_string();
        let id = RequestId::derive(now, &seed, report.kind(), self.reports);
        self.session.report(id, report).await
    }

    /// Follows an epic's plan events: the last that is kept, then each new one. What that goes on from is read
    /// from STATE when it does not stand for itself.
    fn watch(&mut self, myself: &ActorRef<ProjectMsg>, epic: EpicId) {
        let (bus, to) = (self.session.shared.bus.clone(), myself.clone());
        let following = async move {
            let from = last_plan_event(&bus, epic).await?.map_or(From::Start, From::Seq);
            let events = plan_events(&bus, Some(epic), from).await?;
            let slots = MailboxSlots::new(PLANS_IN_MAILBOX);
            let mut events = std::pin::pin!(events);
            while let Some((seq, event)) = events.next().await {
                let event = match event {
                    Ok(event) => event,
                    // STATE is read when the next one goes on from it, and for the definitions.
                    Err(error) => {
                        unreadable(&bus, seq, error.to_string()).await?;
                        continue;
                    }
                };
                let Some(placed) = slots.reserve(Box::new(event)).await else { return Ok(()) };
                if to.cast(ProjectMsg::Plan(Ok(placed))).is_err() {
                    return Ok(());
                }
            }
            Err(EngineError::ActorDied(format!("plan events of {epic}"), "they ended".to_owned()))
        };
        let to = myself.clone();
        let pump = Pump::run(async move {
            if let Err(error) = following.await {
                // An actor that ended needs no plans.
                let _ended = to.cast(ProjectMsg::Plan(Err(error)));
            }
        });
        self.plans.insert(epic, pump);
    }

    /// What STATE has of an epic's plan, its definitions and results.
    async fn collect(&self, epic: EpicId) -> Result<Input, EngineError> {
        let records = read_epic(&self.session.shared.bus, epic).await?;
        Ok(Input::collected(&records, epic))
    }

    fn set_timer(&mut self, myself: &ActorRef<ProjectMsg>) {
        let clock = &self.session.shared.clock;
        self.timer = self
            .machine
            .next_deadline()
            .map(|at| Pump::after(clock.until(at), myself.clone(), ProjectMsg::Tick));
    }
}

/// Keeps a plan event that cannot be read among the dead letters, for people.
async fn unreadable(bus: &Bus, seq: u64, reason: String) -> Result<(), EngineError> {
    let Some(message) = bus.get_seq(PLANS, seq).await? else { return Ok(()) };
    let RawMessage { subject, payload, .. } = message;
    let letter = DeadLetter { origin: Origin::Plans, seq, subject, reason, payload };
    note_dead(&letter);
    dead_letter(bus, &letter).await?;
    Ok(())
}
