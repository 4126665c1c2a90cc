//! What the planner is told of a goal and of a task, bounded (spec 05, The planner).

use serde_json::{Value, json};

use crate::assignment::Assignment;
use crate::fit::Room;
use crate::goal::{Goal, Risk};
use crate::limits::{
    JOURNAL_WORDS_BYTES_MAX, PLANNER_INPUT_BYTES_MAX, REPO_CONTEXT_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::plan::Node;
use crate::planner::Bounds;
use crate::step::Draft;

/// What the model is told of a goal, bounded.
pub(super) fn goal_inputs(goal: &Goal, bounds: Bounds) -> String {
    let mut room = Room::of(PLANNER_INPUT_BYTES_MAX);
    let goal = &goal.spec;
    let title = room.text(&goal.title, TEXT_BYTES_MAX / 2);
    let risks: Vec<Value> = goal.risks.iter().map(|risk| risk_told(risk, &mut room)).collect();
    let told = json!({
        "goal": {
            "title": title,
            "problemStatement": room.text(&goal.problem_statement, TEXT_BYTES_MAX / 2),
            "successCriteria": room.list(&goal.success_criteria),
            "constraints": room.list(&goal.constraints),
            "nonGoals": room.list(&goal.non_goals),
            "assumptions": room.list(&goal.assumptions),
            "risks": risks,
            "repoContextSnapshot": room.text(&goal.repo_context, REPO_CONTEXT_BYTES_MAX),
        },
        "bounds": {
            "phases": bounds.phases, "tasksOfPhase": bounds.tasks, "subtasksOfTask": bounds.subtasks,
        },
    });
    told.to_string()
}

fn risk_told(risk: &Risk, room: &mut Room) -> Value {
    let mut text = |text: &str| room.text(text, TEXT_BYTES_MAX / 4);
    json!({
        "risk": text(&risk.risk), "impact": text(&risk.impact), "mitigation": text(&risk.mitigation),
    })
}

/// What the model is told of a task that stands still, bounded.
pub(super) fn split_inputs(
    draft: &Draft<'_>,
    assignment: &Assignment,
    node: &Node,
    (why, words): (&str, &[String]),
) -> String {
    let mut room = Room::of(PLANNER_INPUT_BYTES_MAX / 3);
    let state = draft.node_state(assignment.epic, assignment.node);
    let goal = draft.base().goals.get(&assignment.epic);
    let title = goal.map_or("", |goal| goal.spec.title.as_str());
    let findings = state.map(|state| state.findings.clone()).unwrap_or_default();
    let told = json!({
        "task": task_told(node),
        "goal": {
            "title": room.text(title, TEXT_BYTES_MAX / 8),
            "successCriteria": goal.map(|goal| room.list(&goal.spec.success_criteria)),
        },
        "attempt": assignment.attempt,
        "standsStill": room.text(why, TEXT_BYTES_MAX / 8),
        "earlierFindings": room.list(&findings),
        "journal": Room::of(JOURNAL_WORDS_BYTES_MAX).list(words),
    });
    told.to_string()
}

/// The part of a task's definition that a cut is made for.
pub(super) fn task_told(node: &Node) -> Value {
    let mut room = Room::of(PLANNER_INPUT_BYTES_MAX / 3 * 2);
    json!({
        "id": node.id.to_string(),
        "name": room.text(&node.name, TEXT_BYTES_MAX / 4),
        "objective": room.text(&node.objective, TEXT_BYTES_MAX / 2),
        "acceptance": room.list(&node.acceptance),
        "expectedOutcome": room.text(&node.expected_outcome, TEXT_BYTES_MAX / 4),
        "definitionOfDone": room.text(&node.definition_of_done, TEXT_BYTES_MAX / 4),
        "keyFacts": room.list(&node.key_facts),
    })
}
