//! Opens what lies inside a workspace and nothing else (spec 06, Isolation; spec 09, On the host).
//! The kernel resolves every path below the workspace's own handle, so neither `..` nor a link,
//! also one that is changed meanwhile, leads out. Where the kernel cannot, nothing is opened.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2, readlinkat};
use rustix::io::Errno;
use tetrarch_core::permission::Permissions;

/// Longest path that is taken, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// How often a path is resolved again that somebody renames meanwhile.
const RESOLVE_TRIES: u32 = 16;
/// Git's own directory or, in a worktree, file. What is written there is run by whoever uses git
/// here next, people and the host among them.
const GIT: &str = ".git";

/// Why something is not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum PathRefused {
    /// It is no path of a file.
    #[error("{path:?} is not a valid path: {why}")]
    NoPath { path: String, why: &'static str },
    /// It leads out.
    #[error(
        "{path:?} is outside the workspace; use a path relative to the workspace, without `..` and without absolute or outward links"
    )]
    Outside { path: String },
    /// The work does not reach so far.
    #[error("{path:?} is not among the paths that this work may change: {scope}")]
    OutOfScope { path: String, scope: String },
    /// It is git's.
    #[error("{path:?} belongs to git and cannot be written")]
    Git { path: String },
    /// It is a directory, a link, a pipe, a device or the like.
    #[error("{path:?} is {what}, not a regular file")]
    NotAFile { path: String, what: &'static str },
    /// The system says so.
    #[error("{path:?}: {cause}")]
    System { path: String, cause: io::Error },
}

/// Why there is no workspace.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoWorkspace {
    /// It cannot be opened.
    #[error("cannot open the workspace {path}: {cause}; create it for the host's user")]
    Unopened { path: PathBuf, cause: io::Error },
    /// The kernel is too old.
    #[error(
        "the kernel has no openat2, which keeps tools inside the workspace; use Linux 5.6 or later"
    )]
    Kernel,
    /// A scope path is no pattern.
    #[error("the scope path `{entry}` is not a valid pattern: {cause}; correct it in the brief")]
    Scope { entry: String, cause: globset::Error },
}

/// A workspace, and what of it may be changed.
#[derive(Debug)]
pub(super) struct Workspace {
    root: OwnedFd,
    path: PathBuf,
    scope: Option<GlobSet>,
    scope_paths: Vec<String>,
    permissions: Arc<Permissions>,
}

/// A place that may be written.
#[derive(Debug)]
pub(super) struct WritablePath {
    /// The directory.
    pub(super) dir: OwnedFd,
    /// The name in it.
    pub(super) name: PathBuf,
}

impl Workspace {
    /// Opens a workspace, by an absolute path without links: one that is met there was put there since the directory
    /// was looked at. No `scope_paths` means all of it may be changed.
    pub(super) fn open(
        path: &Path,
        scope_paths: &[String],
        permissions: Arc<Permissions>,
    ) -> Result<Self, NoWorkspace> {
        let failed = |cause| NoWorkspace::Unopened { path: path.to_owned(), cause };
        let how = ResolveFlags::NO_SYMLINKS;
        let root = openat2(CWD, path, directory_flags(), Mode::empty(), how);
        let root = root.map_err(|cause| match cause {
            Errno::NOSYS => NoWorkspace::Kernel,
            other => failed(other.into()),
        })?;
        let path = path.to_owned();
        let scope = (!scope_paths.is_empty()).then(|| scope(scope_paths)).transpose()?;
        Ok(Self { root, path, scope, scope_paths: scope_paths.to_vec(), permissions })
    }

