//! One bad client at full speed, with an agent's credential, against what others wait for (spec 09, On the bus):
//! each kind of flood runs until the server cuts it off or its time is over, while another agent asks.
//! `FLOOD_SECONDS` is how long each runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_tests::Fleet;
use tetrarch_tests::wait::soon;

const GOOD: &str = "PO-good";
/// What other tests on the machine add to a round trip.
const NOISE: Duration = Duration::from_millis(20);
/// The longest round trip, while a flood is not yet cut off: an unoptimized owner refuses a hundred thousand requests in
/// about eight seconds, and longer beside other tests.
const MOST: Duration = Duration::from_secs(20);
/// When the good client asks again.
const AGAIN: Duration = Duration::from_secs(1);
/// Round trips that a median is taken of.
const ROUND_TRIPS_MIN: usize = 100;
/// How often the good client asks.
const ASK_EVERY: Duration = Duration::from_millis(10);

fn seconds() -> Duration {
    let given = std::env::var("FLOOD_SECONDS").ok().map(|text| text.parse().unwrap());
    Duration::from_secs(given.unwrap_or(3))
}

async fn client(fleet: &Fleet, name: &str) -> Client {
    fleet.bus(&CredentialHolder::External(name.parse().unwrap())).await.client().clone()
}

/// What a flood of somebody publishes: the subject and the body of the n-th message.
type Message = fn(&str, u64) -> (String, Bytes);

fn text(text: String) -> Bytes {
    text.into()
}

/// Each kind of flood, by name.
const FLOODS: [(&str, Message); 6] = [
    ("requests", |bad, n| {
        let body = json!({"requestId": ulid(n), "agent": bad, "reason": "x"});
        (format!("op.agent.rotate.{bad}"), text(body.to_string()))
    }),
    ("mail to another", |bad, _| {
        let body = json!({"topic": "info", "body": {"text": "x"}});
        (format!("mail.{GOOD}.{bad}"), text(body.to_string()))
    }),
    ("heartbeats of a wrong epoch", |bad, n| {
        let body = json!({"session": ulid(n), "epoch": 7, "runState": "running", "progress": n});
        (format!("hb.{bad}"), text(body.to_string()))
    }),
    ("unknown subjects", |bad, n| (format!("nobody.{bad}.{n}"), text("x".to_owned()))),
    ("huge messages", |bad, _| (format!("report.{bad}"), Bytes::from_static(&[b'x'; 250_000]))),
    ("reads of all there is", |_, _| {
        let body = json!({"multi_last": ["$KV.STATE.>"]});
        ("$JS.fleet.API.DIRECT.GET.KV_STATE".to_owned(), text(body.to_string()))
    }),
];

fn ulid(n: u64) -> String {
    tetrarch_core::id::Ulid(u128::from(n) + 1).to_string()
}

/// Floods until it is cut off or told to end; gives what it published.
async fn flood(client: Client, bad: String, message: Message, end: Arc<AtomicBool>) -> u64 {
    let mut sent = 0;
    let way_back = format!("_INBOX_{bad}.flood");
    // Nobody takes what comes: a slow reader.
    let heard = client.subscribe(format!("{way_back}.>")).await.unwrap();
    while !end.load(Ordering::Relaxed) && client.connection_state() == State::Connected {
        let (subject, body) = message(&bad, sent);
        let reply = format!("{way_back}.{sent}");
        let published = client.publish_with_reply(subject, reply, body);
        let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(200), published).await else {
            continue;
        };
        sent += 1;
    }
    drop(heard);
    sent
}

/// Asks until it is answered. A stream that has no room for the moment says so, and an answer to what only reads is
/// dropped where there is none for it: whoever asks asks again.
async fn round_trip(good: &Client, answers: &mut Subscriber, id: &str) {
    let body = Bytes::from(json!({"requestId": id, "agent": GOOD}).to_string());
    loop {
        let asked = good.request(format!("op.agent.status.{GOOD}"), body.clone()).await;
        let said = match asked {
            Ok(said) => said,
            // It counts as waiting.
            Err(error) if error.kind() == RequestErrorKind::TimedOut => continue,
            Err(error) => panic!("{error}"),
        };
        let said: Value = serde_json::from_slice(&said.payload).unwrap();
        if !said["error"].is_null() {
            continue;
        }
        let answered = async {
            loop {
                let mail = answers.next().await.unwrap();
                let mail: Value = serde_json::from_slice(&mail.payload).unwrap();
                if mail["correlation"] == json!(id) {
                    return;
                }
            }
        };
        if tokio::time::timeout(AGAIN, answered).await.is_ok() {
            return;
        }
    }
}

/// Round trips of the good client while something else goes on, shortest first.
async fn round_trips(
    good: &Client,
    answers: &mut Subscriber,
    asked: &AtomicU64,
    within: Duration,
) -> Vec<Duration> {
    let (began, mut took) = (Instant::now(), Vec::new());
    let mut beat = tokio::time::interval(ASK_EVERY);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while began.elapsed() < within || took.len() < ROUND_TRIPS_MIN {
        beat.tick().await;
        let id = ulid(1_000_000_000 + asked.fetch_add(1, Ordering::Relaxed));
        let sent = Instant::now();
        soon("an answer", round_trip(good, answers, &id)).await;
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    took
}

fn shown(times: &[Duration]) -> String {
    let ms = |percent| share(times, percent).as_secs_f64() * 1e3;
    let (count, [p50, p99, most]) = (times.len(), [50, 99, 100].map(ms));
    format!("{count:6} asked  p50 {p50:7.2} ms  p99 {p99:7.2} ms  most {most:7.2} ms")
}

fn share(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the table is what the long form is run for")]
async fn flood_of_any_kind_leaves_others_served() {
    let fleet = Fleet::up();
    fleet.ok(["agent", "add", GOOD, "--external"]);
    let good = client(&fleet, GOOD).await;
    let mut answers = good.subscribe(format!("mail.{GOOD}.GO")).await.unwrap();
    let asked = AtomicU64::new(0);
    round_trips(&good, &mut answers, &asked, Duration::from_millis(500)).await;
    let idle = round_trips(&good, &mut answers, &asked, seconds()).await;
    println!("{:28} {}", "idle", shown(&idle));
    for (number, (name, message)) in FLOODS.into_iter().enumerate() {
        // Each has a name of its own: who was cut off stays away for a while.
        let bad = format!("PO-bad{number}");
        fleet.ok(["agent", "add", &bad, "--external"]);
        let (client, end) = (client(&fleet, &bad).await, Arc::new(AtomicBool::new(false)));
        let flood = tokio::spawn(flood(client, bad, message, Arc::clone(&end)));
        let during = round_trips(&good, &mut answers, &asked, seconds()).await;
        end.store(true, Ordering::Relaxed);
        println!("{name:28} {}  {} sent", shown(&during), flood.await.unwrap());
        let (median, usual) = (share(&during, 50), share(&idle, 50));
        assert!(median < 2 * usual + NOISE, "{name}: {median:?}, {usual:?} without it");
        let most = share(&during, 100);
        assert!(most < MOST, "{name}: {most:?}");
    }
}
