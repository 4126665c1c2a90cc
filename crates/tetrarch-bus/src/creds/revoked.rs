//! Credentials that are not taken any more: files beside the keys, which become part of the fleet's account
//! token. Who is revoked is somebody else's to say.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{CredsError, private_file};

/// Seconds since 1970.
pub(super) fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Public keys of users, each with the time up to which its tokens are refused, in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revoked(BTreeMap<String, u64>);

/// A file for each, so that two who revoke at once do not undo each other.
fn dir(keys: &Path) -> PathBuf {
    keys.join("revoked")
}

impl Revoked {
    /// Reads those of a directory of keys.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(super) fn read(keys: &Path) -> Result<Self, CredsError> {
        let dir = dir(keys);
        let failed = |path: &Path, source| CredsError::File { path: path.to_owned(), source };
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(failed(&dir, source)),
        };
        let mut revoked = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|source| failed(&dir, source))?.path();
            // What is being written has another ending.
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(user) = name.filter(|name| !name.contains('.')) else { continue };
            let text = std::fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
            let at = text.trim().parse().map_err(|_| CredsError::Key {
                path: path.clone(),
                reason: "the time of the revocation is missing".to_owned(),
            })?;
            revoked.insert(user.to_owned(), at);
        }
        Ok(Self(revoked))
    }

    /// Revokes a user for good.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub(super) fn keep(keys: &Path, user: &str) -> Result<(), CredsError> {
        let path = dir(keys).join(user);
        private_file::private_dir(&dir(keys))
            .and_then(|()| private_file::replace(&path, now_secs().to_string().as_bytes()))
            .map_err(|source| CredsError::File { path, source })
    }

    /// Those of both.
    #[must_use]
    pub fn with(&self, users: impl IntoIterator<Item = String>) -> Self {
        let mut both = self.clone();
        both.0.extend(users.into_iter().map(|user| (user, now_secs())));
        both
    }

    /// Whether a user's tokens are refused.
    #[must_use]
    pub fn contains(&self, user: &str) -> bool {
        self.0.contains_key(user)
    }

    /// As an account's token has them.
    pub(super) fn claims(&self) -> serde_json::Value {
        serde_json::json!(self.0)
    }
}
