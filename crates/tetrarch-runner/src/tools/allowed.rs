//! What a brief's list of tools allows (spec 06, Isolation; spec 09, On the host): nothing that it
//! does not name. Decides on names and parsed arguments alone; touches no file.

use globset::{GlobBuilder, GlobMatcher};
use tetrarch_core::brief::{EVERY_TOOL, Tools};

use super::Tool;

/// What stands before a program in the list: `run:<program>`.
const RUN_PREFIX: &str = "run:";
/// Programs that take a program as text: allowed only by their name, since what they run is not
/// in the parsed arguments any more.
const SHELLS: [&str; 13] = [
    "ash", "bash", "busybox", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "sh", "tcsh",
    "zsh",
];

/// A list of tools that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the tool `{entry}` is not a valid program pattern: {cause}; correct it in the brief")]
pub(crate) struct BadEntry {
    entry: String,
    cause: globset::Error,
}

/// Why a program may not be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProgramRefused {
    /// There is none.
    #[error("argv is empty; name a program")]
    Nothing,
    /// The list does not name it.
    #[error("`{program}` is not allowed; allowed: {allowed}")]
    NotAllowed { program: String, allowed: String },
    /// It is a shell, and the list allows all programs but names no shell.
    #[error(
        "`{program}` is a shell and must be allowed by name (`run:{program}`); call the program directly"
    )]
    Shell { program: String },
}

/// What the tools of a run may do.
#[derive(Debug)]
pub(crate) struct Allowed {
    every: bool,
    tools: Vec<Tool>,
    programs: Vec<(String, GlobMatcher)>,
}

impl Allowed {
    /// Reads a brief's list. Entries that are no built-in tool are somebody else's and allow
    /// nothing here.
    pub(crate) fn of(list: &Tools) -> Result<Self, BadEntry> {
        let mut allowed = Self { every: false, tools: Vec::new(), programs: Vec::new() };
        for entry in list.names() {
            if entry == EVERY_TOOL {
                allowed.every = true;
            } else if let Some(program) = entry.strip_prefix(RUN_PREFIX) {
                let glob = GlobBuilder::new(program)
                    .literal_separator(true)
                    .build()
                    .map_err(|cause| BadEntry { entry: entry.to_owned(), cause })?;
                allowed.programs.push((program.to_owned(), glob.compile_matcher()));
            } else if let Some(tool) = Tool::ALL.into_iter().find(|tool| tool.as_str() == entry) {
                allowed.tools.push(tool);
            }
        }
        Ok(allowed)
    }

    /// Whether a tool may be called at all.
    pub(super) fn allows(&self, tool: Tool) -> bool {
        let by_program = tool == Tool::Run && !self.programs.is_empty();
        self.every || by_program || self.tools.contains(&tool)
    }

    /// Whether a program may be run, by the first of its parsed arguments as it was given: `git`
    /// allows what is found as `git` in `PATH`, not `./git`.
    pub(crate) fn program(&self, argv: &[String]) -> Result<(), ProgramRefused> {
        let program = argv.first().filter(|program| !program.is_empty());
        let program = program.ok_or(ProgramRefused::Nothing)?;
        if self.every || self.programs.iter().any(|(text, glob)| fits(text, glob, program)) {
            return Ok(());
        }
        if !self.tools.contains(&Tool::Run) {
            let (program, allowed) = (program.clone(), self.programs_in_words());
            return Err(ProgramRefused::NotAllowed { program, allowed });
        }
        if is_shell(program) {
            return Err(ProgramRefused::Shell { program: program.clone() });
        }
        Ok(())
    }

    /// Which programs may be run, for the tool's description.
    pub(crate) fn programs_in_words(&self) -> String {
        let named: Vec<&str> = self.programs.iter().map(|(text, _)| text.as_str()).collect();
        let named = named.join(", ");
        match (self.every, self.tools.contains(&Tool::Run), named.is_empty()) {
            (true, _, _) => "all programs".to_owned(),
            (false, true, true) => "all programs but shells".to_owned(),
            (false, true, false) => format!("all programs but shells, and {named}"),
            (false, false, true) => "none".to_owned(),
            (false, false, false) => named,
        }
    }
}

/// A shell has to be named: a pattern that happens to fit it does not allow it.
fn fits(text: &str, glob: &GlobMatcher, program: &str) -> bool {
    text == program || (!is_shell(program) && glob.is_match(program))
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    SHELLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(list: &[&str]) -> Allowed {
        Allowed::of(&list.iter().copied().collect()).unwrap()
    }

    #[test]
    fn unlisted_tool_is_refused() {
        for list in [&[][..], &["READ", "read_file", "sh", "network", "mcp:files"]] {
            let allowed = allowed(list);
            assert!(Tool::ALL.iter().all(|tool| !allowed.allows(*tool)), "{list:?}");
            assert!(allowed.program(&["ls".to_owned()]).is_err());
        }
        for tool in Tool::ALL {
            let allowed = allowed(&[tool.as_str()]);
            let all: Vec<Tool> = Tool::ALL.into_iter().filter(|one| allowed.allows(*one)).collect();
            assert_eq!(all, [tool]);
        }
        assert!(Tool::ALL.iter().all(|tool| allowed(&["*"]).allows(*tool)));
    }

    #[test]
    fn programs_are_matched_verbatim() {
        for (list, program, runs) in [
            (&["run"][..], "git", true),
            (&["run"], "./build", true),
            (&["run"], "sh", false),
            (&["run"], "/bin/bash", false),
            (&["run"], "../../bin/dash", false),
            (&["run", "run:sh"], "sh", true),
            (&["run", "run:sh"], "/bin/sh", false),
            (&["run", "run:*"], "sh", false),
            (&["run:git"], "git", true),
            (&["run:git"], "./git", false),
            (&["run:git"], "/usr/bin/git", false),
            (&["run:git"], "git-lfs", false),
            (&["run:git"], "Git", false),
            (&["run:git*"], "git-lfs", true),
            (&["run:git*"], "git/../sh", false),
            (&["run:*"], "zsh", false),
            (&["run:*"], "bin/x", false),
            (&["run:scripts/*"], "scripts/check", true),
            (&["run:scripts/*"], "scripts/deep/check", false),
            (&["run:scripts/*"], "scripts/bash", false),
            (&["run:/bin/sh"], "/bin/sh", true),
            (&["*"], "sh", true),
            (&["read", "write", "edit", "list", "search"], "ls", false),
            (&["run"], "", false),
        ] {
            let decided = allowed(list).program(&[program.to_owned(), "-x".to_owned()]);
            assert_eq!(decided.is_ok(), runs, "{list:?} and {program:?}: {decided:?}");
        }
        assert_eq!(allowed(&["run"]).program(&[]), Err(ProgramRefused::Nothing));
        assert!(Allowed::of(&["run:[".to_owned()].into_iter().collect()).is_err());
    }
}
