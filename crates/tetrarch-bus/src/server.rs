//! The managed local nats-server (spec 02): found or fetched, configured for this data directory,
//! started, found again by the next start, and stopped cleanly. Restarting it with backoff is its
//! supervisor's work, not done here.

mod binary;
mod claims;
mod config;
mod error;
mod free_space;
mod health;
mod lock;
mod process;
mod tls;
mod version;
mod warden;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tetrarch_core::words;
use tokio::process::Child;

use crate::client::{Bus, ConnectOptions, Identity};
use crate::creds::{Authority, CredentialHolder, Trusted, private_file};
use crate::error::ConnectError;
use crate::retry::Retry;

use binary::BinaryLocations;

pub use claims::{ClaimsError, tell_revoked};
pub use config::{OwnServer, operator_config, own_config};
pub use error::ServerError;
pub use free_space::{FreeSpace, free_space};
pub use health::Health;
pub use lock::{DataDirLock, ReaderLock};
pub use tls::{Certificate, Clients, Listen};
pub use version::{MIN_VERSION, Version, VersionError};
pub use warden::{REFUSED_FOR, RefusedUsers, guard_pace};

/// Environment variable that names the server binary to use.
pub const BINARY_VARIABLE: &str = "TETRARCH_NATS_SERVER";
/// Time for the server to accept connections and answer for JetStream.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Time between TERM and KILL.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Time between two looks at a server that is not our child.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the port of last time is waited for: its last holder may just be ending.
const PORT_PATIENCE: Duration = Duration::from_secs(3);
/// Attempts to start on a port of our own choice, which another program may take first.
const PORT_ATTEMPTS: u32 = 3;

words! {
    /// What an acknowledged write survives (spec 02, The managed server).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Durability {
        /// The death of any process; a power loss may take back the last second.
        Process = "process",
        /// A power loss too: what cannot be made from the ledger waits for the disk.
        #[default]
        Power = "power",
    }
}

impl Durability {
    /// What it may lose of what was acknowledged, in words; none when nothing.
    #[must_use]
    pub fn loses(self) -> Option<&'static str> {
        match self {
            Self::Process => Some("a power cut may lose the last second of acknowledged writes"),
            Self::Power => None,
        }
    }
}

/// How the managed server is to run.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where everything of this installation is kept.
    pub data_dir: PathBuf,
    /// The loopback port; 0 takes the one used last time, or any free one.
    pub port: u16,
    /// Where it listens when others are to reach it; then `port` is not used.
    pub listen: Option<Listen>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The server binary to use and no other.
    pub binary: Option<PathBuf>,
}

impl ServerConfig {
    /// The defaults for a data directory; the binary may be named by [`BINARY_VARIABLE`].
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            port: 0,
            listen: None,
            durability: Durability::default(),
            binary: std::env::var_os(BINARY_VARIABLE).map(PathBuf::from),
        }
    }

    /// What this process proves itself with to the server.
    fn identity(&self) -> Option<Identity> {
        let clients = self.listen.as_ref()?.clients.as_ref()?;
        Some(clients.identity.clone())
    }
}

/// Where the server's own files are.
#[derive(Debug, Clone)]
pub(crate) struct ServerFiles {
    pub(crate) dir: PathBuf,
}

impl ServerFiles {
    fn open(data_dir: &Path) -> Result<Self, ServerError> {
        let dir = data_dir.join("nats");
        let file_error = |source| ServerError::File { path: dir.clone(), source };
        private_file::private_dir(&dir).map_err(file_error)?;
        let dir = std::fs::canonicalize(&dir).map_err(file_error)?;
        Ok(Self { dir })
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("server.conf")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    pub(crate) fn pid(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.dir.join("server.err")
    }

    fn endpoint(&self) -> PathBuf {
        self.dir.join("endpoint")
    }

    /// The address of last time, and the authority of its certificate when there is one of its own.
    fn last(&self) -> Option<(String, Option<PathBuf>)> {
        let text = std::fs::read_to_string(self.endpoint()).ok()?;
        let mut lines = text.lines();
        Some((lines.next()?.trim().to_owned(), lines.next().map(PathBuf::from)))
    }
}

/// The address of a data directory's managed server, as its last start left it; none when there
/// never was one. It says nothing about whether the server runs.
#[must_use]
pub fn endpoint(data_dir: &Path) -> Option<String> {
    ServerFiles { dir: data_dir.join("nats") }.last().map(|(url, _)| url)
}

/// The file of the authority by which clients know that server; none when it has no TLS, or a
/// certificate that every machine knows.
#[must_use]
pub fn authority_file(data_dir: &Path) -> Option<PathBuf> {
    ServerFiles { dir: data_dir.join("nats") }.last()?.1
}

/// A nats-server that runs for a data directory. Dropping this leaves the server running, for the
/// next start to find; [`ManagedServer::stop`] ends it.
#[derive(Debug)]
pub struct ManagedServer {
    files: ServerFiles,
    url: String,
    tls_ca: Option<PathBuf>,
    tls_identity: Option<Identity>,
    pid: u32,
    child: Option<Child>,
}

impl ManagedServer {
    /// Starts the server, or attaches to the one this data directory already has. Ready means it
    /// took the control credential and answered for JetStream.
    ///
    /// # Errors
    /// No binary, one that is too old, a taken port, or a server that does not become ready; then
    /// with the end of its log.
    pub async fn start(config: &ServerConfig, authority: &Authority) -> Result<Self, ServerError> {
        let files = ServerFiles::open(&config.data_dir)?;
        let credentials = authority.mint(&CredentialHolder::Control)?;
        if let Some(server) = Self::attach(&files, &credentials, config).await? {
            return Ok(server);
        }
        let binary = binary::find(
            &config.data_dir,
            config.binary.as_deref(),
            &BinaryLocations::of_environment(),
        )
        .await?;
        let trusted = authority.trusted()?;
        let mut attempt = 1;
        loop {
            let (url, tls_ca) = prepare(config, &files, &trusted).await?;
            let (child, pid) = process::spawn(&binary, &files)?;
            let tls_identity = config.identity();
            let child = Some(child);
            let mut server = Self { files: files.clone(), url, tls_ca, tls_identity, pid, child };
            match server.ready(&credentials).await {
                Ok(()) => return Ok(server),
                Err(ServerError::Exited { log, .. })
                    if config.port == 0
                        && attempt < PORT_ATTEMPTS
                        && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => {
                    server.stop().await?;
                    return Err(error);
                }
            }
        }
    }

