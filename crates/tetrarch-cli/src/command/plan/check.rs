//! `plan check`: says everything that is wrong with plan files, before anything is started. No bus is needed, unless
//! the profiles of a project count too.

use std::path::{Path, PathBuf};

use serde_json::json;
use tetrarch_core::agent::Profile;
use tetrarch_core::id::{ProjectName, Tier};

use crate::command::run::{PROJECT, of_project, prepared};
use crate::options::quoted;
use crate::output;
use crate::{CliError, CliResult, Code, Context};

/// Arguments of `plan check`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanCheckArgs {
    /// Plan files: YAML, TOML or JSON; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Also use the profiles of this project, as `tetrarch run` does.
    #[arg(long, value_name = "NAME")]
    project: Option<ProjectName>,
}

/// `plan check`.
///
/// # Errors
/// Everything that is wrong with the files; the project's profiles cannot be read.
pub(super) async fn run(context: &Context, args: &PlanCheckArgs) -> CliResult {
    let known = match &args.project {
        Some(project) => Some(of_project(&context.client().await?, project).await?),
        None => None,
    };
    let mut wrong = Vec::new();
    for file in &args.files {
        let checked = checked(context, file, known.as_deref());
        let (said, error) = match &checked {
            Ok(said) => (said.as_str(), None),
            Err(error) => ("", Some(&error.what)),
        };
        if error.is_none() || output::is_for_programs(context.output) {
            let value = json!({"file": file, "valid": error.is_none(), "error": error});
            output::item(context.output, &value, said)?;
        }
        wrong.extend(checked.err());
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

/// `known`: the profiles of the project that was named.
fn checked(context: &Context, file: &Path, known: Option<&[Profile]>) -> CliResult<String> {
    let prepared = prepared(Some(file), None, None, &[])?;
    let unknown = prepared.examination().unknown_profiles(known.unwrap_or_default());
    let is_unknown = !unknown.is_empty();
    let problems = unknown.into_iter().chain(prepared.unfit_here(context)).collect::<Vec<_>>();
    let plan = &prepared.plan;
    prepared.refuse(&problems).map_err(|error| {
        if !is_unknown || known.is_some() {
            return error;
        }
        let project = plan.project.as_ref().map_or(PROJECT, ProjectName::as_str);
        let file = quoted(&file.to_string_lossy());
        error.hint(format!(
            "add it under `profiles:`, or use the profiles of the project with `tetrarch plan check {file} --project {project}`"
        ))
    })?;
    prepared.warn(&[]);
    let count = |tier| plan.nodes.iter().filter(|node| node.id.tier() == tier).count();
    let (phases, tasks) = (count(Tier::Phase), count(Tier::Task));
    let profiles = plan.profiles.len();
    let name = prepared.document.name();
    Ok(format!("{name}: valid: {phases} phases, {tasks} tasks, {profiles} profiles"))
}
