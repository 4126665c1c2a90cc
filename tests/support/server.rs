//! A nats-server of a test's own: its data directory, its port, its credentials. It is killed
//! when the test is over, however it ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::server::{Durability, ManagedServer, ServerConfig};
use tetrarch_bus::topology;

/// A running server with all streams.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    authority: Authority,
    url: String,
    pid: u32,
}

/// Starts a server of its own for a test, with all streams.
pub async fn server() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open_or_create(dir.path()).unwrap();
    let (url, pid) = start(dir.path(), &authority).await;
    let server = Server { dir, authority, url, pid };
    topology::apply(&server.control().await, 1).await.unwrap();
    server
}

/// What an acknowledged write survives on a test's own server: what `TETRARCH_BUS_DURABILITY` says, as it does for
/// the binary.
#[must_use]
pub fn durability() -> Durability {
    match std::env::var("TETRARCH_BUS_DURABILITY").as_deref() {
        Ok("process") => Durability::Process,
        Ok(_) | Err(_) => Durability::default(),
    }
}

async fn start(data_dir: &Path, authority: &Authority) -> (String, u32) {
    let mut config = ServerConfig { durability: durability(), ..ServerConfig::new(data_dir) };
    let fetched = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/nats-server"));
    if config.binary.is_none() && fetched.is_file() {
        config.binary = Some(fetched);
    }
    let server = ManagedServer::start(&config, authority).await.unwrap();
    (server.url().to_owned(), server.pid())
}

impl Server {
    /// Its data directory, where its credentials are.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new connection as this party.
    pub async fn bus(&self, party: &CredentialHolder) -> Bus {
        let options = ConnectOptions {
            urls: vec![self.url.clone()],
            credentials: Some(self.authority.mint(party).unwrap()),
            name: "test".to_owned(),
            ..ConnectOptions::default()
        };
        Bus::connect(&options).await.unwrap()
    }

    /// A new connection as the owner.
    pub async fn control(&self) -> Bus {
        self.bus(&CredentialHolder::Control).await
    }

    /// Kills the server without notice. It is gone, and its port is free, when this returns.
    pub async fn kill(&self) {
        signal(self.pid, Signal::KILL);
        let mut retry = Retry::until(Duration::from_secs(10));
        while runs(self.pid) {
            assert!(retry.pause().await, "nats-server does not end");
        }
    }

    /// What a stream has on the disk, to be put back. The server has to be killed.
    pub fn stored(&self, stream: &str) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&self.store(stream), copy.path());
        copy
    }

    /// Puts back what a stream had on the disk, as if the rest had never got there. The server has to be killed.
    pub fn put_back(&self, stream: &str, copy: &Path) {
        let store = self.store(stream);
        std::fs::remove_dir_all(&store).unwrap();
        copy_dir(copy, &store);
    }

    fn store(&self, stream: &str) -> PathBuf {
        let accounts = std::fs::read_dir(self.dir.path().join("nats/store/jetstream")).unwrap();
        let stores = accounts.map(|account| account.unwrap().path().join("streams").join(stream));
        let found: Vec<PathBuf> = stores.filter(|store| store.is_dir()).collect();
        assert_eq!(found.len(), 1, "{stream}: {found:?}");
        found.into_iter().next().unwrap()
    }

    /// Has the server stand still, as a paused machine does. It does when this returns.
    pub async fn pause(&self) {
        signal(self.pid, Signal::STOP);
        let mut retry = Retry::until(Duration::from_secs(10));
        while !stands_still(self.pid) {
            assert!(retry.pause().await, "nats-server does not stand still");
        }
    }

    /// Has a paused server go on.
    pub fn resume(&self) {
        signal(self.pid, Signal::CONT);
    }

    /// Starts it again after [`Server::kill`], with the same data at the same address.
    pub async fn restart(&mut self) {
        let (url, pid) = start(self.dir.path(), &self.authority).await;
        assert_eq!(url, self.url, "clients have to find it again");
        self.pid = pid;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.pid, Signal::KILL);
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Whether every thread of a process is stopped.
fn stands_still(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat"))).all(|stat| {
        let stat = stat.unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

/// Whether any thread of a process still runs: the last one closes its sockets.
fn runs(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let stats = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("stat")));
    stats.flatten().any(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default();
        !state.trim_start().starts_with(['Z', 'X'])
    })
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone_or_not = kill_process(pid, signal);
    }
}
