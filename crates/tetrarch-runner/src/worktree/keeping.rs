//! Keeps what a run left in its worktree: everything is committed to its branch, and what differs from
//! the branch it is for is told, with the diff in a file. Reads nothing of what a program may have
//! put in the worktree's place: the repository's own directory says what belongs to it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tetrarch_core::change::{Action, Made};
use tetrarch_core::id::sha256_hex;
use tetrarch_core::limits::ARTIFACT_BYTES_MAX;
use tetrarch_core::redaction;

use super::git::{Git, GitError};
use super::{WorktreeLocation, Worktrees, on_disk, removed, unlock};

/// How a diff is written: the same whatever a repository or its files' attributes say.
const DIFF: [&str; 14] = [
    "diff-tree",
    "-r",
    "--patch",
    "--text",
    "--full-index",
    "--no-renames",
    ALL_SUBMODULES,
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--unified=3",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Also what `.gitmodules` says to ignore, which a program may have written.
const ALL_SUBMODULES: &str = "--ignore-submodules=none";

/// How an index begins an entry that is a commit of another repository.
const GITLINK: &[u8] = b"160000 ";

/// What a diff consists of.
pub(super) struct Difference {
    pub(super) files: Vec<String>,
    pub(super) additions: u64,
    pub(super) deletions: u64,
}

/// Every file that differs between two commits, with the lines that are new and gone.
pub(super) async fn difference(git: &Git, base: &str, head: &str) -> Result<Difference, GitError> {
    let counted = ["diff-tree", "-r", "-z", "--numstat", "--text", "--no-renames", ALL_SUBMODULES];
    let out = git.bytes(&[&counted[..], &[base, head]].concat()).await?;
    let mut all = Difference { files: Vec::new(), additions: 0, deletions: 0 };
    for entry in out.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let mut parts = entry.splitn(3, |byte| *byte == b'\t');
        let mut count = || -> u64 {
            let digits = parts.next().map(String::from_utf8_lossy);
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        all.additions += count();
        all.deletions += count();
        all.files.push(String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned());
    }
    Ok(all)
}

/// Writes the diff between two commits into a file and gives its sha256 and size.
pub(super) async fn diff(
    git: &Git,
    base: &str,
    head: &str,
    to: &Path,
) -> Result<(String, u64), GitError> {
    git.print(&[&DIFF[..], &[base, head]].concat(), to).await?;
    let read = on_disk(to, |to| {
        let size = std::fs::metadata(to)?.len();
        if size > ARTIFACT_BYTES_MAX as u64 {
            unlock(to);
            return Ok(Err(format!(
                "{size} bytes, and nobody looks at more than {ARTIFACT_BYTES_MAX}"
            )));
        }
        let bytes = std::fs::read(to)?;
        if redaction::is_in(&bytes) {
            // What people look at is to be what is merged, so it cannot be hidden there.
            let said =
                "it has a secret in it that this host was given; take that out of the commits";
            return Ok(Err(said.to_owned()));
        }
        Ok(Ok((sha256_hex(&bytes), size)))
    });
    read.await?.map_err(|said| GitError::Refused { what: "diff".to_owned(), said })
}

impl Worktrees {
    /// Commits whatever is not committed and gives the branch's last commit. Another index than the
    /// program's is used: what that says of files it does not have to look at counts for nothing.
    pub(super) async fn commit_all(
        &self,
        place: &WorktreeLocation,
        words: &str,
    ) -> Result<String, GitError> {
        let (tree, about) = (place.tree(), &place.about);
        let Some(gitdir) = about.gitdir.as_deref().map(PathBuf::from) else {
            return Ok(about.base.clone());
        };
        let (index, branch) = (gitdir.join("everything"), about.branch());
        for lock in [gitdir.join("index.lock"), gitdir.join("HEAD.lock"), index.clone()] {
            unlock(&lock);
        }
        unlock(&gitdir.join("everything.lock"));
        unlock(&place.common().join(format!("{branch}.lock")));
        let git = Git::within(&tree, &self.life);
        let git = git.with("GIT_DIR", &gitdir).with("GIT_WORK_TREE", &tree);
        let git = self.kept(git, &[place.common()], &[&tree]);
        let own = git.clone().with("GIT_INDEX_FILE", &index);
        // The files are kept in any case; what cannot be taken in is how they came about.
        let committed = self.take_in(place).await.unwrap_or_else(|cause| {
            tracing::warn!(run = about.run, %cause, "its own commits are not taken in");
            None
        });
        let head = match committed {
            Some(head) => Some(head),
            None => git.commit("HEAD").await?,
        };
        let head = head.unwrap_or_else(|| about.base.clone());
        own.line(&["read-tree", &head]).await?;
        forget_nested(&own, &tree, &place.dir.join("nested")).await?;
        let added = own.says(&["add", "--all", "--ignore-errors"]).await?;
        if added.code != 0 {
            tracing::warn!(run = about.run, said = added.error, "not every file can be committed");
        }
        let made = own.line(&["write-tree"]).await?;
        let before = git.line(&["rev-parse", &format!("{head}^{{tree}}")]).await?;
        let head = if made == before {
            head
        } else {
            let head = own.line(&["commit-tree", &made, "-p", &head, "-m", words]).await?;
            git.line(&["update-ref", &branch, &head]).await?;
            git.line(&["read-tree", &head]).await?;
            head
        };
        git.line(&["update-ref", &branch, &head]).await?;
        git.line(&["symbolic-ref", "HEAD", &branch]).await?;
        unlock(&index);
        if let Err(cause) = self.follow(place, &head).await {
            tracing::warn!(run = about.run, %cause, "the program's repository does not follow");
        }
        Ok(head)
    }

    /// What the branch has that the one it is for has not, with the diff's file; none when nothing
    /// differs.
    pub(super) async fn made(
        &self,
        place: &WorktreeLocation,
        head: &str,
        salvaged: bool,
    ) -> Result<Option<(Made, PathBuf)>, GitError> {
        let (git, about) = (self.git(place.common()), &place.about);
        let base = match git.commit(&about.target).await? {
            Some(target) => git.maybe(&["merge-base", &target, head]).await?,
            None => None,
        };
        let base = base.unwrap_or_else(|| about.base.clone());
        let Difference { files, additions, deletions } = difference(&git, &base, head).await?;
        if files.is_empty() {
            return Ok(None);
        }
        let file = place.dir.join("change.diff");
        let (diff, size) = diff(&git, &base, head, &file).await?;
        let action = Action {
            repository: about.common.clone(),
            target: about.target.clone(),
            base,
            head: head.to_owned(),
            diff,
            files,
        };
        if let Some(said) = action.flaw() {
            return Err(GitError::Refused { what: "diff".to_owned(), said });
        }
        let branch = about.branch();
        Ok(Some((Made { action, branch, additions, deletions, size, salvaged }, file)))
    }

    /// Removes a worktree and its branch, of which nothing is missed.
    pub(super) async fn discard(&self, place: &WorktreeLocation) -> Result<(), GitError> {
        discard(&self.git(place.common()), place).await
    }
}

/// Takes repositories within the files out of the index, through `list`. Git looks for changes in those it knows, and
/// so runs what their settings name; of one it does not know it takes the last commit alone.
async fn forget_nested(git: &Git, tree: &Path, list: &Path) -> Result<(), GitError> {
    let entries = git.bytes(&["ls-files", "--stage", "-z"]).await?;
    let links = entries.split(|byte| *byte == 0).filter(|entry| entry.starts_with(GITLINK));
    let paths = links.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    let nested =
        |path: &&[u8]| tree.join(OsStr::from_bytes(path)).join(".git").symlink_metadata().is_ok();
    let mut nested: Vec<u8> = paths.filter(nested).collect::<Vec<_>>().join(&0);
    if nested.is_empty() {
        return Ok(());
    }
    nested.push(0);
    let write = move |list: &Path| std::fs::write(list, nested);
    on_disk(list, write).await?;
    let forget = ["update-index", "--force-remove", "-z", "--stdin"];
    git.through(&forget, list, Path::new("/dev/null")).await?;
    unlock(list);
    Ok(())
}

/// Removes a worktree, its branch and what is said of it, in this order: what is left at any moment
/// is found again.
pub(super) async fn discard(git: &Git, place: &WorktreeLocation) -> Result<(), GitError> {
    let tree = place.tree();
    // To git its files are another repository's, so it is not removed but forgotten once they are gone.
    let locked = place.about.gitdir.as_deref().map(|dir| Path::new(dir).join("locked"));
    locked.iter().for_each(|lock| unlock(lock));
    removed(&tree).await?;
    git.line(&["worktree", "prune"]).await?;
    git.line(&["update-ref", "-d", &place.about.branch()]).await?;
    removed(&place.dir).await
}
