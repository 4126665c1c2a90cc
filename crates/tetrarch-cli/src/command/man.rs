//! `man`: the manual pages of the program and of each command, made from its own help.

use std::io::Write;
use std::path::PathBuf;

use crate::{CliError, CliResult, Code};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch man | man -l -
  tetrarch man ~/.local/share/man/man1      # then `man tetrarch-goal-create`")]
pub(crate) struct ManArgs {
    /// The directory for one page per command [default: print the main page].
    dir: Option<PathBuf>,
}

/// Writes the pages of `command`.
///
/// # Errors
/// The pages cannot be written.
pub(crate) fn run(args: ManArgs, command: clap::Command) -> CliResult {
    match args.dir {
        Some(dir) => {
            let failed = |error: std::io::Error| {
                let what = format!("cannot write the pages to {}: {error}", dir.display());
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
