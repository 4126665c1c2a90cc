//! Takes orders and gives each run a backend. Holds no state that a restart would miss: what runs
//! is known from the orders, what happened is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tetrarch_core::brief::RunnerKind;
use tetrarch_core::change::{ApplyOrder, ApplyOutcome};
use tetrarch_core::converse::cost::Prices;
use tetrarch_core::id::RunId;
use tetrarch_core::order::{Exit, Inbound, Observed, Order, RunnerEvent, Start};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::{Command, Stage};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::adapter::{self, Adapter};
use crate::backend::AgentBackend;
use crate::backend::echo::EchoBackend;
use crate::backend::llm::LlmBackend;
use crate::backend::process::ProcessBackend;
use crate::cgroup::{Cgroups, ControlGroup};
use crate::channels::{RunChannels, StopRequest, Teller};
use crate::confined;
use crate::containment::{Containment, real};
use crate::directories::{self, RunDirectories, RunDirectoriesError};
use crate::mark::{HostLife, ProcessMark};
use crate::sweep::{Traces, become_subreaper, reap_orphans};
use crate::worktree::Worktrees;

/// Lines that wait for a run. None is dropped while its program lives: whoever wrote it was told that it
/// came, and a program may wait for it.
const LINES_MAX: usize = 256;
/// Verbs that wait for a run's task.
const VERBS_MAX: usize = 16;
/// How long events are still offered to the listener when the runner closes.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time between two looks for dead orphans.
const ORPHAN_PAUSE: Duration = Duration::from_secs(5);

/// How this host runs programs.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// This life of the host: every process of its runs carries it in its environment.
    pub life: HostLife,
    /// Where runs without a workspace get a directory of their own, `<workspace_dir>/<run>`, and
    /// what a relative workspace is relative to. Created when it is not there.
    pub workspace_dir: PathBuf,
    /// Log text and progress that one run may have told, in bytes (`runs.output_limit`).
    pub output_limit: u64,
    /// Longest turn of a run whose brief names none (`runs.turn_timeout`).
    pub turn_timeout: Option<Millis>,
    /// Bytes of one file that a run may hand over (`runs.artifact_max`).
    pub artifact_max: u64,
    /// The cgroup v2 directory below which runs get theirs; none means the group this process
    /// is in.
    pub cgroup_parent: Option<PathBuf>,
    /// What its programs are kept to.
    pub containment: Containment,
    /// Where worktrees of runs lie.
    pub worktrees_dir: PathBuf,
    /// Worktrees that are kept at most (`host.worktrees_max`).
    pub worktrees_max: usize,
    /// What models cost (`[prices] file`).
    pub prices: Prices,
}

/// What every program stands on.
#[derive(Debug)]
pub(crate) struct RunnerContext {
    pub(crate) life: HostLife,
    pub(crate) workspace_dir: PathBuf,
    pub(crate) output_limit: u64,
    turn_timeout: Option<Millis>,
    pub(crate) artifact_max: u64,
    pub(crate) containment: Containment,
    pub(crate) worktrees: Arc<Worktrees>,
    pub(crate) prices: Prices,
    /// Whether orphans come to this process, in words.
    pub(crate) subreaper: String,
    cgroups: Result<Arc<Cgroups>, String>,
}

impl RunnerContext {
    fn prepare(config: RunnerConfig) -> Self {
        let subreaper = match become_subreaper() {
            Ok(()) => "subreaper".to_owned(),
            Err(cause) => format!("no subreaper ({cause})"),
        };
        confined::close_to_programs();
        let cgroups =
            Cgroups::prepare(config.cgroup_parent.as_deref(), &config.life, &config.containment);
        if let Ok(cgroups) = &cgroups {
            cgroups.clear_earlier_lives(&config.life);
        }
        let workspace_dir = std::path::absolute(&config.workspace_dir)
            .unwrap_or_else(|_| config.workspace_dir.clone());
        directories::clear(&workspace_dir);
        adapter::clear_old(&workspace_dir);
        let (dir, max) = (config.worktrees_dir, config.worktrees_max);
        let containment = config.containment.settled();
        let cgroups = cgroups.map(Arc::new).map_err(|cause| cause.to_string());
        let groups = cgroups.as_ref().ok().cloned();
        let worktrees = Worktrees::new(dir, max, &config.life, containment.clone(), groups);
        Self {
            worktrees,
            life: config.life,
            workspace_dir,
            output_limit: config.output_limit,
            turn_timeout: config.turn_timeout,
            artifact_max: config.artifact_max,
            containment,
            prices: config.prices,
            subreaper,
            cgroups,
        }
    }

