//! JSON-RPC 2.0 in lines, as `codex` and programs of the Agent Client Protocol speak it. Pure; knows no method.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::dialect::AgentExchange;

/// A request of which only the start was kept, or which is otherwise none.
pub(super) const INVALID_REQUEST: i64 = -32_600;
/// A request for something that is not offered.
pub(super) const METHOD_NOT_FOUND: i64 = -32_601;

/// What a line of a program is.
#[derive(Debug, PartialEq)]
pub(super) enum RpcLine {
    /// It asks for something, under an id that is JSON text.
    Request { id: String, method: String, params: Value },
    /// It tells something.
    Notification { method: String, params: Value },
    /// It answers the call of this number: with a result, or with an error.
    Answer { call: u64, answer: Result<Value, Value> },
    /// No message of the protocol.
    Text,
}

/// Reads a line. Total: any bytes are a message or text.
pub(super) fn read(line: &[u8]) -> RpcLine {
    let said: Value = match line.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(line).unwrap_or_default(),
        Some(_) | None => Value::Null,
    };
    let field = |name: &str| said.get(name).cloned();
    let params = || field("params").unwrap_or_default();
    let method = said.get("method").and_then(Value::as_str).map(ToOwned::to_owned);
    match (said.get("id"), method) {
        (Some(id), Some(method)) => {
            RpcLine::Request { id: id.to_string(), method, params: params() }
        }
        (None, Some(method)) => RpcLine::Notification { method, params: params() },
        (Some(id), None) => match id.as_u64() {
            Some(call) => {
                let answer =
                    field("error").map_or_else(|| Ok(field("result").unwrap_or_default()), Err);
                RpcLine::Answer { call, answer }
            }
            None => RpcLine::Text,
        },
        (None, None) => RpcLine::Text,
    }
}

/// Calls to a program that it has not answered, each with what was called.
#[derive(Debug)]
pub(super) struct RpcCalls<C> {
    count: u64,
    open: BTreeMap<u64, C>,
}

impl<C> Default for RpcCalls<C> {
    fn default() -> Self {
        Self { count: 0, open: BTreeMap::new() }
    }
}

impl<C> RpcCalls<C> {
    /// Calls a method.
    pub(super) fn call(&mut self, call: C, method: &str, params: &Value) -> AgentExchange {
        self.count += 1;
        self.open.insert(self.count, call);
        let call = json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params});
        AgentExchange::line(&call)
    }

    /// What the call of this number was, which is answered now; none of a number that waits for nothing.
    pub(super) fn answered(&mut self, number: u64) -> Option<C> {
        self.open.remove(&number)
    }
}

/// The answer to a request.
pub(super) fn answer(request: &str, result: &Value) -> AgentExchange {
    AgentExchange::line(&json!({"jsonrpc": "2.0", "id": id_of(request), "result": result}))
}

/// The refusal of a request.
pub(super) fn refusal(request: &str, code: i64, message: &str) -> AgentExchange {
    let error = json!({"code": code, "message": message});
    AgentExchange::line(&json!({"jsonrpc": "2.0", "id": id_of(request), "error": error}))
}

fn id_of(request: &str) -> Value {
    serde_json::from_str(request).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_a_message_by_its_id_and_method() {
        let request = |id: &str| RpcLine::Request {
            id: id.to_owned(),
            method: "m".to_owned(),
            params: json!([1]),
        };
        let answer = |answer| RpcLine::Answer { call: 3, answer };
        for (line, expected) in [
            (r#"{"id": 3, "method": "m", "params": [1]}"#, request("3")),
            (r#" {"id": "a", "method": "m", "params": [1]}"#, request("\"a\"")),
            (
                r#"{"method": "m"}"#,
                RpcLine::Notification { method: "m".to_owned(), params: Value::Null },
            ),
            (r#"{"id": 3, "result": 7}"#, answer(Ok(json!(7)))),
            (r#"{"id": 3}"#, answer(Ok(Value::Null))),
            (r#"{"id": 3, "result": 7, "error": "no"}"#, answer(Err(json!("no")))),
            (r#"{"id": "a", "result": 7}"#, RpcLine::Text),
            (r#"{"result": 7}"#, RpcLine::Text),
            (r#"[{"id": 3, "result": 7}]"#, RpcLine::Text),
            (r#"{"id": 3"#, RpcLine::Text),
            ("words", RpcLine::Text),
            ("", RpcLine::Text),
        ] {
            assert_eq!(read(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn call_is_answered_once() {
        let mut calls = RpcCalls::default();
        let said = calls.call("first", "m", &json!({}));
        assert_eq!(
            said,
            AgentExchange::line(&json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}}))
        );
        assert_eq!(
            (calls.answered(2), calls.answered(1), calls.answered(1)),
            (None, Some("first"), None)
        );
    }
}
