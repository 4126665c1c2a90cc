//! The worktrees that a host keeps, for people: what they hold, and their removal by whoever names one.

use std::path::{Path, PathBuf};
use tetrarch_core::words;

use super::git::{Git, GitError};
use super::keeping::discard;
use super::{MERGED_HEAD, WorktreeLocation, kept as within, places};
use crate::containment::Containment;
use crate::removal::remove_tree;

words! {
    /// What a worktree holds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WorktreeState {
        /// Work that its branch does not have.
        Unapplied = "unapplied",
        /// Nothing that its branch does not have.
        Applied = "applied",
        /// It was never finished, or its repository is gone.
        Broken = "broken",
    }
}

/// A worktree that a host keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWorktree {
    /// The run it was made for.
    pub run: String,
    /// Whose it is.
    pub agent: String,
    /// The goal that it was made for; empty when nobody noted it.
    pub goal: String,
    /// Where it lies.
    pub dir: PathBuf,
    /// The git directory of its repository.
    pub repository: String,
    /// Its branch.
    pub branch: String,
    /// The branch that its work is for.
    pub target: String,
    /// What it takes on the disk, in bytes.
    pub bytes: u64,
    /// Files that are not committed.
    pub uncommitted: usize,
    /// What it holds.
    pub state: WorktreeState,
}

/// Why a worktree is not removed.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// There is none.
    #[error("this host has no worktree of {0}")]
    None(String),
    /// It holds work that is nowhere else.
    #[error("the worktree of {run} has commits that are not in {target}")]
    Unapplied {
        /// The run.
        run: String,
        /// The branch it is for.
        target: String,
    },
    /// Git, or the file system, says no.
    #[error("{0}")]
    Refused(String),
}

/// The worktrees below a host's directory, in the order of their runs. Git looks at them within these bounds.
pub async fn worktrees(dir: &Path, containment: &Containment) -> Vec<KeptWorktree> {
    let mut kept = Vec::new();
    for place in places(dir) {
        kept.push(look(&place, containment).await);
    }
    kept
}

/// Removes a worktree and its branch; what is not in the branch it was for only when `force` says so.
///
/// # Errors
/// There is none, it holds work that is nowhere else, or it cannot be removed.
pub async fn remove_worktree(
    dir: &Path,
    run: &str,
    force: bool,
    containment: &Containment,
) -> Result<KeptWorktree, InventoryError> {
    let found = places(dir).into_iter().find(|place| place.about.run == run);
    let place = found.ok_or_else(|| InventoryError::None(run.to_owned()))?;
    let kept = look(&place, containment).await;
    if kept.state != WorktreeState::Applied && !force {
        let (run, target) = (kept.run, kept.target);
        return Err(InventoryError::Unapplied { run, target });
    }
    let refused = |error: GitError| InventoryError::Refused(error.to_string());
    if place.common().is_dir() {
        let git = within(containment, None, Git::of(place.common(), ""), &[place.common()], &[]);
        discard(&git, &place).await.map_err(refused)?;
    } else {
        let gone = remove_tree(&place.dir);
        gone.map_err(|cause| InventoryError::Refused(cause.to_string()))?;
    }
    Ok(kept)
}

async fn look(place: &WorktreeLocation, containment: &Containment) -> KeptWorktree {
    let about = &place.about;
    let found = looked_into(place, containment).await;
    let (state, uncommitted) = found.unwrap_or((WorktreeState::Broken, 0));
    KeptWorktree {
        run: about.run.clone(),
        agent: about.agent.clone(),
        goal: about.goal.clone(),
        dir: place.dir.clone(),
        repository: about.common.clone(),
        branch: about.branch(),
        target: about.target.clone(),
        bytes: size(&place.dir),
        uncommitted,
        state,
    }
}

/// Whether it holds something that its branch has not, and how many files are not committed; none
/// when nobody can tell.
async fn looked_into(
    place: &WorktreeLocation,
    containment: &Containment,
) -> Option<(WorktreeState, usize)> {
    let (tree, gitdir) = (place.tree(), place.about.gitdir.as_deref()?);
    let there = Git::within(&tree, "")
        .with("GIT_DIR", gitdir)
        .with("GIT_WORK_TREE", &tree)
        .with("GIT_OPTIONAL_LOCKS", "0");
    let there = within(containment, None, there, &[], &[&tree, place.common()]);
    // What is in a repository within the files is looked at by commands that it names.
    let status = ["status", "--porcelain=v1", "-z", "--ignore-submodules=dirty"];
    let dirty = there.bytes(&status).await.ok()?;
    let uncommitted = dirty.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count();
    let head = there.commit("HEAD").await.ok()??;
    let git = within(containment, None, Git::of(place.common(), ""), &[], &[place.common()]);
    let merged = is_merged(&git, place, &head).await.ok()?;
    let whole = merged && uncommitted == 0;
    Some((if whole { WorktreeState::Applied } else { WorktreeState::Unapplied }, uncommitted))
}

/// Whether a branch has a commit, or a merge of what it comes to.
async fn is_merged(git: &Git, place: &WorktreeLocation, head: &str) -> Result<bool, GitError> {
    let target = &place.about.target;
    if git.is_before(head, target).await? {
        return Ok(true);
    }
    let since = format!("{}..{target}", place.about.base);
    let named = format!("{MERGED_HEAD}: {head}");
    let merged = git.line(&["log", "--merges", "--format=%B", &since]).await?;
    Ok(merged.lines().any(|line| line == named))
}

/// What a directory takes on the disk, in bytes; links are not followed.
fn size(dir: &Path) -> u64 {
    let mut bytes = 0;
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            if facts.is_dir() {
                open.push(entry.path());
            } else {
                bytes += facts.len();
            }
        }
    }
    bytes
}
