//! `claude` as a worker: lines of JSON both ways (docs/agents.md). Says what these lines are; what follows from them is
//! the session's.

mod line;
mod spent;
pub(super) mod starting;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use tetrarch_core::id::Ulid;

use super::dialect::{AgentExchange, Saying, uuid};
use super::event::{AgentEvent, AskedUse, TurnEnd};
use super::permission::Use;
use super::{AdapterSheet, NATIVE, truncated};
use line::ClaudeEvent;
use spent::Spent;

/// What people are told of it.
pub(super) const SHEET: AdapterSheet = AdapterSheet {
    program: "claude",
    runner: "claude",
    tested: &["2.1.330"],
    install: "npm install -g @anthropic-ai/claude-code@2.1.330",
    capabilities: &NATIVE,
};

/// What is said to `claude`, and what has to be known of what it said.
#[derive(Debug)]
pub(crate) struct Claude {
    conversation: String,
    goes_on: bool,
    /// The answer of the model that it works on.
    answer: String,
    spent: Spent,
}

impl Claude {
    /// Its conversation of this name; `goes_on`: it has begun in an earlier run.
    pub(super) fn new(conversation: String, goes_on: bool) -> Self {
        Self { conversation, goes_on, answer: String::new(), spent: Spent::default() }
    }

    /// Says something. It queues what it cannot read yet by itself.
    pub(super) fn say(&mut self, saying: Saying<'_>) -> AgentExchange {
        match saying {
            // Its arguments have opened it.
            Saying::Open { .. } => AgentExchange::event(AgentEvent::Opened {
                goes_on: self.goes_on,
                conversation: self.conversation.clone(),
            }),
            Saying::Message { number, text } => AgentExchange::line(&json!({
                "type": "user",
                "uuid": uuid(number),
                "message": {"role": "user", "content": text},
                "parent_tool_use_id": null,
                "session_id": "",
            })),
            // What waits for the turn is dropped with it, and told.
            Saying::Interrupt { request } => AgentExchange::line(&json!({
                "type": "control_request",
                "request_id": request,
                "request": {"subtype": "interrupt", "cancel_queued": true},
            })),
            Saying::Decision { request, input, refused } => answer(
                request,
                &match refused {
                    None => json!({"behavior": "allow", "updatedInput": input}),
                    Some(why) => json!({"behavior": "deny", "message": why}),
                },
            ),
        }
    }

    /// Reads a whole line.
    pub(super) fn hear(&mut self, line: &[u8]) -> AgentExchange {
        match ClaudeEvent::of(line) {
            None => AgentExchange::event(AgentEvent::Text),
            Some(event) => self.event(event),
        }
    }

    /// Reads the start of a line that is too long.
    pub(super) fn hear_cut(&mut self, start: &[u8]) -> AgentExchange {
        let fields = truncated::fields(start);
        let text = |name: &str| fields.get(name).cloned().flatten().unwrap_or_default();
        let request = text("request_id");
        if text("type") == "control_request" && !request.is_empty() {
            let why = truncated::REQUEST;
            let denied = answer(&request, &json!({"behavior": "deny", "message": why}));
            return AgentExchange::event(AgentEvent::Text).and(denied);
        }
        if text("type") == "result" || fields.contains_key("total_cost_usd") {
            return AgentExchange::event(AgentEvent::Ended(TurnEnd::failed(truncated::RESULT)));
        }
        AgentExchange::event(AgentEvent::Text)
    }

    fn event(&mut self, event: ClaudeEvent) -> AgentExchange {
        AgentExchange::event(match event {
            ClaudeEvent::Ready { version, model } => AgentEvent::Ready { version, model },
            ClaudeEvent::Read { message } => AgentEvent::Read { number: message },
            ClaudeEvent::Dropped { message } => {
                let why = "an interrupt came before it was read; send it again".to_owned();
                AgentEvent::Dropped { number: message, why }
            }
            ClaudeEvent::Says { id, texts, uses, spent } => {
                return self.says(id, texts, uses, spent);
            }
            ClaudeEvent::Retries { status, why } => AgentEvent::Retries { status, why },
            ClaudeEvent::Asks { request, tool, input } => {
                let (uses, paths) = (vec![use_of(&tool, &input)], paths_of(&tool, &input));
                AgentEvent::Asks(AskedUse { request, tool, uses, paths, input })
            }
            ClaudeEvent::Withdraws { request } => AgentEvent::Withdraws { request },
            ClaudeEvent::AsksElse { request, what } => {
                let error = format!("`{what}` is not supported by this host");
                let response = json!({"subtype": "error", "request_id": request, "error": error});
                return AgentExchange::line(
                    &json!({"type": "control_response", "response": response}),
                );
            }
            ClaudeEvent::Answers { request, error } => {
                AgentEvent::Interrupted { request, refused: error }
            }
            ClaudeEvent::Ended { end, spent, dollars } => {
                self.spent.turn_ended(spent, dollars);
                let used = AgentExchange::event(AgentEvent::Used(self.spent.total()));
                return used.and(AgentExchange::event(AgentEvent::Ended(end)));
            }
            ClaudeEvent::Quiet => return AgentExchange::default(),
            ClaudeEvent::Unknown { kind } => AgentEvent::Unknown { kind },
        })
    }

    fn says(
        &mut self,
        id: String,
        texts: Vec<String>,
        uses: Vec<(String, Value)>,
        spent: (u64, u64),
    ) -> AgentExchange {
        let mut events = Vec::new();
        if self.answer != id {
            self.answer.clone_from(&id);
            events.push(AgentEvent::Answers);
        }
        self.spent.calls(id, spent);
        events.push(AgentEvent::Used(self.spent.total()));
        events.extend(texts.into_iter().map(|text| AgentEvent::Says { text }));
        events.extend(uses.into_iter().map(|(tool, input)| AgentEvent::Uses { tool, input }));
        AgentExchange { events, inputs: Vec::new() }
    }
}

/// What one of its tools does.
fn use_of(tool: &str, input: &Value) -> Use {
    match starting::TOOLS.iter().find(|(name, _)| *name == tool) {
        Some((_, "run")) => match input.get("command").and_then(Value::as_str) {
            Some(command) => Use::Shell(command.to_owned()),
            None => Use::Unknown,
        },
        Some((_, entry)) => Use::Entry(entry),
        None if tool == starting::RESULT_TOOL || tool.starts_with(starting::FLEET) => Use::Own,
        None => Use::Unknown,
    }
}

/// The paths that one of its tools is called with: its working directory where a search names none.
fn paths_of(tool: &str, input: &Value) -> Vec<String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(file) = text("file_path").or_else(|| text("notebook_path")) {
        return vec![file];
    }
    // It searches by names, so its pattern is one of paths.
    let pattern = text("pattern").filter(|_| tool == "Glob");
    [Some(text("path").unwrap_or_else(|| ".".to_owned())), pattern].into_iter().flatten().collect()
}

fn answer(request: &str, answer: &Value) -> AgentExchange {
    let response = json!({"subtype": "success", "request_id": request, "response": answer});
    AgentExchange::line(&json!({"type": "control_response", "response": response}))
}

/// The session's UUID of a run: of the first of those that go on from each other.
pub(super) fn conversation(first: Ulid) -> String {
    uuid(u128::from(first))
}
