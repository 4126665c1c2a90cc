//! Profiles that work as they are, for common kinds of work. Texts only: whoever prints them knows the workspace.

use std::path::Path;

use serde_json::json;

/// A kind of work that there is a profile for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ready {
    /// Lines of shell.
    Shell,
    /// Python, with python3.
    Python,
    /// Rust, with cargo.
    Rust,
    /// JavaScript, with node.
    Node,
    /// The coding agent claude.
    Claude,
    /// The coding agent codex.
    Codex,
    /// The coding agent gemini, by the Agent Client Protocol.
    Gemini,
    /// The coding agent opencode, by the Agent Client Protocol.
    Opencode,
}

impl Ready {
    /// The profile file, for work in this directory.
    pub(crate) fn file(self, workspace: &Path) -> String {
        let text = match self {
            Self::Shell => include_str!("shell.yaml"),
            Self::Python => include_str!("python.yaml"),
            Self::Rust => include_str!("rust.yaml"),
            Self::Node => include_str!("node.yaml"),
            Self::Claude => include_str!("claude.yaml"),
            Self::Codex => include_str!("codex.yaml"),
            Self::Gemini => include_str!("gemini.yaml"),
            Self::Opencode => include_str!("opencode.yaml"),
        };
        text.replace("{workspace}", &json!(workspace.to_string_lossy()).to_string())
    }

    /// Whether it is an agent that takes a goal in words.
    pub(super) fn is_agent(self) -> bool {
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::Opencode => true,
            Self::Shell | Self::Python | Self::Rust | Self::Node => false,
        }
    }

    /// What is missing for it to call its model, if no variable of this environment holds its key.
    pub(super) fn lacks_key(self, is_set: impl Fn(&str) -> bool) -> Option<String> {
        let (key, instead) = match self {
            Self::Claude => (
                "ANTHROPIC_API_KEY",
                "; for a subscription, run `claude setup-token`, set CLAUDE_CODE_OAUTH_TOKEN, and change keyFrom to \
                 passEnv in the file",
            ),
            Self::Codex | Self::Opencode => ("OPENAI_API_KEY", ""),
            Self::Gemini => ("GEMINI_API_KEY", ""),
            Self::Shell | Self::Python | Self::Rust | Self::Node => return None,
        };
        let needed = format!("the host needs the variable {key}, which is not set here{instead}");
        (!is_set(key)).then_some(needed)
    }

    /// The same as `profiles` of a plan file, with the profile's name before it.
    pub(crate) fn in_plan(self, workspace: &Path) -> String {
        let file = self.file(workspace);
        let name = |line: &str| line.strip_prefix("name: ").map(str::to_owned);
        let named = file.lines().find_map(name).unwrap_or_default();
        let lines = file.lines().filter(|line| name(line).is_none());
        let indented: String = lines.map(|line| format!("    {line}\n")).collect();
        format!("profiles:\n  {named}:\n{indented}")
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use tetrarch_core::plan::schema;

    use super::*;
    use crate::document::read_document;

    #[test]
    fn missing_key_is_named_when_it_is_not_set() {
        for ready in Ready::value_variants() {
            let file = ready.file(Path::new("/w"));
            let key = file.lines().find_map(|line| line.strip_prefix("keyFrom: env:"));
            let key = key.and_then(|rest| rest.split_whitespace().next());
            let told = ready.lacks_key(|_| false);
            assert_eq!(told.is_some(), key.is_some(), "{ready:?}");
            assert!(told.is_none_or(|told| told.contains(key.unwrap())), "{ready:?}");
            assert_eq!(ready.lacks_key(|_| true), None);
        }
    }

    #[test]
    fn ready_profile_is_valid_as_file_and_in_a_plan() {
        let workspace = Path::new("/home/a b/\"c\": d");
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = dir.path().join("text.yaml");
            std::fs::write(&path, text).unwrap();
            read_document(&path).unwrap().value
        };
        for ready in Ready::value_variants() {
            let file = read(&ready.file(workspace));
            let profile = schema::parse_profile(&file).unwrap();
            assert_eq!(profile.workspace, workspace.to_string_lossy());
            let plan = read(&ready.in_plan(workspace));
            let mut named = plan["profiles"][profile.name.as_str()].clone();
            named["name"] = json!(profile.name.as_str());
            assert_eq!(schema::parse_profile(&named), Ok(profile));
        }
    }
}
