//! `run_command`: a program with parsed arguments, ended with all it started (spec 06, Isolation;
//! spec 09, On the host). Never makes a shell string of anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Pid;
use serde::Deserialize;
use tetrarch_core::id::RunId;
use tetrarch_telemetry::trace;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Span;

use super::allowed::Allowed;
use super::inside::{Workspace, words};
use super::output::CappedOutput;
use super::{ToolOutcome, ToolboxConfig};
use crate::backend::process::PASSED_ON;
use crate::blocked::Blocked;
use crate::cgroup::ControlGroup;
use crate::children::WaitedChild;
use crate::confined::{self, NotStarted, Started};
use crate::containment::SandboxPolicy;
use crate::launcher::Launcher;
use crate::mark::{CALL_VARIABLE, LIFE_VARIABLE, ProcessMark, RUN_VARIABLE};
use crate::proxy::Proxy;
use crate::sweep::Traces;

/// How long a program may run when the call does not say, in seconds.
const TIMEOUT: u64 = 120;
/// How long a program may run at most, in seconds.
const TIMEOUT_MAX: u64 = 3600;
/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read when everything that wrote it is dead.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Most arguments, and most bytes in all of them.
const ARGUMENTS_MAX: (usize, usize) = (4096, 128 * 1024);

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommandArgs {
    argv: Vec<String>,
    #[serde(default)]
    directory: String,
    timeout_seconds: Option<u64>,
}

/// What the commands of a run stand on.
#[derive(Debug)]
pub(super) struct Commands {
    run: RunId,
    profile: String,
    environment: BTreeMap<OsString, OsString>,
    cgroup: Option<ControlGroup>,
    sandbox: SandboxPolicy,
    launcher: Launcher,
    started: AtomicU64,
    /// Held by the command that runs, until everything of it is gone.
    turn: Arc<Mutex<()>>,
}

impl Commands {
    /// Commands of a run. Their environment is the host's, without all that could be a secret:
    /// what a profile passes on is for the model's harness.
    pub(super) fn new(
        config: &ToolboxConfig<'_>,
        cgroup: Option<ControlGroup>,
        sandbox: SandboxPolicy,
    ) -> Self {
        let run = config.run;
        let passed = |name: &OsStr| {
            name.to_str().is_some_and(|name| PASSED_ON.contains(&name) || name.starts_with("LC_"))
        };
        let mut environment: BTreeMap<OsString, OsString> =
            std::env::vars_os().filter(|(name, _)| passed(name)).collect();
        environment.extend(config.variables.iter().cloned());
        environment.insert(RUN_VARIABLE.into(), run.to_string().into());
        environment.insert(LIFE_VARIABLE.into(), config.life.to_string().into());
        environment.extend(config.trace.map(|trace| (trace::VARIABLE.into(), trace.into())));
        let profile = config.profile.to_owned();
        let (started, turn) = (AtomicU64::new(0), Arc::default());
        let launcher = config.containment.launcher.clone();
        Self { run, profile, environment, cgroup, sandbox, launcher, started, turn }
    }

    /// Runs a program to its end.
    pub(super) async fn run(
        &self,
        allowed: &Allowed,
        workspace: &Workspace,
        wanted: RunCommandArgs,
    ) -> ToolOutcome {
        let seconds = wanted.timeout_seconds.unwrap_or(TIMEOUT);
        let prepared = self.prepare(allowed, workspace, &wanted, seconds);
        let (program, place, dir) = match prepared {
            Ok(prepared) => prepared,
            Err(text) => return ToolOutcome::error(text),
        };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        match self.start(&program, &wanted.argv, &dir, turn).await {
            Ok((running, output)) => {
                // A task of its own: it goes on to the end of the program when this is dropped.
                let (_want, wanted) = oneshot::channel();
                let attending = tokio::spawn(running.attend(output, seconds, wanted));
                let mut outcome = attending.await.unwrap_or_else(|cause| {
                    ToolOutcome::error(format!("attending to the program failed: {cause}"))
                });
                if outcome.is_error
                    && let Some(blocked) = Blocked::found(outcome.text.clone(), &self.sandbox).await
                {
                    outcome.text =
                        format!("{}\n[{}]", outcome.text, blocked.sentence(&self.profile));
                }
                outcome
            }
            Err(cause) => ToolOutcome::error(format!(
                "cannot start `{}` in {}: {cause}",
                wanted.argv[0],
                words(&place)
            )),
        }
    }

