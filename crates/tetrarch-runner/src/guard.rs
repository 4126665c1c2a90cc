//! The fence around a host: a small process beside it that freezes the host's programs when the
//! host's lease is over, also when the host stands still or is dead (spec 04, Hosts). Here is the
//! host's side; it knows no lease, only until when the last one holds.

mod clock;
mod post;
mod word;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::cgroup::Cgroups;
use crate::children::{self, WaitedChild};
use crate::mark::HostLife;
use clock::BootTime;
use word::{GuardOrder, GuardReply};

pub use post::{GuardDuty, guard_main};

/// How long a guard may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// How long a guard may take to read a word. It reads at once; one that does not stands still.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// How long a guard may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// First and longest pause before a guard that does not start is started again; it doubles.
const RESTART: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Answers of a guard that wait; nobody waits for most of them.
const ANSWERS_MAX: usize = 16;

/// How a guard is started.
#[derive(Debug, Clone)]
pub struct GuardConfig {
    /// The program that calls [`guard_main`].
    pub program: PathBuf,
    /// Its first arguments. `--life <life> --freeze-max-ms <ms>` follow, and `--cgroup <dir>`
    /// where there may be one, with `--processes-max <number>`.
    pub args: Vec<OsString>,
    /// This life of the host, the same as its runner's.
    pub life: HostLife,
    /// How long programs may be frozen before they are killed (`host.freeze_max`).
    pub freeze_max: Duration,
    /// Most processes of one run (`runs.processes_max`).
    pub processes_max: Option<u64>,
    /// As in [`crate::RunnerConfig`].
    pub cgroup_parent: Option<PathBuf>,
}

/// What the host says of its lease.
#[derive(Debug)]
pub enum LeaseUpdate {
    /// The programs may run until then: the send time of the last acknowledged renewal and two
    /// windows (spec 04). A time that is over freezes at once; a later one thaws.
    Until(Instant),
    /// The lease was refused: kill all at once. Answered when all is dead, before which nothing
    /// must be started; after it no deadline holds until the next beat.
    Kill(oneshot::Sender<()>),
    /// The host ends, and has ended all it started: the guard ends too.
    End,
}

/// A guard that stands. Dropped without an [`LeaseUpdate::End`], the guard takes its host for dead.
#[derive(Debug)]
pub struct GuardProcess {
    config: GuardConfig,
    child: Child,
    input: ChildStdin,
    answers: mpsc::Receiver<GuardReply>,
    _awaited: WaitedChild,
}

impl GuardProcess {
    /// Starts a guard and returns when it stands. It does nothing before the first beat, unless
    /// this process dies.
    ///
    /// # Errors
    /// It does not start, or is not ready within 10 s.
    pub async fn start(config: GuardConfig) -> io::Result<Self> {
        let mut command = Command::new(&config.program);
        command
            .args(&config.args)
            .args(["--life", &config.life.to_string()])
            .args(["--freeze-max-ms", &config.freeze_max.as_millis().to_string()])
            // It must not hold open what whoever reads this host's log waits for the end of.
            .stderr(Stdio::null())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Ok(home) = Cgroups::place(config.cgroup_parent.as_deref(), &config.life) {
            command.arg("--cgroup").arg(home);
            let most = config.processes_max.map(|most| most.to_string());
            command.args(most.iter().flat_map(|most| ["--processes-max", most]));
        }
        let (mut child, _, awaited) = children::start(&mut command)?;
        let piped = || io::Error::other("it has no pipes");
        let input = child.stdin.take().ok_or_else(piped)?;
        let output = child.stdout.take().ok_or_else(piped)?;
        let (tell, mut answers) = mpsc::channel(ANSWERS_MAX);
        tokio::spawn(hear(output, tell));
        match timeout(READY_WITHIN, answers.recv()).await {
            Ok(Some(GuardReply::Ready)) => {}
            Ok(_) => return Err(io::Error::other("the guard ended before it was ready")),
            Err(_) => {
                child.kill().await?;
                return Err(io::Error::other("the guard was not ready in time"));
            }
        }
        Ok(Self { config, child, input, answers, _awaited: awaited })
    }

    /// The number of its process, unless it has ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The guard hears it, or is to be replaced.
    async fn say(&mut self, order: GuardOrder) -> io::Result<()> {
        let line = format!("{order}\n");
        timeout(HEARD_WITHIN, self.input.write_all(line.as_bytes())).await?
    }

    async fn end(mut self) {
        let told = self.say(GuardOrder::End).await;
        let ended = match told {
            Ok(()) => timeout(END_WITHIN, self.child.wait()).await.is_ok(),
            Err(_) => false,
        };
        if !ended {
            tracing::warn!("the guard does not exit; killing it");
            self.kill().await;
        }
    }

    /// Ends a guard that does not do its work.
    async fn kill(&mut self) {
        if let Err(cause) = self.child.kill().await {
            tracing::debug!(%cause, "the guard has already exited");
        }
    }
}

