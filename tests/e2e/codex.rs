//! The real `codex` as a worker: the cells of its capability table (docs/agents.md).

use serde_json::{Value, json};
use tetrarch_tests::model::ModelServer;

use crate::coding::outcomes::{Endings, outcomes};
use crate::coding::tooling::finishes_by_its_tool;
use crate::coding::{self, Coder};

const CODEX: Coder = Coder {
    program: "codex",
    runner: "codex",
    arguments: &[],
    mark: "app-server",
    profile,
    goes_on: "Go on where you were",
    steers: "delivered",
    shell: ("exec_command", |command| json!({"cmd": command, "yield_time_ms": 30_000})),
};

fn profile(server: &ModelServer) -> Value {
    json!({"baseUrl": format!("{}/v1", server.url()), "model": "gpt-5.1-codex"})
}

/// Also what rules in the repository allow; agents of its own are none of its tools.
#[tokio::test(flavor = "multi_thread")]
async fn codex_is_refused_what_the_brief_does_not_allow() {
    let tools = ["exec_command", "write_stdin", "request_user_input"];
    coding::refuses(&CODEX, "exec_command", Some(&tools));
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_asks_people_for_what_the_brief_does_not_allow() {
    coding::asks_people(&CODEX);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_reaches_the_fleet_by_its_tools() {
    coding::reaches_the_fleet(&CODEX, "mcp__tetrarch__");
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_ends_its_run_by_a_tool_of_the_fleet() {
    finishes_by_its_tool(&CODEX, "mcp__tetrarch__", false);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_goes_on_with_its_conversation_after_kill_9() {
    coding::goes_on(&CODEX);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_is_steered_and_interrupted_at_work() {
    coding::is_steered_and_interrupted(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_is_stopped_at_each_moment_and_leaves_nothing() {
    coding::is_stopped_at_each_moment(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_results_and_errors_become_outcomes_and_usage_is_charged() {
    let endings = Endings {
        typed: coding::says("by schema", "{\"n\":4}"),
        too_many: Ok("let in"),
        skipped: &[],
        greeting: (30, 9),
    };
    outcomes(&CODEX, endings).await;
}
