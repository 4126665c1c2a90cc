//! Asking before something is lost: `--yes`, or a question on a terminal. Without either nothing is done.

use std::io::{self, IsTerminal, Write};

use crate::exit::{CliError, Code};

/// Whether the human is sure.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Sure {
    /// Do it without asking.
    #[arg(short, long)]
    yes: bool,
}

impl Sure {
    /// Goes on only when the human is sure of what is to be done, such as `cancel goal_x`.
    ///
    /// # Errors
    /// They said no, or cannot be asked and did not say `--yes`.
    pub(crate) fn to(self, what: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(CliError::new(
                Code::Usage,
                format!("this would {what}, and nobody can be asked"),
            )
            .hint("the same command with --yes does it"));
        }
        let mut out = io::stderr().lock();
        write!(out, "{}? [y/N] ", capitalised(what)).and_then(|()| out.flush())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(CliError::new(Code::Failed, "nothing was done: the answer was not yes"))
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
