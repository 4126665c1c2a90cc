//! Checks the deliverable of a successful result against the brief's schema (spec 06, The brief).
//! Fetches nothing a schema refers to, and judges no result that is no success.

mod shape;

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jsonschema::Validator;
use serde_json::Value;
use tetrarch_core::brief::{ExpectedOutput, Outcome, RunResult};
use tetrarch_core::limits::TEXT_BYTES_MAX;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::shape::{NESTED_MAX, SchemaShape};
use crate::lines::start_of;
use crate::protocol::SchemaViolation;

/// Faults that are named of one deliverable.
const FAULTS_MAX: usize = 20;
/// All faults of one deliverable as JSON, in bytes.
const FAULTS_BYTES_MAX: usize = TEXT_BYTES_MAX;
/// The place and the words of one fault, in bytes; one alone fits however it is escaped.
const PATH_BYTES_MAX: usize = 200;
const MESSAGE_BYTES_MAX: usize = 400;
/// Longest check. A schema can be written so that it takes for ever, and a run has to end.
const CHECK_WITHIN: Duration = Duration::from_secs(10);
/// The stack of a check, in bytes. Memory is taken only for what of it is used.
const STACK_BYTES: usize = 16 * 1024 * NESTED_MAX as usize;

/// Why a brief cannot be executed as it is.
#[derive(Debug, thiserror::Error)]
#[error("the brief's expected output is not a valid JSON Schema: {reason}; correct the schema")]
pub(crate) struct BadSchema {
    reason: String,
}

impl BadSchema {
    /// What is wrong with the schema itself.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}

/// What a deliverable must look like.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// None: any text will do.
    schema: Option<Arc<Schema>>,
}

/// A schema, and how much work it makes.
#[derive(Debug)]
struct Schema {
    validator: Validator,
    shape: SchemaShape,
}

/// What is wrong with a deliverable.
#[derive(Debug)]
pub(crate) struct SchemaViolations(Vec<SchemaViolation>);

impl Expected {
    /// Reads what a brief expects.
    pub(crate) async fn of(output: &ExpectedOutput) -> Result<Self, BadSchema> {
        let text = match output {
            ExpectedOutput::Text => return Ok(Self { schema: None }),
            ExpectedOutput::Schema(text) => text.clone(),
        };
        let late = || Err(format!("reading it took longer than {CHECK_WITHIN:?}"));
        let built = aside(move || build(&text)).await.unwrap_or_else(late);
        let schema = built.map_err(|reason| BadSchema { reason })?;
        Ok(Self { schema: Some(Arc::new(schema)) })
    }

    /// Checks a deliverable. A text may also be the JSON that the schema wants: as a result both
    /// are kept as the same text.
    pub(crate) async fn check(&self, deliverable: Value) -> Result<(), SchemaViolations> {
        let Some(schema) = self.schema.clone() else {
            return Ok(());
        };
        let faults = aside(move || faults_of(&schema, &deliverable)).await.unwrap_or_else(|| {
            let message = format!("checking it took longer than {CHECK_WITHIN:?}");
            vec![SchemaViolation { path: String::new(), message }]
        });
        if faults.is_empty() { Ok(()) } else { Err(SchemaViolations(faults)) }
    }

    /// What becomes of a result that nobody can correct any more.
    pub(crate) async fn settle(&self, result: RunResult) -> RunResult {
        if result.outcome != Outcome::Success {
            return result;
        }
        match self.check(Value::String(result.deliverable.clone())).await {
            Ok(()) => result,
            Err(faults) => faults.fail(result),
        }
    }
}

impl SchemaViolations {
    /// One by one, for the program.
    pub(crate) fn list(&self) -> &[SchemaViolation] {
        &self.0
    }

    /// In one line, as what is wrong with something.
    pub(crate) fn of(&self, what: &str) -> String {
        let named = self.0.iter().map(|SchemaViolation { path, message }| {
            let path = if path.is_empty() { "(whole)" } else { path };
            format!("{path}: {message}")
        });
        let named = named.collect::<Vec<_>>().join("; ");
        let colon = if named.is_empty() { "" } else { ": " };
        format!("{what} does not satisfy its schema{colon}{named}")
    }

