//! Calls of git on repositories in which programs write. Git runs what their settings and attributes name (filters, merge
//! drivers), so it is started as a program of a run is: in a sandbox, in a cgroup with the limits of a run from its first
//! moment, and nothing that it started is left when the call has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::git::{CALL_MAX, GitError, GitOutput, too_long};
use crate::cgroup::{Cgroups, ControlGroup};
use crate::confined::{self, Started};
use crate::containment::{Containment, SandboxPolicy};
use crate::mark::{CALL_VARIABLE, ProcessMark};
use crate::sweep::Traces;

/// Numbers the calls, so that each has a group and a mark of its own.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// How long output is read on after everything of a call is gone.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What calls of git are kept to.
#[derive(Debug, Clone)]
pub(super) struct GitBounds {
    pub(super) policy: SandboxPolicy,
    pub(super) containment: Containment,
    /// Where each call has a group; none on a machine without.
    pub(super) groups: Option<Arc<Cgroups>>,
}

/// A call that runs.
struct GitCall {
    child: Child,
    traces: Traces,
    _awaited: crate::children::WaitedChild,
}

impl GitBounds {
    /// Calls git in a directory with these variables alone. It reads `from`, if there is one, and prints to `out`, else
    /// into what is given.
    pub(super) async fn call(
        &self,
        dir: &Path,
        environment: BTreeMap<OsString, OsString>,
        args: &[&str],
        from: Option<std::fs::File>,
        out: Option<std::fs::File>,
    ) -> Result<GitOutput, GitError> {
        let call = format!("git-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
        let mut running =
            self.start(&call, dir, environment, args, out).await.map_err(GitError::Start)?;
        let printed = gathered(running.child.stdout.take(), PRINTED_MAX);
        let complained = gathered(running.child.stderr.take(), COMPLAINED_MAX);
        let told = fed(running.child.stdin.take(), from);
        let ended = match timeout(CALL_MAX, running.child.wait()).await {
            Ok(status) => status.map_err(GitError::Start),
            Err(_) => {
                running.traces.kill_now();
                // Its status says nothing any more.
                drop(running.child.wait().await);
                Err(too_long(args))
            }
        };
        running.traces.until_gone().await;
        told.abort();
        let status = ended?;
        let (printed, is_whole) = last_words(printed).await?;
        if !is_whole {
            let more = format!("git printed more than {PRINTED_MAX} bytes");
            return Err(GitError::Start(io::Error::other(more)));
        }
        let (complained, _) = last_words(complained).await?;
        Ok(GitOutput::new(status, printed, &complained))
    }

    async fn start(
        &self,
        call: &str,
        dir: &Path,
        mut environment: BTreeMap<OsString, OsString>,
        args: &[&str],
        out: Option<std::fs::File>,
    ) -> io::Result<GitCall> {
        let git =
            which::which("git").map_err(|cause| io::Error::new(io::ErrorKind::NotFound, cause))?;
        environment.insert(CALL_VARIABLE.into(), call.into());
        let launcher = &self.containment.launcher;
        let mut command = launcher.command(&git, "git", dir, &environment)?;
        command.args(args).stdin(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.stdout(out.map_or_else(Stdio::piped, Stdio::from));
        let Started { mut child, pid, awaited, .. } =
            confined::start(&mut command, &self.policy).map_err(io::Error::other)?;
        let group = match self.joined(call, pid) {
            Err(cause) if self.policy.required => return Err(io::Error::other(cause)),
            Err(cause) => {
                tracing::warn!(call, cause, "git runs outside of any cgroup");
                None
            }
            Ok(group) => group,
        };
        if let Err(cause) = launcher.release(&mut child).await {
            tracing::debug!(call, %cause, "git was gone before it began");
        }
        let traces = Traces::of_program(ProcessMark::Call(call.to_owned()), pid, group);
        Ok(GitCall { child, traces, _awaited: awaited })
    }

    /// A group of its own with the limits of a run, with the call in it.
    fn joined(&self, call: &str, pid: Pid) -> Result<Option<ControlGroup>, String> {
        let Some(groups) = &self.groups else { return Ok(None) };
        let group = groups.for_call(call).map_err(|cause| cause.to_string())?;
        let limits = group.limit(&self.containment);
        tracing::debug!(call, ?limits, "git is called");
        match group.join(pid) {
            Ok(()) => Ok(Some(group)),
            Err(cause) => {
                group.remove();
                Err(cause.to_string())
            }
        }
    }
}

/// Passes a file on, then ends the input.
fn fed(input: Option<ChildStdin>, from: Option<std::fs::File>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (Some(mut input), Some(from)) = (input, from) else { return };
        let mut from = tokio::fs::File::from_std(from);
        if let Err(cause) = tokio::io::copy(&mut from, &mut input).await {
            // It says itself that it has not read all.
            tracing::debug!(%cause, "git reads no more");
        }
    })
}

/// Bytes that git may print, such as names of files, which are whatever a program has made.
const PRINTED_MAX: u64 = 32 * 1024 * 1024;
/// Bytes that are kept of what git complains about.
const COMPLAINED_MAX: u64 = 64 * 1024;

/// What was read, and whether it is all.
type GatheredOutput = JoinHandle<io::Result<(Vec<u8>, bool)>>;

/// Reads all, and keeps so much of it.
fn gathered<R: AsyncRead + Unpin + Send + 'static>(from: Option<R>, most: u64) -> GatheredOutput {
    tokio::spawn(async move {
        let (mut kept, mut more) = (Vec::new(), 0);
        if let Some(mut from) = from {
            (&mut from).take(most).read_to_end(&mut kept).await?;
            more = tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
        }
        Ok((kept, more == 0))
    })
}

/// What was read when everything that could write is gone.
async fn last_words(reading: GatheredOutput) -> Result<(Vec<u8>, bool), GitError> {
    let read = timeout(LAST_WORDS, reading).await.map_err(io::Error::from);
    let read = read.and_then(|read| read.map_err(io::Error::from)).flatten();
    read.map_err(GitError::Start)
}

/// A file that is really there under this name: no link leads to it, and reading it does not wait.
///
/// # Errors
/// It is not there, is no file or has more bytes, or a link is on the way.
pub(super) fn read_straight(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let opened = std::fs::File::from(opened);
    let facts = opened.metadata()?;
    if !facts.is_file() || facts.len() > most {
        return Err(io::Error::other(format!("not a file of at most {most} bytes")));
    }
    let mut bytes = Vec::new();
    opened.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same place with its part that is there by its real name, for rights that follow no links.
pub(super) fn real_ancestors(path: PathBuf) -> PathBuf {
    for there in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) {
            return real.join(rest);
        }
    }
    path
}
