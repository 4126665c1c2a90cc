//! The way out for programs of a run that may reach some hosts and ports alone (spec 09, On the host; decision 0089):
//! they have a network of their own, in which there is nobody but this proxy for HTTP. It looks names up, so the
//! programs cannot; what is reached is core's to say (`destination`).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;
use tetrarch_core::destination::{Destination, Network};
use tetrarch_core::limits::ACCEPT_PAUSE;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, lookup_host};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Where it listens. The network is the programs' own, so the port is free.
pub(crate) const ADDRESS: &str = "127.0.0.1:3128";
/// By what programs find it.
const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Connections of one program and what it starts, at one time; more wait.
const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request, in bytes, and most lines of it.
const HEAD_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a head, and a connection, may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Passes on what its programs say, until it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy(JoinHandle<()>);

impl Proxy {
    /// Serves those who connect to `listener`. What is asked of the proxy itself is for the model gateway of the run,
    /// if it has one. To be called in a runtime.
    pub(crate) fn serve(
        listener: TcpListener,
        network: Network,
        gateway: Option<SocketAddr>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let network = Arc::new(network);
        Ok(Self(tokio::spawn(async move {
            let (permits, mut open) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
            loop {
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                let program = accepted(&listener).await;
                let network = Arc::clone(&network);
                open.spawn(async move {
                    if let Err(cause) = pass_on(program, &network, gateway).await {
                        tracing::debug!(%cause, "a connection of a program ended");
                    }
                    drop(permit);
                });
                while open.try_join_next().is_some() {}
            }
        })))
    }
}

/// The next connection of a run's programs. One that cannot be taken does not end the listening.
pub(crate) async fn accepted(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((program, _)) => return program,
            Err(cause) => {
                tracing::warn!(%cause, "a connection of a run's program cannot be taken");
                sleep(Duration::from_millis(ACCEPT_PAUSE.0)).await;
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Has a program use the proxy for these; not for what it serves itself, unless that is what one of them names.
pub(crate) fn announce(command: &mut Command, destinations: &[Destination]) {
    for variable in VARIABLES {
        command.env(variable, format!("http://{ADDRESS}"));
    }
    if destinations.iter().any(Destination::is_of_the_host) {
        return;
    }
    for variable in ["NO_PROXY", "no_proxy"] {
        command.env(variable, "localhost,127.0.0.1,::1");
    }
}

/// Puts the calling thread, and what it starts, into a network of its own with nobody in it, and listens there.
pub(crate) fn enter() -> io::Result<TcpListener> {
    #[expect(
        deprecated,
        reason = "the safe one of the two: unsharing is unsafe where it is of open files, and this is not"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    loopback_up()?;
    TcpListener::bind(ADDRESS)
}

/// Whether programs can be put into a network of their own here. Blocks for a moment.
pub(crate) fn is_there() -> bool {
    // In a thread that ends: this one keeps its network.
    std::thread::spawn(enter).join().is_ok_and(|entered| entered.is_ok())
}

/// Brings up the loopback of a new network, which is its first and only interface (rtnetlink(7)).
fn loopback_up() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 1 | 4;
    const LOOPBACK: u32 = 1;
    const UP: u32 = 1;
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 is the routing one.
        None,
    )?;
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    // Sequence and sender; then family and kind of the interface.
    message.extend([0u32; 3].map(u32::to_ne_bytes).concat());
    message.extend([LOOPBACK, UP, UP].map(u32::to_ne_bytes).concat());
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    let mut answer = [0; 64];
    rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// What a program asked for.
#[derive(Debug, PartialEq, Eq)]
struct ProxyRequest {
    host: String,
    port: u16,
    /// What its host is told first; none for a tunnel.
    head: Option<Vec<u8>>,
    /// Bytes of the head.
    length: usize,
}

async fn pass_on(
    mut program: TcpStream,
    network: &Network,
    gateway: Option<SocketAddr>,
) -> io::Result<()> {
    let mut read = Vec::new();
    let asked = match timeout(WITHIN, asked(&mut program, &mut read)).await {
        Ok(Ok(Some(asked))) => asked,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(cause)) if cause.kind() == io::ErrorKind::InvalidData => {
            return answer(&mut program, "400 Bad Request", &cause.to_string()).await;
        }
        Ok(Err(cause)) => return Err(cause),
        Err(_) => return Ok(()),
    };
    let is_own = format!("{}:{}", asked.host, asked.port) == ADDRESS;
    let reached = match gateway.filter(|_| is_own) {
        Some(gateway) => connect(&asked, &[gateway]).await,
        None => reach(&asked, network).await,
    };
    let mut host = match reached {
        Ok(host) => host,
        Err(Unreached::NotAllowed(why)) => {
            tracing::info!(host = asked.host, port = asked.port, "a program may not reach it");
            return answer(&mut program, "403 Forbidden", &why).await;
        }
        Err(Unreached::Failed(why)) => return answer(&mut program, "502 Bad Gateway", &why).await,
    };
    match &asked.head {
        Some(head) => host.write_all(head).await?,
        None => program.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
    }
    host.write_all(read.get(asked.length..).unwrap_or_default()).await?;
    copy_bidirectional(&mut program, &mut host).await.map(|_| ())
}

