//! Asking before something is lost: `--yes`, or a question on a terminal. Without either nothing is done.

use std::io::{self, IsTerminal, Write};

use crate::options::{INSTALLATION, quoted};
use crate::{CliError, CliResult, Code};

/// Confirmation.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Goes on only when the human is sure of what is to be done, such as `cancel goal_x`.
    ///
    /// # Errors
    /// They said no, or cannot be asked and did not say `--yes`.
    pub(crate) fn to(self, what: &str) -> CliResult {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(CliError::new(
                Code::Usage,
                format!("this would {what}; confirmation is required, but there is no terminal"),
            )
            .hint(format!("`{}` does it", agreed(std::env::args().skip(1)))));
        }
        let mut out = io::stderr().lock();
        write!(out, "{}? [y/N] ", capitalised(what)).and_then(|()| out.flush())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(CliError::new(Code::Failed, "cancelled: the answer was not yes"))
    }
}

/// The command line that was typed, with `--yes`. The options that say which installation is meant are left out:
/// they come behind every command that is proposed.
fn agreed(typed: impl Iterator<Item = String>) -> String {
    let mut typed = typed.peekable();
    let mut words = vec!["tetrarch".to_owned()];
    while let Some(word) = typed.next_if(|word| word != "--") {
        let (name, value) = word.split_once('=').map_or((&*word, None), |(n, v)| (n, Some(v)));
        if !INSTALLATION.contains(&name) {
            words.push(quoted(&word));
        } else if value.is_none() {
            typed.next();
        }
    }
    words.push("--yes".to_owned());
    words.extend(typed.map(|word| quoted(&word)));
    words.join(" ")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_command_is_suggested_again_with_yes() {
        for (typed, proposed) in [
            ("goal cancel @last", "tetrarch goal cancel @last --yes"),
            ("goal cancel g --reason 'not now'", "tetrarch goal cancel g --reason 'not now' --yes"),
            ("--data-dir d goal cancel g --url=n --as ada", "tetrarch goal cancel g --yes"),
            ("agent retire -o json -- a", "tetrarch agent retire -o json --yes -- a"),
        ] {
            assert_eq!(agreed(shlex::split(typed).unwrap().into_iter()), proposed);
        }
    }
}
