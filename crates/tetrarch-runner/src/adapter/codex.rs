//! `codex` as a worker: JSON-RPC with `codex app-server` on its standard streams (docs/agents.md). Says what its calls
//! are; what follows from them is the session's.

mod asked;
mod sent;
pub(super) mod starting;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use tetrarch_core::brief::Usage;

use super::dialect::{AgentExchange, NamedByProgram, Saying, number, text};
use super::event::{AgentEvent, TurnEnd};
use super::rpc::{self, RpcCalls, RpcLine};
use super::{AdapterSheet, NATIVE, truncated};
use asked::ToolItem;
use sent::SentMessages;
use starting::CodexThread;

/// What people are told of it.
pub(super) const SHEET: AdapterSheet = AdapterSheet {
    program: "codex",
    runner: "codex",
    tested: &["0.169.0"],
    install: "npm install -g @openai/codex@0.169.0",
    capabilities: &NATIVE,
};

/// Why a message is dropped with the turn that it was meant for.
const ABORTED: &str = "an interrupt came before it was read; send it again";

/// What it tells that concerns nobody here.
const QUIET: [&str; 17] = [
    "account/rateLimits/updated",
    "account/updated",
    "configWarning",
    "deprecationNotice",
    "item/reasoning/summaryPartAdded",
    "mcpServer/startupStatus/updated",
    "model/rerouted",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/compacted",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/readState/changed",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "turn/plan/updated",
];

/// A call of ours that it has not answered.
#[derive(Debug)]
enum CodexCall {
    Initialize,
    Start,
    Resume,
    Message(u128),
    Interrupt(String),
    /// One whose answer says nothing.
    Unheard,
}

/// What is said to `codex`, and what has to be known of what it said.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    /// How its thread is to be.
    wanted: CodexThread,
    version: String,
    thread: String,
    /// The turn that runs.
    turn: Option<String>,
    calls: RpcCalls<CodexCall>,
    /// Messages that wait for its thread.
    held: Vec<(u128, String)>,
    sent: SentMessages,
    /// An interrupt that waits for its turn to begin.
    interrupt: Option<String>,
    /// Its uses of tools that are not over.
    items: NamedByProgram<ToolItem>,
    /// What it said last in this turn.
    said: String,
    /// The turns that this program began.
    turns: NamedByProgram<()>,
    /// What its thread had used before this program, and what was used since.
    before: Option<(u64, u64)>,
    used: Usage,
}

impl Codex {
    /// Its thread is to be like this.
    fn new(wanted: CodexThread) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Says something.
    pub(super) fn say(&mut self, saying: Saying<'_>) -> AgentExchange {
        match saying {
            Saying::Open { .. } => {
                let hello = self.call(CodexCall::Initialize, "initialize", &starting::hello());
                let ready =
                    AgentExchange::line(&json!({"jsonrpc": "2.0", "method": "initialized"}));
                let open = match self.wanted.resumed() {
                    Some(resumed) => self.call(CodexCall::Resume, "thread/resume", &resumed),
                    None => self.start(),
                };
                hello.and(ready).and(open)
            }
            Saying::Message { number, text } if self.thread.is_empty() => {
                self.held.push((number, text.to_owned()));
                AgentExchange::default()
            }
            Saying::Message { number, text } => {
                let mut heard = self.send(number, text);
                // The first message of a thread comes before those that waited for it.
                for (number, text) in std::mem::take(&mut self.held) {
                    heard.events.push(AgentEvent::Written { number });
                    heard = heard.and(self.send(number, &text));
                }
                heard
            }
            Saying::Interrupt { request } => match &self.turn {
                Some(turn) => {
                    let params = json!({"threadId": self.thread, "turnId": turn});
                    self.call(CodexCall::Interrupt(request.to_owned()), "turn/interrupt", &params)
                }
                // It refuses an interrupt of a turn that is about to begin.
                None if self.begins() => {
                    self.interrupt = Some(request.to_owned());
                    AgentExchange::default()
                }
                None => aborted(request),
            },
            Saying::Decision { request, refused, .. } => {
                let decision = if refused.is_some() { "decline" } else { "accept" };
                let answer = rpc::answer(request, &json!({"decision": decision}));
                match refused {
                    // Its answer to the model gives no reason, so that one is there before it.
                    Some(why) => {
                        let words = format!("[Your last use of a tool was refused: {why}]");
                        self.turn_start(CodexCall::Unheard, &words, None).and(answer)
                    }
                    None => answer,
                }
            }
        }
    }

