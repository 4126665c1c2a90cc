//! Worktrees of runs (spec 06, Worktrees and the apply gate): each has a directory below the host's,
//! `<run>/`, that says whose it is (`about.json`) and holds its files (`tree/`). The branch is
//! `tetrarch/<run>`. Every step may be cut off and made again; nothing here deletes unapplied work.

mod applying;
mod bounds;
mod clearing;
mod ending;
mod git;
mod inventory;
mod keeping;
mod making;
mod own;
mod summary;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tetrarch_core::destination::Network;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::spawn_blocking;

use crate::cgroup::Cgroups;
use crate::containment::Containment;
use crate::mark::HostLife;
use crate::removal::remove_tree;
use bounds::{GitBounds, real_ancestors};
use git::Git;

pub(crate) use ending::WorktreeFinalizer;
pub(crate) use git::GitError;
pub use inventory::{InventoryError, KeptWorktree, WorktreeState, remove_worktree, worktrees};
pub use summary::repository_summary;

/// What says whose a worktree is.
const ABOUT: &str = "about.json";
/// Its files.
const TREE: &str = "tree";

/// What is known of a worktree. Written before it is made, and again when it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WorktreeRecord {
    /// The run it was made for; its branch is named after it.
    run: String,
    /// Whose it is, in all its sessions.
    agent: String,
    /// The goal that it was made for; none of one that was made before goals were noted.
    #[serde(default)]
    goal: String,
    /// The project of that goal; none of one that was made before projects were noted.
    #[serde(default)]
    project: String,
    /// The git directory that it shares with its repository.
    common: String,
    /// The branch that the work is for.
    target: String,
    /// Where it begins: a commit of that branch.
    base: String,
    /// The work's directory within the repository.
    sub: String,
    /// Its own git directory; none while it is being made, when no program has seen it.
    gitdir: Option<String>,
}

impl WorktreeRecord {
    fn branch(&self) -> String {
        format!("refs/heads/tetrarch/{}", self.run)
    }
}

/// A worktree and where it lies.
#[derive(Debug, Clone)]
struct WorktreeLocation {
    dir: PathBuf,
    about: WorktreeRecord,
}

impl WorktreeLocation {
    fn tree(&self) -> PathBuf {
        self.dir.join(TREE)
    }

    /// Where its program works.
    fn work(&self) -> PathBuf {
        self.tree().join(&self.about.sub)
    }

    fn common(&self) -> &Path {
        Path::new(&self.about.common)
    }

    fn read(dir: &Path) -> Option<Self> {
        let text = std::fs::read(dir.join(ABOUT)).ok()?;
        let about = serde_json::from_slice(&text).ok()?;
        Some(Self { dir: dir.to_owned(), about })
    }

    /// Writes what is known, whole or not at all.
    fn write(&self) -> Result<(), GitError> {
        let (path, beside) = (self.dir.join(ABOUT), self.dir.join("about.new"));
        let write = || {
            std::fs::create_dir_all(&self.dir)?;
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&serde_json::to_vec_pretty(&self.about)?)?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)
        };
        write().map_err(|cause: io::Error| GitError::File { path: path.clone(), cause })
    }
}

/// Every worktree below a directory, in the order of their runs.
fn places(dir: &Path) -> Vec<WorktreeLocation> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut places: Vec<WorktreeLocation> =
        entries.filter_map(|entry| WorktreeLocation::read(&entry.path())).collect();
    places.sort_by(|one, other| one.about.run.cmp(&other.about.run));
    places
}