    /// The places of a run besides its directory.
    pub(crate) async fn directories_for(
        &self,
        start: &Start,
    ) -> Result<RunDirectories, RunDirectoriesError> {
        let (workspace_dir, run) = (self.workspace_dir.clone(), start.run);
        let (runner, hidden) = (start.brief.runner.clone(), self.containment.hidden.clone());
        let mut open = self.worktrees.open_to(Path::new(&start.brief.workspace));
        if Adapter::of(start.brief.runner.kind).is_some() {
            open.0.push(real(&adapter::directory_of(&self.workspace_dir, start.first)));
        }
        let make = move || RunDirectories::make(&workspace_dir, run, &runner, &hidden, open);
        spawn_blocking(make).await.unwrap_or_else(|cause| {
            let path = self.workspace_dir.clone();
            Err(RunDirectoriesError::Own { path, cause: cause.into() })
        })
    }

    /// The cgroup of a run, or why there is none.
    pub(crate) fn cgroup_for(&self, run: RunId) -> Result<ControlGroup, String> {
        match &self.cgroups {
            Ok(cgroups) => cgroups.for_run(run).map_err(|cause| cause.to_string()),
            Err(cause) => Err(cause.clone()),
        }
    }
}

/// Runs what is ordered until `orders` closes or nobody listens to `observed` any more; then
/// kills everything it started and returns when all of it is gone.
///
/// Both channels are to be bounded; a listener that is slow slows programs down, never the end of
/// a run. For each run the last event is `SpawnFailed` or `Exited`, but for the refusal of a verb
/// that came too late, and for a remark on lines that it did not take. `Kill` for a run it does not
/// know kills what an earlier life of the host left of it and answers `Exited`; other orders for
/// such a run are dropped.
///
/// It makes the process a subreaper and waits for every dead child that it did not start itself,
/// so the process must have no other children whose exit status it wants.
pub async fn serve(
    config: RunnerConfig,
    mut orders: mpsc::Receiver<Order>,
    observed: mpsc::Sender<Observed>,
) {
    let prepared = spawn_blocking(move || RunnerContext::prepare(config)).await;
    let context = match prepared {
        Ok(context) => Arc::new(context),
        Err(cause) => {
            tracing::error!(%cause, "the runner could not be prepared");
            return;
        }
    };
    context.worktrees.clear_settings().await;
    let mut table = RunTable::new(Arc::clone(&context), observed.clone());
    let mut reaping = JoinSet::new();
    let mut tick = interval(ORPHAN_PAUSE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => table.take(order),
                None => break,
            },
            () = observed.closed() => break,
            Some(ended) = table.tasks.join_next() => table.ended(ended),
            Some(_reaped) = reaping.join_next() => {}
            _ = tick.tick() => drop(reaping.spawn_blocking(reap_orphans)),
        }
    }
    table.close().await;
    if let Ok(cgroups) = &context.cgroups {
        cgroups.remove();
    }
}

/// Gives a run a worktree of its own, when its brief wants one; false when it cannot have one.
async fn apart(context: &RunnerContext, start: &mut Start, teller: &Teller) -> bool {
    let prepared = teller.ending().prepare(&context.worktrees, start, &context.workspace_dir).await;
    match prepared {
        Ok(None) => {}
        Ok(Some(text)) => teller.tell(RunnerEvent::Log { text }).await,
        Err(error) => {
            teller.tell(RunnerEvent::SpawnFailed { error: error.to_string() }).await;
            return false;
        }
    }
    true
}

