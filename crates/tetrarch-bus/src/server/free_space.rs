//! Room on the disk of the managed server's store. A server that finds none answers no publish any
//! more, nor after there is room again (measured on 2.15.1), so it is looked at from outside.

use std::fmt;
use std::path::{Path, PathBuf};

use super::ServerFiles;

const MIB: u64 = 1024 * 1024;
/// Less room than this, and nothing new is begun: what is left is for what runs.
const LOW: u64 = 16 * MIB;
/// Room at which new work is taken again.
const ENOUGH: u64 = 24 * MIB;
/// Less room than this, and some stream of the server may have met the end of it.
const NONE: u64 = MIB;

/// How much room there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeSpace {
    /// Where.
    pub path: PathBuf,
    /// Bytes that this user may still write there.
    pub free: u64,
}

impl FreeSpace {
    /// Whether nothing new should be begun.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free < LOW
    }

    /// Whether there is none, so that the server may have failed to store something.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.free < NONE
    }

    /// Whether there is enough after there was too little.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.free >= ENOUGH
    }
}

impl fmt::Display for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the disk of the bus is full: {} KiB are free for {}; free some space, the bus then continues by itself",
            self.free / 1024,
            self.path.display()
        )
    }
}

/// The room of a data directory's managed server; none when there never was one, or the system
/// does not tell.
#[must_use]
pub fn free_space(data_dir: &Path) -> Option<FreeSpace> {
    let path = ServerFiles { dir: data_dir.join("nats") }.store();
    let found = rustix::fs::statvfs(&path).ok()?;
    Some(FreeSpace { path, free: found.f_bavail.saturating_mul(found.f_frsize) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(free: u64) -> FreeSpace {
        FreeSpace { path: PathBuf::from("store"), free }
    }

    #[test]
    fn low_space_bound_is_exact_on_both_sides() {
        assert!(of(LOW - 1).is_low() && !of(LOW).is_low());
        assert!(of(NONE - 1).is_none() && !of(NONE).is_none());
        assert!(of(ENOUGH).is_enough() && !of(ENOUGH - 1).is_enough());
    }

    #[test]
    fn directory_without_a_server_reports_no_space() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(free_space(dir.path()), None);
        std::fs::create_dir_all(dir.path().join("nats/store")).unwrap();
        assert!(free_space(dir.path()).is_some_and(|free_space| free_space.free > 0));
    }
}
