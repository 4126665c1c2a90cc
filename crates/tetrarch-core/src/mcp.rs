//! Servers of the Model Context Protocol whose tools a model may call (spec 06, Runners, llm): how a profile names
//! them, and what a list of tools allows of them. Decides on names alone; starts and reaches nothing.

use crate::brief::Tools;
use crate::limits::MCP_SERVER_NAME_BYTES_MAX;
use crate::secret::SecretSource;
use crate::time::Millis;

/// What begins an entry of a list of tools that is about a server: `mcp:SERVER`, or `mcp:SERVER:TOOL`.
pub const MCP_ENTRY: &str = "mcp:";
/// What begins the name that a model calls a tool of a server by: `mcp__SERVER__TOOL`, as coding agents name theirs.
pub const MCP_CALL: &str = "mcp__";
/// How long a call may take unless its server says otherwise.
pub const MCP_CALL_WITHIN: Millis = Millis::from_secs(60);
/// The longest that it may say.
pub const MCP_CALL_WITHIN_MAX: Millis = Millis::from_secs(3600);
/// What stands before a key in that header.
pub const BEARER: &str = "Bearer ";
/// Headers of the protocol itself, and of connections; none of them holds a key.
const NO_KEY_HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A server that a profile names: a command that its host starts, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpServer {
    /// What it is called in lists of tools.
    pub name: String,
    /// The command and its arguments; empty for a server that has an address.
    pub argv: Vec<String>,
    /// Variables added to the command's scrubbed environment.
    pub env: Vec<(String, String)>,
    /// Names of variables passed on from the host's own environment.
    pub pass_env: Vec<String>,
    /// Its address; empty for a command.
    pub url: String,
    /// Where the host finds the key that the address wants: `env:NAME` or `credential:NAME`; empty for none.
    pub key_from: String,
    /// The header that the key is sent in, as it is; empty: as a bearer token.
    pub header: String,
    /// How long one call may take; none: [`MCP_CALL_WITHIN`].
    pub timeout: Option<Millis>,
    /// Whether a run fails without it.
    pub required: bool,
    /// Whether what it says of its own tools counts: that they only read, or may be called again.
    pub trusted: bool,
}

impl McpServer {
    /// Where the key is found, when that is what a profile may say.
    #[must_use]
    pub fn key_source(&self) -> Option<SecretSource> {
        SecretSource::parse(&self.key_from).filter(SecretSource::is_for_profiles)
    }

    /// How long one call may take.
    #[must_use]
    pub fn call_within(&self) -> Millis {
        self.timeout.unwrap_or(MCP_CALL_WITHIN)
    }

    /// The entry of a list of tools that is about all of its tools.
    #[must_use]
    pub fn whole(&self) -> String {
        format!("{MCP_ENTRY}{}", self.name)
    }

    /// The entry of a list of tools that is about one of its tools.
    #[must_use]
    pub fn entry(&self, tool: &str) -> String {
        format!("{MCP_ENTRY}{}:{tool}", self.name)
    }

    /// The name that a model calls one of its tools by. Providers take letters, digits, `_` and `-`.
    #[must_use]
    pub fn call_name(&self, tool: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let tool: String = tool.chars().map(plain).collect();
        format!("{MCP_CALL}{}__{tool}", self.name)
    }

    /// Whether a list allows one of its tools.
    #[must_use]
    pub fn allows(&self, tools: &Tools, tool: &str) -> bool {
        tools.has(&self.whole()) || tools.has(&self.entry(tool))
    }

    /// Whether a list allows any tool of it.
    #[must_use]
    pub fn is_of_use(&self, tools: &Tools) -> bool {
        let whole = self.whole();
        tools.has(&whole) || tools.names().any(|entry| covers(&whole, entry))
    }
}

/// Whether an entry of a whole server allows what another one does: a tool of it.
#[must_use]
pub fn covers(allowed: &str, entry: &str) -> bool {
    let Some(server) = allowed.strip_prefix(MCP_ENTRY) else { return false };
    let rest = entry.strip_prefix(MCP_ENTRY).and_then(|rest| rest.strip_prefix(server));
    !server.contains(':') && rest.is_some_and(|tool| tool.starts_with(':'))
}

/// Whether a server may be called so: a part of the names of its tools, which end it at the first `__`.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= MCP_SERVER_NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(fits)
}

/// Whether a key may be sent in a header of this name.
#[must_use]
pub fn is_key_header(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let lower = name.to_ascii_lowercase();
    !name.is_empty() && name.bytes().all(token) && !NO_KEY_HEADERS.contains(&lower.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> McpServer {
        McpServer { name: name.to_owned(), ..McpServer::default() }
    }

    #[test]
    fn list_allows_a_whole_server_or_single_tools() {
        let issues = server("issues");
        for (list, create, read, of_use) in [
            (&["mcp:issues"][..], true, true, true),
            (&["mcp:issues:create"], true, false, true),
            (&["*"], true, true, true),
            (&["mcp:issues2", "mcp:issue", "issues", "mcp:"], false, false, false),
            (&["mcp:issues2:create", "create", "mcp__issues__create"], false, false, false),
            (&[], false, false, false),
        ] {
            let list: Tools = list.iter().copied().collect();
            let allows = ["create", "read"].map(|tool| issues.allows(&list, tool));
            assert_eq!((allows, issues.is_of_use(&list)), ([create, read], of_use), "{list:?}");
        }
    }

    #[test]
    fn childs_tool_is_within_its_parents_server() {
        for (allowed, entry, is) in [
            ("mcp:issues", "mcp:issues:create", true),
            ("mcp:issues", "mcp:issues:a:b", true),
            ("mcp:issues", "mcp:issues2:create", false),
            ("mcp:issues:create", "mcp:issues:create:x", false),
            ("mcp:issues", "mcp:issues", false),
            ("issues", "mcp:issues:create", false),
        ] {
            assert_eq!(covers(allowed, entry), is, "{allowed} {entry}");
        }
        let tools = |names: &[&str]| names.iter().copied().collect::<Tools>();
        let beyond = tools(&["mcp:a:x", "mcp:b"]).not_in(&tools(&["mcp:a", "mcp:b:y"]));
        assert_eq!(beyond, ["mcp:b"]);
    }

    #[test]
    fn server_name_ends_before_the_tools_name() {
        for (name, is) in [
            ("issues", true),
            ("my-issues2", true),
            ("", false),
            ("Issues", false),
            ("2issues", false),
            ("a_b", false),
            ("a:b", false),
            (&"a".repeat(MCP_SERVER_NAME_BYTES_MAX), true),
            (&"a".repeat(MCP_SERVER_NAME_BYTES_MAX + 1), false),
        ] {
            assert_eq!(is_server_name(name), is, "{name}");
        }
        assert_eq!(server("issues").call_name("repo.create/it"), "mcp__issues__repo_create_it");
    }

    #[test]
    fn key_is_sent_in_no_header_of_the_protocol() {
        for (name, is) in [
            ("X-Api-Key", true),
            ("Authorization", true),
            ("Mcp-Session-Id", false),
            ("HOST", false),
            ("", false),
            ("a: b", false),
        ] {
            assert_eq!(is_key_header(name), is, "{name}");
        }
    }
}
