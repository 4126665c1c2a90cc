//! A control group for each run, where cgroup v2 is writable: also alone beside v1 (spec 09, On
//! the host), with the limits that are wanted; what must be killed is decided elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use tetrarch_core::id::RunId;

use crate::containment::Containment;
use crate::headcount::COUNT_EVERY;
use crate::isolation::Layer;
use crate::mark::{HostLife, ProcessMark};

/// Start of the name of a host's control group; its process id and its life follow.
const HOME_PREFIX: &str = "tetrarch-";
/// The layer of the limits that a group has.
pub(crate) const CGROUP_LIMITS: &str = "cgroup limits";
/// The kernel's limit of a group's processes and threads, where the group has the controller.
const PIDS_MAX: &str = "pids.max";
/// How often an emptied group is tried to be removed; the kernel needs a moment.
const REMOVE_TRIES: u32 = 50;
/// Time between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// Why there is no control group.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// The machine has none.
    #[error("no cgroup v2 is mounted; mount cgroup2 or start with systemd")]
    Absent,
    /// The directory is an ordinary one.
    #[error("{0} is not a cgroup v2 directory")]
    Ordinary(PathBuf),
    /// It cannot be written.
    #[error("{path}: {cause}; delegate a cgroup to this process (systemd: Delegate=yes)")]
    Refused { path: PathBuf, cause: io::Error },
}

/// The control group of this host process; each run gets one below it.
#[derive(Debug)]
pub(crate) struct Cgroups {
    home: PathBuf,
}

impl Cgroups {
    /// Makes the host's own group below `parent`, or below the group this process is in.
    pub(crate) fn prepare(
        parent: Option<&Path>,
        life: &HostLife,
        containment: &Containment,
    ) -> Result<Self, CgroupError> {
        Self::make(Self::place(parent, life)?, containment)
    }

    /// Makes a group as a host's would be, of a process that is none.
    pub(crate) fn prepare_trial(
        parent: Option<&Path>,
        containment: &Containment,
    ) -> Result<Self, CgroupError> {
        let name = format!("{HOME_PREFIX}{}", std::process::id());
        Self::make(parent_of_homes(parent)?.join(name), containment)
    }

    /// What limits a run's group would have, if any are wanted.
    pub(crate) fn limits_of_trial(&self, containment: &Containment) -> Option<Layer> {
        let trial = ControlGroup { dir: self.home.join("trial") };
        let limits = match fs::create_dir(&trial.dir) {
            Ok(()) => trial.limit(containment),
            Err(cause) => Some(Layer::new(CGROUP_LIMITS, Err(cause.to_string()))),
        };
        trial.remove();
        limits
    }

    /// Where the group of this host process is made. The life is in the name because the number
    /// of a process is given again: the guard of a dead host must never act on another's group.
    pub(crate) fn place(parent: Option<&Path>, life: &HostLife) -> Result<PathBuf, CgroupError> {
        let name = format!("{HOME_PREFIX}{}-{life}", std::process::id());
        Ok(parent_of_homes(parent)?.join(name))
    }

    fn make(home: PathBuf, containment: &Containment) -> Result<Self, CgroupError> {
        fs::create_dir_all(&home)
            .map_err(|cause| CgroupError::Refused { path: home.clone(), cause })?;
        for (controller, _, _) in limits(containment) {
            for dir in home.parent().into_iter().chain([home.as_path()]) {
                // What does not work is said where a run's limit is not there.
                if let Err(cause) =
                    fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"))
                {
                    tracing::debug!(dir = %dir.display(), controller, %cause, "not handed down");
                }
            }
        }
        Ok(Self { home })
    }

    /// Makes the group of a run.
    pub(crate) fn for_run(&self, run: RunId) -> Result<ControlGroup, CgroupError> {
        let dir = self.home.join(run.to_string());
        fs::create_dir_all(&dir)
            .map_err(|cause| CgroupError::Refused { path: dir.clone(), cause })?;
        Ok(ControlGroup { dir })
    }

    /// Makes the group of one call of a program of the host's own.
    pub(crate) fn for_call(&self, name: &str) -> Result<ControlGroup, CgroupError> {
        ControlGroup::at(self.home.clone()).within(name)
    }

    /// Kills and removes what earlier lives of this host left beside it: also what has lost its
    /// mark. Another host that is gone has a guard of its own. Blocks.
    pub(crate) fn clear_earlier_lives(&self, present: &HostLife) {
        let earlier = ProcessMark::OtherLives(present.clone());
        let beside = self.home.parent().map(subdirectories).unwrap_or_default();
        for home in beside.into_iter().filter(|home| is_dead(home, &earlier)) {
            tracing::warn!(home = %home.display(), "clearing the runs of an earlier life");
            let group = ControlGroup::at(home);
            group.kill();
            group.remove();
        }
    }

