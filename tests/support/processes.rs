//! The processes of an installation, found in the system's own table: by where they work and by
//! what they were started with, so that none is missed that forgot its parent.

use std::path::Path;

/// A process as the system shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// What it was started with.
    pub command: String,
    /// The agent it is, when it is a hosted agent's.
    pub agent: Option<String>,
}

/// Every living process that works below a directory or was started with it as an argument. The
/// calling process is none of them.
#[must_use]
pub fn processes_of(dir: &Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = pids.filter_map(|pid| process(pid, dir)).collect();
    found.sort();
    found
}

fn process(pid: u32, dir: &Path) -> Option<Process> {
    if pid == std::process::id() {
        return None;
    }
    let at = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| {
        let bytes = std::fs::read(at.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // One that has ended and only waits for its parent has no command line any more.
    let command = read("cmdline").replace('\0', " ").trim().to_owned();
    let cwd = std::fs::read_link(at.join("cwd")).unwrap_or_default();
    let below = command.contains(dir.to_str()?) || cwd.starts_with(dir);
    if command.is_empty() || !below {
        return None;
    }
    let environment = read("environ");
    let agent = environment.split('\0').find_map(|one| one.strip_prefix("TETRARCH_AGENT="));
    Some(Process { pid, command, agent: agent.map(str::to_owned) })
}
