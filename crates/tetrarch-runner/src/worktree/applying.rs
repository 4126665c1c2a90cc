//! Merges a change that was approved: looked at again, merged without any files, and only then the
//! branch is moved, from the very commit that the merge was made on. Where the branch is checked out,
//! its files follow when they are clean. Ordered again, it finds what is done.
//!
//! What is merged is the difference that was approved, on the commit that it was compared with: a program commits with
//! any parents, and git would take from them what nobody was shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetrarch_core::change::{ApplyOrder, ApplyOutcome};

use super::git::{Git, GitError, refused};
use super::keeping::{Difference, diff, difference};
use super::{MERGED_HEAD, Worktrees, places, unlock};

/// How often the branch may move on under a merge before it is given up.
const ROUNDS: usize = 5;

/// Written before a checked-out branch's files are touched: whoever goes on knows that they were clean.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CheckoutIntent {
    old: String,
    new: String,
}

impl Worktrees {
    /// Merges what an order names; what came of it.
    pub(crate) async fn apply(&self, order: &ApplyOrder) -> ApplyOutcome {
        let _alone = self.alone(&order.action.repository).await;
        // The repository may be there and this host new, as after a restore.
        let merged = match std::fs::create_dir_all(&self.dir) {
            Ok(()) => self.merge(order).await,
            Err(cause) => Err(GitError::File { path: self.dir.clone(), cause }),
        };
        merged.unwrap_or_else(|error| conflicted(Vec::new(), error.to_string()))
    }

    /// Clears a worktree all of whose work is in the branch it was for.
    pub(crate) async fn clear(&self, order: &ApplyOrder) {
        // An order that comes again is cleared again.
        let _alone = self.alone(&order.action.repository).await;
        let own = places(&self.dir).into_iter().find(|it| it.about.branch() == order.branch);
        let Some(place) = own else { return };
        let cleared = async {
            let head = self.commit_all(&place, "Left after its change was applied").await?;
            let git = self.git(place.common());
            let merged = head == order.action.head;
            if merged || git.is_before(&head, &place.about.target).await? {
                self.discard(&place).await?;
            }
            Ok::<_, GitError>(())
        };
        if let Err(error) = cleared.await {
            tracing::warn!(run = place.about.run, %error, "a worktree stays though it was applied");
        }
    }

    async fn merge(&self, order: &ApplyOrder) -> Result<ApplyOutcome, GitError> {
        let (action, common) = (&order.action, Path::new(&order.action.repository));
        if action.digest() != order.digest {
            return Ok(not_that("the order does not match what was approved"));
        }
        if !common.is_dir() {
            return Ok(not_that(&format!("no repository was found at {}", common.display())));
        }
        let git = self.git(common);
        let landing = self.dir.join(format!("{}.landing", order.change));
        let shown = match git.commit(&action.head).await? {
            Some(_) => Some(shown(&git, order).await?),
            None => None,
        };
        for round in 0..ROUNDS {
            let Some(old) = git.commit(&action.target).await? else {
                return Ok(not_that(&format!("branch {} was not found", action.target)));
            };
            if let Some(shown) = &shown
                && let Some(commit) = merged_by(&git, [&action.head, shown], &old).await?
            {
                unlock(&landing);
                return Ok(ApplyOutcome::Applied { commit });
            }
            if round == 0
                && let Some(why) = self.differs(&git, order).await?
            {
                return Ok(not_that(&why));
            }
            let Some(shown) = &shown else {
                return Ok(not_that(&format!("commit {} was not found", action.head)));
            };
            let new = match merge_commit(&git, order, shown, &old).await? {
                Ok(new) => new,
                Err(outcome) => return Ok(outcome),
            };
            if let Err(outcome) = self.land(&git, &action.target, &landing, &old, &new).await? {
                return Ok(outcome);
            }
            let message = format!("tetrarch: apply {}", order.change);
            let moved =
                git.says(&["update-ref", "-m", &message, &action.target, &new, &old]).await?;
            // A git that was killed may have moved it all the same.
            if moved.code == 0 || git.commit(&action.target).await?.as_ref() == Some(&new) {
                unlock(&landing);
                return Ok(ApplyOutcome::Applied { commit: new });
            }
            tracing::info!(change = %order.change, said = moved.error, "the branch moved on");
            self.take_back(&git, &action.target, &landing, (&old, &new)).await?;
        }
        Ok(conflicted(Vec::new(), format!("{} keeps moving; try again later", action.target)))
    }

