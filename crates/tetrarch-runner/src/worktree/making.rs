//! Makes a run's worktree before its program starts, or finds that of the agent's earlier session.

use std::io;
use std::path::{Component, Path, PathBuf};

use tetrarch_core::brief::Worktree;
use tetrarch_core::order::Start;

use super::bounds::read_straight;
use super::git::{Git, GitError, refused};
use super::{TREE, WorktreeLocation, WorktreeRecord, Worktrees, on_disk, places, removed, text};
use crate::containment::real;
use crate::links::straight;

/// Bytes of the file by which a worktree names its repository: a path.
const LINK_BYTES_MAX: u64 = 8 * 1024;

/// Why a run gets no worktree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorktree {
    /// Its workspace is in no repository.
    #[error(
        "a worktree needs a `workspace` in a git repository, but {} is not in one; name one by its \
         whole path, or as `./...` in a plan file, or set `worktree` to none", .0.display()
    )]
    NoRepository(PathBuf),
    /// No branch is checked out there.
    #[error("{} has no branch with a commit checked out; check out the branch that changes are for", .0.display())]
    NoBranch(PathBuf),
    /// There are too many.
    #[error(
        "this host has {count} worktrees and the limit is {max}; list them with `tetrarch worktree list` and remove some, or raise host.worktrees_max"
    )]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// Its goal, or its project, has more than there are left for others.
    #[error(
        "{whose} has {own} of this host's {max} worktrees, and the {free} that are left are for {others}; decide on its \
         changes (`tetrarch change list`), remove what nobody needs (`tetrarch worktree list`), or raise host.worktrees_max"
    )]
    ShareTaken {
        /// The goal or the project.
        whose: String,
        /// How many are of it.
        own: usize,
        /// How many more others may have.
        free: usize,
        /// Who may have them.
        others: &'static str,
        /// How many there may be in all.
        max: usize,
    },
    /// Git says no.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The repository in which a workspace lies.
struct Repository {
    top: PathBuf,
    common: PathBuf,
    target: String,
    base: String,
}

impl Worktrees {
    /// The place where a run works, when its brief wants one apart, and what is to be noted of it.
    pub(super) async fn prepare(
        &self,
        start: &Start,
        workspace_dir: &Path,
    ) -> Result<Option<(WorktreeLocation, String)>, NoWorktree> {
        let workspace = match workspace(start, workspace_dir) {
            Some(workspace) if start.brief.worktree != Worktree::None => workspace,
            // Whatever is wrong with a workspace is said where it is entered, also that it leads over a link.
            Some(_) | None => return Ok(None),
        };
        let in_repository = workspace.ancestors().any(|dir| dir.join(".git").exists());
        let repository = if in_repository { self.repository(&workspace).await? } else { None };
        let Some(repository) = repository else {
            return match start.brief.worktree {
                Worktree::Isolated => Err(NoWorktree::NoRepository(workspace)),
                Worktree::None | Worktree::Auto => Ok(None),
            };
        };
        let all = places(&self.dir);
        let agent = start.agent.to_string();
        let common = text(&repository.common)?;
        let own = all.iter().rev().find(|it| it.about.agent == agent && it.about.common == common);
        let earlier = start.epoch > 1;
        if let Some(place) = own {
            let place = place.clone();
            let known = place.about.gitdir.is_some() && place.tree().is_dir();
            let place = if known { place } else { self.make(place).await? };
            if let (false, Some(gitdir)) = (place.own().is_dir(), &place.about.gitdir) {
                self.furnish(&place, Path::new(gitdir)).await?;
                self.as_program(&place).line(&["read-tree", "HEAD"]).await?;
            }
            let note = format!("[goes on in the worktree of {}]", place.about.run);
            return Ok(Some((place, note)));
        }
        let left = self.left_by(start, &all, common).await?;
        let goal = start.epic.to_string();
        let project = start.project.as_ref().map(ToString::to_string).unwrap_or_default();
        let owners: Vec<WorktreeOwner<'_>> = all.iter().map(|it| it.about.owner()).collect();
        has_room(self.max, &owners, WorktreeOwner { project: &project, goal: &goal })?;
        let sub = workspace.strip_prefix(&repository.top);
        let sub = sub.map_err(|_| NoWorktree::NoRepository(workspace.clone()))?;
        let run = start.run.to_string();
        let about = WorktreeRecord {
            agent,
            common: common.to_owned(),
            target: repository.target,
            base: left.unwrap_or(repository.base),
            sub: text(sub)?.to_owned(),
            gitdir: None,
            run: run.clone(),
            goal,
            project,
        };
        let place = self.make(WorktreeLocation { dir: self.dir.join(run), about }).await?;
        let begins = if earlier { "none of an earlier session is on this host; " } else { "" };
        let WorktreeRecord { target, base, .. } = &place.about;
        let note = format!(
            "[{begins}a worktree of its own: {} on {}, from {base} of {target}]",
            place.tree().display(),
            place.about.branch()
        );
        Ok(Some((place, note)))
    }

