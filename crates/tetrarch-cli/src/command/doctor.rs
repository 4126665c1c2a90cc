//! `tetrarch doctor`: looks at this machine, the bus and the ledger, and says for each thing
//! whether it is well and what to do if it is not. It repairs nothing, unless a human accepts a
//! ledger with it.

mod accept;
mod agents;
mod bus;
mod channels;
mod check;
mod ledger;
mod machine;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::check::{CheckStatus, DoctorCheck};
use crate::output::{self, Cell, align, is_coloured};
use crate::{CliError, CliResult, Code, ConfirmArgs, Context};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch doctor\n  tetrarch doctor -o json\n  tetrarch doctor --check-ledger\n  tetrarch doctor --accept-ledger 4711 --yes\n  tetrarch doctor agents",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    about: Option<DoctorCommand>,
    /// Replay the whole ledger, report broken invariants and compare the result with STATE.
    #[arg(long)]
    check_ledger: bool,
    /// Accept a ledger that the owner does not recognize; SEQ is its last sequence.
    #[arg(long, value_name = "SEQ", conflicts_with = "check_ledger")]
    accept_ledger: Option<u64>,
    /// Do not ask for confirmation.
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Subcommands of `doctor`.
#[derive(Debug, clap::Subcommand)]
enum DoctorCommand {
    /// Show which coding agents this machine has and what their adapters support.
    Agents,
}

/// Runs the command.
///
/// # Errors
/// A check failed: 6 when it is the bus that does not answer, else 1.
pub(crate) async fn run(context: &Context, args: DoctorArgs) -> CliResult {
    match args.about {
        Some(DoctorCommand::Agents) => return agents::run(context).await,
        None => {}
    }
    if args.check_ledger {
        let bus = context.connect(&bus::holder(context)?, "doctor").await?;
        return ledger::run(context, &bus).await;
    }
    if let Some(seq) = args.accept_ledger {
        return accept::run(context, seq, args.confirm).await;
    }
    let mut checks = machine::checks(context).await;
    checks.extend(channels::checks(context).await);
    let unreachable = match bus::connect(context).await {
        Ok((bus, check)) => {
            checks.push(check);
            checks.extend(bus::checks(context, &bus).await);
            false
        }
        Err(check) => {
            let failed = check.verdict == CheckStatus::Fail;
            checks.push(check);
            failed
        }
    };
    let all: Vec<Value> = checks.iter().map(DoctorCheck::json).collect();
    let shown = || {
        let (layers, others): (Vec<&DoctorCheck>, Vec<&DoctorCheck>) =
            checks.iter().partition(|check| check.layer.is_some());
        let lines: Vec<Vec<Cell>> = others.iter().flat_map(|check| check.lines()).collect();
        let head = ["ISOLATION", "STATE", "STOPS", "HERE, OR WHAT TO DO"].map(Cell::from).to_vec();
        let layers = layers.iter().filter_map(|check| check.layer_line());
        let layers: Vec<Vec<Cell>> = [head].into_iter().chain(layers).collect();
        format!("{}\n{}", align(&lines, is_coloured()), align(&layers, is_coloured()))
    };
    // A reader that went away has seen enough.
    output::record(context.output, &Value::Array(all), shown)?;
    let failed = checks.iter().filter(|check| check.verdict == CheckStatus::Fail).count();
    match (failed, unreachable) {
        (0, _) => Ok(()),
        (_, true) => Err(CliError::new(Code::BusUnreachable, "cannot connect to the bus")),
        (_, false) => Err(CliError::new(Code::Failed, format!("{failed} of the checks failed"))),
    }
}
