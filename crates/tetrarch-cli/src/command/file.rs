//! `file`: which paths agents hold while others must not change them (spec 05, Reservations). Agents
//! reserve by themselves; a human looks, and releases what somebody forgot.

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{ProjectName, ReservationId};
use tetrarch_core::ledger::Record;
use tetrarch_core::request::{FileOp, Op};
use tetrarch_core::reservation::Reservation;

use super::project::ask;
use crate::output::{self, TableRow, now};
use crate::{CliResult, Context, StateSnapshot};

/// Subcommands of `file`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch file list
  tetrarch file list demo -o json
  tetrarch file release rsv_01JD8Z5W6T4QK3M9X2V7B1N0AC")]
pub(crate) enum FileCommand {
    /// List reservations.
    List {
        /// The project [default: all projects].
        project: Option<ProjectName>,
    },
    /// Release a reservation before it expires.
    Release {
        /// The reservation's id, as shown by `tetrarch file list`.
        reservation: ReservationId,
    },
}

const COLUMNS: &str = "RESERVATION|PROJECT|+NUMBER|HOLDER|MODE|LEFT|PATHS|FOR";

/// Runs the command.
///
/// # Errors
/// The bus cannot be read, or there is no such reservation.
pub(crate) async fn run(context: &Context, command: FileCommand) -> CliResult {
    match command {
        FileCommand::List { project } => list(context, project.as_ref()).await,
        FileCommand::Release { reservation } => {
            let said = format!("{reservation} released");
            let op = Op::File(FileOp::Release { reservation });
            ask(context, &op, |_| said).await
        }
    }
}

async fn list(context: &Context, project: Option<&ProjectName>) -> CliResult {
    let client = context.client().await?;
    let wanted = [KeyKind::Reservation, KeyKind::Agent].map(Select::Kind);
    let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let mut held: Vec<&Reservation> = snapshot
        .records
        .reservations
        .values()
        .filter(|it| project.is_none_or(|project| it.project == *project))
        .filter(|it| snapshot.records.is_standing(it, now()))
        .collect();
    held.sort_by_key(|it| (&it.project, it.fencing));
    let rows = held.into_iter().map(|it| row(&snapshot, it));
    let rows = rows.collect::<CliResult<Vec<TableRow>>>()?;
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No paths are reserved. Agents reserve files with file.reserve.",
    )
}

fn row(snapshot: &StateSnapshot, held: &Reservation) -> CliResult<TableRow> {
    Ok(TableRow {
        cells: vec![
            held.id.to_string().into(),
            held.project.to_string().into(),
            held.fencing.to_string().into(),
            held.agent.to_string().into(),
            held.mode.as_str().into(),
            (held.until - now()).to_string().into(),
            held.paths.join(" ").into(),
            held.reason.as_str().into(),
        ],
        record: snapshot.json(&Record::Reservation(Box::new(held.clone())))?,
    })
}
