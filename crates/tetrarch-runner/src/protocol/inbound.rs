//! Lines to the program. They must stay readable for programs of protocol version 1.

use serde::Serialize;
use serde_json::{Value, json};
use tetrarch_core::brief::{Artifact, ExpectedOutput, NodeInput};
use tetrarch_core::budget::{Counter, Limits};
use tetrarch_core::id::RequestId;
use tetrarch_core::order::Start;
use tetrarch_core::time::Millis;
use tetrarch_core::verb::{Command, Wanted};

use super::PROTOCOL;

/// The first line. `workspace` is the absolute working directory.
pub(crate) fn brief_line(start: &Start, workspace: &str) -> Vec<u8> {
    let brief = &start.brief;
    let schema = match &brief.expected_output {
        ExpectedOutput::Text => Value::Null,
        ExpectedOutput::Schema(schema) => json_or_text(schema),
    };
    line(&json!({
        "type": "brief",
        "protocol": PROTOCOL,
        "agent": start.agent.to_string(),
        "session": start.session.to_string(),
        "epoch": start.epoch,
        "run": start.run.to_string(),
        "epic": start.epic.to_string(),
        "node": start.node.to_string(),
        "parent": start.parent.to_string(),
        "depth": start.depth,
        "goal": brief.goal,
        "keyFacts": brief.key_facts,
        "successCriteria": brief.success_criteria,
        "definitionOfDone": brief.definition_of_done,
        "outputSchema": schema,
        "tools": brief.tools.names().collect::<Vec<_>>(),
        "workspace": workspace,
        "scopePaths": brief.scope_paths,
        "budget": budget(brief.budget),
        "wallMs": brief.wall.map(|wall| wall.0),
        "turnTimeoutMs": brief.turn_timeout.map(|turn| turn.0),
        "model": brief.runner.model,
        "prompt": brief.runner.prompt,
        "inputs": brief.inputs.iter().map(input).collect::<Vec<_>>(),
        "checkpoint": start.checkpoint.as_deref().map_or(Value::Null, json_or_text),
    }))
}

/// A verb; the program says that it has taken it by its id.
pub(crate) fn verb_line(command: &Command) -> Vec<u8> {
    let word = command.wanted.verb().as_str();
    let mut said = json!({
        "type": word,
        "id": command.id.to_string(),
        "from": command.by.to_string(),
    });
    match &command.wanted {
        Wanted::Steer { text } => said["text"] = json!(text),
        Wanted::Interrupt { reason } => said["reason"] = json!(reason),
        Wanted::Pause | Wanted::Resume => {}
    }
    line(&said)
}

/// A message from the agent's inbox. `body` is JSON text; `answers` the request that it answers.
pub(crate) fn mail_line(
    topic: &str,
    from: &str,
    body: &str,
    answers: Option<RequestId>,
) -> Vec<u8> {
    let mut said =
        json!({"type": "mail", "topic": topic, "from": from, "body": json_or_text(body)});
    if let Some(id) = answers {
        said["requestId"] = json!(id.to_string());
    }
    line(&said)
}

/// One way in which a deliverable does not satisfy its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SchemaViolation {
    /// JSON pointer into the deliverable; empty means the whole.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

impl SchemaViolation {
    /// Its length as JSON.
    pub(crate) fn bytes(&self) -> usize {
        json!(self).to_string().len()
    }
}

/// A result handed back for what is wrong with its deliverable.
pub(crate) fn invalid_line(faults: &[SchemaViolation]) -> Vec<u8> {
    line(&json!({"type": "invalid", "errors": faults}))
}

/// A checkpoint is recorded.
pub(crate) fn saved_line() -> Vec<u8> {
    line(&json!({"type": "saved"}))
}

/// A call may be made.
pub(crate) fn granted_line(call: &str) -> Vec<u8> {
    line(&json!({"type": "granted", "call": call}))
}

/// A call is not to be made.
pub(crate) fn withheld_line(call: &str, why: &str) -> Vec<u8> {
    line(&json!({"type": "withheld", "call": call, "reason": why}))
}

/// Most of a counter's grant is used.
pub(crate) fn budget_line(counter: Counter, used: u64, limit: u64) -> Vec<u8> {
    let name = match counter {
        Counter::Tokens => "tokens",
        Counter::CostMicro => "costUsd",
        Counter::Turns => "turns",
    };
    let amount = |amount: u64| match counter {
        Counter::Tokens | Counter::Turns => json!(amount),
        Counter::CostMicro => json!(amount as f64 / 1e6),
    };
    line(&json!({"type": "budget", "counter": name, "used": amount(used), "limit": amount(limit)}))
}

/// The grant is larger from now on.
pub(crate) fn raised_line(limit: Limits) -> Vec<u8> {
    line(&json!({"type": "raised", "budget": budget(limit)}))
}

/// The request to end.
pub(crate) fn stop_line(reason: &str, drain: Millis) -> Vec<u8> {
    line(&json!({"type": "stop", "reason": reason, "drainMs": drain.0}))
}

/// The request to checkpoint and end, so that the next session goes on.
pub(crate) fn rotate_line(reason: &str, drain: Millis) -> Vec<u8> {
    line(&json!({"type": "rotate", "reason": reason, "drainMs": drain.0}))
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn budget(limits: Limits) -> Value {
    let dollars = limits.cost_micro.map(|micro| micro as f64 / 1e6);
    json!({"tokens": limits.tokens, "costUsd": dollars, "turns": limits.turns})
}

fn input(input: &NodeInput) -> Value {
    let deliverable = match serde_json::from_str(&input.deliverable) {
        Ok(structured @ (Value::Object(_) | Value::Array(_))) => structured,
        Ok(_) | Err(_) => Value::String(input.deliverable.clone()),
    };
    json!({
        "node": input.node.to_string(),
        "name": input.name,
        "deliverable": deliverable,
        "artifacts": input.artifacts.iter().map(artifact).collect::<Vec<_>>(),
    })
}

fn artifact(artifact: &Artifact) -> Value {
    json!({
        "name": artifact.name,
        "sha256": artifact.sha256,
        "size": artifact.size,
        "mediaType": artifact.media_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_and_arrays_are_structured_deliverables() {
        let deliverable = |text: &str| {
            let given = NodeInput {
                node: tetrarch_core::id::NodeId::task(1, 1),
                name: String::new(),
                deliverable: text.to_owned(),
                artifacts: Vec::new(),
            };
            input(&given)["deliverable"].clone()
        };
        assert_eq!(deliverable("{\"a\":1}"), json!({"a": 1}));
        assert_eq!(deliverable("[1]"), json!([1]));
        for text in ["12", "null", "true", "\"x\"", "plain", ""] {
            assert_eq!(deliverable(text), json!(text));
        }
    }

    #[test]
    fn each_line_holds_exactly_one_newline() {
        let id = Some(RequestId::derive(Default::default(), "", "", 0));
        let mail = mail_line("a\nb", "c", "{\"x\":\"\\n\"}", id);
        for line in [mail, stop_line("r\n", Millis(5))] {
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert!(line.ends_with(b"}\n"));
        }
    }
}
