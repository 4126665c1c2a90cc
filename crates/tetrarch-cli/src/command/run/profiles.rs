//! The profiles of work that is given: those of `--profiles` join the plan's own, and work that no profile can do
//! is refused before a project is made for it (docs/decisions/0060). The rule is `core::plan::profiles`.

use std::path::Path;

use serde_json::{Map, Value};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::Profile;
use tetrarch_core::id::{AgentId, ProjectName};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::plan::schema::PlanFile;
use tetrarch_core::request::Op;

use crate::document::{Document, read_document};
use crate::{CliError, CliResult, Code, HumanClient, StateSnapshot};

/// The profiles of a file.
pub(super) struct ImportedProfiles {
    /// Their names and what they say.
    pub(super) profiles: Map<String, Value>,
    /// What they were read from.
    pub(super) document: Document,
    form: ProfileLayout,
}

/// How a file says them.
#[derive(Clone, Copy)]
enum ProfileLayout {
    /// A mapping from names, under `profiles:`.
    Under,
    /// Such a mapping by itself.
    Mapping,
    /// One, with its `name`.
    Alone,
}

impl ImportedProfiles {
    /// Where one of them stands in its document.
    pub(super) fn path(&self, name: &str) -> String {
        match self.form {
            ProfileLayout::Under => format!("profiles.{name}"),
            ProfileLayout::Mapping => name.to_owned(),
            ProfileLayout::Alone => String::new(),
        }
    }
}

/// Reads the profiles of a file: a mapping from names to profiles, by itself or under `profiles:`, or one profile
/// with its `name`.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(super) fn read(path: &Path) -> CliResult<ImportedProfiles> {
    let wrong = || {
        let what = format!("{}: expected a mapping from names to profiles", path.display());
        CliError::new(Code::Usage, what).hint("write it as in `default: {argv: [my-agent]}`")
    };
    let mut document = read_document(path)?;
    let Value::Object(mut said) = document.value.take() else { return Err(wrong()) };
    let (profiles, form) = match (said.remove("profiles"), said.get("name")) {
        (Some(Value::Object(profiles)), _) => (profiles, ProfileLayout::Under),
        (Some(_), _) => return Err(wrong()),
        (None, Some(Value::String(name))) => {
            let name = name.clone();
            said.remove("name");
            (Map::from_iter([(name, Value::Object(said))]), ProfileLayout::Alone)
        }
        (None, _) if has_value(&said, &["title", "phases"]) => {
            let what = format!("{} has no profiles", path.display());
            return Err(CliError::new(Code::Usage, what).hint("add them under `profiles:`"));
        }
        (None, _) if has_value(&said, &["argv", "runner"]) => {
            let what = format!("{}: the profile has no `name`", path.display());
            return Err(CliError::new(Code::Usage, what).hint("add one, as in `name: default`"));
        }
        (None, _) => (said, ProfileLayout::Mapping),
    };
    Ok(ImportedProfiles { profiles, document, form })
}

/// Whether one of these keys has a value, so that it names no profile.
fn has_value(said: &Map<String, Value>, keys: &[&str]) -> bool {
    keys.iter().any(|key| said.get(*key).is_some_and(|value| !value.is_object()))
}

/// Refuses work that no profile can do: neither one that comes with it nor one that its project has. `client`: none
/// where nothing was ever given to a project.
///
/// # Errors
/// Each node without a profile; the bus is away.
pub(super) async fn require(
    client: Option<&HumanClient>,
    plan: &PlanFile,
    project: &ProjectName,
) -> CliResult {
    let known = match client {
        Some(client) => of_project(client, project).await?,
        None => Vec::new(),
    };
    plan.check_profiles(&known).map_err(|missing| {
        let name = missing.first();
        CliError::new(Code::Usage, missing.problem()).hint(format!(
            "a command is `run: COMMAND` in a task, or `review: {{run: COMMAND}}`; for an agent write `{name}: {{argv: \
             [my-agent]}}` with your own program to profiles.yaml and add `--profiles profiles.yaml`, or put it \
             under `profiles:` in the plan"
        ))
    })
}

/// Sets the profiles that a plan brings and its project has otherwise, or may not use all tools of: a goal itself
/// changes none, and gives no tools.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn apply_changed(
    client: &HumanClient,
    plan: &PlanFile,
    project: &ProjectName,
) -> CliResult {
    let orchestrator = AgentId::Po(project.clone());
    let wanted =
        [Select::Kind(KeyKind::Profile), Select::One(RecordKey::Agent(orchestrator.clone()))];
    let records = StateSnapshot::read(&client.bus, &wanted).await?.0.records;
    let lacks = |own: &Profile| {
        let of = records.agents.get(&orchestrator);
        of.is_some_and(|of| !own.tools.not_in(&of.tools).is_empty())
    };
    for own in &plan.profiles {
        let held = records.profiles.get(&(project.clone(), own.name.clone()));
        if held.is_some_and(|held| held != own) || lacks(own) {
            let apply =
                Op::ProfileApply { project: project.clone(), profile: Box::new(own.clone()) };
            client.operate(&apply).await?;
        }
    }
    Ok(())
}

/// The profiles that a project has.
///
/// # Errors
/// The bus is away.
pub(in crate::command) async fn of_project(
    client: &HumanClient,
    project: &ProjectName,
) -> CliResult<Vec<Profile>> {
    let snapshot = StateSnapshot::read(&client.bus, &[Select::Kind(KeyKind::Profile)]).await?;
    let all = snapshot.0.records.profiles.into_iter();
    Ok(all.filter(|((of, _), _)| of == project).map(|(_, profile)| profile).collect())
}
