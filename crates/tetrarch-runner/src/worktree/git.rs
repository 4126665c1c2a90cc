//! Calls of the `git` program: arguments only, never a shell, with an environment and settings of their
//! own, so that nobody's hooks, aliases or helpers run (spec 06, Worktrees and the apply gate).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::bounds::GitBounds;
use crate::children;
use crate::mark::LIFE_VARIABLE;

/// Far longer than any of these calls takes: a bound for a file system that hangs.
pub(super) const CALL_MAX: Duration = Duration::from_secs(600);
/// What is repeated of what git said, in characters.
const SAID_MAX: usize = 600;
/// Settings that decide over what a repository says: nothing runs besides, nothing is fetched.
const SETTINGS: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=/bin/false",
    "gpg.ssh.program=/bin/false",
    "gpg.x509.program=/bin/false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=none",
    "advice.addEmbeddedRepo=false",
    "core.logAllRefUpdates=true",
    // A change that is told of as applied outlives a power cut.
    "core.fsync=all",
    "core.fsyncMethod=batch",
];
/// Who commits.
const NAME: &str = "Tetrarch";
pub(super) const EMAIL: &str = "tetrarch@localhost";

/// Why a call of git came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// It is not there, or does not start.
    #[error("cannot start git: {0}; install git 2.38 or later on this host")]
    Start(io::Error),
    /// It refused.
    #[error("git {what} failed: {said}")]
    Refused {
        /// What it was asked.
        what: String,
        /// What it said.
        said: String,
    },
    /// It went on for too long.
    #[error("git {what} took longer than 10 minutes; check the file system of the repository")]
    TooLong {
        /// What it was asked.
        what: String,
    },
    /// A file beside the repository cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A path is not text, which a record needs.
    #[error("{} is not UTF-8; rename it", .0.display())]
    NotText(PathBuf),
}

/// What a call gave.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: i32,
    pub(super) out: Vec<u8>,
    pub(super) error: String,
}

impl GitOutput {
    pub(super) fn new(status: ExitStatus, out: Vec<u8>, complained: &[u8]) -> Self {
        let error = String::from_utf8_lossy(complained).trim().chars().take(SAID_MAX).collect();
        Self { code: status.code().unwrap_or(-1), out, error }
    }
}

/// A place in which git is called.
#[derive(Debug, Clone)]
pub(super) struct Git {
    dir: PathBuf,
    life: String,
    variables: Vec<(&'static str, OsString)>,
    /// What the calls are kept to; none where nobody else has written.
    bounds: Option<GitBounds>,
}

impl Git {
    /// In a directory; `life` marks the calls, so that the host's next life ends what is left of them.
    pub(super) fn within(dir: &Path, life: &str) -> Self {
        Self { dir: dir.to_owned(), life: life.to_owned(), variables: Vec::new(), bounds: None }
    }

    /// On a repository, by the directory that its worktrees share.
    pub(super) fn of(common: &Path, life: &str) -> Self {
        Self::within(common, life).with("GIT_DIR", common)
    }

    /// The same with a variable.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// The same, kept to these bounds with whatever it starts.
    pub(super) fn kept_to(mut self, bounds: GitBounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// The directory it is called in.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its variables, and no others.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let path = std::env::var_os("PATH").map(|path| ("PATH", path));
        let own = [
            (LIFE_VARIABLE, self.life.as_str()),
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_AUTHOR_NAME", NAME),
            ("GIT_AUTHOR_EMAIL", EMAIL),
            ("GIT_COMMITTER_NAME", NAME),
            ("GIT_COMMITTER_EMAIL", EMAIL),
        ];
        let own = own.map(|(name, value)| (name, OsString::from(value)));
        let all = path.into_iter().chain(own).chain(self.variables.iter().cloned());
        all.map(|(name, value)| (OsString::from(name), value)).collect()
    }

