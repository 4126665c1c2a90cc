//! What work does to its plan: attempts begin and end, nodes become ready, goals are reached
//! (spec 05). Statuses only move by the machines of `plan`, `assignment` and `goal`.

use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::brief::{Evidence, Judgement, Outcome, RunResult, Verdict};
use crate::error::{ErrorCode, Refusal};
use crate::goal::{Goal, GoalResult, GoalState, GoalStatus};
use crate::id::{AgentId, EpicId, NodeId, PlanId, Principal, ProjectName};
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::plan::schema::PlanFile;
use crate::plan::{
    ATTEMPTS_EXHAUSTED, Blocker, NodeChange, NodeResult, NodeState, NodeStatus, Plan, PlanReason,
    PlanSource, graph, rollup,
};
use crate::request::Request;
use crate::run::Run;
use crate::step::Draft;

/// The blocker of a node whose run was stopped.
const STOPPED: &str = "stopped";
const MORE_ATTEMPTS: &str = "another way to do it, or more attempts";

/// Moves a node, when the table allows it, and lets the caller change what goes with it.
pub(super) fn move_node(
    draft: &mut Draft<'_>,
    epic: EpicId,
    id: NodeId,
    to: NodeStatus,
    why: &str,
    change: impl FnOnce(&mut NodeState),
) {
    let Some(mut state) = draft.node_state(epic, id).cloned() else { return };
    let from = state.status;
    change(&mut state);
    if from != to {
        if from.to(to, state.result.is_some()).is_err() {
            return;
        }
        state.status = to;
        state.since = draft.now;
        let event = draft.event(
            EventKind::NodeStatus,
            "05 Status machines",
            format!("{from} -> {to}: {why}"),
        );
        event.epic = Some(epic);
        event.node = Some(id);
    }
    draft.put(Record::NodeState(epic, Box::new(state)));
    let reason = match to {
        NodeStatus::InProgress => PlanReason::Spawn,
        NodeStatus::Todo
        | NodeStatus::Queued
        | NodeStatus::Blocked
        | NodeStatus::Done
        | NodeStatus::Cancelled => PlanReason::TaskCompletion,
    };
    let change = NodeChange { node: id, from: Some(from), to, why: why.to_owned() };
    draft.touch(epic, reason).changes.push(change);
}

/// Moves an assignment, when the table allows it.
pub(super) fn move_assignment(
    draft: &mut Draft<'_>,
    mut assignment: Assignment,
    to: AssignmentStatus,
    why: &str,
) {
    let from = assignment.status;
    if from.to(to, true).is_err() {
        return;
    }
    assignment.status = to;
    why.clone_into(&mut assignment.reason);
    assignment.updated = draft.now;
    let (epic, node, agent) = (assignment.epic, assignment.node, assignment.agent.clone());
    draft.put(Record::Assignment(Box::new(assignment)));
    let reason = format!("{from} -> {to}: {why}");
    let event = draft.event(EventKind::AssignmentStatus, "05 Status machines", reason);
    event.epic = Some(epic);
    event.node = Some(node);
    event.agent = Some(agent);
}

/// What an ended run means for its node: done, under review, tried again or blocked.
pub(super) fn end_attempt(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let Some(assignment) = draft.assignment(run.assignment).cloned() else { return };
    let purpose = assignment.purpose;
    let succeeded = result.outcome == Outcome::Success;
    let status = if succeeded { AssignmentStatus::Done } else { AssignmentStatus::Cancelled };
    move_assignment(draft, assignment, status, result.outcome.as_str());
    if result.outcome == Outcome::Cancelled {
        // Trying again what somebody has just stopped would undo the stop.
        let needs = "somebody who puts it back in the queue";
        block(draft, run, STOPPED, &result.error, needs);
        return;
    }
    match purpose {
        Purpose::Execute if succeeded => accept_work(draft, run, result),
        Purpose::Execute => {
            let finding = if result.error.is_empty() { "it failed" } else { &result.error };
            fail_attempt(draft, run, "the attempt failed", vec![finding.to_owned()]);
        }
        Purpose::Review => judge(draft, run, result),
    }
}

