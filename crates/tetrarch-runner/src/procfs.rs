//! What `/proc` says about the processes of this machine. Reads only; which of them belong to a
//! run is decided in `sweep`.

use std::fs;
use std::io::Read;

/// Most of an environment that is looked at, in bytes. The kernel bounds one string at 128 KiB.
const ENVIRON_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) zombie: bool,
    /// Whether a signal or a tracer stopped it.
    pub(crate) stopped: bool,
    /// Whether it has given up its memory: it runs nothing any more and will be dead in a moment,
    /// and has no environment to know it by.
    pub(crate) dying: bool,
    /// When it started, in clock ticks since boot; with the pid it names one process for ever.
    pub(crate) started: u64,
}

/// Every process there is, in no order. One that ends meanwhile may be missing.
pub(crate) fn processes() -> Vec<ProcessInfo> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// One process, unless it has ended and was waited for.
pub(crate) fn process(pid: i32) -> Option<ProcessInfo> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process was started with this variable and a value that fits. False for a zombie
/// and for a process that may not be looked at.
pub(crate) fn has_variable(pid: i32, name: &str, fits: impl Fn(&str) -> bool) -> bool {
    let mut environ = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else {
        return false;
    };
    if file.take(ENVIRON_BYTES_MAX).read_to_end(&mut environ).is_err() {
        return false;
    }
    environ.split(|byte| *byte == 0).any(|entry| {
        let value = entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.and_then(|value| std::str::from_utf8(value).ok()).is_some_and(&fits)
    })
}

/// Reads `stat`. The name in parentheses may hold anything, also parentheses and spaces.
fn parse_stat(stat: &str) -> Option<ProcessInfo> {
    let (head, tail) = stat.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let state = *fields.first()?;
    let zombie = matches!(state, "Z" | "X" | "x");
    Some(ProcessInfo {
        pid,
        zombie,
        stopped: matches!(state, "T" | "t"),
        dying: !zombie && *fields.get(20)? == "0",
        parent: number(1)?,
        group: number(2)?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_cannot_forge_the_fields() {
        let stat = |state: &str, memory: u32| {
            parse_stat(&format!(
                "42 (a) R 1 1 (x) {state} 7 41 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 991 {memory} 0"
            ))
        };
        let alive = ProcessInfo {
            pid: 42,
            parent: 7,
            group: 41,
            zombie: false,
            stopped: false,
            dying: false,
            started: 991,
        };
        assert_eq!(stat("S", 4096), Some(alive));
        assert_eq!(stat("R", 0), Some(ProcessInfo { dying: true, ..alive }));
        assert_eq!(stat("T", 4096), Some(ProcessInfo { stopped: true, ..alive }));
        assert_eq!(stat("Z", 0), Some(ProcessInfo { zombie: true, ..alive }));
        assert_eq!(parse_stat("42 (a) R"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn own_process_is_listed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = processes().into_iter().find(|process| process.pid == own).unwrap();
        assert_eq!(Some(found), process(own));
        assert!(!found.zombie && !found.dying);
    }
}