    /// Takes a message back that waits for its thread.
    pub(super) fn take_back(&mut self, number: u128) -> bool {
        let held = self.held.len();
        self.held.retain(|(held, _)| *held != number);
        self.held.len() < held
    }

    /// Whether a turn is about to begin.
    fn begins(&self) -> bool {
        self.thread.is_empty() || !self.sent.is_empty()
    }

    fn start(&mut self) -> AgentExchange {
        self.call(CodexCall::Start, "thread/start", &self.wanted.started())
    }

    /// A message joins the turn that runs, at its next boundary; otherwise it begins one.
    fn send(&mut self, number: u128, text: &str) -> AgentExchange {
        self.sent.add(number, text);
        self.turn_start(CodexCall::Message(number), text, Some(number))
    }

    fn turn_start(&mut self, call: CodexCall, text: &str, number: Option<u128>) -> AgentExchange {
        let params = self.wanted.turn(&self.thread, text, number);
        self.call(call, "turn/start", &params)
    }

    fn call(&mut self, call: CodexCall, method: &str, params: &Value) -> AgentExchange {
        self.calls.call(call, method, params)
    }

    /// Reads a whole line.
    pub(super) fn hear(&mut self, line: &[u8]) -> AgentExchange {
        match rpc::read(line) {
            RpcLine::Request { id, method, params } => {
                asked::heard(&id, &method, &params, &self.items)
            }
            RpcLine::Notification { method, params } => self.told(&method, &params),
            RpcLine::Answer { call, answer } => match self.calls.answered(call) {
                Some(call) => self.answered(call, answer),
                None => AgentExchange::event(AgentEvent::Text),
            },
            RpcLine::Text => AgentExchange::event(AgentEvent::Text),
        }
    }

    /// Reads the start of a line that is too long.
    pub(super) fn hear_cut(&mut self, start: &[u8]) -> AgentExchange {
        let fields = truncated::fields(start);
        let field = |name: &str| fields.get(name).cloned().flatten();
        match (field("method").as_deref(), field("id")) {
            (Some(_), Some(id)) => {
                let refused = rpc::refusal(&id, rpc::INVALID_REQUEST, truncated::REQUEST);
                AgentExchange::event(AgentEvent::Text).and(refused)
            }
            (Some("turn/completed"), None) => {
                self.turn = None;
                AgentExchange::event(AgentEvent::Ended(TurnEnd::failed(truncated::RESULT)))
            }
            (Some(_) | None, _) => AgentExchange::event(AgentEvent::Text),
        }
    }

