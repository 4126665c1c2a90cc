//! What is told of an agent whose work is a conversation with a model, in the words of OpenTelemetry's conventions for
//! generative AI: its calls of the model and of tools are part of the trace of whoever asked for it, and counted.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use tetrarch_tests::model::{ModelServer, said};
use tetrarch_tests::{Fleet, Program, wait};
use tokio::net::TcpListener;

use super::collector::{Collector, Span};
use crate::metrics::{page, value};

/// The trace of whoever asks, and the span that it asks in.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A goal that is open until a file is there, so that people can ask for agents meanwhile.
fn goal(fleet: &Fleet, server: &ModelServer, tools: &[&str]) -> (Program, String, PathBuf) {
    let gate = fleet.cwd().join("gate");
    let work = fleet.cwd().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("seen.txt"), "seen").unwrap();
    let waits = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    let plan = json!({
        "project": "told",
        "goal": {"title": "Be told of"},
        "phases": [{"id": "P1", "name": "Wait", "tasks": [
            {"id": "T1.1", "name": "wait", "profile": "waits", "acceptance": ["x"]},
        ]}],
        "profiles": {
            "waits": {"argv": ["sh", "-c", waits]},
            "talks": {
                "runner": "llm", "provider": "openai", "model": "scripted",
                "baseUrl": format!("{}/v1", server.url()), "wall": "60s", "tools": tools,
                "workspace": work.to_str().unwrap(), "budget": {"tokens": 100_000},
            },
        },
    });
    let plan = fleet.file("told.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let epic = wait::until("the goal is there", || {
        let goals = fleet.json(&["get", "goals"]);
        Some(goals.as_array()?.first()?["id"].as_str()?.to_owned())
    });
    (running, epic, gate)
}

/// Asks for an agent in the caller's span and waits until its run is done.
fn ask(fleet: &Fleet, epic: &str, task: &str) {
    let mut command = fleet.command(["spawn", "PO-told", "worker", "--profile", "talks"]);
    command.args(["--epic", epic, "--task", task]);
    command.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    let ended = Program::start(&mut command).ended();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    wait::until("the agent is done", || {
        let runs = fleet.ok(["get", "runs"]);
        assert!(!runs.contains("failed"), "{runs}");
        runs.contains(" done ").then_some(())
    });
}

/// Two free ports side by side: the owner's and the host's.
pub(super) async fn ports() -> (SocketAddr, SocketAddr) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = first.local_addr().unwrap();
        let Some(port) = at.port().checked_add(1) else { continue };
        let next = SocketAddr::new(at.ip(), port);
        if TcpListener::bind(next).await.is_ok() {
            return (at, next);
        }
    }
}

fn calls(turn: u64, calls: &Value) -> Value {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    self::turn(turn, &json!({"toolCalls": calls, "usage": usage}))
}

fn turn(turn: u64, response: &Value) -> Value {
    json!({"match": {"userMessage": "look around", "turnIndex": turn}, "response": response})
}

