//! The shell of a project orchestrator: follows its epics' plan events and its inbox, and
//! performs what core's `orchestrator` machine says.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use futures::{FutureExt, StreamExt};
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
use tetrarch_core::request::{HOST_RESTART, Report, SpawnRequest};
use tetrarch_telemetry::{create_agent, trace};
use tokio::sync::watch;

use crate::error::{EngineError, EngineResult, note_dead};
use crate::pulse::Pulse;
use crate::pump::{FromBus, MailboxSlots, Pump};
use crate::reading::InboxReader;
use crate::session::{Admitted, CheckedMessage, Session, Shared};

/// Within what time the cursor has what was handled. What a next session then handles again changes nothing.
const KEEP_AFTER: Duration = Duration::from_millis(50);
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
    /// What was handled is to be in the cursor.
    Keep,
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
    keep: Option<Pump>,
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
            keep: None,
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
    ) -> EngineResult<bool> {
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
                let later = || Pump::after(KEEP_AFTER, myself.clone(), ProjectMsg::Keep);
                self.keep.get_or_insert_with(later);
                inputs
            }
            ProjectMsg::Keep => {
                self.keep().await?;
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
                for collected in self.perform(myself, effects).await? {
                    let now = self.session.shared.clock.now();
                    next.extend(self.machine.step(now, collected));
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
    async fn begin(&mut self, myself: &ActorRef<ProjectMsg>) -> EngineResult<bool> {
        match self.session.claim(None).await? {
            Claimed::Ours { cursor, seq, .. } => {
                let reader = InboxReader::open(&self.session, cursor, seq, false).await?;
                let to = myself.clone();
                self.inbox = Some(Pump::inbox(reader.inbox(), self.session.clone(), move |it| {
                    to.cast(ProjectMsg::Incoming(it)).is_ok()
                }));
                self.reader = Some(reader);
                let id = self.next_report(&Report::Ready);
                self.session.report(id, &Report::Ready).await?;
                Ok(true)
            }
            Claimed::EarlierLife { .. } => {
                let crashed = Report::Crashed { cause: HOST_RESTART.to_owned() };
                let id = self.next_report(&crashed);
                self.session.report(id, &crashed).await?;
                Ok(false)
            }
            Claimed::DoNotStart { .. } => Ok(false),
        }
    }

    async fn read(&mut self, incoming: CheckedMessage) -> EngineResult<Vec<Input>> {
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        let Some(Admitted { mail, from, .. }) = reader.take(incoming).await? else {
            return Ok(Vec::new());
        };
        Ok(vec![Input::Mail { from, mail: Box::new(mail) }])
    }

    /// What was in hand is handled. Whoever waits to hear so hears it at once; else the cursor is
    /// written within [`KEEP_AFTER`].
    async fn handled_all(&mut self) -> EngineResult {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.settle();
        if reader.owes() { self.keep().await } else { Ok(()) }
    }

    /// Writes how far the inbox is handled, and tells whoever waits for that.
    async fn keep(&mut self) -> EngineResult {
        self.keep = None;
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.write_begun().await?;
        reader.kept().await
    }

    /// Performs what the machine says and gives what it is to learn. What is sent waits for its own
    /// acknowledgement alone, and goes out in the order given.
    async fn perform(
        &mut self,
        myself: &ActorRef<ProjectMsg>,
        effects: Vec<Effect>,
    ) -> EngineResult<Vec<Input>> {
        let (mut sent, mut collected) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Watch(epic) => self.watch(myself, epic),
                Effect::Leave(epic) => drop(self.plans.remove(&epic)),
                Effect::Collect(epic) => collected.push(self.collect(epic).await?),
                Effect::Request { id, request, trace } => {
                    sent.push(request_agent(self.session.clone(), id, request, trace).boxed());
                }
                Effect::Op { id, op } => {
                    let session = self.session.clone();
                    sent.push(async move { session.operate(id, &op, None).await }.boxed());
                }
                Effect::Report(report) => {
                    let (session, id) = (self.session.clone(), self.next_report(&report));
                    sent.push(async move { session.report(id, &report).await }.boxed());
                }
                Effect::Mail(mail) => {
                    let session = self.session.clone();
                    let id = mail.correlation.map_or_else(String::new, |id| format!("{id}.relay"));
                    sent.push(async move { session.write(&mail, &id).await }.boxed());
                }
            }
        }
        try_join_all(sent).await?;
        Ok(collected)
    }

    /// The id of its next report.
    fn next_report(&mut self, report: &Report) -> RequestId {
        self.reports += 1;
        let now = self.session.shared.clock.now();
        let seed = self.session.session.to_string();
        RequestId::derive(now, &seed, report.kind(), self.reports)
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
    async fn collect(&self, epic: EpicId) -> EngineResult<Input> {
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

/// Asks the governor for an agent, within the trace of what it is asked for.
async fn request_agent(
    session: Session,
    id: RequestId,
    request: Box<SpawnRequest>,
    trace: Option<String>,
) -> EngineResult {
    let span = create_agent(request.epic, request.node);
    trace::follow(&span, trace.as_deref());
    let onward = trace::onward(&span, trace.as_deref());
    session.request(id, &request, onward.as_deref()).await
}

/// Keeps a plan event that cannot be read among the dead letters, for people.
async fn unreadable(bus: &Bus, seq: u64, reason: String) -> EngineResult {
    let Some(message) = bus.get_seq(PLANS, seq).await? else { return Ok(()) };
    let RawMessage { subject, payload, .. } = message;
    let letter = DeadLetter { origin: Origin::Plans, seq, subject, reason, payload };
    note_dead(&letter);
    dead_letter(bus, &letter).await?;
    Ok(())
}