/// Finished work: done at once, or kept for a reviewer.
fn accept_work(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let reviewed = draft.node(run.epic, run.node).is_some_and(|node| node.review.is_some());
    let kept = NodeResult {
        run: run.id,
        deliverable: result.deliverable.clone(),
        artifacts: result.artifacts.clone(),
        evidence: result.evidence.clone(),
        crystallization: crystallize(result),
    };
    // A verdict that is a plan node of its own: its findings fail the review itself.
    if let Some(verdict) = &result.verdict
        && verdict.judgement != Judgement::Pass
    {
        note_verdict(draft, run, verdict);
        fail_attempt(draft, run, "the verdict is not pass", findings(verdict));
        return;
    }
    if reviewed {
        move_node(draft, run.epic, run.node, NodeStatus::InProgress, "waits for review", |state| {
            state.purpose = Purpose::Review;
            state.assignment = None;
            state.assignee = None;
            state.result = Some(kept);
        });
        return;
    }
    move_node(draft, run.epic, run.node, NodeStatus::Done, "its run succeeded", |state| {
        state.assignment = None;
        state.result = Some(kept);
        state.findings = Vec::new();
    });
}

/// Something to show is required for `done`: what the program summarised, else its outcome.
fn crystallize(result: &RunResult) -> String {
    if !result.crystallization.is_empty() || result.evidence != Evidence::default() {
        return result.crystallization.clone();
    }
    format!("ended {} with a deliverable of {} bytes", result.outcome, result.deliverable.len())
}

fn note_verdict(draft: &mut Draft<'_>, run: &Run, verdict: &Verdict) {
    let words = findings(verdict).join("; ");
    let reason = format!("{}: {words}", verdict.judgement.as_str());
    let event = draft.event(EventKind::Verdict, "06 A reviewer", reason);
    event.agent = Some(run.agent.clone());
    event.run = Some(run.id);
    event.epic = Some(run.epic);
    event.node = Some(run.node);
}

fn findings(verdict: &Verdict) -> Vec<String> {
    verdict
        .findings
        .iter()
        .map(|finding| format!("{}: {} ({})", finding.place, finding.what, finding.severity))
        .collect()
}

/// A reviewer's result: the verdict settles the node.
fn judge(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let Some(verdict) = &result.verdict else {
        // A review that came to nothing is made again; the work stays under review.
        let exhausted = draft
            .node(run.epic, run.node)
            .zip(draft.node_state(run.epic, run.node))
            .is_some_and(|(node, state)| state.attempts >= node.max_attempts);
        if exhausted {
            let detail = format!("the reviewer gave no verdict: {}", result.error);
            block(draft, run, ATTEMPTS_EXHAUSTED, &detail, MORE_ATTEMPTS);
        } else {
            move_node(draft, run.epic, run.node, NodeStatus::InProgress, "no verdict", |state| {
                state.attempts += 1;
                state.assignment = None;
                state.assignee = None;
            });
        }
        return;
    };
    note_verdict(draft, run, verdict);
    if verdict.judgement == Judgement::Pass {
        move_node(draft, run.epic, run.node, NodeStatus::Done, "the verdict is pass", |state| {
            state.assignment = None;
            state.assignee = None;
            state.findings = Vec::new();
        });
    } else {
        fail_attempt(draft, run, "the verdict is not pass", findings(verdict));
    }
}

