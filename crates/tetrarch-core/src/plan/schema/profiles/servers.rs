//! The servers of the Model Context Protocol that a profile names.

use super::{read_env, read_pass_env};
use crate::brief::RunnerKind;
use crate::limits::{LIST_MAX, MCP_SERVER_NAME_BYTES_MAX, MCP_SERVERS_MAX, TEXT_BYTES_MAX};
use crate::mcp::{MCP_CALL_WITHIN_MAX, McpServer, is_key_header, is_server_name};
use crate::plan::schema::fields::{Entry, Fields};
use crate::secret::OF_PROFILES;
use crate::url::url_fault;

pub(in crate::plan::schema) const SERVER_KEYS: &[&str] =
    &["argv", "env", "passEnv", "url", "keyFrom", "header", "timeout", "required", "trusted"];
/// Keys that one kind of server has alone.
const OF_COMMANDS: [&str; 3] = ["argv", "env", "passEnv"];
const OF_ADDRESSES: [&str; 3] = ["url", "keyFrom", "header"];

pub(super) fn read_servers(kind: RunnerKind, fields: &Fields<'_>) -> Vec<McpServer> {
    let Some(entry) = fields.get("mcpServers") else { return Vec::new() };
    let pairs = entry.pairs("a mapping from names to servers");
    if !pairs.is_empty() && kind != RunnerKind::Llm {
        entry.wrong(
            format!("are servers of tools for models, and the {kind} runner offers none"),
            "servers for the runner llm; a coding agent has them in its own settings",
        );
    }
    if pairs.len() > MCP_SERVERS_MAX && pairs.len() <= LIST_MAX {
        entry.wrong(
            format!("has {} servers", pairs.len()),
            format!("at most {MCP_SERVERS_MAX} servers"),
        );
    }
    pairs
        .iter()
        .take(MCP_SERVERS_MAX)
        .filter_map(|(name, entry)| read_server(name, entry))
        .collect()
}

fn read_server(name: &str, entry: &Entry<'_>) -> Option<McpServer> {
    if !is_server_name(name) {
        let allowed =
            format!("1 to {MCP_SERVER_NAME_BYTES_MAX} of a-z 0-9 -, starting with a letter");
        entry.wrong(format!("{name:?} is not a valid name of a server"), allowed);
    }
    let fields = entry.map(SERVER_KEYS)?;
    let argv = fields.texts("argv");
    let text = |key| fields.text(key, TEXT_BYTES_MAX).unwrap_or_default();
    let truth = |key| fields.get(key).and_then(|entry| entry.truth()).unwrap_or_default();
    let server = McpServer {
        name: name.to_owned(),
        argv,
        env: fields.get("env").map(|env| read_env(&env)).unwrap_or_default(),
        pass_env: read_pass_env(&fields),
        url: text("url"),
        key_from: text("keyFrom"),
        header: text("header"),
        timeout: fields.get("timeout").and_then(|entry| entry.duration()),
        required: truth("required"),
        trusted: truth("trusted"),
    };
    check(&server, entry, &fields);
    Some(server)
}

/// Names what is wrong with a server as it was read.
fn check(server: &McpServer, entry: &Entry<'_>, fields: &Fields<'_>) {
    let beside = |keys: &[&str], kind: &str| {
        for entry in keys.iter().filter_map(|key| fields.get(key)) {
            entry.wrong(format!("stands beside `{kind}`"), "argv or url, not both");
        }
    };
    match (fields.get("argv"), fields.get("url")) {
        (Some(_), _) => beside(&OF_ADDRESSES, "argv"),
        (None, Some(_)) => beside(&OF_COMMANDS, "url"),
        (None, None) => {
            entry.wrong(
                "has no command and no address",
                "argv: [PROGRAM, ...], or url: https://...",
            );
        }
    }
    if let (Some(argv), true) = (fields.get("argv"), server.argv.is_empty()) {
        argv.wrong("is empty", "a program and its arguments");
    }
    if let (Some(url), Some(fault)) = (fields.get("url"), url_fault(&server.url)) {
        url.wrong(fault, "https://HOST/PATH, or http://127.0.0.1:PORT/PATH on this machine");
    }
    if let (Some(key), None) = (fields.get("keyFrom"), server.key_source()) {
        key.wrong("it is not a reference to a key", OF_PROFILES);
    }
    if let (Some(header), true) =
        (fields.get("header"), server.key_from.is_empty() || !is_key_header(&server.header))
    {
        header.wrong(
            format!("{:?} holds no key", server.header),
            "the name of a header that the key of keyFrom is sent in, such as X-Api-Key",
        );
    }
    if let (Some(timeout), true) =
        (fields.get("timeout"), server.call_within() > MCP_CALL_WITHIN_MAX)
    {
        timeout.wrong("is too long", "at most 1h");
    }
}
