//! Work that no profile of its project can do is refused before it begins (docs/decisions/0060). Which profile
//! executes a node is said in `plan::profiles`.

use std::collections::BTreeMap;

use crate::agent::Profile;
use crate::error::{ErrorCode, Refusal};
use crate::id::{EpicId, NodeId, Principal, ProjectName};
use crate::plan::Node;
use crate::plan::change::Changed;
use crate::plan::profiles::{self, Missing};
use crate::plan::schema::PlanFile;
use crate::step::Draft;

/// A project's profiles.
pub(super) fn of_project<'r>(
    draft: &Draft<'r>,
    project: &ProjectName,
) -> impl Iterator<Item = &'r Profile> {
    let all = draft.base().profiles.iter();
    let project = project.clone();
    all.filter(move |((of, _), _)| *of == project).map(|(_, profile)| profile)
}

/// Whether a plan can be done in a project with the profiles that come with it; a goal without a plan is one task.
/// A profile of the project stays as it is: who may give a goal may not therefore change what others' work is
/// done with (decision 0086). New profiles come from people alone, since each is a command or a key of hosts
/// (decision 0125).
///
/// # Errors
/// Every node that needs a profile that is not there; a profile that the project has otherwise; a new one that
/// an agent brings.
pub(super) fn suffice(
    draft: &Draft<'_>,
    project: &ProjectName,
    giver: &Principal,
    plan: &PlanFile,
) -> Result<(), Refusal> {
    plan.check_profiles(of_project(draft, project))
        .map_err(|missing| refusal(&missing, project))?;
    let known = |own: &Profile| draft.base().profiles.get(&(project.clone(), own.name.clone()));
    for own in &plan.profiles {
        let name = own.name.as_str();
        match known(own) {
            Some(known) if known == own => {}
            Some(_) => {
                let detail = format!(
                    "the project {project} has another profile {name:?} than the plan brings; give the \
                     plan's another name, or change the project's with \
                     `tetrarch profile apply {project} <file>`"
                );
                return Err(Refusal::new(ErrorCode::Conflict, detail));
            }
            None if giver.agent().is_some() => {
                let detail = format!(
                    "{giver} may not add the profile {name:?}, which hosts execute; a person adds it first \
                     with `tetrarch profile apply {project} <file>`"
                );
                return Err(Refusal::new(ErrorCode::Unauthorized, detail));
            }
            None => {}
        }
    }
    Ok(())
}

/// Whether the task of a turn, which has no plan of anybody's, can be done in a project.
///
/// # Errors
/// The profile that is not there, and how the project gets it.
pub(super) fn suffice_for_turn(
    draft: &Draft<'_>,
    project: &ProjectName,
    plan: &PlanFile,
) -> Result<(), Refusal> {
    plan.check_profiles(of_project(draft, project)).map_err(|missing| {
        let detail = format!("{}; {}", missing.problem(), Missing::cure_of(project.as_str()));
        Refusal::new(ErrorCode::NotFound, detail)
    })
}

/// Whether what a change adds or defines otherwise can be done in the project of its epic.
///
/// # Errors
/// Every node that needs a profile that is not there.
pub(super) fn suffice_for_change(
    draft: &Draft<'_>,
    epic: EpicId,
    changed: &Changed,
) -> Result<(), Refusal> {
    let Some(goal) = draft.base().goals.get(&epic) else { return Ok(()) };
    let mut nodes: BTreeMap<NodeId, Node> = draft.nodes(epic).into_owned();
    nodes.extend(changed.defined.iter().map(|node| (node.id, node.clone())));
    let redefined = changed.redefined.iter().map(|(id, _)| id);
    let new: Vec<&NodeId> = changed.added.iter().chain(redefined).collect();
    let known = of_project(draft, &goal.project).map(|it| &it.name);
    let checked = profiles::check(&nodes, |id| new.contains(&id), known);
    checked.map_err(|missing| {
        // A change brings no profiles.
        let cure = Missing::cure_of(goal.project.as_str());
        let detail = format!("{}; name another with `profile:`, or {cure}", missing.problem());
        Refusal::new(ErrorCode::InvalidPlan, detail)
    })
}

fn refusal(missing: &Missing, project: &ProjectName) -> Refusal {
    let detail = format!("{}; {}", missing.problem(), missing.cure(project.as_str()));
    Refusal::new(ErrorCode::InvalidPlan, detail)
}

/// The profile of this name, or what its project has instead.
///
/// # Errors
/// The project has none of this name, in words.
pub(super) fn named<'r>(
    draft: &Draft<'r>,
    project: &ProjectName,
    name: &str,
) -> Result<&'r Profile, String> {
    let mut all = of_project(draft, project);
    all.find(|profile| profile.name.as_str() == name).ok_or_else(|| {
        let known: Vec<&str> = of_project(draft, project).map(|it| it.name.as_str()).collect();
        let has = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!(
            "the project {project} has no profile {name:?} (it has: {has}); add it with \
             `tetrarch profile apply {project} <file>`"
        )
    })
}
