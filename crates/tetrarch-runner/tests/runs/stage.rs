//! A runner of its own for each test, and words to give it orders and hear what it observes.
//! Holds no expectations.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tetrarch_core::brief::{Brief, ExpectedOutput, RunResult, Runner, RunnerKind, Tools, Worktree};
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{
    AgentId, EpicId, HostName, NodeId, ProfileName, ProjectName, RunId, SessionId, Ulid,
};
use tetrarch_core::order::{Exit, Inbound, LocalFile, Observed, Order, RunnerEvent, Start};
use tetrarch_core::time::Millis;
use tetrarch_runner::{Containment, HostLife, RunnerConfig, serve};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Far longer than anything here takes: a bound for a runner that hangs.
const HANGS: Duration = Duration::from_secs(60);
const OUTPUT_LIMIT: u64 = 256 * 1024;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An id that no other test has.
pub(crate) fn fresh() -> Ulid {
    let place =
        (u128::from(std::process::id()) << 64) | u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    Ulid::from_parts(u64::try_from(now).unwrap(), place)
}

pub(crate) async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    timeout(HANGS, wait).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// A runner with a directory of its own.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) observed: mpsc::Receiver<Observed>,
    pub(crate) serving: JoinHandle<()>,
}

/// All that was seen of one run.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) events: Vec<RunnerEvent>,
    pub(crate) exit: Exit,
    /// What the runner made of a program without a result.
    pub(crate) made: Option<RunResult>,
}

impl Seen {
    /// All log text.
    pub(crate) fn log(&self) -> String {
        let mut log = String::new();
        for event in &self.events {
            if let RunnerEvent::Log { text } = event {
                log.push_str(text);
                log.push('\n');
            }
        }
        log
    }

    /// The results the program gave, with their files.
    pub(crate) fn results(&self) -> Vec<(&RunResult, &[LocalFile])> {
        let mut results = Vec::new();
        for event in &self.events {
            if let RunnerEvent::Result { result, files } = event {
                results.push((&**result, files.as_slice()));
            }
        }
        results
    }

    /// The result the runner made.
    pub(crate) fn made(&self) -> &RunResult {
        self.made.as_ref().unwrap_or_else(|| panic!("no result was made: {:?}", self.events))
    }

    /// How it was contained.
    pub(crate) fn isolation(&self) -> &str {
        let mut said = self.events.iter().filter_map(|event| {
            if let RunnerEvent::Started { isolation, .. } = event { Some(isolation) } else { None }
        });
        said.next().unwrap_or_else(|| panic!("it did not start: {:?}", self.events))
    }
}

impl Stage {
    /// A runner as it is by default.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A runner that finds no cgroup.
    pub(crate) fn without_cgroup() -> Self {
        Self::with(|config| config.cgroup_parent = Some(config.workspace_dir.clone()))
    }

