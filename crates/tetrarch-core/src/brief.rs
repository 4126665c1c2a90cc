//! The brief a parent gives a child and the result it gets back (spec 06).
//! A child never sees its parent's conversation: this is all there is between them.

use std::collections::BTreeSet;

use crate::budget::{Limits, Spend};
use crate::destination;
use crate::id::{AgentId, NodeId, ProfileName};
use crate::mcp::{self, McpServer};
use crate::permission::PermissionList;
use crate::secret::SecretSource;
use crate::time::Millis;
use crate::url::url_fault;
use crate::words::parsed_words;

/// Tools an agent may use. No list means none (spec 06).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tools(BTreeSet<String>);

/// The entry that stands for every tool; only GO holds it from the start.
pub const EVERY_TOOL: &str = "*";

/// The tool by which a model asks for agents of its own.
pub const SPAWN_TOOL: &str = "agent_spawn";
/// Names of the artifacts that hold a result's long texts whole: its deliverable, and what there is of it. Others would
/// be taken for them, unchecked.
pub const LONG_TEXTS: [&str; 2] = ["deliverable", "partial"];

impl Tools {
    /// Every tool there is.
    #[must_use]
    pub fn every() -> Self {
        Self(BTreeSet::from([EVERY_TOOL.to_owned()]))
    }

    /// The tools of this set that `allowed` does not hold.
    #[must_use]
    pub fn not_in(&self, allowed: &Self) -> Vec<String> {
        if allowed.0.contains(EVERY_TOOL) {
            return Vec::new();
        }
        let beyond = self.0.difference(&allowed.0);
        let covered = |entry: &&String| {
            let network = destination::is_entry(entry);
            let covers =
                |own| mcp::covers(own, entry) || network && destination::covers(own, entry);
            allowed.names().any(covers)
        };
        beyond.filter(|entry| !covered(entry)).cloned().collect()
    }

    /// Those of both.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        self.names().chain(more.names()).collect()
    }

    /// Whether a tool is among them.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains(tool) || self.0.contains(EVERY_TOOL)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> FromIterator<T> for Tools {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// The variable that says how a program judges as a reviewer (docs/stdio-protocol.md, Programs that speak no protocol).
pub const VERDICT_VARIABLE: &str = "TETRARCH_VERDICT";
/// Its value for a program whose exit code is its verdict.
pub const VERDICT_OF_EXIT: &str = "exit";

/// Tools that change files or run commands, as briefs list them.
const CHANGING_TOOLS: [&str; 3] = ["write", "edit", "run"];

/// What the result must look like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExpectedOutput {
    /// Any text.
    #[default]
    Text,
    /// JSON that satisfies this JSON Schema, given as JSON text.
    Schema(String),
}

parsed_words! {
    /// Whether the agent works in a git worktree of its own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Worktree {
        /// In the workspace itself.
        #[default]
        None = "none",
        /// In its own worktree and branch.
        Isolated = "isolated",
        /// The same where its workspace is in a git repository, else in the workspace itself.
        Auto = "auto",
    }
}

impl Worktree {
    /// Where a brief works of which nothing is said: what may write or run commands is kept apart
    /// (spec 06, Worktrees and the apply gate).
    #[must_use]
    pub fn of_tools(tools: &Tools) -> Self {
        let changes = |name: &str| name == EVERY_TOOL || CHANGING_TOOLS.contains(&name);
        if tools.names().any(changes) { Self::Auto } else { Self::None }
    }

    /// The one of both that keeps more apart.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Isolated, _) | (_, Self::Isolated) => Self::Isolated,
            (Self::Auto, _) | (_, Self::Auto) => Self::Auto,
            (Self::None, Self::None) => Self::None,
        }
    }
}

