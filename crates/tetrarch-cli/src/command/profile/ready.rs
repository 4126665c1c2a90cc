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