/// Logs what a guard does and passes on the answers somebody waits for.
async fn hear(output: ChildStdout, tell: mpsc::Sender<GuardReply>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let awaited = match GuardReply::read(&line) {
            Some(GuardReply::Frozen) => {
                tracing::warn!("the lease expired: all programs are frozen");
                None
            }
            Some(GuardReply::Thawed) => {
                tracing::info!("the lease was renewed: all programs continue");
                None
            }
            Some(GuardReply::Expired) => {
                tracing::error!("frozen for too long: all programs were killed");
                None
            }
            answer @ Some(GuardReply::Ready | GuardReply::Killed) => answer,
            None => None,
        };
        if let Some(answer) = awaited
            && tell.send(answer).await.is_err()
        {
            return;
        }
    }
}

/// Keeps a guard standing, and passes on beats, until a beat says `End` or nobody can send one
/// any more. A guard that dies or stands still is replaced at once by one that knows the last
/// beat.
///
/// The sender of beats is never held up for longer than the start of a guard takes.
pub async fn keep_guard(guard: GuardProcess, mut beats: mpsc::Receiver<LeaseUpdate>) {
    let mut last = GuardOrders::default();
    let mut guard = guard;
    loop {
        let config = guard.config.clone();
        match attend(&mut guard, &mut beats, &mut last).await {
            GuardExit::Over { ended: true } => return guard.end().await,
            GuardExit::Over { ended: false } => return,
            GuardExit::Died(status) => tracing::error!(?status, "the guard died; starting another"),
            GuardExit::Silent(cause) => {
                tracing::error!(%cause, "the guard does not answer; starting another");
                guard.kill().await;
            }
        }
        match replace(config, &mut beats, &mut last).await {
            Some(next) => guard = next,
            None => return,
        }
    }
}

/// What the guard was told last, and must be told again when it is replaced.
#[derive(Debug, Default)]
struct GuardOrders {
    until: Option<Instant>,
    killing: Vec<oneshot::Sender<()>>,
}

impl GuardOrders {
    /// Takes a beat; none for `End`.
    fn take(&mut self, beat: LeaseUpdate) -> Option<GuardOrder> {
        match beat {
            LeaseUpdate::Until(until) => {
                self.until = Some(until);
                Some(GuardOrder::Beat(BootTime::of(until)))
            }
            LeaseUpdate::Kill(done) => {
                self.until = None;
                self.killing.push(done);
                Some(GuardOrder::Kill)
            }
            LeaseUpdate::End => None,
        }
    }

    /// All of it, for a guard that knows nothing.
    fn orders(&self) -> Vec<GuardOrder> {
        let kill = (!self.killing.is_empty()).then_some(GuardOrder::Kill);
        let beat = self.until.map(|until| GuardOrder::Beat(BootTime::of(until)));
        kill.into_iter().chain(beat).collect()
    }

    fn killed(&mut self) {
        for done in self.killing.drain(..) {
            // Whoever asked may not want to know.
            let _unheard = done.send(());
        }
    }
}

/// Why a guard is not attended any more.
enum GuardExit {
    Over { ended: bool },
    Died(io::Result<ExitStatus>),
    Silent(io::Error),
}

async fn attend(
    guard: &mut GuardProcess,
    beats: &mut mpsc::Receiver<LeaseUpdate>,
    last: &mut GuardOrders,
) -> GuardExit {
    for order in last.orders() {
        if let Err(cause) = guard.say(order).await {
            return GuardExit::Silent(cause);
        }
    }
    let mut listening = true;
    loop {
        tokio::select! {
            beat = beats.recv() => {
                let Some(beat) = beat else { return GuardExit::Over { ended: false } };
                let Some(order) = last.take(beat) else { return GuardExit::Over { ended: true } };
                if let Err(cause) = guard.say(order).await {
                    return GuardExit::Silent(cause);
                }
            }
            answer = guard.answers.recv(), if listening => match answer {
                Some(GuardReply::Killed) => last.killed(),
                Some(_) => {}
                None => listening = false,
            },
            status = guard.child.wait() => return GuardExit::Died(status),
        }
    }
}

/// Another guard; none when none is wanted any more.
async fn replace(
    config: GuardConfig,
    beats: &mut mpsc::Receiver<LeaseUpdate>,
    last: &mut GuardOrders,
) -> Option<GuardProcess> {
    let mut pause = RESTART.0;
    loop {
        match GuardProcess::start(config.clone()).await {
            Ok(guard) => return Some(guard),
            Err(cause) => tracing::error!(%cause, "no guard: nothing freezes the programs"),
        }
        let waiting = sleep(pause);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                () = &mut waiting => break,
                beat = beats.recv() => {
                    last.take(beat?)?;
                }
            }
        }
        pause = (pause * 2).min(RESTART.1);
    }
}
