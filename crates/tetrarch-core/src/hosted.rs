//! A hosted agent's session, as its host orchestrator drives it (spec 04, 06): claim the
//! cursor, journal, start, pass on what the program says and what the bus says, end. The shell
//! performs the effects in order and stops at the first that is fenced.

mod asking;
mod conversing;
mod correspondence;
mod effect;
mod ending;
mod family;
mod handing;
mod log;
mod noting;
mod operating;
mod redacting;
mod spending;
mod starting;
#[cfg(test)]
mod tests;
mod updating;
mod verbs;
mod worktree;

use std::collections::BTreeMap;

use crate::brief::{Artifact, Outcome, RunResult};
use crate::budget::Spend;
use crate::change::Made;
use crate::converse::Recorded;
use crate::cursor::ClaimOutcome;
use crate::id::{Principal, QuestionId, RequestId, RunId};
use crate::journal::JournalEvent;
use crate::mail::{Launch, Mail};
use crate::order::{Exit, Inbound, Order, RunnerEvent, StopWithin};
use crate::request::{HOST_RESTART, Report, SpawnRequest};
use crate::run::{Run, RunEvent, RunState};
use crate::time::BusTime;
use crate::vitals::Activity;

use family::Family;
use handing::HandedOver;
use log::RunLog;
use noting::Noted;
use operating::RecentMail;
use spending::Spending;
use updating::Updates;
use verbs::PendingVerbs;

pub use effect::{Keep, SessionEffect};
pub use handing::FetchedArtifact;
pub use operating::{MAIL_REFUSED, MAIL_SENT, OPERATIONS, REPLY};

/// What happens to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionInput {
    /// The answer to [`SessionEffect::Claim`].
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
        /// Its place on the mail lane; 0 for control.
        place: u64,
    },
    /// The answer to [`SessionEffect::ReadSpawn`]: the request id that the program gave, if any, and
    /// what it wants, or what is wrong with it.
    SpawnRead(Result<(Option<RequestId>, Box<SpawnRequest>), String>),
    /// The answer to [`SessionEffect::Store`].
    Stored(Vec<Artifact>),
    /// The answer to [`SessionEffect::Fetch`], with what it named; or why the artifact cannot be read.
    Fetched {
        /// Whose call it is.
        id: RequestId,
        /// The first byte that is wanted.
        offset: u64,
        /// The artifact.
        fetched: Result<FetchedArtifact, String>,
    },
    /// Another epoch writes the cursor or the journal: this session is over.
    Fenced,
    /// The host stops: the program is to reach a boundary, and the session ends. Its next one, under another
    /// life of a host, goes on.
    HostStops,
    /// Time has passed.
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    Claiming,
    Starting,
    Running,
    Ending,
    Over,
}

/// One session of an agent that executes a brief.
#[derive(Debug, Clone)]
pub struct HostedSession {
    launch: Launch,
    run: Run,
    host: String,
    checkpoint: Option<String>,
    recorded: Vec<Recorded>,
    /// The last message that the runs before it heard and recorded.
    heard_before: u64,
    /// The first run of those that it goes on from.
    first: RunId,
    /// How often a result was handed back, in this run and those before it.
    returned: u32,
    phase: SessionPhase,
    trace: Option<String>,
    spawns: usize,
    sponsors: BTreeMap<RequestId, BusTime>,
    /// How often its program asked people to look at the plan.
    reviews: usize,
    asking: BTreeMap<QuestionId, Option<RequestId>>,
    asked: usize,
    /// Messages of the inbox that were given to the program.
    letters: RecentMail,
    /// Agents below it, and waits for them.
    family: Family,
    /// Files that it handed over, and artifacts that it may read.
    handed: HandedOver,
    /// Operations and messages that had no id of their own.
    asked_for: usize,
    /// What the ids of requests are made of that the program gives none.
    id_seed: String,
    updates: Updates,
    /// When it was last told something.
    now: BusTime,
    blocked: bool,
    verbs: PendingVerbs,
    compacting: bool,
    heard: u64,
    stop_within: StopWithin,
    killed: bool,
    /// It was asked to end so that its next session goes on.
    rotating: bool,
    /// Why it was ordered to end, when the owner waits to hear that it is gone.
    ordered: Option<String>,
    stopped: Option<String>,
    log: RunLog,
    /// What is journaled with what is journaled next.
    noted: Noted,
    activity: Activity,
    spending: Spending,
    result: Option<RunResult>,
    exit: Option<Exit>,
    storing: bool,
    /// What it changed in its worktree.
    change: Option<Box<Made>>,
    /// The diff of that is being stored.
    diffing: bool,
}

