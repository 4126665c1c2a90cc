//! Projects and their profiles (spec 03, Identity; spec 12, Profiles).

use crate::agent::{Agent, Hosting, Mode, Profile, Project, Unsettled};
use crate::budget::{Account, Limits};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal, ProjectName};
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::owner::{Policy, goals, sessions};
use crate::request::ProjectCreate;
use crate::step::Draft;

use super::joining::{next_session, place, structural};

/// Creates a project, or has the orchestrator of one begin anew after it was stopped: then the project
/// keeps the budget and the mode that are not named.
///
/// # Errors
/// It has an orchestrator; the host that is named does not take it.
pub(super) fn create_project(
    draft: &mut Draft<'_>,
    policy: &Policy,
    sender: &Principal,
    wanted: &ProjectCreate,
) -> Result<AgentId, Refusal> {
    let id = AgentId::Po(wanted.project.clone());
    if let Some(known) = draft.agent(&id).filter(|agent| agent.liveness != Liveness::Terminated) {
        let at = known.placement.as_ref().map_or_else(
            || "an external program".to_owned(),
            |placement| placement.host.to_string(),
        );
        let since = draft.now - known.since;
        let mut detail = format!("{id} exists: held by {at}, {} for {since}", known.liveness);
        if known.hosting == Hosting::External {
            detail = format!("{detail}; {}", credential_of(&id));
        }
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let hosting = if wanted.external { Hosting::External } else { Hosting::Hosted };
    let mut agent = structural(draft, id.clone(), sender, hosting);
    agent.project = Some(wanted.project.clone());
    // An orchestrator that begins anew has what its project was given before.
    let known = draft.base().profiles.iter().filter(|((of, _), _)| *of == wanted.project);
    agent.tools = known.fold(wanted.tools.clone(), |all, (_, profile)| all.and(&profile.tools));
    let before = draft.base().projects.get(&wanted.project);
    let goes_on = before.filter(|project| !project.retired);
    if goes_on.is_none() || wanted.budget != Limits::default() {
        agent.account = Account::of(wanted.budget);
    }
    agent.unsettled = Unsettled::default();
    let depth = wanted.local_max_depth.unwrap_or(policy.max_depth);
    agent.local_max_depth = depth.min(agent.max_depth).max(agent.depth);
    if !wanted.external {
        agent.placement = Some(place(draft, &wanted.placement)?);
        next_session(draft, &mut agent);
    }
    let named = goes_on.filter(|_| wanted.mode == Mode::default());
    let project = Project {
        name: wanted.project.clone(),
        mode: named.map_or(wanted.mode, |project| project.mode),
        created_by: sender.clone(),
        created: draft.now,
        retired: false,
        fencing: before.map_or(0, |project| project.fencing),
    };
    let reason = format!("mode {}", project.mode);
    draft.put(Record::Agent(Box::new(agent)));
    draft.put(Record::Project(project));
    draft.event(EventKind::ProjectCreated, "03 Identity", reason).agent = Some(id.clone());
    sessions::launch(draft, &id, None);
    Ok(id)
}

/// How an external agent gets its credential: the bus has no keys to make one with.
pub(super) fn credential_of(id: &AgentId) -> String {
    format!("`tetrarch creds issue {id}`, where `tetrarch up` runs, makes its credential")
}

/// Keeps a profile of a project. Whoever says how its agents work says what they may use: its orchestrator
/// may hand out the profile's tools from now on.
///
/// # Errors
/// There is no such project; the profile lacks a command or a model.
pub(super) fn apply_profile(
    draft: &mut Draft<'_>,
    project: &ProjectName,
    profile: &Profile,
) -> Result<(), Refusal> {
    known_project(draft, project)?;
    if profile.kind.needs_command() && profile.argv.is_empty() {
        let (name, kind) = (&profile.name, profile.kind.as_str());
        let detail = format!("profile {name}: argv: the {kind} runner needs a command");
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    if profile.lacks_model() {
        let detail =
            format!("profile {}: the llm runner needs a provider and a model", profile.name);
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let reason = format!("{project}/{}: {}", profile.name, profile.kind.as_str());
    draft.event(EventKind::ProfileApplied, "12 Profiles", reason);
    draft.put(Record::Profile(project.clone(), Box::new(profile.clone())));
    let orchestrator = draft.agent(&AgentId::Po(project.clone())).cloned();
    if let Some(agent) = orchestrator.filter(|it| !profile.tools.not_in(&it.tools).is_empty()) {
        let tools = agent.tools.and(&profile.tools);
        draft.put(Record::Agent(Box::new(Agent { tools, ..agent })));
    }
    Ok(())
}

pub(super) fn set_mode(
    draft: &mut Draft<'_>,
    project: &ProjectName,
    mode: Mode,
) -> Result<(), Refusal> {
    let mut record = known_project(draft, project)?;
    let reason = format!("{project}: {} -> {mode}", record.mode);
    draft.event(EventKind::ProjectMode, "03 Modes", reason);
    record.mode = mode;
    draft.put(Record::Project(record));
    Ok(())
}

pub(super) fn retire_project(draft: &mut Draft<'_>, project: &ProjectName) -> Result<(), Refusal> {
    let mut record = known_project(draft, project)?;
    record.retired = true;
    draft.put(Record::Project(record));
    draft.event(EventKind::ProjectRetired, "03 Identity", project.to_string());
    let why = "its project was retired";
    goals::cancel_all(draft, project, why)?;
    let orchestrator = AgentId::Po(project.clone());
    sessions::cancel(draft, &orchestrator, why);
    sessions::retired(draft, &orchestrator);
    Ok(())
}

pub(in crate::owner) fn known_project(
    draft: &Draft<'_>,
    name: &ProjectName,
) -> Result<Project, Refusal> {
    let known = draft.base().projects.get(name).filter(|project| !project.retired).cloned();
    known.ok_or_else(|| {
        Refusal::new(
            ErrorCode::NotFound,
            format!("project {name} was not found; `tetrarch project list` lists all"),
        )
    })
}
