//! Runs a brief as a conversation with a model (spec 06, Runners, llm; docs/llm-runner.md). What comes next is
//! core's `converse` to say; here it is done: the model is asked, tools are called, people are asked,
//! and every change is told before anything follows from it.

mod conversation;
mod deltas;
mod input;
mod speaking;

use std::path::PathBuf;
use std::sync::Arc;

use tetrarch_core::brief::{EVERY_TOOL, Runner};
use tetrarch_core::converse::{Call, Recorded, ToolDefinition};
use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_core::role::Role;
use tetrarch_model::{Address, BadAddress, Model};
use tetrarch_telemetry::Whose;

use crate::backend::AgentBackend;
use crate::backend::ending;
use crate::backend::expected::{BadSchema, Expected};
use crate::backend::fleet_tools::{self, AgentTool, OwnerOperation};
use crate::backend::process::launch::{LaunchError, directory};
use crate::channels::RunChannels;
use crate::directories::RunDirectories;
use crate::mark::ProcessMark;
use crate::serve::RunnerContext;
use crate::sweep::Traces;
use crate::tools::{ToolSpec, Toolbox, ToolboxConfig, ToolboxError, starts_servers};

use conversation::LlmConversation;

/// What is said of files that an earlier session wrote elsewhere.
const NEW_DIRECTORY: &str = "[You go on in a new, empty working directory: files that you wrote before are \
    not in it.]";

/// What is said of files that an earlier session reserved.
const NOT_RESERVED: &str = "[Your session is a new one: files that you had reserved are not reserved any more. \
    Reserve those that you still need again.]";

/// What is said of files that an earlier session handed over while it worked.
pub(crate) const NOT_HANDED_OVER: &str = "[Files that you handed over by artifact_put are stored, but not told with \
    your result any more. Hand those over again that belong to it.]";

/// Talks to models.
#[derive(Debug)]
pub(crate) struct LlmBackend {
    context: Arc<RunnerContext>,
}

