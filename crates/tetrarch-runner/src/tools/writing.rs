//! `write_file` and `edit_file`. A file is written under another name and renamed, so that whoever
//! reads it finds the old or the new, never a part (spec 06, Effects).

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};
use serde::Deserialize;

use super::inside::{Workspace, WritablePath, words};

/// Largest file that is written or edited, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Files written under another name so far, for the next name.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileArgs {
    path: String,
    content: String,
}

/// The arguments of `edit_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFileArgs {
    path: String,
    old: String,
    new: String,
}

/// Writes a whole file.
pub(super) fn write(
    workspace: &Workspace,
    wanted: WriteFileArgs,
    given_up: &AtomicBool,
) -> Result<String, String> {
    let place = workspace.place(&wanted.path)?;
    bounded(&wanted.content)?;
    let target = workspace.for_writing(&place)?;
    replace(&target, &wanted.content, given_up)
        .map_err(|cause| format!("{}: {cause}", words(&place)))?;
    Ok(format!("wrote {} bytes to {}", wanted.content.len(), words(&place)))
}

/// Replaces the one place where a text is.
pub(super) fn edit(
    workspace: &Workspace,
    wanted: EditFileArgs,
    given_up: &AtomicBool,
) -> Result<String, String> {
    let place = workspace.place(&wanted.path)?;
    let shown = words(&place);
    if wanted.old.is_empty() {
        return Err("`old` is empty; to write a whole file use write_file".to_owned());
    }
    let target = workspace.for_writing(&place)?;
    let (file, size) = workspace.file(&place)?;
    if size > FILE_BYTES_MAX {
        return Err(format!("{shown} has {size} bytes, more than the {FILE_BYTES_MAX} of an edit"));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|cause| format!("{shown}: {cause}"))?;
    let content = String::from_utf8(content).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    let edited = match occurrences(&content, &wanted.old).as_slice() {
        [] => {
            return Err(format!(
                "`old` is not in {shown}; give it exactly as read_file shows it, without the \
                 line numbers"
            ));
        }
        [at] => format!("{}{}{}", &content[..*at], wanted.new, &content[at + wanted.old.len()..]),
        [_, _, ..] => {
            return Err(format!("`old` is more than once in {shown}; add lines around it"));
        }
    };
    bounded(&edited)?;
    replace(&target, &edited, given_up).map_err(|cause| format!("{shown}: {cause}"))?;
    Ok(format!("edited {shown}"))
}

/// The first two places where `old` begins, also such as overlap.
fn occurrences(content: &str, old: &str) -> Vec<usize> {
    let first = content.find(old);
    let next = first.and_then(|at| {
        let step = old.chars().next().map_or(1, char::len_utf8);
        content[at + step..].find(old).map(|found| at + step + found)
    });
    first.into_iter().chain(next).collect()
}

fn bounded(content: &str) -> Result<(), String> {
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "the file would have {} bytes, at most {FILE_BYTES_MAX} are written",
            content.len()
        ));
    }
    Ok(())
}

/// Puts a file with this content in a place, with the permissions of the one that was there.
fn replace(target: &WritablePath, content: &str, given_up: &AtomicBool) -> io::Result<()> {
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = format!(".tetrarch-{}-{number}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(&target.dir, &beside, flags, Mode::from_raw_mode(0o666))?);
    let written = fill(file, target, content).and_then(|()| {
        if given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("given up"));
        }
        Ok(renameat(&target.dir, &beside, &target.dir, &target.name)?)
    });
    if written.is_err()
        && let Err(cause) = unlinkat(&target.dir, &beside, AtFlags::empty())
    {
        tracing::warn!(file = beside, %cause, "a half written file is left in a workspace");
    }
    written
}

fn fill(mut file: File, target: &WritablePath, content: &str) -> io::Result<()> {
    if let Ok(before) = statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW) {
        file.set_permissions(Permissions::from_mode(before.st_mode & 0o777))?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_data()
}
