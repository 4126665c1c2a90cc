//! The socket at which a run's programs reach the fleet's tools. Its path may be longer than the kernel takes for the
//! address of a socket, so it is reached by its directory.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::net::UnixListener;

/// The first argument of the program that calls [`relay_main`]; the path of the socket follows.
pub const RELAY: &str = "mcp-relay";
/// The name of the socket in the directory in which an agent keeps its conversation.
const NAME: &str = "fleet.socket";

/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Where the socket of an agent is that keeps its conversation there.
pub(crate) fn socket_in(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// A short path of the same file, for as long as the directory is held.
fn shortened(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("{} names no file", path.display())));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = openat(CWD, directory, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string()).join(name);
    Ok((held, short))
}

/// Listens there, in place of an earlier session.
pub(in crate::backend::process) fn listen(path: &Path) -> io::Result<UnixListener> {
    let (_held, short) = shortened(path)?;
    match std::fs::remove_file(&short) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(cause),
    }
    UnixListener::bind(short)
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_held, short) = shortened(path)?;
    UnixStream::connect(short)
}

/// Passes on what is said on standard input and output, until one side ends. A coding agent starts it as its server of
/// the fleet's tools.
///
/// # Errors
/// Nobody listens at this socket, or nobody reads.
pub fn relay_main(socket: &Path) -> io::Result<()> {
    let from_host = connect(socket)?;
    let to_host = from_host.try_clone()?;
    thread::spawn(move || {
        // The host answers what it was told before, and ends.
        let _ended = pass_on(io::stdin().lock(), &to_host);
        let _gone = to_host.shutdown(Shutdown::Write);
    });
    pass_on(from_host, io::stdout().lock())
}

/// Each piece at once. `io::copy` lets the kernel move what it can, which waits for more.
fn pass_on(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = [0; PIECE_BYTES];
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(piece.get(..count).unwrap_or_default())?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_of_a_long_path_is_reached_and_replaces_an_earlier_one() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("d".repeat(120));
        std::fs::create_dir(&directory).unwrap();
        let path = socket_in(&directory);
        assert!(connect(&path).is_err());
        drop(listen(&path).unwrap());
        let listener = listen(&path).unwrap();
        let _stream = connect(&path).unwrap();
        listener.accept().await.unwrap();
    }
}
