//! Real programs of the Agent Client Protocol as workers: the cells of its capability table (docs/agents.md).

use serde_json::{Value, json};
use tetrarch_tests::model::ModelServer;

use crate::coding::outcomes::{Endings, outcomes};
use crate::coding::tooling::finishes_by_its_tool;
use crate::coding::{self, Coder};

const OPENCODE: Coder = Coder {
    program: "opencode",
    runner: "acp",
    arguments: &["acp"],
    mark: " acp",
    profile: opencode,
    goes_on: "Go on where you were",
    steers: "none",
    shell: ("bash", |command| json!({"command": command, "description": "works"})),
};

/// Everything that it can ask for, it asks for.
fn opencode(server: &ModelServer) -> Value {
    let options = json!({"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:CODING_TEST_KEY}"});
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": {"m": {"name": "m"}},
    });
    let config = json!({
        "model": "scripted/m", "small_model": "scripted/m", "permission": {"*": "ask"}, "share": "disabled",
        "provider": {"scripted": provider},
    });
    let env = json!({
        "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    });
    let base_url = format!("{}/v1", server.url());
    json!({"env": env, "provider": "openai", "baseUrl": base_url})
}

const GEMINI: Coder = Coder {
    program: "gemini",
    runner: "acp",
    arguments: &["--acp", "-m", "gemini-2.5-flash"],
    mark: "--acp",
    profile: gemini,
    // It loads no session in which the model has not answered: it begins anew, and is told what it did.
    goes_on: "may have taken effect",
    steers: "none",
    shell: ("run_shell_command", |command| json!({"command": command, "description": "works"})),
};

fn gemini(server: &ModelServer) -> Value {
    // Its isolation gives it no terminals.
    let env = json!({"GEMINI_PTY_INFO": "child_process"});
    json!({
        "env": env, "provider": "gemini", "baseUrl": server.url(), "keyFrom": "env:GEMINI_API_KEY",
    })
}

/// It starts servers of tools only where its directory is trusted, which its profile has to say.
fn trusting(server: &ModelServer) -> Value {
    let mut profile = gemini(server);
    profile["env"]["GEMINI_CLI_TRUST_WORKSPACE"] = json!("true");
    profile
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_is_refused_what_the_brief_does_not_allow() {
    coding::refuses(&OPENCODE, "execute", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_asks_people_for_what_the_brief_does_not_allow() {
    coding::asks_people(&OPENCODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_reaches_the_fleet_by_its_tools() {
    coding::reaches_the_fleet(&OPENCODE, "tetrarch_");
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_ends_its_run_by_a_tool_of_the_fleet() {
    finishes_by_its_tool(&OPENCODE, "tetrarch_", false);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_goes_on_with_its_conversation_after_kill_9() {
    coding::goes_on(&OPENCODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_is_steered_and_interrupted_at_work() {
    coding::is_steered_and_interrupted(&OPENCODE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_is_stopped_at_each_moment_and_leaves_nothing() {
    coding::is_stopped_at_each_moment(&OPENCODE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_results_and_errors_become_outcomes_and_usage_is_charged() {
    let endings = Endings {
        typed: coding::says("by schema", "{\"n\":4}"),
        too_many: Ok("let in"),
        // It asks again and again when its key is refused.
        skipped: &["no key"],
        // It tells the tokens of its answer, and asks for a title beside it.
        greeting: (30, 48),
    };
    outcomes(&OPENCODE, endings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_asks_people_for_what_the_brief_does_not_allow() {
    coding::asks_people(&GEMINI);
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_reaches_the_fleet_by_its_tools() {
    coding::reaches_the_fleet(&Coder { profile: trusting, ..GEMINI }, "mcp_tetrarch_");
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_ends_its_run_by_a_tool_of_the_fleet() {
    finishes_by_its_tool(&Coder { profile: trusting, ..GEMINI }, "mcp_tetrarch_", true);
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_goes_on_with_its_conversation_after_kill_9() {
    coding::goes_on(&GEMINI);
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_is_steered_and_interrupted_at_work() {
    coding::is_steered_and_interrupted(&GEMINI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_is_stopped_at_each_moment_and_leaves_nothing() {
    coding::is_stopped_at_each_moment(&GEMINI).await;
}