/// The worktrees of one host.
#[derive(Debug)]
pub(crate) struct Worktrees {
    dir: PathBuf,
    max: usize,
    life: String,
    /// What programs are kept to.
    containment: Containment,
    /// Where calls of git have their groups.
    groups: Option<Arc<Cgroups>>,
    /// One merge of a repository at a time: two into one branch would only get in each other's way.
    merging: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Worktrees {
    /// Those below a directory, at most so many.
    pub(crate) fn new(
        dir: PathBuf,
        max: usize,
        life: &HostLife,
        containment: Containment,
        groups: Option<Arc<Cgroups>>,
    ) -> Arc<Self> {
        let dir = real_ancestors(std::path::absolute(&dir).unwrap_or(dir));
        let (life, merging) = (life.to_string(), std::sync::Mutex::default());
        Arc::new(Self { dir, max, life, containment, groups, merging })
    }

    /// Git on a repository, which it writes and nothing else.
    fn git(&self, common: &Path) -> Git {
        self.kept(Git::of(common, &self.life), &[common], &[])
    }

    /// Git within bounds: settings of a repository name commands, as filters and merge drivers, and a program may
    /// have written them.
    fn kept(&self, git: Git, written: &[&Path], read: &[&Path]) -> Git {
        kept(&self.containment, self.groups.clone(), git, written, read)
    }

    /// Waits until nobody else merges in this repository; one whose git hangs delays no other's.
    async fn alone(&self, repository: &str) -> OwnedMutexGuard<()> {
        let own = {
            let mut merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
            merging.retain(|_, it| Arc::strong_count(it) > 1);
            Arc::clone(merging.entry(repository.to_owned()).or_default())
        };
        own.lock_owned().await
    }
}

/// Git that writes, and reads of what is hidden, these places alone. They are taken by the names that they had without
/// links: one that has become a link gives nothing.
fn kept(
    containment: &Containment,
    groups: Option<Arc<Cgroups>>,
    git: Git,
    written: &[&Path],
    read: &[&Path],
) -> Git {
    let owned = |places: &[&Path]| places.iter().map(|it| it.to_path_buf()).collect::<Vec<_>>();
    let (dir, temporary) = (git.dir().to_owned(), std::env::temp_dir());
    let mut policy = containment.sandbox(Network::Off, &dir, temporary, Vec::new());
    policy.writable.retain(|place| *place != dir);
    policy.writable.extend(owned(written));
    policy.readable = owned(read);
    git.kept_to(GitBounds { policy, containment: containment.clone(), groups })
}

/// Does what may take long on the disk beside the runtime's threads.
async fn on_disk<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, GitError> {
    let own = path.to_owned();
    let done = spawn_blocking(move || work(&own)).await.map_err(io::Error::from);
    done.flatten().map_err(|cause| GitError::File { path: path.to_owned(), cause })
}

/// The trailer by which a merge names the last commit of the branch whose files it brings.
const MERGED_HEAD: &str = "Tetrarch-Head";

/// Removes a directory with all that is in it, if it is there.
async fn removed(dir: &Path) -> Result<(), GitError> {
    let remove = |dir: &Path| if dir.exists() { remove_tree(dir) } else { Ok(()) };
    on_disk(dir, remove).await
}

/// A path as text.
fn text(path: &Path) -> Result<&str, GitError> {
    path.to_str().ok_or_else(|| GitError::NotText(path.to_owned()))
}

/// Removes a lock that a call left behind which was ended; nobody else locks these files. No link is followed on the way:
/// programs write in some of these directories.
fn unlock(path: &Path) {
    let remove = || {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        unlinkat(dir, name, AtFlags::empty())
    };
    if let Err(cause) = remove()
        && cause != Errno::NOENT
    {
        tracing::warn!(path = %path.display(), %cause, "a lock of git's stays");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tetrarch_core::id::{HostName, Ulid};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn slow_disk_work_does_not_block_the_runtime() {
        let (go, wait) = mpsc::channel();
        let work = on_disk(Path::new("/nowhere"), move |_| wait.recv().map_err(io::Error::other));
        let other = async move { go.send(7).unwrap() };
        let (done, ()) = tokio::join!(work, other);
        assert_eq!(done.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_merge_delays_no_other_repository() {
        let dir = tempfile::tempdir().unwrap();
        let life = HostLife::new(&HostName::new("h1").unwrap(), "here", Ulid(1));
        let worktrees =
            Worktrees::new(dir.path().to_owned(), 1, &life, Containment::default(), None);
        let hanging = worktrees.alone("/one/.git").await;
        let other = timeout(Duration::from_secs(1), worktrees.alone("/other/.git"));
        drop(other.await.unwrap());
        let mut again = std::pin::pin!(worktrees.alone("/one/.git"));
        let waits = timeout(Duration::from_secs(1), &mut again).await;
        assert!(waits.is_err(), "two merges of one repository");
        drop(hanging);
        drop(again.await);
    }
}