    /// The program, the directory's name, and the directory.
    fn prepare(
        &self,
        allowed: &Allowed,
        workspace: &Workspace,
        wanted: &RunCommandArgs,
        seconds: u64,
    ) -> Result<(PathBuf, PathBuf, OwnedFd), String> {
        allowed.program(&wanted.argv).map_err(|refused| refused.to_string())?;
        let bytes: usize = wanted.argv.iter().map(String::len).sum();
        if wanted.argv.len() > ARGUMENTS_MAX.0 || bytes > ARGUMENTS_MAX.1 {
            return Err("too many arguments; put them in a file".to_owned());
        }
        if wanted.argv.iter().any(|argument| argument.contains('\0')) {
            return Err("an argument holds a NUL".to_owned());
        }
        if !(1..=TIMEOUT_MAX).contains(&seconds) {
            return Err(format!("timeout_seconds is 1 to {TIMEOUT_MAX}"));
        }
        let place = workspace.place(&wanted.directory)?;
        let dir = workspace.directory(&place)?;
        let program = self.located(&wanted.argv[0], workspace.path())?;
        Ok((program, place, dir))
    }

    /// Where a program lies. One that is named without a slash is the system's: what an agent has
    /// put into its workspace under the name of an allowed program is not it.
    fn located(&self, program: &str, workspace: &Path) -> Result<PathBuf, String> {
        if program.contains('/') {
            return Ok(PathBuf::from(program));
        }
        let path = self.environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let outside: Vec<PathBuf> = std::env::split_paths(&path)
            .filter(|dir| dir.is_absolute())
            .filter(|dir| dir.canonicalize().is_ok_and(|dir| !dir.starts_with(workspace)))
            .collect();
        let path = std::env::join_paths(outside).unwrap_or_default();
        which::which_in(program, Some(path), "/")
            .map_err(|_| format!("`{program}` was not found on this host"))
    }

    async fn start(
        &self,
        program: &Path,
        argv: &[String],
        dir: &OwnedFd,
        turn: OwnedMutexGuard<()>,
    ) -> Result<(Running, pipe::Receiver), NotStarted> {
        let (output, input) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(output.into())?;
        let place = place_of(dir);
        let mut command = self.launcher.command(program, &argv[0], &place, &self.environment)?;
        command
            .args(&argv[1..])
            .envs(trace::onward(&Span::current(), None).map(|own| (trace::VARIABLE, own)))
            .stdout(input.try_clone()?)
            .stderr(input);
        let mut process = self.begin(command).await?;
        // It reads nothing.
        drop(process.child.stdin.take());
        Ok((Running { process, _turn: turn }, output))
    }

    /// Starts a server of tools in the workspace: contained as commands are, but with variables of its own.
    ///
    /// # Errors
    /// Why it does not start, in words.
    pub(super) async fn serve(
        &self,
        workspace: &Workspace,
        (argv, has_secrets): (&[String], bool),
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<CommandProcess, String> {
        let Some((name, arguments)) = argv.split_first() else {
            return Err("it has no command".to_owned());
        };
        let own = workspace.directory(&workspace.place("")?)?;
        // Many programs take code and settings from where they start, and the model writes here.
        let dir = if has_secrets { PathBuf::from("/") } else { place_of(&own) };
        let program = self.located(name, workspace.path())?;
        let mut environment = self.environment.clone();
        environment.extend(variables);
        let command = self.launcher.command(&program, name, &dir, &environment);
        let mut command = command.map_err(|cause| format!("cannot start `{name}`: {cause}"))?;
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = self.begin(command).await;
        begun.map_err(|cause| format!("cannot start `{name}`: {cause}"))
    }

    /// Starts a command in its layers, with a mark and a group of its own.
    async fn begin(&self, mut command: Command) -> Result<CommandProcess, NotStarted> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}.{number}", self.run);
        command.env(CALL_VARIABLE, &call).stdin(Stdio::piped()).kill_on_drop(true);
        let Started { mut child, pid, awaited, layers, proxy } =
            confined::start(&mut command, &self.sandbox)?;
        tracing::debug!(call, ?layers, "a command was started");
        let cgroup = match self.joined(number, pid) {
            Err(cause) if self.sandbox.required => return Err(NotStarted::NotContained(cause)),
            Err(cause) => {
                tracing::warn!(call, cause, "a command runs outside of its run's cgroup");
                None
            }
            Ok(group) => group,
        };
        if let Err(cause) = self.launcher.release(&mut child).await {
            tracing::debug!(call, %cause, "a command was gone before it began");
        }
        let traces = Traces::of_program(ProcessMark::Call(call), pid, cgroup);
        Ok(CommandProcess { child, traces, _awaited: awaited, _proxy: proxy })
    }

    /// A group of its own within the run's, with the program in it.
    fn joined(&self, number: u64, pid: Pid) -> Result<Option<ControlGroup>, String> {
        let Some(run) = &self.cgroup else { return Ok(None) };
        let group = run.within(&format!("call-{number}")).map_err(|cause| cause.to_string())?;
        match group.join(pid) {
            Ok(()) => Ok(Some(group)),
            Err(cause) => {
                group.remove();
                Err(cause.to_string())
            }
        }
    }
}

