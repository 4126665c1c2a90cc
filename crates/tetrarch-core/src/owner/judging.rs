//! A project's own judgement (docs/decisions/0052). Where it has a profile named `orchestrator`, the planner's
//! questions about its goals are put to that profile's model, what is planned so is reviewed, and results that
//! nobody is named to review are reviewed by that profile, once each. Whatever comes to nothing goes the way it
//! goes without.

use crate::agent::{ORCHESTRATOR_PROFILE, Profile};
use crate::assignment::Purpose;
use crate::brief::{RunResult, RunnerKind};
use crate::id::{Domain, EpicId, NodeId, ProfileName, ProjectName};
use crate::ledger::{Entry, EventKind, Record};
use crate::limits::{FINDINGS_BYTES_MAX, OUTPUT_TOKENS};
use crate::plan::schema::PlanFile;
use crate::plan::{Node, REVIEW_DOMAIN, Review};
use crate::planner::{Bounds, Planner, Planning, PlanningStatus};
use crate::records::Records;
use crate::request::SubagentWish;
use crate::role::Role;
use crate::run::Run;
use crate::step::Draft;

use super::{Policy, fit};

/// A question to the planner, and the profile whose model it is put to; none: it is the installation's planner
/// that is asked (spec 12, `[planner]`).
#[derive(Debug, Clone)]
pub struct PlannerQuestion {
    /// What is asked.
    pub planning: Planning,
    /// The profile.
    pub of: Option<Profile>,
}

impl PlannerQuestion {
    /// What an entry says is to be asked once it is committed. `records`: as they then are.
    pub(crate) fn all_of(entry: &Entry, records: &Records) -> Vec<Self> {
        let asked = entry.records.iter().filter_map(|record| {
            let Record::Planning(it) = record else { return None };
            let question = || Self { planning: (**it).clone(), of: asked_of(records, it).cloned() };
            (it.status == PlanningStatus::Asked).then(question)
        });
        asked.collect()
    }
}

pub(super) fn asked_of<'r>(records: &'r Records, planning: &Planning) -> Option<&'r Profile> {
    profile_of(records, planning.project(records)?).filter(|profile| plans(profile))
}

/// The planner of a goal that comes with these profiles.
pub(super) fn planner_for(
    records: &Records,
    policy: &Policy,
    project: &ProjectName,
    wish: &PlanFile,
) -> Option<Planner> {
    let own = wish.profiles.iter().find(|profile| is_its_own(&profile.name));
    planner(own.or_else(|| profile_of(records, project)), policy)
}

/// The planner of a goal that there is.
pub(super) fn planner_of(records: &Records, policy: &Policy, epic: EpicId) -> Option<Planner> {
    let own = records.goals.get(&epic).and_then(|goal| profile_of(records, &goal.project));
    planner(own, policy)
}

/// Whose model a question is put to.
pub(super) fn planner_asked(
    records: &Records,
    policy: &Policy,
    planning: &Planning,
) -> Option<Planner> {
    planner(asked_of(records, planning), policy)
}

fn planner(profile: Option<&Profile>, policy: &Policy) -> Option<Planner> {
    let configured = policy.planner.as_ref();
    let Some(own) = profile.filter(|profile| plans(profile)) else { return configured.cloned() };
    let bounds = configured.map_or_else(Bounds::default, |planner| planner.bounds);
    let output_tokens = own.served.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
    let price = policy.prices.of(&own.served.provider, &own.model);
    let model = format!("{} {}, profile {}", own.served.provider, own.model, own.name.as_str());
    Some(Planner { model, bounds, output_tokens, price })
}

fn profile_of<'r>(records: &'r Records, project: &ProjectName) -> Option<&'r Profile> {
    let name = ProfileName::new(ORCHESTRATOR_PROFILE).ok()?;
    records.profiles.get(&(project.clone(), name))
}

fn is_its_own(name: &ProfileName) -> bool {
    name.as_str() == ORCHESTRATOR_PROFILE
}

/// Whether questions can be put to it: a program is only ever given briefs.
fn plans(profile: &Profile) -> bool {
    profile.kind == RunnerKind::Llm
}

/// Has each leaf of a plan that a model made for a project reviewed, where the project's orchestrator judges.
pub(super) fn have_reviewed(records: &Records, project: &ProjectName, plan: &mut PlanFile) {
    let Ok(domain) = Domain::new(REVIEW_DOMAIN) else { return };
    if profile_of(records, project).is_none() {
        return;
    }
    let parents: Vec<NodeId> = plan.nodes.iter().filter_map(|node| node.id.parent()).collect();
    for leaf in plan.nodes.iter_mut().filter(|node| !parents.contains(&node.id)) {
        leaf.review = Some(Review { domain: domain.clone(), profile: None });
    }
}

/// The profile that reviews a node's result where nobody is named for it: the orchestrator's own. Of each result
/// only the first review is: one that came to no verdict is followed by the way there is without.
pub(super) fn reviewer(draft: &Draft<'_>, epic: EpicId, node: &Node) -> Option<ProfileName> {
    let state = draft.node_state(epic, node.id)?;
    let latest = state.latest.and_then(|id| draft.assignment(id));
    let reviewed = latest.is_some_and(|latest| latest.purpose == Purpose::Review);
    if state.purpose != Purpose::Review || reviewed {
        return None;
    }
    let goal = draft.base().goals.get(&epic)?;
    profile_of(draft.base(), &goal.project).map(|profile| profile.name.clone())
}

/// What of a node's means is an agent's too: whoever judges has those of its own profile alone.
pub(super) fn means<'n>(
    wish: &SubagentWish,
    node: Option<&'n Node>,
    profile: &Profile,
) -> Option<&'n Node> {
    node.filter(|_| wish.role != Role::Reviewer || !is_its_own(&profile.name))
}

/// Whether a run is the orchestrator's own review, which the plan does not name: one that comes to no verdict
/// is not held against the node.
pub(super) fn is_judgement(draft: &Draft<'_>, run: &Run) -> bool {
    let review = draft.node(run.epic, run.node).and_then(|node| node.review.as_ref());
    is_its_own(&run.brief.runner.profile) && review.is_some_and(|review| review.profile.is_none())
}

/// Tells that an orchestrator's own review came to no verdict, and why.
pub(super) fn tell_none(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let said = if result.error.is_empty() { "it gave none" } else { &result.error };
    let said = fit::Room::of(FINDINGS_BYTES_MAX).text(said, usize::MAX);
    let reason =
        format!("no verdict by profile {ORCHESTRATOR_PROFILE}: {said}; reviewed without it");
    let event = draft.event(EventKind::Verdict, "06 A reviewer", reason);
    event.agent = Some(run.agent.clone());
    event.run = Some(run.id);
    event.epic = Some(run.epic);
    event.node = Some(run.node);
}