    async fn finished(
        &self,
        args: &[&str],
        from: Option<File>,
        out: Option<File>,
    ) -> Result<GitOutput, GitError> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let whole: Vec<&str> = settings.chain(args.iter().copied()).collect();
        if let Some(bounds) = &self.bounds {
            return bounds.call(&self.dir, self.environment(), &whole, from, out).await;
        }
        let mut command = Command::new("git");
        command.args(&whole).current_dir(&self.dir).env_clear().envs(self.environment());
        command.stdin(from.map_or_else(Stdio::null, Stdio::from)).stderr(Stdio::piped());
        command.stdout(out.map_or_else(Stdio::piped, Stdio::from));
        command.process_group(0).kill_on_drop(true);
        let (child, _, awaited) = children::start(&mut command).map_err(GitError::Start)?;
        let output = tokio::time::timeout(CALL_MAX, child.wait_with_output()).await;
        drop(awaited);
        let output = output.map_err(|_| too_long(args))?.map_err(GitError::Start)?;
        Ok(GitOutput::new(output.status, output.stdout, &output.stderr))
    }

    /// What git says, whatever its exit code.
    pub(super) async fn says(&self, args: &[&str]) -> Result<GitOutput, GitError> {
        self.finished(args, None, None).await
    }

    /// What git prints, which has to succeed.
    pub(super) async fn bytes(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let said = self.says(args).await?;
        if said.code == 0 { Ok(said.out) } else { Err(refused(args, &said)) }
    }

    /// The line that git prints, which has to succeed.
    pub(super) async fn line(&self, args: &[&str]) -> Result<String, GitError> {
        let out = self.bytes(args).await?;
        Ok(String::from_utf8_lossy(&out).trim_end_matches('\n').to_owned())
    }

    /// The line that git prints; none when it says no.
    pub(super) async fn maybe(&self, args: &[&str]) -> Result<Option<String>, GitError> {
        let said = self.says(args).await?;
        match said.code {
            0 => Ok(Some(String::from_utf8_lossy(&said.out).trim_end_matches('\n').to_owned())),
            1 => Ok(None),
            _ => Err(refused(args, &said)),
        }
    }

    /// Has git print into a file.
    pub(super) async fn print(&self, args: &[&str], to: &Path) -> Result<(), GitError> {
        self.through(args, Path::new("/dev/null"), to).await
    }

    /// Has git read one file and print into another.
    pub(super) async fn through(
        &self,
        args: &[&str],
        from: &Path,
        to: &Path,
    ) -> Result<(), GitError> {
        let failed = |path: &Path, cause| GitError::File { path: path.to_owned(), cause };
        let input = File::open(from).map_err(|cause| failed(from, cause))?;
        let output = File::create(to).map_err(|cause| failed(to, cause))?;
        let said = self.finished(args, Some(input), Some(output)).await?;
        if said.code == 0 { Ok(()) } else { Err(refused(args, &said)) }
    }

    /// The commit that a name stands for; none when there is none.
    pub(super) async fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let said =
            self.says(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).await?;
        let found = (said.code == 0).then(|| String::from_utf8_lossy(&said.out).trim().to_owned());
        Ok(found.filter(|id| !id.is_empty()))
    }

    /// Whether one commit is the other or before it.
    pub(super) async fn is_before(&self, one: &str, other: &str) -> Result<bool, GitError> {
        Ok(self.maybe(&["merge-base", "--is-ancestor", one, other]).await?.is_some())
    }
}

/// A call that was given up.
pub(super) fn too_long(args: &[&str]) -> GitError {
    let what = args.iter().find(|arg| !arg.starts_with('-') && !arg.contains('='));
    GitError::TooLong { what: what.copied().unwrap_or_default().to_owned() }
}

/// What git said that it would not do.
pub(super) fn refused(args: &[&str], said: &GitOutput) -> GitError {
    let what = args.iter().find(|arg| !arg.starts_with('-')).copied().unwrap_or_default();
    let said =
        if said.error.is_empty() { format!("exit {}", said.code) } else { said.error.clone() };
    GitError::Refused { what: what.to_owned(), said }
}
