//! The data directory's lock: one `tetrarch up` for each data directory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::ServerError;
use crate::creds::private_file;

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
        let path = data_dir.join("lock");
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
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDirLock::acquire(dir.path()).unwrap();
        let error = DataDirLock::acquire(dir.path()).unwrap_err();
        let own = std::process::id().to_string();
        assert!(matches!(&error, ServerError::InUse { pid, .. } if *pid == own), "{error}");
        drop(held);
        DataDirLock::acquire(dir.path()).unwrap();
    }
}
