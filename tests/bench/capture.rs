//! Everything a stretch of the fleet's work writes to the bus, and writing it again without a
//! fleet: the floor under a rate. Order is kept where the contract asks for it, within each
//! subject; nothing else waits for anything.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use async_nats::Message;
use futures::{StreamExt, stream};
use tetrarch_bus::envelope::MSG_ID;
use tetrarch_bus::error::PublishError;
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{LEDGER, TAKES};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_tests::Server;
use tokio::time::Instant;

use crate::fleet::{Fleet, new_id, soon};

/// Lines that are written at once, as the owner's outbox does.
const LINES_AT_ONCE: usize = 512;
/// The fence of a write.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// Longest queue of what was seen and not yet taken.
const SEEN_MAX: usize = 1 << 20;

/// Messages as they were stored, each with the time it was seen.
#[derive(Debug)]
pub(crate) struct Capture {
    messages: Vec<Message>,
    seen: Vec<Duration>,
}

/// Mean sizes of what was written, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Requests, operations, reports.
    pub(crate) request: usize,
    /// One input's part of a ledger entry.
    pub(crate) entry: usize,
    /// Mail and control.
    pub(crate) mail: usize,
    /// Cursors.
    pub(crate) cursor: usize,
    /// Entries of journals.
    pub(crate) journal: usize,
    /// Plan events.
    pub(crate) plan: usize,
}

impl Capture {
    /// Does some work and keeps what it writes, up to the last image in STATE.
    pub(crate) async fn of<T>(fleet: &Fleet, work: impl Future<Output = T>) -> (Self, T) {
        let bus = fleet.server.control().await;
        let mut all = Vec::new();
        for (stream, patterns) in TAKES {
            for pattern in patterns.iter().filter(|_| is_product(stream)) {
                all.push(bus.client().subscribe((*pattern).to_owned()).await.unwrap());
            }
        }
        bus.client().flush().await.unwrap();
        let (tell, mut seen) = tokio::sync::mpsc::channel(SEEN_MAX);
        let started = Instant::now();
        let listening = tokio::spawn(async move {
            let mut all = stream::select_all(all);
            while let Some(message) = all.next().await {
                if tell.send((message, started.elapsed())).await.is_err() {
                    return;
                }
            }
        });
        let done = work.await;
        settled(fleet).await;
        bus.client().flush().await.unwrap();
        listening.abort();
        let mut kept = Vec::new();
        while let Some(one) = seen.recv().await {
            kept.push(one);
        }
        assert!(!kept.is_empty(), "nothing was written");
        let (messages, seen) = kept.into_iter().unzip();
        (Self { messages, seen }, done)
    }

    /// How many messages there are.
    pub(crate) fn count(&self) -> usize {
        self.messages.len()
    }

    /// What was seen when, one line for each message: where the time of a chain goes.
    pub(crate) fn timeline(&self) -> String {
        let mut text = String::new();
        for (message, at) in self.messages.iter().zip(&self.seen) {
            let (ms, bytes) = (at.as_secs_f64() * 1e3, message.payload.len());
            // Writing into a string cannot fail.
            let _written = writeln!(text, "{ms:9.2} ms {bytes:6} {}", message.subject);
        }
        text
    }

    /// Messages and bytes of each kind, with their headers and subjects; plan events are those of an epic and
    /// not of a life, and where a journal is archived is said some seconds after a life.
    pub(crate) fn kinds(&self) -> BTreeMap<String, (usize, usize)> {
        let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for message in &self.messages {
            let tokens: Vec<&str> = message.subject.split('.').collect();
            let kind = match tokens.as_slice() {
                ["plan", ..] => continue,
                ["$KV", "STATE", "run_state", ..] if is_archived(message) => continue,
                ["$KV", "STATE", kind, ..] => format!("STATE {kind}"),
                [head, ..] => (*head).to_owned(),
                [] => String::new(),
            };
            let of = kinds.entry(kind).or_default();
            *of = (of.0 + 1, of.1 + stored(message));
        }
        kinds
    }

    /// Their mean sizes.
    pub(crate) fn sizes(&self) -> Sizes {
        let heads = |heads: &[&str]| {
            let of = self.messages.iter().filter(|message| heads.contains(&head(message)));
            let (count, bytes) =
                of.fold((0, 0), |(count, bytes), m| (count + 1, bytes + m.payload.len()));
            (count, bytes)
        };
        let mean = |(count, bytes): (usize, usize)| bytes / count.max(1);
        let requests = heads(&["spawn", "op", "report"]);
        Sizes {
            request: mean(requests),
            entry: mean((requests.0, heads(&["ledger"]).1)),
            mail: mean(heads(&["mail", "ctl"])),
            cursor: mean(heads(&["cursor"])),
            journal: mean(heads(&["run"])),
            plan: mean(heads(&["plan"])),
        }
    }
}

