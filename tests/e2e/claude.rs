//! The real `claude` as a worker: the cells of its capability table (docs/agents.md).

use serde_json::{Value, json};
use tetrarch_tests::model::ModelServer;

use crate::coding::outcomes::{Endings, outcomes};
use crate::coding::tooling::finishes_by_its_tool;
use crate::coding::{self, Coder};

const CLAUDE: Coder = Coder {
    program: "claude",
    runner: "claude",
    arguments: &[],
    mark: "--input-format",
    profile,
    goes_on: "Go on where you were",
    steers: "delivered",
    shell: ("Bash", |command| json!({"command": command, "description": "works"})),
};

fn profile(server: &ModelServer) -> Value {
    json!({"baseUrl": server.url(), "model": "claude-opus-5-5"})
}

/// Also what the program would do without asking; agents of its own are none of its tools.
#[tokio::test(flavor = "multi_thread")]
async fn claude_is_refused_what_the_brief_does_not_allow() {
    // One of them stands for those that it would load later.
    coding::refuses(&CLAUDE, "Bash", Some(&["Bash", "DeferredToolPlaceholder", "Write"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_asks_people_for_what_the_brief_does_not_allow() {
    coding::asks_people(&CLAUDE);
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_reaches_the_fleet_by_its_tools() {
    coding::reaches_the_fleet(&CLAUDE, "mcp__tetrarch__");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_ends_its_run_by_a_tool_of_the_fleet() {
    finishes_by_its_tool(&CLAUDE, "mcp__tetrarch__", false);
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_goes_on_with_its_conversation_after_kill_9() {
    coding::goes_on(&CLAUDE);
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_is_steered_and_interrupted_at_work() {
    coding::is_steered_and_interrupted(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_is_stopped_at_each_moment_and_leaves_nothing() {
    coding::is_stopped_at_each_moment(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_results_and_errors_become_outcomes_and_usage_is_charged() {
    let typed = coding::uses("by schema", "typed", "StructuredOutput", json!({"n": 4}));
    let endings = Endings { typed, too_many: Ok("let in"), skipped: &[], greeting: (30, 9) };
    outcomes(&CLAUDE, endings).await;
}
