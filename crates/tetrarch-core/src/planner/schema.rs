//! The JSON Schemas of the planner's answers (spec 05, The planner). They have less than plan files have: a
//! model names no programs, tools, budgets or places.

use serde_json::{Value, json};

use crate::limits::{LIST_MAX, PLANNER_LIST_MAX};

use super::{Bounds, Purpose};

/// The keys of a plan.
pub(super) const PLAN: &[&str] = &["phases", "output"];
/// The keys of a phase.
pub(super) const PHASE: &[&str] = &["id", "name", "objective", "deps", "tasks"];
/// The keys of a task; a subtask has all but the last.
pub(super) const TASK: &[&str] =
    &["id", "name", "objective", "acceptance", "definitionOfDone", "keyFacts", "deps", "subtasks"];
/// The keys of a cut.
pub(super) const SPLIT: &[&str] = &["diagnosis", "subtasks"];
/// The keys of a part of a cut.
pub(super) const PART: &[&str] =
    &["name", "objective", "acceptance", "definitionOfDone", "keyFacts", "after"];

/// The JSON Schema (draft 2020-12) of the answer for a purpose.
#[must_use]
pub fn answer(purpose: Purpose, bounds: Bounds) -> Value {
    let mut schema = match purpose {
        Purpose::Plan => plan(bounds),
        Purpose::Split => split(bounds),
    };
    // Its hash does not depend on how it is written down here.
    schema.sort_all_objects();
    schema
}

fn plan(bounds: Bounds) -> Value {
    let node = |id: &str| {
        let mut fields = words();
        fields["id"] = json!({ "type": "string", "pattern": id });
        fields["deps"] = json!({
            "type": "array", "maxItems": LIST_MAX, "items": { "type": "string" },
            "description": "Ids of phases, tasks or subtasks that have to be done first.",
        });
        fields
    };
    let required = json!(["id", "name", "acceptance"]);
    let subtask = object(&node("^S[1-9][0-9]*[.][1-9][0-9]*[.][1-9][0-9]*$"), &required);
    let mut task = node("^T[1-9][0-9]*[.][1-9][0-9]*$");
    task["subtasks"] = list(&subtask, 0, bounds.subtasks);
    let mut phase = node("^P[1-9][0-9]*$");
    if let Value::Object(fields) = &mut phase {
        fields.retain(|key, _| PHASE.contains(&key.as_str()));
    }
    phase["tasks"] = list(&object(&task, &required), 1, bounds.tasks);
    let fields = json!({
        "phases": list(&object(&phase, &json!(["id", "name", "tasks"])), 1, bounds.phases),
        "output": { "type": "string", "description": "The leaf whose result is the goal's." },
    });
    titled("PlannerPlan", "A plan as the planner proposes it.", &fields, &json!(["phases"]))
}

fn split(bounds: Bounds) -> Value {
    let mut part = words();
    part["after"] = json!({
        "type": "array", "maxItems": bounds.subtasks,
        "items": { "type": "integer", "minimum": 1, "maximum": bounds.subtasks },
        "description": "Places of earlier subtasks that have to be done first, from 1.",
    });
    let part = object(&part, &json!(["name", "objective", "acceptance"]));
    let fields = json!({
        "diagnosis": { "type": "string", "minLength": 1, "description": "What holds the task up." },
        "subtasks": list(&part, 0, bounds.subtasks),
    });
    let required = json!(["diagnosis", "subtasks"]);
    titled("PlannerSplit", "How the planner would cut a task.", &fields, &required)
}

/// What every node says in words.
fn words() -> Value {
    let text = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    let texts = |least: usize, about: &str| {
        json!({
            "type": "array", "minItems": least, "maxItems": PLANNER_LIST_MAX,
            "items": { "type": "string", "minLength": 1 }, "description": about,
        })
    };
    json!({
        "name": text("What it is, in one line."),
        "objective": text("What is to be done, for an agent that knows nothing else."),
        "acceptance": texts(1, "How one can tell that it is done."),
        "definitionOfDone": text("When the agent may call itself done."),
        "keyFacts": texts(0, "What the agent has to know besides."),
    })
}

fn object(fields: &Value, required: &Value) -> Value {
    json!({
        "type": "object", "properties": fields, "required": required, "additionalProperties": false,
    })
}

fn list(of: &Value, least: usize, most: usize) -> Value {
    json!({ "type": "array", "items": of, "minItems": least, "maxItems": most })
}

fn titled(title: &str, about: &str, fields: &Value, required: &Value) -> Value {
    let mut schema = object(fields, required);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema["description"] = json!(about);
    schema
}
