//! A collector of a test's own: takes what fleets export over HTTP and reads of it what tests look at.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What it takes, until the test is over.
pub(super) struct Collector {
    /// Where it is.
    pub(super) url: String,
    spans: Receiver<Vec<u8>>,
    counted: Receiver<Vec<u8>>,
}

/// A span as it came; ids are hexadecimal.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
    /// Texts as they are, numbers in decimal, lists with commas.
    pub(super) attributes: BTreeMap<String, String>,
}

impl Span {
    /// What an attribute is; nothing when there is none.
    pub(super) fn is(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ((tell, spans), (tell_counted, counted)) = (channel(), channel());
        drop(tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (tell, tell_counted) = (tell.clone(), tell_counted.clone());
                drop(tokio::spawn(async move {
                    while let Some((place, body)) = request(&mut stream).await {
                        let tell = if place == "/v1/metrics" { &tell_counted } else { &tell };
                        if tell.send(body).is_err() {
                            return;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        stream.write_all(answer).await.unwrap();
                    }
                }));
            }
        }));
        Self { url, spans, counted }
    }

    /// The spans that came since it was asked last.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.spans.try_iter().flat_map(|request| spans(&request)).collect()
    }

    /// Whether something of this name was counted, among what came since it was asked last.
    pub(super) fn counted(&self, name: &str) -> bool {
        let holds = |body: Vec<u8>| body.windows(name.len()).any(|it| it == name.as_bytes());
        self.counted.try_iter().any(holds)
    }
}

/// Where the next request on a connection is to, and its body; none when it is closed.
async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let place = text.strip_prefix("post ").and_then(|text| text.split(' ').next());
            let place = place.unwrap_or_else(|| panic!("{text}")).to_owned();
            assert!(["/v1/traces", "/v1/metrics"].contains(&place.as_str()), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.unwrap().trim().parse().unwrap();
            if bytes.len() >= head + 4 + length {
                return Some((place, bytes[head + 4..head + 4 + length].to_vec()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message, by their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            5 => 4,
            wire => panic!("wire type {wire}"),
        };
        let (content, rest) = bytes.split_at(length);
        found.push((key >> 3, Field::Bytes(content)));
        bytes = rest;
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    // A negative number has ten bytes.
    *bytes = &bytes[1..];
    value
}

fn inside(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        Field::Bytes(_) | Field::Number(_) => None,
    })
}

/// The spans of an `ExportTraceServiceRequest`: resource spans, scope spans, spans.
fn spans(request: &[u8]) -> Vec<Span> {
    let scopes = inside(request, 1).flat_map(|resource| inside(resource, 2));
    scopes
        .flat_map(|scope| inside(scope, 2))
        .map(|span| {
            let one = |number| inside(span, number).next().unwrap_or_default();
            let hex = |number| one(number).iter().map(|byte| format!("{byte:02x}")).collect();
            let attributes = inside(span, 9).map(|pair| {
                let part = |number| inside(pair, number).next().unwrap_or_default();
                (text(part(1)), any(part(2)))
            });
            Span {
                trace: hex(1),
                id: hex(2),
                parent: hex(4),
                name: text(one(5)),
                attributes: attributes.collect(),
            }
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An `AnyValue`: a text, a number, or a list of them.
fn any(value: &[u8]) -> String {
    match fields(value).into_iter().next() {
        Some((1, Field::Bytes(bytes))) => text(bytes),
        Some((5, Field::Bytes(list))) => inside(list, 1).map(any).collect::<Vec<_>>().join(","),
        Some((_, Field::Number(number))) => number.to_string(),
        Some((_, Field::Bytes(_))) | None => String::new(),
    }
}
