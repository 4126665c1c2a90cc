//! The built-in tools of the llm runner: files of a workspace, and programs (spec 06, Runners and
//! Isolation). What a brief does not name is not there; no argument reaches a file outside of the
//! workspace. Journals nothing and knows no model: whoever calls does both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tetrarch_core::brief::{EVERY_TOOL, Tools};
pub use tetrarch_core::converse::Effect;
use tetrarch_core::converse::ToolDefinition;
use tetrarch_core::destination::{NETWORK_TOOL, Network};
use tetrarch_core::id::RunId;
use tetrarch_core::mcp::McpServer;
use tetrarch_core::permission::{PermissionList, PermissionRule, Permissions};
use tetrarch_core::words;

use crate::backend::fleet_tools;
use crate::cgroup::ControlGroup;
use crate::confined;
use crate::containment::{Containment, SandboxPolicy};
use crate::mark::HostLife;

mod allowed;
mod command;
mod inside;
mod listing;
mod output;
mod reading;
mod schema;
mod searching;
mod served;
mod walking;
mod writing;

pub(crate) use allowed::{Allowed, BadEntry, ProgramRefused};
use command::Commands;
use inside::{PathRefused, Workspace};
pub(crate) use served::ServedCall;
use served::{ServedTools, ServerGround};

/// Most that a tool answers, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// One tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// What happens when a call is made twice.
    pub effect: Effect,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the model is told: the result, or what is wrong and what to do.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl ToolOutcome {
    fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// What a run's tools stand on.
#[derive(Debug)]
pub struct ToolboxConfig<'a> {
    /// The working directory, which must be there.
    pub workspace: &'a Path,
    /// What the brief allows. The built-in entries are `read`, `list`, `search`, `write`, `edit`,
    /// `run` (all programs but shells) and `run:<program>`, a glob on the first of the arguments.
    pub tools: &'a Tools,
    /// Rules on what they are called with.
    pub permissions: &'a [PermissionList],
    /// Servers whose tools the list may name; they are started by `connect`.
    pub servers: &'a [McpServer],
    /// Globs of the paths that may be written, relative to the workspace; none means all.
    pub scope_paths: &'a [String],
    /// The run, by which its processes are found.
    pub run: RunId,
    /// The life of the host that runs it.
    pub life: &'a HostLife,
    /// What its programs are kept to.
    pub containment: &'a Containment,
    /// What its programs are told of the run's own directories; nothing: they are the host's, in which they write nothing.
    pub variables: Vec<(OsString, OsString)>,
    /// What its programs may write besides.
    pub writable: Vec<PathBuf>,
    /// What its programs read though the host keeps it to itself.
    pub readable: Vec<PathBuf>,
    /// The profile that would allow more.
    pub profile: &'a str,
    /// The run's control group, if it has one.
    pub cgroup: Option<PathBuf>,
    /// What its programs are part of, a W3C `traceparent`, unless a span of the call says better.
    pub trace: Option<&'a str>,
}

/// Why there are no tools.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ToolboxError(String);

words! {
    /// One of the built-in tools.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Tool {
        Read = "read",
        List = "list",
        Search = "search",
        Write = "write",
        Edit = "edit",
        Run = "run",
    }
}

impl Tool {
    /// What a model calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read_file",
            Self::List => "list_files",
            Self::Search => "search_files",
            Self::Write => "write_file",
            Self::Edit => "edit_file",
            Self::Run => "run_command",
        }
    }

    fn effect(self) -> Effect {
        match self {
            Self::Read | Self::List | Self::Search => Effect::ReadOnly,
            Self::Write => Effect::Idempotent,
            // An edit that was made may fit once more.
            Self::Edit | Self::Run => Effect::Effectful,
        }
    }
}

/// What a list of tools can name: the built-in ones, those of conversations, the network, and all. Other entries
/// belong to somebody else.
#[must_use]
pub fn tool_entries() -> Vec<&'static str> {
    let files = Tool::ALL.into_iter().map(Tool::as_str);
    files.chain([NETWORK_TOOL]).chain(fleet_tools::names()).chain([EVERY_TOOL]).collect()
}