parsed_words! {
    /// Which runner executes a brief.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum RunnerKind {
        /// A command, with or without the JSON-lines protocol.
        #[default]
        Process = "process",
        /// Inside the host process: answers at once with the brief's goal. For measuring.
        Echo = "echo",
        /// The agent connects to the bus by itself.
        External = "external",
        /// Inside the host process: a conversation with a model.
        Llm = "llm",
        /// The coding agent `claude`, driven by its host.
        Claude = "claude",
        /// The coding agent `codex`, driven by its host.
        Codex = "codex",
        /// A coding agent that speaks the Agent Client Protocol, driven by its host.
        Acp = "acp",
        /// A program that is asked once and prints its answer.
        Cli = "cli",
    }
}

impl RunnerKind {
    /// Whether it does anything outside its host's process, so that its start is journaled before.
    #[must_use]
    pub fn has_effects(self) -> bool {
        match self {
            Self::Process
            | Self::External
            | Self::Llm
            | Self::Claude
            | Self::Codex
            | Self::Acp
            | Self::Cli => true,
            Self::Echo => false,
        }
    }

    /// Whether what it runs calls models, as far as its host knows.
    #[must_use]
    pub fn calls_models(self) -> bool {
        match self {
            Self::Llm | Self::Claude | Self::Codex | Self::Acp => true,
            Self::Process | Self::Echo | Self::External | Self::Cli => false,
        }
    }

    /// The program that it starts where a profile names none; empty for runners that start none, or whichever
    /// they are told.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Process | Self::Echo | Self::External | Self::Llm | Self::Acp | Self::Cli => "",
        }
    }

    /// Whether a profile has to name the command.
    #[must_use]
    pub fn needs_command(self) -> bool {
        match self {
            Self::Process | Self::Acp | Self::Cli => true,
            Self::Echo | Self::External | Self::Llm | Self::Claude | Self::Codex => false,
        }
    }
}

/// Which model the llm runner talks to, besides its name (spec 12, Profiles).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Served {
    /// The provider: `openai` for whatever is compatible with it, `anthropic`, ...
    pub provider: String,
    /// Where it is served; empty means the provider's own address.
    pub base_url: String,
    /// Where the host finds the key: `env:NAME` or `credential:NAME`; empty for servers that want none.
    pub key_from: String,
    /// Tokens it may write in one turn.
    pub max_output_tokens: Option<u32>,
    /// Tokens it reads at most.
    pub context_tokens: Option<u32>,
}

impl Served {
    /// Where the key is found, when that is what a profile may say.
    #[must_use]
    pub fn key_source(&self) -> Option<SecretSource> {
        SecretSource::parse(&self.key_from).filter(SecretSource::is_for_profiles)
    }

    /// Why the key must not be sent to the address; none when it may, or there is none (decision 0143).
    #[must_use]
    pub fn key_fault(&self) -> Option<&'static str> {
        let keyed = !self.key_from.is_empty() && !self.base_url.is_empty();
        if keyed { url_fault(&self.base_url) } else { None }
    }
}

/// How a brief is executed: a profile's words, resolved at admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// The profile it comes from.
    pub profile: ProfileName,
    /// Which runner.
    pub kind: RunnerKind,
    /// The command and its arguments; never a shell string.
    pub argv: Vec<String>,
    /// Variables added to the scrubbed environment.
    pub env: Vec<(String, String)>,
    /// Names of variables passed on from the host's own environment.
    pub pass_env: Vec<String>,
    /// What programs may write besides their own places: absolute, or below the home of the host's user (`~/`).
    pub writable: Vec<String>,
    /// The model, for runners that use one.
    pub model: String,
    /// How the model is reached.
    pub served: Served,
    /// The system prompt, for runners that use one.
    pub prompt: String,
    /// Rules on what its tools are called with: its profile's, and those of the agents above it.
    pub permissions: Vec<PermissionList>,
    /// Servers whose tools its list may name.
    pub mcp_servers: Vec<McpServer>,
}

/// What a node it depends on came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInput {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its deliverable: text, or JSON as text.
    pub deliverable: String,
    /// Its artifacts.
    pub artifacts: Vec<Artifact>,
}