/// A failed attempt: queued again with what was found, or blocked when attempts are used up.
pub(super) fn fail_attempt(draft: &mut Draft<'_>, run: &Run, why: &str, found: Vec<String>) {
    let Some(state) = draft.node_state(run.epic, run.node) else { return };
    let attempts = state.attempts;
    let limit = draft.node(run.epic, run.node).map_or(0, |node| node.max_attempts);
    if attempts >= limit {
        let detail = format!("{attempts} of {limit} attempts: {why}: {}", found.join("; "));
        block(draft, run, ATTEMPTS_EXHAUSTED, &detail, MORE_ATTEMPTS);
        return;
    }
    move_node(draft, run.epic, run.node, NodeStatus::Queued, why, |state| {
        state.assignment = None;
        state.assignee = None;
        state.purpose = Purpose::Execute;
        state.result = None;
        state.findings = found;
    });
}

fn block(draft: &mut Draft<'_>, run: &Run, kind: &str, detail: &str, needs: &str) {
    move_node(draft, run.epic, run.node, NodeStatus::Blocked, kind, |state| {
        state.assignment = None;
        state.assignee = None;
        state.blocker = Some(Blocker {
            kind: kind.to_owned(),
            detail: detail.to_owned(),
            needs: needs.to_owned(),
        });
    });
}

/// Blocks a ready node at the request of its project's orchestrator or a human.
///
/// # Errors
/// No such node, another project's, or one that is not ready.
pub(super) fn block_ready(
    draft: &mut Draft<'_>,
    request: &Request,
    epic: EpicId,
    id: NodeId,
    blocker: &Blocker,
) -> Result<(), Refusal> {
    let goal = draft.base().goals.get(&epic);
    let goal = goal.ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("no epic {epic}")))?;
    if request.sender.from.agent().is_some() {
        let sender = super::current(draft, &request.sender)?;
        if sender.id != AgentId::Po(goal.project.clone()) {
            let detail = format!("{} does not orchestrate {}", sender.id, goal.project);
            return Err(Refusal::new(ErrorCode::Unauthorized, detail));
        }
    }
    let state = draft.node_state(epic, id);
    let state = state
        .ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("{epic} has no leaf {id}")))?;
    if state.status != NodeStatus::Queued || state.assignment.is_some() {
        let detail = format!("{id} is {}, only a queued node is blocked so", state.status);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    move_node(draft, epic, id, NodeStatus::Blocked, &blocker.kind, |state| {
        state.blocker = Some(blocker.clone());
    });
    settle(draft, epic);
    Ok(())
}

/// Ends the work of an agent that is not to go on: nobody wants its node any more.
pub(super) fn abandon(draft: &mut Draft<'_>, run: &Run, why: &str) {
    if let Some(assignment) = draft.assignment(run.assignment).cloned() {
        move_assignment(draft, assignment, AssignmentStatus::Cancelled, why);
    }
    move_node(draft, run.epic, run.node, NodeStatus::Cancelled, why, |state| {
        state.assignment = None;
        state.assignee = None;
    });
    settle(draft, run.epic);
}

/// Derives what follows from moved nodes: what is ready now, how far the goal is, whether it
/// is reached. Called once at the end of every decision that moved a node.
pub(super) fn settle(draft: &mut Draft<'_>, epic: EpicId) {
    let nodes = draft.nodes(epic);
    let ready = graph::newly_ready(&nodes, &draft.leaf_statuses(epic));
    for id in ready {
        move_node(draft, epic, id, NodeStatus::Queued, "all it depends on is done", |_| {});
    }
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let rollup = rollup::rollup(&draft.leaf_statuses(epic), &ids);
    let Some(mut state) = draft.goal_state(epic).cloned() else { return };
    let derived = rollup.goal.status();
    let moved = derived != state.status
        && derived != GoalStatus::Active
        && state.status.to(derived).is_ok();
    if moved {
        let reason = format!("{} -> {derived}: roll-up", state.status);
        draft.event(EventKind::GoalStatus, "05 Roll-up", reason).epic = Some(epic);
        state.status = derived;
        state.since = draft.now;
    }
    if moved || state.percent != rollup.percent {
        state.percent = rollup.percent;
        draft.put(Record::GoalState(Box::new(state)));
    }
}

