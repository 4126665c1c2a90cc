//! Connecting: each way to fail is told apart.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use futures::StreamExt;
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::error::ConnectError;

use super::Fixture;
use super::matrix::Raw;

#[tokio::test(flavor = "multi_thread")]
async fn absent_server_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ConnectOptions { urls: vec![format!("nats://{free}")], ..Default::default() };
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_or_missing_credential_is_refused() {
    let fixture = Fixture::start().await;
    let other = tempfile::tempdir().unwrap();
    let stranger = Authority::open_or_create(other.path()).unwrap();
    let mut options = fixture.options(&CredentialHolder::Control);
    options.credentials = Some(stranger.mint(&CredentialHolder::Control).unwrap());
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
async fn wrong_api_prefix_finds_no_jetstream() {
    let fixture = Fixture::start().await;
    let mut options = fixture.options(&CredentialHolder::Control);
    options.api_prefix = Some("JSS.API".to_owned());
    let error = Bus::connect(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoJetStream { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_server_is_named_with_both_versions() {
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

/// Header blocks that a publisher may send, and that are none.
const BROKEN: [&[u8]; 10] = [
    b"NATS/1.0\r\nx: a\rb\r\n\r\n",
    b"NATS/1.0 abc\r\n\r\n",
    b"NATS/1.0 -1\r\n\r\n",
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0\r\na b: \xff\xfe\r\n\r\n",
    b"NATS/1.0\r\n folded: x\r\n\r\n",
    b"HTTP/1.1 200\r\n\r\n",
    b"NATS/2.0\r\n\r\n",
    b"NATS/1.0\n\n",
    b"\xff\xff\xff\xff",
];

#[tokio::test(flavor = "multi_thread")]
async fn malformed_message_leaves_its_receiver_connected() {
    let fixture = Fixture::start().await;
    let agent = CredentialHolder::External("PO-demo".parse().unwrap());
    let receiver = fixture.bus(&CredentialHolder::Control).await.client().clone();
    let mut heard = receiver.subscribe("hb.>").await.unwrap();
    let mut asked = receiver.subscribe("op.>").await.unwrap();
    receiver.flush().await.unwrap();
    let address = fixture.url.strip_prefix("nats://").unwrap();
    let mut raw = Raw::connect(address, &fixture.authority.mint(&agent).unwrap());
    for block in BROKEN {
        raw.send(format!("HPUB hb.PO-demo {0} {0}\r\n", block.len()));
        raw.send([block, b"\r\n"].concat());
    }
    let subjects: [&[u8]; 2] = [b"op.\xff\xfe.x.PO-demo", "op.a\u{a0}b.x.PO-demo".as_bytes()];
    for subject in subjects {
        raw.send([b"PUB ", subject, b" 0\r\n\r\n"].concat());
        raw.send([b"HPUB ", subject, b" 12 12\r\nNATS/1.0\r\n\r\n\r\n"].concat());
    }
    assert!(raw.refused().is_empty());
    for block in BROKEN {
        let message = heard.next().await.unwrap();
        assert_eq!(message.status, None, "{}: {message:?}", block.escape_ascii());
    }
    for _ in 0..2 * subjects.len() {
        assert!(asked.next().await.unwrap().subject.starts_with("op."));
    }
    let statistics = receiver.statistics();
    assert_eq!(statistics.connects.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_an_agents_connection_are_limited() {
    let fixture = Fixture::start().await;
    let agent = CredentialHolder::External("PO-demo".parse().unwrap());
    let address = fixture.url.strip_prefix("nats://").unwrap();
    let mut raw = Raw::connect(address, &fixture.authority.mint(&agent).unwrap());
    for number in 0..128 {
        raw.send(format!("SUB mail.PO-demo.a.{number} {number}\r\n"));
    }
    assert!(raw.refused().is_empty());
    raw.send("SUB mail.PO-demo.more 128\r\nPING\r\n");
    assert_eq!(raw.line(), "-ERR 'maximum subscriptions exceeded'");
}