    /// Why what is there is not what was approved; none when it is.
    async fn differs(&self, git: &Git, order: &ApplyOrder) -> Result<Option<String>, GitError> {
        let action = &order.action;
        let tip = git.commit(&order.branch).await?;
        if tip.as_ref() != Some(&action.head) {
            let tip = tip.unwrap_or_else(|| "gone".to_owned());
            return Ok(Some(format!("{} is {tip}, not {}", order.branch, action.head)));
        }
        let Difference { files, .. } = difference(git, &action.base, &action.head).await?;
        let file = self.dir.join(format!("{}.diff", order.change));
        let found = diff(git, &action.base, &action.head, &file).await;
        unlock(&file);
        let (sha256, _) = found?;
        let same = files == action.files && sha256 == action.diff;
        Ok((!same).then(|| format!("the diff is {sha256}, not {}", action.diff)))
    }

    /// Brings the files of a checked-out branch to where it is moved next, if they are clean.
    async fn land(
        &self,
        git: &Git,
        target: &str,
        landing: &Path,
        old: &str,
        new: &str,
    ) -> Result<Result<(), ApplyOutcome>, GitError> {
        let Some(top) = checked_out(git, target).await? else { return Ok(Ok(())) };
        let there = Git::within(&top, &self.life);
        let there = self.kept(there, &[&top, git.dir()], &[]);
        let here = CheckoutIntent { old: old.to_owned(), new: new.to_owned() };
        let begun = std::fs::read(landing).ok().and_then(|it| serde_json::from_slice(&it).ok());
        if begun.as_ref() == Some(&here) {
            // They were clean, and are in between by our own doing.
            let index = there.line(&["rev-parse", "--path-format=absolute", "--git-path", "index"]);
            unlock(Path::new(&format!("{}.lock", index.await?)));
            unlock(&git.dir().join(format!("{target}.lock")));
            there.line(&["read-tree", "--reset", "-u", new]).await?;
            return Ok(Ok(()));
        }
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=no"];
        let dirty = there.clone().with("GIT_OPTIONAL_LOCKS", "0").bytes(&status).await?;
        if !dirty.is_empty() {
            let files = dirty.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
            let files = files.map(|entry| String::from_utf8_lossy(&entry[3..]).into_owned());
            let reason = format!(
                "{target} is checked out in {} with uncommitted changes; commit or stash them",
                top.display()
            );
            return Ok(Err(conflicted(files.collect(), reason)));
        }
        let covered = covered(&there, &top, old, new).await?;
        if !covered.is_empty() {
            let reason = format!(
                "{} has files of these names that git does not keep track of; move them away",
                top.display()
            );
            return Ok(Err(conflicted(covered, reason)));
        }
        let failed = |cause| GitError::File { path: landing.to_owned(), cause };
        let noted = serde_json::to_vec(&here).unwrap_or_default();
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        std::fs::write(landing, noted).map_err(failed)?;
        there.says(&["update-index", "-q", "--refresh"]).await?;
        let moved = there.says(&["read-tree", "-m", "-u", old, new]).await?;
        if moved.code != 0 {
            unlock(landing);
            let reason =
                format!("the files in {} cannot be updated: {}", top.display(), moved.error);
            return Ok(Err(conflicted(Vec::new(), reason)));
        }
        Ok(Ok(()))
    }

    /// The branch was moved by somebody else: files that went ahead go back.
    async fn take_back(
        &self,
        git: &Git,
        target: &str,
        landing: &Path,
        (old, new): (&str, &str),
    ) -> Result<(), GitError> {
        if landing.exists()
            && let Some(top) = checked_out(git, target).await?
        {
            let there = Git::within(&top, &self.life);
            let there = self.kept(there, &[&top, git.dir()], &[]);
            there.line(&["read-tree", "-m", "-u", new, old]).await?;
        }
        unlock(landing);
        Ok(())
    }
}

