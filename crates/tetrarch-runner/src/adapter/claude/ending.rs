//! What the end of a turn of `claude` comes to: a result, a wait, or nothing, by what was asked of it.

use serde_json::{Value, json};
use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::limits::TEXT_BYTES_MAX;

use super::event::TurnEnd;
use super::{ClaudeSession, LastTurn};
use crate::adapter::{AgentInput, AgentOutput};
use crate::lines::start_of;
use crate::protocol::{ProgramEvent, read_result};

impl ClaudeSession {
    /// Its turn is over. Whether its run is follows from what was asked of it.
    pub(super) fn turn_ended(&mut self, end: TurnEnd) -> AgentOutput {
        self.spent.turn_ended(&end);
        // A turn is of the first message at least, also where it failed before that was read.
        self.unread.remove(&self.base.wrapping_add(1));
        self.works = !self.unread.is_empty();
        let aborted = std::mem::take(&mut self.aborting) && end.failed.is_some();
        let mut output = AgentOutput::event(ProgramEvent::Usage(self.spent.total()));
        output.events.push(ProgramEvent::Turn { begins: false });
        let result = match (&end.failed, &self.ending) {
            (Some(_), Some(LastTurn::Rotation)) => {
                output.inputs.push(AgentInput::Close);
                return output;
            }
            (Some(_), Some(LastTurn::Stop(reason))) => {
                RunResult::ended(Outcome::Cancelled, format!("stopped: {reason}"))
            }
            (Some(_), None) if aborted => {
                output.note = Some("interrupted; it waits for input".to_owned());
                return output;
            }
            // It reads on: what it was told meanwhile comes first.
            (_, None) if self.works => return output,
            (Some(error), None) => RunResult::ended(
                if end.is_capped { Outcome::BudgetExceeded } else { Outcome::Failure },
                start_of(error, TEXT_BYTES_MAX),
            ),
            (None, _) => RunResult::ended(Outcome::Success, ""),
        };
        let given = self.given(result, end);
        output.events.extend(given.events);
        output
    }

    /// A result with what it gave.
    fn given(&self, mut result: RunResult, end: TurnEnd) -> AgentOutput {
        if result.outcome != Outcome::Success {
            result.partial = if end.text.is_empty() { self.words.clone() } else { end.text };
            return told(result, Value::Null);
        }
        if !self.reviews {
            let deliverable = end.structured.unwrap_or(Value::String(end.text));
            return told(result, deliverable);
        }
        match verdict_of(end) {
            Ok(event) => AgentOutput::event(event),
            Err(error) => {
                result.outcome = Outcome::Failure;
                result.error = format!("it gave no verdict that can be read: {error}");
                result.partial.clone_from(&self.words);
                told(result, Value::Null)
            }
        }
    }
}

/// A reviewer's result; what is wrong with it otherwise.
fn verdict_of(end: TurnEnd) -> Result<ProgramEvent, String> {
    let verdict = end.structured.ok_or("there is no structured output")?;
    let fields = [
        ("outcome", json!(Outcome::Success.as_str())),
        ("deliverable", json!(end.text)),
        ("verdict", verdict),
    ];
    let named = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    read_result(named.collect())
}

/// A result as an event, its deliverable as text beside it.
pub(super) fn told(mut result: RunResult, deliverable: Value) -> AgentOutput {
    result.deliverable = match &deliverable {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            deliverable.to_string()
        }
    };
    AgentOutput::event(ProgramEvent::Result {
        result: Box::new(result),
        deliverable,
        files: Vec::new(),
    })
}