    /// The result as a failure: its deliverable is kept as what there is.
    pub(crate) fn fail(&self, mut result: RunResult) -> RunResult {
        result.outcome = Outcome::Failure;
        result.partial = std::mem::take(&mut result.deliverable);
        result.error = start_of(&self.to_string(), TEXT_BYTES_MAX).to_owned();
        result
    }
}

impl fmt::Display for SchemaViolations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of("the deliverable"))
    }
}

/// What is wrong with a JSON Schema for results.
#[must_use]
pub fn schema_fault(text: &str) -> Option<String> {
    let built = thread::scope(|scope| {
        let work = || build(text).map(drop);
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let failed = |_| Err("the checker failed on it".to_owned());
        thread.map_err(|cause| cause.to_string())?.join().unwrap_or_else(failed)
    });
    let fault = built.err()?;
    // The checker's words about alternatives name those of the schema of schemas.
    Some(match fault.split_once(" is not valid under any of ") {
        Some((value, _)) => format!("{value} is not allowed there"),
        None => fault,
    })
}

fn build(text: &str) -> Result<Schema, String> {
    let schema: Value = serde_json::from_str(text).map_err(|cause| cause.to_string())?;
    let shape = SchemaShape::of(&schema)?;
    let validator = jsonschema::options().offline().build(&schema).map_err(|cause| {
        let place = cause.instance_path().to_string();
        let message = start_of(&cause.to_string(), TEXT_BYTES_MAX / 2).to_owned();
        if place.is_empty() { message } else { format!("{place}: {message}") }
    })?;
    Ok(Schema { validator, shape })
}

fn faults_of(schema: &Schema, deliverable: &Value) -> Vec<SchemaViolation> {
    if schema.shape.fault(deliverable).is_none() && schema.validator.is_valid(deliverable) {
        return Vec::new();
    }
    let meant = deliverable.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    name(schema, meant.as_ref().unwrap_or(deliverable))
}

/// Names the first faults, as many as there is room for.
fn name(schema: &Schema, deliverable: &Value) -> Vec<SchemaViolation> {
    if let Some(message) = schema.shape.fault(deliverable) {
        return vec![SchemaViolation { path: String::new(), message }];
    }
    let mut room = FAULTS_BYTES_MAX;
    let mut faults = Vec::new();
    for error in schema.validator.iter_errors(deliverable).take(FAULTS_MAX) {
        let fault = SchemaViolation {
            path: start_of(&error.instance_path().to_string(), PATH_BYTES_MAX).to_owned(),
            message: start_of(&error.to_string(), MESSAGE_BYTES_MAX).to_owned(),
        };
        let Some(left) = room.checked_sub(fault.bytes()) else { break };
        room = left;
        faults.push(fault);
    }
    faults
}

