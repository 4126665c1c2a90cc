//! The gateway with a server behind it: who may call, what is set aside before and booked after, and when.

use std::sync::mpsc as blocking;
use std::thread;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// A header of answers whose connection stays open.
const MORE_TO_COME: &str = "X-More: 1";
const KEY: &str = "sk-provider-0123456789";

/// A model's server that answers one request after the other with these bytes, and gives on what it read.
fn upstream(answers: Vec<String>) -> (Url, blocking::Receiver<String>) {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/v1", listener.local_addr().unwrap())).unwrap();
    let (tell, told) = blocking::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut read, mut part) = (String::new(), [0; 4096]);
            let whole = |read: &str| {
                let (head, body) = read.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
                (body.len() >= length.map_or(0, |it| it.parse().unwrap())).then_some(())
            };
            while whole(&read).is_none() {
                let count = stream.read(&mut part).unwrap();
                read.push_str(std::str::from_utf8(&part[..count]).unwrap());
            }
            tell.send(read).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            if answer.contains(MORE_TO_COME) {
                std::mem::forget(stream);
            }
        }
    });
    (url, told)
}

fn answer(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nRetry-After: 7\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn stream(events: &[Value]) -> String {
    let body: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    answer("200 OK", "text/event-stream", &body)
}

fn messages() -> String {
    stream(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 30, "output_tokens": 1}}}),
        json!({"type": "message_delta", "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ])
}

struct Stage {
    gateway: Arc<ModelGateway>,
    _server: GatewayServer,
    events: mpsc::UnboundedReceiver<RunnerEvent>,
}

/// A gateway whose grant has room for `free` tokens a call.
fn stage(base_url: &Url, key: Option<&str>, free: u64) -> Stage {
    let price = Price { input: 1_000_000, output: 2_000_000, cached: 0 };
    let prices = [("anthropic/m".to_owned(), price)].into_iter().collect();
    let target = GatewayTarget {
        base_url,
        provider: "anthropic",
        output_max: None,
        budget: Limits { tokens: Some(100_000), ..Limits::default() },
        key: key.map(|key| ApiKey::new(key.to_owned()).unwrap()),
        prices: &prices,
        is_open: true,
        whose: Whose { agent: "w".into(), profile: "p".into(), run: "r".into(), trace: None },
    };
    let gateway = Arc::new(ModelGateway::open(target).unwrap());
    let (tell, mut told) = mpsc::channel(8);
    let server = gateway.serve(tell).unwrap().unwrap();
    let (seen, events) = mpsc::unbounded_channel();
    let session = Arc::clone(&gateway);
    tokio::spawn(async move {
        while let Some(event) = told.recv().await {
            if let RunnerEvent::SetAside { call, worst } = &event {
                let fits = worst.tokens <= free;
                let verdict = if fits { Ok(()) } else { Err(format!("{} tokens", worst.tokens)) };
                assert!(session.answered(call, verdict));
            }
            let _over = seen.send(event);
        }
    });
    Stage { gateway, _server: server, events }
}

impl Stage {
    async fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(self.gateway.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).await.unwrap();
        read
    }

    fn token(&self) -> String {
        format!("x-api-key: {}\r\n", self.gateway.key().unwrap())
    }

    /// What was booked until now.
    fn booked(&mut self) -> Vec<RunnerEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}

fn call(output: u64) -> String {
    json!({"model": "m", "max_tokens": output, "stream": true}).to_string()
}

