//! `tetrarch init`: writes a commented plan for the directory one is in, to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::options::OutputFormat;
use crate::output;
use crate::{CliError, CliResult, Code};

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch init
  tetrarch init release.yaml

The plan builds and tests the current directory (Makefile, Cargo, npm and Python are recognised),
reviews by exit code and ends with a report by a specialist. Comments explain every line.")]
pub(crate) struct InitArgs {
    /// The file to write; an existing file is not changed.
    #[arg(default_value = "plan.yaml")]
    file: PathBuf,
}

/// What is built here, by the file that says so: how it is built and how it is tested.
const TOOLS: [(&str, &str, &str); 5] = [
    ("Makefile", "make", "make test"),
    ("Cargo.toml", "cargo build", "cargo test"),
    ("package.json", "npm run build --if-present", "npm test"),
    ("pyproject.toml", "python3 -m compileall -q .", "python3 -m unittest discover"),
    ("setup.py", "python3 -m compileall -q .", "python3 -m unittest discover"),
];
/// What stands for building and testing where nothing is recognised.
const NOTHING: (&str, &str) = ("echo 'nothing to build'", "echo 'nothing to test'");
const TEMPLATE: &str = include_str!("init/plan.yaml");
/// What stands for the directory's name in the template, and for its commands.
const NAME: &str = "@name@";
const BUILD: &str = "@build@";
const TEST: &str = "@test@";

/// Runs the command.
///
/// # Errors
/// The file is there, or cannot be written.
pub(super) fn run(output: OutputFormat, args: &InitArgs) -> CliResult {
    let here = std::env::current_dir()?;
    let name = here.file_name().map(|name| name.to_string_lossy().into_owned());
    let (build, test) = commands(&here);
    let text = plan(&name.unwrap_or_default(), build, test);
    let file = args.file.display();
    let written = OpenOptions::new().write(true).create_new(true).open(&args.file);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let what = format!("{file} already exists and was not changed");
            return CliError::new(Code::Conflict, what)
                .hint("name another file, as in `tetrarch init release.yaml`");
        }
        CliError::new(Code::Failed, format!("cannot write {file}: {error}"))
            .hint("change to a writable directory, or name another file")
    })?;
    let said = format!(
        "wrote {file}\n  next: edit it, then `tetrarch plan check {file}`, `tetrarch run {file}`"
    );
    output::item(output, &json!({"file": args.file}), &said).map(drop)
}

/// How what is in a directory is built and tested.
fn commands(here: &Path) -> (&'static str, &'static str) {
    let found = TOOLS.iter().find(|(file, _, _)| here.join(file).is_file());
    found.map_or(NOTHING, |(_, build, test)| (build, test))
}

/// The plan for a directory of this name.
fn plan(name: &str, build: &str, test: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).take(64).collect();
    let plain = plain.trim_start_matches(['-', '_']);
    let plain = if plain.is_empty() { "main" } else { plain };
    TEMPLATE.replace(NAME, plain).replace(BUILD, build).replace(TEST, test)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tetrarch_core::plan::schema;

    use super::*;

    #[test]
    fn generated_plan_is_valid_for_any_directory() {
        let kinds = TOOLS.iter().map(|(_, build, test)| (*build, *test)).chain([NOTHING]);
        for (build, test) in kinds {
            for name in ["site", "my site", "", "...", "--x", &"long".repeat(40)] {
                let text = plan(name, build, test);
                let document: Value = serde_saphyr::from_str(&text).unwrap();
                let read = schema::parse(&document);
                assert!(read.is_ok(), "{name:?} {build}: {:?}", read.err());
                assert!(
                    text.contains(build) && text.contains(test) && !text.contains('@'),
                    "{text}"
                );
            }
        }
    }
}
