//! Reading what a planner answered. Whatever the text is, what comes out is a plan by the rules of plan
//! files, or a list of what is wrong with it, for the model to correct.

use serde_json::{Map, Value, json};

use crate::goal::Goal;
use crate::id::{NodeId, Tier};
use crate::limits::{PLANNER_ANSWER_BYTES_MAX, PLANNER_LIST_MAX, SUMMARY_BYTES_MAX};
use crate::plan::Node;
use crate::plan::schema::{self as plan_file, PlanFile};

use super::schema::{PART, PHASE, PLAN, SPLIT, TASK};
use super::{Bounds, Planning};

/// An answer that is valid.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A plan for the goal.
    Plan(Box<PlanFile>),
    /// What holds the task up, and the subtasks that replace it; none when cutting it would not help.
    /// They have their ids, their words and what they wait for; the rest is the task's.
    Split(String, Vec<Node>),
}

/// Reads the JSON that an answer is: the whole text, or its last fenced `json` block.
///
/// # Errors
/// It is too long, or no JSON object.
pub fn json_of(text: &str) -> Result<Value, Vec<String>> {
    if text.len() > PLANNER_ANSWER_BYTES_MAX {
        let size = text.len();
        let bound = PLANNER_ANSWER_BYTES_MAX;
        return Err(vec![format!("the answer has {size} bytes; the limit is {bound} bytes")]);
    }
    let text = fenced(text).unwrap_or(text).trim();
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(vec!["the answer is not a JSON object".to_owned()]),
        Err(error) => Err(vec![format!("the answer is not JSON: {error}")]),
    }
}

/// What stands in the last fenced `json` block, when one is closed.
fn fenced(text: &str) -> Option<&str> {
    let begin = text.rfind("```json")? + "```json".len();
    let rest = &text[begin..];
    rest.find("```").map(|end| &rest[..end])
}

/// Reads the JSON of an answer to a question.
///
/// # Errors
/// Everything that is wrong with it, each with its place and what is allowed.
pub fn read(planning: &Planning, bounds: Bounds, value: &Value) -> Result<Answer, Vec<String>> {
    if !value.is_object() {
        return Err(vec!["the answer is not a JSON object".to_owned()]);
    }
    match (&planning.goal, planning.node) {
        (Some(goal), _) => read_plan(value, goal, bounds).map(|plan| Answer::Plan(Box::new(plan))),
        (None, Some(node)) => {
            let (diagnosis, parts) = read_split(value, node, bounds)?;
            Ok(Answer::Split(diagnosis, parts))
        }
        (None, None) => Err(vec!["nothing was asked for".to_owned()]),
    }
}

fn read_plan(value: &Value, goal: &Goal, bounds: Bounds) -> Result<PlanFile, Vec<String>> {
    let mut found = Found::default();
    let tiers = [("phases", PHASE), ("tasks", TASK), ("subtasks", &TASK[..TASK.len() - 1])];
    found.keys(value, "", PLAN);
    found.tiers(value, "", &tiers, &[bounds.phases, bounds.tasks, bounds.subtasks]);
    let mut document = known(value, PLAN, &tiers);
    document["title"] = json!(goal.spec.title);
    // The prompt tells the model that dependencies alone order the work.
    document["phaseOrder"] = json!("parallel");
    let read = plan_file::parse(&document);
    let plan = found.with(read)?;
    Ok(PlanFile { goal: goal.spec.clone(), ..plan })
}

/// Reads a cut by way of a plan file that has nothing else in it.
fn read_split(
    value: &Value,
    node: NodeId,
    bounds: Bounds,
) -> Result<(String, Vec<Node>), Vec<String>> {
    let mut found = Found::default();
    found.keys(value, "", SPLIT);
    found.tiers(value, "", &[("subtasks", PART)], &[bounds.subtasks]);
    let diagnosis = value["diagnosis"].as_str().map(str::trim).unwrap_or_default();
    if diagnosis.is_empty() {
        found.add("diagnosis", "is missing", "what holds the task up, in a few sentences");
    }
    if diagnosis.len() > SUMMARY_BYTES_MAX {
        let problem = format!("has {} bytes", diagnosis.len());
        found.add("diagnosis", &problem, &format!("at most {SUMMARY_BYTES_MAX} bytes"));
    }
    let Some(parts) = value["subtasks"].as_array() else {
        found.add("subtasks", "is missing", "a list of subtasks, empty when cutting is no help");
        return Err(found.0);
    };
    if parts.is_empty() {
        return found.with(Ok((diagnosis.to_owned(), Vec::new())));
    }
    if parts.len() == 1 {
        found.add("subtasks", "has one entry", "none, or two at least");
    }
    if node.tier() != Tier::Task {
        found.add("subtasks", &format!("{node} has no room for subtasks"), "an empty list");
    }
    let phase = node.phase_number();
    let ids: Vec<NodeId> =
        (1..).zip(parts).map(|(n, _)| NodeId::subtask(phase, node.ordinal(), n)).collect();
    let parts: Vec<Value> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| placed(&known(part, PART, &[]), at, &ids, &mut found))
        .collect();
    let document = json!({"title": "a cut", "phases": [{
        "id": NodeId::phase(phase).to_string(), "name": "a cut", "tasks": [
            {"id": node.to_string(), "name": "a cut", "subtasks": parts},
        ],
    }]});
    let read = plan_file::parse(&document).map_err(|mut problems| {
        for problem in &mut problems {
            // The model knows nothing of what stands around its list.
            let inner = problem.path.strip_prefix("phases[0].tasks[0].").map(str::to_owned);
            problem.path = inner.unwrap_or_else(|| "subtasks".to_owned());
        }
        problems
    });
    let nodes = found.with(read)?.nodes;
    Ok((
        diagnosis.to_owned(),
        nodes.into_iter().filter(|part| part.id.tier() == Tier::Subtask).collect(),
    ))
}

