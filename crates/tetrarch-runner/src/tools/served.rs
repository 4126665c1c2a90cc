//! Tools of servers of the Model Context Protocol: which of them a model is offered, and calls of them (spec 06,
//! Runners, llm). What a server says of its tools is checked before a model reads it; how one is reached is in
//! `connection`.

mod connection;
mod output;
mod paced;
mod process;

use std::time::Duration;

use futures::future::join_all;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, JsonObject, Tool};
use rmcp::service::ServiceError;
use serde_json::{Map, Value};
use tetrarch_core::brief::{ExpectedOutput, Tools};
use tetrarch_core::converse::{Effect, ToolDefinition};
use tetrarch_core::mcp::{MCP_ENTRY, McpServer, covers};
use tokio::time::timeout;

use super::ToolOutcome;
use super::output::CappedOutput;
use crate::backend::expected::Expected;
use crate::lines::start_of;
use connection::Connection;
pub(super) use connection::ServerGround;

/// Tools of one server that are offered.
const TOOLS_MAX: usize = 128;
/// Longest name that every provider takes, in bytes.
const CALL_NAME_BYTES_MAX: usize = 64;
/// Of what a server says of one tool, in bytes: its name, its description, its schema.
const NAME_BYTES_MAX: usize = 128;
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
const SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// Of what a server says of all its tools, in bytes: each request of the model has it in it.
const DEFINITIONS_BYTES_MAX: usize = 128 * 1024;

/// What is said of tools of one server that are not offered, one by one.
const REMARKS_MAX: usize = 20;

/// The tools of all servers of a run.
#[derive(Debug, Default)]
pub(super) struct ServedTools {
    servers: Vec<Connection>,
    tools: Vec<ServedTool>,
}

/// A tool of a server, as a model is offered it.
#[derive(Debug)]
struct ServedTool {
    /// Its server's place among them.
    server: usize,
    /// What its server calls it.
    name: String,
    /// What a list of tools calls it.
    entry: String,
    definition: ToolDefinition,
    /// Bytes of its definition.
    bytes: usize,
    schema: Expected,
}

/// What a call of a server's tool came to.
#[derive(Debug)]
pub(crate) enum ServedCall {
    /// It was answered, or not made.
    Told(ToolOutcome),
    /// Its server was lost meanwhile: nobody knows whether it took effect.
    Unknown(String),
}

impl ServedTools {
    /// Starts the servers of which the list allows a tool, and asks what they have. Gives what is to be said of those
    /// that are not used.
    ///
    /// # Errors
    /// One that the profile requires cannot be used.
    pub(super) async fn open(
        servers: &[McpServer],
        list: &Tools,
        ground: &ServerGround,
    ) -> Result<(Self, Vec<String>), String> {
        let wanted = servers.iter().filter(|server| server.is_of_use(list));
        let begun = join_all(wanted.map(async |server| {
            let connection = Connection::new(server.clone(), ground.clone());
            let listed = connection.listed().await;
            (connection, listed)
        }));
        let nameless = list.names().filter(|entry| {
            let own =
                |server: &McpServer| *entry == server.whole() || covers(&server.whole(), entry);
            entry.starts_with(MCP_ENTRY) && !servers.iter().any(own)
        });
        let nameless =
            nameless.map(|entry| format!("`{entry}`: the profile names no such MCP server"));
        let (mut all, mut remarks) = (Self::default(), nameless.collect::<Vec<_>>());
        let mut missing = None;
        for (connection, listed) in begun.await {
            match listed {
                Ok(listed) => remarks.extend(all.add(connection, listed, list).await),
                Err(why) => {
                    if connection.server().required {
                        missing.get_or_insert(why.clone());
                    }
                    remarks.push(why);
                    connection.close().await;
                }
            }
        }
        match missing {
            Some(why) => {
                all.close().await;
                Err(why)
            }
            None => Ok((all, remarks)),
        }
    }

