//! Other clients of the Model Context Protocol with `tetrarch mcp` as their server: that of the library that it is made
//! with, and the protocol's own inspector, both in the older and in the newer generation of the protocol.

use std::process::{Command, Stdio};

use rmcp::ClientHandler;
use rmcp::model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient};
use serde_json::{Value, json};
use tetrarch_tests::coding_agents::program_of;
use tetrarch_tests::model::node;
use tetrarch_tests::{Ended, Fleet, Program};
use tokio::sync::mpsc;

/// Passes on what it hears of the progress of calls.
struct ProgressEar(mpsc::UnboundedSender<String>);

impl ClientHandler for ProgressEar {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _over = self.0.send(params.message.unwrap_or_default());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn library_client_uses_the_commands_in_both_eras() {
    let fleet = Fleet::up();
    let discover =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
    for era in [ClientLifecycleMode::Initialize, discover] {
        let mut command = tokio::process::Command::from(fleet.command(["mcp", "--read-only"]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let streams = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let (ear, mut heard) = mpsc::unbounded_channel();
        let client = ProgressEar(ear).serve_with_lifecycle(streams, era.clone()).await.unwrap();
        let tools = client.peer().list_all_tools().await.unwrap();
        let has = |name: &str| tools.iter().any(|tool| tool.name == name);
        assert!(has("status") && !has("goal_create"), "{era:?}");
        let status = CallToolRequestParams::new("status");
        let status = client.peer().call_tool(status).await.unwrap();
        assert_eq!(status.structured_content.unwrap()["deadLetters"], json!({}), "{era:?}");
        assert_eq!(heard.recv().await.as_deref(), Some("running for 0 s"), "{era:?}");
        let unknown = CallToolRequestParams::new("nonsense");
        let unknown = client.peer().call_tool(unknown).await.unwrap_err().to_string();
        assert!(unknown.contains("nonsense: unknown tool"), "{era:?}: {unknown}");
        client.cancel().await.unwrap();
        assert!(server.wait().await.unwrap().success(), "it ends with its client");
    }
}

/// The inspector's answer, and how it ended.
fn inspected(fleet: &Fleet, inspector: &std::path::Path, words: &[&str]) -> (Value, Ended) {
    let own = fleet.command(["mcp"]);
    let environment = || own.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new(node());
    command.arg(inspector).arg("--cli").arg(own.get_program()).arg("mcp").args(words);
    command.env_clear().envs(environment()).current_dir(fleet.cwd());
    // It passes on little of its own environment.
    let installation =
        environment().filter(|(name, _)| name.to_string_lossy().starts_with("TETRARCH_"));
    for (name, value) in installation {
        command.arg("-e").arg(format!("{}={}", name.display(), value.display()));
    }
    let ended = Program::start(&mut command).ended();
    (serde_json::from_str(&ended.out).unwrap_or_default(), ended)
}

/// Its pinned version is here for `tests/run`: @modelcontextprotocol/inspector@2.12.0.
#[test]
#[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
fn inspector_finds_no_fault_with_the_tools_in_both_eras() {
    let Some(inspector) = program_of("inspector") else {
        println!(
            "skipped: the inspector is not installed; tests/run installs it where the package index has it"
        );
        return;
    };
    let fleet = Fleet::up();
    for era in ["legacy", "modern"] {
        let inspect = |words: &[&str]| {
            inspected(&fleet, &inspector, &[words, &["--protocol-era", era]].concat())
        };
        let (tools, ended) = inspect(&["--method", "tools/list", "--strict"]);
        assert_eq!(ended.code, Some(0), "{era}: {}", ended.err);
        let tools = tools["tools"].as_array().unwrap_or_else(|| panic!("{}", ended.out)).clone();
        assert!(tools.iter().any(|tool| tool["name"] == "goal_create"), "{era}");
        let (status, ended) = inspect(&["--method", "tools/call", "--tool-name", "status"]);
        assert_eq!(status["structuredContent"]["deadLetters"], json!({}), "{era}: {}", ended.err);
        let wrong = ["--method", "tools/call", "--tool-name", "tree", "--tool-arg", "al=true"];
        let (wrong, ended) = inspect(&wrong);
        assert_eq!(wrong["isError"], true, "{era}: {}{}", ended.out, ended.err);
    }
}