#[tokio::test]
async fn call_is_set_aside_before_it_and_booked_before_its_end() {
    let (url, read) = upstream(vec![messages()]);
    let mut it = stage(&url, Some(KEY), 100_000);
    assert_eq!(it.gateway.base_url(), format!("http://{}/v1", it.gateway.address()));
    let got = it.post("/v1/messages?beta=true", &it.token(), &call(4000)).await;
    assert!(got.starts_with("HTTP/1.1 200 OK") && got.contains("message_stop"), "{got}");
    let events = it.booked();
    let [RunnerEvent::SetAside { call, worst }, RunnerEvent::Spent { call: over, used }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((call, worst.turns), (over, 0));
    assert!(worst.tokens > 4000 && worst.cost_micro > 8000, "{worst:?}");
    assert_eq!(*used, Spend { tokens: 39, cost_micro: 30 + 18, turns: 0 });
    let read = read.recv().unwrap();
    assert!(read.starts_with("POST /v1/messages?beta=true"), "{read}");
    assert!(read.contains(&format!("x-api-key: {KEY}")) && !read.contains(&it.token()), "{read}");
    assert_eq!(it.gateway.withheld(), None);
}

/// The program may end as soon as it has the last event, which is not the end of the connection.
#[tokio::test]
async fn call_is_booked_before_its_last_event_is_passed_on() {
    let open =
        messages().replace("Content-Length: ", &format!("{MORE_TO_COME}\r\nContent-Length: 1"));
    let (url, _read) = upstream(vec![open]);
    let mut it = stage(&url, Some(KEY), 100_000);
    let body = call(4000);
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{body}",
        it.token(),
        body.len()
    );
    let mut stream = TcpStream::connect(it.gateway.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut read, mut part) = (String::new(), [0; 4096]);
    while !read.contains("message_stop") {
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "{read}");
        read.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    let set_aside = it.events.recv().await.unwrap();
    let spent = it.events.recv().await.unwrap();
    assert!(matches!(set_aside, RunnerEvent::SetAside { .. }), "{set_aside:?}");
    assert!(matches!(spent, RunnerEvent::Spent { used, .. } if used.tokens == 39), "{spent:?}");
}

