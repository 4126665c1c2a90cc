//! The link by which a browser comes in: a place of this installation alone, since a browser gives a cookie to every
//! port of a host but only to one place, and a token. Both are kept in the data directory, readable by its user alone.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{CliError, CliResult, Code};

/// The file with the link.
const FILE: &str = "page.link";
/// The file whose lock the process holds that serves the link.
const LOCK: &str = "page.lock";
/// Digits of a place and of a token.
const PLACE_DIGITS: usize = 16;
const TOKEN_DIGITS: usize = 64;

/// A link in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageLink {
    /// The path that everything is below, with a slash at both ends.
    pub(super) place: String,
    /// What lets a browser in.
    pub(super) token: String,
    /// All of it.
    pub(super) url: String,
}

impl PageLink {
    /// A link that nobody had before.
    ///
    /// # Errors
    /// There is no randomness.
    pub(super) fn fresh(at: SocketAddr) -> CliResult<Self> {
        Ok(Self::new(at, &random(PLACE_DIGITS)?, &random(TOKEN_DIGITS)?))
    }

    fn new(at: SocketAddr, place: &str, token: &str) -> Self {
        let (place, token) = (format!("/{place}/"), token.to_owned());
        let url = format!("http://{at}{place}enter/{token}");
        Self { place, token, url }
    }

    /// Reads the place and the token of a link.
    fn read(text: &str) -> Option<(String, String)> {
        let mut parts = text.trim().strip_prefix("http://")?.split('/').skip(1);
        let (place, enter, token) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|it| it.is_ascii_hexdigit())
        };
        let whole = enter == "enter" && parts.next().is_none();
        (whole && hex(place, PLACE_DIGITS) && hex(token, TOKEN_DIGITS))
            .then(|| (place.to_owned(), token.to_owned()))
    }
}

/// The right to serve the link that is kept, as long as the file is held; none when another process has it: whoever
/// serves the page beside it has a link of its own, so that people keep theirs.
///
/// # Errors
/// The file cannot be used.
pub(super) fn hold(data_dir: &Path) -> CliResult<Option<File>> {
    let path = data_dir.join(LOCK);
    let open = || {
        fs::create_dir_all(data_dir)?;
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)
    };
    let file = open().map_err(|error| unwritable(&path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(unwritable(&path, &error.into())),
    }
}

/// The link that is kept in a data directory; none when the page was never served.
fn link_of(data_dir: &Path) -> Option<String> {
    fs::read_to_string(data_dir.join(FILE)).ok().map(|text| text.trim().to_owned())
}

/// Keeps the link for an address: the one that was there before, so that it can be kept by people too. At another address
/// it is another: whoever has taken the one before hears the old token from those who open the link that they kept.
///
/// # Errors
/// The file cannot be written, or there is no randomness.
pub(super) fn keep(data_dir: &Path, at: SocketAddr) -> CliResult<PageLink> {
    let own = format!("http://{at}/");
    let known = link_of(data_dir).filter(|link| link.starts_with(&own));
    let known = known.as_deref().and_then(PageLink::read);
    let link = match known {
        Some((place, token)) => PageLink::new(at, &place, &token),
        None => PageLink::fresh(at)?,
    };
    write_private(&data_dir.join(FILE), &link.url)?;
    Ok(link)
}

/// Writes a line to a file that its user alone reads.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_private(path: &Path, line: &str) -> CliResult {
    let beside = path.with_extension("new");
    let written = || {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        if beside.exists() {
            fs::remove_file(&beside)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        writeln!(file, "{line}")?;
        fs::rename(&beside, path)
    };
    written().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> CliError {
    let what = format!("cannot write {}: {error}", path.display());
    CliError::new(Code::Failed, what).hint("make the data directory writable")
}

/// So many random hexadecimal digits.
///
/// # Errors
/// The machine has no randomness.
pub(crate) fn random(digits: usize) -> CliResult<String> {
    let mut bytes = [0_u8; 32];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| CliError::new(Code::Failed, format!("no randomness: {error}")))?;
    if got < bytes.len() {
        return Err(CliError::new(Code::Failed, "the machine gave too little randomness"));
    }
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(text.chars().take(digits).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn link_is_kept_with_its_token_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = keep(dir.path(), "127.0.0.1:7878".parse().unwrap()).unwrap();
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = keep(dir.path(), "127.0.0.1:7878".parse().unwrap()).unwrap();
        assert_eq!(again, first);
        let moved = keep(dir.path(), "127.0.0.1:9000".parse().unwrap()).unwrap();
        assert!(moved.place != first.place && moved.token != first.token, "{moved:?}");
        assert_eq!(link_of(dir.path()), Some(moved.url));
        fs::write(dir.path().join(FILE), "http://127.0.0.1:1/x/enter/y\n").unwrap();
        let other = keep(dir.path(), "127.0.0.1:7878".parse().unwrap()).unwrap();
        assert!(other.token != first.token && other.token.len() == TOKEN_DIGITS);
    }

    #[test]
    fn kept_link_is_of_one_process_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let held = hold(dir.path()).unwrap();
        assert!(held.is_some());
        assert!(hold(dir.path()).unwrap().is_none(), "another one is beside it");
        drop(held);
        assert!(hold(dir.path()).unwrap().is_some());
    }
}
