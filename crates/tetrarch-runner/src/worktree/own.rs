//! The repository that the program of a worktree sees. Its index, branches, settings and new objects are the worktree's own;
//! all else is read from the repository that the worktree is of, of which the program can write nothing. What it committed
//! is taken in as a pack whose names are computed anew. Git is called on it only within the bounds of its program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tetrarch_core::destination::Network;
use tetrarch_core::id::AgentId;

use super::bounds::{GitBounds, read_straight};
use super::git::{EMAIL, Git, GitError};
use super::{WorktreeLocation, WorktreeRecord, Worktrees, on_disk, removed, text, unlock};
use crate::containment::SandboxPolicy;

/// Its directory beside the files.
const OWN: &str = "git";
/// Where it is put when the program is over, with what the files say they belong to.
pub(super) const ASIDE: &str = "aside";
/// Bytes of what one repository takes over from the other as it is.
const TAKEN_OVER_MAX: u64 = 16 << 20;

impl WorktreeLocation {
    /// Where the program's repository lies.
    pub(super) fn own(&self) -> PathBuf {
        self.dir.join(OWN)
    }
}

impl Worktrees {
    /// Whether a directory is in a worktree of this agent.
    pub(crate) fn is_of(&self, dir: &Path, agent: &AgentId) -> bool {
        self.around(dir).is_some_and(|place| place.about.agent == agent.to_string())
    }

    /// The files of the worktree in which a directory is by its name.
    pub(crate) fn tree_around(&self, dir: &Path) -> Option<PathBuf> {
        self.around(dir).map(|place| place.tree())
    }

    /// The worktree in which a directory is, as it is found without links.
    pub(super) fn around(&self, dir: &Path) -> Option<WorktreeLocation> {
        let home = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        let below = [&self.dir, &home].into_iter().find_map(|home| dir.strip_prefix(home).ok())?;
        let place = WorktreeLocation::read(&home.join(below.components().next()?))?;
        let tree = home.join(place.dir.file_name()?).join(super::TREE);
        (dir.starts_with(place.tree()) || dir.starts_with(tree)).then_some(place)
    }

    /// What a program in this directory writes besides it, and what it reads, when it is in a worktree.
    pub(crate) fn open_to(&self, dir: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        match self.around(dir) {
            Some(place) => {
                let mut written = vec![place.tree(), place.own()];
                written.retain(|it| it != dir);
                (written, vec![place.common().to_owned()])
            }
            None => (Vec::new(), Vec::new()),
        }
    }

