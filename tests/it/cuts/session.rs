//! Sessions of one run after another, each the machine of a host and the real runner, whose journal is in memory and
//! which may be cut at an entry. Stands for the bus and for people; expects nothing.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tetrarch_bus::codec::encode_journal;
use tetrarch_core::brief::{
    Brief, ExpectedOutput, RunResult, Runner, RunnerKind, Served, Tools, Worktree,
};
use tetrarch_core::budget::Limits;
use tetrarch_core::converse::Recorded;
use tetrarch_core::converse::recorded::{Gathered, Kept};
use tetrarch_core::cursor::{ClaimOutcome, Positions};
use tetrarch_core::hosted::{HostedSession, SessionEffect, SessionInput};
use tetrarch_core::id::{
    AgentId, AssignmentId, EpicId, HostName, NodeId, ProfileName, ProjectName, QuestionId, RunId,
    SessionId, Ulid,
};
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::mail::{Duty, Launch, Mail, MailBody};
use tetrarch_core::metering::Tally;
use tetrarch_core::order::{Observed, Order, RunnerEvent};
use tetrarch_core::request::Report;
use tetrarch_core::run::Run;
use tetrarch_core::time::BusTime;
use tetrarch_runner::{Containment, HostLife, RunnerConfig, serve};
use tetrarch_tests::wait;
use tokio::sync::mpsc;

const NOW: BusTime = BusTime(1_700_000_000_000);

/// Where a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Not before its end.
    Never,
    /// When it would write its n-th entry: what that tells has happened.
    Before(usize),
    /// When its n-th entry is written: nothing has followed from it.
    After(usize),
    /// The same of the first entry of the conversation. That a call begins once more is none.
    BeforeRecorded,
    AfterRecorded,
}

/// What is left of a run's sessions.
#[derive(Debug, Default)]
pub(crate) struct Story {
    name: StoryName,
    sessions: u64,
    kept: Vec<Kept>,
    spent: Tally,
    /// All that was recorded of the conversation.
    pub(crate) recorded: Vec<Recorded>,
    /// How often a result was handed back.
    pub(crate) returned: u32,
    /// Letters that were sent so far.
    pub(crate) letters: Vec<String>,
    /// What people were asked.
    pub(crate) questions: Vec<String>,
    /// What of it was about calls that were begun.
    pub(crate) doubts: Vec<String>,
    /// What each session journaled besides the conversation, in bytes.
    pub(crate) besides: Vec<usize>,
    pub(crate) result: Option<RunResult>,
}

/// What its runs have in their ids: directories of runs of all tests of a machine are in one place, and stay when a
/// test's process ends before they are removed.
#[derive(Debug, Clone, Copy)]
struct StoryName(u64);

impl Default for StoryName {
    fn default() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }
}

impl StoryName {
    /// The run of a session, from 1.
    fn run(self, session: u64) -> RunId {
        RunId(Ulid::from_parts(NOW.0, u128::from(self.0 >> 16) << 32 | u128::from(session)))
    }
}

impl Story {
    /// One whose first session was lost when it had recorded this.
    pub(crate) fn of(recorded: Vec<Recorded>) -> Self {
        let mut kept = Kept::default();
        recorded.iter().cloned().for_each(|it| kept.push(it));
        Self { sessions: 1, kept: vec![kept], recorded, besides: vec![0], ..Self::default() }
    }

    /// Turns that are recorded.
    pub(crate) fn turns(&self) -> u64 {
        let turns = self.recorded.iter().filter(|it| matches!(it, Recorded::Turn { .. }));
        turns.count() as u64
    }

    /// How often the last call that was begun was, unless it is answered.
    pub(crate) fn begun(&self) -> usize {
        let intents = self.recorded.iter().rev();
        intents.take_while(|it| matches!(it, Recorded::Intent { .. })).count()
    }
}

/// A runner, and the brief of the conversation.
pub(crate) struct Stage {
    _dir: TempDir,
    workspace: PathBuf,
    brief: Brief,
    orders: mpsc::Sender<Order>,
    observed: mpsc::Receiver<Observed>,
}

/// One session.
struct Session<'s> {
    stage: &'s mut Stage,
    story: &'s mut Story,
    machine: HostedSession,
    run: RunId,
    entries: usize,
    /// What is written with the next entry.
    noted: Vec<JournalEvent>,
    inbox: usize,
    inputs: VecDeque<SessionInput>,
    cut: Cut,
    is_over: bool,
}

impl Stage {
    pub(crate) fn new(workspace: &Path, url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("work");
        Self::with(dir, below, workspace, url)
    }

    /// Each run that goes on from none has a directory of its own below this one.
    pub(crate) fn below(workspace_dir: &Path, url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::with(dir, workspace_dir.to_owned(), Path::new(""), url)
    }

