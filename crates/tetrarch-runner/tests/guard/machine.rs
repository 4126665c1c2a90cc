//! What the processes of this machine are doing, as `/proc` and the control groups say.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// The state letter of a process; none when it is gone or dead.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(state)
}

/// Whether a process is there and not dead.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some()
}

/// Whether a process cannot run: stopped, or in a frozen control group.
pub(crate) fn is_frozen(pid: i32) -> bool {
    state(pid) == Some('T') || group(pid).is_some_and(|group| holds(&group))
}

fn holds(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "frozen 1")
}

fn group(pid: i32) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mount = line.split(' ').nth(4)?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(path))
}

/// The living processes that were started with this variable.
pub(crate) fn with_variable(name: &str, fits: impl Fn(&str) -> bool) -> Vec<i32> {
    let carries = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| {
            let entry = String::from_utf8_lossy(entry);
            entry.split_once('=').is_some_and(|(known, value)| known == name && fits(value))
        })
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| is_alive(*pid))
        .filter(carries)
        .collect()
}

/// Sends a signal to a process.
pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