    /// What the agent left whose work a run judges, when it worked apart on this host.
    async fn left_by(
        &self,
        start: &Start,
        all: &[WorktreeLocation],
        common: &str,
    ) -> Result<Option<String>, NoWorktree> {
        let Some(judged) = &start.brief.judges else { return Ok(None) };
        let judged = judged.to_string();
        let of_it = |it: &&WorktreeLocation| it.about.agent == judged && it.about.common == common;
        match all.iter().rev().find(of_it) {
            Some(place) => Ok(self.git(place.common()).commit(&place.about.branch()).await?),
            None => Ok(None),
        }
    }

    /// The repository in which a workspace lies; none where anybody could have put one there: at or above a directory
    /// in which every program writes.
    async fn repository(&self, workspace: &Path) -> Result<Option<Repository>, NoWorktree> {
        let shared = self.shared_directories();
        let ceilings = std::env::join_paths(&shared).map_err(io::Error::other);
        let git = Git::within(workspace, &self.life)
            .with("GIT_CEILING_DIRECTORIES", ceilings.map_err(GitError::Start)?);
        let shown = ["--path-format=absolute", "--show-toplevel", "--git-common-dir"];
        let said = git.says(&[&["rev-parse"], &shown[..]].concat()).await?;
        let said = match said.code {
            0 => String::from_utf8_lossy(&said.out).into_owned(),
            _ if shared.iter().any(|shared| workspace.starts_with(shared)) => return Ok(None),
            _ => return Err(refused(&["rev-parse"], &said).into()),
        };
        let mut lines = said.lines();
        let (Some(top), Some(common)) = (lines.next(), lines.next()) else {
            return Err(NoWorktree::NoRepository(workspace.to_owned()));
        };
        let (top, common) = (PathBuf::from(top), real(Path::new(common)));
        if shared.iter().any(|shared| shared.starts_with(&top)) {
            return Ok(None);
        }
        // That of a run is nobody else's, but for who works in the same worktree.
        let own = self.around(workspace).is_some_and(|place| place.own() == common);
        if !own && common.starts_with(&self.dir) {
            return Err(NoWorktree::NoRepository(workspace.to_owned()));
        }
        let no_branch = || NoWorktree::NoBranch(top.clone());
        let target = git.maybe(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let target = target.filter(|name| name.starts_with("refs/heads/")).ok_or_else(no_branch)?;
        let base = git.commit("HEAD").await?.ok_or_else(no_branch)?;
        Ok(Some(Repository { top, common, target, base }))
    }

    /// Where every program writes.
    fn shared_directories(&self) -> Vec<PathBuf> {
        let everybodys = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        everybodys.iter().map(|dir| real(dir)).chain(self.containment.writable.clone()).collect()
    }

    /// Makes a worktree, from the beginning: what an earlier attempt left, no program has seen.
    async fn make(&self, mut place: WorktreeLocation) -> Result<WorktreeLocation, NoWorktree> {
        place.about.gitdir = None;
        place.write()?;
        let tree = place.tree();
        let failed = |cause| GitError::File { path: tree.clone(), cause };
        removed(&tree).await?;
        // Rights are given to what is there.
        on_disk(&tree, |tree| std::fs::create_dir_all(tree)).await?;
        let common = place.common();
        let git = self.kept(Git::of(common, &self.life), &[common, &tree], &[]);
        let branch = format!("tetrarch/{}", place.about.run);
        // An agent's work that is committed stays, should its files be gone.
        let from = git.commit(&place.about.branch()).await?;
        let from = from.unwrap_or_else(|| place.about.base.clone());
        // Locked, so that nobody's `git worktree prune` forgets it; forced, since an attempt that was
        // cut off may be known already.
        git.line(&["update-ref", &place.about.branch(), &from]).await?;
        // Without files: these may be made by programs that the repository's settings name, and what those leave in
        // the files' place or in the repository is not to be believed.
        let add = ["worktree", "add", "--quiet", "--no-checkout", "--force", "--force", "--lock"];
        git.line(&[&add[..], &[text(&tree)?, &branch]].concat()).await?;
        let link = on_disk(&tree.join(".git"), |link| read_straight(link, LINK_BYTES_MAX)).await?;
        let link = String::from_utf8_lossy(&link);
        let gitdir = link.trim_end().strip_prefix("gitdir: ").unwrap_or_default();
        // Relative where the repository says so (worktree.useRelativePaths).
        let gitdir = tree.join(gitdir).canonicalize().map_err(failed)?;
        if gitdir.parent() != Some(&common.join("worktrees")) {
            let cause = io::Error::other(format!("git keeps it in {}", gitdir.display()));
            return Err(failed(cause).into());
        }
        place.about.gitdir = Some(text(&gitdir)?.to_owned());
        self.furnish(&place, &gitdir).await?;
        // With the rights of the program that is to work there, so that its filters have no others.
        self.writing_files(&place).line(&["reset", "--quiet", "--hard"]).await?;
        let work = place.work();
        on_disk(&work, move |work| create_within(&tree, work)).await?;
        place.write()?;
        Ok(place)
    }
}

/// For whom a worktree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WorktreeOwner<'a> {
    project: &'a str,
    goal: &'a str,
}

