//! The server's process: starting it, knowing it again by its process id, signalling it, and the
//! end of its log. A process id alone is never trusted: it may belong to another program by now.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::process::{Child, Command};

use super::{ServerError, ServerFiles};

/// Lines of the log shown in an error.
const TAIL_LINES: usize = 20;

/// Starts the server. It gets a process group of its own, so an interrupt typed at a terminal
/// reaches its supervisor and not the server, which is stopped last.
pub(super) fn spawn(binary: &Path, files: &ServerFiles) -> Result<(Child, u32), ServerError> {
    forget(files)?;
    let path = files.stderr();
    let stderr =
        File::create(&path).map_err(|source| ServerError::File { path: path.clone(), source })?;
    let failed = |source| ServerError::Process { pid: 0, source };
    let child = Command::new(binary)
        .arg("-c")
        .arg(files.config())
        .current_dir(&files.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let pid = child.id().ok_or_else(|| failed(io::Error::other("it exited at once")))?;
    Ok((child, pid))
}

/// Removes what an earlier server left: its process id and its log.
fn forget(files: &ServerFiles) -> Result<(), ServerError> {
    for path in [files.pid(), files.log()] {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(ServerError::File { path, source });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The process id of this data directory's server, none when it does not run.
pub(super) fn running(files: &ServerFiles) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(files.pid()).ok()?.trim().parse().ok()?;
    is_ours(pid, files).then_some(pid)
}

fn is_ours(pid: u32, files: &ServerFiles) -> bool {
    let own = Path::new("/proc/self/cmdline");
    if own.exists() {
        let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        let config = files.config();
        return line
            .split(|byte| *byte == 0)
            .any(|word| word == config.as_os_str().as_encoded_bytes());
    }
    raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn raw(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let Some(pid) = raw(pid) else { return Ok(()) };
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Asks the server to end.
pub(super) fn terminate(pid: u32) -> io::Result<()> {
    signal(pid, Signal::TERM)
}

/// Ends the server at once.
pub(super) fn kill(pid: u32) -> io::Result<()> {
    signal(pid, Signal::KILL)
}

/// The last lines of what the server said.
pub(super) fn log_tail(files: &ServerFiles) -> String {
    let mut lines: Vec<String> = Vec::new();
    for path in [files.log(), files.stderr()] {
        let text = std::fs::read(&path).unwrap_or_default();
        lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
    }
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines.split_off(from).join("\n")
}
