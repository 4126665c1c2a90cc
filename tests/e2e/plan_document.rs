//! docs/plan.md: its plans are plans, the ones without a model run as they stand there, and every key of a plan
//! file stands in one of them.

use std::collections::BTreeSet;

use serde_json::Value;
use tetrarch_tests::Fleet;

use crate::workspace;

/// What needs a model or another machine.
const NEEDS_MORE: &str = "runner: llm";

/// The plans of the document.
fn plans() -> Vec<String> {
    let document = std::fs::read_to_string(workspace().join("docs/plan.md")).unwrap();
    let mut parts = document.split("```");
    let mut plans = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        plans.extend(block.strip_prefix("yaml\n").map(str::to_owned));
    }
    plans
}

/// Every key that the schema knows.
fn keys(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let known = fields.get("properties").and_then(Value::as_object);
            into.extend(known.into_iter().flat_map(|known| known.keys().cloned()));
            fields.values().for_each(|field| keys(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn plans_in_the_documentation_are_valid_and_run() {
    let fleet = Fleet::up();
    let plans = plans();
    assert!(plans.len() >= 4, "where have they gone? {}", plans.len());
    for (place, plan) in plans.iter().enumerate() {
        let file = fleet.file(&format!("plan{place}.yaml"), plan);
        let file = file.to_str().unwrap();
        fleet.ok(["plan", "check", file]);
        if !plan.contains(NEEDS_MORE) {
            let ended = fleet.run(["run", file, "--project", &format!("document{place}")]);
            assert_eq!(ended.code, Some(0), "{plan}\n{}{}", ended.out, ended.err);
        }
    }
}

#[test]
fn every_plan_key_occurs_in_a_documented_plan() {
    let schema = std::fs::read(workspace().join("proto/schema/PlanFile.json")).unwrap();
    let mut known = BTreeSet::new();
    keys(&serde_json::from_slice(&schema).unwrap(), &mut known);
    assert!(known.len() > 50, "{known:?}");
    let plans = plans().concat();
    let stands = |key: &String| {
        let ends = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric());
        let written = format!("{key}:");
        plans.match_indices(&written).any(|(at, _)| ends(&plans[..at]))
    };
    let missing: Vec<&String> = known.iter().filter(|key| !stands(key)).collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/plan.md shows none of these");
}