/// What is stored of a message: where its sender is answered is not.
fn stored(message: &Message) -> usize {
    let lines = message.headers.iter().flat_map(HeaderMap::iter).flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values.iter().map(move |value| name.len() + ": \r\n".len() + value.as_str().len())
    });
    let lines: usize = lines.sum();
    let headers = if lines == 0 { 0 } else { "NATS/1.0\r\n\r\n".len() + lines };
    message.subject.len() + headers + message.payload.len()
}

fn is_archived(message: &Message) -> bool {
    let value: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
    value.get("archive").is_some()
}

fn is_product(stream: &str) -> bool {
    TAKES.iter().take(7).any(|(known, _)| *known == stream)
}

fn head(message: &Message) -> &str {
    message.subject.split('.').next().unwrap_or_default()
}

/// Waits until everything that is committed is visible.
pub(crate) async fn settled(fleet: &Fleet) {
    let bus = &fleet.control;
    let mut metas = bus.client().subscribe(Subject::StateMeta.to_string()).await.unwrap();
    bus.client().flush().await.unwrap();
    let all = async {
        loop {
            let last = bus.stream_last_seq(LEDGER).await.unwrap();
            let through = load_meta(bus).await.unwrap().map_or(0, |meta| meta.outbox_through);
            if through >= last {
                return;
            }
            metas.next().await.unwrap();
        }
    };
    soon("a quiet outbox", all).await;
}

/// A bus without a fleet on which captures are written again.
#[derive(Debug)]
pub(crate) struct Replay {
    requesters: Bus,
    owner: Bus,
    host: Bus,
    last: Mutex<HashMap<String, u64>>,
}

impl Replay {
    /// Connections to a server on which nothing runs.
    pub(crate) async fn on(server: &Server) -> Self {
        let last = Mutex::default();
        let (requesters, owner) = (server.control().await, server.control().await);
        Self { requesters, owner, host: server.control().await, last }
    }

    /// Writes everything again; gives how long it took.
    pub(crate) async fn run(&self, capture: &Capture) -> Duration {
        let salt = new_id().to_string();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut lines: Vec<Vec<&Message>> = Vec::new();
        for message in &capture.messages {
            let place = *places.entry(message.subject.as_str()).or_insert(lines.len());
            match lines.get_mut(place) {
                Some(line) => line.push(message),
                None => lines.push(vec![message]),
            }
        }
        let started = Instant::now();
        let written = stream::iter(lines.into_iter().map(|line| self.line(line, &salt)))
            .buffer_unordered(LINES_AT_ONCE)
            .fold(0, async |sum, count| sum + count);
        assert_eq!(written.await, capture.count(), "every message is written again");
        started.elapsed()
    }

    async fn line(&self, line: Vec<&Message>, salt: &str) -> usize {
        for message in &line {
            let subject = message.subject.as_str();
            let mut headers = HeaderMap::new();
            let mut fenced = false;
            for (name, values) in message.headers.iter().flat_map(HeaderMap::iter) {
                let name: &str = name.as_ref();
                fenced |= name == EXPECTED;
                for value in values.iter().filter(|_| name != EXPECTED && name != MSG_ID) {
                    headers.append(name, value.clone());
                }
                if let Some(id) = values.first().filter(|_| name == MSG_ID) {
                    headers.insert(MSG_ID, format!("{id}.{salt}"));
                }
            }
            let mut expect = fenced.then(|| self.known(subject));
            let seq = loop {
                let (headers, payload) = (headers.clone(), message.payload.clone());
                match self.bus(message).publish_expect(subject, headers, payload, expect).await {
                    Ok(seq) => break seq,
                    Err(PublishError::WrongLast { last, .. }) => expect = Some(last),
                    Err(error) => panic!("{error}"),
                }
            };
            self.last.lock().unwrap().insert(subject.to_owned(), seq);
        }
        line.len()
    }

    fn known(&self, subject: &str) -> u64 {
        self.last.lock().unwrap().get(subject).copied().unwrap_or(0)
    }

    /// Who wrote it.
    fn bus(&self, message: &Message) -> &Bus {
        match head(message) {
            "spawn" | "op" => &self.requesters,
            "report" | "cursor" | "run" => &self.host,
            _ => &self.owner,
        }
    }
}
