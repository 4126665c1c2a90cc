//! What a program and its host say to each other: the lines of our protocol, or those of a coding agent, which its
//! adapter knows. Says it; decides nothing about the run.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetrarch_core::brief::RunnerKind;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::TOOL_ANSWER_BYTES_MAX;
use tetrarch_core::order::{Inbound, RunnerEvent, Start};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::{Command, Verb};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::feed::Feed;
use super::mcp::{CallChannels, FleetServer, FleetTools, LetterWay, listen, socket_in};
use super::output::{OutputChannels, OutputReader};
use super::{ProgramRun, note_down};
use crate::adapter::{
    AgentDelivery, AgentInput, AgentOutput, AgentSession, NotPrepared, PreparedAgent,
    PreparedProgram, VERBS, forget, prepare, whole_brief,
};
use crate::backend::fleet_tools::{OF_PEOPLE, STATUS_REQUEST, mail_words, replied};
use crate::gateway::{GatewayServer, ModelGateway};
use crate::lines::OutputLine;
use crate::protocol::{
    ProgramEvent, SchemaViolation, brief_line, budget_line, granted_line, invalid_line, mail_line,
    raised_line, rotate_line, saved_line, stop_line, verb_line, withheld_line,
};
use crate::serve::RunnerContext;
use crate::sweep::Traces;

/// How one program is spoken to, and where it calls its model.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    language: ProgramLanguage,
    /// There is one where the provider of its model is known.
    gateway: Option<Arc<ModelGateway>>,
}

#[derive(Debug, Clone)]
enum ProgramLanguage {
    /// The lines of docs/stdio-protocol.md.
    Lines,
    /// It is asked once, and what it prints is its answer.
    Once {
        /// Whether its arguments have its brief; else its input has.
        has_argument: bool,
    },
    /// That of a coding agent.
    Agent(Arc<AgentTalk>),
}

/// What a program's calls are answered by, until this is dropped.
#[derive(Debug)]
pub(super) struct ServedCalls {
    _fleet: Option<FleetServer>,
    _model: Option<GatewayServer>,
}

/// Bytes of messages that one call reads; what was given before is listed besides.
const TAKEN_BYTES_MAX: usize = TOOL_ANSWER_BYTES_MAX / 3 * 2;

/// What stands for the brief in the arguments of a program that is asked once.
const BRIEF: &str = "{brief}";

/// Puts the brief into the arguments that have a place for it; false when none has.
fn put_brief(start: &mut Start) -> bool {
    let has_argument = start.brief.runner.argv.iter().any(|word| word.contains(BRIEF));
    if has_argument {
        let brief = whole_brief(start);
        let argv = start.brief.runner.argv.iter_mut();
        argv.for_each(|word| *word = word.replace(BRIEF, &brief));
    }
    has_argument
}

/// The conversation with a coding agent.
#[derive(Debug)]
pub(super) struct AgentTalk {
    session: Mutex<AgentSession>,
    /// Where the agent keeps it.
    directory: PathBuf,
    fleet: Option<FleetTools>,
}

/// What becomes of a line for a program.
#[derive(Debug)]
pub(super) struct Telling {
    /// What it is told, if there is a word for it.
    pub(super) told: AgentDelivery,
    /// What is told whoever listens: the program's state, or its next question.
    pub(super) events: Vec<RunnerEvent>,
}

impl From<AgentDelivery> for Telling {
    fn from(told: AgentDelivery) -> Self {
        Self { told, events: Vec::new() }
    }
}

impl AgentTalk {
    /// One whose program has not been told anything.
    #[cfg(test)]
    pub(super) fn unopened(fleet: FleetTools) -> Self {
        let session = Mutex::new(crate::adapter::unopened());
        Self { session, directory: PathBuf::new(), fleet: Some(fleet) }
    }

    fn session(&self) -> MutexGuard<'_, AgentSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of the fleet that it is offered.
    pub(super) fn fleet(&self) -> Option<&FleetTools> {
        self.fleet.as_ref()
    }

    /// A letter is a message between two steps, unless it answers what the program waits for.
    fn letter(
        &self,
        (topic, from, body): (&str, &str, &str),
        place: u64,
        answers: Option<RequestId>,
    ) -> Telling {
        if self.fleet().is_some_and(|fleet| fleet.hears(topic, body, answers)) {
            return AgentDelivery::Done.into();
        }
        let asked = answers.filter(|_| OF_PEOPLE.contains(&topic));
        let answered = asked.and_then(|id| self.session().answered(id, replied(topic, body)));
        if let Some(output) = answered {
            return telling_of(output);
        }
        let words = mail_words(topic, from, body);
        let was_given = |way| self.fleet().into_iter().for_each(|it| it.was_given(&words, way));
        if self.fleet().is_some_and(|fleet| fleet.takes_mail(words.clone()).is_ok()) {
            was_given(LetterWay::Wait);
            return AgentDelivery::Done.into();
        }
        let told = self.session().message(&words, place);
        if !matches!(told, AgentDelivery::Refused(_)) {
            was_given(LetterWay::Conversation);
        }
        told.into()
    }

