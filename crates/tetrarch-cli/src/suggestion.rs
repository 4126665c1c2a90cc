//! What is meant by words that are no commands here: those of other tools, and of the noun that a verb
//! needs. A word that looks alike is not enough: `cancel` is no `change`.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::command_line;
use crate::output::say;
use crate::{CliError, Code};

/// What people type, below which command (none: the program itself), and the commands that they mean.
const MEANT: [(&str, &[&str], &[&str]); 29] = [
    ("", &["cancel"], &["tetrarch goal cancel GOAL", "tetrarch stop AGENT"]),
    (
        "",
        &["ps", "ls", "list", "agents"],
        &["tetrarch tree", "tetrarch agent list", "tetrarch goal list"],
    ),
    ("", &["goals"], &["tetrarch goal list"]),
    ("", &["runs"], &["tetrarch get runs"]),
    ("", &["nodes", "tasks", "task"], &["tetrarch work list GOAL"]),
    ("", &["hosts", "node"], &["tetrarch host list"]),
    (
        "",
        &["cordon", "drain", "uncordon"],
        &["tetrarch host drain HOST", "tetrarch host drain HOST --undo"],
    ),
    ("host", &["remove", "rm", "delete", "leave"], &["tetrarch host forget HOST"]),
    ("", &["projects"], &["tetrarch project list"]),
    ("", &["profiles"], &["tetrarch profile list"]),
    (
        "",
        &["artifacts", "files", "download"],
        &["tetrarch artifact list", "tetrarch artifact get DIGEST"],
    ),
    ("", &["kill", "terminate", "end"], &["tetrarch stop AGENT", "tetrarch goal cancel GOAL"]),
    (
        "",
        &["rm", "delete", "remove"],
        &[
            "tetrarch goal archive GOAL",
            "tetrarch agent retire AGENT",
            "tetrarch worktree remove RUN",
        ],
    ),
    ("", &["start", "daemon", "server", "serve-all"], &["tetrarch up", "tetrarch run PLAN"]),
    ("", &["exec", "submit"], &["tetrarch run PLAN", "tetrarch goal create PLAN"]),
    ("", &["shutdown", "quit", "halt"], &["tetrarch down"]),
    ("", &["restart", "replace"], &["tetrarch agent replace AGENT"]),
    ("", &["log", "journal"], &["tetrarch logs AGENT", "tetrarch events"]),
    ("", &["show", "inspect", "info"], &["tetrarch describe THING", "tetrarch plan show GOAL"]),
    ("", &["follow", "watch"], &["tetrarch attach GOAL", "tetrarch get agents --watch"]),
    ("", &["top", "stats", "usage", "cost"], &["tetrarch status", "tetrarch budget --live"]),
    ("", &["questions", "approvals", "pending"], &["tetrarch inbox"]),
    ("", &["reject"], &["tetrarch deny CHANGE", "tetrarch plan reject DRAFT"]),
    ("", &["merge"], &["tetrarch apply CHANGE"]),
    ("", &["history"], &["tetrarch events", "tetrarch plan history GOAL"]),
    ("", &["check", "validate", "lint"], &["tetrarch doctor"]),
    ("", &["version"], &["tetrarch --version"]),
    (
        "goal",
        &["stop", "delete", "remove", "rm", "abort"],
        &["tetrarch goal cancel GOAL", "tetrarch goal archive GOAL"],
    ),
    (
        "agent",
        &["stop", "kill", "delete", "remove", "rm"],
        &["tetrarch stop AGENT", "tetrarch agent retire AGENT"],
    ),
];

/// What is meant by a word below a command.
fn meant(below: &str, word: &str) -> &'static [&'static str] {
    let word = word.to_ascii_lowercase();
    let row = MEANT.iter().find(|(at, words, _)| *at == below && words.contains(&word.as_str()));
    row.map_or(&[], |(_, _, commands)| commands)
}

