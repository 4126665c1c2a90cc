//! `read_file`: some lines of a text file. What it holds of a file in memory is bounded, whatever
//! the file's size.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use super::TEXT_BYTES_MAX;
use super::inside::{Workspace, words};

/// Lines that are read when the call does not say.
const LINES: usize = 2000;
/// Lines that one call may ask for.
const LINES_MAX: usize = 10_000;
/// What of one line is shown, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 2000;
/// How far into a file one call goes, in bytes.
const SCANNED_MAX: u64 = 256 * 1024 * 1024;
/// What of a file is looked at to tell whether it is text, in bytes.
const LOOKED_AT: usize = 8 * 1024;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileArgs {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Reads some lines.
pub(super) fn read(
    workspace: &Workspace,
    wanted: ReadFileArgs,
    given_up: &AtomicBool,
) -> Result<String, String> {
    let place = workspace.place(&wanted.path)?;
    let (file, size) = workspace.file(&place)?;
    let (first, limit) = (wanted.offset.unwrap_or(1), wanted.limit.unwrap_or(LINES));
    if first == 0 || !(1..=LINES_MAX).contains(&limit) {
        return Err(format!("lines are counted from 1, and limit is 1 to {LINES_MAX}"));
    }
    let mut lines = FileLines::of(file, &place, size)?;
    let mut text = String::new();
    let mut number = 0;
    while let Some(line) = lines.next().map_err(|cause| format!("{}: {cause}", words(&place)))? {
        number += 1;
        if given_up.load(Ordering::Relaxed) {
            return Err("given up".to_owned());
        }
        if number < first {
            continue;
        }
        if number - first == limit || text.len() + line.len() > TEXT_BYTES_MAX {
            let _infallible = write!(text, "[more follows: go on with offset {number}]");
            return Ok(text);
        }
        let _infallible = writeln!(text, "{number:>6}\t{line}");
    }
    if lines.over {
        return Err(format!(
            "{} goes on after {} MiB, which is as far as reading goes; use a program",
            words(&place),
            SCANNED_MAX / 1024 / 1024
        ));
    }
    if number < first && first > 1 {
        return Err(format!("{} has {number} lines", words(&place)));
    }
    if text.is_empty() {
        return Ok("[the file is empty]".to_owned());
    }
    Ok(text)
}

/// The lines of a text file, each bounded.
pub(super) struct FileLines {
    reader: BufReader<io::Take<File>>,
    size: u64,
    line: Vec<u8>,
    /// Whether the file goes on after what may be scanned.
    over: bool,
}

impl FileLines {
    /// The lines of an open file, unless it is not text.
    pub(super) fn of(file: File, place: &Path, size: u64) -> Result<Self, String> {
        let mut reader = BufReader::with_capacity(LOOKED_AT, file.take(SCANNED_MAX));
        let start = reader.fill_buf().map_err(|cause| format!("{}: {cause}", words(place)))?;
        if start.contains(&0) {
            return Err(format!("{} is binary ({size} bytes), not text", words(place)));
        }
        Ok(Self { reader, size, line: Vec::new(), over: false })
    }

    /// The next line, without its end; what of it is too long is left out and said.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        self.line.clear();
        let mut left_out = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                self.over = self.size > SCANNED_MAX;
                if self.line.is_empty() && left_out == 0 {
                    return Ok(None);
                }
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len()).min(part.len());
            self.line.extend_from_slice(&part[..room]);
            left_out += part.len() - room;
            let used = end.map_or(part.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if left_out == 0 && self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        let mut line = String::from_utf8_lossy(&self.line).into_owned();
        if left_out > 0 {
            let _infallible = write!(line, " [{left_out} more bytes]");
        }
        Ok(Some(line))
    }
}
