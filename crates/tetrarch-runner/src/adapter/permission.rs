//! Whether a coding agent may use one of its own tools: the brief's list says so (spec 06, Isolation). What it does
//! not name is refused in words that the model understands. Pure; asks nobody.

use std::path::{Component, Path, PathBuf};

use tetrarch_core::brief::{EVERY_TOOL, Tools};
use tetrarch_core::permission::{PermissionAction, PermissionRule};

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

impl Use {
    /// The calls that rules are about: each with its words, none where they cannot be read. `paths` are what it names,
    /// as it names them where it works, in `directory`.
    pub(super) fn calls(
        &self,
        directory: &str,
        paths: &[String],
    ) -> Vec<(&'static str, Option<Vec<String>>)> {
        let run = |words| ("run", words);
        let names = |entry, path: &String| (entry, Some(vec![named_path(directory, path)]));
        match self {
            Self::Own | Self::Unknown => Vec::new(),
            Self::Entry(entry) if PermissionRule::words_max(entry) == 1 && !paths.is_empty() => {
                paths.iter().map(|path| names(*entry, path)).collect()
            }
            Self::Entry(entry) => vec![(*entry, None)],
            Self::Shell(text) => match commands(text) {
                Some(commands) => commands.into_iter().map(|words| run(Some(words))).collect(),
                None => vec![run(None)],
            },
            Self::Reading(entry, text) => {
                let words = plain_words(text);
                let read = words.iter().flatten().skip(1).filter(|word| !word.starts_with('-'));
                let read: Vec<_> = read.map(|path| names(*entry, path)).collect();
                let unread = words.is_none().then_some((*entry, None));
                [run(words)].into_iter().chain(read).chain(unread).collect()
            }
        }
    }
}

/// A path that a program names, relative to the directory that it works in where it lies there. Touches no file, so a
/// link is what its name says.
fn named_path(directory: &str, path: &str) -> String {
    let mut whole = PathBuf::new();
    for part in Path::new(directory).join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => whole.push(part),
        }
    }
    let inside = whole.strip_prefix(directory).unwrap_or(&whole);
    inside.to_string_lossy().into_owned()
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
    /// A rule on its arguments denies it.
    #[error(
        "`{tool}` is denied by a rule of its profile: {rule}. Go on without it. What cannot be read is denied too: give \
         commands with plain arguments, without redirections, variables or patterns"
    )]
    ByRule { tool: String, rule: PermissionRule },
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
/// Longest text of what people are asked about, in bytes.
const ASKED_BYTES: usize = 4 * 1024;
/// What people may answer.
pub(crate) const ALLOW: &str = "allow";
pub(crate) const DENY: &str = "deny";

/// What people are asked of a use that a rule puts to them.
///
/// # Errors
/// The rule denies it, or nobody could see all of it.
pub(crate) fn asked(rule: &PermissionRule, tool: &str, input: &str) -> Result<String, ToolRefused> {
    denied(rule, tool)?;
    shown_whole(input)?;
    Ok(format!("May it use {tool}? {input}\n[rule: {rule}]"))
}

/// Whether a rule leaves a use to people.
///
/// # Errors
/// It denies it.
pub(super) fn denied(rule: &PermissionRule, tool: &str) -> Result<(), ToolRefused> {
    match rule.action {
        PermissionAction::Deny => {
            Err(ToolRefused::ByRule { tool: tool.to_owned(), rule: rule.clone() })
        }
        PermissionAction::Allow | PermissionAction::Ask => Ok(()),
    }
}

/// Nobody allows what was not shown whole.
pub(crate) fn shown_whole(input: &str) -> Result<(), ToolRefused> {
    if input.len() <= ASKED_BYTES {
        return Ok(());
    }
    let cause = format!("it is longer than the {ASKED_BYTES} bytes that people are asked about");
    Err(ToolRefused::NotAsked { cause })
}

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

/// The words of each of the commands that a text has a shell run, one after the other or side by side.
fn commands(text: &str) -> Option<Vec<Vec<String>>> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for letter in text.chars() {
        quoted ^= letter == '\'';
        match parts.last_mut() {
            Some(part) if quoted || !";|&\n".contains(letter) => part.push(letter),
            Some(_) | None => parts.push(String::new()),
        }
    }
    parts.iter().filter(|part| !part.trim().is_empty()).map(|part| plain_words(part)).collect()
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
    fn shell_text_is_read_as_its_commands_or_not_at_all() {
        for (text, expected) in [
            ("git push", Some(&["git push"][..])),
            ("cd a && git log | head -5; ls", Some(&["cd a", "git log", "head -5", "ls"])),
            ("git commit -m 'a; b && c'", Some(&["git commit -m a; b && c"])),
            ("a\nb &", Some(&["a", "b"])),
            ("git log > x", None),
            ("a && $(git push)", None),
            ("a; eval b", None),
            ("a 'open", None),
            ("", Some(&[])),
        ] {
            let read = commands(text);
            let read = read.map(|all| all.iter().map(|it| it.join(" ")).collect::<Vec<_>>());
            assert_eq!(
                read.as_deref(),
                expected
                    .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
                    .as_deref(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn path_is_named_relative_to_the_directory_of_work() {
        for (path, named) in [
            ("a/b", "a/b"),
            ("./a/../b", "b"),
            ("/w/a", "a"),
            ("/w", ""),
            (".", ""),
            ("../x/a", "/x/a"),
            ("/w/../etc/a", "/etc/a"),
            ("/wide/a", "/wide/a"),
        ] {
            assert_eq!(named_path("/w", path), named, "{path}");
        }
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
