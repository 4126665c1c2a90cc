//! What `/proc` says about the processes of this machine. Reads only; which of them belong to a
//! run is decided in `sweep`.

use std::fs;
use std::io::{self, Read};
use std::thread;
use std::time::Duration;

/// Most of an environment that is looked at, in bytes. The kernel bounds one string at 128 KiB.
const ENVIRON_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How often the environment of a process that is replacing its program is read again.
const EXEC_READS_MAX: usize = 100;
/// Pause between two such reads.
const EXEC_PAUSE: Duration = Duration::from_millis(1);

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
/// and for a process that may not be looked at. Blocks for at most 100 ms on a process that is
/// replacing its program: the kernel shows no environment then, and the process would be missed.
pub(crate) fn has_variable(pid: i32, name: &str, fits: impl Fn(&str) -> bool) -> bool {
    let environ = whole_environ(|| environ(pid), || is_in_exec(pid));
    environ.split(|byte| *byte == 0).any(|entry| {
        let value = entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.and_then(|value| std::str::from_utf8(value).ok()).is_some_and(&fits)
    })
}

/// Reads until there is something, or there is nothing to wait for: it is empty before and after a
/// look that shows no exec.
fn whole_environ(
    mut read: impl FnMut() -> io::Result<Vec<u8>>,
    mut in_exec: impl FnMut() -> bool,
) -> Vec<u8> {
    let mut settled = false;
    for _ in 0..EXEC_READS_MAX {
        match read() {
            Ok(environ) if environ.is_empty() && in_exec() => thread::sleep(EXEC_PAUSE),
            Ok(environ) if environ.is_empty() && !settled => settled = true,
            // An error: it ended, or it is another user's.
            read => return read.unwrap_or_default(),
        }
    }
    Vec::new()
}

fn environ(pid: i32) -> io::Result<Vec<u8>> {
    let mut environ = Vec::new();
    fs::File::open(format!("/proc/{pid}/environ"))?
        .take(ENVIRON_BYTES_MAX)
        .read_to_end(&mut environ)?;
    Ok(environ)
}

/// Whether a process is between its old program and its new one.
fn is_in_exec(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| shows_exec(&stat))
}

/// Memory, but no environment in it. One that may not be looked at shows 1 as start of its code.
fn shows_exec(stat: &str) -> bool {
    let Some((_, fields)) = split_stat(stat) else { return false };
    let field = |index: usize| fields.get(index).copied().unwrap_or("0");
    let alive = !matches!(field(0), "Z" | "X" | "x");
    alive && field(20) != "0" && field(23) != "1" && field(47) == "0"
}

/// What `stat` has before and after the name in parentheses, which may hold anything, also parentheses and
/// spaces.
fn split_stat(stat: &str) -> Option<(&str, Vec<&str>)> {
    let (head, tail) = stat.rsplit_once(')')?;
    Some((head, tail.split_ascii_whitespace().collect()))
}

fn parse_stat(stat: &str) -> Option<ProcessInfo> {
    let (head, fields) = split_stat(stat)?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
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
    fn exec_is_told_from_end_kernel_thread_and_foreign_process() {
        let stat = |state: &str, memory: u32, code: u32, environ: u64| {
            format!(
                "42 (a) {state} 7 41 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 991 {memory} 1 2 {code} \
                 5 6 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 7 8 9 10 11 {environ} 12 0"
            )
        };
        assert!(shows_exec(&stat("R", 4096, 0, 0)));
        assert!(!shows_exec(&stat("R", 4096, 4000, 140)), "it has its program");
        assert!(!shows_exec(&stat("Z", 4096, 0, 0)), "it is dead");
        assert!(!shows_exec(&stat("S", 0, 0, 0)), "it is the kernel's, or dying");
        assert!(!shows_exec(&stat("R", 4096, 1, 0)), "it is another user's");
        assert!(!shows_exec(""));
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(!shows_exec(&own), "{own}");
    }

    #[test]
    fn environment_of_a_process_in_exec_is_read_again() {
        for in_exec in [true, false] {
            let mut reads = vec![Ok(b"A=1\0".to_vec()), Ok(Vec::new())];
            let environ = whole_environ(|| reads.pop().unwrap(), || in_exec);
            assert_eq!((environ, reads.len()), (b"A=1\0".to_vec(), 0), "{in_exec}");
        }
        assert_eq!(whole_environ(|| Ok(Vec::new()), || false), b"");
        assert_eq!(whole_environ(|| Err(io::ErrorKind::NotFound.into()), || true), b"");
        let mut reads = 0;
        whole_environ(
            || {
                reads += 1;
                Ok(Vec::new())
            },
            || true,
        );
        assert_eq!(reads, EXEC_READS_MAX);
    }

    #[test]
    fn own_process_is_listed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = processes().into_iter().find(|process| process.pid == own).unwrap();
        assert_eq!(Some(found), process(own));
        assert!(!found.zombie && !found.dying);
    }
}
