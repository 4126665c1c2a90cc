//! A bus that others reach: real servers with certificates that are trusted, of somebody else, expired or for
//! another name, and clients that want no TLS.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tetrarch_bus::Bus;
use tetrarch_bus::client::{ConnectOptions, Identity};
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::error::ConnectError;
use tetrarch_bus::server::{
    Certificate, Clients, Listen, ManagedServer, ServerConfig, authority_file, tell_revoked,
};

use super::Fixture;

fn listen(name: &str, certificate: Certificate) -> Listen {
    // On every address of this machine, as for others; connected to on loopback.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = SocketAddr::from(([0, 0, 0, 0], port));
    let (name, more_names) = (name.to_owned(), Vec::new());
    Listen { address, name, more_names, certificate, clients: None }
}

async fn server(listen: Listen) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open_or_create(dir.path()).unwrap();
    let config = ServerConfig { listen: Some(listen), ..ServerConfig::new(dir.path()) };
    let server = ManagedServer::start(&config, &authority).await.unwrap();
    let (url, pid) = (server.url().to_owned(), server.pid());
    Fixture { dir, authority, server: Some(server), url, pid }
}

async fn made() -> Fixture {
    server(listen("localhost", Certificate::Made)).await
}

async fn connect(fixture: &Fixture, url: &str, ca: Option<&Path>) -> Result<Bus, ConnectError> {
    let tls_ca = ca.map(Path::to_owned);
    let urls = vec![url.to_owned()];
    Bus::connect(&ConnectOptions { tls_ca, urls, ..fixture.options(&CredentialHolder::Control) })
        .await
}

/// Why there is no TLS, and what is said to do.
async fn refusal(fixture: &Fixture, url: &str, ca: Option<&Path>) -> (String, &'static str) {
    let error = connect(fixture, url, ca).await.unwrap_err();
    let ConnectError::Tls { reason, next, .. } = &error else { panic!("{error}") };
    (reason.clone(), next)
}

/// An authority, and a certificate by it for `localhost`; gives their files.
fn own(dir: &Path, ends: SystemTime) -> (PathBuf, PathBuf, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_text = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut wanted = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    wanted.not_after = ends.into();
    let server_key = KeyPair::generate().unwrap();
    let cert_text = wanted.signed_by(&server_key, &issuer).unwrap().pem();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        dir.join(name)
    };
    let key = file("key.pem", &server_key.serialize_pem());
    (file("cert.pem", &cert_text), key, file("ca.pem", &ca_text))
}