    /// Takes a server with its tools that are allowed; says which of them are not offered.
    async fn add(
        &mut self,
        connection: Connection,
        listed: Vec<Tool>,
        list: &Tools,
    ) -> Vec<String> {
        let mut remarks = Vec::new();
        let place = self.servers.len();
        let server = connection.server();
        for tool in listed.into_iter().filter(|tool| server.allows(list, &tool.name)) {
            let shown = start_of(&tool.name, NAME_BYTES_MAX).to_owned();
            match self.offered(place, server, tool).await {
                Ok(tool) => self.tools.push(tool),
                Err(why) => {
                    remarks.push(format!(
                        "{shown:?} of MCP server `{}` is not offered: {why}",
                        server.name
                    ));
                }
            }
        }
        let lists = list.names().filter(|entry| covers(&server.whole(), entry));
        for entry in lists.filter(|entry| !self.tools.iter().any(|tool| tool.entry == **entry)) {
            remarks
                .push(format!("`{entry}`: MCP server `{}` has no such tool to offer", server.name));
        }
        self.servers.push(connection);
        let more = remarks.len().saturating_sub(REMARKS_MAX);
        remarks.truncate(REMARKS_MAX);
        remarks.extend((more > 0).then(|| format!("{more} more tools are not offered")));
        remarks
    }

    /// A tool with what a model is told of it.
    async fn offered(
        &self,
        place: usize,
        server: &McpServer,
        tool: Tool,
    ) -> Result<ServedTool, String> {
        let name = server.call_name(&tool.name);
        if tool.name.is_empty() || name.len() > CALL_NAME_BYTES_MAX {
            return Err(format!(
                "its name is empty, or longer than {CALL_NAME_BYTES_MAX} bytes with its server's"
            ));
        }
        if self.tools.iter().any(|other| other.definition.name == name) {
            return Err(format!("another tool has the name {name}"));
        }
        let others = || self.tools.iter().filter(|other| other.server == place);
        if others().count() >= TOOLS_MAX {
            return Err(format!("its server has more than {TOOLS_MAX} tools"));
        }
        let schema = Value::Object(Map::clone(&tool.input_schema));
        let text = schema.to_string();
        let schema_bytes = text.len();
        if schema_bytes > SCHEMA_BYTES_MAX {
            return Err(format!(
                "its schema has {schema_bytes} bytes; the limit is {SCHEMA_BYTES_MAX}"
            ));
        }
        if schema.get("type").is_none_or(|kind| kind != "object") {
            return Err("its arguments are no object".to_owned());
        }
        let checked = Expected::of(&ExpectedOutput::Schema(text)).await;
        let checked =
            checked.map_err(|fault| format!("its schema is not valid: {}", fault.reason()))?;
        let description = tool.description.as_deref().unwrap_or_default();
        let description = start_of(description, DESCRIPTION_BYTES_MAX).to_owned();
        let bytes = schema_bytes + description.len() + name.len();
        if others().map(|other| other.bytes).sum::<usize>() + bytes > DEFINITIONS_BYTES_MAX {
            return Err(format!(
                "its server says more than {DEFINITIONS_BYTES_MAX} bytes of its tools; list those that are wanted"
            ));
        }
        let definition =
            ToolDefinition { name, description, schema, effect: effect(server, &tool) };
        let (entry, name) = (server.entry(&tool.name), tool.name.into_owned());
        Ok(ServedTool { server: place, name, entry, definition, bytes, schema: checked })
    }

    /// The tools that may be called.
    pub(super) fn definitions(&self) -> impl Iterator<Item = ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition.clone())
    }

    /// What a list of tools calls the tool that a model calls so.
    pub(super) fn entry(&self, call: &str) -> Option<&str> {
        Some(self.named(call)?.entry.as_str())
    }

    fn named(&self, call: &str) -> Option<&ServedTool> {
        self.tools.iter().find(|tool| tool.definition.name == call)
    }

    /// What is wrong with what a tool is called with, if it is one of theirs.
    pub(super) async fn fault(&self, call: &str, arguments: &JsonObject) -> Option<String> {
        let faults =
            self.named(call)?.schema.check(Value::Object(arguments.clone())).await.err()?;
        Some(faults.of("what the tool is called with"))
    }

    /// Calls a tool, if it is one of theirs. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn call(
        &self,
        call: &str,
        arguments: &Map<String, Value>,
    ) -> Option<ServedCall> {
        let tool = self.named(call)?;
        Some(self.servers.get(tool.server)?.call(tool, arguments).await)
    }

    /// Ends all servers. Returns when they are gone.
    pub(super) async fn close(&self) {
        join_all(self.servers.iter().map(Connection::close)).await;
    }
}

/// What a call does when it is made twice. A server's own word counts only where its profile says so.
fn effect(server: &McpServer, tool: &Tool) -> Effect {
    let said = tool.annotations.as_ref().filter(|_| server.trusted);
    let (reads, repeats) =
        said.map(|it| (it.read_only_hint, it.idempotent_hint)).unwrap_or_default();
    match (reads == Some(true), repeats == Some(true)) {
        (true, _) => Effect::ReadOnly,
        (false, true) => Effect::Idempotent,
        (false, false) => Effect::Effectful,
    }
}

