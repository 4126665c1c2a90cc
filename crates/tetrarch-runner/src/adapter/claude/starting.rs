//! How `claude` is started: its arguments, its environment, and the first message. Pure; whether there is a
//! conversation to go on with is its caller's to know.

use serde_json::{Value, json};
use tetrarch_core::brief::{Brief, EVERY_TOOL, ExpectedOutput, Tools};
use tetrarch_core::converse::opening;
use tetrarch_core::order::Start;
use tetrarch_core::role::Role;

use super::{ClaudeSession, conversation};
use crate::adapter::permission::ASKS;
use crate::backend::llm::verdict_form;

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
/// Its tool for a typed result, which it adds by itself.
pub(super) const RESULT_TOOL: &str = "StructuredOutput";
/// Where its model is served when a profile does not say.
pub(crate) const BASE_URL: &str = "https://api.anthropic.com";
/// What is in its directory for each conversation.
pub(crate) const TRANSCRIPTS: &str = "projects";

/// What it is told when it goes on.
const GOES_ON: &str = "[Your program ended in the middle of your work and was started again. Go on where you were. A \
    tool call without a result may have taken effect: look before you repeat it.]";

/// The field of a checkpoint that lists what it was allowed to use last.
pub(super) const USING: &str = "using";

/// Variables that keep it to its work: no updates of itself, nothing sent but to the model, and no command that
/// outlives its turn.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
];

/// Its conversation about a brief. `goes_on`: it has begun in an earlier run.
pub(crate) fn session(start: &Start, goes_on: bool) -> ClaudeSession {
    let mut first = if goes_on { GOES_ON.to_owned() } else { opening::brief(&start.brief) };
    let using = using(start.checkpoint.as_deref());
    if !using.is_empty() {
        first.push_str("\n\n[Your last session was allowed these uses of tools, which may have taken effect:]\n- ");
        first.push_str(&using.join("\n- "));
    }
    let base = u128::from(start.run.0);
    ClaudeSession::new(start.brief.tools.clone(), first, reviews(start), base)
}

/// What the last checkpoint says that it was using. One of another program says nothing of it.
fn using(checkpoint: Option<&str>) -> Vec<String> {
    let state = checkpoint.and_then(|state| serde_json::from_str::<Value>(state).ok());
    let list = state.as_ref().and_then(|state| state.get(USING)?.as_array());
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Its arguments.
pub(crate) fn arguments(start: &Start, goes_on: bool) -> Vec<String> {
    let brief = &start.brief;
    let tools = tools(&brief.tools);
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
    if !brief.runner.model.is_empty() {
        arguments.extend(["--model", brief.runner.model.as_str()]);
    }
    arguments.extend([if goes_on { "--resume" } else { "--session-id" }, conversation.as_str()]);
    arguments.into_iter().map(str::to_owned).collect()
}

/// Its environment besides the key: `directory` is where it keeps its conversations.
pub(crate) fn environment(brief: &Brief, directory: &str) -> Vec<(String, String)> {
    let mut environment: Vec<(&str, &str)> = ENVIRONMENT.to_vec();
    environment.push(("CLAUDE_CONFIG_DIR", directory));
    // Served addresses of the llm runner end in the version, which it adds by itself.
    let base_url = &brief.runner.served.base_url;
    let base_url = base_url.trim_end_matches('/');
    let base_url = base_url.strip_suffix("/v1").unwrap_or(base_url);
    if !base_url.is_empty() {
        environment.push(("ANTHROPIC_BASE_URL", base_url));
    }
    environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Those of its tools that the list allows, or some use of them.
fn tools(list: &Tools) -> Vec<&'static str> {
    let allows = |entry: &str| {
        list.names().any(|name| {
            let some = entry == "run" && name.starts_with("run:");
            // With people to ask, each of them may be allowed.
            name == EVERY_TOOL || name == entry || name == ASKS || some
        })
    };
    TOOLS.into_iter().filter(|(_, entry)| allows(entry)).map(|(name, _)| name).collect()
}

/// The schema of its result, when it is one of an object, which is what its tool takes. Others are in the brief, and
/// its last words are checked.
fn schema(start: &Start) -> Option<String> {
    let expected = match &start.brief.expected_output {
        ExpectedOutput::Text if reviews(start) => verdict_form(),
        expected @ (ExpectedOutput::Text | ExpectedOutput::Schema(_)) => expected.clone(),
    };
    let ExpectedOutput::Schema(schema) = expected else { return None };
    let schema: Value = serde_json::from_str(&schema).ok()?;
    (schema.get("type")? == "object").then(|| schema.to_string())
}

/// Whether it ends by a verdict.
fn reviews(start: &Start) -> bool {
    Role::of(&start.agent) == Role::Reviewer && start.brief.expected_output == ExpectedOutput::Text
}
