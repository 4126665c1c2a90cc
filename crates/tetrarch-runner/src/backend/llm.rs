//! Runs a brief as a conversation with a model (spec 06, Runners, llm; docs/llm-runner.md). What comes next is
//! core's `converse` to say; here it is done: the model is asked, tools are called, people are asked,
//! and every change is told before anything follows from it.

mod deltas;
mod ears;
mod ending;
mod own;
mod speaking;
mod talk;

use std::path::PathBuf;
use std::sync::Arc;

use tetrarch_core::brief::{EVERY_TOOL, Runner};
use tetrarch_core::converse::ToolDefinition;
use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_core::role::Role;
use tetrarch_model::{Address, BadAddress, Model};

use crate::backend::AgentBackend;
use crate::backend::expected::{BadSchema, Expected};
use crate::backend::process::launch::{LaunchError, directory};
use crate::mark::Mark;
use crate::seat::Seat;
use crate::serve::Ground;
use crate::sweep::Traces;
use crate::tools::{Definition, Toolbox, ToolboxConfig, ToolboxError};

use own::Own;
use talk::Talk;

/// Talks to models.
#[derive(Debug)]
pub(crate) struct Llm {
    ground: Arc<Ground>,
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
struct Begun {
    expected: Expected,
    /// What a reviewer's verdict must look like.
    form: Option<Expected>,
    model: Model,
    tools: Vec<ToolDefinition>,
    toolbox: Toolbox,
    /// By what the programs of its tools are found, if it may run any.
    traces: Option<Traces>,
    dir: PathBuf,
    dir_is_own: bool,
}

impl Llm {
    /// Conversations that are held on this ground.
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        Self { ground }
    }

    async fn begin(&self, start: &Start) -> Result<Begun, CannotBegin> {
        let expected = Expected::of(&start.brief.expected_output).await?;
        let model = reach(&start.brief.runner)?;
        let (dir, dir_is_own) = directory(&self.ground.workspace_dir, start).await?;
        let brief = &start.brief;
        let runs = brief.tools.names().any(|name| name == EVERY_TOOL || name.starts_with("run"));
        let cgroup = if runs { Some(self.ground.cgroup_for(start.run)) } else { None };
        let cgroup = match cgroup {
            Some(Err(cause)) if self.ground.containment.required => {
                return Err(CannotBegin::NotContained { cause });
            }
            other @ (Some(_) | None) => other.and_then(Result::ok),
        };
        let toolbox = Toolbox::new(ToolboxConfig {
            workspace: &dir,
            tools: &brief.tools,
            scope_paths: &brief.scope_paths,
            run: start.run,
            life: &self.ground.life,
            containment: &self.ground.containment,
            cgroup: cgroup.as_ref().map(|group| group.dir().to_owned()),
        })?;
        let form = match Role::of(&start.agent) {
            Role::Reviewer => Some(Expected::of(&ending::form()).await?),
            Role::Global
            | Role::Host
            | Role::Project
            | Role::Interaction
            | Role::Specialist
            | Role::Worker => None,
        };
        let mut tools = vec![ending::definition(&brief.expected_output, form.is_some())];
        let every = brief.tools.names().any(|name| name == EVERY_TOOL);
        let own = Own::ALL
            .into_iter()
            .filter(|own| every || brief.tools.names().any(|it| it == own.name()));
        tools.extend(own.map(Own::definition));
        tools.extend(toolbox.definitions().into_iter().map(offered));
        let traces = runs.then(|| Traces::of_mark(Mark::Run(start.run), cgroup));
        Ok(Begun { expected, form, model, tools, toolbox, traces, dir, dir_is_own })
    }
}

/// A tool as the model is told of it.
fn offered(tool: Definition) -> ToolDefinition {
    let Definition { name, description, schema, effect } = tool;
    ToolDefinition { name: name.to_owned(), description, schema, effect }
}

/// Prepares to speak to the model of a profile, with the key from the host's environment.
fn reach(runner: &Runner) -> Result<Model, CannotBegin> {
    let address = Address::of(&runner.served, &runner.model);
    address
        .and_then(|address| Model::new(&address))
        .map_err(|cause| CannotBegin::Model { profile: runner.profile.to_string(), cause })
}

impl AgentBackend for Llm {
    async fn execute(&self, start: Start, seat: Seat) {
        match self.begin(&start).await {
            Ok(begun) => Talk::open(begun, start, seat, &self.ground).hold().await,
            Err(error) => {
                seat.teller.tell(RunnerEvent::SpawnFailed { error: error.to_string() }).await;
            }
        }
    }
}
