//! What an ended run means for its node: done, under review, tried again or blocked (spec 05;
//! spec 06, A reviewer).

use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::brief::{Evidence, Judgement, Outcome, RunResult, Verdict};
use crate::ledger::EventKind;
use crate::limits::FINDINGS_BYTES_MAX;
use crate::plan::{ATTEMPTS_EXHAUSTED, Blocker, NodeResult, NodeStatus, STOPPED};
use crate::run::Run;
use crate::step::Draft;

use super::{crystallizing, is_closed, move_assignment, move_node, waiting};
use crate::fit::Room;
use crate::owner::{conversing, judging};

/// What a node's history says of why an attempt failed, in bytes; its findings say the rest.
const CAUSE_BYTES_MAX: usize = 200;
/// Why a node is cancelled whose agent was stopped from above.
const STOPPED_BY_PARENT: &str = "stopped by its parent";
const MORE_ATTEMPTS: &str = "another way to do it, or more attempts";

/// What an ended run means for its node: done, under review, tried again or blocked; what it hands over
/// is kept. A reviewer's verdict is told as such, and the work's own handoff stays.
pub(in crate::owner) fn end_attempt(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let Some(assignment) = draft.assignment(run.assignment).cloned() else { return };
    let purpose = assignment.purpose;
    conclude(draft, run, assignment, result);
    conversing::heard(draft, run.epic);
    if purpose == Purpose::Execute {
        crystallizing::of_result(draft, run, result);
    }
}

fn conclude(draft: &mut Draft<'_>, run: &Run, assignment: Assignment, result: &RunResult) {
    let purpose = assignment.purpose;
    let succeeded = result.outcome == Outcome::Success;
    let status = if succeeded { AssignmentStatus::Done } else { AssignmentStatus::Cancelled };
    let dropped = !succeeded && is_dropped(draft, run);
    let why = if dropped { STOPPED_BY_PARENT } else { result.outcome.as_str() };
    move_assignment(draft, assignment, status, why);
    if is_closed(draft, run.epic) {
        return cancel(draft, run, "its goal is not worked on any more");
    }
    if dropped {
        cancel(draft, run, STOPPED_BY_PARENT);
        return waiting::tell(draft, run.epic, run.node, STOPPED_BY_PARENT);
    }
    if result.outcome == Outcome::Cancelled {
        stopped(draft, run, &noted(std::slice::from_ref(&result.error)).concat());
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

/// Whether an agent above stopped the run: it does not want the work any more.
pub(super) fn is_dropped(draft: &Draft<'_>, run: &Run) -> bool {
    draft.run_status(run.id).is_some_and(|status| status.dropped)
}

/// Work that nobody wants any more.
pub(super) fn cancel(draft: &mut Draft<'_>, run: &Run, why: &str) {
    move_node(draft, run.epic, run.node, NodeStatus::Cancelled, why, |state| {
        state.assignment = None;
        state.assignee = None;
    });
}

/// Work whose agent was stopped. Trying it again would undo the stop.
pub(super) fn stopped(draft: &mut Draft<'_>, run: &Run, why: &str) {
    block(draft, run, STOPPED, why, "somebody who puts it back in the queue");
}

/// Finished work: done at once, or kept for a reviewer.
fn accept_work(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let reviewed = draft.node(run.epic, run.node).is_some_and(|node| node.review.is_some());
    let kept = NodeResult {
        run: Some(run.id),
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
    let words = noted(&findings(verdict)).join("; ");
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
        return no_verdict(draft, run, result);
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

/// A review that came to nothing is made again; the work stays under review.
fn no_verdict(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let judgement = judging::is_judgement(draft, run);
    if judgement {
        judging::tell_none(draft, run, result);
    }
    let exhausted = draft
        .node(run.epic, run.node)
        .zip(draft.node_state(run.epic, run.node))
        .is_some_and(|(node, state)| state.attempts >= node.max_attempts);
    if exhausted && !judgement {
        let error = noted(std::slice::from_ref(&result.error)).concat();
        let detail = format!("the reviewer gave no verdict: {error}");
        block(draft, run, ATTEMPTS_EXHAUSTED, &detail, MORE_ATTEMPTS);
        return;
    }
    move_node(draft, run.epic, run.node, NodeStatus::InProgress, "no verdict", |state| {
        state.attempts += u32::from(!judgement);
        state.assignment = None;
        state.assignee = None;
    });
}

/// What a node keeps of what was found; the whole of it stands with the run that found it.
fn noted(found: &[String]) -> Vec<String> {
    Room::of(FINDINGS_BYTES_MAX).list(found)
}

/// A failed attempt: queued again with what was found, or blocked when attempts are used up.
fn fail_attempt(draft: &mut Draft<'_>, run: &Run, why: &str, found: Vec<String>) {
    let found = noted(&found);
    let Some(state) = draft.node_state(run.epic, run.node) else { return };
    let attempts = state.attempts;
    let limit = draft.node(run.epic, run.node).map_or(0, |node| node.max_attempts);
    if attempts >= limit {
        let detail = format!("{attempts} of {limit} attempts: {why}: {}", found.join("; "));
        block(draft, run, ATTEMPTS_EXHAUSTED, &detail, MORE_ATTEMPTS);
        return;
    }
    let cause = found.first().and_then(|first| first.lines().next()).unwrap_or_default();
    let cause = Room::of(CAUSE_BYTES_MAX).text(cause, CAUSE_BYTES_MAX);
    let why = if cause.is_empty() { why.to_owned() } else { format!("{why}: {cause}") };
    move_node(draft, run.epic, run.node, NodeStatus::Queued, &why, |state| {
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
