//! Where a path that somebody named leads. Programs change what is below the places that they write, so a directory
//! that was named may be a link by now: rights to what such a link leads to would be rights to anything. Changes nothing.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

/// Most links on the way, as for the kernel.
const LINKS_MAX: usize = 40;

/// Where systems have links of their own (`/tmp`, `/home`, `/var/run`), and no program works.
const OF_SYSTEM: [&str; 2] = ["/", "/var"];

/// Why a place cannot be used by its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStraight {
    /// A link is on the way that a program may have put there.
    #[error(
        "its part {link} is a link, which leads to {target}; a program may have put it there, so it gives no rights: name the directory that you mean by its real path, or remove the link"
    )]
    Link { link: PathBuf, target: PathBuf },
    /// It cannot be looked at.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

/// The place without links that an absolute path leads to; what is not there is taken as it is named. Links are
/// followed only where no program of the host's user can have made them: in a directory that this user may not change,
/// and in those of the system.
///
/// # Errors
/// Another link is on the way, or the way cannot be looked at.
pub(crate) fn straight(path: &Path) -> Result<PathBuf, NotStraight> {
    let (mut place, mut links) = (PathBuf::from("/"), 0);
    let mut left: Vec<OsString> = parts(path);
    while let Some(part) = left.pop() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        let facts = match fs::symlink_metadata(&next) {
            Ok(facts) => facts,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                place = next;
                continue;
            }
            Err(cause) => return Err(cause.into()),
        };
        if !facts.is_symlink() {
            place = next;
            continue;
        }
        let target = fs::read_link(&next)?;
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from(rustix::io::Errno::LOOP).into());
        }
        if !is_of_others(&place)? {
            return Err(NotStraight::Link { link: next, target });
        }
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(place)
}

/// Whether programs cannot have made what is in a directory: whoever owns it gives themselves the right to.
fn is_of_others(dir: &Path) -> io::Result<bool> {
    let owned = fs::metadata(dir)?.uid() == geteuid().as_raw();
    let of_system = OF_SYSTEM.iter().any(|place| dir == Path::new(place));
    Ok(of_system || !(owned || access(dir, Access::WRITE_OK).is_ok()))
}

/// What a path consists of, the last part first.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_over_a_link_of_the_user_is_refused_with_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let ground = dir.path().canonicalize().unwrap();
        fs::create_dir_all(ground.join("real/below")).unwrap();
        symlink("real", ground.join("link")).unwrap();
        symlink("/nowhere", ground.join("dangling")).unwrap();
        for path in ["link", "link/below", "link/new", "real/../link", "dangling"] {
            let said = straight(&ground.join(path)).unwrap_err();
            assert!(matches!(said, NotStraight::Link { .. }), "{path}: {said}");
        }
        for (path, real) in [
            ("real/./below/", "real/below"),
            ("real/below/..", "real"),
            ("new/er", "new/er"),
            ("none/../real", "real"),
        ] {
            assert_eq!(straight(&ground.join(path)).unwrap(), ground.join(real), "{path}");
        }
    }

    #[test]
    fn link_that_the_system_has_is_followed() {
        let entries = OF_SYSTEM.iter().flat_map(|dir| fs::read_dir(dir).unwrap().flatten());
        for link in entries.map(|entry| entry.path()) {
            if link.is_symlink() && link.exists() {
                assert_eq!(straight(&link).unwrap(), link.canonicalize().unwrap());
            }
        }
    }
}
