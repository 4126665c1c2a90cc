//! What the planner is asked, and what becomes of its answers (spec 05, The planner). A question is a record
//! that is committed before anybody is asked; whoever owns the ledger asks again under the same id. Nothing of
//! an answer is believed: it is read again here, by the rules of plan files.

mod inputs;

use serde_json::Value;

use crate::assignment::{Assignment, AssignmentStatus, Purpose as Task, Recovery};
use crate::budget::Spend;
use crate::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use crate::error::{ErrorCode, Refusal};
use crate::goal::Goal;
use crate::id::{
    AgentId, AssignmentId, DispatchId, EpicId, Principal, ProjectName, Tier, sha256_hex,
};
use crate::ledger::{EventKind, Record};
use crate::limits::{FINDINGS_BYTES_MAX, LAUNCH_TEXT_BYTES, REPLANS_MAX, TEXT_BYTES_MAX};
use crate::mail::MailBody;
use crate::overseer::{self, Rung, Telemetry};
use crate::plan::schema::PlanFile;
use crate::planner::answer::{self, Answer};
use crate::planner::template::Template;
use crate::planner::{Bounds, Planner, Planning, PlanningStatus, Proposal, Purpose, metering};
use crate::step::Draft;
use crate::time::BusTime;

use inputs::{goal_inputs, split_inputs, task_told};

use super::affording::Unpaid;
use super::{Policy, affording, goals, judging, overseeing, plans, profiles, replanning, stopping};
use crate::fit::Room;

const RULE: &str = "05 The planner";

/// How a goal begins.
pub(super) enum Begun {
    /// With its plan.
    Planned,
    /// When this model has made a plan for it.
    Asked {
        /// The model's name.
        model: String,
    },
}

