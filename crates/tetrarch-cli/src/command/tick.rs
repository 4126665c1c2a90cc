//! `tick`: has the overseer look at what stands still, and says what it did and why (spec 05). The
//! owner decides.

use tetrarch_core::overseer::Telemetry;
use tetrarch_core::request::Op;

use super::project::ask;
use crate::{CliResult, Context};

/// Arguments of `tick`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch tick
  tetrarch why W:01JD8Z5W6T4QK3M9X2V7B1N0AC    # what the tick led to

The overseer also checks every `overseer.tick_every` (default 2m).")]
pub(crate) struct TickArgs {
    /// Check now, as without it.
    #[arg(long, hide = true)]
    now: bool,
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, args: TickArgs) -> CliResult {
    let TickArgs { now: _ } = args;
    let op = Op::OverseerTick(Telemetry::default());
    ask(context, &op, |reply| reply.detail.clone()).await
}