/// Files that a commit adds where the checkout has something that git does not keep track of, be it ignored: its
/// own files are clean.
async fn covered(there: &Git, top: &Path, old: &str, new: &str) -> Result<Vec<String>, GitError> {
    let added =
        ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", old, new];
    let added = there.bytes(&added).await?;
    let added = added.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let stands = |name: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(name));
        let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let blocks =
            |above: &Path| top.join(above).symlink_metadata().is_ok_and(|found| !found.is_dir());
        top.join(path).symlink_metadata().is_ok() || { above }.any(blocks)
    };
    let covered = added.filter(stands).map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(covered.take(COVERED_MAX).collect())
}

/// Files that one answer names.
const COVERED_MAX: usize = 100;

fn conflicted(files: Vec<String>, reason: String) -> ApplyOutcome {
    ApplyOutcome::Conflicted { files, reason }
}

fn not_that(reason: &str) -> ApplyOutcome {
    ApplyOutcome::Refused { reason: reason.to_owned() }
}

/// What was approved as a commit: the files as they are to be, on the commit that they were compared with. Made again
/// it is the same commit.
async fn shown(git: &Git, order: &ApplyOrder) -> Result<String, GitError> {
    let tree = format!("{}^{{tree}}", order.action.head);
    let commit = ["commit-tree", &tree, "-p", &order.action.base, "-m", &order.message];
    dated(git, order).line(&commit).await
}

/// Git that commits when the change was approved.
fn dated(git: &Git, order: &ApplyOrder) -> Git {
    let at = format!("{} +0000", order.at.0 / 1000);
    git.clone().with("GIT_AUTHOR_DATE", &at).with("GIT_COMMITTER_DATE", &at)
}

/// The commit of the merge, or why there is none. Made again it is the same commit.
async fn merge_commit(
    git: &Git,
    order: &ApplyOrder,
    shown: &str,
    old: &str,
) -> Result<Result<String, ApplyOutcome>, GitError> {
    let action = &order.action;
    if !git.is_before(&action.base, old).await? {
        let (base, target) = (&action.base, &action.target);
        return Ok(Err(not_that(&format!("{target} no longer has {base}, which it was made on"))));
    }
    let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", old, shown];
    let said = git.says(&args).await?;
    let mut parts = said.out.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let tree = parts.next().unwrap_or_default().into_owned();
    match said.code {
        0 => {}
        1 => {
            let files = parts.filter(|it| !it.is_empty()).map(Into::into).collect();
            let reason = format!("{} has conflicting changes since", action.target);
            return Ok(Err(conflicted(files, reason)));
        }
        _ => return Err(refused(&args, &said)),
    }
    let mut others = difference(git, old, &tree).await?.files;
    others.retain(|file| !action.files.contains(file));
    if !others.is_empty() {
        // Git follows files that were renamed meanwhile.
        let reason = "merging it would change files that were not shown".to_owned();
        return Ok(Err(conflicted(others, reason)));
    }
    // Its own commits are left out: what they say and keep besides the diff nobody was shown.
    let message = format!("{}\n{MERGED_HEAD}: {}\n", order.message.trim_end(), action.head);
    let commit = ["commit-tree", &tree, "-p", old, "-p", shown, "-m", &message];
    dated(git, order).line(&commit).await.map(Ok)
}

/// The commit by which one of these came into a branch, the branch's last one when that was no merge; none while none
/// of them is in it.
async fn merged_by(git: &Git, sides: [&str; 2], branch: &str) -> Result<Option<String>, GitError> {
    for side in sides {
        if git.is_before(side, branch).await? {
            let since = format!("{side}..{branch}");
            let merges = git.line(&["rev-list", "--merges", "--parents", &since]).await?;
            let of = |line: &&str| line.split(' ').skip(2).any(|parent| parent == side);
            let found = merges.lines().find(of).and_then(|line| line.split(' ').next());
            return Ok(Some(found.unwrap_or(branch).to_owned()));
        }
    }
    Ok(None)
}

/// The worktree in which a branch is checked out.
async fn checked_out(git: &Git, target: &str) -> Result<Option<PathBuf>, GitError> {
    let out = git.bytes(&["worktree", "list", "--porcelain", "-z"]).await?;
    let mut top = None;
    for line in out.split(|byte| *byte == 0).map(String::from_utf8_lossy) {
        if let Some(path) = line.strip_prefix("worktree ") {
            top = Some(PathBuf::from(path));
        }
        if line.strip_prefix("branch ") == Some(target) {
            return Ok(top.filter(|top| top.is_dir()));
        }
    }
    Ok(None)
}
