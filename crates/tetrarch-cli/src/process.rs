//! What long-running commands share: when to stop, how to say that they are ready, and the
//! instance id by which a lease knows its holder again.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tetrarch_engine::HostStop;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::{CliError, CliResult, Code, new_ulid};

/// The line by which a child tells its supervisor that it is ready.
pub(crate) const READY: &str = "ready";

/// The signals that ask a process to end.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Listens to SIGINT and SIGTERM, and to the SIGHUP of a terminal that is closed: unless whoever started the
    /// process had it ignore that, as `nohup` does.
    ///
    /// # Errors
    /// Signals cannot be listened to.
    fn listen() -> CliResult<Self> {
        let signals = Self::listen_but_hangup()?;
        if ignores_hangup(&std::fs::read_to_string("/proc/self/status")?) {
            return Ok(signals);
        }
        Ok(Self { hangup: Some(signal(SignalKind::hangup())?), ..signals })
    }

    /// Listens to SIGINT and SIGTERM.
    ///
    /// # Errors
    /// Signals cannot be listened to.
    fn listen_but_hangup() -> CliResult<Self> {
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup: None })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether a process of this `/proc/<pid>/status` ignores SIGHUP, the first bit of its mask of ignored signals.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// Turns true at a signal that asks to end; with a parent also when standard input ends, which it does when the
/// parent dies however it dies.
///
/// # Errors
/// Signals cannot be listened to.
pub(crate) fn stop_signal(with_parent: bool) -> CliResult<watch::Receiver<bool>> {
    Ok(stop_at(with_parent, StopSignals::listen()?))
}

/// The same for a process that reads its configuration again at SIGHUP.
///
/// # Errors
/// Signals cannot be listened to.
pub(crate) fn stop_signal_but_hangup(with_parent: bool) -> CliResult<watch::Receiver<bool>> {
    Ok(stop_at(with_parent, StopSignals::listen_but_hangup()?))
}

fn stop_at(with_parent: bool, mut signals: StopSignals) -> watch::Receiver<bool> {
    let (tell, stop) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            () = signals.next() => {}
            () = parent_gone(), if with_parent => {}
        }
        // Nobody left to tell means that it ends anyway.
        let _ended = tell.send(true);
        std::future::pending::<()>().await;
    });
    stop
}

/// What a host is to do: at the first signal that asks to end it drains, at the second it ends; it ends too when its
/// parent dies, of which it learns by the end of standard input.
///
/// # Errors
/// Signals cannot be listened to.
pub(crate) fn host_stop(with_parent: bool) -> CliResult<watch::Receiver<HostStop>> {
    let (tell, stop) = watch::channel(HostStop::No);
    let mut signals = StopSignals::listen()?;
    tokio::spawn(async move {
        let mut parent = std::pin::pin!(parent_gone());
        let mut wanted = HostStop::No;
        while wanted != HostStop::Now {
            let next = if wanted == HostStop::No { HostStop::Drain } else { HostStop::Now };
            wanted = tokio::select! {
                () = signals.next() => next,
                () = &mut parent, if with_parent => HostStop::Now,
            };
            // Nobody left to tell means that it ends anyway.
            let _ended = tell.send(wanted);
        }
        std::future::pending::<()>().await;
    });
    Ok(stop)
}

async fn parent_gone() {
    let mut input = tokio::io::stdin();
    let mut buffer = [0u8; 64];
    while input.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Does a child's work. With a parent says on standard output why it ended: there its supervisor waits for it to be
/// ready.
///
/// # Errors
/// Those of the work.
pub(crate) async fn explained(
    with_parent: bool,
    work: impl Future<Output = CliResult>,
) -> CliResult {
    let ended = work.await;
    if let (true, Err(error)) = (with_parent, &ended) {
        // A supervisor that is gone does not listen.
        let _unheard = crate::output::text(&error.what);
    }
    ended
}

/// Says on standard output that the process is ready, once it is.
pub(crate) fn announce(mut ready: watch::Receiver<bool>) {
    tokio::spawn(async move {
        if ready.wait_for(|ready| *ready).await.is_ok() {
            let mut out = std::io::stdout().lock();
            // A supervisor that is gone does not listen.
            let _unheard = writeln!(out, "{READY}").and_then(|()| out.flush());
        }
    });
}

/// An instance id that is kept in a file, and the lock on it: as long as it is held no other
/// process has the same id.
#[derive(Debug)]
pub(crate) struct Instance {
    /// The id.
    pub(crate) id: String,
    _lock: Option<File>,
}

impl Instance {
    /// The kept id; none when another process of this machine holds it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn kept(data_dir: &Path, name: &str) -> CliResult<Option<Self>> {
        std::fs::create_dir_all(data_dir).map_err(|error| at(data_dir, &error))?;
        let path = data_dir.join(format!("{name}.instance"));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| at(&path, &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let mut id = String::new();
        file.read_to_string(&mut id).map_err(|error| at(&path, &error))?;
        if id.trim().is_empty() {
            id = new_ulid().to_string();
            // After a power cut a lease still knows its holder again.
            let kept = file.write_all(id.as_bytes()).and_then(|()| file.sync_all());
            let kept = kept.and_then(|()| File::open(data_dir)?.sync_all());
            kept.map_err(|error| at(&path, &error))?;
        }
        Ok(Some(Self { id: id.trim().to_owned(), _lock: Some(file) }))
    }

    /// An id for this process alone.
    pub(crate) fn fresh() -> Self {
        Self { id: new_ulid().to_string(), _lock: None }
    }
}

fn at(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(Code::Failed, format!("{}: {error}", path.display()))
}

/// Where this process can be found, for people.
pub(crate) fn address() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name} pid {}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangup_is_ignored_when_the_first_bit_of_the_mask_says_so() {
        for (mask, ignored) in [
            ("SigIgn:\t0000000000000001", true),
            ("SigIgn:\t0000000000001000", false),
            ("SigIgn:\t0000000000001001", true),
            ("SigIgn:\tx", false),
            ("SigCgt:\t0000000000000001", false),
        ] {
            assert_eq!(
                ignores_hangup(&format!("Name:\tx\n{mask}\nSigPnd:\t1\n")),
                ignored,
                "{mask}"
            );
        }
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains("SigIgn:"), "{own}");
    }
}