/// Why a conversation cannot begin.
#[derive(Debug, thiserror::Error)]
enum CannotBegin {
    #[error(transparent)]
    Schema(#[from] BadSchema),
    #[error(transparent)]
    Workspace(#[from] LaunchError),
    #[error(transparent)]
    Tools(#[from] ToolboxError),
    #[error("isolation is required, but {cause}; or set host.isolation to \"best\"")]
    NotContained { cause: String },
    #[error("profile `{profile}`: {cause}")]
    Model { profile: String, cause: BadAddress },
}

/// What a conversation stands on.
struct ConversationSetup {
    expected: Expected,
    /// What a reviewer's verdict must look like.
    form: Option<Expected>,
    model: Model,
    tools: Vec<ToolDefinition>,
    toolbox: Toolbox,
    /// By what the programs of its tools are found, if it may run any.
    traces: Option<Traces>,
    /// What the model is to know that goes on from an earlier session.
    notes: Vec<String>,
    dir: PathBuf,
    dir_is_own: bool,
    /// What else its programs write, until this is dropped.
    directories: RunDirectories,
}

impl LlmBackend {
    /// Conversations that are held on this ground.
    pub(crate) fn new(context: Arc<RunnerContext>) -> Self {
        Self { context }
    }

    async fn begin(&self, start: &Start) -> Result<ConversationSetup, CannotBegin> {
        let expected = Expected::of(&start.brief.expected_output).await?;
        let model = reach(&start.brief.runner)?.on_behalf_of(whose(start));
        // What it goes on from wrote its files there.
        let workspace_dir = &self.context.workspace_dir;
        let was_there = workspace_dir.join(start.first.to_string()).is_dir();
        let (dir, dir_is_own) = directory(&self.context, start, start.first).await?;
        let brief = &start.brief;
        let runs = brief.tools.names().any(|name| name == EVERY_TOOL || name.starts_with("run"))
            || starts_servers(&brief.tools, &brief.runner.mcp_servers);
        let cgroup = if runs { Some(self.context.cgroup_for(start.run)) } else { None };
        let cgroup = match cgroup {
            Some(Err(cause)) if self.context.containment.required => {
                return Err(CannotBegin::NotContained { cause });
            }
            other @ (Some(_) | None) => other.and_then(Result::ok),
        };
        let directories = self.context.directories_for(start).await.map_err(LaunchError::from)?;
        let toolbox = Toolbox::new(ToolboxConfig {
            workspace: &dir,
            tools: &brief.tools,
            permissions: &brief.runner.permissions,
            servers: &brief.runner.mcp_servers,
            scope_paths: &brief.scope_paths,
            run: start.run,
            life: &self.context.life,
            containment: &self.context.containment,
            variables: directories.variables().collect(),
            writable: directories.writable(),
            readable: directories.readable(),
            profile: brief.runner.profile.as_str(),
            cgroup: cgroup.as_ref().map(|group| group.dir().to_owned()),
            trace: start.trace.as_deref(),
        })?;
        let form = match Role::of(&start.agent) {
            Role::Reviewer => Some(Expected::of(&ending::verdict_form()).await?),
            Role::Global
            | Role::Host
            | Role::Project
            | Role::Interaction
            | Role::Specialist
            | Role::Worker => None,
        };
        let mut tools = vec![ending::definition(&brief.expected_output, form.is_some())];
        tools.extend(fleet_tools::allowed(start));
        let on_files: Vec<ToolDefinition> =
            toolbox.definitions().into_iter().map(offered).collect();
        let goes_on = !start.recorded.is_empty();
        let lost = goes_on && dir_is_own && !was_there && !on_files.is_empty();
        let notes = notes_of(&start.recorded, lost);
        tools.extend(on_files);
        let traces = runs.then(|| Traces::of_mark(ProcessMark::Run(start.run), cgroup));
        Ok(ConversationSetup {
            expected,
            form,
            model,
            tools,
            toolbox,
            traces,
            notes,
            dir,
            dir_is_own,
            directories,
        })
    }
}

/// What the model is to know that goes on from what was `recorded`. `lost`: it works in a new directory.
fn notes_of(recorded: &[Recorded], lost: bool) -> Vec<String> {
    let called = |tool: AgentTool| {
        let has = |calls: &[Call]| calls.iter().any(|call| call.tool == tool.name());
        recorded.iter().any(|it| matches!(it, Recorded::Turn { calls, .. } if has(calls)))
    };
    let reserved = called(AgentTool::Operate(OwnerOperation::FileReserve));
    let handed = called(AgentTool::ArtifactPut);
    let notes = [(lost, NEW_DIRECTORY), (reserved, NOT_RESERVED), (handed, NOT_HANDED_OVER)];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so);
    notes.map(|(_, note)| note.to_owned()).collect()
}

/// Whose conversation it is, for those who look from outside.
pub(crate) fn whose(start: &Start) -> Whose {
    Whose {
        agent: start.agent.to_string(),
        profile: start.brief.runner.profile.to_string(),
        run: start.run.to_string(),
        trace: start.trace.clone(),
    }
}

/// A tool as the model is told of it.
fn offered(tool: ToolSpec) -> ToolDefinition {
    let ToolSpec { name, description, schema, effect } = tool;
    ToolDefinition { name: name.to_owned(), description, schema, effect }
}

/// Prepares to speak to the model of a profile, with the key from the host's environment.
fn reach(runner: &Runner) -> Result<Model, CannotBegin> {
    let address = Address::of(&runner.served, &runner.model);
    address
        .and_then(|address| Model::new(&address))
        .map_err(|cause| CannotBegin::Model { profile: runner.profile.to_string(), cause })
}

impl AgentBackend for LlmBackend {
    async fn execute(&self, start: Start, channels: RunChannels) {
        match self.begin(&start).await {
            Ok(setup) => LlmConversation::open(setup, start, channels, &self.context).hold().await,
            Err(error) => {
                channels.teller.tell(RunnerEvent::SpawnFailed { error: error.to_string() }).await;
            }
        }
    }
}