    /// The rules on its run's tools.
    pub(super) fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Where it is: absolute, without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The place a text names, relative to the workspace. An absolute path in the workspace is
    /// taken as well, since a model sees those in what programs print.
    pub(super) fn place(&self, text: &str) -> Result<PathBuf, PathRefused> {
        let no_path = |why| PathRefused::NoPath { path: shown(text), why };
        if text.contains('\0') {
            return Err(no_path("it holds a NUL"));
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(no_path("it is longer than 4096 bytes"));
        }
        let outside = || PathRefused::Outside { path: shown(text) };
        let mut path = Path::new(text);
        if path.is_absolute() {
            path = path.strip_prefix(&self.path).map_err(|_| outside())?;
        }
        let mut place = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(part) => place.push(part),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside());
                }
            }
        }
        Ok(place)
    }

    /// Opens a regular file for reading. Never waits, as a pipe without a writer would have it.
    pub(super) fn file(&self, place: &Path) -> Result<(File, u64), PathRefused> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            File::from(self.resolve(or_here(place), flags).map_err(|cause| refused(place, cause))?);
        let failed = |cause| PathRefused::System { path: words(place), cause };
        let facts = file.metadata().map_err(failed)?;
        regular(FileType::from_raw_mode(facts.mode()), place)?;
        Ok((file, facts.len()))
    }

    /// Opens a directory for listing.
    pub(super) fn directory(&self, place: &Path) -> Result<OwnedFd, PathRefused> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.resolve(or_here(place), flags).map_err(|cause| refused(place, cause))
    }

    /// The directory and name of a file that may be written, which is not there or a regular one.
    /// Directories above it that are missing are made.
    pub(super) fn for_writing(&self, place: &Path) -> Result<WritablePath, PathRefused> {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            let why = "it names the workspace itself";
            return Err(PathRefused::NoPath { path: words(place), why });
        };
        let (above, missing) = self.deepest(parent)?;
        self.may_change(&above, &missing.join(name), place)?;
        let dir = self.make(parent, place)?;
        self.may_change(&dir, Path::new(name), place)?;
        match rustix::fs::statat(&dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(facts) => regular(FileType::from_raw_mode(facts.st_mode), place)?,
            Err(Errno::NOENT) => {}
            Err(cause) => return Err(refused(place, cause)),
        }
        Ok(WritablePath { dir, name: PathBuf::from(name) })
    }

    /// Where a path of a call leads, also over links, relative to the workspace; none when it leads nowhere in it.
    pub(super) fn destination(&self, text: &str) -> Option<String> {
        let place = self.place(text).ok()?;
        let (handle, rest) = match self.resolve(or_here(&place), OFlags::PATH) {
            Ok(handle) => (handle, PathBuf::new()),
            Err(Errno::NOENT) => {
                let (above, missing) = self.deepest(place.parent()?).ok()?;
                (above, missing.join(place.file_name()?))
            }
            Err(_) => return None,
        };
        let real = self.real(handle.as_fd(), &place).ok()?.join(rest);
        Some(real.to_string_lossy().into_owned())
    }

    /// The deepest directory above that is there, and what of the path is not.
    fn deepest(&self, parent: &Path) -> Result<(OwnedFd, PathBuf), PathRefused> {
        for above in parent.ancestors() {
            match self.resolve(or_here(above), directory_flags()) {
                Ok(dir) => {
                    let missing = parent.strip_prefix(above).unwrap_or(Path::new(""));
                    return Ok((dir, missing.to_owned()));
                }
                Err(Errno::NOENT) => {}
                Err(cause) => return Err(refused(parent, cause)),
            }
        }
        Err(refused(parent, Errno::NOENT))
    }

    /// Opens a directory, made where it is missing.
    fn make(&self, parent: &Path, place: &Path) -> Result<OwnedFd, PathRefused> {
        let failed = |cause| refused(place, cause);
        let mut dir = self.resolve(Path::new("."), directory_flags()).map_err(failed)?;
        let mut so_far = PathBuf::new();
        for part in parent.components() {
            so_far.push(part);
            dir = match self.resolve(&so_far, directory_flags()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&dir, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(cause) => return Err(failed(cause)),
                    }
                    self.resolve(&so_far, directory_flags()).map_err(failed)?
                }
                other => other.map_err(failed)?,
            };
        }
        Ok(dir)
    }

    /// Whether `rest` below an open directory may be changed, by where the directory really is.
    fn may_change(&self, dir: &OwnedFd, rest: &Path, given: &Path) -> Result<(), PathRefused> {
        let real = self.real(dir.as_fd(), given)?.join(rest);
        if real.components().any(|part| part.as_os_str() == GIT) {
            return Err(PathRefused::Git { path: words(given) });
        }
        match &self.scope {
            Some(scope) if !scope.is_match(&real) => {
                let scope = self.scope_paths.join(", ");
                Err(PathRefused::OutOfScope { path: words(given), scope })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Where an open directory is, relative to the workspace and without links.
    fn real(&self, dir: BorrowedFd<'_>, given: &Path) -> Result<PathBuf, PathRefused> {
        let failed = |cause: Errno| refused(given, cause);
        let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let target = readlinkat(CWD, link, Vec::new()).map_err(failed)?;
        let inside = Path::new(OsStr::from_bytes(target.as_bytes())).strip_prefix(&self.path);
        inside.map(Path::to_owned).map_err(|_| PathRefused::Outside { path: words(given) })
    }

    fn resolve(&self, place: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            tries += 1;
            match openat2(&self.root, place, flags, Mode::empty(), how) {
                Err(Errno::AGAIN | Errno::INTR) if tries < RESOLVE_TRIES => {}
                other => return other,
            }
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn or_here(place: &Path) -> &Path {
    if place.as_os_str().is_empty() { Path::new(".") } else { place }
}

/// What fits one of the patterns or lies below what fits it.
fn scope(scope_paths: &[String]) -> Result<GlobSet, NoWorkspace> {
    let mut set = GlobSetBuilder::new();
    for entry in scope_paths {
        let failed = |cause| NoWorkspace::Scope { entry: entry.clone(), cause };
        let plain = entry.trim_start_matches("./").trim_end_matches('/');
        let patterns = match plain {
            "" | "." => vec!["**".to_owned()],
            plain => vec![plain.to_owned(), format!("{plain}/**")],
        };
        for pattern in patterns {
            set.add(GlobBuilder::new(&pattern).literal_separator(true).build().map_err(failed)?);
        }
    }
    set.build().map_err(|cause| NoWorkspace::Scope { entry: scope_paths.join(", "), cause })
}

fn refused(place: &Path, cause: Errno) -> PathRefused {
    let path = words(place);
    match cause {
        Errno::XDEV | Errno::LOOP => PathRefused::Outside { path },
        other => PathRefused::System { path, cause: other.into() },
    }
}

fn regular(found: FileType, place: &Path) -> Result<(), PathRefused> {
    if found == FileType::RegularFile {
        return Ok(());
    }
    Err(PathRefused::NotAFile { path: words(place), what: kind(found) })
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// A place for people; the workspace itself is `.`.
pub(super) fn words(place: &Path) -> String {
    shown(&or_here(place).to_string_lossy())
}

fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}