/// The runs there are.
struct RunTable {
    context: Arc<RunnerContext>,
    process: Arc<ProcessBackend>,
    echo: Arc<EchoBackend>,
    llm: Arc<LlmBackend>,
    runs: BTreeMap<RunId, RunHandle>,
    /// Each gives the run whose handle is to be dropped, if it held any.
    tasks: JoinSet<Option<RunId>>,
    observed: mpsc::Sender<Observed>,
    closing: watch::Sender<Option<Instant>>,
}

/// How a run is steered.
struct RunHandle {
    lines: mpsc::Sender<Inbound>,
    verbs: mpsc::Sender<Command>,
    asked: watch::Sender<StopRequest>,
}

impl RunTable {
    fn new(context: Arc<RunnerContext>, observed: mpsc::Sender<Observed>) -> Self {
        Self {
            process: Arc::new(ProcessBackend::new(Arc::clone(&context))),
            llm: Arc::new(LlmBackend::new(Arc::clone(&context))),
            context,
            echo: Arc::new(EchoBackend),
            runs: BTreeMap::new(),
            tasks: JoinSet::new(),
            observed,
            closing: watch::channel(None).0,
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Start(start) => self.start(*start),
            Order::Deliver { run, line } => self.deliver(run, line),
            Order::Stop { run, drain, kill_grace, reason } => {
                let asked = StopRequest::Stop { drain, kill_grace, reason };
                self.ask(run, asked);
            }
            Order::Rotate { run, drain, kill_grace, reason } => {
                let asked = StopRequest::Rotate { drain, kill_grace, reason };
                self.ask(run, asked);
            }
            Order::Apply(order) => self.apply(*order),
            Order::Kill { run } => {
                if !self.ask(run, StopRequest::Kill) {
                    self.clear(run);
                }
            }
            Order::Verb { run, command } => self.pass_on(run, command),
        }
    }

