//! What a real program does by the fleet's tools beside asking: it shows how far it is, hands over a file and reads it,
//! reads its inbox, and ends its run.

use serde_json::{Value, json};
use tetrarch_core::id::sha256_hex;

use super::{Coder, NOTES, Task, called, last_run, says, then, uses};

/// Its calls in order: how many of them, and what it is told of each.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    let deliverable = |n: Value| json!({"outcome": "success", "deliverable": {"n": n}});
    vec![
        ("progress", json!({"text": "half of it is counted", "done": 1, "total": 2}), "noted"),
        ("progress", json!({"text": "more", "done": "two"}), "a number of steps is needed"),
        ("artifact_put", json!({"path": "../secret"}), "cannot read ../secret"),
        ("artifact_put", json!({"path": "notes.txt", "name": "notes"}), "notes is stored"),
        ("artifact_get", json!({"sha256": sha256_hex(NOTES.as_bytes())}), NOTES),
        (
            "artifact_get",
            json!({"sha256": "0".repeat(64)}),
            "neither by your brief nor by your mail",
        ),
        ("agent_wait", json!({}), "you have asked for no agents"),
        ("mail_inbox", json!({}), "no new mail"),
        ("finish", json!({"deliverable": {"n": 4}}), "outcome"),
        ("finish", deliverable(json!("four")), "does not satisfy its schema"),
        ("finish", deliverable(json!(4)), ""),
    ]
}

/// Whether a call is not what its tool takes, which some programs say by themselves.
fn is_wrong((tool, arguments, _): &(&str, Value, &str)) -> bool {
    let is_count = |it: &Value| it.is_null() || it.is_number();
    match *tool {
        "progress" => !is_count(&arguments["done"]),
        "finish" => arguments["outcome"].is_null() || !is_count(&arguments["deliverable"]["n"]),
        _ => false,
    }
}

/// It ends by `finish`, which is handed back once with what is wrong; what it would say after that does not count.
/// `checks`: its program sees itself what a tool does not take.
pub(in super::super) fn finishes_by_its_tool(coder: &Coder, prefix: &str, checks: bool) {
    let mut calls = calls();
    calls.retain(|call| !checks || !is_wrong(call));
    let id = |at: usize| format!("c{at}");
    let named = |tool: &str| format!("{prefix}{tool}");
    let (first, arguments, _) = &calls[0];
    let mut scripts = Vec::new();
    for (at, (tool, arguments, _)) in calls.iter().enumerate().skip(1) {
        let response = called(&id(at), &named(tool), arguments);
        scripts.push(json!({"match": {"toolCallId": id(at - 1)}, "response": response}));
    }
    scripts.push(then(&id(calls.len() - 1), "{\"n\":5}"));
    scripts.push(says("does not satisfy", "{\"n\":6}"));
    scripts.push(uses("by tools", &id(0), &named(first), arguments.clone()));
    let mut tools: Vec<&str> = calls.iter().map(|(tool, ..)| *tool).collect();
    tools.dedup();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let expects = json!({"outputSchema": schema});
    let Some(it) = Task::expecting(coder, &scripts, &tools, ("Count by tools", &expects)) else {
        return;
    };
    let Task { fleet, server, running, .. } = it;
    let ended = running.ended();
    assert_eq!((ended.out.trim(), ended.code), ("{\"n\":4}", Some(0)), "{}", ended.err);
    assert_eq!(fleet.agents(), [], "all of it is gone");
    let told = server.got().into_iter().map(|request| request["messages"].to_string());
    let told: Vec<String> = told.collect();
    for (tool, _, expected) in &calls {
        assert!(told.iter().any(|it| it.contains(expected)), "{tool}: {}", told.last().unwrap());
    }
    let logs = fleet.ok(["logs", &last_run(&fleet)]);
    assert!(logs.contains("half of it is counted"), "{logs}");
    assert_eq!(logs.contains("does not satisfy its schema"), !checks, "{logs}");
    assert!(logs.contains("success: {\"n\":4}"), "{logs}");
    let described = fleet.ok(["describe", &format!("run/{}", last_run(&fleet))]);
    assert!(described.contains(&format!("{} notes", sha256_hex(NOTES.as_bytes()))), "{described}");
}
