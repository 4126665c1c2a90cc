//! What `claude` asks before it uses a tool, and who answers: the list of the brief, or people where the list says so.

use serde_json::{Value, json};
use tetrarch_core::order::RunnerEvent;

use super::{ClaudeSession, answer, starting};
use crate::adapter::permission::{ALLOW, ASKS, DENY, ToolRefused, Use, decided, permit};
use crate::adapter::{AgentInput, AgentOutput};
use crate::lines::start_of;

/// Longest text of what people are asked about, in bytes.
const ASKED_BYTES: usize = 4 * 1024;
/// Longest text of a tool's use, in bytes.
const USE_BYTES: usize = 200;

/// A use of a tool that people are to decide.
#[derive(Debug)]
pub(super) struct AskedUse {
    request: String,
    tool: String,
    input: Value,
}

impl ClaudeSession {
    /// It asks whether it may use a tool: the list answers, or people.
    pub(super) fn asks(&mut self, request: String, tool: String, input: Value) -> AgentOutput {
        let asked = AskedUse { request, tool, input };
        let permitted = permit(&self.tools, &asked.tool, use_of(&asked.tool, &asked.input));
        let is_known = starting::TOOLS.iter().any(|(name, _)| *name == asked.tool);
        if permitted.is_err() && is_known && self.tools.names().any(|name| name == ASKS) {
            self.asked.push_back(asked);
            // One at a time, so that an answer is of one use.
            return if self.asked.len() == 1 { self.question() } else { AgentOutput::default() };
        }
        self.granted(&asked, permitted)
    }

    /// The answer to one that was decided.
    fn granted(&mut self, asked: &AskedUse, decided: Result<(), ToolRefused>) -> AgentOutput {
        let AskedUse { request, tool, input } = asked;
        let mut output = AgentOutput::default();
        let answered = match decided {
            Ok(()) => {
                self.using.push(used(tool, input));
                output.events.push(self.checkpoint());
                json!({"behavior": "allow", "updatedInput": input})
            }
            Err(refused) => {
                output.note = Some(format!("refused {tool}: {refused}"));
                json!({"behavior": "deny", "message": refused.to_string()})
            }
        };
        output.inputs.push(AgentInput::Line(answer(request, &answered)));
        output
    }

    /// The question about the first of those that people are to decide.
    fn question(&self) -> AgentOutput {
        let Some(AskedUse { request, tool, input }) = self.asked.front() else {
            return AgentOutput::default();
        };
        let input = input.to_string();
        // An answer to the same words of another request is no answer to these.
        let question =
            format!("May it use {tool}? {}\n[request {request}]", start_of(&input, ASKED_BYTES));
        let options = [ALLOW, DENY].map(str::to_owned).to_vec();
        AgentOutput::plain(RunnerEvent::Ask { question, options })
    }

    /// People answered; none when nobody waits for that.
    pub(in crate::adapter) fn answered(
        &mut self,
        answer: Result<String, String>,
    ) -> Option<AgentOutput> {
        let asked = self.asked.pop_front()?;
        let mut output = self.granted(&asked, decided(answer));
        output.events.extend(self.question().events);
        Some(output)
    }

    /// It does not wait for an answer any more.
    pub(super) fn withdraws(&mut self, request: &str) -> AgentOutput {
        let was_first = self.asked.front().is_some_and(|asked| asked.request == request);
        self.asked.retain(|asked| asked.request != request);
        if was_first { self.question() } else { AgentOutput::default() }
    }
}

/// What one of its tools does.
fn use_of<'a>(tool: &str, input: &'a Value) -> Use<'a> {
    match starting::TOOLS.iter().find(|(name, _)| *name == tool) {
        Some((_, "run")) => match input.get("command").and_then(Value::as_str) {
            Some(command) => Use::Shell(command),
            None => Use::Unknown,
        },
        Some((_, entry)) => Use::Entry(entry),
        None if tool == starting::RESULT_TOOL => Use::Result,
        None => Use::Unknown,
    }
}

/// A use of a tool, for people and for a next session.
pub(super) fn used(tool: &str, input: &Value) -> String {
    format!("{tool}: {}", start_of(&input.to_string(), USE_BYTES))
}
