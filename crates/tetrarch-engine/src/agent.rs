//! The shell of a hosted agent's session: one actor that performs what core's `hosted` machine
//! says, in order, and stops at the first effect that is fenced.

mod before;
mod claiming;
mod inputs;
mod timing;

use std::collections::VecDeque;
use std::convert::Infallible;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::codec;
use tetrarch_bus::cursor::CursorError;
use tetrarch_bus::envelope::own_msg_id;
use tetrarch_bus::journal::{JournalError, JournalName, JournalWriter};
use tetrarch_bus::spoken::SpeakingRun;
use tetrarch_core::brief::Artifact;
use tetrarch_core::burn::Burn;
use tetrarch_core::cursor::Positions;
use tetrarch_core::hosted::{HostedSession, Keep, SessionEffect, SessionInput};
use tetrarch_core::id::RequestId;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::mail::Launch;
use tetrarch_core::order::{Observed, Order, RunnerEvent};
use tetrarch_core::request::Report;
use tetrarch_core::run::Run;
use tetrarch_failpoint::{Failpoint, reach_if};
use tetrarch_telemetry::{Whose, ended, invoke_agent, trace};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

use crate::error::{EngineError, EngineResult};
use crate::pulse::Pulse;
use crate::pump::{FromBus, Pump};
use crate::reading::InboxReader;
use crate::session::{Admitted, CheckedMessage, Session, Shared};

use before::PriorRuns;

/// What an agent's actor is told.
#[derive(Debug)]
pub(crate) enum AgentMsg {
    /// Begin: claim, journal, start.
    Begin,
    /// The runner saw something of its run.
    Runner(Observed),
    /// A message in its inbox; it ends when there can be no more.
    Incoming(FromBus<CheckedMessage>),
    /// A message to its host orchestrator that is about it.
    Forwarded(Box<SessionInput>),
    /// Something may be due.
    Tick,
}

/// What an agent's actor is started with.
pub(crate) struct AgentArgs {
    /// What the host's sessions share.
    pub(crate) shared: Shared,
    /// The order to start it.
    pub(crate) launch: Launch,
    /// The run it makes.
    pub(crate) run: Run,
    /// The entry of the ledger that orders it.
    pub(crate) ledger_seq: u64,
    /// The runner.
    pub(crate) orders: mpsc::Sender<Order>,
    /// The trace of the order.
    pub(crate) trace: Option<String>,
    /// Where it tells how it is.
    pub(crate) pulse: watch::Sender<Pulse>,
}

/// The actor.
pub(crate) struct AgentActor;

/// Its state.
pub(crate) struct AgentState {
    session: Session,
    machine: HostedSession,
    journal: Option<JournalWriter>,
    /// What is written with the journal's next entry.
    noted: Vec<JournalEvent>,
    reader: Option<InboxReader>,
    orders: mpsc::Sender<Order>,
    inbox: Option<Pump>,
    /// Keeps the inbox of a new agent closed.
    opener: Option<oneshot::Sender<Infallible>>,
    /// Whether its mail is left where it is.
    hold: watch::Sender<bool>,
    timer: Option<Pump>,
    reports: usize,
    span: tracing::Span,
    run: Run,
    ledger_seq: u64,
    pulse: watch::Sender<Pulse>,
    burn: Burn,
    speaking: SpeakingRun,
}

