//! The last rung (spec 05, The tick): people are asked, and the attempt ends with the question, since
//! whoever thinks about it may take days and the slot is others' meanwhile. The answer puts the node
//! back in the queue, and whoever is next gets it with its brief (docs/decisions/0023).

use std::fmt::Write as _;

use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use crate::id::{DispatchId, EpicId, NodeId, Principal, QuestionId, sha256_hex};
use crate::limits::{FINDINGS_BYTES_MAX, INSTRUCTION_BYTES_MAX, TEXT_BYTES_MAX};
use crate::liveness::Liveness;
use crate::overseer::Rung;
use crate::plan::{Blocker, ESCALATED, Node, NodeStatus, PlanReason};
use crate::question::{Question, QuestionStatus};
use crate::step::Draft;

use super::{conclude, note};
use crate::owner::{fit, plans, questions, sessions};

/// The answer by which the node is tried again as it is.
const AGAIN: &str = "try again";
/// The answer by which the node is given up.
const CANCEL: &str = "cancel";
/// Dispatches that a question tells of.
const TOLD: usize = 10;

/// Asks the goal's owner; the attempt ends.
pub(super) fn escalate(draft: &mut Draft<'_>, assignment: Assignment, why: &str) {
    let Some(agent) = draft.agent(&assignment.agent).cloned() else { return };
    let owner = draft.base().goals.get(&assignment.epic).map(|goal| goal.owner.clone());
    let Some(to) = owner else { return };
    let why = fit::Room::of(TEXT_BYTES_MAX).text(why, usize::MAX);
    conclude(draft, &assignment, DispatchOutcome::Timeout);
    let id = QuestionId::derive(draft.now, &assignment.id.to_string(), "escalate", 0);
    let question = Question {
        id,
        agent: assignment.agent.clone(),
        run: assignment.run,
        epic: assignment.epic,
        node: assignment.node,
        escalates: Some(assignment.id),
        to,
        text: words(draft, &assignment, &why),
        options: vec![AGAIN.to_owned(), CANCEL.to_owned()],
        status: QuestionStatus::Open,
        answer: String::new(),
        answered_by: None,
        asked: draft.now,
        since: draft.now,
    };
    if agent.liveness != Liveness::Offline {
        sessions::kill(draft, &agent, &why);
    }
    sessions::lose_run(draft, &agent.id, assignment.run, &why);
    let dispatch = sent(draft, &assignment, &question);
    block(draft, assignment, (id, dispatch), &why);
    sessions::terminate(draft, &agent.id, &why);
    let epic = question.epic;
    questions::put_to(draft, question);
    plans::settle(draft, epic);
}

/// Keeps the question as what was sent last.
fn sent(draft: &mut Draft<'_>, assignment: &Assignment, question: &Question) -> DispatchId {
    let id = DispatchId::derive(draft.now, &assignment.id.to_string(), "escalate", 0);
    let dispatch = Dispatch {
        id,
        assignment: assignment.id,
        at: draft.now,
        mode: DispatchMode::Escalate,
        rung: Some(Rung::Escalate),
        to: question.to.clone(),
        session: None,
        text: fit::Room::of(TEXT_BYTES_MAX).text(&question.text, usize::MAX),
        hash: sha256_hex(question.text.as_bytes()),
        outcome: DispatchOutcome::Accepted,
        run: Some(assignment.run),
        notes: question.id.to_string(),
    };
    note(draft, dispatch);
    id
}

/// The assignment is blocked by the question and ends with its attempt; the node waits for the answer.
fn block(
    draft: &mut Draft<'_>,
    mut assignment: Assignment,
    (id, dispatch): (QuestionId, DispatchId),
    why: &str,
) {
    let (epic, node, of) = (assignment.epic, assignment.node, assignment.id);
    assignment.recovery.dispatch = Some(dispatch);
    assignment.recovery.dispatched = draft.now;
    assignment.recovery.consumed = false;
    let asked = format!("escalated as {id}");
    plans::move_assignment(draft, assignment, AssignmentStatus::Blocked, &asked);
    if let Some(blocked) = draft.assignment(of).cloned() {
        let ends = format!("its attempt ends with {id}");
        plans::move_assignment(draft, blocked, AssignmentStatus::Cancelled, &ends);
    }
    plans::move_node(draft, epic, node, NodeStatus::Blocked, &asked, |state| {
        state.assignment = None;
        state.assignee = None;
        state.blocker =
            Some(Blocker { kind: ESCALATED.to_owned(), detail: why.to_owned(), needs: needs(id) });
    });
}

