//! A model server inside the test: what it answers is a function of the request, which may have no answer, so that
//! something happens while the model is being asked. Speaks as much of the chat completions API as the product reads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

/// What the model says to a request: its words and its calls, each with a tool and its arguments.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Its words.
    pub text: String,
    /// What it calls.
    pub calls: Vec<(&'static str, Value)>,
    /// Whether it is cut off at the limit of output tokens.
    pub is_cut: bool,
}

type Script = Arc<dyn Fn(&Value) -> Option<Words> + Send + Sync>;

/// Serves a model until the test's process ends; gives its address, without `/v1`. A request for which the script
/// has no words is not answered as long as its asker waits.
///
/// # Panics
/// No port can be had.
#[must_use]
pub fn serve_model(script: impl Fn(&Value) -> Option<Words> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let script: Script = Arc::new(script);
    drop(thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            drop(thread::spawn(move || answer(stream, &script)));
        }
    }));
    url
}

/// Which turn of the model a request asks for, from 1: one after those that it shows.
///
/// # Panics
/// It is no request for a turn.
#[must_use]
pub fn turn_of(request: &Value) -> u64 {
    let messages = request["messages"].as_array().unwrap();
    let spoken = messages.iter().filter(|message| message["role"] == "assistant").count();
    spoken as u64 + 1
}

/// Answers one request. Whoever asked may be gone by then.
fn answer(stream: TcpStream, script: &Script) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let Some(words) = script(&serde_json::from_slice(&body).unwrap()) else {
        let _until_the_asker_is_gone = reader.read(&mut [0]);
        return;
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let _asker_is_gone = reader.get_mut().write_all(format!("{head}{}", events(&words)).as_bytes());
}

/// The words as a stream of events.
fn events(words: &Words) -> String {
    let calls = words.calls.iter().enumerate().map(|(index, (tool, arguments))| {
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        json!({"index": index, "id": format!("c{index}"), "type": "function", "function": function})
    });
    let mut delta = json!({"role": "assistant", "content": words.text});
    if !words.calls.is_empty() {
        delta["tool_calls"] = calls.collect();
    }
    let reason = match (words.is_cut, words.calls.is_empty()) {
        (true, _) => "length",
        (false, false) => "tool_calls",
        (false, true) => "stop",
    };
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let chunk = |choice: Value| json!({"id": "1", "object": "chat.completion.chunk", "model": "scripted", "choices": choice});
    let said = chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let mut end = chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]));
    end["usage"] = usage;
    format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}