    fn with(dir: TempDir, workspace_dir: PathBuf, workspace: &Path, url: &str) -> Self {
        let config = RunnerConfig {
            life: HostLife::new(&HostName::new("stage").unwrap(), "tests", Ulid(1)),
            workspace_dir,
            output_limit: 1 << 20,
            turn_timeout: None,
            artifact_max: 1 << 20,
            cgroup_parent: None,
            containment: Containment::default(),
            worktrees_dir: dir.path().join("worktrees"),
            worktrees_max: 8,
            prices: Default::default(),
        };
        let (orders, orders_out) = mpsc::channel(64);
        let (observed_in, observed) = mpsc::channel(64);
        drop(tokio::spawn(serve(config, orders_out, observed_in)));
        let brief = brief(workspace, url);
        Self { _dir: dir, workspace: workspace.to_owned(), brief, orders, observed }
    }

    /// One more session of a run, up to where it is cut.
    pub(crate) async fn session(&mut self, story: &mut Story, cut: Cut) {
        story.sessions += 1;
        story.kept.push(Kept::default());
        story.besides.push(0);
        let (machine, run) = self.machine(story);
        let inputs = VecDeque::new();
        let (entries, noted, inbox, is_over) = (0, Vec::new(), 0, false);
        let stage = self;
        let mut session =
            Session { stage, story, machine, run, entries, noted, inbox, inputs, cut, is_over };
        session.hold().await;
        session.end().await;
    }

    /// The same with a schema for the deliverable.
    pub(crate) fn wanting(mut self, schema: &Value) -> Self {
        self.brief.expected_output = ExpectedOutput::Schema(schema.to_string());
        self
    }

    fn machine(&self, story: &Story) -> (HostedSession, RunId) {
        let id = |place: u64| Ulid::from_parts(NOW.0, place.into());
        let (agent, session) = (AgentId::Worker(id(1)), SessionId(id(story.sessions)));
        let run = Run {
            id: story.name.run(story.sessions),
            agent: agent.clone(),
            session,
            epoch: story.sessions,
            epic: EpicId(id(2)),
            node: NodeId::task(1, 1),
            assignment: AssignmentId(id(3)),
            brief: self.brief.clone(),
            continues: (story.sessions > 1).then(|| story.name.run(story.sessions - 1)),
            placement: None,
            created: NOW,
        };
        let project = ProjectName::new("demo").unwrap();
        let launch = Launch {
            agent,
            session,
            epoch: story.sessions,
            host_epoch: 1,
            parent: AgentId::Po(project.clone()),
            project: Some(project),
            depth: 2,
            delegation: None,
            duty: Duty::Run(run.clone()),
        };
        let id = run.id;
        let first = story.name.run(1);
        let mut machine = HostedSession::new(launch, run, "h".to_owned(), None, None);
        let mut gathered = Gathered::default();
        for kept in story.kept.iter().rev() {
            if gathered.add(kept.clone()) {
                break;
            }
        }
        machine.go_on_from(None, story.spent.charge());
        machine.go_on_after_returns(story.returned);
        machine.go_on_with(first, gathered.into_recorded());
        (machine, id)
    }
}

