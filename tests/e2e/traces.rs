//! One run is one trace: every span that a collector receives for it has the run's trace id, and
//! every agent's span hangs below the run's own (spec 07, Traces).

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

use tetrarch_tests::Fleet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::acting;

/// A span as a collector gets it.
#[derive(Debug, Clone)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
}

/// The fields of a protobuf message: number and contents of those that are bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            5 => 4,
            wire => panic!("wire type {wire}"),
        };
        let (content, rest) = bytes.split_at(length);
        found.push((key >> 3, content));
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
    panic!("no number")
}

fn inside(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter(move |(found, _)| *found == number).map(|(_, bytes)| bytes)
}

/// The spans of an `ExportTraceServiceRequest`: resource spans, scope spans, spans.
fn spans(request: &[u8]) -> Vec<Span> {
    let scopes = inside(request, 1).flat_map(|resource| inside(resource, 2));
    scopes
        .flat_map(|scope| inside(scope, 2))
        .map(|span| {
            let one = |number| inside(span, number).next().unwrap_or_default().to_vec();
            let name = String::from_utf8(one(5)).unwrap();
            Span { trace: one(1), id: one(2), parent: one(4), name }
        })
        .collect()
}

/// Takes what collectors take, over HTTP, until the test is over.
async fn collector() -> (String, Receiver<Vec<Span>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, taken) = channel();
    drop(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            drop(tokio::spawn(async move {
                let mut stream = stream;
                while let Some(body) = request(&mut stream).await {
                    if tell.send(spans(&body)).is_err() {
                        return;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                }
            }));
        }
    }));
    (url, taken)
}

/// The body of the next request on a connection; none when it is closed.
async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            assert!(text.starts_with("post /v1/traces "), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.unwrap().trim().parse().unwrap();
            if bytes.len() >= head + 4 + length {
                return Some(bytes[head + 4..head + 4 + length].to_vec());
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_is_one_trace_through_all_agents() {
    let (url, taken) = collector().await;
    let fleet = Fleet::prepared().with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", url);
    let mut fleet = fleet.started();
    let plan = serde_json::json!({
        "project": "traced",
        "goal": {"title": "Leave a trace"},
        "phases": [{"id": "P1", "name": "Go", "tasks": [
            {"id": "T1.1", "name": "plain", "profile": "plain", "acceptance": ["x"]},
            {"id": "T1.2", "name": "nested", "role": "specialist", "domain": "d",
             "profile": "nest", "deps": ["T1.1"], "acceptance": ["x"]},
        ]}],
        "profiles": {
            "plain": {"argv": ["sh", "-c", "echo $TRACEPARENT"]},
            "nest": {"argv": acting(&["nest"]), "wall": "60s"},
            "deeper": {"argv": acting(&["deeper"]), "wall": "60s"},
        },
    });
    let plan = fleet.file("traced.json", &plan.to_string());
    let told = fleet.ok(["run", "--quiet", plan.to_str().unwrap()]);
    // Every process sends what it has before it ends.
    fleet.stop();
    let all: Vec<Span> = taken.try_iter().flatten().collect();

    let roots: Vec<&Span> = all.iter().filter(|s| s.name.starts_with("invoke_workflow")).collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
    let root = roots[0];
    assert!(root.parent.is_empty(), "{root:?}");
    let ours: BTreeMap<&[u8], &Span> =
        all.iter().filter(|s| s.trace == root.trace).map(|s| (s.id.as_slice(), s)).collect();

    // The specialist's worker hangs below the specialist's own span, and all below the run's.
    let agents: Vec<&Span> = all.iter().filter(|s| s.name.starts_with("invoke_agent")).collect();
    let names = |prefix: &str| {
        let name = format!("invoke_agent {prefix}");
        agents.iter().filter(|span| span.name.starts_with(&name)).count()
    };
    assert_eq!((names("W:"), names("S:")), (2, 1), "{agents:?}");
    let above = |span: &Span| -> Vec<&Span> {
        let mut line = Vec::new();
        let mut next = span.parent.clone();
        while let Some(parent) = ours.get(next.as_slice()) {
            assert!(line.len() < ours.len(), "a circle above {span:?}");
            line.push(*parent);
            next = parent.parent.clone();
        }
        line
    };
    for span in agents.iter().filter(|span| !span.name.contains("PO-")) {
        assert_eq!(span.trace, root.trace, "{span:?}");
        let line = above(span);
        assert_eq!(line.last().map(|top| &top.id), Some(&root.id), "{span:?} below {line:?}");
    }
    let specialist = agents.iter().find(|span| span.name.contains(" S:")).unwrap();
    let below = |span: &Span| above(span).iter().any(|parent| parent.id == specialist.id);
    assert_eq!(agents.iter().filter(|span| below(span)).count(), 1, "the specialist's own worker");

    // What an agent's program is told is the same trace.
    let trace: String = root.trace.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(told.contains(&format!("00-{trace}-")), "{trace} in\n{told}");
}
