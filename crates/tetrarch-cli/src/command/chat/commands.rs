//! The commands of a chat. What the command line does too is done by the command line: here it is said in its words.

use std::fmt::Write as _;

use tetrarch_core::id::{EpicId, HumanName};

use crate::{CliError, CliResult, Code};

/// Each with what follows it and what it does.
const COMMANDS: [(&str, &str, &str); 7] = [
    ("/help", "", "List the commands"),
    ("/status", "", "Show your turns that have not ended"),
    (
        "/mode",
        "[MODE]",
        "Show or set how far the conversation's agents delegate: solo, tight or orchestrator",
    ),
    ("/steer", "AGENT TEXT", "Send an agent, or the agent of a node, an instruction"),
    ("/stop", "[AGENT|TURN]", "Cancel the open turn or one that waits, or stop an agent"),
    ("/tree", "", "Show your conversations and the agents that work for them"),
    ("/quit", "", "End the chat; the conversation and its work go on"),
];

/// A command of a chat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatCommand<'l> {
    /// List them.
    Help,
    /// Show what is under way.
    Status,
    /// Show the mode of the conversation, or set it.
    Mode(Option<&'l str>),
    /// Send an agent an instruction.
    Steer(&'l str, &'l str),
    /// Stop the work of the turn that is open, or an agent.
    Stop(Option<&'l str>),
    /// Show the person's agents.
    Tree,
    /// End the chat.
    Quit,
}

impl<'l> ChatCommand<'l> {
    /// Whether a line is meant as one.
    pub(super) fn is_meant(line: &str) -> bool {
        line.starts_with('/')
    }

    /// Reads a line that is meant as one.
    ///
    /// # Errors
    /// There is none of that name, or it is followed by too little or too much.
    pub(super) fn read(line: &'l str) -> CliResult<Self> {
        let (name, rest) = split(line);
        let wanted = |what: &str| {
            Err(CliError::new(Code::Usage, format!("{name} {what}")).hint(usage(name)))
        };
        let (first, more) = split(rest);
        let alone =
            |command| if rest.is_empty() { Ok(command) } else { wanted("takes nothing more") };
        let one = (!first.is_empty()).then_some(first);
        match name {
            "/help" => alone(Self::Help),
            "/status" => alone(Self::Status),
            "/tree" => alone(Self::Tree),
            "/quit" => alone(Self::Quit),
            "/mode" | "/stop" if !more.is_empty() => wanted("takes one word at most"),
            "/mode" => Ok(Self::Mode(one)),
            "/stop" => Ok(Self::Stop(one)),
            "/steer" if more.is_empty() => wanted("takes an agent and a text"),
            "/steer" => Ok(Self::Steer(first, more)),
            _ => {
                let names: Vec<&str> = COMMANDS.iter().map(|(name, _, _)| *name).collect();
                let what = format!("unknown command {name}; commands: {}", names.join(", "));
                Err(CliError::new(Code::Usage, what).hint("/help says what each does"))
            }
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim())
}

fn usage(name: &str) -> String {
    let form = COMMANDS.iter().find(|(known, _, _)| *known == name);
    form.map_or_else(String::new, |(name, form, _)| {
        format!("type {name} {form}").trim_end().to_owned()
    })
}

/// What there is, a line each.
pub(super) fn help() -> String {
    COMMANDS.iter().fold(String::new(), |mut help, (name, form, about)| {
        // Writing to a text cannot fail.
        let _written = writeln!(help, "{:<18} {about}", format!("{name} {form}"));
        help
    }) + "Every other line is a turn."
}

/// Steers an agent; a chat does not wait until its program has taken it in.
pub(super) fn steer(agent: &str, text: &str) -> Vec<String> {
    words(&["steer", "--wait", "delivered", "--", agent, text])
}

/// Cancels what is worked on for a turn.
pub(super) fn cancel(epic: EpicId) -> Vec<String> {
    words(&["goal", "cancel", "--yes", "--reason", "stopped in the chat", &epic.to_string()])
}

/// Stops an agent.
pub(super) fn stop(agent: &str) -> Vec<String> {
    words(&["stop", "--reason", "stopped in the chat", "--", agent])
}

/// Shows a person's agents.
pub(super) fn tree(human: &HumanName) -> Vec<String> {
    words(&["tree", "--human", human.as_str()])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::Ulid;

    use super::*;
    use crate::args::command_line;

    #[test]
    fn commands_are_read_with_what_follows_them() {
        for (line, read) in [
            ("/help", ChatCommand::Help),
            ("/mode", ChatCommand::Mode(None)),
            ("/mode  tight", ChatCommand::Mode(Some("tight"))),
            ("/steer T1.2 go  left - now", ChatCommand::Steer("T1.2", "go  left - now")),
            ("/stop", ChatCommand::Stop(None)),
            ("/stop W:1", ChatCommand::Stop(Some("W:1"))),
            ("/tree", ChatCommand::Tree),
            ("/quit", ChatCommand::Quit),
        ] {
            assert_eq!(ChatCommand::read(line).unwrap(), read, "{line}");
        }
    }

    #[test]
    fn wrong_command_says_what_there_is_or_how_it_is_typed() {
        let unknown = ChatCommand::read("/stee T1.2 x").unwrap_err();
        assert!(unknown.what.contains("unknown command /stee") && unknown.what.contains("/steer"));
        for (line, form) in [
            ("/steer", "type /steer AGENT TEXT"),
            ("/steer T1.2", "type /steer AGENT TEXT"),
            ("/mode tight now", "type /mode [MODE]"),
            ("/quit now", "type /quit"),
        ] {
            let wrong = ChatCommand::read(line).unwrap_err();
            assert_eq!(wrong.hint.as_deref(), Some(form), "{line}");
        }
    }

    #[test]
    fn every_command_is_listed_and_read() {
        for (name, form, about) in COMMANDS {
            assert!(help().contains(about), "{name}");
            assert!(ChatCommand::read(format!("{name} {form}").trim()).is_ok(), "{name}");
        }
    }

    #[test]
    fn words_of_a_command_are_a_line_of_the_command_line() {
        let epic = EpicId(Ulid::from_parts(1, 2));
        let human = HumanName::new("ada").unwrap();
        let lines = [
            steer("W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "-- go left"),
            cancel(epic),
            stop("PO-desk"),
            tree(&human),
        ];
        for line in lines {
            let typed = std::iter::once("tetrarch".to_owned()).chain(line.clone());
            let read = command_line().try_get_matches_from(typed);
            assert!(read.is_ok(), "{line:?}: {read:?}");
        }
    }
}
