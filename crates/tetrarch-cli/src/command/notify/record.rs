//! What was told on a channel, as its files keep it: a line for each notice, and how far the ledger was read. A notice
//! is written down when it was delivered, so that after a crash it is told again at most where the crash came between.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tetrarch_core::id::{ChannelName, HumanName};

use crate::command::page::write_private;
use crate::{CliError, CliResult, Code};

/// Bytes of a record beyond which its older half goes.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// What became of a notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveredNotice {
    /// Its id.
    pub(super) id: String,
    /// What it is about.
    pub(super) kind: String,
    /// It in one line.
    pub(super) text: String,
    /// When that was, as RFC 3339.
    pub(super) time: String,
    /// How often it was sent.
    pub(super) attempts: u32,
    /// Why it did not arrive; none when it did.
    pub(super) failure: Option<String>,
}

/// The directory of a person's records.
pub(super) fn directory(data_dir: &Path, human: &HumanName) -> PathBuf {
    data_dir.join("notify").join(human.as_str())
}

/// The files of one channel.
#[derive(Debug)]
pub(super) struct DeliveryRecord {
    lines: PathBuf,
    position: PathBuf,
    told: BTreeSet<String>,
}

impl DeliveryRecord {
    /// Opens the record of a channel.
    ///
    /// # Errors
    /// A file of it cannot be read.
    pub(super) fn open(directory: &Path, channel: &ChannelName) -> CliResult<Self> {
        private(directory)?;
        let lines = directory.join(format!("{channel}.jsonl"));
        let told = read(&lines)?.into_iter().map(|notice| notice.id).collect();
        Ok(Self { lines, position: directory.join(format!("{channel}.next")), told })
    }

    /// The next entry of the ledger to be read; none when none was read. A ledger that ends before it is another one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn next(&self, end: u64) -> CliResult<Option<u64>> {
        let Some(bytes) = bytes_of(&self.position)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let next = text.trim().parse().ok().filter(|next| *next <= end + 1);
        if next.is_none() {
            let path = self.position.display();
            tracing::warn!(%path, %text, end, "no position in this ledger; telling what comes from now on");
        }
        Ok(next)
    }

    /// The ledger was read up to there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn advance(&self, next: u64) -> CliResult {
        write_private(&self.position, &next.to_string())
    }

    /// Whether a notice was told before.
    pub(super) fn has(&self, id: &str) -> bool {
        self.told.contains(id)
    }

    /// Writes down what became of a notice, for good.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, notice: &DeliveredNotice) -> CliResult {
        let length = self.append(notice).map_err(|error| at(&self.lines, &error))?;
        self.told.insert(notice.id.clone());
        if length > RECORD_BYTES_MAX { self.shorten() } else { Ok(()) }
    }

    /// Adds a line; gives the bytes that there are then.
    fn append(&self, notice: &DeliveredNotice) -> io::Result<u64> {
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.lines)?;
        let line = serde_json::to_string(notice)? + "\n";
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        Ok(file.metadata()?.len())
    }

    /// Keeps the newer half of the lines.
    fn shorten(&mut self) -> CliResult {
        let mut kept = read(&self.lines)?;
        kept.drain(..kept.len() / 2);
        let lines: Result<Vec<String>, _> = kept.iter().map(serde_json::to_string).collect();
        write_private(&self.lines, &lines.map_err(CliError::failed)?.join("\n"))?;
        self.told = kept.into_iter().map(|notice| notice.id).collect();
        Ok(())
    }
}

/// The lines of a record, oldest first; half a line that a crash left is none.
fn read(path: &Path) -> CliResult<Vec<DeliveredNotice>> {
    let bytes = bytes_of(path)?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// What a regular file has in it; none when there is no such file. Anything else could keep its reader waiting.
fn bytes_of(path: &Path) -> CliResult<Option<Vec<u8>>> {
    let read = || {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        fs::read(path)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path, &error)),
    }
}

fn at(path: &Path, error: &io::Error) -> CliError {
    let what = format!("{}: {error}", path.display());
    CliError::new(Code::Failed, what).hint("move the file away; what it told is told again")
}

/// Makes a directory that its user alone reads.
fn private(directory: &Path) -> CliResult {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| at(directory, &error))
}

/// What was told on each channel that has a record, by the channel's name.
///
/// # Errors
/// A record cannot be read.
pub(super) fn all(directory: &Path) -> CliResult<Vec<(String, DeliveredNotice)>> {
    let files = match fs::read_dir(directory) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(directory, &error)),
    };
    let mut told = Vec::new();
    for file in files {
        let path = file?.path();
        let channel = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        if let Some(channel) = channel.filter(|_| path.extension().is_some_and(|it| it == "jsonl"))
        {
            told.extend(read(&path)?.into_iter().map(|notice| (channel.clone(), notice)));
        }
    }
    told.sort_by(|(_, one), (_, other)| one.time.cmp(&other.time));
    Ok(told)
}

/// Keeps other processes from telling the same person the same, as long as the file is held.
///
/// # Errors
/// Another process does.
pub(super) fn lock(directory: &Path) -> CliResult<File> {
    private(directory)?;
    let path = directory.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| at(&path, &error))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let what = format!("another process holds {}", path.display());
        CliError::new(Code::Conflict, what).hint(
            "`tetrarch up` tells people by itself; `tetrarch notify --list` shows what it told",
        )
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(id: &str, text: &str) -> DeliveredNotice {
        DeliveredNotice {
            id: id.to_owned(),
            kind: "goal".to_owned(),
            text: text.to_owned(),
            time: "2026-11-29T08:00:00Z".to_owned(),
            attempts: 1,
            failure: None,
        }
    }

    #[test]
    fn record_survives_its_process_and_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let channel = ChannelName::new("phone").unwrap();
        let mut record = DeliveryRecord::open(dir.path(), &channel).unwrap();
        assert_eq!(record.next(9).unwrap(), None);
        record.add(&notice("a", "one")).unwrap();
        record.advance(7).unwrap();
        let mut file = OpenOptions::new().append(true).open(&record.lines).unwrap();
        file.write_all(b"\xff\xfe\n{\"id\":\"b\",\"ki").unwrap();
        let again = DeliveryRecord::open(dir.path(), &channel).unwrap();
        assert!(again.has("a") && !again.has("b"));
        assert_eq!([6, 5].map(|end| again.next(end).unwrap()), [Some(7), None], "another ledger");
        fs::write(&again.position, b"garb\xff").unwrap();
        assert_eq!(again.next(9).unwrap(), None);
        fs::remove_file(&again.position).unwrap();
        fs::create_dir(&again.position).unwrap();
        let refused = again.next(9).unwrap_err().to_string();
        assert!(refused.contains("phone.next: it is no regular file"), "{refused}");
        assert_eq!(all(dir.path()).unwrap(), [("phone".to_owned(), notice("a", "one"))]);
        let held = lock(dir.path()).unwrap();
        assert!(lock(dir.path()).unwrap_err().to_string().contains("another process"));
        drop(held);
    }

    #[test]
    fn long_record_keeps_its_newer_half() {
        let dir = tempfile::tempdir().unwrap();
        let channel = ChannelName::new("phone").unwrap();
        let mut record = DeliveryRecord::open(dir.path(), &channel).unwrap();
        let long = "x".repeat(300 * 1024);
        for id in ["a", "b", "c", "d"] {
            record.add(&notice(id, &long)).unwrap();
        }
        assert_eq!(["a", "b", "c", "d"].map(|id| record.has(id)), [false, false, true, true]);
        assert!(fs::metadata(&record.lines).unwrap().len() < RECORD_BYTES_MAX);
    }
}
