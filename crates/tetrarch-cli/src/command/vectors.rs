//! `tetrarch vectors`: conformance vectors from files (spec 11).

use std::path::PathBuf;

use crate::vectors;
use crate::{CliError, CliResult, Code, Context};

/// Checks or runs conformance vectors.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum VectorsCommand {
    /// Compare the outcome of every case with the expected one.
    #[command(after_help = "Examples:\n  tetrarch vectors check vectors/*.jsonl")]
    Check {
        /// Files with one case per line.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the outcome of every case.
    #[command(after_help = "Examples:\n  tetrarch vectors run vectors/node.jsonl")]
    Run {
        /// A file with one case per line.
        file: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// A case failed, or a file cannot be read.
pub(crate) fn run(_context: &Context, command: VectorsCommand) -> CliResult {
    let mut out = std::io::stdout().lock();
    let passed = match command {
        VectorsCommand::Check { files } => vectors::check(&files, &mut out),
        VectorsCommand::Run { file } => vectors::run(&file, &mut out).map(|()| true),
    };
    match passed {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::new(Code::Failed, "some cases failed")),
        // A reader that went away has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::new(Code::Usage, error.to_string())),
    }
}