/// The spans of the caller's trace whose names begin so.
fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.trace == TRACE && span.name.starts_with(name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_one_trace_down_to_model_and_tools_with_its_usage() {
    let busy = json!({
        "match": {"userMessage": "look around", "turnIndex": 1, "sequenceIndex": 0},
        "response": {"error": {"message": "busy", "type": "x"}, "status": 429, "retryAfter": 1},
    });
    let server = ModelServer::start(&[
        calls(
            0,
            &json!([
                {"id": "c0", "name": "list_files", "arguments": {"path": "."}},
                {"id": "c1", "name": "read_file", "arguments": {"path": "none.txt"}},
                {"id": "c2", "name": "run_command", "arguments": {"argv": ["printenv", "TRACEPARENT"]}},
            ]),
        ),
        busy,
        calls(
            1,
            &json!([{"id": "c3", "name": "finish", "arguments": {"outcome": "success", "deliverable": "x"}}]),
        ),
    ]);
    let collector = Collector::start().await;
    let (owner, host) = ports().await;
    let mut fleet = Fleet::prepared()
        .with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url)
        .with_env("TETRARCH_TELEMETRY_PROMETHEUS_LISTEN", owner.to_string())
        .started();
    let (running, epic, gate) = goal(&fleet, &server, &["list", "read", "run:printenv"]);
    ask(&fleet, &epic, "look around");

    let text = page(host, "/metrics").await;
    let labels = "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"openai\",\
        gen_ai_request_model=\"scripted\"";
    let counted = |series: &str| value(&text, series).unwrap_or_else(|| panic!("{series}\n{text}"));
    let tokens = |of: &str, kind: &str| {
        counted(&format!("gen_ai_client_token_usage_{of}{{{labels},gen_ai_token_type=\"{kind}\""))
    };
    assert_eq!((tokens("sum", "input"), tokens("sum", "output")), (200.0, 20.0), "{text}");
    assert_eq!(tokens("count", "input"), 2.0, "{text}");
    let took = format!("gen_ai_client_operation_duration_seconds_count{{{labels},otel");
    assert_eq!(counted(&took), 2.0, "{text}");
    let failed = "gen_ai_client_operation_duration_seconds_count{error_type=\"429\"";
    assert_eq!(counted(failed), 1.0, "{text}");
    for bound in ["le=\"0.01\"", "le=\"81.92\"", "le=\"67108864\""] {
        assert!(text.contains(bound), "{bound}\n{text}");
    }

    std::fs::write(gate, "open").unwrap();
    assert_eq!(running.ended().code, Some(0));
    // Every process sends what it has before it ends.
    fleet.stop();
    assert!(collector.counted("gen_ai.client.token.usage"));
    let spans = collector.spans();
    told_in_one_trace(&spans);
    let run = named(&spans, "execute_tool run_command")[0];
    let heard = server.got().last().unwrap()["messages"].to_string();
    let told = format!("00-{TRACE}-{}-01", run.id);
    assert!(heard.contains(&told), "{told} in {heard}");
}

