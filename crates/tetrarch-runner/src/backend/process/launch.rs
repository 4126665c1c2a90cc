//! Starts a program: its directory, its scrubbed environment, its containment (spec 06, Runners;
//! spec 09, On the host). Waits for nothing and reads no output.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use rustix::process::Pid;
use tetrarch_core::destination::{Network, NoDestination};
use tetrarch_core::id::RunId;
use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_core::redaction::{self, BuildError, SECRET_BYTES_MIN};
use tetrarch_core::secret::is_secret_variable;
use tetrarch_telemetry::trace;
use tokio::process::Child;

use crate::adapter::{Adapter, CONVERSATIONS};
use crate::cgroup::ControlGroup;
use crate::children::WaitedChild;
use crate::confined::{self, NotStarted, Started};
use crate::containment::{SandboxPolicy, exposed};
use crate::directories::{HOMES, RunDirectories, RunDirectoriesError};
use crate::headcount::Headcount;
use crate::launcher::Launcher;
use crate::links::{NotStraight, straight};
use crate::mark::{HostLife, LIFE_VARIABLE, ProcessMark, RUN_VARIABLE};
use crate::proxy::Proxy;
use crate::serve::RunnerContext;
use crate::sweep::Traces;

/// Variables of the host that every program sees; `LC_*` besides (docs/stdio-protocol.md).
pub(crate) const PASSED_ON: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// There is no command.
    #[error("profile `{profile}` names no command; set its `argv`")]
    NoCommand { profile: String },
    /// The command is not there.
    #[error(
        "`{program}` or its interpreter was not found; install it on this host or correct `argv` of profile \
         `{profile}`; PATH={path}"
    )]
    NotFound { program: String, path: String, profile: String },
    /// The command may not be executed.
    #[error("`{program}` is not executable; make it executable (chmod +x) for the host's user")]
    NotExecutable { program: String },
    /// Anything else the system says.
    #[error("cannot start `{program}`: {cause}; check the host's limits and `argv`")]
    Spawn { program: String, cause: io::Error },
    /// The workspace is not there or cannot be made.
    #[error(
        "cannot use workspace {path}: {cause}; create it for the host's user, or leave `workspace` empty"
    )]
    Workspace { path: PathBuf, cause: io::Error },
    /// A relative workspace leaves the directory it is relative to.
    #[error(
        "workspace {path} is not a directory of its own below the host's work directory; remove `..` and links, and \
         name a directory"
    )]
    WorkspaceEscapes { path: PathBuf },
    /// The workspace is what the host keeps to itself, or has that in it.
    #[error(
        "workspace {path}: the host keeps its credentials in {hidden}, which a program there would read and write; \
         work in a directory beside it, or keep the data directory elsewhere (--data-dir)"
    )]
    WorkspaceHidden { path: PathBuf, hidden: PathBuf },
    /// The workspace leads over a link.
    #[error("workspace {path}: {cause}")]
    WorkspaceLinked { path: PathBuf, cause: NotStraight },
    /// The workspace leads out of its worktree.
    #[error(
        "workspace {path} leads to {real}, which is outside of its worktree: a link in the repository gives no rights to what it leads to; name a directory of the repository, or remove the link from it"
    )]
    WorkspaceOutside { path: PathBuf, real: PathBuf },
    /// Containment is required and missing.
    #[error("isolation is required, but {cause}; fix this, or set host.isolation to \"best\"")]
    NotContained { cause: String },
    /// Some hosts alone are allowed, and this machine cannot keep to them.
    #[error("{0}")]
    NoAllowance(String),
    /// A host is meant to be allowed, and none is named.
    #[error("tools: {0}")]
    NoDestination(#[from] NoDestination),
    /// There are too many secrets.
    #[error("cannot redact the values of `passEnv`: {0}")]
    NotHidden(#[from] BuildError),
    /// It has not the places it is to have.
    #[error(transparent)]
    Places(#[from] RunDirectoriesError),
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Launched {
    /// The program.
    pub(super) child: Child,
    /// Its number.
    pub(super) pid: Pid,
    /// By what all of it is found again.
    pub(super) traces: Traces,
    /// What counts its processes.
    pub(super) headcount: Headcount,
    /// How it is contained, in words.
    pub(super) isolation: String,
    /// That its exit status is waited for.
    pub(super) awaited: WaitedChild,
    /// Where it works: absolute, without links.
    pub(super) dir: PathBuf,
    /// Whether the directory is the run's own.
    pub(super) dir_is_own: bool,
    /// What else is the run's, until this is dropped.
    pub(super) directories: RunDirectories,
    /// What it is kept to.
    pub(super) sandbox: SandboxPolicy,
    /// Its way out, until this is dropped.
    pub(super) proxy: Option<Proxy>,
}

impl Launched {
    /// What is told of it.
    pub(super) fn up(&self) -> RunnerEvent {
        let pid = u32::try_from(self.pid.as_raw_nonzero().get()).ok();
        RunnerEvent::Started { pid, isolation: self.isolation.clone() }
    }
}

/// Starts the program of a brief. It reaches its model gateway besides what its tools allow.
pub(super) async fn launch(
    context: &RunnerContext,
    start: &Start,
    gateway: Option<SocketAddr>,
) -> Result<Launched, LaunchError> {
    // A coding agent goes on with its conversation only where it began it.
    let goes_on = Adapter::of(start.brief.runner.kind).is_some();
    let named = if goes_on { start.first } else { start.run };
    let (dir, dir_is_own) = directory(context, start, named).await?;
    match contain(context, start, &dir, gateway).await {
        Ok(Contained { started, cgroup, sandbox, directories }) => {
            let Started { child, pid, awaited, layers, proxy } = started;
            let sandbox = sandbox.enforced(&layers);
            let contained = match &cgroup {
                Ok(cgroup) => format!("cgroup {}", cgroup.dir().display()),
                Err(cause) => format!("no cgroup ({cause})"),
            };
            let layers: Vec<String> = layers.iter().map(ToString::to_string).collect();
            let isolation = format!(
                "{contained}; process group {pid}; {}; {}",
                context.subreaper,
                layers.join("; ")
            );
            let headcount = Headcount::of(cgroup.as_ref().ok(), &context.containment);
            let traces = Traces::of_program(ProcessMark::Run(start.run), pid, cgroup.ok());
            Ok(Launched {
                child,
                awaited,
                pid,
                traces,
                headcount,
                isolation,
                dir,
                dir_is_own,
                directories,
                sandbox,
                proxy,
            })
        }
        Err(error) => {
            if dir_is_own {
                remove_if_empty(&dir).await;
            }
            Err(error)
        }
    }
}

/// A program in its layers.
struct Contained {
    started: Started,
    cgroup: Result<ControlGroup, String>,
    sandbox: SandboxPolicy,
    directories: RunDirectories,
}

/// Starts it in all the layers there are; not at all when one is missing that is required.
async fn contain(
    context: &RunnerContext,
    start: &Start,
    dir: &Path,
    gateway: Option<SocketAddr>,
) -> Result<Contained, LaunchError> {
    let directories = context.directories_for(start).await?;
    let containment = &context.containment;
    let required = |cause: &String| LaunchError::NotContained { cause: cause.clone() };
    if let (Some(cause), true) = (containment.exposed(), containment.required) {
        return Err(required(&cause));
    }
    let cgroup = context.cgroup_for(start.run);
    if let (Err(cause), true) = (&cgroup, containment.required) {
        return Err(required(cause));
    }
    let limits = cgroup.as_ref().ok().and_then(|cgroup| cgroup.limit(containment));
    let missing = limits.as_ref().filter(|limits| containment.required && !limits.active);
    let temporary = std::env::temp_dir();
    let network = match (Network::of(&start.brief.tools)?, gateway) {
        (Network::Off, Some(_)) => Network::Only(Vec::new()),
        (network, _) => network,
    };
    let sandbox = containment.sandbox(network, dir, temporary, directories.writable());
    let sandbox = SandboxPolicy { gateway, readable: directories.readable(), ..sandbox };
    let spawned = match missing {
        Some(limits) => Err(required(&limits.to_string())),
        None => {
            let own = directories.variables();
            spawn(start, &context.life, dir, &sandbox, &containment.launcher, own)
        }
    };
    let mut started = match spawned {
        Ok(started) => started,
        Err(error) => {
            if let Ok(cgroup) = cgroup {
                cgroup.remove();
            }
            return Err(error);
        }
    };
    let cgroup = cgroup.and_then(|cgroup| match cgroup.join(started.pid) {
        Ok(()) => Ok(cgroup),
        Err(cause) => {
            cgroup.remove();
            Err(cause.to_string())
        }
    });
    if let (Err(cause), true) = (&cgroup, containment.required) {
        let error = required(cause);
        if let Err(cause) = started.child.kill().await {
            tracing::warn!(run = %start.run, %cause, "a program that must not run cannot be killed");
        }
        return Err(error);
    }
    if let Err(cause) = containment.launcher.release(&mut started.child).await {
        tracing::debug!(run = %start.run, %cause, "a program ended before it started");
    }
    started.layers.extend(limits);
    Ok(Contained { started, cgroup, sandbox, directories })
}

/// Removes a run's own directory when nothing is in it.
pub(crate) async fn remove_if_empty(dir: &Path) {
    if let Err(cause) = tokio::fs::remove_dir(dir).await {
        tracing::debug!(dir = %dir.display(), %cause, "removing the run's directory failed");
    }
}

fn spawn(
    start: &Start,
    life: &HostLife,
    dir: &Path,
    sandbox: &SandboxPolicy,
    launcher: &Launcher,
    own: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Started, LaunchError> {
    let runner = &start.brief.runner;
    let profile = runner.profile.to_string();
    let Some((program, arguments)) = runner.argv.split_first() else {
        return Err(LaunchError::NoCommand { profile });
    };
    let environment = environment(start, life, own, std::env::vars_os());
    know_secrets(&runner.pass_env, &environment)?;
    let failed = |cause: io::Error| {
        let program = program.clone();
        if cause.kind() == io::ErrorKind::NotFound {
            let path = environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
            let path = path.to_string_lossy().into_owned();
            LaunchError::NotFound { program, path, profile: profile.clone() }
        } else if cause.kind() == io::ErrorKind::PermissionDenied {
            LaunchError::NotExecutable { program }
        } else {
            LaunchError::Spawn { program, cause }
        }
    };
    let path = located(program, &environment, dir);
    let mut command = launcher.command(&path, program, dir, &environment).map_err(failed)?;
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    confined::start(&mut command, sandbox).map_err(|error| match error {
        NotStarted::NotContained(cause) => LaunchError::NotContained { cause },
        NotStarted::NoAllowance(cause) => LaunchError::NoAllowance(cause),
        NotStarted::Failed(cause) => failed(cause),
    })
}

/// From now on hides what a profile passes on and counts as a secret.
pub(crate) fn know_secrets(
    passed: &[String],
    environment: &BTreeMap<OsString, OsString>,
) -> Result<(), BuildError> {
    for name in passed.iter().filter(|name| is_secret_variable(name)) {
        let Some(value) = environment.get(OsStr::new(name)) else { continue };
        let is_path = std::env::split_paths(value).all(|path| path.is_absolute() && path.exists());
        if !is_path && !redaction::know(value.as_bytes())? {
            tracing::warn!(
                variable = name,
                "a line of less than {SECRET_BYTES_MIN} bytes is not redacted in output"
            );
        }
    }
    Ok(())
}

/// Where a program lies. With its path known beforehand it is started without a copy of this
/// process's page tables, which grow with the host's memory.
fn located(program: &str, environment: &BTreeMap<OsString, OsString>, dir: &Path) -> PathBuf {
    let path = environment.get(OsStr::new("PATH"));
    // What is not found is looked for again when it is started, which then tells why it is not.
    which::which_in(program, path, dir).unwrap_or_else(|_| PathBuf::from(program))
}

/// The directory a run works in, and whether it is the run's own, which is named after `named`. A relative
/// workspace lies below the host's directory of runs and is created; an absolute one must be there, and be nothing
/// that is hidden from programs. Programs may have changed what is on the way to it, so no link is followed that they
/// can have made, but within a worktree.
pub(crate) async fn directory(
    context: &RunnerContext,
    start: &Start,
    named: RunId,
) -> Result<(PathBuf, bool), LaunchError> {
    let (wanted, workspace_dir) = (PathBuf::from(&start.brief.workspace), &context.workspace_dir);
    let escapes = || LaunchError::WorkspaceEscapes { path: wanted.clone() };
    if wanted.components().any(|part| part == Component::ParentDir) && wanted.is_relative() {
        return Err(escapes());
    }
    let own = wanted.as_os_str().is_empty();
    let run = PathBuf::from(named.to_string());
    let below = if own { &run } else { &wanted };
    let path = workspace_dir.join(below);
    let failed = |cause| LaunchError::Workspace { path: path.clone(), cause };
    let real = async |path: &Path| tokio::fs::canonicalize(path).await.map_err(failed);
    let above = if wanted.is_relative() {
        tokio::fs::create_dir_all(workspace_dir).await.map_err(failed)?;
        let above = real(workspace_dir).await?;
        // Before it is made: where the part of it that is there leads.
        if let Some(there) = path.ancestors().find(|it| it.exists())
            && !real(there).await?.starts_with(&above)
        {
            return Err(escapes());
        }
        tokio::fs::create_dir_all(&path).await.map_err(failed)?;
        Some(above)
    } else {
        None
    };
    let real = real(&path).await?;
    if !real.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    match above {
        Some(above) => {
            let named = real != above && real == above.join(below);
            let kept = [HOMES, CONVERSATIONS].map(|name| above.join(name));
            if !named || kept.iter().any(|kept| real.starts_with(kept)) {
                return Err(escapes());
            }
        }
        None => {
            if let Some(hidden) = exposed(&context.containment.hidden, &real)
                && !context.worktrees.is_of(&real, &start.agent)
            {
                return Err(LaunchError::WorkspaceHidden { path, hidden: hidden.clone() });
            }
            match context.worktrees.tree_around(&wanted) {
                Some(tree) if !real.starts_with(&tree) => {
                    return Err(LaunchError::WorkspaceOutside { path, real });
                }
                Some(_) => {}
                None => match straight(&path) {
                    Ok(found) if found == real => {}
                    Ok(_) => {
                        return Err(failed(io::Error::other("it changed while it was looked at")));
                    }
                    Err(cause) => return Err(LaunchError::WorkspaceLinked { path, cause }),
                },
            }
        }
    }
    Ok((real, own))
}

/// The program's whole environment, from the host's.
fn environment(
    start: &Start,
    life: &HostLife,
    own: impl Iterator<Item = (OsString, OsString)>,
    host: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let runner = &start.brief.runner;
    let passed = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            PASSED_ON.contains(&name)
                || name.starts_with("LC_")
                || runner.pass_env.iter().any(|wanted| wanted == name)
        })
    };
    let mut environment: BTreeMap<OsString, OsString> =
        host.filter(|(name, _)| passed(name)).collect();
    environment.extend(own);
    let set = runner.env.iter().map(|(name, value)| (name.into(), value.into()));
    environment.extend(set);
    let own = [
        ("TETRARCH_AGENT", start.agent.to_string()),
        ("TETRARCH_SESSION", start.session.to_string()),
        ("TETRARCH_EPOCH", start.epoch.to_string()),
        (RUN_VARIABLE, start.run.to_string()),
        (LIFE_VARIABLE, life.to_string()),
        ("TETRARCH_EPIC", start.epic.to_string()),
        ("TETRARCH_NODE", start.node.to_string()),
        ("TETRARCH_TASK", start.brief.goal.clone()),
    ];
    environment.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    if let Some(traceparent) = &start.trace {
        environment.insert(trace::VARIABLE.into(), traceparent.into());
    }
    environment
}
