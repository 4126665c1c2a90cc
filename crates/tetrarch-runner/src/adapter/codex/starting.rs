//! How `codex` is started: its arguments, its environment, and how its thread is to be. Pure.

use serde_json::{Value, json};
use tetrarch_core::brief::Runner;
use tetrarch_core::converse::opening;
use tetrarch_core::order::Start;

use super::{Codex, SHEET};
use crate::adapter::dialect::{Dialect, uuid};
use crate::adapter::permission::may_ever;
use crate::adapter::starting::{AgentStart, McpCommand, conversation_of, expected_schema};

/// What is in its directory of each conversation.
pub(in crate::adapter) const TRANSCRIPTS: &str = "sessions";
/// The variable that it takes a key from. Its shell commands do not see it.
const KEY: &str = "OPENAI_API_KEY";

/// Variables that say where it keeps what. Its database would take the first directory for temporary files whose mode
/// lets it write, which its isolation may not do.
const PLACES: [&str; 2] = ["CODEX_HOME", "SQLITE_TMPDIR"];

/// What it would do besides the brief: agents of its own, which nobody admitted, and tools that no list of ours names.
const OFF: [&str; 19] = [
    "apps",
    "browser_use",
    "code_mode_host",
    "computer_use",
    "goals",
    "hooks",
    "image_generation",
    "in_app_browser",
    "memories",
    "multi_agent",
    "multi_agent_v2",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "skill_search",
    "sleep_tool",
    "tool_call_mcp_elicitation",
    "tool_search",
    "tool_suggest",
];

/// Notifications that it does not have to send.
const UNHEARD: [&str; 9] = [
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "rawResponseItem/completed",
    "turn/diff/updated",
];

/// How its thread is to be.
#[derive(Debug, Default)]
pub(super) struct CodexThread {
    /// The one that it goes on with.
    pub(super) resumes: Option<String>,
    /// What it is told before everything else.
    pub(super) system: String,
    /// The schema of its last words.
    pub(super) schema: Option<Value>,
}

impl CodexThread {
    /// The call that begins one. A thread that could write would make the program trust the repository's own settings,
    /// which name programs to run.
    pub(super) fn started(&self) -> Value {
        json!({
            "developerInstructions": self.system,
            "approvalPolicy": "untrusted",
            "sandbox": "read-only",
        })
    }

    /// The call that goes on with the earlier one.
    pub(super) fn resumed(&self) -> Option<Value> {
        let mut call = self.started();
        call["threadId"] = json!(self.resumes.as_ref()?);
        // They are many, and a line has a limit.
        call["excludeTurns"] = json!(true);
        Some(call)
    }

    /// The call that gives it a message. Its host isolates it.
    pub(super) fn turn(&self, thread: &str, text: &str, number: Option<u128>) -> Value {
        let mut call = json!({
            "threadId": thread,
            "input": [{"type": "text", "text": text}],
            "approvalPolicy": "untrusted",
            "sandboxPolicy": {"type": "externalSandbox", "networkAccess": "enabled"},
        });
        if let Some(number) = number {
            call["clientUserMessageId"] = json!(uuid(number));
        }
        if let Some(schema) = &self.schema {
            call["outputSchema"] = schema.clone();
        }
        call
    }
}