/// The tools of one run.
#[derive(Debug, Clone)]
pub struct Toolbox {
    allowed: Arc<Allowed>,
    workspace: Arc<Workspace>,
    commands: Arc<Commands>,
    isolation: Arc<str>,
    served: Arc<ServedTools>,
}

impl Toolbox {
    /// The tools that a brief allows. Blocks for a moment.
    ///
    /// # Errors
    /// The workspace cannot be opened, the kernel cannot keep tools inside of it (before 5.6), an
    /// entry of the tools or of the scope is no pattern, or a layer of isolation is required and
    /// missing.
    pub fn new(config: ToolboxConfig<'_>) -> Result<Self, ToolboxError> {
        let allowed = Allowed::of(config.tools).map_err(|cause| ToolboxError(cause.to_string()))?;
        let permissions = Arc::new(Permissions::of(config.permissions));
        let workspace = Workspace::open(config.workspace, config.scope_paths, permissions)
            .map_err(|cause| ToolboxError(cause.to_string()))?;
        let cgroup = config.cgroup.clone().map(ControlGroup::at);
        let temporary = std::env::temp_dir();
        let network = Network::of(config.tools).map_err(|fault| ToolboxError(fault.to_string()))?;
        let writable = config.writable.clone();
        let sandbox = config.containment.sandbox(network, workspace.path(), temporary, writable);
        let sandbox = SandboxPolicy { readable: config.readable.clone(), ..sandbox };
        let starts = allowed.allows(Tool::Run) || starts_servers(config.tools, config.servers);
        let isolation = if starts {
            contained(&sandbox, cgroup.as_ref()).map_err(ToolboxError)?
        } else {
            "no programs".to_owned()
        };
        let commands = Commands::new(&config, cgroup, sandbox);
        Ok(Self {
            allowed: Arc::new(allowed),
            workspace: Arc::new(workspace),
            commands: Arc::new(commands),
            isolation: isolation.into(),
            served: Arc::default(),
        })
    }

    /// Starts the servers whose tools the list names, and offers these too. Gives what is to be said of those that are
    /// not offered.
    ///
    /// # Errors
    /// A server that is required cannot be used.
    pub(crate) async fn connect(
        &mut self,
        servers: &[McpServer],
        list: &Tools,
        profile: &str,
    ) -> Result<Vec<String>, ToolboxError> {
        let ground = ServerGround {
            commands: Arc::clone(&self.commands),
            workspace: Arc::clone(&self.workspace),
            profile: profile.to_owned(),
        };
        let (served, remarks) =
            ServedTools::open(servers, list, &ground).await.map_err(ToolboxError)?;
        self.served = Arc::new(served);
        Ok(remarks)
    }

    /// Ends the servers. Returns when they are gone.
    pub(crate) async fn close(&self) {
        self.served.close().await;
    }

    /// The tools of servers that may be called.
    pub(crate) fn served(&self) -> impl Iterator<Item = ToolDefinition> {
        self.served.definitions()
    }

    /// What is wrong with what a tool of a server is called with.
    pub(crate) async fn fault(&self, name: &str, arguments: &Map<String, Value>) -> Option<String> {
        self.served.fault(name, arguments).await
    }

    /// Calls a tool of a server; none when it is none.
    pub(crate) async fn call_served(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<ServedCall> {
        self.served.call(name, arguments).await
    }

    /// How the programs of its commands are contained, for the run's journal.
    #[must_use]
    pub fn isolation(&self) -> &str {
        &self.isolation
    }

    /// The tools that may be called.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolSpec> {
        let programs = self.allowed.programs_in_words();
        let tools = Tool::ALL.into_iter().filter(|tool| self.allowed.allows(*tool));
        tools.map(|tool| schema::define(tool, &programs)).collect()
    }

