//! `circuit`: lets a parent start children again after restart intensity stopped it. The owner
//! decides.

use tetrarch_core::id::AgentId;
use tetrarch_core::request::Op;

use super::project::report;
use crate::context::Context;
use crate::exit::CliError;

/// What `circuit` can do.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch events --kind alert        # why it opened
  tetrarch circuit close PO-demo

A circuit opens when the children of an agent die too often (`limits.max_restarts` within
`limits.restart_window`, or one task four times in three days). Nothing is started below it until
it is closed. Exits with 3 when there is no such agent and with 5 when its circuit is not open.")]
pub(crate) enum CircuitCommand {
    /// Close a circuit: counting begins anew.
    Close {
        /// Whose circuit.
        agent: AgentId,
    },
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: CircuitCommand) -> Result<(), CliError> {
    let CircuitCommand::Close { agent } = command;
    let said = format!("circuit of {agent} closed");
    let reply = context.client().await?.operate(&Op::CircuitClose { agent }).await?;
    report(context, &reply, &said)
}