impl Session<'_> {
    async fn hold(&mut self) {
        let begin = self.machine.begin();
        self.perform(begin).await;
        while !self.is_over {
            self.send_letters();
            let input = match self.inputs.pop_front() {
                Some(input) => input,
                None => SessionInput::Runner(self.seen().await),
            };
            let effects = self.machine.step(NOW, input);
            self.perform(effects).await;
        }
    }

    async fn seen(&mut self) -> RunnerEvent {
        loop {
            let seen = wait::soon("an event", self.stage.observed.recv()).await.unwrap();
            if seen.run == self.run {
                return seen.event;
            }
        }
    }

    /// A letter comes when a turn is recorded in which one is waited for, and another one later.
    fn send_letters(&mut self) {
        let turns = self.story.turns();
        let due = (1..=turns.min(48)).filter(|turn| matches!(turn % 5, 0 | 2)).map(letter);
        self.story.letters = due.collect();
        for text in &self.story.letters[self.inbox..] {
            self.inbox += 1;
            let json = serde_json::json!({"text": text}).to_string();
            let body = MailBody::Info { text: text.clone() };
            self.inputs.push_back(mail(body, json, self.inbox as u64));
        }
    }

    async fn perform(&mut self, effects: Vec<SessionEffect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                SessionEffect::Claim => {
                    let claimed = SessionInput::Claimed(ClaimOutcome::Claimed);
                    queue.extend(self.machine.step(NOW, claimed));
                }
                SessionEffect::Note(event) => self.noted.push(event),
                SessionEffect::Journal(event) => {
                    if self.is_cut(&event, false) {
                        break;
                    }
                    let mut events = std::mem::take(&mut self.noted);
                    events.push(event.clone());
                    self.journal(&events);
                    if self.is_cut(&event, true) {
                        break;
                    }
                }
                SessionEffect::Order(order) => self.stage.orders.send(*order).await.unwrap(),
                SessionEffect::Report(report) => {
                    if let Report::Ask { id, question, .. } = *report {
                        self.asked(id, &question);
                    }
                }
                SessionEffect::Consumed | SessionEffect::Stream(_) => {}
                SessionEffect::End => self.is_over = true,
                SessionEffect::ReadSpawn { .. }
                | SessionEffect::Operate { .. }
                | SessionEffect::Request(..)
                | SessionEffect::Mail(_)
                | SessionEffect::Store(_)
                | SessionEffect::Fetch { .. } => panic!("{effect:?}"),
            }
        }
    }

    /// Whether the session ends at this entry, before it is written or after.
    fn is_cut(&mut self, event: &JournalEvent, written: bool) -> bool {
        let next = self.entries + usize::from(!written);
        let recorded = if let JournalEvent::Conversed(recorded) = event {
            let begins = matches!(**recorded, Recorded::Intent { .. });
            let again = self.story.begun() > usize::from(written);
            !(begins && again)
        } else {
            false
        };
        self.is_over = match self.cut {
            Cut::Never => false,
            Cut::Before(entry) => !written && next == entry,
            Cut::After(entry) => written && next == entry,
            Cut::BeforeRecorded => !written && recorded,
            Cut::AfterRecorded => written && recorded,
        };
        self.is_over
    }

    fn journal(&mut self, events: &[JournalEvent]) {
        self.entries += 1;
        for event in events {
            self.say(event);
        }
    }

    fn say(&mut self, event: &JournalEvent) {
        let entry = JournalEntry {
            run: self.run,
            agent: AgentId::Worker(Ulid(1)),
            session: SessionId(Ulid(1)),
            epoch: self.story.sessions,
            index: self.entries as u64,
            positions: Positions::default(),
            event: event.clone(),
            then: Vec::new(),
        };
        self.story.spent.take(event);
        if let JournalEvent::Conversed(recorded) = event {
            self.story.kept.last_mut().unwrap().push((**recorded).clone());
            self.story.recorded.push((**recorded).clone());
        } else {
            *self.story.besides.last_mut().unwrap() += encode_journal(&entry).unwrap().len();
        }
        if let JournalEvent::Returned { times, .. } = event {
            self.story.returned = *times;
        }
        if let JournalEvent::Result(result) = event {
            self.story.result = Some((**result).clone());
        }
    }

    /// People answer: of a call in doubt, after a look at what is there.
    fn asked(&mut self, question: Option<QuestionId>, text: &str) {
        self.story.questions.push(text.to_owned());
        let words = match text.strip_prefix("effect_unknown: call ") {
            None => "yes, go on",
            Some(call) => {
                self.story.doubts.push(text.to_owned());
                let turn = call.split('/').next().unwrap();
                let pushed = std::fs::read_to_string(self.stage.workspace.join("pushed")).unwrap();
                if pushed.lines().any(|line| line == turn) { "it is done" } else { "repeat" }
            }
        };
        let text = words.to_owned();
        let json = serde_json::json!({"text": text}).to_string();
        self.inputs.push_back(mail(MailBody::Answer { question, text }, json, 0));
    }

    /// Nothing of it goes on.
    async fn end(self) {
        if self.story.result.is_none() {
            self.stage.orders.send(Order::Kill { run: self.run }).await.unwrap();
            let run = self.run;
            let gone = |seen: &Observed| {
                seen.run == run && matches!(seen.event, RunnerEvent::Exited { .. })
            };
            while !gone(&wait::soon("its end", self.stage.observed.recv()).await.unwrap()) {}
        }
    }
}

fn letter(turn: u64) -> String {
    format!("letter of turn {turn}.")
}

fn mail(body: MailBody, json: String, place: u64) -> SessionInput {
    let mail = Mail {
        to: AgentId::Go.into(),
        epic: None,
        correlation: None,
        cause: String::new(),
        ack_required: false,
        trace: None,
        body,
    };
    let from = AgentId::Go.into();
    SessionInput::Mail { from, mail: Box::new(mail), json, place }
}

fn brief(workspace: &Path, url: &str) -> Brief {
    let tools = ["read", "list", "write", "edit", "todo_update", "ask_human", "mail_wait"];
    Brief {
        goal: "push fifty times".to_owned(),
        key_facts: Vec::new(),
        expected_output: ExpectedOutput::Text,
        success_criteria: vec!["it is pushed".to_owned()],
        definition_of_done: String::new(),
        tools: Tools::from_iter(tools),
        workspace: workspace.to_str().unwrap().to_owned(),
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        turn_timeout: None,
        runner: Runner {
            profile: ProfileName::new("default").unwrap(),
            kind: RunnerKind::Llm,
            argv: Vec::new(),
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            model: "scripted".to_owned(),
            served: Served {
                provider: "openai".to_owned(),
                base_url: format!("{url}/v1"),
                ..Served::default()
            },
            prompt: String::new(),
            permissions: Vec::new(),
            mcp_servers: Vec::new(),
        },
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    }
}
