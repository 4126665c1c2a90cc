//! Removes directories that programs wrote, however deep they are: with two open at a time and without recursion, so
//! that neither the stack nor the descriptors of the host end before the directories do.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Entries of a directory that are dealt with between two looks at it.
const ENTRIES_AT_ONCE: usize = 1024;

/// Removes a directory with all that is in it; a link is not followed. What stands deeper is brought up first, each
/// directory once. Blocks.
///
/// # Errors
/// It is not there, or cannot be removed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let root = match open(CWD, path) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(rustix::fs::unlink(path)?),
        opened => opened?,
    };
    let mut brought = 0_u64;
    while let Some(entries) = some_entries(&root)? {
        for (name, is_dir) in entries {
            if !is_dir {
                rustix::fs::unlinkat(&root, &name, AtFlags::empty())?;
                continue;
            }
            flatten(&root, &name, &mut brought)?;
            rustix::fs::unlinkat(&root, &name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Empties a directory of the root: its own directories go beside it, under names that nothing has.
fn flatten(root: &OwnedFd, name: &CStr, brought: &mut u64) -> io::Result<()> {
    let dir = match open(root.as_fd(), name) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(root, name, Mode::RWXU, AtFlags::empty())?;
            open(root.as_fd(), name)?
        }
        opened => opened?,
    };
    // Whose it is not is removed as far as it may be.
    let _foreign = rustix::fs::fchmod(&dir, Mode::RWXU);
    while let Some(entries) = some_entries(&dir)? {
        for (inner, is_dir) in entries {
            if !is_dir {
                rustix::fs::unlinkat(&dir, &inner, AtFlags::empty())?;
                continue;
            }
            while !moves(&dir, &inner, root, &format!(".removed-{brought}"))? {
                *brought += 1;
            }
        }
    }
    Ok(())
}

/// Moves a directory up; false when something has the name already.
fn moves(dir: &OwnedFd, inner: &CStr, root: &OwnedFd, name: &str) -> io::Result<bool> {
    let moved = match rustix::fs::renameat(dir, inner, root, name) {
        // Moved, a directory has another `..`, which whoever may not write in it may not give it.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(dir, inner, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::renameat(dir, inner, root, name)
        }
        moved => moved,
    };
    match moved {
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
        moved => Ok(moved.map(|()| true)?),
    }
}

/// Opens a directory, no link to one.
fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Some of the entries of a directory, each with whether it is one; none when it is empty.
fn some_entries(dir: &OwnedFd) -> io::Result<Option<Vec<(CString, bool)>>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let about = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(about.st_mode);
        }
        found.push((name.to_owned(), kind == FileType::Directory));
        if found.len() == ENTRIES_AT_ONCE {
            break;
        }
    }
    Ok((!found.is_empty()).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// More than a stack holds of calls, or a process of descriptors.
    const DEEP: usize = 30_000;

    #[test]
    fn directory_deeper_than_any_stack_is_removed() {
        let kept = tempfile::tempdir().unwrap();
        let top = kept.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = open(CWD, &top).unwrap();
        for _ in 0..DEEP {
            rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
            at = open(at.as_fd(), c"d").unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn files_links_and_names_that_collide_are_removed_and_links_not_followed() {
        let kept = tempfile::tempdir().unwrap();
        let (top, other) = (kept.path().join("top"), kept.path().join("other"));
        std::fs::create_dir_all(top.join("a/b/c")).unwrap();
        std::fs::create_dir_all(top.join(".removed-0/x")).unwrap();
        std::fs::write(top.join(".removed-2"), "").unwrap();
        std::fs::create_dir_all(top.join("a/.removed-1")).unwrap();
        for number in 0..ENTRIES_AT_ONCE + 3 {
            std::fs::write(top.join(format!("a/b/{number}")), "").unwrap();
        }
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("kept"), "kept").unwrap();
        symlink(&other, top.join("a/link")).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists() && other.join("kept").exists());
        symlink(&other, &top).unwrap();
        remove_tree(&top).unwrap();
        assert!(top.symlink_metadata().is_err() && other.join("kept").exists());
        assert_eq!(remove_tree(&top).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
