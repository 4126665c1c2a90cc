//! The paths in a program's words, and what is there of them. All of it takes time that grows with the words' length
//! alone, whatever a program wrote or made.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::containment::exposed;
use crate::directories::HOME;
use crate::lines::start_of;

/// Paths of a line that are looked at: the last ones.
const PATHS_MAX: usize = 16;
/// Most bytes of a path, as for the kernel.
const PATH_BYTES_MAX: usize = 4096;
/// What has everybody's files in it, or those of one person.
const BROAD: [&str; 3] = ["/", HOMES, "/root"];
/// Where the homes of all are.
const HOMES: &str = "/home";

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlaceFound {
    /// What is there, without links.
    pub(super) there: PathBuf,
    /// The same with the rest, which is not there.
    pub(super) whole: PathBuf,
}

/// A path without links, as far as it is there.
pub(super) fn real(path: &Path) -> PlaceFound {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    // Nothing is below what is not there. The kernel walks all of a path at once, so that a deep one is soon found.
    let there = above.partition_point(|place| place.exists()).checked_sub(1);
    let there = there.and_then(|last| above.get(last).copied());
    let found = there.and_then(|there| {
        let opened = openat(CWD, there, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&opened);
        let real = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        Some((real, path.strip_prefix(there).ok()?))
    });
    match found {
        Some((there, rest)) if rest.as_os_str().is_empty() => {
            PlaceFound { whole: there.clone(), there }
        }
        Some((there, rest)) => PlaceFound { whole: there.join(rest), there },
        None => PlaceFound { there: PathBuf::from("/"), whole: path.to_owned() },
    }
}

/// A directory that somebody may give to a profile: not a home or what lies around homes, nor what has in it what the host
/// keeps to itself.
pub(super) fn advised(dir: &Path, hidden: &[PathBuf]) -> Option<PathBuf> {
    let whole = real(dir).whole;
    let broad = BROAD.iter().any(|place| whole == Path::new(place));
    let home = std::env::var_os(HOME).is_some_and(|home| real(Path::new(&home)).whole == whole);
    let other_home = whole.parent() == Some(Path::new(HOMES));
    let given = !(broad || home || other_home || exposed(hidden, &whole).is_some());
    given.then(|| dir.to_owned())
}

/// The last absolute paths that a line names: in quotes, else up to a colon or a blank.
pub(super) fn paths(line: &str) -> Vec<PathBuf> {
    const QUOTES: [(char, char); 4] = [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’')];
    let before = std::iter::once(' ').chain(line.chars());
    let begins = line.char_indices().zip(before).filter(|((_, letter), before)| {
        *letter == '/' && (before.is_whitespace() || "'\"`‘:=([".contains(*before))
    });
    let begins: Vec<(usize, char)> = begins.map(|((at, _), before)| (at, before)).collect();
    let last = begins.get(begins.len().saturating_sub(PATHS_MAX)..).unwrap_or_default();
    let named = last.iter().filter_map(|&(at, before)| {
        let rest = start_of(&line[at..], PATH_BYTES_MAX);
        let closing = QUOTES.iter().find(|(opening, _)| *opening == before).map(|quotes| quotes.1);
        let end = match closing.and_then(|closing| rest.find(closing)) {
            Some(end) => end,
            None => rest
                .find(|letter: char| letter.is_whitespace() || ":,;)]".contains(letter))
                .unwrap_or(rest.len()),
        };
        (end > 1).then(|| PathBuf::from(&rest[..end]))
    });
    named.collect()
}
