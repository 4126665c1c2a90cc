//! How `claude` is started: its arguments, its environment, and the first message. Pure; whether there is a
//! conversation to go on with is its caller's to know.

use serde_json::json;
use tetrarch_core::brief::{Brief, Tools};
use tetrarch_core::converse::opening;
use tetrarch_core::order::Start;

use super::{Claude, conversation};
use crate::adapter::dialect::Dialect;
use crate::adapter::permission::may_ever;
use crate::adapter::starting::{AgentStart, McpCommand, expected_schema};

/// Its tools that a list of ours can allow, with the entry that does. Others are not given to it: agents of its own
/// would be children that nobody admitted.
pub(super) const TOOLS: [(&str, &str); 9] = [
    ("Read", "read"),
    ("Glob", "list"),
    ("Grep", "search"),
    ("Write", "write"),
    ("Edit", "edit"),
    ("NotebookEdit", "edit"),
    ("Bash", "run"),
    ("WebFetch", "network"),
    ("WebSearch", "network"),
];
/// What its names of the fleet's tools begin with.
pub(super) const FLEET: &str = "mcp__tetrarch__";
/// Its tool for a typed result, which it adds by itself.
pub(super) const RESULT_TOOL: &str = "StructuredOutput";
/// What is in its directory for each conversation.
pub(in crate::adapter) const TRANSCRIPTS: &str = "projects";

/// Variables that keep it to its work: no updates of itself, nothing sent but to the model, no command that
/// outlives its turn, and no turn before it has the fleet's tools.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("MCP_CONNECTION_NONBLOCKING", "0"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
];

/// The variable that it takes a key from.
const KEY: &str = "ANTHROPIC_API_KEY";

/// How it is started; `goes_on`: its conversation has begun, `directory` is where it keeps it.
pub(in crate::adapter) fn prepared(
    start: &Start,
    goes_on: bool,
    directory: &str,
    fleet: Option<&McpCommand>,
) -> AgentStart {
    let claude = Claude::new(conversation(start.first.0), goes_on);
    AgentStart {
        arguments: arguments(start, goes_on, fleet),
        environment: environment(&start.brief, directory),
        key_variable: KEY.to_owned(),
        dialect: Dialect::Claude(Box::new(claude)),
    }
}

/// Its arguments.
fn arguments(start: &Start, goes_on: bool, fleet: Option<&McpCommand>) -> Vec<String> {
    let brief = &start.brief;
    let tools = tools(&brief.tools);
    let servers = fleet.map(|McpCommand { program, arguments }| {
        let server =
            json!({"type": "stdio", "command": program, "args": arguments, "alwaysLoad": true});
        json!({"mcpServers": {McpCommand::NAME: server}}).to_string()
    });
    // No rule of its own, or of a file in the workspace, allows what we are not asked for.
    let settings = json!({"permissions": {"ask": tools}}).to_string();
    let conversation = conversation(start.first.0);
    let (tools, system) = (tools.join(","), opening::system_of_program(start));
    let mut arguments: Vec<&str> = vec![
        "--print",
        "--verbose",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--replay-user-messages",
        "--permission-prompt-tool",
        "stdio",
        "--strict-mcp-config",
        "--disable-slash-commands",
        "--setting-sources",
        "",
        "--settings",
        &settings,
        "--tools",
        &tools,
        "--append-system-prompt",
        &system,
    ];
    let schema = schema(start);
    if let Some(schema) = &schema {
        arguments.extend(["--json-schema", schema.as_str()]);
    }
    if let Some(servers) = &servers {
        arguments.extend(["--mcp-config", servers.as_str()]);
    }
    if !brief.runner.model.is_empty() {
        arguments.extend(["--model", brief.runner.model.as_str()]);
    }
    arguments.extend([if goes_on { "--resume" } else { "--session-id" }, conversation.as_str()]);
    arguments.into_iter().map(str::to_owned).collect()
}

/// Its environment besides the key: `directory` is where it keeps its conversations.
fn environment(brief: &Brief, directory: &str) -> Vec<(String, String)> {
    let mut environment: Vec<(&str, &str)> = ENVIRONMENT.to_vec();
    environment.push(("CLAUDE_CONFIG_DIR", directory));
    // Served addresses of the llm runner end in the version, which it adds by itself.
    let base_url = &brief.runner.served.base_url;
    let base_url = base_url.trim_end_matches('/');
    let base_url = base_url.strip_suffix("/v1").unwrap_or(base_url);
    environment.push(("ANTHROPIC_BASE_URL", base_url));
    environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Those of its tools that the list allows, or some use of them.
fn tools(list: &Tools) -> Vec<&'static str> {
    let allowed = |(_, entry): &(&str, &str)| may_ever(list, entry);
    TOOLS.into_iter().filter(allowed).map(|(name, _)| name).collect()
}

/// The schema of its result, when it is one of an object, which is what its tool takes. Others are in the brief, and
/// its last words are checked.
fn schema(start: &Start) -> Option<String> {
    let schema = expected_schema(start)?;
    (schema.get("type")? == "object").then(|| schema.to_string())
}
