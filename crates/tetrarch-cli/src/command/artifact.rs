//! `tetrarch artifact`: the bytes that runs made, verified against their name (spec 06).

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use tetrarch_bus::artifact::{ArtifactError, Artifacts};

use crate::context::Context;
use crate::exit::{CliError, Code};

/// Gets artifacts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ArtifactCommand {
    /// Write an artifact's bytes to standard output, or to a file.
    #[command(
        after_help = "Examples:\n  tetrarch artifact get 9f86d0...0a08 > report.md\n  tetrarch artifact get 9f86d0...0a08 --to report.md"
    )]
    Get {
        /// Its sha256, 64 hexadecimal digits.
        sha256: String,
        /// The file to write; it appears whole or not at all.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// Runs the command.
///
/// # Errors
/// There is none of this name, it is damaged, or the bus does not answer.
pub(crate) async fn run(context: &Context, command: ArtifactCommand) -> Result<(), CliError> {
    let ArtifactCommand::Get { sha256, to } = command;
    let sha256 = sha256.to_ascii_lowercase();
    let desk = context.desk().await?;
    let artifacts = Artifacts::new(&desk.bus);
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
