//! `man`: the manual pages of the program and of each command, made from its own help.

use std::io::Write;
use std::path::PathBuf;

use crate::exit::{CliError, Code};

/// What `man` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch man | man -l -
  tetrarch man ~/.local/share/man/man1      # then `man tetrarch-goal-create`")]
pub(crate) struct ManArgs {
    /// Where to write a page for each command; none prints the program's own.
    dir: Option<PathBuf>,
}

/// Writes the pages of `command`.
///
/// # Errors
/// The pages cannot be written.
pub(crate) fn run(args: ManArgs, command: clap::Command) -> Result<(), CliError> {
    match args.dir {
        Some(dir) => {
            let failed = |error: std::io::Error| {
                let what = format!("the pages cannot be written to {}: {error}", dir.display());
                CliError::new(Code::Failed, what)
            };
            std::fs::create_dir_all(&dir).map_err(failed)?;
            clap_mangen::generate_to(command, &dir).map_err(failed)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(())
}
