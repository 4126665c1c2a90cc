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
use tetrarch_core::converse::{Recorded, ToolDefinition};
use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_model::{Address, BadAddress, Key, Model};

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

/// What is said of files that an earlier session wrote elsewhere.
const NEW_DIRECTORY: &str = "[You go on in a new, empty working directory: files that you wrote before are \
    not in it.]";

/// What is said of files that an earlier session reserved.
const NOT_RESERVED: &str = "[Your session is a new one: files that you had reserved are not reserved any more. \
    Reserve those that you still need again.]";

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
    #[error(
        "profile `{profile}`: keyFrom is {from}, but the host's environment has no variable {name}, or it is \
         empty; set it where the host starts"
    )]
    NoKey { profile: String, from: String, name: String },
    #[error(
        "profile `{profile}`: keyFrom is {from}; write env:NAME, the key itself is never written down"
    )]
    BadKey { profile: String, from: String },
}

/// What a conversation stands on.
struct Begun {
    expected: Expected,
    model: Model,
    tools: Vec<ToolDefinition>,
    toolbox: Toolbox,
    /// By what the programs of its tools are found, if it may run any.
    traces: Option<Traces>,
    /// What the model is to know that goes on from an earlier session.
    notes: Vec<String>,
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
        // What it goes on from wrote its files there.
        let workspace_dir = &self.ground.workspace_dir;
        let was_there = workspace_dir.join(start.first.to_string()).is_dir();
        let (dir, dir_is_own) = directory(workspace_dir, start, start.first).await?;
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
        let mut tools = vec![ending::definition(&brief.expected_output)];
        let every = brief.tools.names().any(|name| name == EVERY_TOOL);
        let own = Own::ALL
            .into_iter()
            .filter(|own| every || brief.tools.names().any(|it| it == own.name()));
        tools.extend(own.map(Own::definition));
        let on_files: Vec<ToolDefinition> =
            toolbox.definitions().into_iter().map(offered).collect();
        let goes_on = !start.recorded.is_empty();
        let lost = goes_on && dir_is_own && !was_there && !on_files.is_empty();
        let reserved = start.recorded.iter().any(|recorded| {
            matches!(recorded, Recorded::Turn { calls, .. }
                if calls.iter().any(|call| call.tool == Own::FileReserve.name()))
        });
        let notes = [(lost, NEW_DIRECTORY), (reserved, NOT_RESERVED)].into_iter();
        let notes = notes.filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()).collect();
        tools.extend(on_files);
        let traces = runs.then(|| Traces::of_mark(Mark::Run(start.run), cgroup));
        Ok(Begun { expected, model, tools, toolbox, traces, notes, dir, dir_is_own })
    }
}

/// A tool as the model is told of it.
fn offered(tool: Definition) -> ToolDefinition {
    let Definition { name, description, schema, effect } = tool;
    ToolDefinition { name: name.to_owned(), description, schema, effect }
}

/// Prepares to speak to the model of a profile, with the key from the host's environment.
fn reach(runner: &Runner) -> Result<Model, CannotBegin> {
    let profile = || runner.profile.to_string();
    let served = &runner.served;
    let key = if served.key_from.is_empty() {
        None
    } else {
        let from = || served.key_from.clone();
        let bad = || CannotBegin::BadKey { profile: profile(), from: from() };
        let name = served.key_variable().ok_or_else(bad)?;
        let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let none =
            || CannotBegin::NoKey { profile: profile(), from: from(), name: name.to_owned() };
        Some(Key::new(value.ok_or_else(none)?.trim().to_owned()))
    };
    let address = Address {
        provider: served.provider.clone(),
        model: runner.model.clone(),
        base_url: Some(served.base_url.clone()).filter(|url| !url.is_empty()),
        key,
    };
    Model::new(&address).map_err(|cause| CannotBegin::Model { profile: profile(), cause })
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