    /// Whether the kernel can kill a group at once (5.14 and later).
    pub(crate) fn kills_at_once(&self) -> bool {
        self.home.join("cgroup.kill").exists()
    }

    /// Where the host's group is.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Removes the host's group, unless runs of it are left.
    pub(crate) fn remove(&self) {
        if let Err(cause) = fs::remove_dir(&self.home) {
            tracing::debug!(home = %self.home.display(), %cause, "the host's cgroup stays");
        }
    }
}

/// The control group of one run, or that of a host with those of its runs in it.
#[derive(Debug, Clone)]
pub(crate) struct ControlGroup {
    dir: PathBuf,
}

impl ControlGroup {
    /// A group that is there, or will be.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Sets the limits that are wanted of a run's memory and processes; none wanted, none said.
    pub(crate) fn limit(&self, containment: &Containment) -> Option<Layer> {
        let limits = limits(containment);
        let mut refused = false;
        let set = limits.iter().map(|(controller, file, most)| {
            if *file == PIDS_MAX && self.is_counted() {
                return Ok(format!(
                    "{most} processes, counted every {} ms",
                    COUNT_EVERY.as_millis()
                ));
            }
            fs::write(self.dir.join(file), most).map(|()| format!("{file} {most}")).map_err(
                |cause| {
                    // The kernel lets nobody make a file where the controller is not.
                    let there = self.dir.join(file).exists();
                    refused |= there && cause.kind() == io::ErrorKind::PermissionDenied;
                    format!(
                        "{}: {cause}; hand the {controller} controller down to this group \
                         (systemd: Delegate=yes)",
                        self.dir.join(file).display()
                    )
                },
            )
        });
        let set: Result<Vec<String>, String> = set.collect();
        let layer = || Layer::new(CGROUP_LIMITS, set.map(|set| set.join(", ")));
        (!limits.is_empty()).then(|| layer().refused_if(refused))
    }

    /// How many processes it may have where nobody but the runner counts them; none where the kernel does, or
    /// nothing is wanted.
    pub(crate) fn counted(&self, containment: &Containment) -> Option<u64> {
        containment.processes_max.filter(|_| self.is_counted())
    }

    /// Whether the kernel does not count its processes.
    pub(crate) fn is_counted(&self) -> bool {
        !self.dir.join(PIDS_MAX).exists()
    }

    /// Whether it has more processes than this.
    pub(crate) fn has_more_than(&self, most: u64) -> bool {
        u64::try_from(self.members().len()).is_ok_and(|there| there > most)
    }

    /// The groups of the runs in a host's.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Self> {
        subdirectories(&self.dir).into_iter().map(Self::at)
    }

    /// Makes a group in it, which is killed with it.
    pub(crate) fn within(&self, name: &str) -> Result<Self, CgroupError> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)
            .map_err(|cause| CgroupError::Refused { path: dir.clone(), cause })?;
        Ok(Self { dir })
    }

    /// Moves a process into it. What it has forked before stays where it is.
    pub(crate) fn join(&self, pid: Pid) -> Result<(), CgroupError> {
        fs::write(self.dir.join("cgroup.procs"), pid.as_raw_nonzero().to_string())
            .map_err(|cause| CgroupError::Refused { path: self.dir.clone(), cause })
    }

    /// The processes in it and in groups below it, zombies not counted.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut found = Vec::new();
        let mut open = vec![self.dir.clone()];
        while let Some(dir) = open.pop() {
            let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
            open.extend(subdirectories(&dir));
        }
        found
    }

    /// Whether a process is in another group of the same host.
    pub(crate) fn has_beside_it(&self, pid: i32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
        group.is_some_and(|group| self.is_beside(Path::new(group)))
    }

    /// Whether a group, by its path from the mount, is another one of the same host. The name of a host's own is unique.
    fn is_beside(&self, group: &Path) -> bool {
        let (Some(own), Some(home)) = (self.dir.file_name(), self.dir.parent()) else {
            return false;
        };
        let Some(home) = home.file_name() else { return false };
        let mut below = group.iter().skip_while(|part| *part != home).skip(1);
        below.next().is_some_and(|other| other != own)
    }

    /// Freezes all of it, and what joins it later; false when there is no such group or the
    /// kernel cannot (before 5.2).
    pub(crate) fn freeze(&self) -> bool {
        fs::write(self.dir.join("cgroup.freeze"), "1").is_ok()
    }

    /// Lets all of it run again.
    pub(crate) fn thaw(&self) {
        if let Err(cause) = fs::write(self.dir.join("cgroup.freeze"), "0") {
            tracing::debug!(dir = %self.dir.display(), %cause, "no cgroup.freeze");
        }
    }

    /// Kills all of it at once, where the kernel can; frozen or not.
    pub(crate) fn kill(&self) {
        if let Err(cause) = fs::write(self.dir.join("cgroup.kill"), "1") {
            tracing::debug!(dir = %self.dir.display(), %cause, "no cgroup.kill");
        }
    }

    /// Removes it and the groups below it. Blocks for up to `REMOVE_TRIES` pauses for each.
    pub(crate) fn remove(&self) {
        for dir in subdirectories(&self.dir) {
            Self { dir }.remove();
        }
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.dir) {
                Err(cause)
                    if cause.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) =>
                {
                    thread::sleep(REMOVE_PAUSE);
                }
                Ok(()) | Err(_) => return,
            }
        }
        tracing::warn!(dir = %self.dir.display(), "the cgroup could not be removed");
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// What is limited: the controller, its file, and what is written there.
fn limits(containment: &Containment) -> Vec<(&'static str, &'static str, String)> {
    let memory = containment.memory_max.map(|most| ("memory", "memory.max", most.to_string()));
    let processes = containment.processes_max.map(|most| ("pids", PIDS_MAX, most.to_string()));
    // In each 100 ms.
    let cpu =
        containment.cpus_max.map(|most| ("cpu", "cpu.max", format!("{} 100000", most * 100_000)));
    memory.into_iter().chain(processes).chain(cpu).collect()
}