/// Reads the head of a request; none when the program says nothing.
async fn asked(program: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<ProxyRequest>> {
    loop {
        if program.read_buf(read).await? == 0 {
            return Ok(None);
        }
        let head = parse(read).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        if head.is_some() {
            return Ok(head);
        }
        if read.len() > HEAD_MAX {
            let why = format!("the head is longer than {HEAD_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
}

/// The head of a request, as far as it is there: a tunnel, or something of a host that is named with it.
fn parse(bytes: &[u8]) -> Result<Option<ProxyRequest>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) =
        request.parse(bytes).map_err(|fault| fault.to_string())?
    else {
        return Ok(None);
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let permit = |authority: &str, port: Option<u16>| -> Option<(String, u16)> {
        // The colons of an address of version 6 stand in brackets.
        let named = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        match (named, port) {
            (Some((host, port)), _) => Some((host.to_owned(), port.parse().ok()?)),
            (None, port) => Some((authority.to_owned(), port?)),
        }
    };
    let wrong = || format!("{method} {target:?} has no host; this is an HTTP proxy");
    if method.eq_ignore_ascii_case("CONNECT") {
        let (host, port) = permit(target, None).ok_or_else(wrong)?;
        return Ok(Some(ProxyRequest { host, port, head: None, length }));
    }
    let (authority, path) = match target.strip_prefix("http://") {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None if target.starts_with('/') => (ADDRESS, target),
        None => return Err(wrong()),
    };
    let (host, port) = permit(authority, Some(80)).ok_or_else(wrong)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\n").into_bytes();
    // The next request may be for another host, so it comes on another connection.
    let between =
        ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "upgrade"];
    for header in request.headers.iter() {
        if !between.contains(&header.name.to_ascii_lowercase().as_str()) {
            head.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
        }
    }
    head.extend(b"Connection: close\r\n\r\n");
    Ok(Some(ProxyRequest { host, port, head: Some(head), length }))
}

/// Why a host is not reached.
enum Unreached {
    NotAllowed(String),
    Failed(String),
}

async fn reach(asked: &ProxyRequest, network: &Network) -> Result<TcpStream, Unreached> {
    let ProxyRequest { host, port, .. } = asked;
    let Some(destination) = network.allowing(host, *port) else {
        let why = format!(
            "this run may not connect to {host}:{port}; allow it with the tool `network:{host}:{port}`"
        );
        return Err(Unreached::NotAllowed(why));
    };
    let failed = |cause: &dyn std::fmt::Display| {
        Unreached::Failed(format!("cannot connect to {host}:{port}: {cause}"))
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(WITHIN, lookup_host((bare, *port))).await.map_err(|late| failed(&late))?;
    let found: Vec<SocketAddr> = found.map_err(|cause| failed(&cause))?.collect();
    let allowed: Vec<SocketAddr> =
        found.into_iter().filter(|address| destination.may_lead_to(address.ip())).collect();
    if allowed.is_empty() {
        let why = format!(
            "{host} resolves to an address of this machine or of a private network; allow that address by itself"
        );
        return Err(Unreached::NotAllowed(why));
    }
    connect(asked, &allowed).await
}

async fn connect(asked: &ProxyRequest, addresses: &[SocketAddr]) -> Result<TcpStream, Unreached> {
    let ProxyRequest { host, port, .. } = asked;
    let failed = |cause: &dyn std::fmt::Display| {
        Unreached::Failed(format!("cannot connect to {host}:{port}: {cause}"))
    };
    let connected = timeout(WITHIN, TcpStream::connect(addresses)).await;
    connected.map_err(|late| failed(&late))?.map_err(|cause| failed(&cause))
}

async fn answer(program: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{why}\n"
    );
    program.write_all(text.as_bytes()).await?;
    program.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<(String, u16, Option<String>)>, String> {
        let asked = parse(text.as_bytes())?;
        Ok(asked.map(|it| (it.host, it.port, it.head.map(|head| String::from_utf8(head).unwrap()))))
    }

    #[test]
    fn tunnel_request_names_host_and_port() {
        let tunnel =
            |target: &str| of(&format!("CONNECT {target} HTTP/1.1\r\nHost: other\r\n\r\n"));
        assert_eq!(tunnel("a.org:443"), Ok(Some(("a.org".to_owned(), 443, None))));
        assert_eq!(tunnel("[::1]:443"), Ok(Some(("[::1]".to_owned(), 443, None))));
        for wrong in ["a.org", "a.org:", "a.org:70000", "[::1]", "/path"] {
            assert!(tunnel(wrong).is_err(), "{wrong}");
        }
        assert_eq!(of("CONNECT a.org:443 HTTP/1.1\r\nHost"), Ok(None), "there is more to come");
    }

    #[test]
    fn plain_request_reaches_its_target_and_closes_the_connection() {
        let asked = "GET http://a.org:81/x?y HTTP/1.1\r\nHost: b.org\r\nProxy-Authorization: x\r\n\
                     Connection: keep-alive\r\nAccept: */*\r\n\r\n";
        let head = "GET /x?y HTTP/1.1\r\nHost: b.org\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(of(asked), Ok(Some(("a.org".to_owned(), 81, Some(head.to_owned())))));
        let bare = of("GET http://a.org HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!((bare.1, bare.2.unwrap().lines().next()), (80, Some("GET / HTTP/1.1")));
        let own = of("POST /v1/messages HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(format!("{}:{}", own.0, own.1), ADDRESS, "the proxy itself is meant");
        for wrong in ["GET https://a.org/ HTTP/1.1\r\n\r\n", "\0\r\n\r\n"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
