//! The infrastructure half of the bus against a real nats-server: server, connection, streams,
//! reads and writes, leases, artifacts, permissions. Nothing here knows about agents.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod artifact;
mod connect;
mod credential;
mod lease;
mod matrix;
mod permission;
mod server;
mod stream;
mod tls;

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::server::{ManagedServer, ServerConfig};
use tetrarch_bus::topology;

/// A server of its own, killed when the test is over, however it ends.
struct Fixture {
    dir: TempDir,
    authority: Authority,
    server: Option<ManagedServer>,
    url: String,
    pid: u32,
}

impl Fixture {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let server =
            ManagedServer::start(&ServerConfig::new(dir.path()), &authority).await.unwrap();
        let (url, pid) = (server.url().to_owned(), server.pid());
        Self { dir, authority, server: Some(server), url, pid }
    }

    async fn with_streams() -> (Self, Bus) {
        let fixture = Self::start().await;
        let bus = fixture.bus(&CredentialHolder::Control).await;
        topology::apply(&bus, 1).await.unwrap();
        (fixture, bus)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::new(self.path())
    }

    fn options(&self, party: &CredentialHolder) -> ConnectOptions {
        ConnectOptions {
            urls: vec![self.url.clone()],
            credentials: Some(self.authority.mint(party).unwrap()),
            name: "test".to_owned(),
            ..ConnectOptions::default()
        }
    }

    async fn bus(&self, party: &CredentialHolder) -> Bus {
        Bus::connect(&self.options(party)).await.unwrap()
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone_or_not = kill_process(pid, signal);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        signal(self.pid, Signal::KILL);
    }
}