#[tokio::test]
async fn call_that_does_not_fit_is_shortened_or_refused() {
    let (url, read) = upstream(vec![messages()]);
    let mut it = stage(&url, Some(KEY), 9000);
    it.post("/v1/messages", &it.token(), &call(32_000)).await;
    let sent = read.recv().unwrap();
    assert!(sent.contains(r#""max_tokens":8000"#), "{sent}");
    assert_eq!(it.booked().len(), 4, "it was tried with 32,000, 16,000 and 8,000");
    let long = json!({"model": "m", "max_tokens": 1, "system": "x".repeat(20_000)}).to_string();
    let refused = it.post("/v1/messages", &it.token(), &long).await;
    assert!(refused.starts_with("HTTP/1.1 402 "), "{refused}");
    assert!(refused.contains("the call is not made: 10"), "{refused}");
    assert!(it.gateway.withheld().unwrap().ends_with(" tokens"));
    assert!(read.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn stranger_and_other_requests_are_refused_without_a_call() {
    let (url, read) = upstream(Vec::new());
    let mut it = stage(&url, Some(KEY), 100_000);
    for (path, headers, status) in [
        ("/v1/messages", String::new(), 401),
        ("/v1/messages", "x-api-key: other\r\n".to_owned(), 401),
        ("/v1/messages", format!("x-api-key: {KEY}\r\n"), 401),
        ("/v1/messages", it.token().replace(": ", ": Bearer "), 401),
        ("/v1/messages", it.token().replace("x-api-key: ", "Authorization: X"), 401),
        ("/v1/messages", it.token().replace("x-api-key", "Authorization"), 401),
        ("/v1/messages?fields=id", it.token(), 400),
        ("/v1/files", it.token(), 404),
        ("/messages", it.token(), 404),
        ("/v1/messages", it.token() + "Content-Encoding: zstd\r\n", 415),
        ("/v1/responses", it.token(), 400),
    ] {
        let body = r#"{"background": true}"#;
        let refused = it.post(path, &headers, body).await;
        assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers}: {refused}");
        assert!(refused.contains(r#""message":"Tetrarch: "#), "{refused}");
    }
    assert_eq!(it.booked(), [], "nothing was set aside");
    assert!(read.try_recv().is_err());
}

/// Servers say which key they were called with, and in which form it was.
#[tokio::test]
async fn key_that_a_server_repeats_is_not_passed_back() {
    let body = format!(r#"{{"error": "no key {KEY}"}}"#);
    let refused = answer(&format!("401 Unauthorized\r\nX-Key: {KEY}"), "application/json", &body);
    let (url, read) = upstream(vec![refused]);
    let it = stage(&url, Some(KEY), 100_000);
    let token = it.token().replace("x-api-key: ", "Authorization: bearer ");
    let got = it.post("/v1/messages", &token, &call(10)).await;
    assert!(read.recv().unwrap().contains(&format!("authorization: Bearer {KEY}")));
    assert!(got.contains("no key [redacted:provider_key]") && !got.contains(KEY), "{got}");
}

#[tokio::test]
async fn call_is_carried_to_its_end_when_its_program_has_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/v1", listener.local_addr().unwrap())).unwrap();
    let mut it = stage(&url, Some(KEY), 100_000);
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let body = call(4000).replace("true", "false");
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{body}",
        it.token(),
        body.len()
    );
    let mut program = TcpStream::connect(it.gateway.address()).await.unwrap();
    program.write_all(request.as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert!(server.read(&mut [0; 4096]).await.unwrap() > 0);
    drop(program);
    // Its connection is over when another one can be told so.
    it.post("/v1/files", &it.token(), "").await;
    let usage = json!({"usage": {"input_tokens": 30, "output_tokens": 9}}).to_string();
    let whole = answer("200 OK", "application/json", &usage);
    server.write_all(whole.as_bytes()).await.unwrap();
    assert!(matches!(it.events.recv().await.unwrap(), RunnerEvent::SetAside { .. }));
    let spent = it.events.recv().await.unwrap();
    assert!(matches!(spent, RunnerEvent::Spent { used, .. } if used.tokens == 39), "{spent:?}");
}

#[tokio::test]
async fn connections_of_strangers_give_way_to_the_runs_own() {
    let (url, _read) = upstream(vec![messages()]);
    let it = stage(&url, Some(KEY), 100_000);
    let mut strangers = Vec::new();
    for _ in 0..200 {
        let mut stranger = TcpStream::connect(it.gateway.address()).await.unwrap();
        stranger.write_all(b"POST /v1/messages HT").await.unwrap();
        strangers.push(stranger);
    }
    let (token, body) = (it.token(), call(10));
    let got = it.post("/v1/messages", &token, &body);
    let got = tokio::time::timeout(Duration::from_secs(10), got).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
}

#[tokio::test]
async fn refused_call_costs_nothing_and_its_answer_is_passed_back() {
    let busy = answer("429 Too Many Requests", "application/json", r#"{"error": "later"}"#);
    let (url, _read) = upstream(vec![busy]);
    let mut it = stage(&url, Some(KEY), 100_000);
    let got = it.post("/v1/messages", &it.token(), &call(10)).await;
    assert!(got.starts_with("HTTP/1.1 429 ") && got.contains("retry-after: 7"), "{got}");
    assert!(got.ends_with(r#"{"error": "later"}"#), "{got}");
    let events = it.booked();
    assert!(
        matches!(&events[1], RunnerEvent::Spent { used, .. } if *used == Spend::default()),
        "{events:?}"
    );
}

#[tokio::test]
async fn stream_that_breaks_off_counts_what_was_read_and_written() {
    let whole = messages();
    let cut = whole.split("data: {\"type\":\"message_delta\"").next().unwrap().to_owned();
    let (url, _read) = upstream(vec![cut]);
    let mut it = stage(&url, Some(KEY), 100_000);
    it.post("/v1/messages", &it.token(), &call(4000)).await;
    let events = it.booked();
    let [_, RunnerEvent::Spent { used, .. }] = &events[..] else { panic!("{events:?}") };
    assert!((31..200).contains(&used.tokens), "{used:?}");
}

#[tokio::test]
async fn program_without_a_key_is_known_by_its_path() {
    let (url, read) = upstream(vec![messages()]);
    let it = stage(&url, None, 100_000);
    assert_eq!(it.gateway.key(), None);
    let own = Url::parse(&it.gateway.base_url()).unwrap();
    let refused = it.post("/v1/messages", "Authorization: Bearer own\r\n", &call(9)).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let path = format!("{}/messages", own.path());
    let got = it.post(&path, "Authorization: Bearer own\r\n", &call(9)).await;
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    let sent = read.recv().unwrap();
    assert!(sent.starts_with("POST /v1/messages HTTP"), "{sent}");
    assert!(sent.contains("authorization: Bearer own"), "its own credential is passed on: {sent}");
}

#[tokio::test]
async fn programs_in_a_network_of_their_own_call_through_its_proxy() {
    let url = Url::parse("https://models.example/v1").unwrap();
    let it = stage(&url, Some(KEY), 1);
    let closed = Stage {
        gateway: Arc::new(ModelGateway {
            is_open: false,
            state: Arc::clone(&it.gateway.state),
            address: it.gateway.address,
            listener: Mutex::new(None),
        }),
        ..it
    };
    assert_eq!(closed.gateway.base_url(), format!("http://{}/v1", proxy::ADDRESS));
    assert!(!format!("{:?}", closed.gateway).contains(&closed.gateway.state.token.0));
}