impl WorktreeRecord {
    fn owner(&self) -> WorktreeOwner<'_> {
        WorktreeOwner { project: &self.project, goal: &self.goal }
    }
}

/// Whether a host whose worktrees are of these has one more for a goal. Worktrees stay until somebody decides on their
/// changes, so a project takes three quarters of what other projects leave, and a goal about half of what its project may
/// still have: goals are many, while projects are made by people.
fn has_room(
    max: usize,
    all: &[WorktreeOwner<'_>],
    of: WorktreeOwner<'_>,
) -> Result<(), NoWorktree> {
    let count = all.len();
    if count >= max {
        return Err(NoWorktree::TooMany { count, max });
    }
    let in_project = all.iter().filter(|it| it.project == of.project).count();
    let for_project = max - (count - in_project);
    let left = (for_project * 3 / 4 + 1).min(for_project).saturating_sub(in_project);
    if left == 0 {
        let (whose, free) = (format!("project {}", of.project), max - count);
        let others = "other projects";
        return Err(NoWorktree::ShareTaken { whose, own: in_project, free, others, max });
    }
    let own = all.iter().filter(|it| **it == of).count();
    if own > left {
        let (whose, others) = (format!("goal {}", of.goal), "other goals of its project");
        return Err(NoWorktree::ShareTaken { whose, own, free: left, others, max });
    }
    Ok(())
}

/// Makes a directory of a worktree, but not where a link of the repository leads out of it: whoever enters it says so.
fn create_within(tree: &Path, dir: &Path) -> io::Result<()> {
    let there = dir.ancestors().find(|it| it.symlink_metadata().is_ok()).unwrap_or(tree);
    // What leads nowhere leads out, too.
    let inside = there.canonicalize().is_ok_and(|it| it.starts_with(real(tree)));
    if inside { std::fs::create_dir_all(dir) } else { Ok(()) }
}

/// The workspace that a brief names, when it names one that is there.
fn workspace(start: &Start, workspace_dir: &Path) -> Option<PathBuf> {
    let wanted = Path::new(&start.brief.workspace);
    let up = wanted.components().any(|part| part == Component::ParentDir);
    if wanted.as_os_str().is_empty() || (wanted.is_relative() && up) {
        let none = start.brief.worktree == Worktree::Isolated;
        return none.then(|| workspace_dir.join(start.run.to_string()));
    }
    straight(&real(workspace_dir).join(wanted)).ok()
}

impl WorktreeLocation {
    /// Where the program is to work, as its brief says it.
    pub(super) fn workspace(&self) -> Result<String, GitError> {
        debug_assert!(self.tree().ends_with(TREE));
        Ok(text(&self.work())?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many worktrees a goal gets, one after the other.
    fn gets(
        all: &mut Vec<WorktreeOwner<'static>>,
        max: usize,
        project: &'static str,
        goal: &'static str,
    ) -> usize {
        let (had, of) = (all.len(), WorktreeOwner { project, goal });
        while has_room(max, all, of).is_ok() {
            all.push(of);
        }
        all.len() - had
    }

    #[test]
    fn goals_of_a_project_leave_worktrees_to_each_other_and_to_other_projects() {
        let mut all = Vec::new();
        let goals = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let got = goals.map(|goal| gets(&mut all, 100, "shop", goal));
        assert_eq!(got, [39, 19, 10, 5, 2, 1, 0, 0]);
        let refused = has_room(100, &all, WorktreeOwner { project: "shop", goal: "i" });
        let refused = refused.unwrap_err().to_string();
        let words = "project shop has 76 of this host's 100 worktrees, and the 24 that are left are for other projects";
        assert!(refused.starts_with(words), "{refused}");
        assert_eq!(gets(&mut all, 100, "site", "j"), 10, "of 19 that its project may have");
        assert_eq!(gets(&mut all, 100, "shop", "a"), 0);
        all.drain(..10);
        assert_eq!(gets(&mut all, 100, "shop", "a"), 0, "those are for others");
        assert!(gets(&mut all, 100, "shop", "k") > 0);
    }

    #[test]
    fn host_with_few_worktrees_has_them_for_one_goal() {
        for (max, most) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            assert_eq!(gets(&mut Vec::new(), max, "p", "a"), most, "of {max}");
        }
        let (a, b) =
            (WorktreeOwner { project: "p", goal: "a" }, WorktreeOwner { project: "p", goal: "b" });
        assert!(matches!(has_room(1, &[a], b), Err(NoWorktree::TooMany { count: 1, max: 1 })));
        assert!(matches!(has_room(0, &[], b), Err(NoWorktree::TooMany { count: 0, max: 0 })));
    }
}
