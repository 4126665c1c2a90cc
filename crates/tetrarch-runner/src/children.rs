//! The programs this process started and waits for itself. Their exit status belongs to whoever
//! waits for them: a sweep of another run finds them dead as well, and must leave it to them.
//! Every other dead child is an orphan that came to this process, and is waited for here.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::process::{Child, Command};

/// How often each process number is waited for. Children belong to the whole process, so this
/// does too. A number counts twice while one that was waited for is forgotten and its number has
/// already been given to another.
static AWAITED: Mutex<BTreeMap<u32, usize>> = Mutex::new(BTreeMap::new());

/// A program that somebody waits for, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitedChild(u32);

impl Drop for WaitedChild {
    fn drop(&mut self) {
        let mut awaited = awaited();
        if let Some(count) = awaited.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                awaited.remove(&self.0);
            }
        }
    }
}

/// Starts a program whose exit status its caller takes.
///
/// # Errors
/// It does not start.
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Pid, WaitedChild)> {
    // Held over the start: a program may be dead before its number is known.
    let mut awaited = awaited();
    let child = command.spawn()?;
    let number = child.id().ok_or_else(|| io::Error::other("it has no process id"))?;
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("its process id is not valid"))?;
    *awaited.entry(number).or_default() += 1;
    Ok((child, pid, WaitedChild(number)))
}

/// Takes the exit status of a dead child that nobody waits for, so that its number becomes free.
pub(crate) fn reap(number: i32) {
    let awaited = awaited();
    let wanted = u32::try_from(number).is_ok_and(|number| awaited.contains_key(&number));
    if wanted {
        return;
    }
    let Some(pid) = Pid::from_raw(number) else {
        return;
    };
    if let Err(cause) = waitpid(Some(pid), WaitOptions::NOHANG) {
        tracing::debug!(%cause, "nothing to wait for");
    }
}

fn awaited() -> MutexGuard<'static, BTreeMap<u32, usize>> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until a child is dead, without taking its status.
    fn until_dead(pid: Pid) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap();
    }

    #[tokio::test]
    async fn awaited_exit_status_is_not_reaped() {
        let (mut child, pid, awaited) = start(Command::new("sh").args(["-c", "exit 7"])).unwrap();
        until_dead(pid);
        reap(pid.as_raw_nonzero().get());
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        drop(awaited);
    }

    #[tokio::test]
    async fn unawaited_exit_status_is_reaped() {
        let (mut child, pid, awaited) = start(Command::new("sh").args(["-c", "exit 7"])).unwrap();
        drop(awaited);
        until_dead(pid);
        reap(pid.as_raw_nonzero().get());
        assert!(child.wait().await.is_err());
    }
}
