//! What a program asks its host for by the Agent Client Protocol, and the answers.

use serde_json::{Value, json};

use crate::adapter::dialect::text;
use crate::adapter::event::AskedUse;
use crate::adapter::permission::Use;
use crate::adapter::starting::McpCommand;
use crate::backend::fleet_tools;

/// The answers that one request offers.
#[derive(Debug, Default)]
pub(super) struct PermissionOptions {
    allow: Option<String>,
    reject: Option<String>,
}

impl PermissionOptions {
    /// Those of a request. One that would allow every later use as well is no answer to this one.
    pub(super) fn of(params: &Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let all: Vec<&Value> = options.into_iter().flatten().collect();
        let of = |kinds: &[&str]| {
            kinds.iter().find_map(|kind| {
                let option = all.iter().find(|option| text(option, "kind") == *kind)?;
                Some(text(option, "optionId"))
            })
        };
        Self { allow: of(&["allow_once"]), reject: of(&["reject_once", "reject_always"]) }
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

/// The use of a tool that a request asks for.
pub(super) fn asked(request: &str, params: &Value) -> AskedUse {
    let call = params.get("toolCall").unwrap_or(&Value::Null);
    let (tool, input) = (tool_of(call).0, shown(call));
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
        _ if is_of_fleet(&text(call, "title")) => Use::Own,
        _ => Use::Unknown,
    };
    let places = call.get("locations").and_then(Value::as_array).into_iter().flatten();
    let paths = places.map(|place| text(place, "path")).filter(|path| !path.is_empty()).collect();
    AskedUse { request: request.to_owned(), tool, uses: vec![what], paths, input }
}

/// Whether a use that is of no kind is of a tool of the fleet: programs call it after its server, before or behind.
fn is_of_fleet(title: &str) -> bool {
    let behind = format!(" ({} MCP Server)", McpCommand::NAME);
    let before = title.strip_prefix(McpCommand::NAME).and_then(|rest| rest.strip_prefix('_'));
    let name = before.or_else(|| title.strip_suffix(behind.as_str()));
    name.is_some_and(|name| fleet_tools::names().any(|own| own == name))
}

/// All that is told of a use, so that people decide on what is done and not on its title.
fn shown(call: &Value) -> Value {
    let told = ["title", "rawInput", "content", "locations"].into_iter();
    let told = told.filter_map(|key| Some((key.to_owned(), call.get(key)?.clone())));
    Value::Object(told.filter(|(_, value)| !value.is_null()).collect())
}

/// The kind of a tool's use, and what it is in short.
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