/// Whether the goal is worked on: nothing new starts while it is paused or ended.
pub(super) fn is_open(draft: &Draft<'_>, epic: EpicId) -> bool {
    draft.goal_state(epic).is_some_and(|state| state.status == GoalStatus::Active)
}

/// Creates a goal with its plan, version 1, and hands it to the project's orchestrator.
///
/// # Errors
/// The project is unknown, retired or somebody else's.
pub(super) fn create_goal(
    draft: &mut Draft<'_>,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    plan: &PlanFile,
) -> Result<(), Refusal> {
    let po = AgentId::Po(project.clone());
    let known = draft.base().projects.get(project).filter(|project| !project.retired);
    if known.is_none() || draft.agent(&po).is_none() {
        let detail = format!("no project {project}; create it with op `project.create`");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    }
    if owner.agent().is_some_and(|agent| *agent != po && *agent != AgentId::Go) {
        let detail = format!("{owner} may not give goals to {project}");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    put_goal(draft, epic, project, owner, plan);
    for profile in &plan.profiles {
        draft.put(Record::Profile(project.clone(), Box::new(profile.clone())));
    }
    for node in &plan.nodes {
        draft.put(Record::Node(epic, Box::new(node.clone())));
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

fn put_goal(
    draft: &mut Draft<'_>,
    epic: EpicId,
    project: &ProjectName,
    owner: &Principal,
    plan: &PlanFile,
) {
    let now = draft.now;
    draft
        .event(EventKind::GoalCreated, "05 Records", format!("{:?} for {project}", plan.title))
        .epic = Some(epic);
    draft.put(Record::Goal(Box::new(Goal {
        id: epic,
        project: project.clone(),
        title: plan.title.clone(),
        problem_statement: plan.problem_statement.clone(),
        success_criteria: plan.success_criteria.clone(),
        non_goals: plan.non_goals.clone(),
        constraints: plan.constraints.clone(),
        tags: plan.tags.clone(),
        owner: owner.clone(),
        created: now,
    })));
    draft.put(Record::GoalState(Box::new(GoalState {
        id: epic,
        status: GoalStatus::Active,
        percent: 0,
        result: None,
        since: now,
    })));
    let seed = draft.seed("goal");
    draft.put(Record::Plan(Box::new(Plan {
        epic,
        id: PlanId::derive(now, &seed, "plan", 0),
        project: project.clone(),
        version: 0,
        source: PlanSource::Overseer,
        reason: PlanReason::InitialCreate,
        output: plan.output,
        trace: draft.trace.clone(),
        created: now,
        updated: now,
    })));
}

/// Gives a leaf its first state.
pub(super) fn put_leaf(draft: &mut Draft<'_>, epic: EpicId, id: NodeId) {
    let since = draft.now;
    draft.put(Record::NodeState(
        epic,
        Box::new(NodeState {
            id,
            status: NodeStatus::Todo,
            assignee: None,
            assignment: None,
            purpose: Purpose::Execute,
            attempts: 0,
            findings: Vec::new(),
            blocker: None,
            result: None,
            since,
        }),
    ));
}

/// Books what a project's orchestrator put together for an epic.
///
/// # Errors
/// The epic is unknown or of another project.
pub(super) fn book_goal_result(
    draft: &mut Draft<'_>,
    epic: EpicId,
    sender: &AgentId,
    result: &RunResult,
) -> Result<(), Refusal> {
    let goal = draft.base().goals.get(&epic);
    let own = goal.is_some_and(|goal| *sender == AgentId::Po(goal.project.clone()));
    let (true, Some(mut state)) = (own, draft.goal_state(epic).cloned()) else {
        let detail = format!("{epic} is no epic of {sender}");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
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
    draft.touch(epic, PlanReason::TaskCompletion);
    Ok(())
}
