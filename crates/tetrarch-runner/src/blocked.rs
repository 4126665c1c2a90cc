//! What isolation refused a program, read from what the program wrote (spec 06, Isolation). The kernel tells the
//! program alone, so its words are taken, and a path in them is held against the run's bounds. Decides nothing. A
//! program writes what it likes, so this is done beside the runtime's threads, and no more of it than has bounds.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use rustix::fs::{Access, access};

use tetrarch_core::destination::Network;
use tokio::task::spawn_blocking;

use crate::containment::SandboxPolicy;

mod places;

use places::{PlaceFound, advised, paths, real};

/// Lines at the end of a program's words that are looked at.
const LINES_MAX: usize = 200;
/// Lines before a refusal in which the place may stand that it is about.
const LINES_BEFORE: usize = 8;
/// Paths that are looked at in all.
const PATHS_MAX: usize = 64;
/// What programs write when they were refused something, in lower case.
const REFUSED: [&str; 6] =
    ["permission denied", "eacces", "os error 13", "errno 13", "isn't writable", "is not writable"];
/// What programs write when they reach nobody, in lower case. After what ends with a blank stands the address.
const UNREACHED: [&str; 19] = [
    "connect tunnel failed, response 403",
    "tunnel connection failed: 403",
    "could not resolve host: ",
    "could not resolve hostname ",
    "unable to resolve host address ",
    "eai_again ",
    "enotfound ",
    "connect eacces ",
    "failed to connect to ",
    "connection to server at ",
    "dial tcp: lookup ",
    "dial tcp ",
    "temporary failure in name resolution",
    "name or service not known",
    "failed to lookup address information",
    "could not create socket: permission denied",
    "network is unreachable",
    "tcp open error",
    "socket: permission denied",
];
/// What begins a word that is an address.
const SCHEMES: [&str; 4] = ["https://", "http://", "ssh://", "git://"];
/// What a line says that names the place of a refusal on a line after it.
const FAILED: [&str; 4] = ["error", "fail", "could not", "cannot"];

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Changing what lies outside of the run's places; `probably`: it was there, and might have been refused otherwise.
    /// `allow` is what a profile may give instead, if that is no more than anybody would give.
    Write { path: PathBuf, probably: bool, allow: Option<PathBuf> },
    /// Reading what the host keeps to itself.
    Read { path: PathBuf },
    /// The network; the address when the program named it.
    Network { address: Option<String> },
}

impl Blocked {
    /// What was refused last of all that a program wrote, if isolation with these bounds did it. Looks at the paths it
    /// names.
    pub(crate) async fn found(text: String, sandbox: &SandboxPolicy) -> Option<Self> {
        let sandbox = sandbox.clone();
        let looking = spawn_blocking(move || Self::of(&text, &sandbox));
        looking.await.unwrap_or_else(|cause| {
            tracing::warn!(%cause, "what isolation refused was not looked for");
            None
        })
    }

    /// The same at once.
    fn of(text: &str, sandbox: &SandboxPolicy) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let lines = lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default();
        let mut looks = Looks::new(sandbox);
        (0..lines.len()).rev().find_map(|at| {
            let from = at.saturating_sub(LINES_BEFORE);
            let until = lines.get(from..=at).unwrap_or_default();
            let (line, before) = until.split_last()?;
            let network = || {
                let address = until.iter().rev().find_map(|line| unreached(line).flatten());
                Some(Self::Network { address })
            };
            if sandbox.network != Network::Open && unreached(line).is_some() {
                return network();
            }
            let lower = line.to_lowercase();
            if !REFUSED.iter().any(|words| lower.contains(words)) || lower.contains("publickey") {
                return None;
            }
            if let Some(blocked) = looks.place(at, line) {
                return Some(blocked);
            }
            // A refused socket has no path.
            if sandbox.network != Network::Open && before.iter().any(|line| line.contains("socket"))
            {
                return network();
            }
            let numbered = (from..at).zip(before).rev();
            numbered.filter(|(_, line)| failed(line)).find_map(|(at, line)| looks.place(at, line))
        })
    }

    /// The whole sentence, for the profile by which the program ran.
    pub(crate) fn sentence(&self, profile: &str) -> String {
        match self {
            Self::Write { allow: Some(dir), .. } => {
                let dir = dir.display();
                format!("{self}; allow it with `writable: [{dir}]` in profile `{profile}`")
            }
            Self::Write { allow: None, .. } => format!("{self}; write it in the working directory"),
            Self::Read { .. } => format!("{self}; the host keeps it to itself, no run may read it"),
            Self::Network { .. } => {
                format!("{self}; allow it with `tools: [network]` in profile `{profile}`")
            }
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, probably, .. } => {
                let probably = if *probably { "probably " } else { "" };
                write!(f, "{probably}blocked by isolation: {}", path.display())
            }
            Self::Read { path } => write!(f, "blocked by isolation: {}", path.display()),
            Self::Network { address } => {
                let address = address.as_deref().unwrap_or("the network");
                write!(f, "blocked by isolation: {address}")
            }
        }
    }
}

