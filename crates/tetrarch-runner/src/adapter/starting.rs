//! What a coding agent's program and its session are told of a run before it starts, whichever program it is. Pure.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;
use tetrarch_core::brief::{ExpectedOutput, Served};
use tetrarch_core::converse::opening;
use tetrarch_core::order::Start;
use tetrarch_core::permission::Permissions;
use tetrarch_core::role::Role;
use tetrarch_core::secret::SecretSource;

use super::Adapter;
use super::dialect::Dialect;
use super::session::{CONVERSATION, SessionBrief, USING};
use crate::backend::ending::verdict_form;
use crate::backend::fleet_tools;
use crate::backend::process::mcp::{RELAY, socket_in};
use crate::gateway::ModelProvider;

/// What a program starts to reach the fleet's tools, by the Model Context Protocol on its standard streams.
#[derive(Debug)]
pub(super) struct McpCommand {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
}

impl McpCommand {
    /// What it is called where tools are named after their server.
    pub(super) const NAME: &str = "tetrarch";

    /// The command of a run that may use tools of the fleet; `host` is the host's own program, `directory` the run's.
    pub(super) fn of(start: &Start, host: Option<&OsString>, directory: &Path) -> Option<Self> {
        fleet_tools::is_offered(start).then_some(())?;
        let socket = socket_in(directory).to_string_lossy().into_owned();
        let arguments = vec![RELAY.to_owned(), socket];
        Some(Self { program: host?.to_string_lossy().into_owned(), arguments })
    }
}

/// How a program is started, and how it is spoken to.
#[derive(Debug)]
pub(super) struct AgentStart {
    /// Its arguments after those of the profile.
    pub(super) arguments: Vec<String>,
    /// Variables besides those of the profile.
    pub(super) environment: Vec<(String, String)>,
    /// The variable that it takes its key from.
    pub(super) key_variable: String,
    /// Its language.
    pub(super) dialect: Dialect,
}

/// A brief for a program that has no place for instructions of its host.
pub(crate) fn whole_brief(start: &Start) -> String {
    format!("{}\n\n{}", opening::system_of_program(start), opening::brief(&start.brief))
}

/// Where a program finds the address of its model, by the provider that its profile names.
pub(super) fn addresses(served: &Served) -> Vec<(String, String)> {
    let variables = ModelProvider::named(&served.provider).map_or(&[][..], |it| it.variables);
    variables.iter().map(|name| ((*name).to_owned(), served.base_url.clone())).collect()
}

/// Where a program finds its key: under the name that it has at the host. Empty when it has none.
pub(super) fn key_variable(served: &Served) -> String {
    match served.key_source() {
        Some(SecretSource::Env(name) | SecretSource::Credential(name)) => name,
        Some(SecretSource::File(_) | SecretSource::Command(_)) | None => String::new(),
    }
}

/// What its session is about.
pub(super) fn session_brief(adapter: Adapter, start: &Start) -> SessionBrief {
    let state = checkpoint(start);
    let using = state.as_ref().and_then(|state| state.get(USING)?.as_array());
    let using = using.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    SessionBrief {
        tools: start.brief.tools.clone(),
        permissions: Permissions::of(&start.brief.runner.permissions),
        first: match adapter {
            Adapter::Claude | Adapter::Codex => opening::brief(&start.brief),
            Adapter::Acp => whole_brief(start),
        },
        using: using.collect(),
        reviews: reviews(start),
        base: u128::from(start.run.0),
    }
}

/// The program's own name of the conversation that the last checkpoint was written in; none when that was of another
/// program.
pub(super) fn conversation_of(start: &Start, program: &str) -> Option<String> {
    let state = checkpoint(start)?;
    let is_its = state.get("adapter").and_then(Value::as_str) == Some(program);
    let name = state.get(CONVERSATION)?.as_str()?;
    (is_its && !name.is_empty()).then(|| name.to_owned())
}

fn checkpoint(start: &Start) -> Option<Value> {
    serde_json::from_str(start.checkpoint.as_deref()?).ok()
}

/// The schema of its result; none for text.
pub(super) fn expected_schema(start: &Start) -> Option<Value> {
    let expected = match &start.brief.expected_output {
        ExpectedOutput::Text if reviews(start) => verdict_form(),
        expected @ (ExpectedOutput::Text | ExpectedOutput::Schema(_)) => expected.clone(),
    };
    let ExpectedOutput::Schema(schema) = expected else { return None };
    serde_json::from_str(&schema).ok()
}

/// Whether it ends by a verdict.
pub(crate) fn reviews(start: &Start) -> bool {
    Role::of(&start.agent) == Role::Reviewer && start.brief.expected_output == ExpectedOutput::Text
}