fn parent_of_homes(parent: Option<&Path>) -> Result<PathBuf, CgroupError> {
    let parent = match parent {
        Some(parent) => parent.to_owned(),
        None => own_group()?,
    };
    let is_group = parent.join("cgroup.procs").exists();
    if is_group { Ok(parent) } else { Err(CgroupError::Ordinary(parent)) }
}

/// The v2 group this process is in.
fn own_group() -> Result<PathBuf, CgroupError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mount = mount_point(&mounts).ok_or(CgroupError::Absent)?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(mount.join(group.ok_or(CgroupError::Absent)?))
}

/// Where `cgroup2` is mounted: the fifth field of the line whose type, after ` - `, it is.
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let is_v2 = kind.split(' ').next() == Some("cgroup2");
        is_v2.then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Whether this is the group of such a life, whose process is gone.
fn is_dead(home: &Path, lives: &ProcessMark) -> bool {
    let name = home.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parts = name.strip_prefix(HOME_PREFIX).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(pid, life)| {
        let number = pid.parse::<u32>().is_ok();
        number && lives.fits(life) && !Path::new("/proc").join(pid).exists()
    })
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_mount_is_found_beside_v1() {
        let mounts = "31 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 24 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("31 24 0:26 / /a rw - cgroup cgroup rw"), None);
    }

    #[test]
    fn limits_are_written_where_supported_and_reported_otherwise() {
        let place = tempfile::tempdir().unwrap();
        let group = ControlGroup::at(place.path().to_owned());
        assert_eq!(group.limit(&Containment::default()), None);
        let wanted = Containment {
            memory_max: Some(1 << 20),
            processes_max: Some(7),
            cpus_max: Some(2),
            ..Containment::default()
        };
        let counted = group.limit(&wanted).unwrap();
        assert!(counted.active && counted.words.contains("7 processes, counted"), "{counted}");
        assert_eq!(group.counted(&wanted), Some(7));
        fs::write(place.path().join("pids.max"), "max").unwrap();
        assert!(group.limit(&wanted).unwrap().active);
        assert_eq!(group.counted(&wanted), None, "the kernel does");
        assert_eq!(fs::read_to_string(place.path().join("memory.max")).unwrap(), "1048576");
        assert_eq!(fs::read_to_string(place.path().join("pids.max")).unwrap(), "7");
        assert_eq!(fs::read_to_string(place.path().join("cpu.max")).unwrap(), "200000 100000");
        let missing = ControlGroup::at(place.path().join("none")).limit(&wanted).unwrap();
        assert!(!missing.active && missing.words.contains("Delegate=yes"), "{missing}");
    }

    #[test]
    fn process_in_another_run_of_the_host_is_beside() {
        let group = ControlGroup::at(PathBuf::from("/sys/fs/cgroup/a/tetrarch-7-life/run_1"));
        for (other, beside) in [
            ("/a/tetrarch-7-life/run_2", true),
            ("/a/tetrarch-7-life/run_2/call-1", true),
            ("/a/tetrarch-7-life/run_1", false),
            ("/a/tetrarch-7-life/run_1/call-1", false),
            ("/a/tetrarch-7-life", false),
            ("/a/tetrarch-8-life/run_2", false),
            ("/", false),
        ] {
            assert_eq!(group.is_beside(Path::new(other)), beside, "{other}");
        }
    }

    #[test]
    fn ordinary_directory_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused =
            Cgroups::prepare_trial(Some(place.path()), &Containment::default()).unwrap_err();
        assert!(matches!(refused, CgroupError::Ordinary(_)), "{refused}");
    }
}