/// The call with which it is greeted.
pub(super) fn hello() -> Value {
    json!({
        "clientInfo": {"name": "tetrarch", "title": "Tetrarch", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {
            "experimentalApi": true,
            "requestAttestation": false,
            "optOutNotificationMethods": UNHEARD,
        },
    })
}

/// How it is started; `directory` is where it keeps its threads.
pub(in crate::adapter) fn prepared(
    start: &Start,
    directory: &str,
    fleet: Option<&McpCommand>,
) -> AgentStart {
    let thread = CodexThread {
        resumes: conversation_of(start, SHEET.program),
        system: opening::system_of_program(start),
        schema: expected_schema(start).filter(is_strict),
    };
    AgentStart {
        arguments: arguments(start, fleet),
        environment: PLACES.map(|name| (name.to_owned(), directory.to_owned())).to_vec(),
        key_variable: KEY.to_owned(),
        dialect: Dialect::Codex(Box::new(Codex::new(thread))),
    }
}

/// Its arguments. Values of settings are TOML, of which texts and lists of JSON are a part.
fn arguments(start: &Start, fleet: Option<&McpCommand>) -> Vec<String> {
    let tools = &start.brief.tools;
    let shell = ["run", "read", "list", "search"].iter().any(|entry| may_ever(tools, entry));
    // The provider searches, so nobody could be asked first.
    let has_network = tools.names().any(|entry| entry == "network");
    let searches = if has_network { "live" } else { "disabled" };
    let mut settings = vec![
        ("model_provider".to_owned(), json!("tetrarch")),
        ("web_search".to_owned(), json!(searches)),
        ("allow_login_shell".to_owned(), json!(false)),
        ("shell_environment_policy.exclude".to_owned(), json!([KEY])),
        ("skills.include_instructions".to_owned(), json!(false)),
        (["skills", "bundled", "enabled"].join("."), json!(false)),
        ("check_for_update_on_startup".to_owned(), json!(false)),
        ("analytics.enabled".to_owned(), json!(false)),
        ("features.shell_tool".to_owned(), json!(shell)),
        ("features.view_image".to_owned(), json!(may_ever(tools, "read"))),
    ];
    settings.extend(provider(&start.brief.runner));
    settings.extend(fleet.into_iter().flat_map(server));
    settings.extend(OFF.iter().map(|feature| (format!("features.{feature}"), json!(false))));
    if !start.brief.runner.model.is_empty() {
        settings.push(("model".to_owned(), json!(start.brief.runner.model)));
    }
    let named = settings.into_iter().map(|(name, value)| format!("{name}={value}"));
    let pairs = named.flat_map(|setting| ["-c".to_owned(), setting]);
    ["app-server".to_owned()].into_iter().chain(pairs).collect()
}

/// The server of the fleet's tools. Its host decides on each use, and people may take long to answer one.
fn server(McpCommand { program, arguments }: &McpCommand) -> Vec<(String, Value)> {
    let server = [
        ("command", json!(program)),
        ("args", json!(arguments)),
        ("required", json!(true)),
        ("tool_timeout_sec", json!(WAIT_MAX)),
        ("default_tools_approval_mode", json!("approve")),
    ];
    let named = |(key, value)| (["mcp_servers", McpCommand::NAME, key].join("."), value);
    server.into_iter().map(named).collect()
}

/// Longest wait of one of the fleet's tools, in seconds: people answer when they are there.
const WAIT_MAX: u64 = 7 * 24 * 3600;

/// Its model's server.
fn provider(runner: &Runner) -> Vec<(String, Value)> {
    let mut provider = vec![
        ("name", json!("Tetrarch")),
        ("base_url", json!(runner.served.base_url)),
        ("wire_api", json!("responses")),
    ];
    if !runner.served.key_from.is_empty() {
        provider.push(("env_key", json!(KEY)));
    }
    let named = provider.into_iter();
    named.map(|(key, value)| (["model_providers", "tetrarch", key].join("."), value)).collect()
}

/// Whether its model's server takes a schema: each object has all its properties and no others. Other schemas are in
/// the brief, and its last words are checked.
fn is_strict(schema: &Value) -> bool {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    is_object && objects_are_strict(schema)
}

fn objects_are_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let closed = fields.get("type").is_none_or(|kind| kind != "object") || {
                let properties = fields.get("properties").and_then(Value::as_object);
                let required = fields.get("required").and_then(Value::as_array);
                let names = properties.into_iter().flat_map(|all| all.keys());
                let has = |name: &String| {
                    required.is_some_and(|all| all.iter().any(|one| one == name.as_str()))
                };
                fields.get("additionalProperties") == Some(&Value::Bool(false))
                    && names.into_iter().all(has)
            };
            closed && fields.values().all(objects_are_strict)
        }
        Value::Array(items) => items.iter().all(objects_are_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_schema_of_closed_objects_is_given_to_the_model() {
        let closed = |properties: Value, required: Value| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            })
        };
        let inner = closed(json!({"n": {"type": "integer"}}), json!(["n"]));
        for (schema, expected) in [
            (inner.clone(), true),
            (closed(json!({"a": {"type": "array", "items": inner}}), json!(["a"])), true),
            (closed(json!({"n": {"type": "integer"}}), json!([])), false),
            (closed(json!({"a": {"type": "object"}}), json!(["a"])), false),
            (json!({"type": "object", "properties": {}}), false),
            (json!({"type": "integer"}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_strict(&schema), expected, "{schema}");
        }
    }
}
