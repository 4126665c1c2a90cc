//! Credentials that are not taken any more: a file beside the keys, whose content is part of the fleet's
//! account token. Who is revoked is somebody else's to say.

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

fn path(keys: &Path) -> PathBuf {
    keys.join("revoked.json")
}

impl Revoked {
    /// Reads those of a directory of keys.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn read(keys: &Path) -> Result<Self, CredsError> {
        let path = path(keys);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(CredsError::File { path, source }),
        };
        serde_json::from_str(&text).map(Self).map_err(|error| CredsError::Key {
            path,
            reason: format!("it does not list revoked credentials: {error}"),
        })
    }

    /// Writes them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, keys: &Path) -> Result<(), CredsError> {
        let path = path(keys);
        let text = serde_json::json!(self.0).to_string();
        private_file::replace(&path, text.as_bytes())
            .map_err(|source| CredsError::File { path, source })
    }

    /// Adds a user.
    pub fn add(&mut self, user: &str) {
        self.0.insert(user.to_owned(), now_secs());
    }

    /// Those of both.
    #[must_use]
    pub fn with(&self, users: impl IntoIterator<Item = String>) -> Self {
        let mut both = self.clone();
        users.into_iter().for_each(|user| both.add(&user));
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
