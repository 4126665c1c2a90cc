//! What a program asks its host for by the Agent Client Protocol, and the answers.

use serde_json::{Value, json};

use crate::adapter::dialect::{AgentExchange, text};
use crate::adapter::event::AskedUse;
use crate::adapter::permission::Use;
use crate::adapter::truncated;

/// The answers that one request offers.
#[derive(Debug, Default)]
pub(super) struct PermissionOptions {
    allow: Option<String>,
    reject: Option<String>,
}

impl PermissionOptions {
    /// Those of a request. An answer is of one use where that is offered.
    pub(super) fn of(params: &Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let all: Vec<&Value> = options.into_iter().flatten().collect();
        let of = |kinds: [&str; 2]| {
            kinds.iter().find_map(|kind| {
                let option = all.iter().find(|option| text(option, "kind") == *kind)?;
                Some(text(option, "optionId"))
            })
        };
        Self {
            allow: of(["allow_once", "allow_always"]),
            reject: of(["reject_once", "reject_always"]),
        }
    }

    /// The answer that says so; that nobody decided where there is none.
    pub(super) fn chosen(&self, allows: bool) -> Value {
        let option = if allows { &self.allow } else { &self.reject };
        match option {
            Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
            None => cancelled(),
        }
    }
}

/// The answer that nobody decided.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

/// The answer to a request.
pub(super) fn answer(request: &str, result: &Value) -> AgentExchange {
    let id: Value = serde_json::from_str(request).unwrap_or_default();
    AgentExchange::line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// A request for something that is not offered.
pub(super) fn refused(request: &str, method: &str) -> AgentExchange {
    error(request, -32_601, &format!("`{method}` is not offered by this host"))
}

/// A request of which only the start was kept.
pub(super) fn too_long(request: &str) -> AgentExchange {
    error(request, -32_600, truncated::REQUEST)
}

fn error(request: &str, code: i64, message: &str) -> AgentExchange {
    let id: Value = serde_json::from_str(request).unwrap_or_default();
    let error = json!({"code": code, "message": message});
    AgentExchange::line(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// The use of a tool that a request asks for.
pub(super) fn asked(request: &str, params: &Value) -> AskedUse {
    let call = params.get("toolCall").unwrap_or(&Value::Null);
    let (tool, input) = tool_of(call);
    let what = match tool.as_str() {
        "read" => Use::Entry("read"),
        "search" => Use::Entry("search"),
        "edit" | "delete" | "move" => Use::Entry("edit"),
        "fetch" => Use::Entry("network"),
        "execute" => match call.get("rawInput").and_then(|input| input.get("command")?.as_str()) {
            Some(command) => Use::Shell(command.to_owned()),
            // A title need not be what is run.
            None => Use::Entry("run"),
        },
        _ => Use::Unknown,
    };
    AskedUse { request: request.to_owned(), tool, uses: vec![what], input }
}

/// The kind of a tool's use, and what people are shown of it.
pub(super) fn tool_of(call: &Value) -> (String, Value) {
    let kind = text(call, "kind");
    let kind = if kind.is_empty() { "other".to_owned() } else { kind };
    let command = call.get("rawInput").and_then(|input| input.get("command"));
    let input = match command {
        Some(command) => json!({"command": command}),
        None => json!({"title": text(call, "title")}),
    };
    (kind, input)
}
