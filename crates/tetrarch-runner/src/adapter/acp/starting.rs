//! How a program that speaks the Agent Client Protocol is started, and how its calls are read. Pure.

use serde_json::{Value, json};
use tetrarch_core::order::Start;

use super::{Acp, SHEET};
use crate::adapter::dialect::{Dialect, text};
use crate::adapter::starting::{AgentStart, McpCommand, addresses, conversation_of, key_variable};

/// How its session is to be.
#[derive(Debug, Default)]
pub(super) struct AcpSession {
    /// The one that it goes on with.
    pub(super) resumes: Option<String>,
    /// What it starts to reach the fleet's tools.
    pub(super) fleet: Option<McpCommand>,
}

impl AcpSession {
    /// The servers of tools that it is given.
    pub(super) fn servers(&self) -> Value {
        let server = self.fleet.iter().map(|McpCommand { program, arguments }| {
            json!({"name": McpCommand::NAME, "command": program, "args": arguments, "env": []})
        });
        server.collect()
    }
}

/// How it is started; `directory` is its home, where it keeps its sessions. Its command is the profile's.
pub(in crate::adapter) fn prepared(
    start: &Start,
    directory: &str,
    fleet: Option<McpCommand>,
) -> AgentStart {
    let served = &start.brief.runner.served;
    let mut environment = vec![("HOME".to_owned(), directory.to_owned())];
    environment.extend(addresses(served));
    let session = AcpSession { resumes: conversation_of(start, SHEET.program), fleet };
    AgentStart {
        arguments: Vec::new(),
        environment,
        key_variable: key_variable(served),
        dialect: Dialect::Acp(Box::new(Acp::new(session))),
    }
}

/// The call with which it is greeted. It is given no files and no terminals of its host: it uses its own, where it is
/// isolated.
pub(super) fn hello() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": {"name": "tetrarch", "title": "Tetrarch", "version": env!("CARGO_PKG_VERSION")},
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
    })
}

/// What an error says.
pub(super) fn words_of(error: &Value) -> String {
    let message = text(error, "message");
    match error.get("data") {
        Some(Value::String(more)) => format!("{message}: {more}"),
        Some(data) if data.is_object() => format!("{message}: {data}"),
        Some(_) | None => message,
    }
}

/// Tokens in and out of a prompt, where programs tell them.
pub(super) fn tokens(result: &Value) -> (u64, u64) {
    let quota = result.get("_meta").and_then(|meta| meta.get("quota")?.get("token_count"));
    let counts = result.get("usage").or(quota);
    let count = |keys: [&str; 2]| {
        keys.iter().find_map(|key| counts?.get(key)?.as_u64()).unwrap_or_default()
    };
    (count(["inputTokens", "input_tokens"]), count(["outputTokens", "output_tokens"]))
}
