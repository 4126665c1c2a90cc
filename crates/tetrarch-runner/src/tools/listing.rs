//! `list_files`: what is in a directory, or below it and fits a pattern.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use rustix::fs::FileType;
use serde::Deserialize;

use super::inside::{Workspace, words};
use super::walking::{FilePattern, LEFT_OUT, Walk};
use super::{TEXT_BYTES_MAX, Tool};

/// Files that one call lists.
const LISTED_MAX: usize = 1000;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFilesArgs {
    #[serde(default)]
    path: String,
    pattern: Option<String>,
    #[serde(default)]
    ignored: bool,
}

/// Lists files.
pub(super) fn list(
    workspace: &Workspace,
    wanted: ListFilesArgs,
    given_up: &AtomicBool,
) -> Result<String, String> {
    let from = workspace.place(&wanted.path)?;
    let files = wanted.pattern.as_deref().map(FilePattern::fitting).transpose()?;
    let (deep, ignored, tool) = (files.is_some(), wanted.ignored, Tool::List);
    let walk = Walk { deep, ignored, files, tool, given_up };
    let (mut text, mut listed) = (String::new(), 0);
    let whole = walk.through(workspace, &from, &mut |found| {
        if listed == LISTED_MAX || text.len() > TEXT_BYTES_MAX {
            return ControlFlow::Break(());
        }
        listed += 1;
        let mark = match found.kind {
            FileType::Directory => "/",
            FileType::Symlink => "@",
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => "",
        };
        let _infallible = writeln!(text, "{}{mark}", words(found.place));
        ControlFlow::Continue(())
    })?;
    if workspace.permissions().restricts_paths(Tool::List.as_str()) {
        text.push_str(LEFT_OUT);
    }
    if !whole {
        text.push_str("[there are more: name a directory or a pattern]");
    } else if listed == 0 {
        text.push_str("[nothing]");
    }
    Ok(text)
}