/// Does work that may take for ever on a thread of its own, and waits for it only for a while.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, outcome) = oneshot::channel();
    let thread = thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
    let thread = thread.spawn(move || {
        // Nobody waits any more when it took too long.
        let _late = done.send(work());
    });
    if let Err(cause) = thread {
        tracing::error!(%cause, "no thread for checking a schema");
        return None;
    }
    timeout(CHECK_WITHIN, outcome).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn invalid_schema_is_reported_with_position_and_value() {
        for (schema, fault) in [
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), None),
            (json!({"type": "nmber"}), Some("/type: \"nmber\" is not allowed there")),
            (json!({"required": "a"}), Some("/required: \"a\" is not of type \"array\"")),
        ] {
            assert_eq!(schema_fault(&schema.to_string()).as_deref(), fault, "{schema}");
        }
    }

    async fn expected(schema: &Value) -> Expected {
        Expected::of(&ExpectedOutput::Schema(schema.to_string())).await.unwrap()
    }

    async fn refused(schema: &str) -> String {
        Expected::of(&ExpectedOutput::Schema(schema.to_owned())).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn deliverable_is_taken_verbatim_or_as_its_json() {
        let cases = [
            (json!({"type": "object"}), json!({"a": 1}), true),
            (json!({"type": "object"}), json!("{\"a\":1}"), true),
            (json!({"type": "object"}), json!("{\"a\":1"), false),
            (json!({"type": "object"}), json!(null), false),
            (json!({"type": "object"}), json!([1]), false),
            (json!({"type": "string"}), json!("12"), true),
            (json!({"type": "string"}), json!(12), false),
            (json!({"type": "integer"}), json!("12"), true),
            (json!(false), json!({}), false),
        ];
        for (schema, deliverable, fits) in cases {
            let checked = expected(&schema).await.check(deliverable.clone()).await;
            assert_eq!(checked.is_ok(), fits, "{schema} {deliverable}");
        }
        let any = Expected::of(&ExpectedOutput::Text).await.unwrap();
        assert!(any.check(json!(null)).await.is_ok());
    }

    #[tokio::test]
    async fn violations_are_bounded_in_number_and_bytes() {
        let numbers = expected(&json!({"items": {"type": "number"}})).await;
        let faults = numbers.check(json!(vec!["x"; 1000])).await.unwrap_err();
        assert_eq!(faults.list().len(), FAULTS_MAX);
        let long = "\u{1}".repeat(10_000);
        let faults = numbers.check(json!([long, long])).await.unwrap_err();
        let bytes: usize = faults.list().iter().map(SchemaViolation::bytes).sum();
        assert!(!faults.list().is_empty() && bytes <= FAULTS_BYTES_MAX, "{bytes}");
        let deep = json!({"additionalProperties": {"type": "number"}});
        let faults = expected(&deep).await.check(json!({ long.clone(): long })).await.unwrap_err();
        assert_eq!(faults.list().len(), 1, "not even one fault was named");
        let failed = faults.fail(RunResult::ended(Outcome::Success, ""));
        assert!(failed.error.len() <= TEXT_BYTES_MAX);
    }

    #[tokio::test]
    async fn unusable_schema_is_refused_with_its_position() {
        let error = refused(r#"{"properties":{"a":{"type":"number?"}}}"#).await;
        assert!(error.contains("/properties/a/type"), "{error}");
        assert!(refused("{").await.contains("EOF"));
        let error = refused(r#"{"$ref":"https://example.invalid/s.json"}"#).await;
        assert!(error.contains("example.invalid"), "{error}");
        let error = refused(r#"{"$ref":"file:///etc/passwd"}"#).await;
        assert!(error.contains("/etc/passwd"), "{error}");
    }

    /// As a review found it: a host that checked it was no more.
    #[tokio::test]
    async fn nested_references_leave_stack_for_a_deep_result() {
        let chained = |length: usize| {
            let mut parts = serde_json::Map::new();
            for at in 0..length {
                let next = json!({"allOf": [{"$ref": format!("#/$defs/{}", at + 1)}]});
                parts.insert(at.to_string(), next);
            }
            let list = json!({"type": "array", "items": {"$ref": "#/$defs/0"}});
            parts.insert(length.to_string(), list);
            json!({"$defs": parts, "$ref": "#/$defs/0"})
        };
        let error = refused(&chained(300).to_string()).await;
        assert!(error.contains("nested for one value"), "{error}");
        let expected = expected(&chained(60)).await;
        let deep = |depth, end: &str| json!("[".repeat(depth) + end + &"]".repeat(depth));
        assert!(expected.check(deep(32, "")).await.is_ok());
        let faults = expected.check(deep(31, "1")).await.unwrap_err();
        assert!(faults.to_string().contains("1 is not of type"), "{faults}");
        let faults = expected.check(deep(120, "")).await.unwrap_err();
        assert!(faults.to_string().contains("120 levels are too deep"), "{faults}");
    }

    #[tokio::test]
    async fn self_referencing_schema_terminates() {
        let schemas = [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}, {"$dynamicRef": "#x"}]}),
            json!({"not": {"$ref": "#"}}),
        ];
        for schema in schemas {
            if let Ok(expected) = Expected::of(&ExpectedOutput::Schema(schema.to_string())).await {
                let _either = expected.check(json!({"a": [1]})).await;
            }
        }
    }
}
