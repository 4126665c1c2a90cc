//! Whether a coding agent may use one of its own tools: the brief's list says so (spec 06, Isolation). What it does
//! not name is refused in words that the model understands. Pure; asks nobody.

use tetrarch_core::brief::{EVERY_TOOL, Tools};

use crate::tools::{Allowed, BadEntry, ProgramRefused};

/// What a tool of a program does, in the words of our lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Use {
    /// One entry of the list allows it.
    Entry(&'static str),
    /// It runs this text as a command of a shell.
    Shell(String),
    /// The same, and the command does no more than this entry allows.
    Reading(&'static str, String),
    /// It gives the run's own result, or is a tool of the fleet, of which only those that are allowed are offered.
    Own,
    /// Nobody here knows what it does.
    Unknown,
}

/// Why a tool may not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolRefused {
    /// The list does not name what it does.
    #[error(
        "`{tool}` is not allowed by the tools of this brief; allowed: {allowed}. Go on without it"
    )]
    NotListed { tool: String, allowed: String },
    /// The list names programs, and this is more than one program with its arguments.
    #[error(
        "only these programs may be run: {allowed}; give one program with plain arguments: no pipes, redirections, \
         variables or patterns"
    )]
    NotOneProgram { allowed: String },
    /// The list names other programs.
    #[error(transparent)]
    Program(#[from] ProgramRefused),
    /// People said no.
    #[error("a person refused it: {words}")]
    ByPeople { words: String },
    /// People could not be asked.
    #[error("it is not allowed, and nobody could be asked: {cause}")]
    NotAsked { cause: String },
    /// The list cannot be read.
    #[error(transparent)]
    List(#[from] BadEntry),
}

/// The entry with which people are asked for what the list does not allow.
pub(crate) const ASKS: &str = "ask_human";
/// What people may answer.
pub(crate) const ALLOW: &str = "allow";
pub(crate) const DENY: &str = "deny";

/// What people decided on one use of a tool: anything but `allow` denies it, in their words.
///
/// # Errors
/// Why it may not be used, for the model.
pub(crate) fn decided(answer: Result<String, String>) -> Result<(), ToolRefused> {
    match answer {
        Ok(words) if words.trim().eq_ignore_ascii_case(ALLOW) => Ok(()),
        Ok(words) => Err(ToolRefused::ByPeople { words }),
        Err(cause) => Err(ToolRefused::NotAsked { cause }),
    }
}

/// Decides whether `tool`, which does `what`, may be used.
///
/// # Errors
/// Why not, for the model.
pub(crate) fn permit(tools: &Tools, tool: &str, what: &Use) -> Result<(), ToolRefused> {
    let every = tools.names().any(|name| name == EVERY_TOOL);
    let has = |entry: &str| every || tools.names().any(|name| name == entry);
    match what {
        Use::Own => Ok(()),
        Use::Entry(entry) | Use::Reading(entry, _) if has(entry) => Ok(()),
        // A shell does not do more than all programs may.
        Use::Shell(_) | Use::Reading(..) if has("run") => Ok(()),
        Use::Shell(text) | Use::Reading(_, text) => shell(tools, tool, text),
        Use::Entry(_) | Use::Unknown => Err(not_listed(tools, tool)),
    }
}

/// Whether the list, or people, may allow some use of this entry.
pub(crate) fn may_ever(tools: &Tools, entry: &str) -> bool {
    tools.names().any(|name| {
        let some = entry == "run" && name.starts_with("run:");
        name == EVERY_TOOL || name == entry || name == ASKS || some
    })
}

/// A command where the list names programs: allowed as what it is without a shell.
fn shell(tools: &Tools, tool: &str, text: &str) -> Result<(), ToolRefused> {
    if !tools.names().any(|name| name.starts_with("run:")) {
        return Err(not_listed(tools, tool));
    }
    let allowed = Allowed::of(tools)?;
    let Some(argv) = plain_words(text) else {
        return Err(ToolRefused::NotOneProgram { allowed: allowed.programs_in_words() });
    };
    Ok(allowed.program(&argv)?)
}

fn not_listed(tools: &Tools, tool: &str) -> ToolRefused {
    let names: Vec<&str> = tools.names().collect();
    let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    ToolRefused::NotListed { tool: tool.to_owned(), allowed }
}

/// The words of a command that means the same to a shell as to no shell: words of harmless characters, or within
/// single quotes. Builtins that run another text are no programs.
pub(crate) fn plain_words(text: &str) -> Option<Vec<String>> {
    const BUILTINS: [&str; 7] = [".", "source", "eval", "exec", "command", "builtin", "trap"];
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for letter in text.trim().chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\n' | '\r' => return None,
            _ if quoted => word.get_or_insert_default().push(letter),
            ' ' | '\t' => words.extend(word.take()),
            _ if letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter) => {
                word.get_or_insert_default().push(letter);
            }
            _ => return None,
        }
    }
    words.extend(word);
    let program: &String = words.first()?;
    let is_program = !quoted && !program.contains('=') && !BUILTINS.contains(&program.as_str());
    is_program.then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(list: &[&str], what: &Use) -> bool {
        permit(&list.iter().copied().collect(), "T", what).is_ok()
    }

    #[test]
    fn tool_is_allowed_by_its_entry_or_by_every_tool() {
        for (list, what, allowed) in [
            (&["read"][..], Use::Entry("read"), true),
            (&["*"], Use::Entry("read"), true),
            (&[], Use::Entry("read"), false),
            (&["write"], Use::Entry("read"), false),
            (&["network:a.example:443"], Use::Entry("network"), false),
            (&[], Use::Own, true),
            (&["read", "run"], Use::Unknown, false),
            (&["*"], Use::Unknown, false),
            (&["read"], Use::Reading("read", "cat a".to_owned()), true),
            (&["run:cat"], Use::Reading("read", "cat a".to_owned()), true),
            (&["run"], Use::Reading("read", "cat a".to_owned()), true),
            (&["list", "run:git"], Use::Reading("read", "cat a".to_owned()), false),
        ] {
            assert_eq!(may(list, &what), allowed, "{list:?} {what:?}");
        }
        let refused = permit(&Tools::default(), "Bash", &Use::Shell("ls".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("allowed: nothing"), "{refused}");
    }

    #[test]
    fn only_the_word_of_people_allows() {
        for (answer, allowed) in
            [("allow", true), (" Allow\n", true), ("deny", false), ("", false), ("allow it", false)]
        {
            assert_eq!(decided(Ok(answer.to_owned())).is_ok(), allowed, "{answer:?}");
        }
        let refused = decided(Err("20 questions are open".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("20 questions"), "{refused}");
    }

    #[test]
    fn shell_command_is_allowed_as_a_whole_or_as_one_listed_program() {
        for (list, text, allowed) in [
            (&["run"][..], "ls | wc -l > x", true),
            (&["*"], "ls | wc -l > x", true),
            (&["run:git"], "git status", true),
            (&["run:git"], "  git commit -m 'two words; rm'", true),
            (&["run:git"], "git status; rm -rf x", false),
            (&["run:git"], "git status\nrm x", false),
            (&["run:git"], "git log $(rm x)", false),
            (&["run:git"], "git log `rm x`", false),
            (&["run:git"], "git log > x", false),
            (&["run:git"], "git log \"a\"", false),
            (&["run:git"], "git log 'open", false),
            (&["run:git"], "A=1 git log", false),
            (&["run:git"], "git log *", false),
            (&["run:git"], "git log ~", false),
            (&["run:git"], "cargo test", false),
            (&["run:*"], "eval ls", false),
            (&["run:*"], "sh x", false),
            (&["run:*"], "ls x", true),
            (&["run:git"], "", false),
            (&["run:["], "git status", false),
            (&["read"], "git status", false),
        ] {
            assert_eq!(may(list, &Use::Shell(text.to_owned())), allowed, "{list:?} {text:?}");
        }
    }
}
