//! What a run's programs write besides their working directory: a home and a directory for temporary files of their own,
//! and the directories that the run's profile gives (docs/stdio-protocol.md, Isolation). Ends with the run. Confines
//! nothing; that is `confined`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
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
/// The variable that names a program's directory for temporary files.
pub(crate) const TEMPORARY: &str = "TMPDIR";
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
    /// The home, or the directory for temporary files, cannot be made.
    #[error(
        "cannot create a directory of the run at {path}: {cause}; free space and let the host's user write there"
    )]
    Own { path: PathBuf, cause: io::Error },
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
    /// Its own: variables that name them, unless its profile sets these, and where they are.
    own: Vec<(Option<&'static str>, PathBuf)>,
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
    /// One of its own cannot be made; the profile gives what is `hidden` or what cannot be made.
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
        let unless_set = |variable: &'static str| {
            let set = runner.pass_env.iter().any(|name| name == variable)
                || runner.env.iter().any(|(name, _)| name == variable);
            (!set).then_some(variable)
        };
        let home = (unless_set(HOME), workspace_dir.join(HOMES).join(run.to_string()));
        let temporary = (unless_set(TEMPORARY), temporary_of(&run.to_string()));
        let furnished = user.as_deref().filter(|_| home.0.is_some());
        let failed = |path: &Path, cause| RunDirectoriesError::Own { path: path.into(), cause };
        // Made before the other, whose name is found by it when the host has died.
        furnish(&home.1, furnished).map_err(|cause| failed(&home.1, cause))?;
        let mut directories = Self { own: vec![home], given, readable };
        // Nobody else's is taken over: the name is in everybody's directory.
        let made = fs::DirBuilder::new().mode(0o700).create(&temporary.1);
        made.map_err(|cause| failed(&temporary.1, cause))?;
        directories.own.push(temporary);
        Ok(directories)
    }

    /// What its programs are told of its own: variable and directory.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.own.iter().filter_map(|(name, path)| Some(((*name)?.into(), path.into())))
    }

    /// All that it writes, without links.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        self.own.iter().map(|(_, own)| real(own)).chain(self.given.iter().cloned()).collect()
    }

    /// What it reads besides what everybody may.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        self.readable.clone()
    }
}

/// Its programs are gone, so nobody writes there any more.
impl Drop for RunDirectories {
    fn drop(&mut self) {
        // The home last: the others are found by its name.
        let own: Vec<_> = self.own.drain(..).rev().collect();
        let remove = move || {
            for (_, path) in own {
                if let Err(cause) = remove_if_there(&path) {
                    tracing::warn!(path = %path.display(), %cause, "a run's directory stays until the host starts again");
                    return;
                }
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Where a run's programs put temporary files. It has a short path: sockets there have 107 bytes for theirs.
fn temporary_of(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tetrarch-{run}"))
}

/// Removes the directories that runs of earlier lives of the host left. Blocks.
pub(crate) fn clear(workspace_dir: &Path) {
    let homes = workspace_dir.join(HOMES);
    let runs = fs::read_dir(&homes).into_iter().flatten().flatten();
    let temporary = runs.map(|run| temporary_of(&run.file_name().to_string_lossy()));
    for path in temporary.chain([homes]) {
        if let Err(cause) = remove_if_there(&path) {
            tracing::warn!(path = %path.display(), %cause, "directories of earlier runs stay");
        }
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove_tree(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_dead_hosts_runs_are_removed_by_its_next_life() {
        let work = tempfile::tempdir().unwrap();
        let name = work.path().file_name().unwrap().to_string_lossy();
        let run = format!("run_of{name}");
        let home = work.path().join(HOMES).join(&run);
        let temporary = temporary_of(&run);
        furnish(&home, None).unwrap();
        fs::create_dir(&temporary).unwrap();
        fs::write(temporary.join("unpacked.so"), "x").unwrap();
        clear(work.path());
        assert!(!home.exists() && !temporary.exists());
    }
}
