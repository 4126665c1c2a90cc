//! No credential that a program or a human says is kept anywhere: every byte of every stream is
//! looked at (spec 05, Records; spec 10, 25).

use serde_json::{Value, json};
use tetrarch_bus::subject::pattern::{
    ARTIFACTS, CURSORS, DEAD, LEDGER, MAIL, PLANS, REQUESTS, RUNS, STATE,
};
use tetrarch_bus::tail::StreamBytes;
use tetrarch_tests::{Fleet, wait};

use crate::acting;

/// What the program `leak` says, and what people say here; each put together, so that scanners of
/// sources find none.
fn secrets() -> Vec<String> {
    vec![
        format!("ghp_{}", "aB3".repeat(12)),
        format!("AKIA{}", "ABCD234E".repeat(2)),
        format!("sk-{}", "x9Y".repeat(12)),
        format!("xoxb-{}", "1a-".repeat(8)),
        "hunter2pass".to_owned(),
        format!("MIIE{}", "q7W".repeat(20)),
        format!("ghp_{}", "Hu7".repeat(12)),
    ]
}

#[test]
fn no_printed_credential_is_stored_anywhere() {
    let fleet = Fleet::up();
    let mine = secrets().pop().unwrap();
    let plan = json!({
        "project": "leaky",
        "output": "T1.1",
        "goal": {"title": format!("Use {mine}"), "problemStatement": format!("it is {mine}")},
        "phases": [{"id": "P1", "name": "Leak", "tasks": [
            {"id": "T1.1", "name": "leak", "objective": format!("with {mine}"), "profile": "leaking",
             "acceptance": ["it was told"]},
        ]}],
        "profiles": {"leaking": {"argv": acting(&["leak"]), "wall": "60s"}},
    });
    let plan = fleet.file("leaky.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let question = wait::until("it asks", || {
        let listed = fleet.json(&["inbox"]);
        listed.as_array().unwrap().first().map(|it| it["id"].as_str().unwrap().to_owned())
    });
    fleet.ok(["mail", "send", "GO", &format!("use {mine}")]);
    fleet.ok(["answer", &question, &format!("take {mine}"), "--other"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| ended.out.clone().into());
    let told = told.to_string();
    for kind in ["github_token", "aws_key", "api_key", "slack_token", "url_password", "private_key"]
    {
        assert!(told.contains(&format!("[redacted:{kind}]")), "{kind}: {told}");
    }
    let streams = [ARTIFACTS, CURSORS, DEAD, LEDGER, MAIL, PLANS, REQUESTS, RUNS, STATE];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let bus = fleet.control().await;
        let (mut bytes, mut redacted) = (0, 0);
        for stream in streams {
            let mut texts = StreamBytes::of(&bus, stream);
            while let Some(body) = texts.next().await {
                let text = String::from_utf8_lossy(&body);
                bytes += body.len();
                redacted += text.matches("[redacted:").count();
                for secret in secrets() {
                    assert!(!text.contains(&secret), "{stream} has {secret}: {text}");
                }
            }
        }
        assert!(bytes > 100_000 && redacted > 50, "{bytes} bytes, {redacted} redacted");
    });
}
