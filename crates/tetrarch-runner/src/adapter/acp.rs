//! Any program that speaks the Agent Client Protocol, version 1, as a worker (docs/agents.md): JSON-RPC on its standard
//! streams. Says what its calls are; what follows from them is the session's. It has one prompt at a time: some programs
//! abort the one at work when another comes, so that messages wait for its end.

mod permitted;
pub(super) mod starting;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tetrarch_core::brief::Usage;

use super::dialect::{AgentExchange, NamedByProgram, Saying, text};
use super::event::{AgentEvent, TurnEnd};
use super::rpc::{self, RpcCalls, RpcLine};
use super::{AdapterSheet, Capability, truncated};
use crate::lines::start_of;
use permitted::PermissionOptions;
use starting::AcpSession;

/// What its session is told of it: which of many programs it is, only that itself knows.
pub(super) const SHEET: AdapterSheet = AdapterSheet {
    program: "acp",
    runner: "acp",
    tested: &["opencode 1.18.33", "gemini-cli 0.61.0"],
    install: "",
    capabilities: &capabilities(Capability::Native),
};

/// What people are told of two of its programs.
pub(super) const OPENCODE: AdapterSheet = AdapterSheet {
    program: "opencode",
    tested: &["1.18.33"],
    install: "npm install -g opencode-ai@1.18.33",
    ..SHEET
};
pub(super) const GEMINI: AdapterSheet = AdapterSheet {
    program: "gemini",
    tested: &["0.61.0"],
    install: "npm install -g @google/gemini-cli@0.61.0",
    // Unless its profile has it trust its directory (docs/agents.md).
    capabilities: &capabilities(Capability::None),
    ..SHEET
};