impl Connection {
    /// Makes a call. One that is harmless when it is repeated is made once more after its server was lost.
    async fn call(&self, tool: &ServedTool, arguments: &JsonObject) -> ServedCall {
        let told = |outcome| ServedCall::Told(outcome);
        let name = &self.server().name;
        let within = Duration::from_millis(self.server().call_within().0);
        let mut is_first = true;
        loop {
            let peer = match self.peer().await {
                Ok(peer) => peer,
                Err(why) => return told(ToolOutcome::error(why)),
            };
            let params = CallToolRequestParams::new(tool.name.clone());
            let calling = peer.call_tool(params.with_arguments(arguments.clone()));
            let lost = match timeout(within, calling).await {
                Ok(Ok(result)) => return told(worded(result)),
                Ok(Err(ServiceError::McpError(error))) => {
                    return told(ToolOutcome::error(format!(
                        "MCP server `{name}`: {}",
                        error.message
                    )));
                }
                Ok(Err(error)) if connection::was_refused(&error) => {
                    return told(ToolOutcome::error(self.failed(&connection::words(&error))));
                }
                Ok(Err(error)) => self.lost(&error).await,
                Err(_) => {
                    return told(ToolOutcome::error(format!(
                        "MCP server `{name}` did not answer within {} s, and was told to give up; whether the call took \
                         effect is not known: look before you repeat it",
                        within.as_secs()
                    )));
                }
            };
            match (tool.definition.effect, is_first) {
                (Effect::Effectful, _) => return ServedCall::Unknown(lost),
                (Effect::ReadOnly | Effect::Idempotent, true) => is_first = false,
                (Effect::ReadOnly | Effect::Idempotent, false) => {
                    return told(ToolOutcome::error(lost));
                }
            }
        }
    }
}

/// A result in words, as much of it as of the output of a program.
fn worded(result: CallToolResult) -> ToolOutcome {
    let is_error = result.is_error.unwrap_or_default();
    let mut words: Vec<String> = result.content.iter().map(block).collect();
    if let (true, Some(data)) = (words.is_empty(), &result.structured_content) {
        words.push(data.to_string());
    }
    let mut output = CappedOutput::default();
    output.push(words.join("\n").as_bytes());
    let text = output.text();
    let text = if text.is_empty() { "[no output]".to_owned() } else { text };
    ToolOutcome { text, is_error }
}

fn block(block: &ContentBlock) -> String {
    let left_out =
        |kind: &str, of: &str, size: usize| format!("[{kind} {of}, {size} bytes, not shown]");
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => left_out("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => {
            let text = serde_json::to_string(&resource.resource);
            text.unwrap_or_else(|cause| format!("[resource, not shown: {cause}]"))
        }
        ContentBlock::ResourceLink(link) => format!("[resource {}]", link.uri),
        _ => "[content of an unknown kind, not shown]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ToolAnnotations;
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_word_counts_only_where_it_is_trusted() {
        for (trusted, reads, repeats, expected) in [
            (true, Some(true), None, Effect::ReadOnly),
            (true, Some(true), Some(false), Effect::ReadOnly),
            (true, Some(false), Some(true), Effect::Idempotent),
            (true, None, None, Effect::Effectful),
            (false, Some(true), Some(true), Effect::Effectful),
        ] {
            let server = McpServer { trusted, ..McpServer::default() };
            let mut tool = Tool::new("t", "d", JsonObject::default());
            tool.annotations = Some(ToolAnnotations::from_raw(None, reads, None, repeats, None));
            assert_eq!(effect(&server, &tool), expected, "{trusted} {reads:?} {repeats:?}");
        }
    }

    #[test]
    fn result_is_its_texts_and_what_else_there_is() {
        let result = |blocks: Value, more: Value| -> CallToolResult {
            let mut result = json!({"content": blocks});
            result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(result).unwrap()
        };
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let texts = json!([{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]);
        for (blocks, more, text, is_error) in [
            (texts, json!({}), "a\n[image image/png, 4 bytes, not shown]\nb", false),
            (json!([]), json!({"structuredContent": {"n": 1}}), "{\"n\":1}", false),
            (json!([]), json!({"isError": true}), "[no output]", true),
        ] {
            let outcome = worded(result(blocks, more));
            assert_eq!((outcome.text.as_str(), outcome.is_error), (text, is_error));
        }
    }
}