    /// Messages that wait for its program's turn to end, and the places of those that have one.
    pub(super) fn take_back(&self) -> (Vec<String>, Vec<u64>) {
        let taken = self.session().take_back(TAKEN_BYTES_MAX);
        let places = taken.iter().map(|(_, place)| *place).filter(|place| *place > 0).collect();
        (taken.into_iter().map(|(text, _)| text).collect(), places)
    }

    /// Its result was taken.
    pub(super) fn finished(&self) -> Option<AgentInput> {
        self.session().finished()
    }
}

impl Speech {
    /// How the program of a run is spoken to. A run of a coding agent becomes one of a program with arguments.
    ///
    /// # Errors
    /// What the program needs is missing.
    pub(super) async fn of(
        context: &Arc<RunnerContext>,
        start: &mut Start,
    ) -> Result<Self, NotPrepared> {
        let (context, mut own) = (Arc::clone(context), start.clone());
        let prepared = spawn_blocking(move || {
            let RunnerContext { workspace_dir, containment, prices, .. } = &*context;
            let prepared = prepare(&mut own, workspace_dir, containment, prices);
            prepared.map(|prepared| (own, prepared))
        });
        let (own, PreparedProgram { gateway, agent }) =
            prepared.await.map_err(NotPrepared::Aside)??;
        *start = own;
        let language = match agent {
            Some(PreparedAgent { session, conversation }) => {
                let (session, fleet) = (Mutex::new(session), FleetTools::of(start));
                let talk = AgentTalk { session, directory: conversation, fleet };
                ProgramLanguage::Agent(Arc::new(talk))
            }
            None if start.brief.runner.kind == RunnerKind::Cli => {
                ProgramLanguage::Once { has_argument: put_brief(start) }
            }
            None => ProgramLanguage::Lines,
        };
        Ok(Self { language, gateway: gateway.map(Arc::new) })
    }

    /// The conversation with a coding agent, if it is one.
    pub(super) fn agent(&self) -> Option<&Arc<AgentTalk>> {
        match &self.language {
            ProgramLanguage::Agent(talk) => Some(talk),
            ProgramLanguage::Lines | ProgramLanguage::Once { .. } => None,
        }
    }

