//! One line of `claude`'s output, by its keys. Total: any object is an event, known, unknown or of no concern.

use serde_json::{Map, Value};

use crate::adapter::dialect::number;
use crate::adapter::event::TurnEnd;

/// What a line says.
#[derive(Debug, PartialEq)]
pub(super) enum ClaudeEvent {
    /// It is up, or begins a turn.
    Ready { version: String, model: String },
    /// It begins to read one of our messages.
    Read { message: u128 },
    /// It will not read one.
    Dropped { message: u128 },
    /// The model's answer, or a part of it: its texts, what tools it wants to use, and its tokens in and out so far.
    Says { id: String, texts: Vec<String>, uses: Vec<(String, Value)>, spent: (u64, u64) },
    /// It calls the model again, after this status and error.
    Retries { status: Option<u64>, why: String },
    /// It asks whether it may use a tool.
    Asks { request: String, tool: String, input: Value },
    /// It does not want to know any more.
    Withdraws { request: String },
    /// It asks something else.
    AsksElse { request: String, what: String },
    /// It answers a request of ours; the error if it refuses.
    Answers { request: String, error: Option<String> },
    /// Its turn is over: how, its tokens in and out, and the dollars of all turns of the program.
    Ended { end: TurnEnd, spent: Option<(u64, u64)>, dollars: Option<f64> },
    /// Nothing of concern.
    Quiet,
    /// Something that is not known.
    Unknown { kind: String },
}

/// How it begins to say that nobody is logged in.
const NO_LOGIN: &str = "Not logged in";
const LOGIN_CURE: &str = "a host's program does not see your login: name a key with `keyFrom`, or for a \
     subscription `passEnv: [CLAUDE_CODE_OAUTH_TOKEN]`, which `claude setup-token` makes";

/// Kinds of events that concern nobody here.
const QUIET: [&str; 7] = [
    "rate_limit_event",
    "keep_alive",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "prompt_suggestion",
    "auth_status",
];

impl ClaudeEvent {
    /// Reads a line; none when it is no object with a `type`.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        if line.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { return None };
        let kind = fields.get("type")?.as_str()?;
        Some(match kind {
            "system" => system(&fields),
            "assistant" => assistant(&fields),
            "user" => user(&fields),
            "command_lifecycle" => lifecycle(&fields),
            "control_request" => request(&fields),
            "control_cancel_request" => Self::Withdraws { request: text(&fields, "request_id") },
            "control_response" => response(&fields),
            "result" => ended(&fields),
            _ if QUIET.contains(&kind) => Self::Quiet,
            _ => Self::Unknown { kind: kind.chars().take(64).collect() },
        })
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> String {
    fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The number of a message of ours.
fn message(fields: &Map<String, Value>, key: &str) -> Option<u128> {
    number(fields.get(key)?.as_str()?)
}

fn system(fields: &Map<String, Value>) -> ClaudeEvent {
    match text(fields, "subtype").as_str() {
        "init" => ClaudeEvent::Ready {
            version: text(fields, "claude_code_version"),
            model: text(fields, "model"),
        },
        "api_retry" => ClaudeEvent::Retries {
            status: fields.get("error_status").and_then(Value::as_u64),
            why: text(fields, "error"),
        },
        _ => ClaudeEvent::Quiet,
    }
}

fn user(fields: &Map<String, Value>) -> ClaudeEvent {
    let replayed = fields.get("isReplay").and_then(Value::as_bool).unwrap_or_default();
    match message(fields, "uuid").filter(|_| replayed) {
        Some(message) => ClaudeEvent::Read { message },
        None => ClaudeEvent::Quiet,
    }
}

fn lifecycle(fields: &Map<String, Value>) -> ClaudeEvent {
    let dropped = text(fields, "state") == "cancelled";
    match message(fields, "command_uuid").filter(|_| dropped) {
        Some(message) => ClaudeEvent::Dropped { message },
        None => ClaudeEvent::Quiet,
    }
}

fn assistant(fields: &Map<String, Value>) -> ClaudeEvent {
    let Some(Value::Object(message)) = fields.get("message") else { return ClaudeEvent::Quiet };
    let content = message.get("content").and_then(Value::as_array);
    let (mut texts, mut uses) = (Vec::new(), Vec::new());
    for part in content.into_iter().flatten().filter_map(Value::as_object) {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => texts.push(text(part, "text")),
            Some("tool_use") => {
                uses.push((text(part, "name"), part.get("input").cloned().unwrap_or_default()));
            }
            Some(_) | None => {}
        }
    }
    let spent = message.get("usage").and_then(tokens).unwrap_or_default();
    ClaudeEvent::Says { id: text(message, "id"), texts, uses, spent }
}

fn request(fields: &Map<String, Value>) -> ClaudeEvent {
    let asked = fields.get("request").and_then(Value::as_object);
    let asked_text = |key: &str| asked.map(|asked| text(asked, key)).unwrap_or_default();
    let (request, what) = (text(fields, "request_id"), asked_text("subtype"));
    if what != "can_use_tool" {
        return ClaudeEvent::AsksElse { request, what };
    }
    let input = asked.and_then(|asked| asked.get("input")).cloned().unwrap_or_default();
    ClaudeEvent::Asks { request, tool: asked_text("tool_name"), input }
}

fn response(fields: &Map<String, Value>) -> ClaudeEvent {
    let Some(Value::Object(answer)) = fields.get("response") else { return ClaudeEvent::Quiet };
    let error = (text(answer, "subtype") == "error").then(|| text(answer, "error"));
    ClaudeEvent::Answers { request: text(answer, "request_id"), error }
}

fn ended(fields: &Map<String, Value>) -> ClaudeEvent {
    let subtype = text(fields, "subtype");
    let said = text(fields, "result");
    let is_error = fields.get("is_error").and_then(Value::as_bool).unwrap_or_default();
    let failed = (subtype != "success" || is_error).then(|| {
        let errors = fields.get("errors").and_then(Value::as_array);
        let errors: Vec<&str> = errors.into_iter().flatten().filter_map(Value::as_str).collect();
        let what = if errors.is_empty() { said.clone() } else { errors.join("; ") };
        match (subtype.as_str(), what.as_str()) {
            (_, "") => subtype.clone(),
            // It calls a turn that ended with an error of its server a success.
            ("success", what) if what.starts_with(NO_LOGIN) => format!("{what}; {LOGIN_CURE}"),
            ("success", what) => what.to_owned(),
            (subtype, what) => format!("{subtype}: {what}"),
        }
    });
    let end = TurnEnd {
        failed,
        is_capped: matches!(subtype.as_str(), "error_max_turns" | "error_max_budget_usd"),
        text: said,
        structured: fields.get("structured_output").filter(|output| !output.is_null()).cloned(),
    };
    let dollars = fields.get("total_cost_usd").and_then(Value::as_f64);
    ClaudeEvent::Ended { end, spent: fields.get("usage").and_then(tokens), dollars }
}

/// Tokens in and out; what was read from a cache or written to it counts as read.
fn tokens(usage: &Value) -> Option<(u64, u64)> {
    let usage = usage.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let read = read.into_iter().map(count).fold(0, u64::saturating_add);
    Some((read, count("output_tokens")))
}