impl Actor for AgentActor {
    type Msg = AgentMsg;
    type State = AgentState;
    type Arguments = AgentArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<AgentMsg>,
        args: AgentArgs,
    ) -> Result<AgentState, ActorProcessingErr> {
        let AgentArgs { shared, launch, run, ledger_seq, orders, trace, pulse } = args;
        let whose = Whose {
            agent: launch.agent.to_string(),
            profile: run.brief.runner.profile.to_string(),
            run: run.id.to_string(),
            trace,
        };
        let span = invoke_agent(&whose, &run.brief.runner, run.node);
        let own = trace::onward(&span, whose.trace.as_deref());
        let (host, stop_within) = (shared.claim.host.to_string(), shared.stop_within);
        let session = Session::hosted(shared, &launch, own.clone());
        let machine = HostedSession::new(launch, run.clone(), host, None, own)
            .stopping_within(stop_within)
            .with_id_seed(own_msg_id(&run.id.to_string()));
        myself.cast(AgentMsg::Begin)?;
        let name = JournalName { agent: run.agent.clone(), run: run.id };
        let speaking = SpeakingRun::new(&name, session.session);
        Ok(AgentState {
            session,
            machine,
            journal: None,
            noted: Vec::new(),
            reader: None,
            orders,
            inbox: None,
            opener: None,
            hold: watch::channel(false).0,
            timer: None,
            reports: 0,
            span,
            run,
            ledger_seq,
            pulse,
            burn: Burn::default(),
            speaking,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<AgentMsg>,
        message: AgentMsg,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        let span = state.span.clone();
        // The actor keeps room for this as long as it lives; what is boxed it needs only while it works.
        let ended = Box::pin(state.take(&myself, message)).instrument(span).await?;
        if ended {
            myself.stop(None);
        }
        Ok(())
    }
}

impl AgentState {
    /// Takes one message and performs all that follows from it; says whether the session ended.
    async fn take(&mut self, myself: &ActorRef<AgentMsg>, message: AgentMsg) -> EngineResult<bool> {
        let now = self.session.shared.clock.now();
        let effects = match message {
            AgentMsg::Begin => {
                let before = self.left_before().await?;
                let PriorRuns { checkpoint, conversation, spent, first, returned } = before;
                self.machine.go_on_after_returns(returned);
                self.machine.go_on_from(checkpoint, spent);
                self.machine.go_on_with(first, conversation.into_recorded());
                self.machine.begin()
            }
            AgentMsg::Runner(seen) => {
                let is_result = || matches!(seen.event, RunnerEvent::Result { .. });
                reach_if(Failpoint::ResultSeen, is_result);
                self.machine.step(now, SessionInput::Runner(seen.event))
            }
            AgentMsg::Forwarded(input) => self.machine.step(now, *input),
            AgentMsg::Tick => self.machine.step(now, SessionInput::Tick),
            AgentMsg::Incoming(incoming) => return self.read(myself, *incoming?.item).await,
        };
        let ended = self.perform(myself, effects).await?;
        self.tell_pulse();
        self.set_timer(myself);
        Ok(ended)
    }

    /// Takes one message of the inbox and performs all that follows from it; says whether the session
    /// ended.
    async fn read(
        &mut self,
        myself: &ActorRef<AgentMsg>,
        incoming: CheckedMessage,
    ) -> EngineResult<bool> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let now = self.session.shared.clock.now();
        let effects = match reader.take(incoming).await {
            Ok(Some(Admitted { mail, from, payload, place, .. })) => {
                let json = codec::mail_body_json(&payload)?;
                let (topic, writer) = (mail.body.topic().to_owned(), from.to_string());
                let input = SessionInput::Mail { from, mail: Box::new(mail), json, place };
                let effects = self.machine.step(now, input);
                if let Some(reader) = &mut self.reader {
                    reader.hand_out(self.machine.first_in_hand());
                }
                if self.perform(myself, effects).await? {
                    return Ok(true);
                }
                if self.reader.as_ref().is_some_and(InboxReader::owes) {
                    // Nothing came of it that the journal would say.
                    vec![SessionEffect::Journal(JournalEvent::Mail { topic, from: writer })]
                } else {
                    Vec::new()
                }
            }
            Ok(None) => Vec::new(),
            Err(EngineError::Cursor(CursorError::Fenced { agent, last })) => {
                tracing::warn!(%agent, last, "fenced: another epoch holds the cursor");
                self.machine.step(now, SessionInput::Fenced)
            }
            Err(error) => return Err(error),
        };
        let ended = self.perform(myself, effects).await?;
        self.tell_pulse();
        self.set_timer(myself);
        Ok(ended)
    }

    fn positions(&self) -> Positions {
        self.reader.as_ref().map(InboxReader::positions).unwrap_or_default()
    }

    async fn perform(
        &mut self,
        myself: &ActorRef<AgentMsg>,
        effects: Vec<SessionEffect>,
    ) -> EngineResult<bool> {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let input = match self.perform_one(myself, effect).await {
                Ok(Performed::Nothing) => continue,
                Ok(Performed::Ended) => return Ok(true),
                Ok(Performed::Gave(input)) => input,
                Err(EngineError::Journal(JournalError::Fenced { run, last })) => {
                    tracing::warn!(%run, last, "fenced: another epoch writes the journal");
                    queue.clear();
                    self.noted.clear();
                    SessionInput::Fenced
                }
                Err(EngineError::Cursor(CursorError::Fenced { agent, last })) => {
                    tracing::warn!(%agent, last, "fenced: another epoch holds the cursor");
                    queue.clear();
                    self.noted.clear();
                    SessionInput::Fenced
                }
                Err(error) => return Err(error),
            };
            let now = self.session.shared.clock.now();
            for effect in self.machine.step(now, input).into_iter().rev() {
                queue.push_front(effect);
            }
        }
        Ok(false)
    }

    async fn perform_one(
        &mut self,
        myself: &ActorRef<AgentMsg>,
        effect: SessionEffect,
    ) -> EngineResult<Performed> {
        if effect.has_an_answer() {
            self.opener = None;
        }
        match effect {
            SessionEffect::Claim => return self.claim(myself).await.map(Performed::Gave),
            SessionEffect::Journal(event) => self.append(event).await?,
            SessionEffect::Note(event) => self.noted.push(event),
            SessionEffect::Order(mut order) => {
                if let Order::Start(start) = &mut *order {
                    let artifacts = &self.session.shared.artifacts;
                    for text in inputs::make_whole(artifacts, &mut start.brief.inputs).await {
                        self.append(JournalEvent::Log { text }).await?;
                    }
                }
                // A runner that is gone ends with its host, and this session with it.
                let _runner_gone = self.orders.send(*order).await;
            }
            SessionEffect::Consumed => {
                if let Some(reader) = &mut self.reader
                    && reader.hand_out(self.machine.first_in_hand())
                {
                    reader.write().await?;
                    reader.kept().await?;
                }
            }
            SessionEffect::Report(report) => self.report(&report).await?,
            SessionEffect::ReadSpawn { json } => {
                let node = None;
                let read = codec::decode_spawn_body(json.as_bytes(), self.run.epic, node);
                let read = read.map(|(given, wanted)| (given, Box::new(wanted)));
                let read = read.map_err(|error| error.to_string());
                return Ok(Performed::Gave(SessionInput::SpawnRead(read)));
            }
            SessionEffect::Request(id, request) => self.session.request(id, &request, None).await?,
            SessionEffect::Operate { id, op, body } => self.session.ask(id, &op, body).await?,
            SessionEffect::Mail(mail) => {
                let id = mail.correlation.map_or_else(String::new, |id| format!("{id}.mail"));
                self.session.write(&mail, &id).await?;
            }
            SessionEffect::Store(keep) => {
                return self
                    .store(keep)
                    .await
                    .map(|kept| Performed::Gave(SessionInput::Stored(kept)));
            }
            SessionEffect::Fetch { id, sha256, offset } => {
                let fetched = inputs::fetched(&self.session.shared.artifacts, &sha256).await;
                let fetched = fetched.map_err(|error| error.to_string());
                return Ok(Performed::Gave(SessionInput::Fetched { id, offset, fetched }));
            }
            SessionEffect::Stream(text) => {
                self.speaking.say(&self.session.shared.bus, text).await;
            }
            SessionEffect::End => return Ok(Performed::Ended),
        }
        Ok(Performed::Nothing)
    }

    /// Reports to the owner; what is true of the session then is written first.
    async fn report(&mut self, report: &Report) -> EngineResult {
        if let (Some(reader), Report::Result { .. }) = (&mut self.reader, report) {
            reader.give_back().await?;
        }
        if let (Some(reader), Report::Crashed { .. }) = (&mut self.reader, report) {
            // What it had in hand may be why, and its next session is told so.
            reader.write_begun().await?;
        }
        self.reports += 1;
        let now = self.session.shared.clock.now();
        let seed = self.session.session.to_string();
        let id = RequestId::derive(now, &seed, report.kind(), self.reports);
        self.session.report(id, report).await?;
        if let Report::Result { result, .. } = report {
            ended(&self.span, result.outcome, &result.usage);
        }
        reach_if(Failpoint::ReadyReported, || matches!(report, Report::Ready));
        reach_if(Failpoint::ResultReported, || matches!(report, Report::Result { .. }));
        reach_if(Failpoint::CrashReported, || matches!(report, Report::Crashed { .. }));
        reach_if(Failpoint::GoneReported, || matches!(report, Report::Gone { .. }));
        Ok(())
    }

    /// Appends to the journal, with how far the inbox is handled: whoever wrote and waits for that
    /// hears of it. What was given to the program before it saved its state counts as handled.
    async fn append(&mut self, event: JournalEvent) -> EngineResult {
        let positions = self.positions();
        if let Some(journal) = &mut self.journal {
            let mut events = std::mem::take(&mut self.noted);
            let starting = matches!(event, JournalEvent::Starting { .. });
            let checkpoint = matches!(event, JournalEvent::Checkpoint { .. });
            let result = events.iter().any(|it| matches!(it, JournalEvent::Result(_)));
            events.push(event);
            let first = events.remove(0);
            journal.append_all(positions, first, events).await?;
            reach_if(Failpoint::StartingJournaled, || starting);
            reach_if(Failpoint::CheckpointJournaled, || checkpoint);
            reach_if(Failpoint::ResultJournaled, || result);
            if let Some(reader) = &mut self.reader {
                reader.kept().await?;
                if checkpoint && reader.settle() {
                    reader.write().await?;
                }
            }
        }
        Ok(())
    }

    /// Stores what the program wants kept. What cannot be stored is said in the journal and
    /// left out: the rest of the result is not lost with it.
    async fn store(&mut self, keep: Vec<Keep>) -> EngineResult<Vec<Artifact>> {
        let mut kept = Vec::with_capacity(keep.len());
        for item in keep {
            let artifacts = &self.session.shared.artifacts;
            let (name, media_type, stored) = match item {
                Keep::File(file) => {
                    let path = std::path::Path::new(&file.path);
                    let stored = artifacts.put_file(path, &file.media_type).await;
                    (file.name, file.media_type, stored)
                }
                Keep::Text { name, text } => {
                    let media_type = "text/plain; charset=utf-8".to_owned();
                    let stored = artifacts.put_bytes(text.as_bytes(), &media_type).await;
                    (name, media_type, stored)
                }
            };
            match stored {
                Ok(stored) => kept.push(Artifact {
                    name,
                    sha256: stored.sha256,
                    size: stored.size,
                    media_type,
                }),
                Err(error) => {
                    let text = format!("[artifact {name} was not stored: {error}]");
                    self.append(JournalEvent::Log { text }).await?;
                }
            }
        }
        Ok(kept)
    }
}

/// What an effect came to.
enum Performed {
    /// It is done.
    Nothing,
    /// It gave an input.
    Gave(SessionInput),
    /// The session is over.
    Ended,
}
