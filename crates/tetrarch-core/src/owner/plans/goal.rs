//! Goals: made with their plans, and closed with what their orchestrator put together (spec 05).

use crate::brief::RunResult;
use crate::error::{ErrorCode, Refusal};
use crate::goal::{Goal, GoalResult, GoalState, GoalStatus};
use crate::id::{AgentId, EpicId, PlanId, Principal, ProjectName};
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::plan::folding::FoldedChildren;
use crate::plan::schema::PlanFile;
use crate::plan::{Plan, PlanReason, PlanSource, graph};
use crate::priority::Priorities;
use crate::step::Draft;
use crate::time::BusTime;

use super::{crystallizing, define, put_leaf, settle};
use crate::owner::{conversing, profiles};

/// Creates a goal with its plan, version 1, and hands it to the project's orchestrator.
///
/// # Errors
/// The project is unknown, retired or somebody else's; it has no profile for some of the work; an agent brings
/// a new one.
pub(in crate::owner) fn create_goal(
    draft: &mut Draft<'_>,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    plan: &PlanFile,
) -> Result<(), Refusal> {
    let po = may_give(draft, project, owner)?;
    profiles::suffice(draft, project, owner, plan)?;
    let goal = goal_of(draft.now, epic, project, owner, plan);
    put_profiles(draft, project, plan);
    let alone =
        plan.nodes.is_empty().then(|| plan.with_one_task(profiles::of_project(draft, project)));
    let plan = alone.as_ref().unwrap_or(plan);
    put_goal(draft, goal, plan);
    for node in &plan.nodes {
        define(draft, epic, node);
    }
    for id in graph::leaves(&draft.nodes(epic)) {
        put_leaf(draft, epic, id);
    }
    draft.touch(epic, PlanReason::InitialCreate);
    settle(draft, epic);
    let alive = draft.agent(&po).is_some_and(|po| po.liveness != Liveness::Terminated);
    if alive {
        draft.mail(Principal::Agent(po), Some(epic), MailBody::TakeOn { epic });
    }
    Ok(())
}

/// The orchestrator of a project that takes goals from somebody.
///
/// # Errors
/// The project is unknown, retired or somebody else's.
pub(in crate::owner) fn may_give(
    draft: &Draft<'_>,
    project: &ProjectName,
    owner: &Principal,
) -> Result<AgentId, Refusal> {
    let po = AgentId::Po(project.clone());
    let known = draft.base().projects.get(project).filter(|project| !project.retired);
    if known.is_none() || draft.agent(&po).is_none() {
        let detail =
            format!("project {project} was not found; create it with operation `project.create`");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    }
    if owner.agent().is_some_and(|agent| *agent != po && *agent != AgentId::Go) {
        let detail = format!("{owner} may not give goals to {project}");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    Ok(po)
}

/// Sets the profiles that come with a plan.
pub(in crate::owner) fn put_profiles(
    draft: &mut Draft<'_>,
    project: &ProjectName,
    plan: &PlanFile,
) {
    for profile in &plan.profiles {
        draft.put(Record::Profile(project.clone(), Box::new(profile.clone())));
    }
}

/// What a plan says of its goal.
pub(in crate::owner) fn goal_of(
    now: BusTime,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    plan: &PlanFile,
) -> Goal {
    Goal {
        id: epic,
        project: project.clone(),
        spec: plan.goal.clone(),
        owner: owner.clone(),
        created: now,
        updated: now,
    }
}

fn put_goal(draft: &mut Draft<'_>, goal: Goal, plan: &PlanFile) {
    let (now, epic, project) = (draft.now, goal.id, goal.project.clone());
    draft
        .event(EventKind::GoalCreated, "05 Records", format!("{:?} for {project}", goal.spec.title))
        .epic = Some(epic);
    draft.put(Record::Goal(Box::new(goal)));
    draft.put(Record::GoalState(Box::new(GoalState {
        id: epic,
        status: GoalStatus::Active,
        percent: 0,
        result: None,
        since: now,
        priorities: Priorities::default(),
    })));
    let seed = draft.seed(&epic.to_string());
    draft.put(Record::Plan(Box::new(Plan {
        epic,
        id: PlanId::derive(now, &seed, "plan", 0),
        project,
        version: 0,
        source: PlanSource::Overseer,
        reason: PlanReason::InitialCreate,
        output: plan.output,
        folded: FoldedChildren::new(),
        trace: draft.trace.clone(),
        created: now,
        updated: now,
    })));
}

/// Books what a project's orchestrator put together for an epic.
///
/// # Errors
/// The epic is unknown, of another project or not reached.
pub(in crate::owner) fn book_goal_result(
    draft: &mut Draft<'_>,
    epic: EpicId,
    sender: &AgentId,
    result: &RunResult,
) -> Result<(), Refusal> {
    let goal = draft.base().goals.get(&epic);
    let own = goal.is_some_and(|goal| *sender == AgentId::Po(goal.project.clone()));
    let (true, Some(mut state)) = (own, draft.goal_state(epic).cloned()) else {
        let detail = format!("{epic} is not a goal of {sender}");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if state.status != GoalStatus::Completed {
        let detail = format!("{epic} is {}; only a completed goal has a result", state.status);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let booked = GoalResult {
        summary: result.crystallization.clone(),
        deliverable: result.deliverable.clone(),
        artifacts: result.artifacts.clone(),
    };
    if state.result.as_ref() == Some(&booked) {
        return Ok(());
    }
    state.result = Some(booked);
    draft.put(Record::GoalState(Box::new(state)));
    draft
        .event(EventKind::GoalStatus, "06 Result", "its orchestrator put the result together")
        .epic = Some(epic);
    crystallizing::of_goal(draft, epic, sender, result);
    draft.touch(epic, PlanReason::TaskCompletion);
    conversing::heard(draft, epic);
    Ok(())
}