    /// The server of a data directory that runs though nobody looks after it, as the holder of the directory's lock
    /// sees it: its supervisor was killed.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn left(_lock: &DataDirLock, data_dir: &Path) -> Result<Option<Self>, ServerError> {
        let files = ServerFiles::open(data_dir)?;
        let (Some(pid), Some((url, tls_ca))) = (process::running(&files), files.last()) else {
            return Ok(None);
        };
        Ok(Some(Self { files, url, tls_ca, tls_identity: None, pid, child: None }))
    }

    /// The server an earlier start left running, when it still does. One that is on its way out
    /// is waited for, one that listens elsewhere or is not as durable as wanted is ended.
    async fn attach(
        files: &ServerFiles,
        credentials: &Path,
        config: &ServerConfig,
    ) -> Result<Option<Self>, ServerError> {
        let (Some(pid), Some((url, tls_ca))) = (process::running(files), files.last()) else {
            return Ok(None);
        };
        let listens = match &config.listen {
            Some(listen) => listen.url() == url,
            None => url.starts_with("nats://"),
        };
        let written = std::fs::read_to_string(files.config())
            .map_err(|source| ServerError::File { path: files.config(), source })?;
        let clients = config.listen.as_ref().and_then(|listen| listen.clients.as_ref());
        let listens = listens && config::asks_clients(&written) == clients.is_some();
        let wanted = listens && config::has_durability(&written, config.durability);
        let tls_identity = config.identity();
        let mut server = Self { files: files.clone(), url, tls_ca, tls_identity, pid, child: None };
        if !wanted {
            server.end().await?;
            return Ok(None);
        }
        match server.ready(credentials).await {
            Ok(()) => {
                tracing::info!(pid, url = server.url, "found the running nats-server again");
                Ok(Some(server))
            }
            Err(ServerError::Exited { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn ready(&mut self, credentials: &Path) -> Result<(), ServerError> {
        let options = ConnectOptions {
            credentials: Some(credentials.to_owned()),
            name: "tetrarch-ready".to_owned(),
            ..self.reached()
        };
        let mut retry = Retry::until(READY_WITHIN);
        loop {
            if !self.alive()? {
                return Err(ServerError::Exited {
                    pid: self.pid,
                    log: process::log_tail(&self.files),
                });
            }
            let reason = match Bus::connect(&options).await {
                Ok(_) => return Ok(()),
                Err(
                    error @ (ConnectError::Unreachable { .. }
                    | ConnectError::NoJetStream { .. }
                    | ConnectError::Leaderless { .. }),
                ) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if !retry.pause().await {
                let log = process::log_tail(&self.files);
                return Err(ServerError::NotReady { url: self.url.clone(), reason, log });
            }
        }
    }

    fn alive(&mut self) -> Result<bool, ServerError> {
        match &mut self.child {
            Some(child) => {
                let ended = child.try_wait().map_err(|source| process_error(self.pid, source))?;
                Ok(ended.is_none())
            }
            None => Ok(process::running(&self.files) == Some(self.pid)),
        }
    }

    /// The address clients connect to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How it is reached, without a credential.
    #[must_use]
    pub fn reached(&self) -> ConnectOptions {
        ConnectOptions {
            urls: vec![self.url.clone()],
            tls_ca: self.tls_ca.clone(),
            tls_identity: self.tls_identity.clone(),
            ..ConnectOptions::default()
        }
    }

    /// The file of the authority by which clients know it; none as with [`authority_file`].
    #[must_use]
    pub fn tls_ca(&self) -> Option<&Path> {
        self.tls_ca.as_deref()
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it was already running when this start found it.
    #[must_use]
    pub fn attached(&self) -> bool {
        self.child.is_none()
    }

    /// Waits until the server has ended, however it does; gives the end of its log. It may be
    /// cancelled and called again.
    ///
    /// # Errors
    /// The operating system would not tell.
    pub async fn wait(&mut self) -> Result<String, ServerError> {
        match &mut self.child {
            Some(child) => {
                child.wait().await.map_err(|source| process_error(self.pid, source))?;
            }
            None => {
                while process::running(&self.files) == Some(self.pid) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
        Ok(process::log_tail(&self.files))
    }

    /// Ends the server: TERM, at most 10 s, then KILL. It is gone when this returns.
    ///
    /// # Errors
    /// The process cannot be signalled.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        self.end().await
    }

    /// As [`ManagedServer::stop`], for one that is to be started again.
    ///
    /// # Errors
    /// The process cannot be signalled.
    pub async fn end(&mut self) -> Result<(), ServerError> {
        if self.alive()? {
            process::terminate(self.pid).map_err(|source| process_error(self.pid, source))?;
            if tokio::time::timeout(STOP_WITHIN, self.wait()).await.is_err() {
                tracing::warn!(pid = self.pid, "nats-server did not stop; killing it");
                process::kill(self.pid).map_err(|source| process_error(self.pid, source))?;
                self.wait().await?;
            }
        }
        let pid = self.files.pid();
        match std::fs::remove_file(&pid) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ServerError::File { path: pid, source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn process_error(pid: u32, source: io::Error) -> ServerError {
    ServerError::Process { pid, source }
}

fn write(path: &Path, text: &str) -> Result<(), ServerError> {
    private_file::replace(path, text.as_bytes())
        .map_err(|source| ServerError::File { path: path.to_owned(), source })
}

/// Writes what a server and its clients are started with; gives where clients connect, and the file of the
/// authority by which they know the server.
async fn prepare(
    config: &ServerConfig,
    files: &ServerFiles,
    trusted: &Trusted,
) -> Result<(String, Option<PathBuf>), ServerError> {
    let (address, url, tls) = match &config.listen {
        Some(listen) => {
            bind(listen.address)?;
            let tls = listen.files(&config.data_dir)?;
            (listen.address, listen.url(), Some((listen, tls)))
        }
        None => {
            let port = free_port(config.port, files).await?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            (address, format!("nats://{address}"), None)
        }
    };
    let with = tls.as_ref().map(|(listen, tls)| (*listen, tls));
    let text = config::text(files, address, with, config.durability, connections(), trusted);
    write(&files.config(), &text)?;
    let ca = tls.and_then(|(_, tls)| tls.ca);
    let second = ca.as_deref().map_or_else(String::new, |ca| format!("\n{}", ca.display()));
    write(&files.endpoint(), &format!("{url}{second}"))?;
    Ok((url, ca))
}

/// Connections of a server that this process starts: of the files that it may open, half are for its streams.
fn connections() -> u64 {
    let files = getrlimit(Resource::Nofile).maximum;
    files.map_or(config::CONNECTIONS_MAX, |files| config::CONNECTIONS_MAX.min(files / 2))
}

/// The address that nobody else holds right now.
fn bind(address: SocketAddr) -> Result<SocketAddr, ServerError> {
    TcpListener::bind(address)
        .and_then(|listener| listener.local_addr())
        .map_err(|source| ServerError::PortTaken { address, source })
}

/// A loopback port nobody holds right now: the wanted one, else the one of last time so that
/// clients find the server again, which is waited for, else any.
async fn free_port(wanted: u16, files: &ServerFiles) -> Result<u16, ServerError> {
    let bind = |port| bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    if wanted != 0 {
        return bind(wanted).map(|address| address.port());
    }
    let last = files.last().and_then(|(url, _)| url.rsplit(':').next()?.parse::<u16>().ok());
    if let Some(port) = last {
        let mut retry = Retry::until(PORT_PATIENCE);
        loop {
            if bind(port).is_ok() {
                return Ok(port);
            }
            if !retry.pause().await {
                break;
            }
        }
        tracing::warn!(port, "the previous port is taken; clients need the new address");
    }
    bind(0).map(|address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_leaves_half_of_its_files_to_its_streams() {
        let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert!((1..=config::CONNECTIONS_MAX).contains(&connections()));
        assert!(connections() <= files / 2, "{} of {files}", connections());
    }

    #[tokio::test]
    async fn previous_port_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let files = ServerFiles::open(dir.path()).unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        write(&files.endpoint(), &format!("nats://127.0.0.1:{port}")).unwrap();
        // The first is polled first: it finds the port taken.
        let (found, ()) = tokio::join!(free_port(0, &files), async move { drop(held) });
        assert_eq!(found.unwrap(), port);
    }
}