    /// The rule that denies a call of whichever tool, or puts it to people.
    pub(crate) fn rule(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<&PermissionRule> {
        let permissions = self.workspace.permissions();
        let path = || arguments.get("path").map_or(Some(""), Value::as_str);
        match Tool::ALL.into_iter().find(|tool| tool.name() == name) {
            Some(tool @ Tool::Run) => {
                let argv = arguments.get("argv").and_then(|argv| Vec::deserialize(argv).ok());
                permissions.decisive(tool.as_str(), argv.as_deref())
            }
            Some(tool) => {
                let path = path().and_then(|path| self.workspace.destination(path));
                permissions
                    .decisive(tool.as_str(), path.map(|path| [path]).as_ref().map(|it| &it[..]))
            }
            None => permissions.decisive(self.served.entry(name).unwrap_or(name), None),
        }
    }

    /// Calls a tool. What is wrong with the call is said in the outcome, for the model to mend.
    ///
    /// Dropping the future cancels: a search ends at the next file, a file that is being written
    /// is written whole or not at all, and a program is killed with all it started. Commands run
    /// one after the other; the next waits until everything of the one before is gone.
    pub async fn call(&self, name: &str, arguments: &Value) -> ToolOutcome {
        let tool = Tool::ALL.into_iter().find(|tool| tool.name() == name);
        let Some(tool) = tool.filter(|tool| self.allowed.allows(*tool)) else {
            let allowed = Tool::ALL.into_iter().filter(|tool| self.allowed.allows(*tool));
            let allowed: Vec<&str> = allowed.map(Tool::name).collect();
            let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            return ToolOutcome::error(format!(
                "the tool `{name}` is not allowed; allowed: {allowed}"
            ));
        };
        let called = match tool {
            Tool::Read => self.look(arguments, reading::read).await,
            Tool::List => self.look(arguments, listing::list).await,
            Tool::Search => self.look(arguments, searching::search).await,
            Tool::Write => self.look(arguments, writing::write).await,
            Tool::Edit => self.look(arguments, writing::edit).await,
            Tool::Run => match read(arguments) {
                Ok(wanted) => {
                    return self.commands.run(&self.allowed, &self.workspace, wanted).await;
                }
                Err(text) => Err(text),
            },
        };
        called.map_or_else(ToolOutcome::error, ToolOutcome::of)
    }

    /// Does something with files, on a thread that may wait for a disk.
    async fn look<A: DeserializeOwned + Send + 'static>(
        &self,
        arguments: &Value,
        work: fn(&Workspace, A, &AtomicBool) -> Result<String, String>,
    ) -> Result<String, String> {
        let arguments = read(arguments)?;
        let workspace = Arc::clone(&self.workspace);
        let given_up = CancelOnDrop::default();
        let flag = Arc::clone(&given_up.0);
        let done = tokio::task::spawn_blocking(move || work(&workspace, arguments, &flag)).await;
        done.unwrap_or_else(|cause| Err(format!("the tool failed: {cause}")))
    }
}

/// Whether a list names tools of a server that is a command.
pub(crate) fn starts_servers(list: &Tools, servers: &[McpServer]) -> bool {
    servers.iter().any(|server| !server.argv.is_empty() && server.is_of_use(list))
}

/// Which layers programs would run in, tried before there is one.
fn contained(sandbox: &SandboxPolicy, cgroup: Option<&ControlGroup>) -> Result<String, String> {
    if sandbox.required && cgroup.is_none() {
        return Err("isolation is required, but the run has no cgroup".to_owned());
    }
    let ((), layers, _) = confined::within(sandbox, || ()).map_err(|cause| cause.to_string())?;
    let cgroup = match cgroup {
        Some(cgroup) => format!("cgroup {}", cgroup.dir().display()),
        None => "no cgroup".to_owned(),
    };
    let layers = layers.iter().map(ToString::to_string);
    Ok([cgroup].into_iter().chain(layers).collect::<Vec<_>>().join("; "))
}

/// Says that nobody waits any more, when it is dropped.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
    A::deserialize(arguments).map_err(|cause| format!("invalid arguments: {cause}"))
}

/// What a refusal says to the model.
impl From<PathRefused> for String {
    fn from(refused: PathRefused) -> Self {
        refused.to_string()
    }
}

#[cfg(test)]
mod tests;
