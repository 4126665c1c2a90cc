//! Connecting: each way to fail is told apart.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, Party};
use tetrarch_bus::error::ConnectError;

use super::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_there_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ConnectOptions { urls: vec![format!("nats://{free}")], ..Default::default() };
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_or_missing_credential_is_refused() {
    let fixture = Fixture::start().await;
    let other = tempfile::tempdir().unwrap();
    let stranger = Authority::open_or_create(other.path()).unwrap();
    let mut options = fixture.options(&Party::Control);
    options.credentials = Some(stranger.mint(&Party::Control).unwrap());
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    options.credentials = None;
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    options.credentials = Some(other.path().join("none.creds"));
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_api_prefix_finds_no_jetstream() {
    let fixture = Fixture::start().await;
    let mut options = fixture.options(&Party::Control);
    options.api_prefix = Some("JSS.API".to_owned());
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoJetStream { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_named_with_both_versions() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = r#"{"server_id":"x","version":"2.10.7","max_payload":1048576,"headers":true}"#;
        writeln!(stream, "INFO {info}\r").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("PING") {
                write!(stream, "PONG\r\n").unwrap();
            }
        }
    });
    let options = ConnectOptions { urls: vec![format!("nats://{address}")], ..Default::default() };
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::TooOld { .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("2.10.7") && words.contains("2.14.5"), "{words}");
    server.join().unwrap();
}
