//! What `codex` asks its host for, and the answers: uses of its shell and of its patches are decided, the rest is not
//! offered.

use serde_json::{Value, json};

use crate::adapter::dialect::{AgentExchange, NamedByProgram, text};
use crate::adapter::event::{AgentEvent, AskedUse};
use crate::adapter::permission::{Use, plain_words};
use crate::adapter::rpc;

/// Its tools.
pub(super) const SHELL: &str = "exec_command";
pub(super) const PATCH: &str = "apply_patch";

/// Programs that do no more than an entry of our lists, with any plain arguments.
const READERS: [(&str, &str); 7] = [
    ("cat", "read"),
    ("head", "read"),
    ("tail", "read"),
    ("nl", "read"),
    ("wc", "read"),
    ("ls", "list"),
    ("grep", "search"),
];

/// Where a shell by whose name anything else cannot be meant lies.
const SHELL_PLACES: [&str; 4] = ["", "/bin/", "/usr/bin/", "/usr/local/bin/"];
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];
/// What a shell runs before it does what it is told: to write one is to run a command.
const SHELL_STARTS: [&str; 10] = [
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
    ".zlogout",
    ".bash_logout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// It asks for something; `items` is what is known of its uses of tools.
pub(super) fn heard(
    request: &str,
    method: &str,
    params: &Value,
    items: &NamedByProgram<ToolItem>,
) -> AgentExchange {
    let (tool, uses, input) = match method {
        "item/commandExecution/requestApproval" => {
            let input = json!({"command": shell_text(&text(params, "command"))});
            (SHELL, vec![command_use(params)], input)
        }
        "item/fileChange/requestApproval" => {
            let item = items.get(&text(params, "itemId"));
            let changes = item.map(|item| item.changes.clone()).unwrap_or_default();
            (PATCH, change_uses(params, item), json!({"changes": changes}))
        }
        _ => {
            let message = format!("`{method}` is not supported by this host");
            return rpc::refusal(request, rpc::METHOD_NOT_FOUND, &message);
        }
    };
    let paths = changed_paths(&input);
    let (request, tool) = (request.to_owned(), tool.to_owned());
    let asked = AskedUse { request, tool, uses, paths, input };
    AgentExchange::event(AgentEvent::Asks(asked))
}

/// The files that a patch changes.
fn changed_paths(input: &Value) -> Vec<String> {
    let changes = input.get("changes").and_then(Value::as_array).into_iter().flatten();
    let paths = changes.flat_map(|change| {
        let kind = change.get("kind").cloned().unwrap_or_default();
        [text(change, "path"), text(&kind, "move_path")]
    });
    paths.filter(|path| !path.is_empty()).collect()
}

fn command_use(params: &Value) -> Use {
    if params.get("networkApprovalContext").is_some_and(|context| !context.is_null()) {
        return Use::Entry("network");
    }
    match text(params, "kind").as_str() {
        "command" | "" => shell_use(shell_text(&text(params, "command"))),
        // What is typed into a program can be anything that it understands.
        "writeStdin" => Use::Entry("run"),
        _ => Use::Unknown,
    }
}

fn shell_use(text: String) -> Use {
    let program = plain_words(&text).and_then(|words| words.into_iter().next());
    let reader = READERS.iter().find(|(reader, _)| Some(*reader) == program.as_deref());
    match reader {
        Some((_, entry)) => Use::Reading(entry, text),
        None => Use::Shell(text),
    }
}

/// The text that a shell is to run, of a command that is one of a shell.
fn shell_text(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_default();
    match words.as_slice() {
        [shell, flag, text] if matches!(flag.as_str(), "-c" | "-lc") => {
            let is = |place: &str| shell.strip_prefix(place).is_some_and(|it| SHELLS.contains(&it));
            if SHELL_PLACES.into_iter().any(is) { text.clone() } else { command.to_owned() }
        }
        _ => command.to_owned(),
    }
}

/// What a patch does. One that its program did not tell of before can be anything.
fn change_uses(params: &Value, item: Option<&ToolItem>) -> Vec<Use> {
    let grants = params.get("grantRoot").is_some_and(|root| !root.is_null());
    match item {
        Some(item) if !grants && !item.uses.is_empty() => item.uses.clone(),
        Some(_) if !grants => vec![Use::Entry("write"), Use::Entry("edit")],
        Some(_) | None => vec![Use::Unknown],
    }
}

/// A use of a tool that is not over.
#[derive(Debug, Default)]
pub(super) struct ToolItem {
    /// What it does to files; nothing of a tool that changes none.
    uses: Vec<Use>,
    /// These changes, as people are shown them.
    changes: Value,
}

impl ToolItem {
    /// That of an item.
    pub(super) fn of(item: &Value) -> Self {
        let changes = item.get("changes").cloned().unwrap_or_default();
        let mut uses: Vec<Use> = Vec::new();
        for change in changes.as_array().into_iter().flatten() {
            let kind = change.get("kind").cloned().unwrap_or_default();
            let starts = [text(change, "path"), text(&kind, "move_path")]
                .iter()
                .any(|path| SHELL_STARTS.iter().any(|name| path.rsplit('/').next() == Some(*name)));
            let what = Use::Entry(match text(&kind, "type").as_str() {
                _ if starts => "run",
                "add" => "write",
                _ => "edit",
            });
            if !uses.contains(&what) {
                uses.push(what);
            }
        }
        Self { uses, changes }
    }
}

/// What a tool is used with, for people.
pub(super) fn input_of(item: &Value) -> Value {
    if let Some(command) = item.get("command").and_then(Value::as_str) {
        return json!({"command": shell_text(command)});
    }
    let changes = item.get("changes").and_then(Value::as_array);
    let paths = changes.into_iter().flatten().filter_map(|change| change.get("path").cloned());
    let named = ["query", "tool", "path"];
    let mut input: serde_json::Map<String, Value> =
        named.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone()))).collect();
    let paths: Vec<Value> = paths.collect();
    if !paths.is_empty() {
        input.insert("paths".to_owned(), Value::Array(paths));
    }
    Value::Object(input)
}
