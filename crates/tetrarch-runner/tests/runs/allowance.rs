//! Programs that may reach one host and port: that one through the proxy, and nobody else by any way.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use tetrarch_core::brief::Tools;
use tetrarch_core::order::Start;
use tetrarch_runner::Containment;

use crate::stage::{Stage, python};

/// What a program tries, a line for each; `argv` is the port that is allowed, and another.
const TRIES: &str = r"
import socket, struct, urllib.request
allowed, other, named = sys.argv[1:4]
def tried(what):
    try:
        return what()
    except OSError as error:
        return error.strerror or str(error.__cause__ or error)
def tunnel(host, port, says=b'GET / HTTP/1.0\r\n\r\n'):
    way = os.environ.get('HTTPS_PROXY', '')
    if not way:
        return 'no proxy'
    at, on = way.rsplit('/', 1)[1].split(':')
    with socket.create_connection((at, int(on)), 10) as it:
        it.sendall(b'CONNECT %s:%s HTTP/1.1\r\n\r\n' % (host.encode(), port.encode()))
        first = it.makefile('rb').readline().decode().split(' ')[1]
        if first != '200':
            return first
        it.sendall(says)
        return it.makefile('rb').read().decode().rsplit('\r\n', 1)[1]
def plain(port):
    return urllib.request.urlopen('http://127.0.0.1:%s/' % port, timeout=10).read().decode()
def direct(port):
    with socket.create_connection(('127.0.0.1', int(port)), 10) as it:
        it.sendall(b'GET / HTTP/1.0\r\n\r\n')
        return it.makefile('rb').read().decode().rsplit('\r\n', 1)[1]
def datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.connect(('127.0.0.1', int(port)))
        it.send(b'x')
        it.send(b'x')
        return 'sent'
def local():
    with socket.socket(socket.AF_UNIX) as it:
        it.connect('\0' + named)
        return 'connected'
def home():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    it = os.open('/proc/%d/ns/net' % os.getppid(), os.O_RDONLY)
    return 'moved' if libc.setns(it, 0) == 0 else os.strerror(ctypes.get_errno())
tries = [lambda: plain(allowed), lambda: plain(other), lambda: tunnel('127.0.0.1', other),
    lambda: tunnel('localhost', allowed), lambda: direct(allowed), lambda: direct(other), lambda: datagram(other),
    lambda: local(), lambda: home(), lambda: direct(allowed), lambda: socket.socket(40, socket.SOCK_STREAM)]
for it in tries:
    print(tried(it))
";

/// A server that answers every request with `hello`, and its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = [0; 1024];
            let _much = stream.read(&mut read);
            let _ended = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    port
}

fn trying(tools: &[&str], arguments: [String; 3]) -> Start {
    let mut start = python(TRIES);
    start.brief.runner.argv.extend(arguments);
    start.brief.tools = Tools::from_iter(tools.iter().copied());
    start
}

#[tokio::test]
async fn program_reaches_only_its_permitted_destination() {
    let (allowed, other) = (server(), server());
    let udp = UdpSocket::bind(("127.0.0.1", other)).unwrap();
    let name = format!("tetrarch-test-{}", std::process::id());
    let named = SocketAddr::from_abstract_name(&name).unwrap();
    let _local = UnixListener::bind_addr(&named).unwrap();
    let arguments = || [allowed.to_string(), other.to_string(), name.clone()];
    let entry = format!("network:127.0.0.1:{allowed}");
    if rustix::process::geteuid().is_root() {
        let seen = Stage::new().run(trying(&[&entry], arguments())).await;
        let said: Vec<&str> = seen.made().deliverable.lines().collect();
        assert_eq!(said[..4], ["hello", "HTTP Error 403: Forbidden", "403", "403"], "{seen:?}");
        let refused = ["Connection refused"; 3];
        assert_eq!(said[4..7], refused, "not without the proxy");
        assert_ne!(said[7], "connected", "not by a local socket of another network");
        assert_ne!(said[8], "moved", "not back to the host's network");
        assert_eq!(said[9], "Connection refused");
        assert_eq!(said[10], "Permission denied", "not to the machine below this virtual one");
        assert!(seen.isolation().contains(&format!("127.0.0.1:{allowed} alone, by a proxy")));
        let mut bytes = [0; 8];
        udp.set_nonblocking(true).unwrap();
        assert!(udp.recv(&mut bytes).is_err(), "nothing was sent around it");
    } else {
        let error = Stage::new().refused(trying(&[&entry], arguments())).await;
        assert!(error.contains("single destinations cannot be allowed on this host"), "{error}");
    }
    // Each works with the whole network.
    let seen = Stage::new().run(trying(&["network"], arguments())).await;
    let said: Vec<&str> = seen.made().deliverable.lines().collect();
    assert_eq!(
        said[..8],
        ["hello", "hello", "no proxy", "no proxy", "hello", "hello", "sent", said[7]],
        "{seen:?}"
    );
}

#[tokio::test]
async fn tool_without_a_destination_is_not_started() {
    for required in [false, true] {
        let mut stage = Stage::with(|config| {
            config.containment = Containment { required, ..Containment::default() };
        });
        let start = trying(&["network:example.org"], [const { String::new() }; 3]);
        let error = stage.refused(start).await;
        assert!(error.contains("network:api.example.org:443"), "{error}");
    }
}
