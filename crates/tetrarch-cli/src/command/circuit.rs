//! `circuit`: lets a parent start children again after restart intensity stopped it. The owner
//! decides.

use tetrarch_core::id::AgentId;
use tetrarch_core::request::Op;

use super::project::ask;
use crate::{CliResult, Context};

/// Subcommands of `circuit`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch events --kind alert        # why the circuit opened
  tetrarch circuit close PO-demo

A circuit opens when the children of an agent fail too often: more than `limits.max_restarts` times
within `limits.restart_window`, or one task four times in three days. Nothing is started below the
agent until the circuit is closed.

Exit codes: 3 agent not found; 5 the circuit is not open.")]
pub(crate) enum CircuitCommand {
    /// Close a circuit and reset its failure count.
    Close {
        /// The agent whose circuit is open.
        agent: AgentId,
    },
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: CircuitCommand) -> CliResult {
    let CircuitCommand::Close { agent } = command;
    let said = format!("circuit of {agent} closed");
    ask(context, &Op::CircuitClose { agent }, |_| said).await
}