    /// It answers a call of ours.
    fn answered(&mut self, call: CodexCall, answer: Result<Value, Value>) -> AgentExchange {
        let (result, error) = match &answer {
            Ok(result) => (result, None),
            Err(error) => (&Value::Null, Some(text(error, "message"))),
        };
        match (call, error) {
            (CodexCall::Initialize, None) => {
                let agent = text(result, "userAgent");
                let version = agent.split(['/', ' ']).nth(1).unwrap_or_default();
                version.clone_into(&mut self.version);
                AgentExchange::default()
            }
            (CodexCall::Start, None) => self.opened(result, false),
            (CodexCall::Resume, None) => self.opened(result, true),
            // It knows nothing of it any more.
            (CodexCall::Resume, Some(_)) => self.start(),
            (CodexCall::Initialize | CodexCall::Start, Some(error)) => AgentExchange::event(
                AgentEvent::Ended(TurnEnd::failed(format!("it cannot start: {error}"))),
            ),
            (CodexCall::Message(number), None) => {
                let turn = result.get("turn").map(|turn| text(turn, "id")).unwrap_or_default();
                if self.sent.joined(number, turn) {
                    AgentExchange::default()
                } else {
                    dropped(number, ABORTED)
                }
            }
            (CodexCall::Message(number), Some(error)) => {
                self.sent.read(number);
                let failed = dropped(number, &error);
                if self.turn.is_some() {
                    return failed;
                }
                failed.and(AgentExchange::event(AgentEvent::Ended(TurnEnd::failed(error))))
            }
            (CodexCall::Interrupt(request), refused) => {
                AgentExchange::event(AgentEvent::Interrupted { request, refused })
            }
            (CodexCall::Unheard, _) => AgentExchange::default(),
        }
    }

    fn opened(&mut self, result: &Value, goes_on: bool) -> AgentExchange {
        let thread = result.get("thread").map(|thread| text(thread, "id")).unwrap_or_default();
        self.thread.clone_from(&thread);
        let version = self.version.clone();
        let ready = AgentEvent::Ready { version, model: text(result, "model") };
        AgentExchange::event(ready)
            .and(AgentExchange::event(AgentEvent::Opened { goes_on, conversation: thread }))
    }

    /// It tells something.
    fn told(&mut self, method: &str, params: &Value) -> AgentExchange {
        let item = params.get("item").unwrap_or(&Value::Null);
        match method {
            "turn/started" => self.turn_started(params),
            "turn/completed" => self.turn_completed(params),
            "item/started" => self.item_started(item),
            "item/completed" => self.item_completed(item),
            "thread/tokenUsage/updated" => self.has_used(params),
            "error" => retries(params),
            "serverRequest/resolved" => {
                let request = params.get("requestId").unwrap_or(&Value::Null).to_string();
                AgentExchange::event(AgentEvent::Withdraws { request })
            }
            "warning" | "guardianWarning" => {
                AgentExchange::event(AgentEvent::Note { text: text(params, "message") })
            }
            _ if QUIET.contains(&method) => AgentExchange::default(),
            _ => AgentExchange::event(AgentEvent::Unknown {
                kind: method.chars().take(64).collect(),
            }),
        }
    }

    fn turn_started(&mut self, params: &Value) -> AgentExchange {
        let turn = params.get("turn").map(|turn| text(turn, "id")).unwrap_or_default();
        self.said.clear();
        self.items = NamedByProgram::default();
        self.turns.insert(turn.clone(), ());
        self.turn = Some(turn);
        match self.interrupt.take() {
            Some(request) => self.say(Saying::Interrupt { request: &request }),
            None => AgentExchange::default(),
        }
    }

    fn turn_completed(&mut self, params: &Value) -> AgentExchange {
        let turn = params.get("turn").unwrap_or(&Value::Null);
        let id = text(turn, "id");
        self.turn = None;
        let status = text(turn, "status");
        let error = turn.get("error").map(|error| text(error, "message")).unwrap_or_default();
        let info = turn.get("error").and_then(|error| error.get("codexErrorInfo"));
        let failed = match status.as_str() {
            "completed" => None,
            _ if error.is_empty() => Some(status.clone()),
            _ => Some(error),
        };
        let end = TurnEnd {
            failed,
            is_capped: info.and_then(Value::as_str) == Some("sessionBudgetExceeded"),
            text: std::mem::take(&mut self.said),
            structured: None,
        };
        let mut heard = AgentExchange::default();
        let left = self.sent.turn_ended(&id);
        if status == "interrupted" {
            let all = left.into_iter().map(|(number, _)| dropped(number, ABORTED));
            heard = all.fold(heard, AgentExchange::and);
            // Commands of the turn may go on otherwise.
            let thread = json!({"threadId": self.thread});
            heard = heard.and(self.call(
                CodexCall::Unheard,
                "thread/backgroundTerminals/clean",
                &thread,
            ));
        } else {
            for (number, words) in left {
                heard = heard.and(self.send(number, &words));
            }
        }
        heard.and(AgentExchange::event(AgentEvent::Ended(end)))
    }

