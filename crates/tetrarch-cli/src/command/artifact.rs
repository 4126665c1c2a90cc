//! `tetrarch artifact`: the bytes that runs made, verified against their name (spec 06).

use std::cmp::Reverse;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use serde_json::json;
use tetrarch_bus::artifact::{ArtifactError, Artifacts};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::brief::Artifact;
use tetrarch_core::id::{EpicId, ProjectName};
use tetrarch_core::run::Run;
use tetrarch_core::time::BusTime;

use crate::name::Digest;
use crate::output::{self, TableRow, age, now};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Lists and downloads artifacts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ArtifactCommand {
    /// List artifacts, newest first.
    #[command(
        after_help = "Examples:\n  tetrarch artifact list\n  tetrarch artifact list --goal @last -o json"
    )]
    List {
        /// Filter by goal.
        #[arg(long)]
        goal: Option<EpicId>,
        /// Filter by project.
        #[arg(long)]
        project: Option<ProjectName>,
    },
    /// Write an artifact to standard output or to a file.
    #[command(
        after_help = "Examples:\n  tetrarch artifact get 9f86d0...0a08 > report.md\n  tetrarch artifact get 9f86d081 --to report.md"
    )]
    Get {
        /// The artifact's sha256, or a unique prefix of at least 6 digits.
        sha256: Digest,
        /// The file to write. It is written completely or not at all.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// Runs the command.
///
/// # Errors
/// There is none of this name, it is damaged, or the bus does not answer.
pub(crate) async fn run(context: &Context, command: ArtifactCommand) -> CliResult {
    match command {
        ArtifactCommand::List { goal, project } => list(context, goal, project.as_ref()).await,
        ArtifactCommand::Get { sha256: Digest(sha256), to } => get(context, sha256, to).await,
    }
}

const COLUMNS: &str = "SHA256|NAME|BYTES|AGE|NODE|+RUN|+GOAL|+TYPE";

async fn list(context: &Context, goal: Option<EpicId>, project: Option<&ProjectName>) -> CliResult {
    let bus = context.client().await?.bus;
    let kinds = [KeyKind::Run, KeyKind::RunStatus, KeyKind::Goal].map(Select::Kind);
    let records = StateSnapshot::read(&bus, &kinds).await?.0.records;
    let mut rows = Vec::new();
    for status in records.run_status.values() {
        let Some(run) = records.runs.get(&status.id) else { continue };
        let of = records.goals.get(&run.epic).map(|goal| &goal.project);
        if goal.is_some_and(|goal| goal != run.epic) || (project.is_some() && of != project) {
            continue;
        }
        let files = status.result.iter().flat_map(|result| &result.artifacts);
        rows.extend(files.map(|file| (status.since, row(file, run, status.since))));
    }
    rows.sort_by_key(|(since, _)| Reverse(*since));
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No artifacts. What runs and goals leave as their results is listed here.",
    )
}

fn row(file: &Artifact, run: &Run, since: BusTime) -> TableRow {
    TableRow {
        cells: vec![
            file.sha256.as_str().into(),
            file.name.as_str().into(),
            file.size.to_string().into(),
            age(now(), since).into(),
            run.node.to_string().into(),
            run.id.to_string().into(),
            run.epic.to_string().into(),
            file.media_type.as_str().into(),
        ],
        record: json!({
            "sha256": file.sha256,
            "name": file.name,
            "size": file.size,
            "mediaType": file.media_type,
            "run": run.id.to_string(),
            "goal": run.epic.to_string(),
            "node": run.node.to_string(),
        }),
    }
}

async fn get(context: &Context, sha256: String, to: Option<PathBuf>) -> CliResult {
    let client = context.client().await?;
    let artifacts = Artifacts::new(&client.bus);
    match to {
        Some(file) => artifacts.get_to_file(&sha256, &file).await.map_err(explained),
        None => {
            let bytes = artifacts.get_bytes(&sha256).await.map_err(explained)?;
            let mut out = std::io::stdout().lock();
            match out.write_all(&bytes).and_then(|()| out.flush()) {
                // A reader that went away has seen enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                written => Ok(written?),
            }
        }
    }
}

/// Why an artifact was not got, in the words of the command line.
pub(crate) fn explained(error: ArtifactError) -> CliError {
    let code = match &error {
        ArtifactError::Name(_) => Code::Usage,
        ArtifactError::Missing(_) => Code::NotFound,
        ArtifactError::Read(_) => Code::BusUnreachable,
        ArtifactError::TooLarge { .. }
        | ArtifactError::Damaged { .. }
        | ArtifactError::Changed(_)
        | ArtifactError::File { .. }
        | ArtifactError::Publish(_) => Code::Failed,
    };
    CliError::new(code, error.to_string())
}