const fn capabilities(fleet: Capability) -> [(&'static str, Capability); 9] {
    [
        ("start", Capability::Native),
        ("resume", Capability::Native),
        ("steer", Capability::Queued),
        ("interrupt", Capability::Native),
        ("stop", Capability::Native),
        // With `provider`, as in its ready profile: its calls go through the run's gateway.
        ("usage", Capability::Native),
        ("permissions", Capability::Native),
        ("typed result", Capability::None),
        ("fleet tools", fleet),
    ]
}

/// Why a message is dropped with the turn that it waited for.
const ABORTED: &str = "an interrupt came before it was read; send it again";
/// The code of an error that asks for a login.
const NEEDS_LOGIN: i64 = -32_000;

/// Updates that concern nobody here.
const QUIET: [&str; 8] = [
    "available_commands_update",
    "compaction_update",
    "config_option_update",
    "current_mode_update",
    "plan",
    "session_info_update",
    "usage_update",
    "user_message_chunk",
];

/// Most bytes of what it says between two uses of tools; the rest is dropped.
const SAID_BYTES_MAX: usize = 1024 * 1024;

/// Messages that wait for the end of its prompt; of more refusals it is not told.
const HELD_MAX: usize = 64;

/// A call of ours that it has not answered.
#[derive(Debug)]
enum AcpCall {
    Initialize,
    Login,
    New,
    Load,
    Prompt,
}

/// What is said to a program, and what has to be known of what it said.
#[derive(Debug, Default)]
pub(crate) struct Acp {
    wanted: AcpSession,
    /// Where it works.
    directory: String,
    ready: (String, String),
    logins: Vec<String>,
    session: String,
    calls: RpcCalls<AcpCall>,
    /// Messages that wait for the end of its prompt. One without a number is the host's own.
    held: Vec<(Option<u128>, String)>,
    /// The messages of its prompt, while that is at work; those that are not read yet.
    prompt: Option<Vec<u128>>,
    /// An interrupt that it has not answered, and whether it was told.
    interrupt: Option<(String, bool)>,
    asked: NamedByProgram<PermissionOptions>,
    /// Its uses of tools that are not over, and whether they were shown.
    tools: NamedByProgram<bool>,
    /// What it has said since it used a tool last, and what of it was not told yet.
    said: String,
    chunk: String,
    used: Usage,
}

impl Acp {
    /// Its session is to be like this.
    fn new(wanted: AcpSession) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Says something.
    pub(super) fn say(&mut self, saying: Saying<'_>) -> AgentExchange {
        match saying {
            Saying::Open { directory } => {
                directory.clone_into(&mut self.directory);
                self.call(AcpCall::Initialize, "initialize", &starting::hello())
            }
            Saying::Message { number, text } => {
                // The brief comes before what waited for the session.
                let at = if self.session.is_empty() || self.prompt.is_some() {
                    self.held.len()
                } else {
                    0
                };
                self.held.insert(at, (Some(number), text.to_owned()));
                let mut heard = self.prompt();
                // It is written at once, which its sender sees by the line.
                heard.events.retain(|event| *event != AgentEvent::Written { number });
                heard
            }
            Saying::Interrupt { request } => {
                let idle =
                    self.prompt.is_none() && self.held.is_empty() && !self.session.is_empty();
                if idle {
                    let request = request.to_owned();
                    return AgentExchange::event(AgentEvent::Interrupted {
                        request,
                        refused: None,
                    });
                }
                self.interrupt = Some((request.to_owned(), false));
                self.cancel()
            }
            Saying::Decision { request, refused, .. } => {
                let options = self.asked.remove(request).unwrap_or_default();
                let answered = rpc::answer(request, &options.chosen(refused.is_none()));
                if let Some(why) = refused.filter(|_| self.held.len() < HELD_MAX) {
                    // Its answer has no reason, and some programs end their turn with it.
                    let words = format!("[Your last use of a tool was refused: {why}]");
                    self.held.push((None, words));
                }
                answered
            }
        }
    }

    /// Takes a message back that waits for the end of its prompt.
    pub(super) fn take_back(&mut self, number: u128) -> bool {
        let held = self.held.len();
        self.held.retain(|(held, _)| *held != Some(number));
        self.held.len() < held
    }

    /// Gives it what waits, when it has nothing to do.
    fn prompt(&mut self) -> AgentExchange {
        if self.prompt.is_some() || self.session.is_empty() || self.held.is_empty() {
            return AgentExchange::default();
        }
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for (number, text) in std::mem::take(&mut self.held) {
            numbers.extend(number);
            texts.push(text);
        }
        let events = numbers.iter().map(|number| AgentEvent::Written { number: *number }).collect();
        self.prompt = Some(numbers);
        self.said.clear();
        let text = texts.join("\n\n");
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        let written = AgentExchange { events, inputs: Vec::new() };
        written.and(self.call(AcpCall::Prompt, "session/prompt", &params)).and(self.cancel())
    }

    /// Tells it of the interrupt that waits, once there is something to interrupt.
    fn cancel(&mut self) -> AgentExchange {
        let Some((_, told @ false)) = &mut self.interrupt else { return AgentExchange::default() };
        if self.prompt.is_none() {
            return AgentExchange::default();
        }
        *told = true;
        let cancelled = std::mem::take(&mut self.asked);
        let answers =
            cancelled.names().map(|request| rpc::answer(request, &permitted::cancelled()));
        let params = json!({"sessionId": self.session});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        answers.fold(AgentExchange::line(&cancel), AgentExchange::and)
    }

    fn call(&mut self, call: AcpCall, method: &str, params: &Value) -> AgentExchange {
        self.calls.call(call, method, params)
    }

    /// Reads a whole line.
    pub(super) fn hear(&mut self, line: &[u8]) -> AgentExchange {
        match rpc::read(line) {
            RpcLine::Request { id, method, params } => match method.as_str() {
                "session/request_permission" => self.asks(&id, &params),
                _ => {
                    let message = format!("`{method}` is not offered by this host");
                    rpc::refusal(&id, rpc::METHOD_NOT_FOUND, &message)
                }
            },
            RpcLine::Notification { method, params } => match method.as_str() {
                "session/update" => self.updated(&params),
                _ => AgentExchange::event(AgentEvent::Unknown {
                    kind: method.chars().take(64).collect(),
                }),
            },
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
        let text = AgentExchange::event(AgentEvent::Text);
        match (field("method"), field("id")) {
            (Some(_), Some(id)) => {
                text.and(rpc::refusal(&id, rpc::INVALID_REQUEST, truncated::REQUEST))
            }
            (None, Some(id)) => match id.parse().ok().and_then(|id| self.calls.answered(id)) {
                Some(_) => text.and(self.failed(truncated::RESULT)),
                None => text,
            },
            (Some(_) | None, None) => text,
        }
    }

    fn asks(&mut self, request: &str, params: &Value) -> AgentExchange {
        // Some tell nothing of a tool before it is over.
        let told = self.read().and(self.tell());
        self.asked.insert(request.to_owned(), PermissionOptions::of(params));
        told.and(AgentExchange::event(AgentEvent::Asks(permitted::asked(request, params))))
    }

    /// It answers a call of ours.
    fn answered(&mut self, call: AcpCall, answer: Result<Value, Value>) -> AgentExchange {
        let (result, error) = match &answer {
            Ok(result) => (result, None),
            Err(error) => (&Value::Null, Some(error)),
        };
        match (call, error) {
            (AcpCall::Initialize, None) => self.greeted(result),
            (AcpCall::Login, None) => self.start(),
            (AcpCall::New, None) => self.opened(text(result, "sessionId"), false),
            (AcpCall::Load, None) => {
                let session = self.wanted.resumes.take().unwrap_or_default();
                self.opened(session, true)
            }
            // It knows nothing of it any more.
            (AcpCall::Load, Some(_)) => {
                self.wanted.resumes = None;
                self.start()
            }
            (AcpCall::New, Some(error))
                if error.get("code").and_then(Value::as_i64) == Some(NEEDS_LOGIN) =>
            {
                self.login()
            }
            (AcpCall::Initialize | AcpCall::Login | AcpCall::New, Some(error)) => {
                self.failed(&format!("it cannot start: {}", starting::words_of(error)))
            }
            (AcpCall::Prompt, None) => self.prompt_ended(result),
            (AcpCall::Prompt, Some(error)) => self.failed(&starting::words_of(error)),
        }
    }

    fn greeted(&mut self, result: &Value) -> AgentExchange {
        let about = result.get("agentInfo").unwrap_or(&Value::Null);
        self.ready = (text(about, "name"), text(about, "version"));
        let methods = result.get("authMethods").and_then(Value::as_array);
        self.logins = methods.into_iter().flatten().map(|method| text(method, "id")).collect();
        let loads = result.get("agentCapabilities").and_then(|all| all.get("loadSession"));
        if loads != Some(&Value::Bool(true)) {
            self.wanted.resumes = None;
        }
        self.start()
    }

    /// A login that needs nobody at a terminal, by a key that its environment has.
    fn login(&mut self) -> AgentExchange {
        match self.logins.iter().position(|login| login.contains("api-key")) {
            Some(at) => {
                let method = self.logins.swap_remove(at);
                self.logins.clear();
                self.call(AcpCall::Login, "authenticate", &json!({"methodId": method}))
            }
            None => {
                self.failed("it wants somebody to log in; give it a key by `keyFrom` or `passEnv`")
            }
        }
    }

    fn start(&mut self) -> AgentExchange {
        let mut params = json!({"cwd": self.directory, "mcpServers": self.wanted.servers()});
        match &self.wanted.resumes {
            Some(session) => {
                params["sessionId"] = json!(session);
                self.call(AcpCall::Load, "session/load", &params)
            }
            None => self.call(AcpCall::New, "session/new", &params),
        }
    }

    fn opened(&mut self, session: String, goes_on: bool) -> AgentExchange {
        self.session.clone_from(&session);
        let (model, version) = self.ready.clone();
        let version = format!("{} {version}", model.to_lowercase());
        let ready = AgentEvent::Ready { version, model: "its own".to_owned() };
        let opened = AgentEvent::Opened { goes_on, conversation: session };
        AgentExchange { events: vec![ready, opened], inputs: Vec::new() }
    }

    /// It tells what it does. What it tells of an earlier session is none of this one.
    fn updated(&mut self, params: &Value) -> AgentExchange {
        let update = params.get("update").unwrap_or(&Value::Null);
        let kind = text(update, "sessionUpdate");
        if self.prompt.is_none() {
            return AgentExchange::default();
        }
        let mut heard = self.read();
        match kind.as_str() {
            "agent_message_chunk" => {
                if self.chunk.is_empty() {
                    heard = heard.and(self.answers());
                }
                let words = update.get("content").map(|content| text(content, "text"));
                let room = SAID_BYTES_MAX.saturating_sub(self.said.len() + self.chunk.len());
                self.chunk.push_str(start_of(&words.unwrap_or_default(), room));
            }
            "agent_thought_chunk" => heard = heard.and(self.tell()).and(self.answers()),
            "tool_call" | "tool_call_update" => {
                heard = heard.and(self.tell()).and(self.tool(update))
            }
            _ if QUIET.contains(&kind.as_str()) => {}
            _ => heard.events.push(AgentEvent::Unknown { kind: kind.chars().take(64).collect() }),
        }
        heard
    }

    /// It works on its prompt, and has read it therefore.
    fn read(&mut self) -> AgentExchange {
        let numbers = self.prompt.as_mut().map(std::mem::take).unwrap_or_default();
        let events = numbers.into_iter().map(|number| AgentEvent::Read { number }).collect();
        AgentExchange { events, inputs: Vec::new() }
    }

    fn answers(&self) -> AgentExchange {
        match self.tools.is_empty() {
            true => AgentExchange::event(AgentEvent::Answers),
            false => AgentExchange::default(),
        }
    }

    /// Tells its words, which come in pieces.
    fn tell(&mut self) -> AgentExchange {
        if self.chunk.is_empty() {
            return AgentExchange::default();
        }
        let text = std::mem::take(&mut self.chunk);
        self.said.push_str(&text);
        AgentExchange::event(AgentEvent::Says { text })
    }

    fn tool(&mut self, update: &Value) -> AgentExchange {
        self.said.clear();
        let (id, status) = (text(update, "toolCallId"), text(update, "status"));
        let is_over = matches!(status.as_str(), "completed" | "failed");
        let shown = self.tools.get(&id).copied().unwrap_or_default();
        // What it is used with is not known at first.
        let shows = !shown && (is_over || status == "in_progress");
        if is_over {
            self.tools.remove(&id);
        } else {
            self.tools.insert(id, shown || shows);
        }
        if !shows {
            return AgentExchange::default();
        }
        let (tool, input) = permitted::tool_of(update);
        AgentExchange::event(AgentEvent::Uses { tool, input })
    }

    fn prompt_ended(&mut self, result: &Value) -> AgentExchange {
        let (read, written) = starting::tokens(result);
        self.used.tokens_in = self.used.tokens_in.saturating_add(read);
        self.used.tokens_out = self.used.tokens_out.saturating_add(written);
        self.used.turns = self.used.turns.saturating_add(1);
        let used = AgentExchange::event(AgentEvent::Used(self.used));
        let heard = self.read().and(self.tell()).and(used);
        let reason = text(result, "stopReason");
        let failed = (reason != "end_turn").then(|| reason.clone());
        let is_capped = matches!(reason.as_str(), "max_tokens" | "max_turn_requests");
        let text = std::mem::take(&mut self.said);
        heard.and(self.ended(TurnEnd { failed, is_capped, text, structured: None }))
    }

    fn failed(&mut self, why: &str) -> AgentExchange {
        let told = self.read().and(self.tell());
        told.and(self.ended(TurnEnd::failed(why)))
    }

    /// Its prompt is over. What waited for that comes next, unless people wanted it to stop.
    fn ended(&mut self, end: TurnEnd) -> AgentExchange {
        self.prompt = None;
        self.tools = NamedByProgram::default();
        self.asked = NamedByProgram::default();
        if let Some((request, _)) = self.interrupt.take() {
            let held = std::mem::take(&mut self.held);
            let numbers: BTreeSet<u128> =
                held.into_iter().filter_map(|(number, _)| number).collect();
            let dropped = |number| AgentEvent::Dropped { number, why: ABORTED.to_owned() };
            let mut events: Vec<AgentEvent> = numbers.into_iter().map(dropped).collect();
            events.push(AgentEvent::Ended(end));
            events.push(AgentEvent::Interrupted { request, refused: None });
            return AgentExchange { events, inputs: Vec::new() };
        }
        if end.failed.is_some() || self.held.is_empty() {
            return AgentExchange::event(AgentEvent::Ended(end));
        }
        self.prompt()
    }
}
