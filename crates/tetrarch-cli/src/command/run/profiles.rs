//! The profiles of work that is given: those of `--profiles` join the plan's own, and work that no profile can do
//! is refused before a project is made for it (docs/decisions/0060). The rule is `core::plan::profiles`.

use std::path::Path;

use serde_json::{Map, Value};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{ProfileName, ProjectName};
use tetrarch_core::plan::schema::PlanFile;

use crate::context::Desk;
use crate::document::read_document;
use crate::exit::{CliError, Code};
use crate::snapshot::Snapshot;

/// Reads the profiles of a file: a mapping from names to profiles, by itself or under `profiles:`, or one profile
/// with its `name`.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(super) fn read(path: &Path) -> Result<Map<String, Value>, CliError> {
    let wrong = || {
        let what = format!("{}: a mapping from names to profiles is expected", path.display());
        CliError::new(Code::Usage, what).hint("write it as in `default: {argv: [my-agent]}`")
    };
    let Value::Object(mut document) = read_document(path)?.value else { return Err(wrong()) };
    match (document.remove("profiles"), document.get("name")) {
        (Some(Value::Object(profiles)), _) => Ok(profiles),
        (Some(_), _) => Err(wrong()),
        (None, Some(Value::String(name))) => {
            let name = name.clone();
            document.remove("name");
            Ok(Map::from_iter([(name, Value::Object(document))]))
        }
        (None, _) => Ok(document),
    }
}

/// Refuses work that no profile can do: neither one that comes with it nor one that its project has. `desk`: none
/// where nothing was ever given to a project.
///
/// # Errors
/// Each node without a profile; the bus is away.
pub(super) async fn require(
    desk: Option<&Desk>,
    plan: &PlanFile,
    project: &ProjectName,
) -> Result<(), CliError> {
    let known = match desk {
        Some(desk) => of_project(desk, project).await?,
        None => Vec::new(),
    };
    plan.check_profiles(&known).map_err(|missing| {
        let name = missing.first();
        CliError::new(Code::Usage, missing.problem()).hint(format!(
            "write `{name}: {{argv: [my-agent]}}` with your own program to profiles.yaml and add `--profiles \
             profiles.yaml`, or put it under `profiles:` in the plan"
        ))
    })
}

/// The profiles that a project has.
///
/// # Errors
/// The bus is away.
pub(in crate::command) async fn of_project(
    desk: &Desk,
    project: &ProjectName,
) -> Result<Vec<ProfileName>, CliError> {
    let snapshot = Snapshot::read(&desk.bus, &[Select::Kind(KeyKind::Profile)]).await?;
    let all = snapshot.records.profiles.into_keys();
    Ok(all.filter(|(of, _)| of == project).map(|(_, name)| name).collect())
}