/// Begins a goal: with the plan that it came with, or has one made when there is a planner.
///
/// # Errors
/// The project is unknown, retired or somebody else's; it has no profile for some of the work; there is such a goal.
pub(super) fn give(
    draft: &mut Draft<'_>,
    policy: &Policy,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    wish: &PlanFile,
) -> Result<Begun, Refusal> {
    // The id is the request's: whoever takes that of another goal would take the goal.
    if is_taken(draft, epic) {
        let detail = format!("goal {epic} already exists; use another requestId");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    goals::has_room(draft, project)?;
    let planner = judging::planner_for(draft.base(), policy, project, wish);
    if let Some(planner) = planner.filter(|_| wish.nodes.is_empty()) {
        return ask_for_plan(draft, planner, epic, project, owner, wish);
    }
    plans::create_goal(draft, epic, project, owner, wish)?;
    Ok(Begun::Planned)
}

/// Whether an epic's id is that of a goal, or of one that a plan is made for.
pub(super) fn is_taken(draft: &Draft<'_>, epic: EpicId) -> bool {
    let records = draft.base();
    records.goals.contains_key(&epic)
        || records.plans.contains_key(&epic)
        || records.plannings.values().any(|planning| planning.epic == epic)
}

fn ask_for_plan(
    draft: &mut Draft<'_>,
    planner: Planner,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    wish: &PlanFile,
) -> Result<Begun, Refusal> {
    plans::may_give(draft, project, owner)?;
    // Whatever the planner makes of it, it may come to be one task.
    profiles::suffice(draft, project, owner, wish)?;
    let goal = plans::goal_of(draft.now, epic, project, owner, wish);
    let trace = draft.trace.clone();
    let question = Planning { trace, ..goal_question(draft.now, &planner, goal) };
    match affording::afford(draft, &planner, question) {
        Ok(planning) => {
            plans::put_profiles(draft, project, wish);
            put_asked(draft, planning);
            Ok(Begun::Asked { model: planner.model })
        }
        Err(unpaid) => {
            plans::create_goal(draft, epic, project, owner, wish)?;
            let Unpaid { planning, why } = *unpaid;
            let why = format!("{why}; the goal is one task");
            settle(draft, planning, PlanningStatus::Refused, &why);
            Ok(Begun::Planned)
        }
    }
}

/// The planner is asked once more what it was asked by an owner that is gone: what was set aside for that counts as
/// spent, and as much again is set aside, or nobody is asked any more.
pub(super) fn ask_again(draft: &mut Draft<'_>, policy: &Policy, id: DispatchId) {
    let known = draft.planning(id).filter(|it| it.status == PlanningStatus::Asked).cloned();
    let Some(planning) = known else { return };
    draft.trace.clone_from(&planning.trace);
    let aside = planning.set_aside;
    let planning = affording::pay(draft, planning, aside);
    let Some(planner) = judging::planner_asked(draft.base(), policy, &planning) else {
        // Asking ends at once: there is nobody to put it to.
        draft.put(Record::Planning(Box::new(planning)));
        return;
    };
    match affording::afford(draft, &planner, planning) {
        Ok(planning) => draft.put(Record::Planning(Box::new(planning))),
        Err(unpaid) => {
            let Unpaid { planning, why } = *unpaid;
            conclude(draft, policy, planning, None, vec![why]);
        }
    }
}

/// What a planner is asked about a goal. `now` is bus time.
#[must_use]
pub fn goal_question(now: BusTime, planner: &Planner, goal: Goal) -> Planning {
    let inputs = goal_inputs(&goal, planner.bounds);
    let id = DispatchId::derive(now, &goal.id.to_string(), "plan", 0);
    let asked = asked(now, planner, Purpose::Plan, (id, goal.id), inputs);
    Planning { goal: Some(Box::new(goal)), ..asked }
}

/// Whether the planner may be asked to cut what an assignment is about: a task without subtasks, that is
/// worked on, and of which it has not said yet that it cannot (spec 05, The tick).
pub(super) fn may_split(draft: &Draft<'_>, policy: &Policy, assignment: &Assignment) -> bool {
    let planner = || judging::planner_of(draft.base(), policy, assignment.epic);
    let possible = assignment.node.tier() == Tier::Task
        && assignment.purpose == Task::Execute
        && planner().is_some_and(|planner| planner.bounds.subtasks > 1);
    let before: Vec<PlanningStatus> =
        about(draft, assignment.id).map(|planning| planning.status).collect();
    let open = |status: &PlanningStatus| match status {
        PlanningStatus::Asked | PlanningStatus::Dropped => true,
        PlanningStatus::Accepted | PlanningStatus::Refused => false,
    };
    possible && before.len() < REPLANS_MAX && before.iter().all(open)
}

/// Whether the planner is asked about an assignment and has not answered.
pub(super) fn is_asked(draft: &Draft<'_>, assignment: AssignmentId) -> bool {
    about(draft, assignment).any(|planning| planning.status == PlanningStatus::Asked)
}

fn about<'d>(draft: &'d Draft<'_>, assignment: AssignmentId) -> impl Iterator<Item = &'d Planning> {
    let sent = draft.base().dispatched_for(assignment);
    sent.filter_map(|id| draft.planning(id))
}

/// Commits that the planner is to be asked to cut a task, and told the last words of its run's journal; gives the dispatch and the assignment as they then
/// are, for the ladder to write; why it is not asked, when that cannot be paid.
pub(super) fn ask_to_split(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: &Assignment,
    (why, words): (&str, &[String]),
) -> Option<Result<(Dispatch, Assignment), String>> {
    let planner = judging::planner_of(draft.base(), policy, assignment.epic)?;
    let node = draft.node(assignment.epic, assignment.node)?.clone();
    let inputs = split_inputs(draft, assignment, &node, (why, words));
    let label = format!("replan {}", about(draft, assignment.id).count());
    let id = DispatchId::derive(draft.now, &assignment.id.to_string(), &label, 0);
    let plan = draft.base().plans.get(&assignment.epic);
    let base_version = plan.map_or(0, |plan| plan.version);
    let trace = plan.and_then(|plan| plan.trace.clone());
    let hash = sha256_hex(inputs.as_bytes());
    let text = Room::of(LAUNCH_TEXT_BYTES).text(&inputs, usize::MAX);
    let planning = Planning {
        assignment: Some(assignment.id),
        node: Some(assignment.node),
        base_version,
        trace,
        ..asked(draft.now, &planner, Purpose::Split, (id, assignment.epic), inputs)
    };
    match affording::afford(draft, &planner, planning) {
        Ok(planning) => put_asked(draft, planning),
        Err(unpaid) => {
            let Unpaid { planning, why } = *unpaid;
            settle(draft, planning, PlanningStatus::Refused, &why);
            return Some(Err(why));
        }
    }
    let dispatch = Dispatch {
        id,
        assignment: assignment.id,
        at: draft.now,
        mode: DispatchMode::Planner,
        rung: Some(Rung::Replan),
        to: Principal::Agent(AgentId::Go),
        session: None,
        text,
        hash,
        outcome: DispatchOutcome::Accepted,
        run: Some(assignment.run),
        notes: format!("plan version {base_version}: {why}"),
    };
    let retries = assignment.recovery.retries;
    let seed = format!("{} {id}", assignment.id);
    let recovery = Recovery {
        dispatch: Some(id),
        dispatched: draft.now,
        consumed: false,
        expected_next_update: None,
        backoff_until: draft.now + policy.overseer.backoff.wait(retries, &seed),
        ..assignment.recovery
    };
    Some(Ok((dispatch, Assignment { recovery, ..assignment.clone() })))
}

/// A question; the caller fills in what it is about.
fn asked(
    now: BusTime,
    planner: &Planner,
    purpose: Purpose,
    (id, epic): (DispatchId, EpicId),
    inputs: String,
) -> Planning {
    let template = Template::of(purpose);
    Planning {
        id,
        at: now,
        purpose,
        epic,
        goal: None,
        assignment: None,
        node: None,
        base_version: 0,
        model: Room::of(FINDINGS_BYTES_MAX).text(&planner.model, usize::MAX),
        template: template.id.to_owned(),
        template_hash: template.hash(planner.bounds),
        inputs,
        status: PlanningStatus::Asked,
        calls: 0,
        set_aside: Spend::default(),
        used: Spend::default(),
        attempts: 0,
        answer: String::new(),
        problems: Vec::new(),
        reason: String::new(),
        since: now,
        trace: None,
    }
}

fn put_asked(draft: &mut Draft<'_>, planning: Planning) {
    let Planning { id, purpose, model, template, template_hash, inputs, .. } = &planning;
    let bytes = inputs.len();
    let reason = format!(
        "{model} is asked for a {purpose} as {id}: template {template}, sha256 {template_hash}, \
         {bytes} bytes of inputs"
    );
    let event = draft.event(EventKind::PlannerAsked, RULE, reason);
    event.epic = Some(planning.epic);
    event.node = planning.node;
    draft.put(Record::Planning(Box::new(planning)));
}

/// What asking came to. An answer to what is not asked, or is answered, changes nothing.
pub(super) fn proposed(draft: &mut Draft<'_>, policy: &Policy, proposal: &Proposal) {
    let known = draft.planning(proposal.id);
    let open = known.filter(|planning| planning.status == PlanningStatus::Asked);
    let Some(planning) = open.cloned() else { return };
    draft.trace.clone_from(&planning.trace);
    let planner = judging::planner_asked(draft.base(), policy, &planning);
    let took = planner
        .map(|planner| metering::spend(&planner, proposal.took, proposal.attempts))
        .unwrap_or_default();
    let planning = affording::pay(draft, planning, took);
    let bounds = policy.planner.as_ref().map_or_else(Bounds::default, |planner| planner.bounds);
    let read = proposal.answer.as_deref().map(|text| {
        let value = answer::json_of(text)?;
        answer::read(&planning, bounds, &value)
    });
    let (read, mut problems) = match read {
        Some(Ok(read)) => (Some(read), proposal.problems.clone()),
        Some(Err(found)) => (None, found),
        None => (None, proposal.problems.clone()),
    };
    problems = Room::of(TEXT_BYTES_MAX).list(&problems);
    let answer = proposal.answer.clone().filter(|_| read.is_some()).unwrap_or_default();
    let planning = Planning { attempts: proposal.attempts, answer, ..planning };
    conclude(draft, policy, planning, read, problems);
}

fn conclude(
    draft: &mut Draft<'_>,
    policy: &Policy,
    planning: Planning,
    read: Option<Answer>,
    problems: Vec<String>,
) {
    let planning = Planning { problems, ..planning };
    match planning.purpose {
        Purpose::Plan => begin(draft, planning, read),
        Purpose::Split => cut(draft, policy, planning, read),
    }
}

/// Notes what became of a question.
fn settle(draft: &mut Draft<'_>, planning: Planning, status: PlanningStatus, reason: &str) {
    let (attempts, found) = (planning.attempts, planning.problems.len());
    let last = planning.problems.last().map_or(String::new(), |last| format!("; last: {last}"));
    let words = format!("{} {status}: {reason}", planning.id);
    let Spend { tokens, cost_micro, .. } = planning.used;
    let took = format!("{tokens} tokens, {cost_micro} millionths of a dollar");
    let told = format!("{words} ({attempts} answers, {found} problems{last}; {took})");
    let told = Room::of(TEXT_BYTES_MAX).text(&told, usize::MAX);
    let payer = planning.project(draft.base()).cloned().map(AgentId::Po);
    let event = draft.event(EventKind::PlannerAnswered, RULE, told);
    event.agent = payer;
    event.epic = Some(planning.epic);
    event.node = planning.node;
    let answer = match status {
        PlanningStatus::Asked | PlanningStatus::Accepted => planning.answer,
        PlanningStatus::Refused | PlanningStatus::Dropped => String::new(),
    };
    let (since, reason) = (draft.now, reason.to_owned());
    let planning = Planning { goal: None, status, answer, reason, since, ..planning };
    draft.put(Record::Planning(Box::new(planning)));
}

/// A goal begins with the plan that was made for it, or with the one that every goal can have.
fn begin(draft: &mut Draft<'_>, planning: Planning, read: Option<Answer>) {
    let Some(goal) = planning.goal.clone() else { return };
    let (plan, status, reason) = match read {
        Some(Answer::Plan(mut plan)) => {
            judging::have_reviewed(draft.base(), &goal.project, &mut plan);
            let reason = format!("a plan of {} nodes", plan.nodes.len());
            (*plan, PlanningStatus::Accepted, reason)
        }
        Some(Answer::Split(..)) | None => {
            let reason = "no valid plan: the goal is one task".to_owned();
            (alone(draft, &goal), PlanningStatus::Refused, reason)
        }
    };
    match plans::create_goal(draft, goal.id, &goal.project, &goal.owner, &plan) {
        Ok(()) => settle(draft, planning, status, &reason),
        Err(refusal) => {
            let text = format!("the goal {:?} was not begun: {refusal}", goal.spec.title);
            draft.mail(goal.owner.clone(), None, MailBody::Info { text });
            settle(draft, planning, PlanningStatus::Dropped, &refusal.to_string());
        }
    }
}

fn alone(draft: &Draft<'_>, goal: &Goal) -> PlanFile {
    PlanFile {
        goal: goal.spec.clone(),
        project: None,
        mode: None,
        profiles: Vec::new(),
        nodes: Vec::new(),
        output: None,
    }
    .with_one_task(profiles::of_project(draft, &goal.project))
}

/// A task is cut as it was proposed, when it is still the task that was asked about; else the ladder goes on.
fn cut(draft: &mut Draft<'_>, policy: &Policy, planning: Planning, read: Option<Answer>) {
    let assignment = planning.assignment.and_then(|id| draft.assignment(id)).cloned();
    let Some(assignment) = assignment else {
        settle(draft, planning, PlanningStatus::Dropped, "its assignment is no longer known");
        return;
    };
    if let Some(why) = changed(draft, policy, &planning, &assignment) {
        overseeing::concluded(draft, &assignment, DispatchOutcome::Error);
        settle(draft, planning, PlanningStatus::Dropped, &format!("E_CONFLICT: {why}"));
        return;
    }
    match read {
        Some(Answer::Split(diagnosis, parts)) if !parts.is_empty() => {
            overseeing::concluded(draft, &assignment, DispatchOutcome::Ok);
            let (version, count) = (planning.base_version, parts.len());
            let why = format!("cut into {count} for plan version {version}: {diagnosis}");
            let why = Room::of(FINDINGS_BYTES_MAX).text(&why, usize::MAX);
            settle(draft, planning, PlanningStatus::Accepted, &why);
            replanning::split(draft, &assignment, parts, &why);
        }
        Some(Answer::Split(diagnosis, _)) => {
            let why = format!("cutting it is no help: {diagnosis}");
            go_on(draft, policy, planning, assignment, &why);
        }
        Some(Answer::Plan(_)) | None => {
            go_on(draft, policy, planning, assignment, "no valid answer");
        }
    }
}

/// Why an answer no longer fits, when it does not (spec 05, `E_CONFLICT`).
fn changed(
    draft: &Draft<'_>,
    policy: &Policy,
    planning: &Planning,
    assignment: &Assignment,
) -> Option<String> {
    if assignment.status != AssignmentStatus::Stalled {
        return Some(format!("{} is {}", assignment.id, assignment.status));
    }
    if assignment.recovery.dispatch != Some(planning.id) {
        return Some("something else was sent since".to_owned());
    }
    let view = overseeing::view(draft, policy, assignment, &Telemetry::default());
    if let Some(why) = view.as_ref().map_or(Some("it ended"), overseer::excuse) {
        return Some(why.to_owned());
    }
    if stopping::is_asked_for(draft, assignment.run) {
        return Some(format!("{} is being stopped", assignment.agent));
    }
    if !plans::is_open(draft, assignment.epic) {
        return Some("its goal is not worked on".to_owned());
    }
    let now = draft.node(assignment.epic, assignment.node).map(task_told);
    let then: Option<Value> = serde_json::from_str(&planning.inputs).ok();
    let same = now.is_some() && now.as_ref() == then.as_ref().and_then(|told| told.get("task"));
    let version = draft.base().plans.get(&planning.epic).map_or(0, |plan| plan.version);
    (!same).then(|| format!("{} changed, the plan has version {version}", assignment.node))
}

/// The ladder goes on where the planner was no help.
fn go_on(
    draft: &mut Draft<'_>,
    policy: &Policy,
    planning: Planning,
    assignment: Assignment,
    why: &str,
) {
    let why = Room::of(FINDINGS_BYTES_MAX).text(why, usize::MAX);
    settle(draft, planning, PlanningStatus::Refused, &why);
    overseeing::after_replan(draft, policy, assignment, &format!("replan did not help: {why}"));
}
