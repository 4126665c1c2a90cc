//! `work`: the nodes of a goal's plan under the hands of people (spec 05, Status machines; spec 08). The
//! owner decides what is possible.

use tetrarch_core::brief::Evidence;
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::plan::Blocker;
use tetrarch_core::priority::Priority;
use tetrarch_core::request::Op;
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};

use super::describe::{self, DescribeArgs};
use super::get::{self, GetArgs};
use super::goal::{PriorityChange, priority};
use super::project::ask;
use crate::name::NodePath;
use crate::{CliError, CliResult, Code, Context};

/// Subcommands of `work`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch work list goal_01JD8Z5W6T4QK3M9X2V7B1N0AC --state blocked
  tetrarch work show T1.2
  tetrarch work done goal_01JD8Z5W6T4QK3M9X2V7B1N0AC T1.2 --summary 'the page is up' \\
    --test 'make check: ok' --reason 'I did it by hand'
  tetrarch work unblock @last/T1.2 --note 'the key is in the vault'
  tetrarch work priority goal_01JD8Z5W6T4QK3M9X2V7B1N0AC T1.2=urgent P2=low

`work done` ends the agent that still works on the node. It needs evidence: a summary, or files,
commands, tests or commits.")]
pub(crate) enum WorkCommand {
    /// List the work items of a goal.
    List {
        /// The goal.
        epic: EpicId,
        /// Filter by state.
        #[arg(long)]
        state: Option<String>,
    },
    /// Show a work item.
    Show(NodeArgs),
    /// Mark a work item as done.
    Done(DoneArgs),
    /// Block a work item that waits for an agent.
    Block {
        /// The node.
        #[command(flatten)]
        node: NodeArgs,
        /// The reason.
        #[arg(long)]
        reason: String,
        /// What is needed to unblock it.
        #[arg(long, default_value = "", hide_default_value = true)]
        needs: String,
    },
    /// Unblock a work item and try it again.
    Unblock {
        /// The node.
        #[command(flatten)]
        node: NodeArgs,
        /// A note for the next agent.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// Set the priority of work items.
    Priority {
        /// The goal.
        epic: EpicId,
        /// A node and its priority, 0 to 100, low, normal, high, urgent or none, such as T1.2=high.
        #[arg(required = true, value_name = "NODE=PRIORITY", value_parser = pair)]
        priorities: Vec<(NodeId, Option<Priority>)>,
        /// The reason.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
}

/// A node of a plan.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node: T1.2 (in the only open goal), <goal>/T1.2, or the goal and the node as two words.
    #[arg(required = true, num_args = 1..=2, value_name = "GOAL/NODE")]
    node: Vec<NodePath>,
}

impl NodeArgs {
    /// Both words stand for the one place.
    fn place(&self) -> CliResult<NodePath> {
        let place = self.node.first().copied();
        place.ok_or_else(|| CliError::new(Code::Usage, "name a node"))
    }
}

/// Arguments of `work done`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoneArgs {
    /// The node.
    #[command(flatten)]
    node: NodeArgs,
    /// The reason why it is done.
    #[arg(long)]
    reason: String,
    /// The result, for the agents that continue.
    #[arg(long, default_value = "", hide_default_value = true)]
    summary: String,
    /// A file that was written or changed; repeatable.
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// A command that was run; repeatable.
    #[arg(long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
    /// A test that was run, with its outcome; repeatable.
    #[arg(long = "test", value_name = "TEST")]
    tests: Vec<String>,
    /// A commit that was made; repeatable.
    #[arg(long = "commit", value_name = "COMMIT")]
    commits: Vec<String>,
}

fn pair(text: &str) -> Result<(NodeId, Option<Priority>), String> {
    let form = || "expected <node>=<priority>, such as T1.2=high".to_owned();
    let (node, said) = text.split_once('=').ok_or_else(form)?;
    let PriorityChange(said) = priority(said)?;
    Ok((node.parse().map_err(|error| format!("{error}"))?, said))
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: WorkCommand) -> CliResult {
    match command {
        WorkCommand::List { epic, state } => get::run(context, GetArgs::nodes(epic, state)).await,
        WorkCommand::Show(args) => {
            let NodePath { epic, node } = args.place()?;
            describe::run(context, DescribeArgs::of_node(epic, node)).await
        }
        WorkCommand::Done(args) => {
            let DoneArgs { node, reason, summary, files, commands, tests, commits } = args;
            let NodePath { epic, node } = node.place()?;
            let done = Completion {
                node,
                crystallization: summary,
                evidence: Evidence { files, commands, tests, commits },
                reason,
            };
            operate(context, epic, WorkVerb::Complete(Box::new(done))).await
        }
        WorkCommand::Block { node, reason, needs } => {
            let NodePath { epic, node } = node.place()?;
            let blocker = Blocker { kind: "manual".to_owned(), detail: reason, needs };
            let said = format!("{epic}/{node} is blocked");
            let op = Op::WorkBlock { epic, node, blocker };
            ask(context, &op, |_| said).await
        }
        WorkCommand::Unblock { node, note } => {
            let NodePath { epic, node } = node.place()?;
            operate(context, epic, WorkVerb::Unblock { node, note }).await
        }
        WorkCommand::Priority { epic, priorities, reason } => {
            operate(context, epic, WorkVerb::Reprioritise { priorities, reason }).await
        }
    }
}

async fn operate(context: &Context, epic: EpicId, verb: WorkVerb) -> CliResult {
    let op = Op::Work(WorkOp { epic, verb });
    ask(context, &op, |reply| format!("{epic}: {}", reply.detail)).await
}
