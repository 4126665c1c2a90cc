//! `plan check`: says everything that is wrong with plan files, before anything is started. No bus is needed.

use std::path::{Path, PathBuf};

use tetrarch_core::agent::Profile;
use tetrarch_core::brief::RunnerKind;
use tetrarch_core::id::Tier;

use crate::command::run::prepared;
use crate::exit::{CliError, Code};
use crate::output;

/// What `plan check` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Plan files: YAML, TOML or JSON; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// `plan check`.
///
/// # Errors
/// Everything that is wrong with the files.
pub(super) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let mut wrong = Vec::new();
    for file in &args.files {
        match checked(file) {
            Ok(said) => output::text(&said).map(drop)?,
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let hint = wrong.iter().find_map(|error| error.hint.clone());
    let what: Vec<String> = wrong.into_iter().map(|error| error.what).collect();
    let error = CliError::new(Code::Usage, what.join("\n"));
    Err(match hint {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

fn checked(file: &Path) -> Result<String, CliError> {
    let plan = prepared(Some(file), None, None, &[])?.plan;
    let name = file.display();
    let missing: Vec<String> = plan.profiles.iter().filter_map(missing_command).collect();
    if !missing.is_empty() {
        let what = format!("{name} is no valid plan:\n{}", missing.join("\n"));
        return Err(CliError::new(Code::Usage, what).hint("install it, or correct `argv` or `run`"));
    }
    let count = |tier| plan.nodes.iter().filter(|node| node.id.tier() == tier).count();
    let (phases, tasks) = (count(Tier::Phase), count(Tier::Task));
    let profiles = plan.profiles.len();
    let mut said = format!("{name}: valid: {phases} phases, {tasks} tasks, {profiles} profiles");
    let missing = plan.check_profiles(&[]).err();
    for needed in missing.iter().flat_map(|missing| missing.needed.keys()) {
        said.push_str(&format!(
            "\n{name}: warning: the plan has no profile {needed}; its project has to have one"
        ));
    }
    Ok(said)
}

/// A profile's program that is not on this machine.
fn missing_command(profile: &Profile) -> Option<String> {
    let program = profile.argv.first().filter(|_| profile.kind == RunnerKind::Process)?;
    // One that is filled in later, or relative to where it works, is looked for when it runs.
    let known = !program.contains('{') && (!program.contains('/') || program.starts_with('/'));
    (known && which::which(program).is_err()).then(|| {
        format!("profile {}: {program:?} was not found on this machine", profile.name.as_str())
    })
}