/// What is looked at of a program's words.
struct Looks<'s> {
    sandbox: &'s SandboxPolicy,
    /// The places as they really are.
    writable: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    /// Lines in which there is nothing.
    seen: BTreeSet<usize>,
    /// Paths that may still be looked at.
    left: usize,
}

impl<'s> Looks<'s> {
    fn new(sandbox: &'s SandboxPolicy) -> Self {
        let real = |places: &[PathBuf]| places.iter().map(|place| real(place).whole).collect();
        let (writable, hidden) = (real(&sandbox.writable), real(&sandbox.hidden));
        Self { sandbox, writable, hidden, seen: BTreeSet::new(), left: PATHS_MAX }
    }

    /// The last place in a line that isolation would refuse: first stands the program's own.
    fn place(&mut self, at: usize, line: &str) -> Option<Blocked> {
        if !self.seen.insert(at) {
            return None;
        }
        paths(line).into_iter().rev().find_map(|path| {
            self.left = self.left.checked_sub(1)?;
            self.refused(path)
        })
    }

    fn refused(&self, path: PathBuf) -> Option<Blocked> {
        let PlaceFound { there, whole } = real(&path);
        let below = |places: &[PathBuf]| places.iter().any(|place| whole.starts_with(place));
        if below(&self.writable) {
            None
        } else if below(&self.hidden) {
            Some(Blocked::Read { path })
        } else {
            // What the host's user may not do anyhow was not refused by isolation.
            let probably = there == whole;
            let dir = if there.is_dir() { &there } else { there.parent()? };
            let changed = if probably { &there } else { dir };
            access(changed, Access::WRITE_OK).ok()?;
            let allow = if probably && whole.is_dir() { &*path } else { path.parent()? };
            let allow = advised(allow, &self.sandbox.hidden);
            Some(Blocked::Write { path, probably, allow })
        }
    }
}

/// Whether a line tells of a failure and is no frame of a stack.
fn failed(line: &str) -> bool {
    let lower = line.trim_start().to_lowercase();
    !lower.starts_with("file \"")
        && !lower.starts_with("at ")
        && FAILED.iter().any(|word| lower.contains(word))
}

/// The address that a line says was not reached, if it says that something was not.
fn unreached(line: &str) -> Option<Option<String>> {
    // ASCII alone changes its case here, so that places in both are the same.
    let lower = line.to_ascii_lowercase();
    let is_address = |word: &String| {
        word == "localhost" || (word.contains(['.', ':']) && !word.starts_with(['/', '.']))
    };
    let url = SCHEMES.iter().find_map(|scheme| word(line.get(line.find(scheme)?..)?));
    let mut said = false;
    for words in UNREACHED {
        let Some(at) = lower.find(words) else { continue };
        if !words.ends_with(' ') {
            said = true;
        } else if let Some(named) = line.get(at + words.len()..).and_then(word).filter(is_address) {
            return Some(url.or(Some(named)));
        }
    }
    said.then_some(url)
}

/// The first word of a text, without what stands around it.
fn word(text: &str) -> Option<String> {
    let text = text.trim_start_matches(['\'', '"', '‘', '`']);
    let word = text.split(|letter: char| letter.is_whitespace() || "'\"`’,;()<>".contains(letter));
    let word = word.into_iter().next()?.trim_end_matches([':', '.', '/']);
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests;
