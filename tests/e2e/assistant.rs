//! A person's assistant: the published client of the Model Context Protocol in another language, with `tetrarch mcp`
//! as its server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_tests::{Ended, Fleet, Program, python};

use crate::gate::{Repository, change, id, work};
use crate::script;

/// What the assistant saw.
fn assistant(fleet: &Fleet, arguments: &[&str]) -> Value {
    let own = fleet.command(["mcp"]);
    let environment = own.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new(python());
    command.arg(script("assistant.py")).arg(own.get_program()).args(arguments).env_clear();
    command.envs(environment).current_dir(fleet.cwd());
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
}

fn said<'a>(saw: &'a Value, call: &str, error: bool) -> &'a str {
    assert_eq!(saw[call]["error"], error, "{call}: {}", saw[call]);
    saw[call]["text"].as_str().unwrap()
}

#[test]
fn assistant_runs_a_plan_and_approves_only_the_change_it_was_shown() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let change = id(&change(&fleet, "T1.1"));
    let saw = assistant(&fleet, &[&change]);
    assert_eq!(saw["server"], "tetrarch");
    assert!(saw["instructions"].as_str().unwrap().contains("goal_create"));
    assert_eq!(saw["tools"]["tree"]["readOnlyHint"], true);
    assert_eq!(saw["tools"]["goal_cancel"]["destructiveHint"], true);
    assert_eq!(saw["status"]["data"]["deadLetters"], json!({}), "{}", saw["status"]);
    assert!(said(&saw, "wrong", true).contains("phazes: is an unknown key"), "{}", saw["wrong"]);
    said(&saw, "goal", false);
    said(&saw, "waited", false);
    assert!(
        saw["progress"][0][1].as_str().unwrap().starts_with("running for"),
        "{}",
        saw["progress"]
    );
    let nodes = saw["nodes"]["data"]["items"].as_array().unwrap();
    let is_task = |it: &&Value| it["node"]["id"].as_str().is_some_and(|id| id.starts_with('T'));
    let tasks: Vec<&Value> = nodes.iter().filter(is_task).collect();
    assert_eq!(tasks.len(), 2, "{nodes:?}");
    assert!(tasks.iter().all(|it| it["status"] == "done"), "{tasks:?}");
    assert!(said(&saw, "missing", true).contains("not found"), "{}", saw["missing"]);
    assert_eq!(
        said(&saw, "stranger", true),
        "al: unknown argument; allowed: project, human, epic, all"
    );
    assert_eq!(said(&saw, "unseen", true), "digest: is missing");
    assert!(said(&saw, "other", true).contains("E_CONFLICT"), "{}", saw["other"]);
    said(&saw, "approved", false);
    assert_eq!(repository.read("a"), "one\ntwo\nthree\nfour\n");
}

