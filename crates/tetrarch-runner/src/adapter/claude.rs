//! `claude` as a worker: lines of JSON both ways (docs/agents.md). Knows what was written to it and what it said of
//! that; the outcome of a run follows from both, never from an exit code. Pure: it writes nothing itself.

mod asking;
mod ending;
mod event;
mod spent;
pub(super) mod starting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use tetrarch_core::brief::{Outcome, RunResult, Tools};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::verb::{Command, Stage, Verb, Wanted};

use super::{AdapterSheet, AgentInput, AgentOutput, Capability, truncated};
use crate::lines::start_of;
use crate::protocol::ProgramEvent;
use asking::{AskedUse, used};
use ending::told;
use event::{ClaudeEvent, TurnEnd};
use spent::Spent;

/// What people are told of it.
pub(super) const SHEET: AdapterSheet = AdapterSheet {
    program: "claude",
    tested: &["2.1.330"],
    install: "npm install -g @anthropic-ai/claude-code@2.1.330",
    capabilities: &[
        ("start", Capability::Native),
        ("resume", Capability::Native),
        ("steer", Capability::Native),
        ("interrupt", Capability::Native),
        ("stop", Capability::Native),
        ("usage", Capability::Native),
        ("permissions", Capability::Native),
        ("typed result", Capability::Native),
    ],
};

/// Verbs that it takes. A pause freezes its processes, as of any program.
pub(crate) const VERBS: [Verb; 2] = [Verb::Steer, Verb::Interrupt];

/// The names of requests of ours that are no verbs.
const ENDING: &str = "tetrarch-ending";
/// Most bytes of words in a status.
const STATUS_BYTES: usize = 1_024;
/// Kinds of events that are told apart when nobody knows them; the rest counts as one.
const UNKNOWN_MAX: usize = 16;

/// A message that it was written and has not begun to read.
#[derive(Debug)]
struct UnreadMessage {
    text: String,
    verb: Option<RequestId>,
}

/// Why its turn is to be the last.
#[derive(Debug)]
enum LastTurn {
    /// People or the grant want it to end.
    Stop(String),
    /// Its next session goes on.
    Rotation,
}

/// What was said to one program and by it.
#[derive(Debug)]
pub(crate) struct ClaudeSession {
    tools: Tools,
    first: String,
    reviews: bool,
    /// By their number, which they carry as a UUID.
    unread: BTreeMap<u128, UnreadMessage>,
    /// The number before its first message. It ignores one whose number is in its transcript, so that no two runs of
    /// a conversation count from the same.
    base: u128,
    messages: u64,
    ready: bool,
    /// Whether it has something to do.
    works: bool,
    aborting: bool,
    ending: Option<LastTurn>,
    /// Texts of messages that it dropped unread.
    again: Vec<String>,
    /// The answer of the model that it works on, and what it was allowed to use since.
    answer: String,
    using: Vec<String>,
    /// What people are asked, the first of them now.
    asked: VecDeque<AskedUse>,
    blocked: bool,
    spent: Spent,
    words: String,
    unknown: BTreeMap<String, u64>,
}

