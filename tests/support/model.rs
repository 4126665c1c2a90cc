//! A model server that answers as a test scripts it: `@copilotkit/aimock` from npm, on a port of its own
//! (docs/decisions/0028).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fleet::target;
use crate::program::Program;

/// A server that runs.
#[derive(Debug)]
pub struct ModelServer {
    _dir: TempDir,
    _program: Program,
    url: String,
}

/// What one request is answered with, when its last message by us has these words in it.
#[must_use]
pub fn said(words: &str, content: &str) -> Value {
    json!({ "match": { "userMessage": words }, "response": { "content": content } })
}

/// The same for the first such request only, with something that goes wrong.
#[must_use]
pub fn once(words: &str, response: &Value, chaos: &Value) -> Value {
    json!({
        "match": { "userMessage": words, "sequenceIndex": 0 },
        "response": response, "chaos": chaos,
    })
}

impl ModelServer {
    /// Starts one; the first script that fits a request answers it.
    ///
    /// # Panics
    /// It is not installed, which `tests/run` does, or does not come up.
    #[must_use]
    pub fn start(scripts: &[Value]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fixtures = dir.path().join("fixtures.json");
        std::fs::write(&fixtures, json!({ "fixtures": scripts }).to_string()).unwrap();
        let mut command = Command::new(node());
        command
            .arg("--require")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/support/namespaces.cjs"));
        command.arg(script()).args(["--port", "0", "--strict", "--validate-on-load"]);
        let mut program = Program::start(command.arg("--fixtures").arg(&fixtures));
        let line = program.line(|line| line.contains("listening on "));
        let url = line.split("listening on ").nth(1).unwrap().trim().to_owned();
        Self { _dir: dir, _program: program, url }
    }

    /// The bodies of the requests that it got, in order, as chat completions.
    ///
    /// # Panics
    /// It does not tell.
    #[must_use]
    pub fn got(&self) -> Vec<Value> {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let ask = format!("GET /__aimock/journal?limit=10000 HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let entries: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        entries
            .as_array()
            .unwrap_or_else(|| panic!("{entries}"))
            .iter()
            .map(|it| it["body"].clone())
            .collect()
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// `TETRARCH_NODE`, else the one in PATH.
#[must_use]
pub fn node() -> PathBuf {
    std::env::var_os("TETRARCH_NODE").map_or_else(|| PathBuf::from("node"), PathBuf::from)
}

/// `TETRARCH_AIMOCK`, else where `tests/run` puts it.
fn script() -> PathBuf {
    let own = || target().join("node/node_modules/@copilotkit/aimock/dist/cli.js");
    let path = std::env::var_os("TETRARCH_AIMOCK").map_or_else(own, PathBuf::from);
    assert!(path.is_file(), "{} is missing; tests/run installs it", path.display());
    path
}
