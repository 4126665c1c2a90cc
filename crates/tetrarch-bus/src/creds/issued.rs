//! The tokens that were issued to each holder, beside the keys that signed them: whoever revokes finds each, also one
//! whose credential file was given away. A token without its user's key is no secret, and the key is never kept here.

use std::io;
use std::path::{Path, PathBuf};

use super::{CredsError, private_file};

fn dir(keys: &Path) -> PathBuf {
    keys.join("issued")
}

fn failed(path: &Path, source: io::Error) -> CredsError {
    CredsError::File { path: path.to_owned(), source }
}

/// Keeps the token of a user, in place of an earlier one of that user's.
///
/// # Errors
/// Its file cannot be written.
pub(super) fn keep(
    keys: &Path,
    holder: &str,
    (user, token): (&str, &str),
) -> Result<(), CredsError> {
    let dir = dir(keys).join(holder);
    let path = dir.join(user);
    private_file::private_dir(&dir)
        .and_then(|()| private_file::replace(&path, token.as_bytes()))
        .map_err(|source| failed(&path, source))
}

/// Whether a token of a user is kept.
pub(super) fn is_kept(keys: &Path, holder: &str, user: &str) -> bool {
    dir(keys).join(holder).join(user).exists()
}

/// Forgets a token.
///
/// # Errors
/// Its file cannot be removed.
pub(super) fn forget(keys: &Path, holder: &str, user: &str) -> Result<(), CredsError> {
    let path = dir(keys).join(holder).join(user);
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed(&path, source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The holders that something was issued to, as their credential files are called, without the ending.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn holders(keys: &Path) -> Result<Vec<String>, CredsError> {
    names(&dir(keys))
}

/// The files of a holder's tokens.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn of(keys: &Path, holder: &str) -> Result<Vec<PathBuf>, CredsError> {
    let dir = dir(keys).join(holder);
    Ok(names(&dir)?.into_iter().map(|user| dir.join(user)).collect())
}

/// What lies in a directory, in order, without what is being written just now, which has an ending.
fn names(dir: &Path) -> Result<Vec<String>, CredsError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(dir, source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|source| failed(dir, source))?.file_name();
        names.extend(name.into_string().ok().filter(|name| !name.contains('.')));
    }
    names.sort();
    Ok(names)
}
