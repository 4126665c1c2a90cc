//! Programs that are asked once (`runner: cli`): how they have their brief, what their answer is, how they end, and how
//! their calls of a model are limited.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use tetrarch_core::brief::{Outcome, RunnerKind};
use tetrarch_core::order::{Exit, Inbound, Order, RunnerEvent, Start};

use crate::stage::{Stage, command};

fn once(argv: &[&str]) -> Start {
    let mut start = command(argv);
    start.brief.runner.kind = RunnerKind::Cli;
    start.brief.runner.prompt = "be brief".to_owned();
    start.brief.goal = "count to three".to_owned();
    start
}

#[tokio::test]
async fn brief_is_the_whole_input_or_an_argument() {
    let mut stage = Stage::new();
    let reads = stage.run(once(&["cat"])).await;
    let told = reads.made().deliverable.clone();
    assert!(told.contains("be brief") && told.contains("count to three"), "{told}");
    let has = stage.run(once(&["sh", "-c", "echo \"$0\"; wc -c", "say {brief}"])).await;
    let said = has.made().deliverable.clone();
    assert!(said.starts_with("say ") && said.contains("count to three"), "{said}");
    assert!(said.ends_with("\n0"), "its input is empty: {said}");
}

#[tokio::test]
async fn output_is_its_answer_whatever_it_looks_like() {
    let mut stage = Stage::new();
    let event = r#"{"type":"result","outcome":"failure"}"#;
    let seen = stage.run(once(&["echo", event])).await;
    assert_eq!((seen.made().outcome, seen.made().deliverable.as_str()), (Outcome::Success, event));
    let failed = stage.run(once(&["sh", "-c", "echo half; exit 2"])).await;
    assert_eq!((failed.made().outcome, failed.made().partial.as_str()), (Outcome::Failure, "half"));
}

/// Nothing could ask it to end, so nothing waits for that.
#[tokio::test]
async fn stopped_program_is_ended_at_once() {
    let mut stage = Stage::new();
    let run = stage.start(once(&["sh", "-c", "cat > /dev/null; echo up; sleep 600"])).await;
    stage.until(|event| matches!(event, RunnerEvent::Log { text } if text == "up")).await;
    stage.stop(run, 600_000, 600_000).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(15));
    assert_eq!(seen.made().outcome, Outcome::Cancelled);
}

/// A server that answers one call of a chat model, and the key that it got.
#[expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]
fn model() -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let got = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut read, mut part) = (String::new(), [0; 4096]);
        while !read.contains("\"model\"") {
            let count = stream.read(&mut part).unwrap();
            read.push_str(std::str::from_utf8(&part[..count]).unwrap());
        }
        let body = r#"{"choices":[{"message":{"content":"three"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        read
    });
    (url, got)
}

const CALLS: &str = "
import json, os, sys, urllib.request
body = json.dumps({'model': 'm', 'max_tokens': 9, 'messages': []}).encode()
request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body)
request.add_header('Authorization', 'Bearer own')
try:
    print(json.load(urllib.request.urlopen(request))['choices'][0]['message']['content'])
except urllib.error.HTTPError as refused:
    sys.exit(refused.read().decode())
";

/// A program that calls a model by itself, with a credential of its own.
fn calling(base_url: &str) -> Start {
    let mut start = once(&["python3", "-c", CALLS]);
    start.brief.runner.served.provider = "openai".to_owned();
    start.brief.runner.served.base_url = base_url.to_owned();
    start
}

#[tokio::test]
async fn call_of_its_model_is_set_aside_and_booked() {
    let (url, got) = model();
    let mut stage = Stage::with(|config| config.containment.network = true);
    let run = stage.start(calling(&url)).await;
    let set_aside = |event: &RunnerEvent| matches!(event, RunnerEvent::SetAside { .. });
    let events = stage.until(set_aside).await;
    let Some(RunnerEvent::SetAside { call, worst }) = events.last() else { panic!("{events:?}") };
    assert!(worst.tokens > 9, "{worst:?}");
    let line = Inbound::Granted { call: call.clone() };
    stage.order(Order::Deliver { run, line }).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.made().deliverable, "three", "{}", seen.made().error);
    let of = |event: &RunnerEvent| {
        let RunnerEvent::Spent { used, .. } = event else { return None };
        Some(used.tokens)
    };
    let spent = seen.events.iter().find_map(of);
    assert_eq!(spent, Some(7));
    assert!(got.join().unwrap().starts_with("POST /v1/chat/completions "));
}

#[tokio::test]
async fn program_that_fails_after_a_withheld_call_exceeded_its_grant() {
    let mut stage = Stage::with(|config| config.containment.network = true);
    let run = stage.start(calling("http://127.0.0.1:9/v1")).await;
    let set_aside = |event: &RunnerEvent| matches!(event, RunnerEvent::SetAside { .. });
    let events = stage.until(set_aside).await;
    let Some(RunnerEvent::SetAside { call, .. }) = events.last() else { panic!("{events:?}") };
    let line =
        Inbound::Withheld { call: call.clone(), why: "budget_exceeded: all of it".to_owned() };
    stage.order(Order::Deliver { run, line }).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.made().outcome, Outcome::BudgetExceeded, "{}", seen.made().error);
    assert_eq!(seen.made().error, "budget_exceeded: all of it");
    assert!(seen.log().contains("the call is not made"), "{}", seen.log());
}