impl HostedSession {
    /// The run that a new agent makes, whose cursor is not sealed; none of any other.
    #[must_use]
    pub fn first_run(&self) -> Option<RunId> {
        self.launch.first_run()
    }

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
        let mut hosted = Self {
            launch,
            first: run.id,
            id_seed: run.id.to_string(),
            run,
            host,
            checkpoint,
            recorded: Vec::new(),
            heard_before: 0,
            returned: 0,
            phase: SessionPhase::Claiming,
            trace,
            spawns: 0,
            sponsors: BTreeMap::new(),
            reviews: 0,
            asking: BTreeMap::new(),
            asked: 0,
            letters: RecentMail::default(),
            family: Family::default(),
            handed: HandedOver::default(),
            asked_for: 0,
            updates: Updates::default(),
            now: BusTime::default(),
            blocked: false,
            verbs: PendingVerbs::default(),
            compacting: false,
            heard: 0,
            stop_within: StopWithin::default(),
            killed: false,
            rotating: false,
            ordered: None,
            stopped: None,
            log: RunLog::default(),
            noted: Noted::default(),
            activity: Activity::default(),
            spending: Spending::default(),
            result: None,
            exit: None,
            storing: false,
            change: None,
            diffing: false,
        };
        hosted.meter_after(Spend::default());
        hosted
    }

    /// The same with another time for a stop.
    #[must_use]
    pub fn stopping_within(self, stop_within: StopWithin) -> Self {
        Self { stop_within, ..self }
    }

    /// The run it makes.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run.id
    }

    /// What its program is doing.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Where the run stands, as far as is known here.
    #[must_use]
    pub fn run_state(&self) -> RunState {
        match self.phase {
            SessionPhase::Claiming => RunState::Queued,
            SessionPhase::Starting => RunState::Spawning,
            SessionPhase::Running => self.state_at_work(),
            SessionPhase::Ending | SessionPhase::Over => RunState::Cancelling,
        }
    }

    /// How often its program was heard of: grows while it moves (spec 04, The five states).
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.heard
    }

    /// The effects that begin it.
    #[must_use]
    pub fn begin(&self) -> Vec<SessionEffect> {
        vec![SessionEffect::Claim]
    }

    /// When something is due without any input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<BusTime> {
        let journaled = self.log.due().into_iter().chain(self.noted.due());
        let others = self.updates.next_deadline().into_iter().chain(journaled);
        let waits = self.family.next_deadline();
        self.sponsors.values().copied().chain(others).chain(waits).min()
    }

    /// Takes an input and says what to do.
    pub fn step(&mut self, now: BusTime, input: SessionInput) -> Vec<SessionEffect> {
        if self.phase == SessionPhase::Over {
            // The end itself was fenced off, with everything that came before it.
            let fenced = matches!(input, SessionInput::Fenced);
            return if fenced { vec![SessionEffect::End] } else { Vec::new() };
        }
        self.now = now;
        let mut effects = Vec::new();
        match input {
            SessionInput::Claimed(outcome) => self.claimed(&outcome, &mut effects),
            SessionInput::Runner(event) => self.observe(event, &mut effects),
            SessionInput::Mail { from, mail, json, place } => {
                self.receive(&from, *mail, (json, place), &mut effects);
            }
            SessionInput::SpawnRead(read) => self.spawn_read(now, read, &mut effects),
            SessionInput::Stored(kept) if self.handed.is_storing() => {
                self.handed_over(kept, &mut effects);
            }
            SessionInput::Fetched { id, offset, fetched } => {
                self.fetched(id, offset, fetched, &mut effects);
            }
            SessionInput::Stored(kept) if self.diffing => self.diffed(&kept, &mut effects),
            SessionInput::Stored(artifacts) => self.stored(artifacts, &mut effects),
            SessionInput::Fenced => {
                let starting = self.phase == SessionPhase::Starting;
                self.kill(&mut effects);
                if starting {
                    // The order to start may have been fenced off: nobody would tell of an exit.
                    self.over(&mut effects);
                }
            }
            SessionInput::HostStops => self.rotate(ending::HOST_STOPS, false, &mut effects),
            SessionInput::Tick => self.tick(now, &mut effects),
        }
        self.noted.join(effects)
    }

    fn claimed(&mut self, outcome: &ClaimOutcome, effects: &mut Vec<SessionEffect>) {
        match outcome {
            ClaimOutcome::Claimed => {
                if let Some(reason) = self.stopped.take() {
                    self.never_started(reason, effects);
                    return;
                }
                self.phase = SessionPhase::Starting;
                let starting = JournalEvent::Starting { host: self.host.clone() };
                if self.run.brief.runner.kind.has_effects() {
                    effects.push(SessionEffect::Journal(starting));
                } else {
                    self.noted.add(self.now, starting);
                }
                self.note_earlier_runs(effects);
                effects.push(SessionEffect::Order(Box::new(Order::Start(Box::new(self.start())))));
            }
            ClaimOutcome::EarlierLife => {
                let cause = HOST_RESTART.to_owned();
                effects.push(SessionEffect::Report(Box::new(Report::Crashed { cause })));
                self.over(effects);
            }
            ClaimOutcome::ClaimAgain => effects.push(SessionEffect::Claim),
            ClaimOutcome::DoNotStart => self.over(effects),
        }
    }

    /// A session that was stopped before it could start anything.
    fn never_started(&mut self, reason: String, effects: &mut Vec<SessionEffect>) {
        effects.push(SessionEffect::Journal(JournalEvent::Stopping { reason: reason.clone() }));
        effects.push(self.moved(RunEvent::CancelRequested, reason.clone()));
        let result = RunResult::ended(Outcome::Cancelled, reason);
        self.end_with(result, "never started".to_owned(), effects);
    }

    fn observe(&mut self, event: RunnerEvent, effects: &mut Vec<SessionEffect>) {
        // That a message was taken is the runner's word, not the program's, and no progress.
        self.heard += u64::from(!matches!(event, RunnerEvent::Taken { .. }));
        let Some(event) = redacting::redacted(&mut self.log.lines, event) else { return };
        if !matches!(event, RunnerEvent::Log { .. }) {
            self.flush_log(effects);
        }
        match event {
            RunnerEvent::Started { pid, isolation } => {
                if self.phase == SessionPhase::Starting {
                    self.phase = SessionPhase::Running;
                }
                // Nobody waits for it.
                self.noted.add(self.now, JournalEvent::Started { pid, isolation });
                effects.push(SessionEffect::Report(Box::new(Report::Ready)));
                self.draw_ahead(effects);
            }
            RunnerEvent::SpawnFailed { error } => {
                let result = Box::new(RunResult::ended(Outcome::Failure, error));
                self.exited(Exit::Code(ending::NOT_STARTED), Some(result), effects);
            }
            RunnerEvent::Log { text } => self.log_line(&text, effects),
            RunnerEvent::Progress { text, done, total } => {
                self.progresses(text, (done, total), effects);
            }
            RunnerEvent::Usage(usage) => self.used(usage, effects),
            RunnerEvent::SetAside { call, worst } => self.set_aside(call, worst, effects),
            RunnerEvent::Spent { call, used } => self.spent(call, used, effects),
            RunnerEvent::Checkpoint { state, confirm } => {
                effects.push(SessionEffect::Journal(JournalEvent::Checkpoint { state }));
                if confirm {
                    let (run, line) = (self.run.id, Inbound::Saved);
                    effects.push(SessionEffect::Order(Box::new(Order::Deliver { run, line })));
                }
            }
            RunnerEvent::Update { update } => {
                effects
                    .push(SessionEffect::Journal(JournalEvent::Update { update: update.clone() }));
                self.updated(self.now, update, effects);
            }
            RunnerEvent::Ask { id, question, options } => self.ask(id, question, options, effects),
            RunnerEvent::Blocked { reason } => {
                effects
                    .push(SessionEffect::Journal(JournalEvent::Blocked { reason: reason.clone() }));
                self.block(true, reason, effects);
            }
            RunnerEvent::Unblocked => {
                effects.push(SessionEffect::Journal(JournalEvent::Unblocked));
                self.block(false, String::new(), effects);
            }
            RunnerEvent::Receipt { id, stage, why } => self.heard_receipt(id, stage, why, effects),
            RunnerEvent::Using { tool } => self.activity.uses(&tool),
            RunnerEvent::Text { text } => effects.push(SessionEffect::Stream(text)),
            RunnerEvent::Conversed { recorded, confirm } => {
                self.conversed(recorded, confirm, effects);
            }
            RunnerEvent::Returned { errors } => {
                self.returned = self.returned.saturating_add(1);
                let times = self.returned;
                effects.push(SessionEffect::Journal(JournalEvent::Returned { times, errors }));
            }
            RunnerEvent::Compacting { begins } => self.compacts(begins, effects),
            RunnerEvent::Spawn { request: json } => effects.push(SessionEffect::ReadSpawn { json }),
            RunnerEvent::Operate { id, op, body } => self.operate(id, op, &body, effects),
            RunnerEvent::HandOver { id, file } => self.hand_over(id, file, effects),
            RunnerEvent::Write { id, to, text } => self.write(id, &to, text, effects),
            RunnerEvent::Changed { made, diff } => self.changed(made, diff, effects),
            RunnerEvent::Taken { place } => self.taken(place, effects),
            // The host's own business, not a session's.
            RunnerEvent::Settled { .. } => {}
            RunnerEvent::Result { result, files } => self.take_result(*result, files, effects),
            RunnerEvent::Exited { exit, result } => self.exited(exit, result, effects),
        }
    }
}