    /// Where its program's calls to the fleet come in; none where it is offered no tool of it.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(super) fn listener(&self) -> io::Result<Option<UnixListener>> {
        let talk = self.agent().filter(|talk| talk.fleet.is_some());
        talk.map(|talk| listen(&socket_in(&talk.directory))).transpose()
    }

    /// Answers its program's calls to the fleet, and passes on those of its model.
    pub(super) fn serve(
        &self,
        listener: Option<UnixListener>,
        traces: &Traces,
        channels: CallChannels,
    ) -> ServedCalls {
        let model = self.serve_model(channels.events.clone());
        let open = |it, talk| FleetServer::open(talk, it, traces.clone(), channels);
        let fleet = listener.zip(self.agent().cloned()).map(|(it, talk)| open(it, talk));
        ServedCalls { _fleet: fleet, _model: model }
    }

    /// Where its program's calls of its model come in.
    pub(super) fn gateway(&self) -> Option<SocketAddr> {
        self.gateway.as_deref().map(ModelGateway::address)
    }

    /// Passes on its program's calls of its model.
    fn serve_model(&self, events: mpsc::Sender<RunnerEvent>) -> Option<GatewayServer> {
        let served = self.gateway.as_ref()?.serve(events);
        served.unwrap_or_else(|cause| {
            tracing::error!(%cause, "a run's model gateway cannot be served");
            None
        })
    }

    /// Why its program's last call of its model was not made, if it was for its grant.
    pub(super) fn withheld(&self) -> Option<String> {
        self.gateway.as_ref()?.withheld()
    }

    /// The first line; `dir` is the absolute working directory.
    pub(super) fn first_line(&self, start: &Start, dir: &str) -> Vec<u8> {
        match &self.language {
            ProgramLanguage::Lines => brief_line(start, dir),
            ProgramLanguage::Once { has_argument: true } => Vec::new(),
            ProgramLanguage::Once { .. } => whole_brief(start).into_bytes(),
            ProgramLanguage::Agent(talk) => talk.session().first_line(dir),
        }
    }

    /// What it takes without saying so; none when it says so itself.
    pub(super) fn takes(&self) -> Option<BTreeSet<Verb>> {
        match &self.language {
            ProgramLanguage::Lines => None,
            ProgramLanguage::Once { .. } => Some(BTreeSet::new()),
            ProgramLanguage::Agent(_) => Some(BTreeSet::from(VERBS)),
        }
    }

    /// A line for it.
    pub(super) fn telling(&self, line: &Inbound) -> Telling {
        let is_heard = |call: &str, verdict| {
            self.gateway.as_ref().is_some_and(|gateway| gateway.answered(call, verdict))
        };
        match line {
            Inbound::Mail { topic, from, body, place, answers } => match &self.language {
                ProgramLanguage::Lines => protocol_told(line),
                ProgramLanguage::Once { .. } => {
                    AgentDelivery::Refused("its program takes no messages".to_owned()).into()
                }
                ProgramLanguage::Agent(talk) if topic == STATUS_REQUEST => {
                    Telling { told: AgentDelivery::Done, events: vec![talk.session().status()] }
                }
                ProgramLanguage::Agent(talk) => talk.letter((topic, from, body), *place, *answers),
            },
            Inbound::Granted { call } if is_heard(call, Ok(())) => AgentDelivery::Done.into(),
            Inbound::Withheld { call, why } if is_heard(call, Err(why.clone())) => {
                AgentDelivery::Done.into()
            }
            Inbound::Saved
            | Inbound::Noted(_)
            | Inbound::Granted { .. }
            | Inbound::Withheld { .. }
            | Inbound::BudgetWarning { .. }
            | Inbound::BudgetRaised { .. } => match &self.language {
                ProgramLanguage::Lines => protocol_told(line),
                // What follows from its budget, its host does.
                ProgramLanguage::Once { .. } | ProgramLanguage::Agent(_) => {
                    AgentDelivery::Done.into()
                }
            },
        }
    }

    /// What becomes of a verb.
    pub(super) fn verb(&self, command: &Command) -> AgentDelivery {
        match &self.language {
            ProgramLanguage::Lines => AgentDelivery::Line(verb_line(command)),
            ProgramLanguage::Once { .. } => {
                AgentDelivery::Refused("its program takes no verbs".to_owned())
            }
            ProgramLanguage::Agent(talk) => talk.session().verb(command),
        }
    }

    /// The request to end; none when it waits until it can be said.
    pub(super) fn stop(&self, reason: &str, drain: Millis) -> Option<AgentInput> {
        match &self.language {
            ProgramLanguage::Lines => Some(AgentInput::Line(stop_line(reason, drain))),
            ProgramLanguage::Once { .. } => None,
            ProgramLanguage::Agent(talk) => talk.session().stop(reason),
        }
    }

    /// The request to end for the next session; none when it waits until it can be said.
    pub(super) fn rotate(&self, reason: &str, drain: Millis) -> Option<AgentInput> {
        match &self.language {
            ProgramLanguage::Lines => Some(AgentInput::Line(rotate_line(reason, drain))),
            ProgramLanguage::Once { .. } => None,
            ProgramLanguage::Agent(talk) => talk.session().rotate(),
        }
    }

    /// What hands a result back.
    pub(super) fn invalid(&self, faults: &[SchemaViolation]) -> AgentDelivery {
        match &self.language {
            ProgramLanguage::Lines => AgentDelivery::Line(invalid_line(faults)),
            ProgramLanguage::Once { .. } => {
                AgentDelivery::Refused("its program was asked once".to_owned())
            }
            ProgramLanguage::Agent(talk) => talk.session().invalid(faults),
        }
    }

    /// Whether its input is closed once it gave its result: it waits for more otherwise.
    pub(super) fn ends_with_its_result(&self) -> bool {
        match &self.language {
            ProgramLanguage::Lines | ProgramLanguage::Once { .. } => false,
            ProgramLanguage::Agent(_) => true,
        }
    }

    /// What it is told after its first line goes here.
    pub(super) fn told_first(&self, mut feed: Feed) -> Feed {
        if self.is_asked_once() {
            feed.finish();
        }
        feed
    }

    /// Whether it hears nothing after its first line: then its input is closed, and nothing asks it to end.
    pub(super) fn is_asked_once(&self) -> bool {
        matches!(self.language, ProgramLanguage::Once { .. })
    }

    /// What it said that nobody knows.
    pub(super) fn unknown(&self) -> Option<String> {
        match &self.language {
            ProgramLanguage::Lines | ProgramLanguage::Once { .. } => None,
            ProgramLanguage::Agent(talk) => talk.session().unknown(),
        }
    }

    /// Removes what it kept: nobody goes on with it.
    pub(super) async fn forget(&self) {
        let Some(talk) = self.agent() else { return };
        let directory = talk.directory.clone();
        if let Err(cause) = spawn_blocking(move || forget(&directory)).await {
            tracing::error!(%cause, "removing an agent's conversation failed");
        }
    }
}

