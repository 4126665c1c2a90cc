//! The managed server's life: ready, found again, stopped, killed, started anew.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tetrarch_bus::HeaderMap;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::server::{ManagedServer, ServerError, endpoint};
use tetrarch_bus::topology;

use super::{Fixture, signal};

#[tokio::test(flavor = "multi_thread")]
async fn running_server_is_found_and_stopped_one_restarted_at_its_address() {
    let mut fixture = Fixture::start().await;
    assert_eq!(endpoint(fixture.path()).unwrap(), fixture.url);
    drop(fixture.server.take());
    let found = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    assert!(found.attached());
    assert_eq!((found.pid(), found.url()), (fixture.pid, fixture.url.as_str()));
    found.stop().await.unwrap();

    let mut anew = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    fixture.pid = anew.pid();
    assert!(!anew.attached());
    assert_eq!(anew.url(), fixture.url);
    signal(anew.pid(), Signal::KILL);
    anew.wait().await.unwrap();
    anew.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_the_servers_death() {
    let (mut fixture, bus) = Fixture::with_streams().await;
    let first = fixture.server.take().unwrap();
    let seq =
        bus.publish_expect("ledger.main", HeaderMap::new(), "one".into(), Some(0)).await.unwrap();
    let created = bus.stream_created("LEDGER").await.unwrap();
    signal(first.pid(), Signal::KILL);
    first.stop().await.unwrap();

    let second = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    fixture.pid = second.pid();
    let bus = fixture.bus(&CredentialHolder::Control).await;
    topology::apply(&bus, 1).await.unwrap();
    assert_eq!(bus.stream_last_seq("LEDGER").await.unwrap(), seq);
    assert_eq!(bus.stream_created("LEDGER").await.unwrap(), created);
    let message = bus.get_seq("LEDGER", seq).await.unwrap().unwrap();
    assert_eq!(message.payload.as_ref(), b"one");
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_survives_a_server_restart() {
    let (mut fixture, bus) = Fixture::with_streams().await;
    fixture.server.take().unwrap().stop().await.unwrap();
    let again = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    fixture.pid = again.pid();
    let start = Instant::now();
    while bus.stream_last_seq("LEDGER").await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "it never came back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_port_is_named() {
    let fixture = Fixture::start().await;
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let other = tempfile::tempdir().unwrap();
    let mut config = fixture.config();
    config.data_dir = other.path().to_owned();
    config.port = port;
    let error = ManagedServer::start(&config, &fixture.authority).await.unwrap_err();
    assert!(
        matches!(error, ServerError::PortTaken { address, .. } if address.port() == port),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn server_start_failure_is_explained_by_its_log() {
    let fixture = Fixture::start().await;
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(other.path().join("nats")).unwrap();
    std::fs::write(other.path().join("nats/store"), b"a file where the store should be").unwrap();
    let mut config = fixture.config();
    config.data_dir = other.path().to_owned();
    let error = ManagedServer::start(&config, &fixture.authority).await.unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, ServerError::Exited { .. }), "{words}");
    assert!(words.contains("storage directory"), "{words}");
}
