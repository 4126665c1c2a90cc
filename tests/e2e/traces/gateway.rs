//! What is told of the calls of a program to its model, which its host passes on (docs/decisions/0138): they are spans of
//! its run, and counted as those of the llm runner are.

use serde_json::json;
use tetrarch_tests::model::{ModelServer, once};
use tetrarch_tests::{Fleet, python};

use super::collector::{Collector, Span};
use super::model::ports;
use crate::metrics::{page, value};

/// A program that calls its model until it is answered, and prints the answer. Its output has its own trace.
const CALLS: &str = "
import json, os, urllib.error, urllib.request
message = {'role': 'user', 'content': 'count the leaves'}
body = json.dumps({'model': 'scripted', 'max_tokens': 64, 'messages': [message]}).encode()
for number in range(3):
    request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body)
    request.add_header('Authorization', 'Bearer ' + os.environ['GATEWAY_TEST_KEY'])
    request.add_header('Content-Type', 'application/json')
    try:
        answer = json.load(urllib.request.urlopen(request))
        print(answer['choices'][0]['message']['content'], os.environ['TRACEPARENT'])
        break
    except urllib.error.HTTPError as refused:
        assert refused.code == 429, refused.read()
";

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_program_through_its_host_are_spans_of_its_run() {
    let busy = json!({"error": {"message": "busy", "type": "x"}, "status": 429});
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let server = ModelServer::start(&[
        once("count the leaves", &busy, &json!({})),
        json!({"match": {"userMessage": "count"}, "response": {"content": "three", "usage": usage}}),
    ]);
    let collector = Collector::start().await;
    let (owner, host) = ports().await;
    let mut fleet = Fleet::prepared()
        .with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url)
        .with_env("TETRARCH_TELEMETRY_PROMETHEUS_LISTEN", owner.to_string())
        .with_env("GATEWAY_TEST_KEY", "sk-test-0123456789")
        .started();
    let plan = json!({
        "project": "passed-on", "output": "T1.1", "goal": {"title": "Count"},
        "phases": [{"id": "P1", "name": "Count", "tasks": [
            {"id": "T1.1", "name": "count", "profile": "asks", "acceptance": ["x"], "maxAttempts": 1},
        ]}],
        "profiles": {"asks": {
            "runner": "cli", "argv": [python(), "-c", CALLS], "provider": "openai",
            "baseUrl": format!("{}/v1", server.url()), "keyFrom": "env:GATEWAY_TEST_KEY", "tools": ["network"],
            "budget": {"tokens": 10_000}, "wall": "60s",
        }},
    });
    let plan = fleet.file("passed-on.json", &plan.to_string());
    let told = fleet.ok(["run", "--quiet", plan.to_str().unwrap()]);
    assert!(told.starts_with("three 00-"), "{told}");

    let text = page(host, "/metrics").await;
    let labels = "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"openai\",\
        gen_ai_request_model=\"scripted\"";
    let counted =
        |series: String| value(&text, &series).unwrap_or_else(|| panic!("{series}\n{text}"));
    for (kind, tokens) in [("input", 100.0), ("output", 10.0)] {
        let kind = format!("{labels},gen_ai_token_type=\"{kind}\"");
        assert_eq!(counted(format!("gen_ai_client_token_usage_sum{{{kind}")), tokens);
        assert_eq!(counted(format!("gen_ai_client_token_usage_count{{{kind}")), 1.0);
    }
    let took = "gen_ai_client_operation_duration_seconds_count{";
    assert_eq!(counted(format!("{took}{labels},otel")), 1.0, "{text}");
    assert_eq!(counted(format!("{took}error_type=\"429\"")), 1.0, "{text}");

    fleet.stop();
    assert!(collector.counted("gen_ai.client.token.usage"));
    let spans = collector.spans();
    let agent: Vec<&Span> = spans.iter().filter(|it| it.name == "invoke_agent asks").collect();
    let [agent] = agent.as_slice() else { panic!("{agent:?}") };
    assert!(told.contains(&format!("00-{}-", agent.trace)), "{told}: {agent:?}");
    let chats: Vec<&Span> = spans.iter().filter(|it| it.name == "chat scripted").collect();
    let mut errors: Vec<&str> = chats.iter().map(|it| it.is("error.type")).collect();
    errors.sort_unstable();
    assert_eq!(errors, ["", "429"], "{chats:?}");
    for chat in chats {
        assert_eq!((&chat.trace, &chat.parent), (&agent.trace, &agent.id), "{chat:?}");
        for name in ["gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.conversation.id"] {
            assert_eq!(chat.is(name), agent.is(name), "{name} of {chat:?}");
        }
        let of_answer = |it: &'static str| if chat.is("error.type").is_empty() { it } else { "" };
        for (name, is) in [
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "scripted"),
            ("gen_ai.request.max_tokens", "64"),
            ("gen_ai.usage.input_tokens", of_answer("100")),
            ("gen_ai.usage.output_tokens", of_answer("10")),
            ("server.address", "127.0.0.1"),
        ] {
            assert_eq!(chat.is(name), is, "{name} of {chat:?}");
        }
    }
}
