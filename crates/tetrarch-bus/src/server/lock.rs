//! The data directory's locks: one `tetrarch up` for each data directory, one question at a time when
//! none is up.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::ServerError;
use crate::creds::private_file;
use crate::retry::Retry;

/// The file of the [`DataDirLock`].
const LOCK: &str = "lock";
/// The file of the [`ReaderLock`].
const READER_LOCK: &str = "reader.lock";

/// Held while a process works on a data directory; the system frees it at the process's end,
/// however that comes.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

impl DataDirLock {
    /// Takes the lock of a data directory, making the directory when it is missing.
    ///
    /// # Errors
    /// `InUse` with the holder's process id, or a file that cannot be used.
    pub fn acquire(data_dir: &Path) -> Result<Self, ServerError> {
        Ok(Self { _file: hold(data_dir, LOCK)? })
    }

    /// The process that holds the lock of a data directory, if any.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn holder(data_dir: &Path) -> Result<Option<String>, ServerError> {
        if !data_dir.join(LOCK).exists() {
            return Ok(None);
        }
        match Self::acquire(data_dir) {
            Ok(_free) => Ok(None),
            Err(ServerError::InUse { pid, .. }) => Ok(Some(pid)),
            Err(error) => Err(error),
        }
    }

    /// The process of the fleet that is up in a data directory, if one is. Who reads a question there, or starts a
    /// fleet, has the [`ReaderLock`]: it is not taken for one, and not disturbed.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn fleet(data_dir: &Path) -> Result<Option<String>, ServerError> {
        // Nor is a directory made in which there never was one.
        if !data_dir.join(LOCK).exists() {
            return Ok(None);
        }
        match hold(data_dir, READER_LOCK) {
            Ok(_turn) => Self::holder(data_dir),
            Err(ServerError::InUse { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Held by whoever starts the server of a data directory: for a question as long as it is read, by a fleet
/// until it has the [`DataDirLock`]. So questions come one after another, and a fleet waits for the one
/// that is being answered.
#[derive(Debug)]
pub struct ReaderLock {
    _file: File,
}

impl ReaderLock {
    /// Takes the lock of a data directory, waiting as long as `within` for it.
    ///
    /// # Errors
    /// `InUse` with the holder's process id, or a file that cannot be used.
    pub async fn wait(data_dir: &Path, within: Duration) -> Result<Self, ServerError> {
        let mut retry = Retry::until(within);
        loop {
            match hold(data_dir, READER_LOCK) {
                Ok(file) => return Ok(Self { _file: file }),
                Err(error @ ServerError::InUse { .. }) => {
                    if !retry.pause().await {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Locks a file of a data directory and writes this process's id into it.
fn hold(data_dir: &Path, name: &str) -> Result<File, ServerError> {
    let path = data_dir.join(name);
    let file_error = |source| ServerError::File { path: path.clone(), source };
    private_file::private_dir(data_dir).map_err(file_error)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(file_error)?;
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(file_error(error.into()));
        }
        let mut pid = String::new();
        file.read_to_string(&mut pid).map_err(file_error)?;
        let pid = pid.trim().to_owned();
        return Err(ServerError::InUse { path: data_dir.to_owned(), pid });
    }
    file.set_len(0).map_err(file_error)?;
    file.rewind().map_err(file_error)?;
    writeln!(file, "{}", std::process::id()).map_err(file_error)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holder_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DataDirLock::holder(dir.path()).unwrap(), None);
        let held = DataDirLock::acquire(dir.path()).unwrap();
        let error = DataDirLock::acquire(dir.path()).unwrap_err();
        let own = std::process::id().to_string();
        assert!(matches!(&error, ServerError::InUse { pid, .. } if *pid == own), "{error}");
        assert_eq!(DataDirLock::holder(dir.path()).unwrap(), Some(own));
        drop(held);
        assert_eq!(DataDirLock::holder(dir.path()).unwrap(), None);
        DataDirLock::acquire(dir.path()).unwrap();
    }

    #[tokio::test]
    async fn question_that_is_read_is_no_fleet() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DataDirLock::fleet(dir.path()).unwrap(), None);
        let turn = ReaderLock::wait(dir.path(), Duration::ZERO).await.unwrap();
        let _held = DataDirLock::acquire(dir.path()).unwrap();
        assert_eq!(DataDirLock::fleet(dir.path()).unwrap(), None);
        drop(turn);
        let own = std::process::id().to_string();
        assert_eq!(DataDirLock::fleet(dir.path()).unwrap(), Some(own));
    }

    #[tokio::test]
    async fn reader_lock_waits_for_the_previous_reader() {
        let dir = tempfile::tempdir().unwrap();
        let first = ReaderLock::wait(dir.path(), Duration::ZERO).await.unwrap();
        let refused = ReaderLock::wait(dir.path(), Duration::from_millis(5)).await;
        assert!(matches!(refused, Err(ServerError::InUse { .. })), "{refused:?}");
        let second = ReaderLock::wait(dir.path(), Duration::from_secs(60));
        let (second, ()) = tokio::join!(second, async move { drop(first) });
        second.unwrap();
    }
}