    fn item_started(&mut self, item: &Value) -> AgentExchange {
        let tool = match text(item, "type").as_str() {
            "userMessage" => {
                let Some(number) = number(&text(item, "clientId")) else {
                    return AgentExchange::default();
                };
                self.sent.read(number);
                return AgentExchange::event(AgentEvent::Read { number });
            }
            // While a tool is at work, its use is part of an answer that is not over.
            "agentMessage" | "reasoning" | "plan" if self.items.is_empty() => {
                return AgentExchange::event(AgentEvent::Answers);
            }
            "agentMessage" | "reasoning" | "plan" | "contextCompaction" => {
                return AgentExchange::default();
            }
            "commandExecution" => asked::SHELL.to_owned(),
            "fileChange" => asked::PATCH.to_owned(),
            other => other.to_owned(),
        };
        self.items.insert(text(item, "id"), ToolItem::of(item));
        AgentExchange::event(AgentEvent::Uses { tool, input: asked::input_of(item) })
    }

    fn item_completed(&mut self, item: &Value) -> AgentExchange {
        self.items.remove(&text(item, "id"));
        if text(item, "type") != "agentMessage" {
            return AgentExchange::default();
        }
        self.said = text(item, "text");
        AgentExchange::event(AgentEvent::Says { text: self.said.clone() })
    }

    /// Its counters are of the whole thread. Those of a turn of another program are told again when it goes on.
    fn has_used(&mut self, params: &Value) -> AgentExchange {
        if self.turns.get(&text(params, "turnId")).is_none() {
            return AgentExchange::default();
        }
        let tokens = |of: &str| {
            let counts = params.get("tokenUsage").and_then(|usage| usage.get(of));
            let count = |key| counts.and_then(|all| all.get(key)?.as_u64()).unwrap_or_default();
            (count("inputTokens"), count("outputTokens"))
        };
        let (total, last) = (tokens("total"), tokens("last"));
        let before = *self.before.get_or_insert_with(|| {
            (total.0.saturating_sub(last.0), total.1.saturating_sub(last.1))
        });
        self.used = Usage {
            tokens_in: self.used.tokens_in.max(total.0.saturating_sub(before.0)),
            tokens_out: self.used.tokens_out.max(total.1.saturating_sub(before.1)),
            cost_micro: 0,
            turns: self.used.turns.saturating_add(1),
        };
        AgentExchange::event(AgentEvent::Used(self.used))
    }
}

/// There was no turn to abort.
fn aborted(request: &str) -> AgentExchange {
    let request = request.to_owned();
    AgentExchange::event(AgentEvent::Interrupted { request, refused: None })
}

fn dropped(number: u128, why: &str) -> AgentExchange {
    AgentExchange::event(AgentEvent::Dropped { number, why: why.to_owned() })
}

/// It had an error. The last one comes once more with the end of its turn.
fn retries(params: &Value) -> AgentExchange {
    if params.get("willRetry").and_then(Value::as_bool) != Some(true) {
        return AgentExchange::default();
    }
    let error = params.get("error").unwrap_or(&Value::Null);
    let kinds = error.get("codexErrorInfo").and_then(Value::as_object);
    let status = |kind: &Value| kind.get("httpStatusCode")?.as_u64();
    let status = kinds.and_then(|kinds| kinds.values().find_map(status));
    let details = text(error, "additionalDetails");
    let why = if details.is_empty() { text(error, "message") } else { details };
    AgentExchange::event(AgentEvent::Retries { status, why })
}
