//! What the end of a turn comes to: a result, a wait, or nothing, by what was asked of the program.

use serde_json::{Value, json};
use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::limits::TEXT_BYTES_MAX;
use tetrarch_core::order::RunnerEvent;

use super::event::TurnEnd;
use super::session::{AgentSession, LastTurn};
use super::{AgentInput, AgentOutput};
use crate::lines::start_of;
use crate::protocol::{ProgramEvent, read_result};

impl AgentSession {
    /// Its turn is over. Whether its run is follows from what was asked of it.
    pub(super) fn turn_ended(&mut self, end: TurnEnd) -> AgentOutput {
        self.works = self.has_unread();
        let aborted = std::mem::take(&mut self.aborting) && end.failed.is_some();
        let mut output = AgentOutput::event(ProgramEvent::Turn { begins: false });
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
        output.and(self.given(result, end))
    }

    /// It calls the model again after an error. A key that is refused once is refused each time.
    pub(super) fn retries(&mut self, status: Option<u64>, why: &str) -> AgentOutput {
        let status_text =
            status.map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
        if matches!(status, Some(401 | 403)) && self.ending.is_none() {
            let error = format!(
                "the model's server refuses the key ({status_text}, {why}); set `keyFrom` of the profile to a valid key"
            );
            self.ending = Some(LastTurn::Stop(error.clone()));
            let result = RunResult::ended(Outcome::Failure, error);
            let mut output = told(result, Value::Null);
            output.inputs.extend(self.abort());
            return output;
        }
        self.blocked = true;
        let kind = if status == Some(429) { "rate_limited" } else { "model_unavailable" };
        AgentOutput::plain(RunnerEvent::Blocked { reason: format!("{kind}: {status_text}, {why}") })
    }

    /// A result with what it gave.
    fn given(&self, mut result: RunResult, end: TurnEnd) -> AgentOutput {
        if result.outcome != Outcome::Success {
            result.partial = if end.text.is_empty() { self.words.clone() } else { end.text };
            return told(result, Value::Null);
        }
        if !self.brief.reviews {
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
    let of_words = || serde_json::from_str(&end.text).ok();
    let verdict = end.structured.or_else(of_words).ok_or("there is no structured output")?;
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