    /// A runner configured as wanted.
    pub(crate) fn with(change: impl FnOnce(&mut RunnerConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = RunnerConfig {
            life: HostLife::new(&HostName::new("stage").unwrap(), "tests", fresh()),
            workspace_dir: dir.path().join("work"),
            output_limit: OUTPUT_LIMIT,
            turn_timeout: None,
            artifact_max: 1 << 20,
            cgroup_parent: None,
            containment: Containment::default(),
            worktrees_dir: dir.path().join("worktrees"),
            worktrees_max: 8,
            prices: Default::default(),
        };
        std::fs::create_dir(&config.workspace_dir).unwrap();
        change(&mut config);
        let (orders, orders_out) = mpsc::channel(8);
        let (observed_in, observed) = mpsc::channel(8);
        let serving = tokio::spawn(serve(config, orders_out, observed_in));
        Self { dir, orders, observed, serving }
    }

    pub(crate) async fn order(&self, order: Order) {
        soon("taking an order", self.orders.send(order)).await.unwrap();
    }

    pub(crate) async fn start(&self, start: Start) -> RunId {
        let run = start.run;
        self.order(Order::Start(Box::new(start))).await;
        run
    }

    pub(crate) async fn mail(&self, run: RunId, topic: &str, body: &str) {
        self.post(run, topic, body, 0).await;
    }

    /// A message that is at a place of the inbox.
    pub(crate) async fn post(&self, run: RunId, topic: &str, body: &str, place: u64) {
        let line = Inbound::Mail {
            topic: topic.to_owned(),
            from: "PO-demo".to_owned(),
            body: body.to_owned(),
            place,
            answers: None,
        };
        self.order(Order::Deliver { run, line }).await;
    }

    pub(crate) async fn stop(&self, run: RunId, drain: u64, kill_grace: u64) {
        let reason = "enough".to_owned();
        let (drain, kill_grace) = (Millis(drain), Millis(kill_grace));
        self.order(Order::Stop { run, drain, kill_grace, reason }).await;
    }

    /// The next event of any run.
    pub(crate) async fn next(&mut self) -> Observed {
        soon("an event", self.observed.recv()).await.unwrap()
    }

    /// Events until one is as wanted.
    pub(crate) async fn until(
        &mut self,
        wanted: impl Fn(&RunnerEvent) -> bool,
    ) -> Vec<RunnerEvent> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.event;
            assert!(
                !matches!(event, RunnerEvent::Exited { .. }),
                "ended early: {events:?} {event:?}"
            );
            let found = wanted(&event);
            events.push(event);
            if found {
                return events;
            }
        }
    }

    /// Everything up to the end of the only run there is.
    pub(crate) async fn see_the_end(&mut self) -> Seen {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.event;
            if let RunnerEvent::Exited { exit, result } = event {
                return Seen { events, exit, made: result.map(|result| *result) };
            }
            assert!(!matches!(event, RunnerEvent::SpawnFailed { .. }), "{event:?}");
            events.push(event);
        }
    }

    /// Starts a run and sees it to its end.
    pub(crate) async fn run(&mut self, start: Start) -> Seen {
        self.start(start).await;
        self.see_the_end().await
    }

    /// Starts a run that cannot start, and the error.
    pub(crate) async fn refused(&mut self, start: Start) -> String {
        self.start(start).await;
        let event = self.next().await.event;
        let RunnerEvent::SpawnFailed { error } = event else { panic!("started: {event:?}") };
        error
    }

    /// The error of a run that cannot start, whatever was noted before it.
    pub(crate) async fn until_refused(&mut self) -> String {
        loop {
            let event = self.next().await.event;
            assert!(!matches!(event, RunnerEvent::Started { .. }), "started: {event:?}");
            if let RunnerEvent::SpawnFailed { error } = event {
                return error;
            }
        }
    }

    /// The directory of a run that has one of its own.
    pub(crate) fn dir_of(&self, run: RunId) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work").join(run.to_string())
    }
}

/// A run of this command.
pub(crate) fn command(argv: &[&str]) -> Start {
    let brief = Brief {
        goal: "count the words".to_owned(),
        key_facts: vec!["there are few".to_owned()],
        expected_output: ExpectedOutput::Text,
        success_criteria: vec!["a number".to_owned()],
        definition_of_done: "counted".to_owned(),
        tools: Tools::from_iter(["read"]),
        workspace: String::new(),
        scope_paths: Vec::new(),
        budget: Limits { tokens: Some(1000), cost_micro: Some(500_000), turns: None },
        wall: None,
        turn_timeout: None,
        runner: Runner {
            profile: ProfileName::new("default").unwrap(),
            kind: RunnerKind::Process,
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            model: String::new(),
            served: Default::default(),
            permissions: Vec::new(),
            mcp_servers: Vec::new(),
            prompt: String::new(),
        },
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    };
    let run = RunId(fresh());
    Start {
        run,
        first: run,
        agent: AgentId::Worker(fresh()),
        session: SessionId(fresh()),
        epoch: 3,
        parent: AgentId::Po(ProjectName::new("demo").unwrap()),
        depth: 2,
        project: Some(ProjectName::new("demo").unwrap()),
        epic: EpicId(fresh()),
        node: NodeId::task(1, 2),
        brief,
        delegation: None,
        checkpoint: None,
        recorded: Vec::new(),
        returned: 0,
        trace: None,
    }
}

/// A run of this shell script.
pub(crate) fn shell(script: &str) -> Start {
    command(&["/bin/sh", "-c", script])
}

/// A run of this Python script, which finds `brief`, `hear()` and `say(type, **fields)` ready.
pub(crate) fn python(script: &str) -> Start {
    let prelude = "import json, os, signal, sys, time\n\
        def hear():\n    line = sys.stdin.readline()\n    return json.loads(line) if line else None\n\
        def say(kind, **fields):\n    print(json.dumps({'type': kind, **fields}), flush=True)\n\
        brief = hear()\n";
    command(&["python3", "-c", &format!("{prelude}{script}")])
}

/// Whether a process is there and not dead.
pub(crate) fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}