/// The directory that was opened, whatever its name leads to by now.
fn place_of(dir: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

/// The process of a command, and by what all of it is found.
#[derive(Debug)]
pub(super) struct CommandProcess {
    pub(super) child: Child,
    pub(super) traces: Traces,
    _awaited: WaitedChild,
    _proxy: Option<Proxy>,
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    process: CommandProcess,
    _turn: OwnedMutexGuard<()>,
}

impl Running {
    /// Attends to the command until everything of it is gone; `wanted` ends when nobody wants its
    /// outcome any more, and then it is killed.
    async fn attend(
        mut self,
        mut pipe: pipe::Receiver,
        seconds: u64,
        mut wanted: oneshot::Receiver<()>,
    ) -> ToolOutcome {
        let mut output = CappedOutput::default();
        let mut end = Some(Instant::now() + Duration::from_secs(seconds));
        let (mut timed_out, mut given_up) = (false, false);
        let (mut open, mut buffer) = (true, vec![0; 16 * 1024]);
        let status = loop {
            tokio::select! {
                status = self.process.child.wait() => break status,
                read = pipe.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(read) => output.push(&buffer[..read]),
                },
                _ended = &mut wanted, if !given_up => {
                    given_up = true;
                    self.process.traces.kill_now();
                }
                () = at(end), if end.is_some() => {
                    if timed_out {
                        self.process.traces.kill_now();
                        end = None;
                    } else {
                        self.process.traces.term();
                        timed_out = true;
                        end = Some(Instant::now() + GRACE);
                    }
                }
            }
        };
        // What it left may write as long as it lives, and may be killed only by being looked for.
        let sweep = self.process.traces.clone().until_gone();
        let (swept, ()) = tokio::join!(sweep, drain(&mut pipe, &mut output, open));
        ended(&status, output, swept.killed, timed_out.then_some(seconds))
    }
}

/// Reads what is still to be read. Bounded: a process of another user may hold the pipe for ever.
async fn drain(pipe: &mut pipe::Receiver, output: &mut CappedOutput, open: bool) {
    let mut buffer = vec![0; 16 * 1024];
    let mut open = open;
    while open {
        match timeout(LAST_WORDS, pipe.read(&mut buffer)).await {
            Ok(Ok(read)) if read > 0 => output.push(&buffer[..read]),
            Ok(Ok(_) | Err(_)) | Err(_) => open = false,
        }
    }
}

async fn at(end: Option<Instant>) {
    if let Some(end) = end {
        sleep_until(end).await;
    }
}

fn ended(
    status: &io::Result<ExitStatus>,
    mut output: CappedOutput,
    killed: usize,
    timed_out: Option<u64>,
) -> ToolOutcome {
    let mut text = match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
        Err(cause) => format!("its end is not known: {cause}"),
    };
    if let Some(seconds) = timed_out {
        let _infallible = write!(text, "; it was ended after {seconds} s");
    }
    if killed > 0 {
        let _infallible = write!(text, "; {killed} processes it left behind were killed");
    }
    let output = output.text();
    text.push('\n');
    text.push_str(if output.is_empty() { "[no output]" } else { &output });
    let is_error = timed_out.is_some() || !status.as_ref().is_ok_and(ExitStatus::success);
    ToolOutcome { text, is_error }
}
