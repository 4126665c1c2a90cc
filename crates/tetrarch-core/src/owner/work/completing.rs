//! `todo.complete` (spec 05, Status machines): a leaf is done because who works on it says so and shows
//! it, or because somebody who decides on its work does.

use crate::assignment::{AssignmentStatus, Purpose};
use crate::brief::{Evidence, Outcome, RunResult};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, EpicId, Principal};
use crate::ledger::EventKind;
use crate::limits::{LIST_MAX, RESULT_WORDS_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::liveness::Liveness;
use crate::plan::{NodeResult, NodeState, NodeStatus, PlanReason};
use crate::request::work::Completion;
use crate::step::Draft;

use super::{RULE, Sender, leaf, still_open};
use crate::owner::goals::fits;
use crate::owner::{Policy, crystallizing, fit, plans, questions, reports, sessions};

/// Calls a leaf done; says what came of it.
pub(super) fn complete(
    draft: &mut Draft<'_>,
    policy: &Policy,
    (epic, sender): (EpicId, &Sender),
    done: &Completion,
) -> Result<String, Refusal> {
    bounds(done)?;
    still_open(draft, epic)?;
    let state = leaf(draft, epic, done.node)?;
    let own = match sender {
        Sender::Decides(_) => None,
        Sender::Works(agent) => Some(agent),
    };
    if let Some(agent) = own.filter(|agent| state.assignee.as_ref() != Some(agent)) {
        let detail = format!("{agent} does not work on {}", done.node);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let waits = plans::waits_again(draft, epic, done.node);
    match state.status {
        NodeStatus::Queued | NodeStatus::InProgress => {}
        NodeStatus::Blocked if !waits => {}
        status @ (NodeStatus::Todo | NodeStatus::Blocked) => {
            let detail = format!("{} is {status}: what it depends on is not done", done.node);
            return Err(Refusal::new(ErrorCode::Conflict, detail));
        }
        NodeStatus::Done | NodeStatus::Cancelled => {
            let detail = format!("{} is {} already", done.node, state.status);
            return Err(Refusal::new(ErrorCode::Conflict, detail));
        }
    }
    if done.crystallization.is_empty() && done.evidence.is_empty() {
        let detail = format!(
            "{}: done without evidence; give a crystallization, or files, commands, tests or \
             commits that show it",
            done.node
        );
        return Err(Refusal::new(ErrorCode::InvalidPlan, detail));
    }
    match sender {
        Sender::Works(agent) => finish(draft, policy, agent, &state, done),
        Sender::Decides(by) => {
            let by = by.clone();
            override_with(draft, epic, &by, state, done)
        }
    }
}

fn bounds(done: &Completion) -> Result<(), Refusal> {
    let of_plan = |refusal| Refusal { code: ErrorCode::InvalidPlan, ..refusal };
    fits("crystallization", &done.crystallization, SUMMARY_BYTES_MAX).map_err(of_plan)?;
    fits("reason", &done.reason, TEXT_BYTES_MAX).map_err(of_plan)?;
    let Evidence { files, commands, tests, commits } = &done.evidence;
    let lists = [("files", files), ("commands", commands), ("tests", tests), ("commits", commits)];
    let mut bytes = 0;
    for (name, texts) in lists {
        if texts.len() > LIST_MAX {
            let detail =
                format!("evidence.{name}: {} entries; the limit is {LIST_MAX}", texts.len());
            return Err(Refusal::new(ErrorCode::InvalidPlan, detail));
        }
        bytes += texts.iter().map(String::len).sum::<usize>();
    }
    if bytes > RESULT_WORDS_MAX {
        let detail = format!("evidence: {bytes} bytes; the limit is {RESULT_WORDS_MAX}");
        return Err(Refusal::new(ErrorCode::InvalidPlan, detail));
    }
    Ok(())
}

/// Who works on it says that it is done: that is its run's result, reviewed where the plan says so,
/// and its session ends.
fn finish(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    state: &NodeState,
    done: &Completion,
) -> Result<String, Refusal> {
    if state.purpose == Purpose::Review {
        let detail = format!("{} is under review; end with a verdict", done.node);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let Some(agent) = draft.agent(id).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("agent {id} was not found")));
    };
    let Some(work) = &agent.work else {
        return Err(Refusal::new(ErrorCode::Conflict, format!("{id} has no work")));
    };
    let result = RunResult {
        deliverable: done.crystallization.clone(),
        crystallization: done.crystallization.clone(),
        evidence: done.evidence.clone(),
        ..RunResult::ended(Outcome::Success, "")
    };
    reports::end(draft, policy, id, work.run, &fit::result(&result))?;
    sessions::kill(draft, &agent, &format!("it has called {} done", done.node));
    let status = draft.node_state(work.epic, done.node).map(|state| state.status);
    Ok(match status {
        Some(NodeStatus::Done) | None => format!("{} is done", done.node),
        Some(status) => format!("{} is {status}: a reviewer judges it", done.node),
    })
}

