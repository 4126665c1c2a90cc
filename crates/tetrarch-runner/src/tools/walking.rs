//! Goes through the files below a directory of a workspace, without following any link and without
//! what `.gitignore` leaves out. Each directory is opened from the handle of the one above, so that
//! nothing that is renamed meanwhile leads out.

use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use tetrarch_core::permission::Permissions;

use super::Tool;
use super::inside::{Workspace, words};

/// Deepest directory that is gone into.
const DEPTH_MAX: usize = 64;
/// Entries that one walk looks at.
const ENTRIES_MAX: usize = 200_000;
/// What is read of one `.gitignore`, in bytes.
const IGNORE_BYTES_MAX: u64 = 1024 * 1024;

/// What is to be gone through.
pub(super) struct Walk<'a> {
    /// Whether to go into directories.
    pub(super) deep: bool,
    /// Whether to look at what `.gitignore` leaves out too.
    pub(super) ignored: bool,
    /// Which files, relative to where the walk begins.
    pub(super) files: Option<FilePattern>,
    /// The tool that goes through them: what rules on it restrict is left out.
    pub(super) tool: Tool,
    /// Set when nobody waits any more.
    pub(super) given_up: &'a AtomicBool,
}

/// What is said where some rule may have left something out.
pub(super) const LEFT_OUT: &str = "[what rules of the profile restrict is left out]\n";

/// What a walk comes by.
pub(super) struct WalkEntry<'a> {
    /// Where it is, relative to the workspace.
    pub(super) place: &'a Path,
    /// What it is.
    pub(super) kind: FileType,
}

/// A pattern for files: by their name when it has no slash, else by their path.
pub(super) struct FilePattern {
    glob: GlobMatcher,
    by_name: bool,
}

impl FilePattern {
    /// Reads a pattern.
    pub(super) fn fitting(pattern: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|cause| format!("{pattern:?} is not a valid glob: {cause}"))?;
        Ok(Self { glob: glob.compile_matcher(), by_name: !pattern.contains('/') })
    }

    fn fit(&self, below: &Path) -> bool {
        match (self.by_name, below.file_name()) {
            (true, Some(name)) => self.glob.is_match(name),
            (true, None) => false,
            (false, _) => self.glob.is_match(below),
        }
    }
}

impl Walk<'_> {
    /// Goes through what is below `from`, in order of the names. False when it did not come to
    /// its end: there was too much, or `visit` said so.
    pub(super) fn through(
        &self,
        workspace: &Workspace,
        from: &Path,
        visit: &mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
    ) -> Result<bool, String> {
        let dir = workspace.directory(from)?;
        let mut ignores = Vec::new();
        if !self.ignored {
            for above in from.ancestors().collect::<Vec<_>>().into_iter().rev() {
                if let Ok(dir) = workspace.directory(above) {
                    ignores.push(ignore_file(&dir, above));
                }
            }
        }
        // Whoever may begin at a restricted place was allowed to by a person.
        let restricted = restricts(workspace.permissions(), self.tool, from);
        let permissions = (!restricted).then(|| workspace.permissions());
        let mut going = WalkState { walk: self, from, permissions, ignores, looked_at: 0, visit };
        let ended = going.down(dir, from, 0);
        let ended = ended.map_err(|cause| format!("{}: {cause}", words(from)))?;
        Ok(ended.is_continue())
    }
}

struct WalkState<'w> {
    walk: &'w Walk<'w>,
    from: &'w Path,
    /// The rules that leave places out.
    permissions: Option<&'w Permissions>,
    /// Those of the directories above and this one, from the top.
    ignores: Vec<Gitignore>,
    looked_at: usize,
    visit: &'w mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
}

/// Whether a rule denies a place to a tool, or puts it to people.
fn restricts(permissions: &Permissions, tool: Tool, place: &Path) -> bool {
    let place = [place.to_string_lossy().into_owned()];
    permissions.decisive(tool.as_str(), Some(&place)).is_some()
}

impl WalkState<'_> {
    fn down(
        &mut self,
        dir: OwnedFd,
        place: &Path,
        depth: usize,
    ) -> rustix::io::Result<ControlFlow<()>> {
        for (name, kind) in self.entries(&dir)? {
            if self.walk.given_up.load(Ordering::Relaxed) || self.looked_at >= ENTRIES_MAX {
                return Ok(ControlFlow::Break(()));
            }
            self.looked_at += 1;
            let below = place.join(&name);
            let is_dir = kind == FileType::Directory;
            if self.is_left_out(&below, is_dir) {
                continue;
            }
            if self.is_wanted(&below, is_dir)
                && (self.visit)(&WalkEntry { place: &below, kind }).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            if !is_dir || !self.walk.deep || depth == DEPTH_MAX {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // One that may not be read, or was removed meanwhile, has nothing to show.
            let Ok(inner) = openat(&dir, &name, flags, Mode::empty()) else { continue };
            if !self.walk.ignored {
                self.ignores.push(ignore_file(&inner, &below));
            }
            let ended = self.down(inner, &below, depth + 1)?;
            if !self.walk.ignored {
                self.ignores.pop();
            }
            if ended.is_break() {
                return Ok(ended);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What is in a directory, by name. Bounded, so that one huge directory is not held whole.
    fn entries(&self, dir: &OwnedFd) -> rustix::io::Result<Vec<(PathBuf, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown
                && let Ok(facts) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(facts.st_mode);
            }
            entries.push((PathBuf::from(name), kind));
            if entries.len() > ENTRIES_MAX {
                break;
            }
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(entries)
    }

    fn is_left_out(&self, below: &Path, is_dir: bool) -> bool {
        if below.file_name() == Some(OsStr::new(".git")) {
            return true;
        }
        if self.permissions.is_some_and(|rules| restricts(rules, self.walk.tool, below)) {
            return true;
        }
        let said = self.ignores.iter().rev().map(|ignore| ignore.matched(below, is_dir));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }

    fn is_wanted(&self, below: &Path, is_dir: bool) -> bool {
        match &self.walk.files {
            None => true,
            Some(files) => !is_dir && files.fit(below.strip_prefix(self.from).unwrap_or(below)),
        }
    }
}

/// What a directory's `.gitignore` says; nothing when it has none, or none that is read.
fn ignore_file(dir: &OwnedFd, place: &Path) -> Gitignore {
    let mut builder = GitignoreBuilder::new(place);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut text = Vec::new();
    if let Ok(file) = openat(dir, ".gitignore", flags, Mode::empty())
        && std::fs::File::from(file).take(IGNORE_BYTES_MAX).read_to_end(&mut text).is_ok()
    {
        for line in String::from_utf8_lossy(&text).lines() {
            if let Err(cause) = builder.add_line(None, line) {
                tracing::debug!(%cause, "a line of a .gitignore is skipped");
            }
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