/// The caller's span is above the decision, that above the agent's, and that above what the agent did.
fn told_in_one_trace(spans: &[Span]) {
    let decision = named(spans, "process spawn.request");
    assert_eq!(decision.len(), 1, "{spans:?}");
    assert_eq!(decision[0].parent, CALLER);
    let agent = named(spans, "invoke_agent");
    assert_eq!(agent.len(), 1, "{spans:?}");
    let agent = agent[0];
    assert_eq!(
        (agent.parent.as_str(), agent.name.as_str()),
        (decision[0].id.as_str(), "invoke_agent talks")
    );
    assert_eq!((agent.is("gen_ai.usage.input_tokens"), agent.is("error.type")), ("200", ""));

    let chats = named(spans, "chat scripted");
    let tools = named(spans, "execute_tool");
    for span in chats.iter().chain(&tools) {
        assert_eq!(span.parent, agent.id, "{span:?}");
        for name in ["gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.conversation.id"] {
            assert_eq!(span.is(name), agent.is(name), "{span:?}");
            assert!(!span.is(name).is_empty(), "{name} of {span:?}");
        }
        let content = ["messages", "instructions", "arguments", "result"];
        let told = |name: &String| content.iter().any(|word| name.ends_with(word));
        assert!(!span.attributes.keys().any(told), "nobody asked for content: {span:?}");
    }
    let mut errors: Vec<&str> = chats.iter().map(|span| span.is("error.type")).collect();
    errors.sort_unstable();
    assert_eq!(errors, ["", "", "429"]);
    for chat in chats.iter().filter(|span| span.is("error.type").is_empty()) {
        for (name, is) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "scripted"),
            ("gen_ai.request.max_tokens", "8192"),
            ("gen_ai.usage.input_tokens", "100"),
            ("gen_ai.usage.output_tokens", "10"),
            ("gen_ai.response.finish_reasons", "tool_calls"),
            ("server.address", "127.0.0.1"),
        ] {
            assert_eq!(chat.is(name), is, "{name} of {chat:?}");
        }
    }
    let made = |span: &&Span| {
        let is = |name: &str| span.is(name).to_owned();
        (is("gen_ai.tool.call.id"), is("gen_ai.tool.name"), is("error.type"))
    };
    let mut made: Vec<(String, String, String)> = tools.iter().map(made).collect();
    made.sort_unstable();
    let expected = [
        ("c0", "list_files", ""),
        ("c1", "read_file", "tool_error"),
        ("c2", "run_command", ""),
        ("c3", "finish", ""),
    ];
    assert_eq!(made, expected.map(|(id, tool, error)| (id.into(), tool.into(), error.into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_content_is_exported_only_on_request_and_redacted() {
    let secret = format!("sk-{}", "x9Y".repeat(12));
    let look = json!([{"id": "c0", "name": "read_file", "arguments": {"path": "seen.txt"}}]);
    let server = ModelServer::start(&[
        calls(0, &look),
        turn(1, &json!({"content": format!("I saw {secret}")})),
    ]);
    let collector = Collector::start().await;
    let mut fleet = Fleet::prepared()
        .with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url)
        .with_env("TETRARCH_TELEMETRY_CONTENT", "true")
        .started();
    let (running, epic, gate) = goal(&fleet, &server, &["read"]);
    ask(&fleet, &epic, "look around");
    std::fs::write(gate, "open").unwrap();
    assert_eq!(running.ended().code, Some(0));
    fleet.stop();
    let spans = collector.spans();
    let said: Vec<Value> = named(&spans, "chat")
        .iter()
        .map(|span| serde_json::from_str(span.is("gen_ai.output.messages")).unwrap())
        .collect();
    assert!(
        said.iter().any(|said| said[0]["parts"][0]["content"] == "I saw [redacted:api_key]"),
        "{said:?}"
    );
    assert!(said.iter().any(|said| said[0]["parts"][0]["name"] == "read_file"), "{said:?}");
    let asked = named(&spans, "chat").iter().all(|span| {
        span.is("gen_ai.input.messages").contains("look around")
            && span.is("gen_ai.system_instructions").contains("text")
    });
    assert!(asked, "{spans:?}");
    let tool = named(&spans, "execute_tool read_file")[0];
    assert_eq!(tool.is("gen_ai.tool.call.arguments"), "{\"path\":\"seen.txt\"}");
    assert!(tool.is("gen_ai.tool.call.result").contains("seen"), "{tool:?}");
    assert!(spans.iter().all(|span| !format!("{span:?}").contains(&secret)));
}

#[tokio::test(flavor = "multi_thread")]
async fn planner_request_is_part_of_the_goals_trace() {
    let plan = json!({"phases": [{"id": "P1", "name": "all", "tasks": [
        {"id": "T1.1", "name": "do it", "acceptance": ["it is done"]},
    ]}], "output": "T1.1"});
    let server = ModelServer::start(&[said("tasksOfPhase", &plan.to_string())]);
    let collector = Collector::start().await;
    let mut fleet = Fleet::prepared()
        .with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url)
        .with_env("TETRARCH_PLANNER_ENABLED", "true")
        .with_env("TETRARCH_PLANNER_PROVIDER", "openai")
        .with_env("TETRARCH_PLANNER_MODEL", "scripted")
        .with_env("TETRARCH_PLANNER_BASE_URL", format!("{}/v1", server.url()))
        .started();
    let goal = json!({
        "project": "planned",
        "goal": {"title": "Be planned"},
        "profiles": {"default": {"argv": ["sh", "-c", "echo $TRACEPARENT"], "wall": "60s"}},
    });
    let goal = fleet.file("planned.json", &goal.to_string());
    let mut command = fleet.command(["run", "--quiet", goal.to_str().unwrap()]);
    command.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    let ended = Program::start(&mut command).ended();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    // Every process sends what it has before it ends.
    fleet.stop();
    let spans = collector.spans();
    let only = |name: &str| {
        let found = named(&spans, name);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    };
    let (given, asked, said) =
        (only("process goal.create"), only("ask planner"), only("chat scripted"));
    assert_eq!((&asked.parent, &said.parent), (&given.id, &asked.id));
    assert!(ended.out.contains(TRACE), "its agents are part of it too: {}", ended.out);
}