fn needs(id: QuestionId) -> String {
    format!("an answer to {id}")
}

/// Who, since when, and what was tried.
fn words(draft: &Draft<'_>, assignment: &Assignment, why: &str) -> String {
    let Assignment { agent, node, attempt, created, .. } = assignment;
    let name = draft.node(assignment.epic, *node).map_or("", |node| node.name.as_str());
    let since = draft.now - *created;
    let mut text = format!(
        "{node} ({name}) does not go on: {why}. {agent} worked on it for {since}, attempt {attempt}."
    );
    let sent: Vec<DispatchId> = draft.base().dispatched_for(assignment.id).collect();
    let tried = sent.iter().rev().take(TOLD).rev().filter_map(|id| draft.dispatch(*id));
    let tried = tried.filter(|dispatch| dispatch.rung.is_some()).map(|dispatch| {
        let ago = draft.now - dispatch.at;
        let what = match dispatch.mode {
            DispatchMode::Planner => "the planner",
            DispatchMode::Mail | DispatchMode::Spawn | DispatchMode::Escalate => "a status request",
        };
        format!("{what} {ago} ago ({})", became(dispatch.outcome))
    });
    let tried: Vec<String> = tried.collect();
    if !tried.is_empty() {
        // Writing to a text cannot fail.
        let _written = write!(text, " Tried: {}.", tried.join(", "));
    }
    // Writing to a text cannot fail.
    let _written = write!(
        text,
        " It was stopped. `{AGAIN}` gives it to another agent as it is, `{CANCEL}` gives it up, and any \
         other answer is told to whoever works on it next."
    );
    fit::Room::of(INSTRUCTION_BYTES_MAX).text(&text, usize::MAX)
}

/// What came of a status request, for people.
fn became(outcome: DispatchOutcome) -> &'static str {
    match outcome {
        DispatchOutcome::Ok => "it was read",
        DispatchOutcome::Accepted | DispatchOutcome::Timeout => "it was not read",
        DispatchOutcome::Error => "its session ended before it was read",
    }
}

/// An escalation was answered: the node is tried again, with one more attempt where they were used up,
/// or given up.
pub(in crate::owner) fn answered(
    draft: &mut Draft<'_>,
    question: &Question,
    by: &Principal,
    text: &str,
) {
    let (epic, id) = (question.epic, question.node);
    let waits = draft.node_state(epic, id).cloned().filter(|state| {
        let blocker = state.blocker.as_ref();
        let own = blocker.is_some_and(|blocker| blocker.needs == needs(question.id));
        state.status == NodeStatus::Blocked && own
    });
    if waits.is_none() {
        return;
    }
    draft.touch(epic, PlanReason::ManualOverride);
    let why = format!("{by} answered {}", question.id);
    if text.trim() == CANCEL {
        plans::move_node(draft, epic, id, NodeStatus::Cancelled, &why, |_| {});
        plans::settle(draft, epic);
        return;
    }
    try_again(draft, (epic, id), &why, Some(format!("{by} answered: {text}")));
}

/// Puts a blocked leaf back in the queue, with one more attempt where they were used up. What was said
/// is told to whoever works on it next, then what blocked it.
pub(in crate::owner) fn try_again(
    draft: &mut Draft<'_>,
    (epic, id): (EpicId, NodeId),
    why: &str,
    said: Option<String>,
) {
    let Some(state) = draft.node_state(epic, id).cloned() else { return };
    draft.touch(epic, PlanReason::ManualOverride);
    if let Some(node) = draft.node(epic, id).cloned()
        && state.attempts >= node.max_attempts
    {
        let node = Node { max_attempts: state.attempts + 1, ..node };
        plans::define(draft, epic, &node);
        draft.touch(epic, PlanReason::ManualOverride).defined.push(id);
    }
    let before = state.blocker.map(|blocker| blocker.detail);
    let found: Vec<String> = said.into_iter().chain(before).collect();
    let found = fit::Room::of(FINDINGS_BYTES_MAX).list(&found);
    plans::move_node(draft, epic, id, NodeStatus::Queued, why, |state| {
        state.blocker = None;
        state.purpose = Purpose::Execute;
        state.result = None;
        state.findings = found;
    });
    plans::settle(draft, epic);
}