/// Ends the program with a line's error, or with the help that it asked for.
pub(crate) fn exit(error: &clap::Error, command: &Command) -> ! {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        let below = below(command, word);
        if let [first, rest @ ..] = meant(&below, word) {
            let or: String = rest.iter().map(|command| format!(" or `{command}`")).collect();
            let at = format!("tetrarch {below}");
            let what = format!("unknown command `{} {word}`", at.trim_end());
            report(&CliError::new(Code::Usage, what).hint(format!("use `{first}`{or}")));
            std::process::exit(Code::Usage as i32);
        }
    }
    let help_alone = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help_alone || !error.use_stderr() {
        error.exit();
    }
    report(&wrong(error).hint(help()));
    std::process::exit(Code::Usage as i32);
}

/// The error of a line that is wrong.
pub(crate) fn wrong(error: &clap::Error) -> CliError {
    CliError::usage(said(&error.render().to_string()))
}

/// What clap says of a line, without what is said anyway and in words of our own.
fn said(rendered: &str) -> String {
    let what = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let what = what.replace("For more information, try '--help'.", "");
    let what = what.replace("invalid digit found in string", "expected a whole number");
    let kept: Vec<&str> = what.lines().filter(|line| !line.trim().is_empty()).collect();
    kept.join("\n")
}

/// Prints an error the way every command does.
pub(crate) fn report(error: &CliError) {
    say(&format!("error: {}", error.what));
    match &error.hint {
        Some(hint) => say(&format!("  next: {hint}")),
        None if error.code != Code::Usage || error.what.contains("`tetrarch ") => {}
        // The help of a command says how it is typed, and nothing about a goal or an agent that refuses it.
        None => say(&format!("  next: {}", help())),
    }
}

/// Where the line that was typed is explained, as what to do next.
fn help() -> String {
    let mut command = command_line();
    let mut path = String::new();
    for typed in std::env::args().skip(1) {
        if let Some(found) = command.find_subcommand(&typed) {
            path = format!("{path} {}", found.get_name());
            command = found.clone();
        }
    }
    format!("run `tetrarch{path} --help` for usage")
}

/// The command below which a word was typed.
fn below(command: &Command, word: &str) -> String {
    let typed = std::env::args().skip(1).take_while(|typed| typed != word);
    let mut at = command;
    let mut path = Vec::new();
    for typed in typed {
        if let Some(found) = at.find_subcommand(&typed) {
            at = found;
            path.push(found.get_name().to_owned());
        }
    }
    path.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_suggestion_key_is_itself_a_command() {
        let command = command_line();
        for (at, words, _) in MEANT {
            let below = if at.is_empty() { Some(&command) } else { command.find_subcommand(at) };
            for word in words {
                assert!(below.unwrap().find_subcommand(word).is_none(), "{at} {word}");
            }
        }
    }

    #[test]
    fn every_suggested_command_exists() {
        let command = command_line();
        for line in MEANT.iter().flat_map(|(_, _, commands)| *commands) {
            let words =
                line.split(' ').skip(1).take_while(|word| word.chars().all(char::is_lowercase));
            let mut at = &command;
            for word in words {
                let found = at.find_subcommand(word);
                // `get agents`: what is to be listed is no command of its own.
                let Some(found) = found else { break };
                at = found;
            }
            assert!(!std::ptr::eq(at, &command) || line.contains("--version"), "{line}");
        }
    }

    #[test]
    fn cancel_is_not_suggested_as_change() {
        assert_eq!(meant("", "cancel").first(), Some(&"tetrarch goal cancel GOAL"));
        assert_eq!(meant("", "CANCEL").first(), Some(&"tetrarch goal cancel GOAL"));
        assert!(meant("goal", "cancel").is_empty() && meant("", "chnage").is_empty());
    }

    #[test]
    fn version_of_a_plan_is_not_answered_with_the_programs_own() {
        let line = ["tetrarch", "plan", "show", "goal", "--version", "2"];
        let error = command_line().try_get_matches_from(line).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{error}");
    }

    #[test]
    fn usage_error_is_printed_once_in_our_own_words() {
        let line = ["tetrarch", "host", "--capacity", "many"];
        let error = command_line().try_get_matches_from(line).unwrap_err();
        let said = said(&error.render().to_string());
        assert!(said.ends_with("'--capacity <CAPACITY>': expected a whole number"), "{said}");
    }
}