    /// Passes a line on. A run that takes too few is ended: its next session is given all mail again.
    fn deliver(&mut self, run: RunId, line: Inbound) {
        let Some(handle) = self.runs.get(&run) else {
            tracing::warn!(%run, "a line was dropped: the run has ended");
            return;
        };
        match handle.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) if *handle.asked.borrow() != StopRequest::Kill => {
                let text =
                    format!("[ended: {LINES_MAX} lines wait that its program does not read]");
                let teller = self.teller(run);
                self.ask(run, StopRequest::Kill);
                self.tasks.spawn(async move {
                    teller.tell(RunnerEvent::Log { text }).await;
                    None
                });
            }
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                tracing::warn!(%run, "a line was dropped: the run has ended or accepts none");
            }
        }
    }

    /// Passes a verb on, or says why it comes to nothing.
    fn pass_on(&mut self, run: RunId, command: Command) {
        let id = command.id;
        let why = match self.runs.get(&run).map(|handle| handle.verbs.try_send(command)) {
            Some(Ok(())) => return,
            Some(Err(TrySendError::Full(_))) => "too many verbs wait for the run",
            Some(Err(TrySendError::Closed(_))) => {
                "its runner does not support verbs, or the run is ending"
            }
            None => "it has ended",
        };
        let refused = RunnerEvent::Receipt { id, stage: Stage::Refused, why: why.to_owned() };
        let teller = self.teller(run);
        self.tasks.spawn(async move {
            teller.tell(refused).await;
            None
        });
    }

    fn start(&mut self, start: Start) {
        let run = start.run;
        if self.runs.contains_key(&run) {
            tracing::warn!(%run, "ordered twice; keeping the first");
            return;
        }
        match start.brief.runner.kind {
            RunnerKind::Process
            | RunnerKind::Cli
            | RunnerKind::Claude
            | RunnerKind::Codex
            | RunnerKind::Acp => self.launch(Arc::clone(&self.process), start),
            RunnerKind::Echo => self.launch(Arc::clone(&self.echo), start),
            RunnerKind::Llm => self.launch(Arc::clone(&self.llm), start),
            RunnerKind::External => {
                let error = "an external agent connects to the bus by itself and cannot be started by a host; issue a credential (`tetrarch agent add PO-<project> --external`), or use a profile with another runner"
                    .to_owned();
                let teller = self.teller(run);
                self.tasks.spawn(async move {
                    teller.tell(RunnerEvent::SpawnFailed { error }).await;
                    None
                });
            }
        }
    }

    fn launch(&mut self, backend: Arc<impl AgentBackend>, mut start: Start) {
        let (run, context) = (start.run, Arc::clone(&self.context));
        let (lines, lines_out) = mpsc::channel(LINES_MAX);
        let (verbs, verbs_out) = mpsc::channel(VERBS_MAX);
        let (asked, asked_out) = watch::channel(StopRequest::Nothing);
        let teller = self.teller(run);
        let channels = RunChannels {
            lines: lines_out,
            asked: asked_out,
            verbs: verbs_out,
            teller: teller.clone(),
        };
        self.runs.insert(run, RunHandle { lines, verbs, asked });
        start.brief.turn_timeout = start.brief.turn_timeout.or(context.turn_timeout);
        self.tasks.spawn(async move {
            let execution = tokio::spawn(async move {
                if apart(&context, &mut start, &channels.teller).await {
                    backend.execute(start, channels).await;
                }
            });
            if let Err(fault) = execution.await {
                tracing::error!(%run, %fault, "the backend of a run failed");
                Traces::of_mark(ProcessMark::Run(run), None).until_gone().await;
                let exit = Exit::Code(-1);
                teller.tell(RunnerEvent::Exited { exit, result: None }).await;
            }
            Some(run)
        });
    }

    /// Merges what a run changed.
    fn apply(&mut self, order: ApplyOrder) {
        let (teller, context) = (self.teller(order.run), Arc::clone(&self.context));
        self.tasks.spawn(async move {
            let outcome = context.worktrees.apply(&order).await;
            let applied = matches!(outcome, ApplyOutcome::Applied { .. });
            teller.tell(RunnerEvent::Settled { change: order.change, outcome }).await;
            if applied {
                context.worktrees.clear(&order).await;
            }
            None
        });
    }

    /// Kills what an earlier life of this host left of a run.
    fn clear(&mut self, run: RunId) {
        let teller = self.teller(run);
        self.tasks.spawn(async move {
            let swept = Traces::of_mark(ProcessMark::Run(run), None).until_gone().await;
            tracing::info!(%run, killed = swept.killed, "cleared a run of an earlier life");
            // KILL is what it ended by, and what a run of which nothing was left is said to.
            let exit = Exit::Signal(rustix::process::Signal::KILL.as_raw());
            teller.tell(RunnerEvent::Exited { exit, result: None }).await;
            None
        });
    }

    /// Asks something of a run; false when it is not known. Nothing weakens what was asked before.
    fn ask(&self, run: RunId, wanted: StopRequest) -> bool {
        let Some(handle) = self.runs.get(&run) else {
            return false;
        };
        handle.asked.send_if_modified(|asked| {
            let stronger = asked.gives_way_to(&wanted);
            if stronger {
                *asked = wanted;
            }
            stronger
        });
        true
    }

    fn ended(&mut self, ended: Result<Option<RunId>, JoinError>) {
        match ended {
            Ok(Some(run)) => {
                self.runs.remove(&run);
            }
            Ok(None) => {}
            Err(fault) => tracing::error!(%fault, "a run's task failed"),
        }
    }

    fn teller(&self, run: RunId) -> Teller {
        Teller::new(run, self.observed.clone(), self.closing.subscribe())
    }

    async fn close(mut self) {
        self.closing.send_replace(Some(Instant::now() + LAST_WORDS));
        for handle in self.runs.values() {
            handle.asked.send_replace(StopRequest::Kill);
        }
        while let Some(ended) = self.tasks.join_next().await {
            self.ended(ended);
        }
    }
}
