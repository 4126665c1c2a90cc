//! What a run's programs write besides their working directory: a home of their own, and the directories that the
//! run's profile gives (docs/stdio-protocol.md, Isolation). Ends with the run. Confines nothing; that is `confined`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tetrarch_core::brief::Runner;
use tetrarch_core::id::RunId;
use tokio::runtime::Handle;

use crate::containment::{exposed, real};
use crate::links::{NotStraight, straight};
use crate::removal::remove_tree;

/// Where homes lie, below the directory of runs.
pub(crate) const HOMES: &str = ".homes";
/// The variable that names a program's home.
pub(crate) const HOME: &str = "HOME";
/// Directories of a home in which programs make entries of their own beside the user's.
const SHARED: [&str; 3] = [".config", ".local", ".local/share"];
/// Directories of a home that programs only cache in; a run has empty ones.
const FRESH: [&str; 3] = [".cache", ".npm", ".local/state"];
/// Most entries of a directory of the user that a home leads to.
const ENTRIES_MAX: usize = 1000;

/// What the host keeps to itself (`hidden`) and a program would have that works or writes in this directory of a plan.
#[must_use]
pub fn hidden_around<'h>(directory: &str, hidden: &'h [PathBuf]) -> Option<&'h PathBuf> {
    exposed(hidden, &real(&place_of(directory, home_of_user().as_deref())))
}

fn home_of_user() -> Option<PathBuf> {
    std::env::var_os(HOME).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// Where a directory of a profile is, `~/` being the home of the host's user.
fn place_of(text: &str, user: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), user) {
        (Some(below), Some(user)) => real(user).join(below),
        (Some(_), None) | (None, _) => PathBuf::from(text),
    }
}

/// Why a run has not the places that it is to have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunDirectoriesError {
    /// The home cannot be made.
    #[error(
        "cannot create the home of the run at {path}: {cause}; free space and let the host's user write there"
    )]
    Home { path: PathBuf, cause: io::Error },
    /// The profile gives what the host keeps to itself.
    #[error(
        "profile `{profile}` has {path} in `writable`, but the host keeps credentials in {hidden}; use another directory"
    )]
    Hidden { profile: String, path: PathBuf, hidden: PathBuf },
    /// What the profile gives leads over a link.
    #[error("profile `{profile}` has {path} in `writable`: {cause}")]
    Linked { profile: String, path: PathBuf, cause: NotStraight },
    /// What the profile gives cannot be made.
    #[error(
        "cannot create {path}, which profile `{profile}` has in `writable`: {cause}; create it for the host's user, or remove it from the profile"
    )]
    Given { profile: String, path: PathBuf, cause: io::Error },
}

/// The places of one run.
#[derive(Debug, Default)]
pub(crate) struct RunDirectories {
    /// Its home; none where its profile names another.
    home: Option<PathBuf>,
    /// What its profile gives.
    given: Vec<PathBuf>,
    /// What it reads though the host keeps it to itself.
    readable: Vec<PathBuf>,
}

impl RunDirectories {
    /// Makes the places of a run below the directory of runs; `open` are those of its worktree, to be written and to
    /// be read. Blocks for a moment.
    ///
    /// # Errors
    /// The home cannot be made; the profile gives what is `hidden` or what cannot be made.
    pub(crate) fn make(
        workspace_dir: &Path,
        run: RunId,
        runner: &Runner,
        hidden: &[PathBuf],
        (open, readable): (Vec<PathBuf>, Vec<PathBuf>),
    ) -> Result<Self, RunDirectoriesError> {
        let user = home_of_user();
        let mut given = given(runner, user.as_deref(), hidden)?;
        given.extend(open);
        let named = runner.pass_env.iter().any(|name| name == HOME)
            || runner.env.iter().any(|(name, _)| name == HOME);
        if named {
            return Ok(Self { home: None, given, readable });
        }
        let home = workspace_dir.join(HOMES).join(run.to_string());
        let directories = Self { home: Some(home.clone()), given, readable };
        furnish(&home, user.as_deref())
            .map_err(|cause| RunDirectoriesError::Home { path: home, cause })?;
        Ok(directories)
    }

    /// Its home, if it has one of its own.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// All that it writes, without links.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        let home = self.home.as_deref().map(real);
        home.into_iter().chain(self.given.iter().cloned()).collect()
    }

    /// What it reads besides what everybody may.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        self.readable.clone()
    }
}

/// Its programs are gone, so nobody writes there any more.
impl Drop for RunDirectories {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let remove = move || {
            if let Err(cause) = remove_tree(&home) {
                tracing::warn!(home = %home.display(), %cause, "a run's home stays until the host starts again");
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Removes the homes that earlier lives of the host left. Blocks.
pub(crate) fn clear(workspace_dir: &Path) {
    let homes = workspace_dir.join(HOMES);
    if let Err(cause) = remove_tree(&homes)
        && cause.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(homes = %homes.display(), %cause, "homes of earlier runs stay");
    }
}

/// Makes a home in which everything of the user's home is found under its name, to be read, and in which there is
/// room for more.
fn furnish(home: &Path, user: Option<&Path>) -> io::Result<()> {
    fs::create_dir_all(home)?;
    let made = || [""].into_iter().chain(SHARED).chain(FRESH);
    for dir in made().skip(1) {
        fs::create_dir_all(home.join(dir))?;
    }
    let Some(user) = user else { return Ok(()) };
    for dir in [""].into_iter().chain(SHARED) {
        // What the user has not, or what cannot be read, is not led to.
        let entries = fs::read_dir(user.join(dir)).into_iter().flatten().flatten();
        for entry in entries.take(ENTRIES_MAX) {
            let name = Path::new(dir).join(entry.file_name());
            if !made().any(|made| Path::new(made) == name) {
                symlink(entry.path(), home.join(&name))?;
            }
        }
    }
    Ok(())
}

/// The directories that a profile gives. They are made, since the kernel gives rights to what is there.
fn given(
    runner: &Runner,
    user: Option<&Path>,
    hidden: &[PathBuf],
) -> Result<Vec<PathBuf>, RunDirectoriesError> {
    let give = |text: &String| {
        let profile = runner.profile.to_string();
        let path = place_of(text, user);
        let failed = |cause| RunDirectoriesError::Given {
            profile: profile.clone(),
            path: path.clone(),
            cause,
        };
        let kept = |place: &Path| match exposed(hidden, place).cloned() {
            Some(hidden) => {
                let (profile, path) = (profile.clone(), path.clone());
                Err(RunDirectoriesError::Hidden { profile, path, hidden })
            }
            None => Ok(()),
        };
        // Before it is made, and as it really is.
        kept(&real(&path))?;
        let place = straight(&path).map_err(|cause| RunDirectoriesError::Linked {
            profile: profile.clone(),
            path: path.clone(),
            cause,
        })?;
        kept(&place)?;
        // Rights are given over no link, so what it becomes after this look gives none.
        if !place.exists() {
            fs::create_dir_all(&place).map_err(failed)?;
        }
        Ok(place)
    };
    runner.writable.iter().map(give).collect()
}
