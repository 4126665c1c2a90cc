//! How a program that speaks the Agent Client Protocol is started, and how its calls are read. Pure.

use serde_json::{Value, json};
use tetrarch_core::converse::opening;
use tetrarch_core::order::Start;
use tetrarch_core::secret::SecretSource;

use super::{Acp, SHEET};
use crate::adapter::dialect::{Dialect, text};
use crate::adapter::starting::{AgentStart, McpCommand, conversation_of};

/// A provider whose clients look for another address in a variable.
pub(in crate::adapter) struct AcpProvider {
    pub(in crate::adapter) name: &'static str,
    /// Where it serves its models.
    pub(in crate::adapter) base_url: &'static str,
    variable: &'static str,
}

/// Those that a profile may name.
pub(in crate::adapter) const PROVIDERS: [AcpProvider; 3] = [
    AcpProvider {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        variable: "ANTHROPIC_BASE_URL",
    },
    AcpProvider {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        variable: "OPENAI_BASE_URL",
    },
    AcpProvider {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com",
        variable: "GOOGLE_GEMINI_BASE_URL",
    },
];

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
    let provider = PROVIDERS.iter().find(|it| it.name == served.provider);
    let address = provider.map(|it| (it.variable.to_owned(), served.base_url.clone()));
    let mut environment = vec![("HOME".to_owned(), directory.to_owned())];
    environment.extend(address);
    let key = match served.key_source() {
        Some(SecretSource::Env(name) | SecretSource::Credential(name)) => name,
        Some(SecretSource::File(_) | SecretSource::Command(_)) | None => String::new(),
    };
    let session = AcpSession { resumes: conversation_of(start, SHEET.program), fleet };
    AgentStart {
        arguments: Vec::new(),
        environment,
        key_variable: key,
        dialect: Dialect::Acp(Box::new(Acp::new(session))),
    }
}

/// What it is told before its brief: it has no place for instructions of its host.
pub(in crate::adapter) fn instructions(start: &Start) -> String {
    format!("{}\n\n", opening::system_of_program(start))
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