fn certificate((cert, key, ca): (PathBuf, PathBuf, PathBuf)) -> Certificate {
    Certificate::Own { cert, key, ca: Some(ca) }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_certificate_is_trusted_by_its_authority_alone() {
    let fixture = made().await;
    assert!(fixture.url.starts_with("tls://localhost:"), "{}", fixture.url);
    let ca = authority_file(fixture.path()).unwrap();
    connect(&fixture, &fixture.url, Some(&ca)).await.unwrap();

    let stranger = tempfile::tempdir().unwrap();
    let (_, _, other) = own(stranger.path(), SystemTime::now() + Duration::from_secs(60));
    let (reason, next) = refusal(&fixture, &fixture.url, Some(&other)).await;
    assert!(reason.contains("not issued by the CA in") && next.contains("tls/ca.pem"), "{reason}");
    let (reason, next) = refusal(&fixture, &fixture.url, None).await;
    assert!(reason.contains("unknown CA") && next.contains("--tls-ca"), "{reason}");
    let nothing = stranger.path().join("key.pem");
    let (reason, _) = refusal(&fixture, &fixture.url, Some(&nothing)).await;
    assert!(reason.contains("the file contains no certificate"), "{reason}");
    // An address that does not ask for TLS gets it all the same, with the same question.
    let plain = fixture.url.replace("tls://", "nats://");
    connect(&fixture, &plain, Some(&ca)).await.unwrap();
    let (reason, _) = refusal(&fixture, &plain, None).await;
    assert!(reason.contains("unknown CA"), "{reason}");
    // It is for its name, and loopback's address is another.
    let elsewhere = fixture.url.replace("localhost", "127.0.0.1");
    let (reason, next) = refusal(&fixture, &elsewhere, Some(&ca)).await;
    assert!(reason.contains("for another name") && next.contains("--tls-name"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_tls_is_refused_by_the_server() {
    let fixture = made().await;
    let address = fixture.url.replace("tls://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"tls_required\":true"));
    write!(stream, "CONNECT {{\"verbose\":true}}\r\nPING\r\n").unwrap();
    // The server reads a handshake and finds none: it ends the connection and looks at no credential.
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(said.iter().all(|line| !line.contains("Authorization")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_without_tls_to_a_plain_server() {
    let fixture = Fixture::start().await;
    let dir = tempfile::tempdir().unwrap();
    let (_, _, ca) = own(dir.path(), SystemTime::now() + Duration::from_secs(60));
    for url in [fixture.url.clone(), fixture.url.replace("nats://", "tls://")] {
        let (reason, next) = refusal(&fixture, &url, Some(&ca)).await;
        assert!(reason.contains("does not use TLS"), "{reason}");
        assert!(next.contains("nats://"), "{next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_certificate_is_used_until_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let own = own(dir.path(), SystemTime::now() + Duration::from_secs(3));
    let ca = own.2.clone();
    let fixture = server(listen("localhost", certificate(own))).await;
    connect(&fixture, &fixture.url, Some(&ca)).await.unwrap();
    let expired = async {
        loop {
            if let Err(error) = connect(&fixture, &fixture.url, Some(&ca)).await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(30), expired).await.unwrap();
    let ConnectError::Tls { reason, next, .. } = error else { panic!("{error}") };
    assert!(reason.contains("expired") && next.contains("--tls-cert"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_keeps_its_authority_and_private_keys() {
    let mut fixture = made().await;
    let (ca, url) = (authority_file(fixture.path()).unwrap(), fixture.url.clone());
    let of = |name: &str| std::fs::read(ca.with_file_name(name)).unwrap();
    let (before, cert) = (of("ca.pem"), of("server.pem"));
    fixture.server.take().unwrap().stop().await.unwrap();
    let again = listen("localhost", Certificate::Made);
    let config = ServerConfig { listen: Some(again), ..fixture.config() };
    let server = ManagedServer::start(&config, &fixture.authority).await.unwrap();
    assert_eq!(of("ca.pem"), before);
    assert_ne!(of("server.pem"), cert);
    for name in ["ca-key.pem", "server-key.pem"] {
        let mode = std::fs::metadata(ca.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    connect(&fixture, server.url(), Some(&ca)).await.unwrap();
    // One that runs with TLS is not what a start for loopback alone finds.
    let here = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    fixture.pid = here.pid();
    assert!(here.url().starts_with("nats://127.0.0.1:") && here.pid() != server.pid());
    assert_eq!(authority_file(fixture.path()), None);
    assert_ne!(here.url(), url);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_requiring_client_certificates_refuses_others() {
    let (good, bad) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ends = SystemTime::now() + Duration::from_secs(3600);
    let identity = |dir: &Path| -> (Identity, PathBuf) {
        let (cert, key, ca) = own(dir, ends);
        (Identity { cert, key }, ca)
    };
    let ((mine, ca), (strange, _)) = (identity(good.path()), identity(bad.path()));
    let clients = Some(Clients { ca, identity: mine.clone() });
    let fixture = server(Listen { clients, ..listen("localhost", Certificate::Made) }).await;
    let reached = fixture.server.as_ref().unwrap().reached();
    let with = async |tls_identity: Option<Identity>| {
        let options = ConnectOptions { tls_identity, ..reached.clone() };
        let named = fixture.options(&CredentialHolder::Control);
        Bus::connect(&ConnectOptions { credentials: named.credentials, ..options }).await
    };
    with(Some(mine)).await.unwrap();
    for (refused, why) in
        [(None, "requires a client certificate"), (Some(strange), "refused the client certificate")]
    {
        let error = with(refused).await.unwrap_err();
        let ConnectError::Tls { reason, next, .. } = &error else { panic!("{error}") };
        assert!(reason.contains(why) && next.contains("bus.tls_cert"), "{error}");
    }
    let revoked = fixture.authority.revoked().unwrap();
    tell_revoked(&reached, &fixture.authority, &revoked).await.unwrap();
    // One that asks for none is not what a start finds that wants them, nor the other way round.
    let plain = Listen { clients: None, ..listen("localhost", Certificate::Made) };
    let config = ServerConfig { listen: Some(plain), ..fixture.config() };
    let again = ManagedServer::start(&config, &fixture.authority).await.unwrap();
    assert!(!again.attached());
    connect(&fixture, again.url(), again.tls_ca()).await.unwrap();
    again.stop().await.unwrap();
}