/// The lines of an output that answers, and what follows from it.
fn telling_of(output: AgentOutput) -> Telling {
    let lines = output.inputs.into_iter().filter_map(|input| match input {
        AgentInput::Line(line) => Some(line),
        AgentInput::Close => None,
    });
    let told = AgentDelivery::Line(lines.collect::<Vec<Vec<u8>>>().concat());
    let note = output.note.map(|text| RunnerEvent::Log { text });
    let events = output.events.into_iter().filter_map(|event| match event {
        ProgramEvent::Plain(event) => Some(event),
        ProgramEvent::Usage(_)
        | ProgramEvent::Artifact(_)
        | ProgramEvent::Takes(_)
        | ProgramEvent::Taken(_)
        | ProgramEvent::Turn { .. }
        | ProgramEvent::Result { .. } => None,
    });
    Telling { told, events: note.into_iter().chain(events).collect() }
}

fn protocol_told(line: &Inbound) -> Telling {
    protocol_line(line).map_or(AgentDelivery::Done, AgentDelivery::Line).into()
}

/// A line of our protocol.
fn protocol_line(line: &Inbound) -> Option<Vec<u8>> {
    Some(match line {
        Inbound::Mail { topic, from, body, answers, .. } => mail_line(topic, from, body, *answers),
        Inbound::Saved => saved_line(),
        Inbound::Granted { call } => granted_line(call),
        Inbound::Withheld { call, why } => withheld_line(call, why),
        Inbound::BudgetWarning { counter, used, limit } => budget_line(*counter, *used, *limit),
        Inbound::BudgetRaised { limit } => raised_line(*limit),
        // Only the llm runner records its conversation.
        Inbound::Noted(_) => return None,
    })
}

/// What a line is called where people are told that it was dropped.
pub(super) fn what(line: &Inbound) -> String {
    match line {
        Inbound::Mail { topic, from, .. } => format!("`{topic}` from {from}"),
        Inbound::Saved => "`saved`".to_owned(),
        Inbound::Granted { call } => format!("`granted` of {call}"),
        Inbound::Withheld { call, .. } => format!("`withheld` of {call}"),
        Inbound::BudgetWarning { .. } => "`budget`".to_owned(),
        Inbound::BudgetRaised { .. } => "`raised`".to_owned(),
        Inbound::Noted(_) => "`noted`".to_owned(),
    }
}

impl OutputReader {
    /// Answers a coding agent: after what it did was told, and before its result is, which closes its input.
    pub(super) fn answer(&mut self, wires: &OutputChannels) {
        for input in self.inputs.drain(..) {
            if let Err(refused) = wires.inputs.try_send(input) {
                tracing::warn!(%refused, "an answer to a coding agent was dropped");
            }
        }
    }

    /// Takes a line of a coding agent.
    pub(super) async fn agent_line(&mut self, talk: &AgentTalk, line: &OutputLine) {
        let output = match line {
            OutputLine::Whole(bytes) => talk.session().read(bytes),
            OutputLine::Cut { start, .. } => talk.session().read_cut(start),
        };
        if output.is_text {
            self.text_line(line);
        }
        if let Some(note) = output.note {
            self.note(&note);
        }
        self.inputs.extend(output.inputs);
        for event in output.events {
            // What it says is what there is of its work, should it come to no more.
            if let ProgramEvent::Plain(RunnerEvent::Text { text }) = event {
                self.text_line(&OutputLine::Whole(text.into_bytes()));
            } else {
                self.event(event).await;
            }
        }
    }
}

impl ProgramRun {
    /// Does to its input what its adapter says; `what` it is for people.
    pub(super) fn put_in(&mut self, what: &str, input: AgentInput) {
        let Some(feed) = &mut self.feed else { return };
        match input {
            AgentInput::Line(line) => {
                if let Err(refused) = feed.offer(line) {
                    note_down(&self.notes, format!("the {what} could not be told: {refused}"));
                }
            }
            AgentInput::Close => feed.finish(),
        }
    }

    /// It gave its result.
    pub(super) fn gave_result(&mut self) {
        while let Ok(input) = self.inputs.try_recv() {
            self.put_in("answer", input);
        }
        if self.speech.ends_with_its_result() {
            self.put_in("end", AgentInput::Close);
        }
    }
}
