//! A hosted agent's session, as its host orchestrator drives it (spec 04, 06): claim the
//! cursor, journal, start, pass on what the program says and what the bus says, end. The shell
//! performs the effects in order and stops at the first that is fenced.

use crate::brief::{Artifact, Outcome, RunResult};
use crate::cursor::ClaimOutcome;
use crate::id::{AgentId, Principal, RequestId, RunId};
use crate::journal::JournalEvent;
use crate::limits::{DELIVERABLE_BYTES_MAX, DRAIN, KILL_GRACE, SPONSOR_ANSWER_WITHIN};
use crate::mail::{Launch, Mail, MailBody, SponsorRequest};
use crate::order::{Exit, Inbound, LocalFile, Order, RunnerEvent, Start};
use crate::request::{Report, SpawnRequest};
use crate::role::Role;
use crate::run::{Run, RunEvent};
use crate::time::BusTime;

/// Log text that is gathered before it is journaled, in bytes.
const LOG_GATHERED_MAX: usize = 16 * 1024;
/// Log text that is journaled of one run, in bytes; the rest is only streamed.
const LOG_JOURNALED_MAX: usize = 256 * 1024;

/// What happens to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The answer to [`Effect::Claim`].
    Claimed(ClaimOutcome),
    /// The runner saw something of its run.
    Runner(RunnerEvent),
    /// A message from the agent's inbox; `json` is its body as it came.
    Mail {
        /// Who wrote it.
        from: Principal,
        /// What it says.
        mail: Box<Mail>,
        /// The body's JSON text.
        json: String,
    },
    /// The answer to [`Effect::ReadSpawn`].
    SpawnRead(Result<Box<SpawnRequest>, String>),
    /// The answer to [`Effect::Store`].
    Stored(Vec<Artifact>),
    /// Another epoch writes the cursor or the journal: this session is over.
    Fenced,
    /// Time has passed.
    Tick,
}

/// What is done for a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Claim the cursor for this life of the host.
    Claim,
    /// Append to the run's journal.
    Journal(JournalEvent),
    /// Tell the runner.
    Order(Box<Order>),
    /// Report to the owner, under this id so that a repeat is known.
    Report(Box<Report>),
    /// Read a program's spawn request: give back [`Input::SpawnRead`].
    ReadSpawn {
        /// Its JSON text.
        json: String,
    },
    /// Ask the governor directly.
    Request(RequestId, Box<SpawnRequest>),
    /// Write to somebody under the agent's name.
    Mail(Box<Mail>),
    /// Store files and texts: give back [`Input::Stored`], in this order.
    Store(Vec<Keep>),
    /// Publish text to whoever is looking.
    Stream(String),
    /// The session is over; nothing follows.
    End,
}

/// Something to be stored as an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// A file of the program's.
    File(LocalFile),
    /// A text that is too large for a record.
    Text {
        /// What it is called.
        name: String,
        /// The text.
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Claiming,
    Starting,
    Running,
    Ending,
    Over,
}

/// One session of an agent that executes a brief.
#[derive(Debug, Clone)]
pub struct Hosted {
    launch: Launch,
    run: Run,
    host: String,
    checkpoint: Option<String>,
    phase: Phase,
    trace: Option<String>,
    spawns: usize,
    sponsor_due: Option<(RequestId, BusTime)>,
    asking: bool,
    killed: bool,
    log: String,
    logged: usize,
    result: Option<RunResult>,
    exit: Option<Exit>,
    storing: bool,
}

impl Hosted {
    /// A session that is to be started. `checkpoint`: the state of the run it goes on from;
    /// `host` is for people.
    #[must_use]
    pub fn new(
        launch: Launch,
        run: Run,
        host: String,
        checkpoint: Option<String>,
        trace: Option<String>,
    ) -> Self {
        Self {
            launch,
            run,
            host,
            checkpoint,
            phase: Phase::Claiming,
            trace,
            spawns: 0,
            sponsor_due: None,
            asking: false,
            killed: false,
            log: String::new(),
            logged: 0,
            result: None,
            exit: None,
            storing: false,
        }
    }

