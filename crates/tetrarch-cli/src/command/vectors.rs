//! `tetrarch vectors`: conformance vectors from files (spec 11).

use std::path::PathBuf;

use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::vectors;

/// Checks or runs conformance vectors.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum VectorsCommand {
    /// Check that every case comes to what it says.
    #[command(after_help = "Examples:\n  tetrarch vectors check vectors/*.jsonl")]
    Check {
        /// Files with one case on each line.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print what every case comes to.
    #[command(after_help = "Examples:\n  tetrarch vectors run vectors/node.jsonl")]
    Run {
        /// A file with one case on each line.
        file: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// A case failed, or a file cannot be read.
pub(crate) fn run(_context: &Context, command: VectorsCommand) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let passed = match command {
        VectorsCommand::Check { files } => vectors::check(&files, &mut out),
        VectorsCommand::Run { file } => vectors::run(&file, &mut out).map(|()| true),
    };
    match passed {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::new(Code::Failed, "some cases do not hold")),
        // A reader that went away has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::new(Code::Usage, error.to_string())),
    }
}
