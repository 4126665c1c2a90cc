//! A node as a plan file has it, so that reading it gives the same node.

use serde_json::{Map, Number, Value, json};

use crate::duration;
use crate::goal::Risk;
use crate::plan::change::NewNode;
use crate::plan::schema::recovery::{self, RECOVERY};
use crate::plan::{Node, RiskLevel};
use crate::request::goals::GoalChange;

/// A node that is to be added, as a document; what is as it would be anyhow is left out.
#[must_use]
pub fn written(new: &NewNode) -> Value {
    let node = &new.node;
    let mut fields = Map::new();
    if let Some(id) = new.id {
        fields.insert("id".to_owned(), json!(id.to_string()));
    }
    let texts = [
        ("name", node.name.as_str()),
        ("objective", &node.objective),
        ("expectedOutcome", &node.expected_outcome),
        ("definitionOfDone", &node.definition_of_done),
        ("estimatedEffort", &node.estimated_effort),
        ("riskLevel", node.risk_level.map_or("", RiskLevel::as_str)),
        ("role", node.role.as_str()),
        ("domain", node.domain.as_ref().map_or("", |domain| domain.as_str())),
        ("profile", node.profile.as_ref().map_or("", |profile| profile.as_str())),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        fields.insert(key.to_owned(), json!(text));
    }
    let deps: Vec<String> = node.depends_on.iter().map(ToString::to_string).collect();
    let tools: Vec<String> = node.tools.names().map(ToOwned::to_owned).collect();
    let lists = [
        ("acceptance", &node.acceptance),
        ("deps", &deps),
        ("tools", &tools),
        ("keyFacts", &node.key_facts),
        ("scopePaths", &node.scope_paths),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        fields.insert(key.to_owned(), json!(list));
    }
    if let Some(schema) = &node.output_schema {
        fields.insert("outputSchema".to_owned(), json!(schema));
    }
    if let Some(wall) = node.wall {
        fields.insert("wall".to_owned(), json!(duration::print(wall)));
    }
    fields.insert("maxAttempts".to_owned(), json!(node.max_attempts));
    if let Some(budget) = budget(node) {
        fields.insert("budget".to_owned(), budget);
    }
    if let Some(review) = &node.review {
        let profile = review.profile.as_ref().map(ToString::to_string);
        let review = json!({"domain": review.domain.to_string(), "profile": profile});
        fields.insert("review".to_owned(), review);
    }
    if node.placement != crate::plan::PlacementWish::default() {
        let host = node.placement.host.as_ref().map(ToString::to_string);
        let labels = node.placement.labels.iter().map(|(key, value)| (key.clone(), json!(value)));
        let labels: Map<String, Value> = labels.collect();
        fields.insert("placement".to_owned(), json!({"host": host, "labels": labels}));
    }
    if let Some(own) = recovery::written(node.recovery) {
        fields.insert(RECOVERY.to_owned(), own);
    }
    Value::Object(fields)
}

/// Everything that a node says, by the keys of a plan file, in words: what a person reads who approves it (spec 09, Human
/// gate).
#[must_use]
pub fn node_in_words(node: &Node) -> Vec<(String, String)> {
    let Value::Object(fields) = written(&NewNode { id: None, node: node.clone() }) else {
        return Vec::new();
    };
    fields.into_iter().map(|(key, value)| (key, in_words(&value))).collect()
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(in_words).collect::<Vec<_>>().join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// What is said anew of a goal, as a document.
#[must_use]
pub fn written_goal(change: &GoalChange) -> Value {
    let risk = |risk: &Risk| json!({"risk": risk.risk, "impact": risk.impact, "mitigation": risk.mitigation});
    let risks: Option<Vec<Value>> =
        change.risks.as_ref().map(|risks| risks.iter().map(risk).collect());
    let mut fields = json!({
        "title": change.title,
        "problemStatement": change.problem_statement,
        "successCriteria": change.success_criteria,
        "nonGoals": change.non_goals,
        "constraints": change.constraints,
        "assumptions": change.assumptions,
        "risks": risks,
        "stakeholders": change.stakeholders,
        "repoContextSnapshot": change.repo_context,
        "tags": change.tags,
        "origin": change.origin.as_ref().map(|origin| {
            origin.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect::<Map<_, Value>>()
        }),
    });
    if let Value::Object(fields) = &mut fields {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

fn budget(node: &Node) -> Option<Value> {
    let budget = node.budget;
    let mut fields = Map::new();
    let mut whole = |key: &str, number: Option<u64>| {
        if let Some(number) = number {
            fields.insert(key.to_owned(), json!(number));
        }
    };
    whole("tokens", budget.tokens);
    whole("turns", budget.turns);
    if let Some(micro) = budget.cost_micro {
        // Exact for more dollars than there are: doubles count to nine quadrillion.
        #[expect(clippy::cast_precision_loss, reason = "budgets are far below 2^53 millionths")]
        let dollars = Number::from_f64(micro as f64 / 1e6);
        if let Some(dollars) = dollars {
            fields.insert("costUsd".to_owned(), Value::Number(dollars));
        }
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}