/// Somebody who decides on it says that it is done; whoever works on it is ended.
fn override_with(
    draft: &mut Draft<'_>,
    epic: EpicId,
    by: &Principal,
    state: NodeState,
    done: &Completion,
) -> Result<String, Refusal> {
    let id = done.node;
    if done.reason.is_empty() {
        let detail = format!("reason: {id} is not {by}'s own work; give a reason why it is done");
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let why = format!("{by} called it done: {}", done.reason);
    let event =
        draft.event(EventKind::NodeOverride, RULE, format!("{} -> done: {why}", state.status));
    event.epic = Some(epic);
    event.node = Some(id);
    event.agent.clone_from(&state.assignee);
    draft.touch(epic, PlanReason::ManualOverride);
    questions::withdraw_escalated(draft, epic, Some(id), &why);
    let worker = state.assignee.clone().filter(|_| state.assignment.is_some());
    if let Some(agent) = &worker {
        end_work(draft, agent, &why);
    }
    if state.status == NodeStatus::Blocked {
        plans::move_node(draft, epic, id, NodeStatus::Queued, &why, |state| state.blocker = None);
    }
    if state.status != NodeStatus::InProgress {
        plans::move_node(draft, epic, id, NodeStatus::InProgress, &why, |_| {});
    }
    let before = state.result.unwrap_or_else(|| NodeResult {
        run: None,
        deliverable: done.crystallization.clone(),
        artifacts: Vec::new(),
        evidence: Evidence::default(),
        crystallization: String::new(),
    });
    let (crystallization, evidence) = (done.crystallization.clone(), done.evidence.clone());
    let result = NodeResult { crystallization, evidence, ..before };
    plans::move_node(draft, epic, id, NodeStatus::Done, &why, |state| {
        state.assignment = None;
        state.assignee = None;
        state.findings = Vec::new();
        state.result = Some(result);
    });
    if let Some(agent) = &worker {
        sessions::terminate(draft, agent, &why);
    }
    crystallizing::of_completion(draft, epic, done);
    plans::settle(draft, epic);
    Ok(match worker {
        Some(agent) => format!("{id} is done; {agent} is ended"),
        None => format!("{id} is done"),
    })
}

/// Ends a run whose work somebody else has called done; its assignment is.
fn end_work(draft: &mut Draft<'_>, id: &AgentId, why: &str) {
    let Some(agent) = draft.agent(id).cloned() else { return };
    let Some(work) = &agent.work else { return };
    sessions::cancel_below(draft, id, why);
    if agent.liveness != Liveness::Offline {
        sessions::kill(draft, &agent, why);
    }
    sessions::lose_run(draft, id, work.run, why);
    if let Some(assignment) = draft.assignment(work.assignment).cloned() {
        plans::move_assignment(draft, assignment, AssignmentStatus::Done, why);
    }
}