    /// Makes the program's repository, from the beginning, and has the files belong to it.
    pub(super) async fn furnish(
        &self,
        place: &WorktreeLocation,
        gitdir: &Path,
    ) -> Result<(), GitError> {
        let (own, common) = (place.own(), place.common().to_owned());
        removed(&own).await?;
        let git = self.git(&common);
        self.begin(place, &own).await?;
        let refs = ["for-each-ref", "--format=%(objectname) %(refname)"];
        let refs = [&refs[..], &["refs/heads", "refs/tags", "refs/remotes"]].concat();
        let refs = git.bytes(&refs).await?;
        let settings = settings(place, gitdir)?;
        let (branch, tree, gitdir) = (place.about.branch(), place.tree(), gitdir.to_owned());
        let write = move |own: &Path| -> io::Result<()> {
            fs::write(own.join("packed-refs"), refs)?;
            fs::write(own.join("HEAD"), format!("ref: {branch}\n"))?;
            let objects = common.join("objects");
            fs::create_dir_all(own.join("objects/info"))?;
            fs::write(own.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
            fs::create_dir_all(own.join("info"))?;
            let sparse = (gitdir.join("info/sparse-checkout"), "info/sparse-checkout");
            for (from, name) in [sparse, (common.join("shallow"), "shallow")] {
                // Programs write in that repository: what is there may be a link to anything.
                match read_straight(&from, TAKEN_OVER_MAX) {
                    Ok(bytes) => fs::write(own.join(name), bytes)?,
                    Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                    Err(cause) => return Err(cause),
                }
            }
            let config = fs::read_to_string(own.join("config"))? + &settings;
            fs::write(own.join("config"), config)?;
            // Over whatever an earlier session of the program has there, also a link.
            link(&tree, own)
        };
        on_disk(&own, write).await
    }

    /// Makes an empty repository in a place of the worktree's.
    pub(super) async fn begin(&self, place: &WorktreeLocation, at: &Path) -> Result<(), GitError> {
        let format = self.git(place.common()).line(&["rev-parse", "--show-object-format"]).await?;
        let format = format!("--object-format={format}");
        let init = ["init", "--quiet", "--bare", "--template=", &format, text(at)?];
        Git::within(&place.dir, &self.life).line(&init).await.map(drop)
    }

    /// Has the files belong to no repository that the program wrote in: whoever uses git on them runs nothing of it.
    pub(super) async fn disarm(&self, place: &WorktreeLocation) -> Result<(), GitError> {
        let aside = place.dir.join(ASIDE);
        removed(&aside).await?;
        let all = [(place.own(), OWN), (place.tree().join(".git"), "link")];
        let put = move |aside: &Path| {
            fs::create_dir(aside)?;
            for (from, name) in all {
                match fs::rename(from, aside.join(name)) {
                    Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                    Ok(()) | Err(_) => {}
                }
            }
            Ok(())
        };
        on_disk(&aside, put).await
    }

    /// Makes the program's repository anew, with nothing that the program wrote in it, at this commit.
    pub(super) async fn furnish_anew(
        &self,
        place: &WorktreeLocation,
        head: &str,
    ) -> Result<(), GitError> {
        self.disarm(place).await?;
        if let Some(gitdir) = &place.about.gitdir {
            self.furnish(place, Path::new(gitdir)).await?;
            self.as_program(place).line(&["read-tree", head]).await?;
        }
        removed(&place.dir.join(ASIDE)).await
    }

    /// Brings what the program committed into the repository, and gives its last commit; none where it has no
    /// repository of its own, or has spoilt it.
    pub(super) async fn take_in(
        &self,
        place: &WorktreeLocation,
    ) -> Result<Option<String>, GitError> {
        if !place.own().is_dir() {
            return Ok(None);
        }
        let (git, theirs) = (self.git(place.common()), self.as_program(place));
        let Some(head) = theirs.commit("HEAD").await? else { return Ok(None) };
        if git.commit(&head).await?.is_none() {
            let known = git.commit(&place.about.branch()).await?;
            let known = known.unwrap_or_else(|| place.about.base.clone());
            let (wanted, pack) = (place.dir.join("wanted"), place.dir.join("taken.pack"));
            let failed = |cause| GitError::File { path: wanted.clone(), cause };
            fs::write(&wanted, format!("{head}\n^{known}\n")).map_err(failed)?;
            theirs
                .through(&["pack-objects", "--revs", "--stdout", "--quiet"], &wanted, &pack)
                .await?;
            git.through(&["index-pack", "--stdin", "--strict"], &pack, &wanted).await?;
            unlock(&wanted);
            unlock(&pack);
        }
        Ok(Some(head))
    }

    /// Has the program's repository stand where its branch is now, for the agent's next session.
    pub(super) async fn follow(
        &self,
        place: &WorktreeLocation,
        head: &str,
    ) -> Result<(), GitError> {
        let (own, branch) = (place.own(), place.about.branch());
        if !own.is_dir() {
            return Ok(());
        }
        for lock in ["index.lock".to_owned(), "HEAD.lock".to_owned(), format!("{branch}.lock")] {
            unlock(&own.join(lock));
        }
        let theirs = self.as_program(place);
        theirs.line(&["update-ref", &branch, head]).await?;
        theirs.line(&["symbolic-ref", "HEAD", &branch]).await?;
        theirs.line(&["read-tree", head]).await.map(drop)
    }

    /// Git on what the program may have written anything into: settings, too, that name commands.
    pub(super) fn as_program(&self, place: &WorktreeLocation) -> Git {
        self.with_rights_of(place, Vec::new())
    }

    /// The same where it makes the program's files.
    pub(super) fn writing_files(&self, place: &WorktreeLocation) -> Git {
        self.with_rights_of(place, vec![place.tree()])
    }

    fn with_rights_of(&self, place: &WorktreeLocation, files: Vec<PathBuf>) -> Git {
        let (own, about) = (place.own(), &place.about);
        let temporary = std::env::temp_dir();
        let policy = self.containment.sandbox(Network::Off, &own, temporary, files);
        let policy = SandboxPolicy { readable: vec![PathBuf::from(&about.common)], ..policy };
        let (containment, groups) = (self.containment.clone(), self.groups.clone());
        Git::of(&own, &self.life).kept_to(GitBounds { policy, containment, groups })
    }
}

/// Has files belong to the program's repository.
pub(super) fn link(tree: &Path, own: &Path) -> io::Result<()> {
    let link = tree.with_extension("link");
    fs::write(&link, format!("gitdir: {}\n", own.display()))?;
    fs::rename(link, tree.join(".git"))
}

/// What its settings say besides what git writes itself: those of the other repository, and what must be different. A
/// commit is made in the agent's name and asks for no key, which nobody could unlock.
pub(super) fn settings(place: &WorktreeLocation, gitdir: &Path) -> Result<String, GitError> {
    let WorktreeRecord { agent, common, .. } = &place.about;
    let common = Path::new(common);
    let quoted = |path: &Path| -> Result<String, GitError> {
        let path = text(path)?.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        Ok(format!("\"{path}\""))
    };
    Ok(format!(
        "[core]\n\thooksPath = {}\n[include]\n\tpath = {}\n\tpath = {}\n[core]\n\tbare = false\n\tworktree = {}\n\
         [user]\n\tname = {agent}\n\temail = {EMAIL}\n[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n\
         [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
        quoted(&common.join("hooks"))?,
        quoted(&common.join("config"))?,
        quoted(&gitdir.join("config.worktree"))?,
        quoted(&place.tree())?,
    ))
}