#[test]
fn read_only_assistant_has_no_tool_that_changes() {
    let fleet = Fleet::up();
    let saw = assistant(&fleet, &["none", "--read-only"]);
    let tools: Vec<&str> =
        saw["tools"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(tools.contains(&"describe") && !tools.contains(&"goal_create"), "{tools:?}");
    let roots = saw["tree"]["data"]["items"].as_array().unwrap();
    assert_eq!(roots[0]["agent"]["id"], "GO", "{roots:?}");
}

/// `tetrarch mcp --http`, its address and its token.
fn listening(fleet: &Fleet, options: &[&str]) -> (Program, String, String) {
    let words = [&["mcp", "--http", "127.0.0.1:0"], options].concat();
    let mut program = fleet.spawn(words);
    let word = |line: String| line.rsplit(' ').next().unwrap().trim().to_owned();
    let url = word(program.line(|line| line.starts_with("url: ")));
    let token = word(program.line(|line| line.starts_with("header: Authorization: Bearer ")));
    (program, url, token)
}

#[test]
fn assistant_over_http_is_let_in_by_its_token() {
    let fleet = Fleet::up();
    let (program, url, token) = listening(&fleet, &[]);
    let mut command = Command::new(python());
    command.args([&script("assistant.py"), &url, &token]).current_dir(fleet.cwd());
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    let saw: Value = serde_json::from_str(&out).unwrap();
    assert!(saw["tools"].as_array().unwrap().contains(&json!("goal_create")), "{saw}");
    assert_eq!(saw["status"]["data"]["deadLetters"], json!({}), "{saw}");
    assert!(saw["progress"][0].as_str().unwrap().starts_with("running for"), "{saw}");
    assert!(said(&saw, "missing", true).starts_with("al: unknown argument"), "{saw}");
    assert_eq!(saw["many"], json!(vec![false; 8]));
    let kept = std::fs::read_to_string(fleet.data_dir().join("mcp.link")).unwrap();
    assert_eq!(kept.trim(), format!("{url} {token}"));
    program.signal(Signal::TERM);
    assert_eq!(program.ended().code, Some(0));
    let refused = fleet.run(["mcp", "--http", "0.0.0.0:7879"]);
    assert!(refused.err.contains("expected a loopback address"), "{}", refused.err);
}

/// What is answered to a request with these headers.
fn sent(url: &str, headers: &[&str], body: &str) -> String {
    let (at, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    let mut head = format!("POST /{path} HTTP/1.1\r\nConnection: close\r\n");
    head.push_str(
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
    );
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    // Whoever refuses a body need not read it.
    let _refused =
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn request_over_http_of_anybody_else_is_refused() {
    let fleet = Fleet::up();
    let (_program, url, token) = listening(&fleet, &["--read-only"]);
    let at = url.strip_prefix("http://").and_then(|it| it.strip_suffix("/mcp")).unwrap();
    let (host, bearer) = (format!("Host: {at}"), format!("Authorization: Bearer {token}"));
    let (host, bearer) = (host.as_str(), bearer.as_str());
    let call = |meta: Value| {
        let params = json!({"name": "goal_list", "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let (old, large) = (call(json!({})), "x".repeat(3 << 20));
    let own = format!("Origin: http://{at}");
    for (headers, body, status) in [
        (vec![host, bearer], &old, "200"),
        (vec![host, bearer, &own], &old, "200"),
        (vec![host], &old, "401"),
        (vec![host, "Authorization: Bearer 00"], &old, "401"),
        (vec![host, "Authorization: Basic 00"], &old, "401"),
        (vec![host, bearer, "Authorization: Bearer 00"], &old, "400"),
        (vec!["Host: evil.example", bearer], &old, "421"),
        (vec!["Host: 127.0.0.1:1", bearer], &old, "421"),
        (vec![bearer], &old, "421"),
        (vec![host, bearer, "Origin: http://evil.example"], &old, "403"),
        (vec![host, bearer, "Origin: null"], &old, "403"),
        (vec![host, bearer, "Origin: https://127.0.0.1"], &old, "403"),
        (vec![host, bearer], &large, "413"),
    ] {
        let answer = sent(&url, &headers, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers:?}: {answer}");
        assert!(status == "200" || !answer.contains("goal_list"), "{headers:?}: {answer}");
    }
    assert!(sent(&url.replace("/mcp", "/"), &[host, bearer], &old).starts_with("HTTP/1.1 404 "));
    assert!(sent(&url, &[host, bearer], "{").starts_with("HTTP/1.1 4"));
    // The newer generation says its version with each request, and has no handshake.
    let name = |key: &str| format!("io.modelcontextprotocol/{key}");
    let meta = json!({
        name("protocolVersion"): "2026-07-28", name("clientInfo"): {"name": "t", "version": "1"},
        name("clientCapabilities"): {},
    });
    let newer =
        ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: goal_list"];
    let answer = sent(&url, &[&[host, bearer], &newer[..]].concat(), &call(meta));
    assert!(answer.contains("\"resultType\":\"complete\""), "{answer}");
}
