//! How a conversation ends by itself, of a model or of a coding agent: its `finish`, or its last words, as a result
//! that the brief's schema is satisfied with. What does not satisfy it is handed back (spec 06, The brief).

use serde_json::{Map, Value, json};
use tetrarch_core::brief::{ExpectedOutput, Outcome, RunResult};
use tetrarch_core::converse::{Effect, FINISH, ToolDefinition};
use tetrarch_core::limits::TEXT_BYTES_MAX;
use tetrarch_core::order::LocalFile;
use tetrarch_core::planner::answer::json_of;

use crate::backend::expected::{Expected, SchemaViolations};
use crate::files::Gate;
use crate::lines::start_of;
use crate::protocol::{ProgramEvent, read_result};

/// What a conversation came to.
#[derive(Debug)]
pub(super) struct ConversationResult {
    pub(super) result: RunResult,
    pub(super) files: Vec<LocalFile>,
}

/// What is made of the model's wish to end.
#[derive(Debug)]
pub(super) enum EndDecision {
    /// It ends.
    Ends(Box<ConversationResult>),
    /// It cannot be read; what is wrong.
    Unreadable(String),
    /// Its deliverable does not satisfy the schema: the result as it would be without another try.
    Refused(Box<ConversationResult>, String),
}

/// The tool that ends a run. `reviews`: not without a verdict.
pub(super) fn definition(expected: &ExpectedOutput, reviews: bool) -> ToolDefinition {
    let deliverable = match expected {
        ExpectedOutput::Text => json!({"type": "string", "description": "The deliverable."}),
        // A reference would lead elsewhere from here; the brief has the whole schema.
        ExpectedOutput::Schema(schema) if schema.contains("\"$ref\"") => {
            json!({"description": "The deliverable, as the schema of the brief says."})
        }
        ExpectedOutput::Schema(schema) => {
            serde_json::from_str(schema).unwrap_or_else(|_| json!({}))
        }
    };
    let texts =
        |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    let schema = json!({
        "type": "object",
        "properties": {
            "outcome": {"type": "string", "enum": ["success", "failure"]},
            "deliverable": deliverable,
            "partial": {"type": "string", "description": "Whatever there is, when it is a failure."},
            "error": {"type": "string", "description": "Why it is a failure."},
            "evidence": {
                "type": "object",
                "properties": {
                    "files": texts("Files written or changed."),
                    "commands": texts("Commands run."),
                    "tests": texts("Tests run, with their outcome."),
                    "commits": texts("Commits made."),
                },
            },
            "artifacts": {
                "type": "array",
                "description": "Files of the workspace to hand over.",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "path": {"type": "string"},
                        "mediaType": {"type": "string"},
                    },
                    "required": ["name", "path"],
                },
            },
            "crystallization": {
                "type": "string",
                "description": "What whoever goes on from here has to know.",
            },
            "verdict": verdict(),
        },
        "required": if reviews { json!(["outcome", "verdict"]) } else { json!(["outcome"]) },
    });
    ToolDefinition {
        name: FINISH.to_owned(),
        description: "Ends your work and hands over what it came to.".to_owned(),
        schema,
        effect: Effect::Idempotent,
    }
}

/// What a reviewer finds.
fn verdict() -> Value {
    json!({
        "type": "object",
        "description": "A reviewer's, and nobody else's.",
        "properties": {
            "verdict": {"type": "string", "enum": ["pass", "fail", "needs_changes"]},
            "findings": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "where": {"type": "string"},
                        "what": {"type": "string"},
                        "severity": {"type": "string"},
                    },
                    "required": ["what"],
                },
            },
        },
        "required": ["verdict"],
    })
}

/// What a reviewer's verdict must look like.
pub(crate) fn verdict_form() -> ExpectedOutput {
    ExpectedOutput::Schema(verdict().to_string())
}

/// Judges a call of `finish`. `form`: what the verdict must look like, of a reviewer.
pub(super) async fn finish(
    arguments: Map<String, Value>,
    expected: &Expected,
    form: Option<&Expected>,
    gate: &mut Gate,
) -> EndDecision {
    let fails = arguments.get("outcome").and_then(Value::as_str) == Some(Outcome::Failure.as_str());
    if let Some(form) = form.filter(|_| !fails) {
        let verdict = arguments.get("verdict").cloned().unwrap_or_default();
        if let Err(faults) = form.check(verdict).await {
            return no_verdict(&faults);
        }
    }
    let (result, deliverable, named) = match read_result(arguments) {
        Ok(ProgramEvent::Result { result, deliverable, files }) => (*result, deliverable, files),
        Ok(
            ProgramEvent::Plain(_)
            | ProgramEvent::Usage(_)
            | ProgramEvent::Artifact(_)
            | ProgramEvent::Takes(_)
            | ProgramEvent::Taken(_)
            | ProgramEvent::Turn { .. },
        ) => {
            return EndDecision::Unreadable("it is no result".to_owned());
        }
        Err(error) => return EndDecision::Unreadable(error),
    };
    let mut files = Vec::with_capacity(named.len());
    for file in named {
        match gate.admit(file.name, &file.path, file.media_type) {
            Ok(file) => files.push(file),
            Err(refused) => return EndDecision::Unreadable(format!("artifact {refused}")),
        }
    }
    let mut result = result;
    if result.outcome == Outcome::Cancelled || result.outcome == Outcome::BudgetExceeded {
        // Those are not the model's to say.
        result.outcome = Outcome::Failure;
    }
    judge(result, deliverable, files, expected).await
}

/// A reviewer that passes no verdict.
fn no_verdict(faults: &SchemaViolations) -> EndDecision {
    let said = faults.of("the verdict of the review");
    let result = RunResult::ended(Outcome::Failure, start_of(&said, TEXT_BYTES_MAX));
    EndDecision::Refused(
        Box::new(ConversationResult { result, files: Vec::new() }),
        format!("{said}."),
    )
}

/// Judges words that call nothing: the deliverable, or the JSON of a reviewer's verdict.
pub(super) async fn spoken(
    text: String,
    expected: &Expected,
    form: Option<&Expected>,
    gate: &mut Gate,
) -> EndDecision {
    if form.is_some() {
        let verdict = json_of(&text).unwrap_or_default();
        let said = json!({"outcome": "success", "deliverable": text, "verdict": verdict});
        let said = if let Value::Object(said) = said { said } else { Map::new() };
        return finish(said, expected, form, gate).await;
    }
    let mut result = RunResult::ended(Outcome::Success, "");
    result.deliverable.clone_from(&text);
    judge(result, Value::String(text), Vec::new(), expected).await
}

async fn judge(
    result: RunResult,
    deliverable: Value,
    files: Vec<LocalFile>,
    expected: &Expected,
) -> EndDecision {
    let checked =
        if result.outcome == Outcome::Success { expected.check(deliverable).await } else { Ok(()) };
    match checked {
        Ok(()) => EndDecision::Ends(Box::new(ConversationResult { result, files })),
        Err(faults) => {
            let words = format!("{faults}.");
            let result = faults.fail(result);
            EndDecision::Refused(Box::new(ConversationResult { result, files }), words)
        }
    }
}