/// The structured contract between a parent and a child.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// One paragraph, falsifiable.
    pub goal: String,
    /// What the child has to know.
    pub key_facts: Vec<String>,
    /// What the result must look like.
    pub expected_output: ExpectedOutput,
    /// How one can tell that it succeeded.
    pub success_criteria: Vec<String>,
    /// When it may call itself done.
    pub definition_of_done: String,
    /// What it may use.
    pub tools: Tools,
    /// Directory it works in; empty means one of its own.
    pub workspace: String,
    /// Paths it may change.
    pub scope_paths: Vec<String>,
    /// Its grant.
    pub budget: Limits,
    /// Longest run.
    pub wall: Option<Millis>,
    /// Longest turn.
    pub turn_timeout: Option<Millis>,
    /// How it is executed.
    pub runner: Runner,
    /// Where it works.
    pub worktree: Worktree,
    /// Results of the nodes that the work depends on.
    pub inputs: Vec<NodeInput>,
    /// Whose work it judges: its worktree begins where that agent's ended.
    pub judges: Option<AgentId>,
}

/// Counters of a run; they only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens.
    pub tokens_in: u64,
    /// Completion tokens.
    pub tokens_out: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro: u64,
    /// Turns.
    pub turns: u64,
}

impl Usage {
    /// The higher of each: counters only grow, however late a report of them comes.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens_in: self.tokens_in.max(other.tokens_in),
            tokens_out: self.tokens_out.max(other.tokens_out),
            cost_micro: self.cost_micro.max(other.cost_micro),
            turns: self.turns.max(other.turns),
        }
    }

    /// What a budget counts of it.
    #[must_use]
    pub fn spend(self) -> Spend {
        Spend {
            tokens: self.tokens_in.saturating_add(self.tokens_out),
            cost_micro: self.cost_micro,
            turns: self.turns,
        }
    }
}

/// A stored file, named by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What the agent calls it.
    pub name: String,
    /// Lower-case hexadecimal sha256 of the content.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// Media type.
    pub media_type: String,
}

parsed_words! {
    /// How a run ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Outcome {
        /// Its deliverable is there.
        Success = "success",
        /// It is not.
        Failure = "failure",
        /// The grant was used up.
        BudgetExceeded = "budget_exceeded",
        /// It was stopped.
        Cancelled = "cancelled",
    }
}

/// What shows that work was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// Files written or changed.
    pub files: Vec<String>,
    /// Commands run.
    pub commands: Vec<String>,
    /// Tests run, with their outcome.
    pub tests: Vec<String>,
    /// Commits made.
    pub commits: Vec<String>,
}

impl Evidence {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.commands.is_empty()
            && self.tests.is_empty()
            && self.commits.is_empty()
    }
}

parsed_words! {
    /// A reviewer's judgement.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Judgement {
        /// The work satisfies its criteria.
        Pass = "pass",
        /// It does not.
        Fail = "fail",
        /// It would after changes.
        NeedsChanges = "needs_changes",
    }
}

/// One thing a reviewer found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What.
    pub what: String,
    /// How bad, in the reviewer's words.
    pub severity: String,
}

/// What a reviewer returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The judgement.
    pub judgement: Judgement,
    /// What it rests on.
    pub findings: Vec<Finding>,
}

/// What a run gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Text, or JSON as text.
    pub deliverable: String,
    /// Whatever there is, on every outcome but success.
    pub partial: String,
    /// Stored files.
    pub artifacts: Vec<Artifact>,
    /// What it used.
    pub usage: Usage,
    /// What shows it.
    pub evidence: Evidence,
    /// Summary for whoever goes on from here.
    pub crystallization: String,
    /// A reviewer's verdict.
    pub verdict: Option<Verdict>,
    /// Why it did not succeed.
    pub error: String,
}

impl RunResult {
    /// A result that is nothing but an outcome and its reason.
    #[must_use]
    pub fn ended(outcome: Outcome, error: impl Into<String>) -> Self {
        Self {
            outcome,
            deliverable: String::new(),
            partial: String::new(),
            artifacts: Vec::new(),
            usage: Usage::default(),
            evidence: Evidence::default(),
            crystallization: String::new(),
            verdict: None,
            error: error.into(),
        }
    }
}