impl ClaudeSession {
    /// A conversation that `first` begins or goes on with, under these tools; `reviews`: it ends by a verdict. `base`
    /// is what messages are numbered from.
    pub(super) fn new(tools: Tools, first: String, reviews: bool, base: u128) -> Self {
        Self {
            tools,
            first,
            reviews,
            unread: BTreeMap::new(),
            base,
            messages: 0,
            ready: false,
            works: false,
            aborting: false,
            ending: None,
            again: Vec::new(),
            answer: String::new(),
            using: Vec::new(),
            asked: VecDeque::new(),
            blocked: false,
            spent: Spent::default(),
            words: String::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// The first line.
    pub(super) fn first_line(&mut self) -> Vec<u8> {
        let text = std::mem::take(&mut self.first);
        self.message(&text)
    }

    /// A message, which it reads at its next boundary or as its next turn.
    pub(super) fn message(&mut self, text: &str) -> Vec<u8> {
        self.messages += 1;
        self.say(self.base.wrapping_add(u128::from(self.messages)), text, None)
    }

    /// The line of a verb.
    pub(super) fn verb(&mut self, command: &Command) -> Option<Vec<u8>> {
        match &command.wanted {
            Wanted::Steer { text } => {
                let text = format!("[steer from {}]\n{text}", command.by);
                Some(self.say(u128::from(command.id.0), &text, Some(command.id)))
            }
            Wanted::Interrupt { .. } => {
                self.aborting = self.works;
                Some(interrupt(&command.id.to_string()))
            }
            Wanted::Pause | Wanted::Resume => None,
        }
    }

    fn say(&mut self, number: u128, text: &str, verb: Option<RequestId>) -> Vec<u8> {
        let mut whole = std::mem::take(&mut self.again);
        whole.push(text.to_owned());
        let text = whole.join("\n\n");
        let said = json!({
            "type": "user",
            "uuid": uuid(number),
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
            "session_id": "",
        });
        self.unread.insert(number, UnreadMessage { text, verb });
        self.works = true;
        line(&said)
    }

    /// It is asked to end.
    pub(super) fn stop(&mut self, reason: &str) -> AgentInput {
        self.end(LastTurn::Stop(reason.to_owned()))
    }

    /// It is asked to end, so that its next session goes on.
    pub(super) fn rotate(&mut self) -> AgentInput {
        match self.ending {
            // A stop has more to say.
            Some(LastTurn::Stop(_)) => AgentInput::Line(interrupt(ENDING)),
            Some(LastTurn::Rotation) | None => self.end(LastTurn::Rotation),
        }
    }

    fn end(&mut self, ending: LastTurn) -> AgentInput {
        self.ending = Some(ending);
        if self.works { AgentInput::Line(interrupt(ENDING)) } else { AgentInput::Close }
    }

    /// How its work stands.
    pub(super) fn status(&self) -> RunnerEvent {
        let words = start_of(&self.words, STATUS_BYTES);
        let summary = format!("turn {}. {words}", self.spent.total().turns);
        let update = json!({"status": "in_progress", "summary": summary}).to_string();
        RunnerEvent::Update { update }
    }

    /// What it said that nobody here knows.
    pub(super) fn unknown(&self) -> Option<String> {
        let kinds: Vec<String> =
            self.unknown.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
        (!kinds.is_empty())
            .then(|| format!("events that are not known and were ignored: {}", kinds.join(", ")))
    }

    /// Reads a whole line.
    pub(super) fn read(&mut self, line: &[u8]) -> AgentOutput {
        match ClaudeEvent::of(line) {
            None => AgentOutput::text(),
            Some(event) => self.hear(event),
        }
    }

    /// Reads the start of a line that is too long. What waits for an answer gets one.
    pub(super) fn read_cut(&mut self, start: &[u8]) -> AgentOutput {
        let fields = truncated::fields(start);
        let text = |name: &str| fields.get(name).cloned().flatten().unwrap_or_default();
        let request = text("request_id");
        if text("type") == "control_request" && !request.is_empty() {
            let why = "the request is too long to be judged; write large files in parts";
            let input = answer(&request, &json!({"behavior": "deny", "message": why}));
            return AgentOutput {
                inputs: vec![AgentInput::Line(input)],
                is_text: true,
                ..AgentOutput::default()
            };
        }
        if text("type") == "result" || fields.contains_key("total_cost_usd") {
            let error =
                "its result is too long; put large results in a file and name it".to_owned();
            let end = TurnEnd { failed: Some(error), ..TurnEnd::default() };
            return self.turn_ended(end);
        }
        AgentOutput::text()
    }

    fn hear(&mut self, event: ClaudeEvent) -> AgentOutput {
        match event {
            ClaudeEvent::Ready { version, model } => self.is_ready(&version, &model),
            ClaudeEvent::Read { message } => self.was_read(message),
            ClaudeEvent::Dropped { message } => self.was_dropped(message),
            ClaudeEvent::Says { id, texts, uses, spent } => self.says(id, texts, uses, spent),
            ClaudeEvent::Retries { status, why } => self.retries(status, &why),
            ClaudeEvent::Asks { request, tool, input } => self.asks(request, tool, input),
            ClaudeEvent::Withdraws { request } => self.withdraws(&request),
            ClaudeEvent::AsksElse { request, what } => {
                let error = format!("`{what}` is not supported by this host");
                let response = json!({"subtype": "error", "request_id": request, "error": error});
                let input = line(&json!({"type": "control_response", "response": response}));
                AgentOutput { inputs: vec![AgentInput::Line(input)], ..AgentOutput::default() }
            }
            ClaudeEvent::Answers { request, error } => self.answers(&request, error),
            ClaudeEvent::Ended(end) => self.turn_ended(*end),
            ClaudeEvent::Quiet => AgentOutput::default(),
            ClaudeEvent::Unknown { kind } => {
                let known = self.unknown.contains_key(&kind) || self.unknown.len() < UNKNOWN_MAX;
                let kind = if known { kind } else { "others".to_owned() };
                *self.unknown.entry(kind).or_default() += 1;
                AgentOutput::text()
            }
        }
    }

    /// It is up, which it says at the start of each turn.
    fn is_ready(&mut self, version: &str, model: &str) -> AgentOutput {
        if std::mem::replace(&mut self.ready, true) {
            return AgentOutput::default();
        }
        let tested = SHEET.tested.join(", ");
        let untested = if SHEET.tested.contains(&version) {
            String::new()
        } else {
            format!("; its adapter was tested with {tested}")
        };
        let note = Some(format!("claude {version}, model {model}{untested}"));
        AgentOutput { note, ..AgentOutput::default() }
    }

    fn was_read(&mut self, message: u128) -> AgentOutput {
        let Some(unread) = self.unread.remove(&message) else { return AgentOutput::default() };
        let mut output = AgentOutput::event(ProgramEvent::Turn { begins: true });
        if let Some(id) = unread.verb {
            output.events.push(ProgramEvent::Taken(id));
        }
        // It has kept the message itself: who goes on from here is not given it again.
        output.events.push(self.checkpoint());
        output
    }

    /// What its next session has to know: its own transcript lacks the last moments of a program that was killed.
    fn checkpoint(&self) -> ProgramEvent {
        let state =
            json!({"adapter": "claude", "messages": self.messages, starting::USING: self.using});
        let state = state.to_string();
        ProgramEvent::Plain(RunnerEvent::Checkpoint { state, confirm: false })
    }

    fn was_dropped(&mut self, message: u128) -> AgentOutput {
        let Some(unread) = self.unread.remove(&message) else { return AgentOutput::default() };
        let Some(id) = unread.verb else {
            self.again.push(unread.text);
            return AgentOutput::default();
        };
        let why = "an interrupt came before it was read; send it again".to_owned();
        AgentOutput::plain(RunnerEvent::Receipt { id, stage: Stage::Refused, why })
    }

    fn says(
        &mut self,
        id: String,
        texts: Vec<String>,
        uses: Vec<(String, Value)>,
        spent: (u64, u64),
    ) -> AgentOutput {
        let mut output = AgentOutput::default();
        if std::mem::take(&mut self.blocked) {
            output.events.push(ProgramEvent::Plain(RunnerEvent::Unblocked));
        }
        if self.answer != id {
            // It has what came of the uses before.
            self.using.clear();
            self.answer.clone_from(&id);
        }
        self.spent.calls(id, spent);
        output.events.push(ProgramEvent::Usage(self.spent.total()));
        for text in texts {
            self.words.clone_from(&text);
            output.events.push(ProgramEvent::Plain(RunnerEvent::Text { text }));
        }
        // Its next message comes when they have answered.
        let tool = uses.first().map(|(tool, _)| tool.clone()).unwrap_or_default();
        output.events.push(ProgramEvent::Plain(RunnerEvent::Using { tool }));
        for (tool, input) in uses {
            let text = used(&tool, &input);
            let progress = RunnerEvent::Progress { text, done: None, total: None };
            output.events.push(ProgramEvent::Plain(progress));
        }
        output
    }

    /// It calls the model again after an error. A key that is refused once is refused each time.
    fn retries(&mut self, status: Option<u64>, why: &str) -> AgentOutput {
        let status_text =
            status.map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
        if matches!(status, Some(401 | 403)) && self.ending.is_none() {
            let error = format!(
                "the model's server refuses the key ({status_text}, {why}); set `keyFrom` of the profile to a valid key"
            );
            self.ending = Some(LastTurn::Stop(error.clone()));
            let result = RunResult::ended(Outcome::Failure, error);
            let mut output = told(result, Value::Null);
            output.inputs = vec![AgentInput::Line(interrupt(ENDING))];
            return output;
        }
        self.blocked = true;
        let kind = if status == Some(429) { "rate_limited" } else { "model_unavailable" };
        AgentOutput::plain(RunnerEvent::Blocked { reason: format!("{kind}: {status_text}, {why}") })
    }

    fn answers(&mut self, request: &str, error: Option<String>) -> AgentOutput {
        if request == ENDING {
            return AgentOutput { inputs: vec![AgentInput::Close], ..AgentOutput::default() };
        }
        let Ok(id) = request.parse::<RequestId>() else { return AgentOutput::default() };
        match error {
            None => AgentOutput::event(ProgramEvent::Taken(id)),
            Some(why) => {
                self.aborting = false;
                AgentOutput::plain(RunnerEvent::Receipt { id, stage: Stage::Refused, why })
            }
        }
    }
}

/// The request to abort the turn and to drop what waits for it: what it dropped is told.
fn interrupt(request: &str) -> Vec<u8> {
    let wanted = json!({"subtype": "interrupt", "cancel_queued": true});
    line(&json!({"type": "control_request", "request_id": request, "request": wanted}))
}

fn answer(request: &str, answer: &Value) -> Vec<u8> {
    let response = json!({"subtype": "success", "request_id": request, "response": answer});
    line(&json!({"type": "control_response", "response": response}))
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A number as the UUID that has the same bits.
pub(super) fn uuid(number: u128) -> String {
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// The session's UUID of a run: of the first of those that go on from each other.
pub(super) fn conversation(first: Ulid) -> String {
    uuid(u128::from(first))
}
