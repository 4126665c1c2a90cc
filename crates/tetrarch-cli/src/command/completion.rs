//! `completion`: the lines by which a shell completes this command line, with the names of what there is.
//! The shell calls the program again with [`VARIABLE`] set; what it then offers is looked up here.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};

use crate::name::{self, NameKind};
use crate::options::{GlobalArgs, OutputFormat};
use crate::{CliResult, Context};

/// The variable by which a shell says that it wants to complete.
const VARIABLE: &str = "TETRARCH_COMPLETE";
/// How long a shell waits for names: whoever types goes on typing.
const WITHIN: Duration = Duration::from_millis(800);
/// Names that are offered at most.
const OFFERED: usize = 200;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(tetrarch completion bash)                  # in ~/.bashrc
  source <(tetrarch completion zsh)                   # in ~/.zshrc
  tetrarch completion fish | source                   # in ~/.config/fish/config.fish

The script completes commands, options and names: goals, agents, runs, questions, changes. Names
come from the running fleet; without one, only commands and options are completed.")]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Supported shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
}

/// Prints the shell's lines.
///
/// # Errors
/// They cannot be written.
pub(crate) fn run(args: &CompletionArgs) -> CliResult {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let called = std::env::args().next().unwrap_or_default();
    // A program that is not found by its name is called by its path.
    let program = if called.contains('/') {
        std::env::current_exe()?.display().to_string()
    } else {
        "tetrarch".to_owned()
    };
    let mut lines = Vec::new();
    shell.write_registration(VARIABLE, "tetrarch", "tetrarch", &program, &mut lines)?;
    std::io::stdout().lock().write_all(&lines)?;
    Ok(())
}

/// Answers a shell that completes `command_line`, and ends; comes back when none asked.
pub(crate) fn answer(command_line: fn() -> clap::Command) {
    CompleteEnv::with_factory(|| name::completing(command_line(), live)).var(VARIABLE).complete();
}

/// The names of a kind that there are now, with what people know them by; none when no fleet answers.
fn live(kind: NameKind) -> Vec<(String, String)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let found = runtime.block_on(async {
        tokio::time::timeout(WITHIN, read(kind)).await.unwrap_or_else(|_| Ok(Vec::new()))
    });
    // A shell that completes has no place for an error: it offers nothing.
    let mut found = found.unwrap_or_default();
    found.truncate(OFFERED);
    found
}

async fn read(kind: NameKind) -> CliResult<Vec<(String, String)>> {
    let client = Context::load(&global(std::env::args_os()))?.client().await?;
    let mut all = name::candidates(&client.bus, &client.human, kind).await?;
    all.sort_by_key(|one| (!one.is_open, std::cmp::Reverse(one.made)));
    Ok(all.into_iter().map(|one| (one.id, crate::output::visible(&one.title))).collect())
}

/// Where the line that is completed says that its installation is.
fn global(line: impl Iterator<Item = OsString>) -> GlobalArgs {
    let words: Vec<String> = line.map(|word| word.to_string_lossy().into_owned()).collect();
    let option = |name: &str| {
        let given = words.windows(2).find(|pair| pair.first().is_some_and(|word| word == name));
        let joined = words.iter().find_map(|word| word.strip_prefix(&format!("{name}=")));
        given.and_then(|pair| pair.get(1).cloned()).or_else(|| joined.map(str::to_owned))
    };
    GlobalArgs {
        config: option("--config").map(PathBuf::from),
        data_dir: option("--data-dir").map(PathBuf::from),
        url: option("--url"),
        credentials: option("--credentials").map(PathBuf::from),
        tls_ca: option("--tls-ca").map(PathBuf::from),
        operator_key: option("--operator-key").map(PathBuf::from),
        human: option("--as"),
        output: OutputFormat::Table,
        log: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_reads_the_data_directory_from_the_line() {
        let line =
            ["tetrarch", "--", "tetrarch", "--data-dir", "d", "--as=ada", "goal", "show", ""];
        let global = global(line.map(OsString::from).into_iter());
        assert_eq!(global.data_dir, Some(PathBuf::from("d")));
        assert_eq!(global.human.as_deref(), Some("ada"));
        assert_eq!(global.url, None);
    }
}
