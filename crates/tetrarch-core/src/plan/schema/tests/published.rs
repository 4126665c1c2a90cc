//! The published JSON Schema of plan files has the keys and bounds of the reader.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::limits::{PHASES_MAX, SUBTASKS_MAX, TASKS_MAX};
use crate::plan::schema::nodes::{PHASE_KEYS, SUBTASK_KEYS, TASK_KEYS};
use crate::plan::schema::profiles::{PROFILE_KEYS, SERVER_KEYS};

fn published() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/schema/PlanFile.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn published_plan_schema_has_the_keys_of_the_reader() {
    let schema = published();
    for (place, keys) in [
        ("", PLAN_KEYS),
        ("/$defs/goal", GOAL_KEYS),
        ("/$defs/phase", PHASE_KEYS),
        ("/$defs/task", TASK_KEYS),
        ("/$defs/subtask", SUBTASK_KEYS),
        ("/$defs/profile", PROFILE_KEYS),
        ("/$defs/profile/properties/mcpServers/additionalProperties", SERVER_KEYS),
    ] {
        let object = schema.pointer(place).unwrap();
        assert_eq!(object["additionalProperties"], false, "{place}");
        let described = object["properties"].as_object().unwrap();
        let described: BTreeSet<&str> = described.keys().map(String::as_str).collect();
        assert_eq!(described, keys.iter().copied().collect(), "{place}");
    }
}

#[test]
fn every_key_of_the_published_plan_schema_is_described() {
    let schema = published();
    let defs = schema["$defs"].as_object().unwrap();
    for (name, object) in defs.iter().map(|(name, def)| (name.as_str(), def)).chain([("", &schema)])
    {
        for (key, value) in object["properties"].as_object().into_iter().flatten() {
            let described = value.get("$ref").or(value.get("description"));
            assert!(described.is_some_and(Value::is_string), "{name}.{key}");
        }
        assert!(object["description"].is_string(), "{name}");
    }
}

#[test]
fn published_plan_schema_has_the_bounds_of_the_reader() {
    let schema = published();
    for (place, bound) in [
        ("/properties/phases/maxItems", PHASES_MAX),
        ("/$defs/phase/properties/tasks/maxItems", TASKS_MAX),
        ("/$defs/task/properties/subtasks/maxItems", SUBTASKS_MAX),
        ("/$defs/task/properties/keyFacts/maxItems", LIST_MAX),
    ] {
        assert_eq!(schema.pointer(place), Some(&json!(bound)), "{place}");
    }
    for node in ["task", "subtask"] {
        let attempts = &schema["$defs"][node]["properties"]["maxAttempts"]["description"];
        let default = format!("Default: {ATTEMPTS_DEFAULT}.");
        assert!(attempts.as_str().is_some_and(|it| it.ends_with(&default)), "{node}: {attempts}");
    }
}
