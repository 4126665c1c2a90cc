//! What was said, for those who asked to be told (spec 12, `telemetry.content`): without credentials, in the form that
//! the conventions give it, and bounded.

use serde_json::{Value, json};
use tetrarch_core::converse::{Call, Message, Reply};
use tetrarch_core::redaction;

/// Bytes of one text that are told.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all messages of a call, about; the oldest are left out.
const MESSAGES_BYTES_MAX: usize = 64 * 1024;

/// A text.
pub(crate) fn text(words: &str) -> String {
    cut(&redaction::text(words), TEXT_BYTES_MAX)
}

/// JSON text, or whatever a model wrote instead.
pub(crate) fn json(text: &str) -> String {
    let mut json = text.to_owned();
    redaction::redact_json(&mut json);
    cut(&json, TEXT_BYTES_MAX)
}

/// A system prompt.
pub(crate) fn instructions(system: &str) -> String {
    json!([part(system, TEXT_BYTES_MAX)]).to_string()
}

/// What was said so far.
pub(crate) fn messages(messages: &[Message]) -> String {
    let mut room = MESSAGES_BYTES_MAX;
    let mut told = Vec::new();
    for message in messages.iter().rev() {
        let said = said(message);
        let bytes = said.to_string().len();
        if bytes > room && !told.is_empty() {
            let left_out = messages.len() - told.len();
            let words = format!("[{left_out} earlier messages are left out]");
            told.push(json!({"role": "system", "parts": [part(&words, TEXT_BYTES_MAX)]}));
            break;
        }
        room = room.saturating_sub(bytes);
        told.push(said);
    }
    told.reverse();
    Value::Array(told).to_string()
}

/// An answer, and why it ended.
pub(crate) fn reply(reply: &Reply, finish: &str) -> String {
    let mut said = spoken(&reply.text, &reply.calls);
    said["finish_reason"] = finish.into();
    json!([said]).to_string()
}

fn said(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({"role": "user", "parts": [part(text, TEXT_BYTES_MAX)]}),
        Message::Model { text, calls } => spoken(text, calls),
        Message::Answers(answers) => {
            let bytes = share(answers.len());
            let parts: Vec<Value> = answers
                .iter()
                .map(|answer| {
                    let response = cut(&redaction::text(&answer.text), bytes);
                    let id = &answer.call.id;
                    json!({"type": "tool_call_response", "id": id, "response": response})
                })
                .collect();
            json!({"role": "tool", "parts": parts})
        }
    }
}

fn spoken(text: &str, calls: &[Call]) -> Value {
    let bytes = share(calls.len() + 1);
    let words = (!text.is_empty()).then(|| part(text, bytes));
    let made = calls.iter().map(|call| {
        let (id, name) = (&call.id, &call.tool);
        json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments(call, bytes)})
    });
    let parts: Vec<Value> = words.into_iter().chain(made).collect();
    json!({"role": "assistant", "parts": parts})
}

fn part(text: &str, bytes: usize) -> Value {
    json!({"type": "text", "content": cut(&redaction::text(text), bytes)})
}

/// The arguments of a call: as they are when they are JSON and not too long, else as a text.
fn arguments(call: &Call, bytes: usize) -> Value {
    let json = json(&call.arguments);
    let short = (json.len() <= bytes).then(|| serde_json::from_str(&json).ok()).flatten();
    short.unwrap_or_else(|| cut(&json, bytes).into())
}

/// Bytes of one of so many texts of a message.
fn share(texts: usize) -> usize {
    TEXT_BYTES_MAX.min(MESSAGES_BYTES_MAX / texts.max(1))
}

/// The beginning of a text, and how much is left out.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(bytes)];
    format!("{kept}\n[{} bytes are left out]", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use tetrarch_core::converse::Answer;

    use super::*;

    fn call(arguments: &str) -> Call {
        Call { id: "c0".to_owned(), tool: "look".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn messages_follow_the_conventions_and_are_redacted() {
        let secret = format!("sk-{}", "x9Y".repeat(12));
        let model = Message::Model {
            text: "I look.".to_owned(),
            calls: vec![call("{\"a\": 1}"), call("{\"a\"")],
        };
        let answer = Answer { call: call("{}"), text: format!("it is {secret}"), is_error: false };
        let said =
            [Message::User(format!("the key is {secret}")), model, Message::Answers(vec![answer])];
        let told: Value = serde_json::from_str(&messages(&said)).unwrap();
        let look = |arguments: Value| json!({"type": "tool_call", "id": "c0", "name": "look", "arguments": arguments});
        let expected = json!([
            {"role": "user", "parts": [{"type": "text", "content": "the key is [redacted:api_key]"}]},
            {"role": "assistant", "parts": [
                {"type": "text", "content": "I look."}, look(json!({"a": 1})), look(json!("{\"a\"")),
            ]},
            {"role": "tool", "parts": [
                {"type": "tool_call_response", "id": "c0", "response": "it is [redacted:api_key]"},
            ]},
        ]);
        assert_eq!(told, expected);
        assert!(!instructions(&secret).contains(&secret) && !text(&secret).contains(&secret));
        assert!(!json(&json!({"key": secret}).to_string()).contains(&secret));
        let said = Reply { text: secret.clone(), ..Reply::default() };
        let told: Value = serde_json::from_str(&reply(&said, "stop")).unwrap();
        assert_eq!(told[0]["finish_reason"], "stop");
        assert!(!told.to_string().contains(&secret));
    }

    #[test]
    fn content_is_bounded_newest_first() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        assert!(text(&long).ends_with("[16384 bytes are left out]"));
        let said: Vec<Message> = (0..100).map(|n| Message::User(format!("{n} {long}"))).collect();
        let told: Value = serde_json::from_str(&messages(&said)).unwrap();
        let told = told.as_array().unwrap();
        assert!(told.len() > 2 && told.len() < 10, "{}", told.len());
        let words = |at: usize| told[at]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(words(0), format!("[{} earlier messages are left out]", 101 - told.len()));
        assert!(words(told.len() - 1).starts_with("99 "));
        let answer = Answer { call: call("{}"), text: long, is_error: false };
        let many = Message::Answers(vec![answer; 128]);
        assert!(messages(&[many]).len() < 2 * MESSAGES_BYTES_MAX);
    }
}
