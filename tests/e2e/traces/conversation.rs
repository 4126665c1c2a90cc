//! What a person says is one trace: from their line through the moves of their orchestrator to each call of the model and of
//! tools, and back to the answer.

use std::collections::BTreeSet;

use serde_json::json;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Fleet, Program};

use super::collector::{Collector, Span};

/// The trace of whoever says something, and the span that it is said in.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[tokio::test(flavor = "multi_thread")]
async fn line_of_a_person_is_one_trace_down_to_each_tool_call_and_back() {
    let url = serve_model(|request| {
        Some(match turn_of(request) {
            1 => Words { calls: vec![("list_files", json!({"path": "."}))], ..Words::default() },
            _ => Words { text: "there is nothing".to_owned(), ..Words::default() },
        })
    });
    let collector = Collector::start().await;
    let fleet = Fleet::prepared().with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url);
    let mut fleet = fleet.started();
    let work = fleet.cwd().join("work");
    std::fs::create_dir(&work).unwrap();
    fleet.ok(["project", "create", "desk", "--tools", "list"]);
    let profile = json!({
        "name": "default", "runner": "llm", "provider": "openai", "model": "scripted",
        "baseUrl": format!("{url}/v1"), "tools": ["list"], "workspace": work.to_str().unwrap(),
        "budget": {"turns": 5},
    });
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
    let mut said = fleet.command(["ask", "--project", "desk", "look around"]);
    said.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    let ended = Program::start(&mut said).ended();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "there is nothing\n"), "{}", ended.err);
    // Every process sends what it has before it ends.
    fleet.stop();
    let all = collector.spans();
    let ours: Vec<&Span> = all.iter().filter(|span| span.trace == TRACE).collect();
    let named = |name: &str| ours.iter().filter(|span| span.name.starts_with(name)).count();
    for (name, least) in [
        ("process conversation.say", 1),
        ("process conversation.move", 2),
        ("process spawn.request", 1),
        ("invoke_agent", 1),
        ("chat scripted", 2),
        ("execute_tool list_files", 1),
    ] {
        assert!(named(name) >= least, "{name}: {} of {least} in {ours:?}\n{all:?}", named(name));
    }
    // Nothing hangs loose: what is above a span is in the trace, up to the person's own.
    let ids: BTreeSet<&str> = ours.iter().map(|span| span.id.as_str()).collect();
    for span in &ours {
        assert!(span.parent == CALLER || ids.contains(span.parent.as_str()), "{span:?}");
    }
}
