//! `search_files`: lines of text files that fit a regular expression. The time it takes grows with
//! the text alone, whatever the expression.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};
use rustix::fs::FileType;
use serde::Deserialize;

use super::inside::{Workspace, words};
use super::reading::FileLines;
use super::walking::{FilePattern, LEFT_OUT, Walk};
use super::{TEXT_BYTES_MAX, Tool};

/// Lines that one call finds.
const FOUND_MAX: usize = 200;
/// What of a line is shown, in characters.
const SHOWN_MAX: usize = 300;
/// Largest file that is searched, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Largest compiled expression, in bytes.
const REGEX_BYTES_MAX: usize = 1024 * 1024;
/// How long one call searches.
const SEARCHING_MAX: Duration = Duration::from_secs(20);

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArgs {
    pattern: String,
    #[serde(default)]
    path: String,
    files: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    ignored: bool,
}

/// Searches files.
pub(super) fn search(
    workspace: &Workspace,
    wanted: SearchArgs,
    given_up: &AtomicBool,
) -> Result<String, String> {
    let from = workspace.place(&wanted.path)?;
    let pattern = RegexBuilder::new(&wanted.pattern)
        .case_insensitive(wanted.ignore_case)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|cause| format!("`pattern` is not a valid regular expression: {cause}"))?;
    let end = Instant::now() + SEARCHING_MAX;
    let mut search = Search { workspace, pattern, text: String::new(), found: 0, end, given_up };
    if workspace.directory(&from).is_err() {
        // What is no directory is a file, or is refused as one.
        workspace.file(&from)?;
        let _whole = search.file(&from);
    } else {
        let files = wanted.files.as_deref().map(FilePattern::fitting).transpose()?;
        let (ignored, tool) = (wanted.ignored, Tool::Search);
        let walk = Walk { deep: true, ignored, files, tool, given_up };
        let whole = walk.through(workspace, &from, &mut |found| match found.kind {
            FileType::RegularFile => search.file(found.place),
            FileType::Directory
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => ControlFlow::Continue(()),
        })?;
        if !whole && !search.is_full() {
            search.text.push_str("[not everything was searched: name a directory or `files`]\n");
        }
    }
    let is_empty = search.text.is_empty();
    if workspace.permissions().restricts_paths(Tool::Search.as_str()) {
        search.text.push_str(LEFT_OUT);
    }
    if search.is_full() {
        search.text.push_str("[there are more: search for less]");
    } else if is_empty {
        search.text.push_str("[nothing]");
    }
    Ok(search.text)
}

struct Search<'s> {
    workspace: &'s Workspace,
    pattern: Regex,
    text: String,
    found: usize,
    end: Instant,
    given_up: &'s AtomicBool,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.found == FOUND_MAX || self.text.len() > TEXT_BYTES_MAX
    }

    /// Searches one file. One that is gone meanwhile, may not be read, is binary or too large has
    /// nothing to show.
    fn file(&mut self, place: &Path) -> ControlFlow<()> {
        let Ok((file, size)) = self.workspace.file(place) else {
            return ControlFlow::Continue(());
        };
        if size > FILE_BYTES_MAX {
            let _infallible =
                writeln!(self.text, "[{} is not searched: {size} bytes]", words(place));
            return ControlFlow::Continue(());
        }
        let Ok(mut lines) = FileLines::of(file, place, size) else {
            return ControlFlow::Continue(());
        };
        let mut number = 0;
        while let Ok(Some(line)) = lines.next() {
            number += 1;
            if self.is_full() || self.given_up.load(Ordering::Relaxed) || self.end < Instant::now()
            {
                return ControlFlow::Break(());
            }
            if self.pattern.is_match(&line) {
                self.found += 1;
                let shown: String = line.chars().take(SHOWN_MAX).collect();
                let _infallible = writeln!(self.text, "{}:{number}: {shown}", words(place));
            }
        }
        ControlFlow::Continue(())
    }
}
