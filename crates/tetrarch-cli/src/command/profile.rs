//! `profile`: applies profile files to a project: how agents of a kind are executed (spec 12).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetrarch_core::agent::Profile;
use tetrarch_core::id::ProjectName;
use tetrarch_core::plan::schema;
use tetrarch_core::request::Op;

use crate::command::project::reply_json;
use crate::context::Context;
use crate::document::read_document;
use crate::exit::{CliError, Code};
use crate::output;

/// What `profile` can do.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch profile apply demo coder.toml reviewer.yaml

A profile file (YAML, TOML or JSON):
  name = \"coder\"
  runner = \"process\"
  argv = [\"my-agent\", \"--stdio\"]
  passEnv = [\"MY_API_KEY\"]
  wall = \"30m\"

The profile `default` is what a bare task uses. A project with a profile `orchestrator` has its goals planned and
its results reviewed with that profile's model (docs/planner.md).")]
pub(crate) enum ProfileCommand {
    /// Set profiles of a project, one from each file.
    Apply {
        /// The project.
        project: ProjectName,
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Runs the command. Nothing is applied unless every file is right.
///
/// # Errors
/// A file is wrong; the owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: ProfileCommand) -> Result<(), CliError> {
    let ProfileCommand::Apply { project, files } = command;
    let profiles: Result<Vec<Profile>, CliError> =
        files.iter().map(|file| read_profile(file)).collect();
    let profiles = profiles?;
    let desk = context.desk().await?;
    let mut replies = Vec::new();
    for profile in profiles {
        let name = profile.name.clone();
        let profile = Box::new(profile);
        let op = Op::ProfileApply { project: project.clone(), profile };
        let reply = desk.operate(&op).await?;
        let mut value = reply_json(&reply);
        value["profile"] = json!(name.as_str());
        replies.push((name, value));
    }
    let values = Value::Array(replies.iter().map(|(_, value)| value.clone()).collect());
    output::record(context.output, &values, || {
        replies.iter().map(|(name, _)| format!("profile {name} applied to {project}\n")).collect()
    })?;
    Ok(())
}

/// Reads a profile from its file.
fn read_profile(file: &Path) -> Result<Profile, CliError> {
    let document = read_document(file)?;
    schema::parse_profile(&document).map_err(|problems| {
        let each: Vec<String> =
            problems.iter().map(|problem| format!("{}: {problem}", file.display())).collect();
        CliError::new(Code::Usage, each.join("\n  "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Profile, CliError> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("coder.toml");
        std::fs::write(&path, text)?;
        read_profile(&path)
    }

    #[test]
    fn a_profile_is_read_from_its_file() {
        let text = "name = 'coder'\nargv = ['agent', '--stdio']\nwall = '30m'\n[env]\nA = 'b'\n";
        let profile = written(text).unwrap();
        assert_eq!(profile.name.as_str(), "coder");
        assert_eq!(profile.argv, ["agent", "--stdio"]);
        assert_eq!(profile.env, [("A".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn what_is_wrong_is_said_with_file_place_and_what_is_allowed() {
        let error = written("name = 'coder'\nrunner = 'docker'\nargs = []\n").unwrap_err();
        assert_eq!(error.code, Code::Usage);
        for part in ["coder.toml: runner: ", "allowed: process, echo, llm", "args"] {
            assert!(error.what.contains(part), "{part}: {}", error.what);
        }
        let nameless = written("runner = 'echo'\n").unwrap_err();
        assert!(nameless.what.contains("name"), "{}", nameless.what);
    }
}
