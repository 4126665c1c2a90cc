//! Files that hold secrets: written whole or not at all, readable by their owner only.
//! It knows nothing about what is in them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Makes a directory that only its owner may enter, with its parents.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{serial}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(beside)
}

/// Has the name of a file outlive a power cut, as what is in it does.
fn sync_place(path: &Path) -> io::Result<()> {
    fs::File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Writes a file so that a reader sees the old text or the new one, never a part (mode 0600), also after a power
/// cut.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = write_beside(path, bytes)?;
    fs::rename(&beside, path)?;
    sync_place(path)
}

/// Writes a file unless it exists, and gives what it holds in the end: of many processes that do
/// this at once, all get the same text.
pub(crate) fn keep_first(path: &Path, text: &str) -> io::Result<String> {
    let beside = write_beside(path, text.as_bytes())?;
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match linked {
        Ok(()) => sync_place(path).map(|()| text.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_to_string(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn first_writer_wins_and_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert_eq!(keep_first(&path, "one").unwrap(), "one");
        assert_eq!(keep_first(&path, "two").unwrap(), "one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
