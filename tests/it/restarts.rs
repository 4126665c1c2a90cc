//! A server that is started anew without some of what it had acknowledged: what comes from the ledger is
//! made again, and a ledger that is behind what came from it is refused (spec 02; docs/decisions/0090).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use serde_json::{Value, json};
use tetrarch_bus::subject::pattern::{EVERY_PLAN_EVENT, LEDGER, MAIL, PLANS, STATE};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::ledger::EventKind;
use tetrarch_engine::EngineError;
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Owner, Server, agreeing, settled};

const LONG_SECS: u32 = 600;
const GOALS: u32 = 3;

async fn ask(bus: &Bus, subject: &str, body: &Value) {
    let since = bus.stream_last_seq(MAIL).await.unwrap();
    let body_bytes = body.to_string().into_bytes().into();
    bus.publish_expect(subject, HeaderMap::new(), body_bytes, None).await.unwrap();
    let answered = async {
        loop {
            let mail = bus.next_by_subject_batch(MAIL, "mail.human:ada.>", since + 1, 50).await;
            for letter in mail.unwrap() {
                let told: Value = serde_json::from_slice(&letter.payload).unwrap();
                if told["correlation"] == body["requestId"] {
                    assert_eq!(told["body"]["error"], Value::Null, "{told}");
                    return;
                }
            }
        }
    };
    soon("an answer", answered).await;
}

fn request_id(number: u32) -> String {
    format!("01JD8Z5W6T4QK3M9X2V7B1P{number:03}")
}

async fn project(bus: &Bus) {
    let asked = json!({ "requestId": request_id(1), "project": "demo", "external": true });
    ask(bus, "op.project.create.human:ada", &asked).await;
}

/// Makes a goal with a plan, whose first version and each of two additions is told of.
async fn goal(bus: &Bus, number: u32) {
    let id = request_id(number * 10);
    let asked = json!({
        "requestId": id,
        "project": "demo",
        "plan": {
            "goal": { "title": format!("goal {number}") },
            "profiles": { "default": { "argv": ["true"] } },
            "phases": [{
                "id": "P1",
                "name": "build",
                "tasks": [{ "id": "T1.1", "name": "begin", "acceptance": ["begun"] }],
            }],
        },
    });
    ask(bus, "op.goal.create.human:ada", &asked).await;
    for added in 1..=2 {
        let asked = json!({
            "requestId": request_id(number * 10 + added),
            "epic": format!("goal_{id}"),
            "parent": "P1",
            "reason": "more to do",
            "node": { "name": format!("added {added}"), "acceptance": ["done"] },
        });
        ask(bus, "op.todo.add.human:ada", &asked).await;
    }
}

/// Every plan event with its version and body, in the order of its subject.
async fn plan_events(bus: &Bus) -> Vec<(String, Value)> {
    let found = bus.next_by_subject_batch(PLANS, EVERY_PLAN_EVENT, 1, 1_000).await.unwrap();
    let mut events: Vec<(String, Value)> = found
        .into_iter()
        .map(|event| (event.subject, serde_json::from_slice(&event.payload).unwrap()))
        .collect();
    events.sort_by(|one, other| one.0.cmp(&other.0));
    events
}

async fn mended_alerts(bus: &Bus) -> usize {
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(bus, 1, last, 0).await;
    let events = items.into_iter().filter_map(|item| item.entry.ok()).flat_map(|it| it.events);
    events
        .filter(|event| event.kind == EventKind::Alert && event.reason.starts_with("state.mended"))
        .count()
}

/// A life with goals, in the middle of which these streams are copied; then the server is killed and has of them
/// the copies only. It is not started again. Gives the plan events there were.
async fn lived_and_lost(server: &mut Server, bus: &Bus, streams: &[&str]) -> Vec<(String, Value)> {
    project(bus).await;
    goal(bus, 1).await;
    settled(bus).await;
    server.kill().await;
    let copies: Vec<_> = streams.iter().map(|stream| (*stream, server.stored(stream))).collect();
    server.restart().await;
    for number in 2..=GOALS {
        goal(bus, number).await;
    }
    settled(bus).await;
    let events = plan_events(bus).await;
    assert_eq!(events.len(), 9, "of each of three goals the plan and two additions");
    server.kill().await;
    for (stream, copy) in &copies {
        server.put_back(stream, copy.path());
    }
    events
}

async fn owner(server: &Server, instance: &str) -> Owner {
    let mut owner = Owner::start(server, Owner::config(instance, LONG_SECS)).await;
    owner.until_ready().await;
    owner
}

#[tokio::test(flavor = "multi_thread")]
async fn state_lost_by_a_server_is_rebuilt_by_the_running_owner() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let owner = owner(&server, "one").await;
    let events = lived_and_lost(&mut server, &bus, &[STATE]).await;
    server.restart().await;
    let records = agreeing(&bus).await;
    assert_eq!(records.goals.len(), 3);
    assert_eq!(plan_events(&bus).await, events, "nothing is published twice");
    goal(&bus, 9).await;
    agreeing(&bus).await;
    assert_eq!(mended_alerts(&bus).await, 0, "nobody has to look at what is expected");
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_events_lost_by_a_server_are_republished_unchanged() {
    for lost in [&[PLANS][..], &[PLANS, STATE]] {
        let mut server = tetrarch_tests::server().await;
        let bus = server.control().await;
        let first = owner(&server, "one").await;
        let events = lived_and_lost(&mut server, &bus, lost).await;
        server.restart().await;
        agreeing(&bus).await;
        let again = async { while plan_events(&bus).await.len() < events.len() {} };
        soon("all plan events", again).await;
        assert_eq!(plan_events(&bus).await, events, "{lost:?}");
        first.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_behind_the_last_plan_event_is_refused_without_state() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = owner(&server, "one").await;
    let _events = lived_and_lost(&mut server, &bus, &[LEDGER, STATE]).await;
    server.restart().await;
    let ended = soon("a refusal", first.task).await.unwrap();
    match ended {
        Err(why @ EngineError::Amnesia { .. }) => {
            assert!(why.to_string().contains("remembered by the last plan event"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_behind_an_order_of_its_owner_is_refused() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut headers = HeaderMap::new();
    headers.insert("Tetrarch-Seq", "7.0");
    bus.publish_expect("ctl.S:demo:1.GO", headers, "{}".into(), None).await.unwrap();
    let stopped = Owner::start(&server, Owner::config("one", LONG_SECS)).await;
    let ended = soon("a refusal", stopped.task).await.unwrap();
    match ended {
        Err(why @ EngineError::Amnesia { .. }) => {
            assert!(why.to_string().contains("the owner's last order"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}