    /// The run it makes.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run.id
    }

    /// The effects that begin it.
    #[must_use]
    pub fn begin(&self) -> Vec<Effect> {
        vec![Effect::Claim]
    }

    /// When something is due without any input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<BusTime> {
        self.sponsor_due.map(|(_, at)| at)
    }

    /// Takes an input and says what to do.
    pub fn step(&mut self, now: BusTime, input: Input) -> Vec<Effect> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        let mut effects = Vec::new();
        match input {
            Input::Claimed(outcome) => self.claimed(&outcome, &mut effects),
            Input::Runner(event) => self.observe(now, event, &mut effects),
            Input::Mail { from, mail, json } => self.receive(&from, *mail, json, &mut effects),
            Input::SpawnRead(read) => self.spawn_read(now, read, &mut effects),
            Input::Stored(artifacts) => self.stored(artifacts, &mut effects),
            Input::Fenced => self.kill(&mut effects),
            Input::Tick => self.tick(now, &mut effects),
        }
        effects
    }

    fn claimed(&mut self, outcome: &ClaimOutcome, effects: &mut Vec<Effect>) {
        match outcome {
            ClaimOutcome::Claimed => {
                self.phase = Phase::Starting;
                effects.push(Effect::Journal(JournalEvent::Starting { host: self.host.clone() }));
                effects.push(Effect::Order(Box::new(Order::Start(Box::new(self.start())))));
            }
            ClaimOutcome::EarlierLife => {
                let cause = "host_restart".to_owned();
                effects.push(Effect::Report(Box::new(Report::Crashed { cause })));
                self.over(effects);
            }
            ClaimOutcome::ClaimAgain => effects.push(Effect::Claim),
            ClaimOutcome::DoNotStart => self.over(effects),
        }
    }

    fn start(&self) -> Start {
        Start {
            run: self.run.id,
            agent: self.launch.agent.clone(),
            session: self.launch.session,
            epoch: self.launch.epoch,
            parent: self.launch.parent.clone(),
            depth: self.launch.depth,
            epic: self.run.epic,
            node: self.run.node,
            brief: self.run.brief.clone(),
            checkpoint: self.checkpoint.clone(),
            trace: self.trace.clone(),
        }
    }

    fn observe(&mut self, now: BusTime, event: RunnerEvent, effects: &mut Vec<Effect>) {
        if !matches!(event, RunnerEvent::Log { .. }) {
            self.flush_log(effects);
        }
        match event {
            RunnerEvent::Started { pid, isolation } => {
                self.phase = Phase::Running;
                effects.push(Effect::Journal(JournalEvent::Started { pid, isolation }));
                effects.push(Effect::Report(Box::new(Report::Ready)));
            }
            RunnerEvent::SpawnFailed { error } => {
                self.result = Some(RunResult::ended(Outcome::Failure, error));
                self.exit = Some(Exit::Code(127));
                self.finish(effects);
            }
            RunnerEvent::Log { text } => self.log_line(&text, effects),
            RunnerEvent::Progress { text, done, total } => {
                effects.push(Effect::Stream(text.clone()));
                effects.push(Effect::Journal(JournalEvent::Progress { text, done, total }));
            }
            RunnerEvent::Usage(usage) => effects.push(Effect::Journal(JournalEvent::Usage(usage))),
            RunnerEvent::Checkpoint { state } => {
                effects.push(Effect::Journal(JournalEvent::Checkpoint { state }));
            }
            RunnerEvent::Update { update } => {
                effects.push(Effect::Journal(JournalEvent::Update { update }));
            }
            RunnerEvent::Ask { question, options } => self.ask(question, options, effects),
            RunnerEvent::Blocked { reason } => {
                effects.push(Effect::Journal(JournalEvent::Blocked { reason: reason.clone() }));
                effects.push(self.moved(RunEvent::ExternalBlocked, reason));
            }
            RunnerEvent::Unblocked => {
                effects.push(Effect::Journal(JournalEvent::Unblocked));
                effects.push(self.moved(RunEvent::Unblocked, String::new()));
            }
            RunnerEvent::Spawn { request } => effects.push(Effect::ReadSpawn { json: request }),
            RunnerEvent::Result { result, files } => self.take_result(*result, files, effects),
            RunnerEvent::Exited { exit, result } => self.exited(now, exit, result, effects),
        }
    }

    fn moved(&self, event: RunEvent, reason: String) -> Effect {
        let usage = self.result.as_ref().map(|result| result.usage).unwrap_or_default();
        Effect::Report(Box::new(Report::Run { run: self.run.id, event, reason, usage }))
    }

    fn ask(&mut self, question: String, options: Vec<String>, effects: &mut Vec<Effect>) {
        self.asking = true;
        effects.push(Effect::Journal(JournalEvent::Ask {
            question: question.clone(),
            options: options.clone(),
        }));
        let run = self.run.id;
        effects.push(Effect::Report(Box::new(Report::Ask { run, question, options })));
    }

    fn log_line(&mut self, text: &str, effects: &mut Vec<Effect>) {
        effects.push(Effect::Stream(text.to_owned()));
        let room = LOG_JOURNALED_MAX.saturating_sub(self.logged);
        if room == 0 {
            return;
        }
        self.logged += text.len();
        self.log.push_str(text);
        self.log.push('\n');
        if self.logged >= LOG_JOURNALED_MAX {
            self.log.push_str("[further output is streamed, not kept]\n");
        }
        if self.log.len() >= LOG_GATHERED_MAX {
            self.flush_log(effects);
        }
    }

    fn flush_log(&mut self, effects: &mut Vec<Effect>) {
        if !self.log.is_empty() {
            let text = std::mem::take(&mut self.log);
            effects.push(Effect::Journal(JournalEvent::Log { text }));
        }
    }

    /// A result is kept until every process of the run is gone: only then is its slot free.
    fn take_result(
        &mut self,
        mut result: RunResult,
        files: Vec<LocalFile>,
        effects: &mut Vec<Effect>,
    ) {
        let mut keep: Vec<Keep> = files.into_iter().map(Keep::File).collect();
        for (name, text) in
            [("deliverable", &mut result.deliverable), ("partial", &mut result.partial)]
        {
            if text.len() > DELIVERABLE_BYTES_MAX {
                let whole = std::mem::replace(text, head(text));
                keep.push(Keep::Text { name: name.to_owned(), text: whole });
            }
        }
        self.result = Some(result);
        if keep.is_empty() {
            self.finish(effects);
        } else {
            self.storing = true;
            effects.push(Effect::Store(keep));
        }
    }

    fn stored(&mut self, artifacts: Vec<Artifact>, effects: &mut Vec<Effect>) {
        self.storing = false;
        if let Some(result) = &mut self.result {
            result.artifacts.extend(artifacts);
        }
        self.finish(effects);
    }

    fn exited(
        &mut self,
        _now: BusTime,
        exit: Exit,
        result: Option<Box<RunResult>>,
        effects: &mut Vec<Effect>,
    ) {
        self.exit = Some(exit);
        if self.killed {
            self.over(effects);
            return;
        }
        match (&self.result, result) {
            (None, Some(result)) => self.take_result(*result, Vec::new(), effects),
            (None, None) => {
                let error = "its program ended without a result";
                self.result = Some(RunResult::ended(Outcome::Failure, error));
                self.finish(effects);
            }
            (Some(_), _) => self.finish(effects),
        }
    }

    /// Reports the result once its files are stored and every process is gone.
    fn finish(&mut self, effects: &mut Vec<Effect>) {
        let (Some(exit), Some(result), false) = (&self.exit, &self.result, self.storing) else {
            return;
        };
        let cause = match exit {
            Exit::Code(code) => format!("exit {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
        };
        let result = result.clone();
        effects.push(Effect::Journal(JournalEvent::Result(Box::new(result.clone()))));
        effects.push(Effect::Report(Box::new(Report::Result {
            run: Some(self.run.id),
            epic: None,
            result,
        })));
        effects.push(Effect::Journal(JournalEvent::Ended { cause }));
        self.over(effects);
    }

    fn over(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Over;
        effects.push(Effect::End);
    }

    /// Ends the process without a report: the session is no longer the current one.
    fn kill(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Claiming {
            self.over(effects);
            return;
        }
        self.killed = true;
        self.phase = Phase::Ending;
        effects.push(Effect::Order(Box::new(Order::Kill { run: self.run.id })));
    }

    fn receive(&mut self, from: &Principal, mail: Mail, json: String, effects: &mut Vec<Effect>) {
        match &mail.body {
            MailBody::Kill(order) | MailBody::Superseded(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.kill(effects);
                }
            }
            MailBody::Stop(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.stop(&order.reason.clone(), effects);
                }
            }
            MailBody::SponsorAnswer(answer) => {
                if self.sponsor_due.is_some_and(|(request, _)| request == answer.request) {
                    self.sponsor_due = None;
                }
                self.deliver(from, &mail, json, effects);
            }
            MailBody::Answer { .. } => {
                if std::mem::take(&mut self.asking) {
                    effects.push(self.moved(RunEvent::InputReceived, "answered".to_owned()));
                }
                self.deliver(from, &mail, json, effects);
            }
            MailBody::SpawnAnswer(_)
            | MailBody::Sponsor(_)
            | MailBody::Launch(_)
            | MailBody::TakeOn { .. }
            | MailBody::ResultReady(_)
            | MailBody::AgentCompleted { .. }
            | MailBody::Violation { .. }
            | MailBody::AgentLost { .. }
            | MailBody::Question { .. }
            | MailBody::Reply(_)
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Info { .. }
            | MailBody::Unknown { .. } => self.deliver(from, &mail, json, effects),
        }
    }

    fn deliver(&self, from: &Principal, mail: &Mail, json: String, effects: &mut Vec<Effect>) {
        let (topic, from) = (mail.body.topic().to_owned(), from.to_string());
        effects
            .push(Effect::Journal(JournalEvent::Mail { topic: topic.clone(), from: from.clone() }));
        let line = Inbound::Mail { topic, from, body: json };
        effects.push(Effect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }

    fn stop(&mut self, reason: &str, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Ending {
            return;
        }
        if self.phase == Phase::Claiming {
            self.result = Some(RunResult::ended(Outcome::Cancelled, reason));
        }
        self.phase = Phase::Ending;
        let reason = reason.to_owned();
        effects.push(Effect::Journal(JournalEvent::Stopping { reason: reason.clone() }));
        effects.push(self.moved(RunEvent::CancelRequested, reason.clone()));
        effects.push(Effect::Order(Box::new(Order::Stop {
            run: self.run.id,
            drain: DRAIN,
            kill_grace: KILL_GRACE,
            reason,
        })));
    }

    /// A program asks for agents: a specialist's request goes to its PO, anybody else's to
    /// the governor (spec 03, Specialists escalate).
    fn spawn_read(
        &mut self,
        now: BusTime,
        read: Result<Box<SpawnRequest>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let wanted = match read {
            Ok(wanted) => wanted,
            Err(error) => {
                let body = format!("{{\"error\":{}}}", serde_json::Value::from(error));
                let line = Inbound::Mail {
                    topic: "spawn.denied".to_owned(),
                    from: AgentId::Go.to_string(),
                    body,
                };
                effects.push(Effect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
                return;
            }
        };
        self.spawns += 1;
        let request = RequestId::derive(now, &self.run.id.to_string(), "spawn", self.spawns);
        effects.push(Effect::Journal(JournalEvent::Spawn { request }));
        let sponsor = self.launch.project.clone().map(AgentId::Po);
        match (Role::of(&self.launch.agent), sponsor) {
            (Role::Specialist, Some(po)) => {
                self.sponsor_due = Some((request, now + SPONSOR_ANSWER_WITHIN));
                effects.push(Effect::Mail(Box::new(Mail {
                    to: Principal::Agent(po),
                    epic: Some(self.run.epic),
                    correlation: Some(request),
                    cause: self.run.id.to_string(),
                    ack_required: true,
                    trace: self.trace.clone(),
                    body: MailBody::Sponsor(SponsorRequest { request, wanted: *wanted }),
                })));
            }
            (_, _) => effects.push(Effect::Request(request, wanted)),
        }
    }

    fn tick(&mut self, now: BusTime, effects: &mut Vec<Effect>) {
        let Some((request, at)) = self.sponsor_due else { return };
        if at > now {
            return;
        }
        self.sponsor_due = None;
        if let Some(project) = self.launch.project.clone() {
            let sponsor = AgentId::Po(project);
            effects.push(Effect::Report(Box::new(Report::SponsorSilent { request, sponsor })));
        }
    }
}

/// The beginning of a text that is stored as an artifact, cut at a character.
fn head(text: &str) -> String {
    let mut end = DELIVERABLE_BYTES_MAX / 4;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}\n[the whole text is the artifact]", &text[..end])
}