/// A part as a plan file has it: with its id, and the ids of those it waits for.
fn placed(part: &Value, at: usize, ids: &[NodeId], found: &mut Found) -> Value {
    let mut fields: Map<String, Value> = part.as_object().cloned().unwrap_or_default();
    let path = format!("subtasks[{at}]");
    if fields.get("objective").is_none() {
        found.add(&format!("{path}.objective"), "is missing", "what is to be done");
    }
    let after = fields.remove("after").unwrap_or_else(|| json!([]));
    let mut deps = Vec::new();
    let places = after.as_array().map(Vec::as_slice).unwrap_or_default();
    if !after.is_array() || places.len() > PLANNER_LIST_MAX {
        found.add(&format!("{path}.after"), "is no list of places", "places of earlier subtasks");
    }
    for place in places.iter().take(PLANNER_LIST_MAX) {
        let index = place.as_u64().and_then(|place| usize::try_from(place).ok()?.checked_sub(1));
        match index.filter(|index| *index < at).and_then(|index| ids.get(index)) {
            Some(id) => deps.push(json!(id.to_string())),
            None => {
                let problem = format!("{place} is no place of an earlier subtask");
                found.add(&format!("{path}.after"), &problem, &format!("1 to {at}"));
            }
        }
    }
    fields.insert("id".to_owned(), json!(ids.get(at).map(ToString::to_string)));
    fields.insert("deps".to_owned(), Value::Array(deps));
    Value::Object(fields)
}

/// A value without the keys that are none of its own, which are told of already: plan files have more.
fn known(value: &Value, keys: &[&str], tiers: &[(&str, &[&str])]) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let own = fields.iter().filter(|(key, _)| keys.contains(&key.as_str()));
    let each = own.map(|(key, value)| {
        let below = tiers.split_first().filter(|((name, _), _)| name == key);
        let value = match (below, value) {
            (Some(((_, keys), tiers)), Value::Array(list)) => {
                list.iter().map(|entry| known(entry, keys, tiers)).collect()
            }
            (_, _) => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(each.collect())
}

/// What was found to be wrong.
#[derive(Debug, Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, path: &str, problem: &str, allowed: &str) {
        self.0.push(format!("{path}: {problem}; allowed: {allowed}"));
    }

    /// Keys that are none of these.
    fn keys(&mut self, value: &Value, path: &str, allowed: &[&str]) {
        let foreign = value.as_object().into_iter().flat_map(Map::keys);
        for key in foreign.filter(|key| !allowed.contains(&key.as_str())) {
            let at = if path.is_empty() { "the answer" } else { path };
            self.add(at, &format!("has the key {key:?}"), &allowed.join(", "));
        }
    }

    /// Looks at lists within lists: their lengths and the keys of their entries.
    fn tiers(&mut self, value: &Value, path: &str, tiers: &[(&str, &[&str])], bounds: &[usize]) {
        let ([(name, keys), below @ ..], [most, rest @ ..]) = (tiers, bounds) else { return };
        let Some(entries) = value[*name].as_array() else { return };
        let dot = if path.is_empty() { "" } else { "." };
        if entries.len() > *most {
            let problem = format!("has {} entries", entries.len());
            self.add(&format!("{path}{dot}{name}"), &problem, &format!("at most {most}"));
        }
        // What is over the bound is wrong already.
        for (at, entry) in entries.iter().take(*most).enumerate() {
            let path = format!("{path}{dot}{name}[{at}]");
            self.keys(entry, &path, keys);
            for (key, value) in entry.as_object().into_iter().flatten() {
                let long = value.as_array().is_some_and(|list| list.len() > PLANNER_LIST_MAX);
                if long && key != "deps" {
                    let allowed = format!("at most {PLANNER_LIST_MAX} entries");
                    self.add(&format!("{path}.{key}"), "is too long", &allowed);
                }
            }
            self.tiers(entry, &path, below, rest);
        }
    }

    /// What was read, unless something is wrong.
    fn with<T>(mut self, read: Result<T, Vec<plan_file::PlanProblem>>) -> Result<T, Vec<String>> {
        match read {
            Ok(read) if self.0.is_empty() => Ok(read),
            Ok(_) => Err(self.0),
            Err(problems) => {
                self.0.extend(problems.iter().map(ToString::to_string));
                Err(self.0)
            }
        }
    }
}
