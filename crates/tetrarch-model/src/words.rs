//! A conversation in the words of the library, and back.

use genai::chat::{
    ChatMessage, ChatRequest, ChatResponse, ContentPart, MessageContent, StopReason, StreamEnd,
    Tool, ToolCall, ToolResponse, Usage,
};
use serde_json::{Value, json};
use tetrarch_core::converse::cost::Tokens;
use tetrarch_core::converse::{Answer, Call, Message, Reply, ToolDefinition};
use tetrarch_telemetry::Answered;

/// What is said to a model.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// What was said so far.
    pub messages: &'a [Message],
    /// What it may call.
    pub tools: &'a [ToolDefinition],
    /// Whether it may call anything now.
    pub may_call: bool,
    /// Tokens it may write.
    pub max_output_tokens: u32,
    /// Whether its answer is to be JSON and nothing else.
    pub json_only: bool,
}

pub(crate) fn said(request: &ModelRequest<'_>) -> ChatRequest {
    let messages = request.messages.iter().map(message).collect();
    let asked = ChatRequest::new(messages).with_system(request.system);
    if request.tools.is_empty() { asked } else { asked.with_tools(request.tools.iter().map(tool)) }
}

fn message(message: &Message) -> ChatMessage {
    match message {
        Message::User(text) => ChatMessage::user(text.as_str()),
        Message::Model { text, calls } => {
            let mut parts = Vec::with_capacity(calls.len() + 1);
            if !text.is_empty() {
                parts.push(ContentPart::from_text(text.as_str()));
            }
            parts.extend(calls.iter().map(|call| ContentPart::ToolCall(tool_call(call))));
            ChatMessage::assistant(MessageContent::from_parts(parts))
        }
        Message::Answers(answers) => {
            let answers: Vec<ToolResponse> = answers.iter().map(response).collect();
            ChatMessage::from(answers)
        }
    }
}

fn tool(tool: &ToolDefinition) -> Tool {
    Tool::new(tool.name.as_str())
        .with_description(tool.description.as_str())
        .with_schema(tool.schema.clone())
}

fn tool_call(call: &Call) -> ToolCall {
    // Providers take nothing but objects, whatever the model wrote.
    let arguments = match serde_json::from_str(&call.arguments) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => json!({ "unreadable": call.arguments }),
    };
    ToolCall {
        call_id: call.id.clone(),
        fn_name: call.tool.clone(),
        fn_arguments: arguments,
        thought_signatures: None,
    }
}

fn response(answer: &Answer) -> ToolResponse {
    let text =
        if answer.is_error { format!("Error: {}", answer.text) } else { answer.text.clone() };
    ToolResponse::new(answer.call.id.as_str(), text).with_fn_name(answer.call.tool.as_str())
}

/// What is told of an answer that came as a whole.
pub(crate) fn answered(said: &ChatResponse) -> Answered {
    Answered {
        model: Some(said.provider_model_iden.model_name.to_string()),
        id: said.response_id.clone(),
        finish: said.stop_reason.as_ref().map(|reason| reason.raw().to_owned()),
        tokens: counted(&said.usage),
    }
}

/// What is told of an answer whose end was heard.
pub(crate) fn heard(end: &StreamEnd) -> Answered {
    Answered {
        // It is not told of answers that come in parts.
        model: None,
        id: end.captured_response_id.clone(),
        finish: end.captured_stop_reason.as_ref().map(|reason| reason.raw().to_owned()),
        tokens: end.captured_usage.as_ref().and_then(counted),
    }
}

/// What a call took; none when the provider does not count.
fn counted(usage: &Usage) -> Option<Tokens> {
    let count = |number: Option<i32>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
    let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
    let tokens = Tokens {
        input: count(usage.prompt_tokens),
        cached: count(cached),
        output: count(usage.completion_tokens),
    };
    (tokens != Tokens::default()).then_some(tokens)
}

/// What a model said in a turn whose end was heard.
pub(crate) fn reply(end: StreamEnd) -> Reply {
    let is_cut = matches!(end.captured_stop_reason, Some(StopReason::MaxTokens(_)));
    let tokens = end.captured_usage.as_ref().and_then(counted);
    let mut text = String::new();
    let mut calls = Vec::new();
    for part in end.captured_content.into_iter().flat_map(MessageContent::into_parts) {
        match part {
            ContentPart::Text(words) => text.push_str(&words),
            ContentPart::ToolCall(call) => calls.push(made(call)),
            ContentPart::Binary(_)
            | ContentPart::ToolResponse(_)
            | ContentPart::ThoughtSignature(_)
            | ContentPart::ReasoningContent(_)
            | ContentPart::Custom(_) => {}
        }
    }
    Reply { text, calls, tokens: tokens.unwrap_or_default(), is_cut }
}

fn made(call: ToolCall) -> Call {
    let arguments = match call.fn_arguments {
        // A tool without parameters may be called with nothing at all.
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::Null => "{}".to_owned(),
        Value::String(text) => text,
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    Call { id: call.call_id, tool: call.fn_name, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> Call {
        Call { id: "1".to_owned(), tool: "t".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn tool_arguments_are_sent_as_objects_and_model_text_is_kept() {
        assert_eq!(tool_call(&call("{\"a\":1}")).fn_arguments, json!({"a": 1}));
        for wrong in ["{\"a\":", "[1]", "7", ""] {
            assert_eq!(tool_call(&call(wrong)).fn_arguments, json!({"unreadable": wrong}));
        }
        let made_of = |arguments: Value| {
            let (call_id, fn_name) = ("1".to_owned(), "t".to_owned());
            made(ToolCall { call_id, fn_name, fn_arguments: arguments, thought_signatures: None })
                .arguments
        };
        assert_eq!(made_of(json!("{\"a\":")), "{\"a\":");
        assert_eq!(made_of(json!({"a": 1})), "{\"a\":1}");
        assert_eq!((made_of(json!(""))).as_str(), "{}");
        assert_eq!((made_of(Value::Null)).as_str(), "{}");
    }
}
