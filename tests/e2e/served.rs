//! Tools of servers of the Model Context Protocol, which are programs of its published library: what a model may call
//! of them, what becomes of calls that nobody answered, and what is left of the servers.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Ended, Fleet, Process, Program, python, wait};

use crate::script;

/// What only the servers are given.
const SECRET: &str = "lab-secret-0123456789";

/// A call of a tool of the lab, as a model makes it.
fn call(tool: &'static str, arguments: Value) -> (&'static str, Value) {
    (tool, arguments)
}

/// A fleet, and a model that makes these calls, one turn each, and then says that it is done.
struct Lab {
    fleet: Fleet,
    work: PathBuf,
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Lab {
    fn with(turns: Vec<(&'static str, Value)>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&asked);
        let url = serve_model(move |request| {
            told.lock().unwrap().push(request.clone());
            let turn = usize::try_from(turn_of(request)).unwrap();
            let calls = turns.get(turn - 1).cloned().into_iter().collect::<Vec<_>>();
            let text = if calls.is_empty() { "all was called" } else { "" };
            Some(Words { calls, text: text.to_owned(), ..Words::default() })
        });
        let fleet = Fleet::prepared()
            .with_env("LAB_SECRET", SECRET)
            .with_env("LAB_OTHER", "not for servers")
            .started();
        let work = fleet.cwd().join("work");
        std::fs::create_dir(&work).unwrap();
        Self { fleet, work, url, asked }
    }

    /// The server as a profile names it.
    fn server(mode: &[&str], more: &Value) -> Value {
        let (python, lab) = (python(), script("served.py"));
        let mut argv = vec![python.to_str().unwrap(), lab.as_str()];
        argv.extend(mode);
        let mut server = json!({"argv": argv});
        server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server
    }

    /// A goal of one task.
    fn goal(&self, tools: &[&str], servers: &Value, more: &Value) -> Program {
        let mut profile = json!({
            "runner": "llm", "provider": "openai", "model": "scripted",
            "baseUrl": format!("{}/v1", self.url), "tools": tools, "mcpServers": servers,
            "workspace": self.work.to_str().unwrap(), "wall": "2m",
        });
        profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let task = json!({"id": "T1.1", "name": "use the lab", "maxAttempts": 1, "acceptance": ["it is used"]});
        let plan = json!({
            "project": "lab", "output": "T1.1", "goal": {"title": "use the lab"},
            "phases": [{"id": "P1", "name": "Use", "tasks": [task]}],
            "profiles": {"default": profile},
        });
        let file = self.fleet.file("lab.json", &plan.to_string());
        self.fleet.spawn(["run", file.to_str().unwrap()])
    }

    /// What the model was told of its calls.
    fn answers(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let Some(last) = asked.last() else { return Vec::new() };
        let messages = last["messages"].as_array().unwrap().iter();
        let answers = messages.filter(|message| message["role"] == "tool");
        answers.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }

    /// The tools that the model was offered first.
    fn offered(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let tools = asked[0]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn effects(&self) -> String {
        std::fs::read_to_string(self.work.join("calls.log")).unwrap_or_default()
    }

    /// What there is to read of its runs: as people see it, and each entry whole.
    fn journal(&self) -> String {
        let runs = self.fleet.json(&["get", "runs"]);
        let ids = runs.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap());
        let read = |id| {
            let whole = self.fleet.ok(["logs", id, "-o", "json"]).replace("\\\"", "\"");
            self.fleet.ok(["describe", id]) + &whole
        };
        ids.map(read).collect()
    }

    /// The question that people are asked.
    fn asks(&self) -> (String, String) {
        wait::until("people are asked", || {
            let listed = self.fleet.json(&["inbox"]);
            let first = listed.as_array().unwrap().first()?.clone();
            Some((first["id"].as_str()?.to_owned(), first["text"].as_str()?.to_owned()))
        })
    }

    /// The processes of its servers, with those that they started.
    fn servers(&self) -> Vec<Process> {
        let all = self.fleet.processes().into_iter();
        let own = |it: &str| it.contains("served.py") && !it.contains(" http ");
        all.filter(|it| own(&it.command) || it.command.starts_with("sleep ")).collect()
    }

    fn leaves_nothing(&self) {
        wait::until("no server is left", || self.servers().is_empty().then_some(()));
    }

    fn ended(self, running: Program) -> Self {
        let ended = running.ended();
        assert_eq!((ended.out.trim(), ended.code), ("all was called", Some(0)), "{}", ended.err);
        self.leaves_nothing();
        self.fleet.ok(["doctor", "--check-ledger"]);
        self
    }
}

#[test]
fn model_calls_the_tools_of_a_server_that_its_list_names() {
    let turns = vec![
        call("mcp__lab__add", json!({"a": 1, "b": 2})),
        call("mcp__lab__add", json!({"a": "one", "b": 2})),
        call("mcp__lab__hidden", json!({})),
        call("mcp__lab__push", json!({"text": "one"})),
        call("mcp__lab__large", json!({"size": 200_000})),
        call("mcp__lab__large", json!({"size": 5_000_000})),
        call("mcp__lab__variables", json!({})),
        call("mcp__lab__fail", json!({"text": "no luck"})),
        call("mcp__lab__push_and_wait", json!({"text": "two"})),
    ];
    let lab = Lab::with(turns);
    let own = ["add", "push", "large", "variables", "fail", "push_and_wait", "missing"];
    let tools: Vec<String> = own.iter().map(|tool| format!("mcp:lab:{tool}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    // With a secret it starts where the model cannot write.
    let set = json!({"LAB_SET": "set", "LAB_DIR": lab.work});
    let server = Lab::server(
        &[],
        &json!({"trusted": true, "timeout": "2s", "passEnv": ["LAB_SECRET"], "env": set}),
    );
    let rules = json!({"permissions": [{"tool": "mcp:lab:fail", "action": "deny"}]});
    let running = lab.goal(&tools, &json!({"lab": server}), &rules);
    // Nobody knows what came of the message that was too long.
    let (id, text) = lab.asks();
    assert!(text.starts_with("effect_unknown: call 6/0 of mcp__lab__large"), "{text}");
    lab.fleet.ok(["answer", &id, "skip"]);
    let lab = lab.ended(running);
    let mut offered = lab.offered();
    offered.sort();
    let names = ["add", "fail", "large", "push", "push_and_wait", "variables"];
    let names = names.map(|name| format!("mcp__lab__{name}"));
    assert_eq!(offered, [vec!["finish".to_owned()], names.to_vec()].concat());
    let answers = lab.answers();
    assert_eq!(answers.len(), 9, "{answers:?}");
    assert_eq!(answers[0], "3");
    assert!(answers[1].contains("/a: \"one\" is not of type \"integer\""), "{}", answers[1]);
    assert!(
        answers[2].contains("unknown tool mcp__lab__hidden; available: finish"),
        "{}",
        answers[2]
    );
    assert_eq!(answers[3], "pushed one");
    assert!(answers[4].contains("bytes left out]") && answers[4].len() < 40_000);
    assert!(answers[5].contains("it was left out"), "{}", answers[5]);
    let given = &answers[6];
    for part in ["LAB_SET=set", "LAB_SECRET=[redacted", "TETRARCH_RUN=", "PATH=", "cwd=/\n"] {
        assert!(given.contains(part), "{part}: {given}");
    }
    assert!(!given.contains("LAB_OTHER") && !given.contains(SECRET), "{given}");
    assert!(
        answers[7].contains("denied by a rule of its profile: deny mcp:lab:fail"),
        "{}",
        answers[7]
    );
    assert!(answers[8].contains("did not answer within 2 s"), "{}", answers[8]);
    assert_eq!(lab.effects(), "one\ntwo\n");
    let journal = lab.journal();
    assert!(journal.contains("`mcp:lab:missing`: MCP server `lab` has no such tool"), "{journal}");
    let intents = journal.matches("\"intent\":{").count();
    assert_eq!(intents, 5, "of add there is none, since its server is trusted\n{journal}");
    assert!(journal.contains("wrote a message of more than 4194304 bytes"), "{journal}");
}

#[test]
fn server_that_cannot_be_used_is_named_and_fails_a_run_that_requires_it() {
    let said = "ended with exit code 1; its last words: the lab is on fire";
    let lab = Lab::with(Vec::new());
    let broken = Lab::server(&["broken"], &json!({"required": true}));
    let running = lab.goal(&["mcp:lab"], &json!({"lab": broken}), &json!({}));
    let Ended { code, err, .. } = running.ended();
    assert_eq!((code, lab.asked.lock().unwrap().len()), (Some(1), 0), "{err}");
    lab.leaves_nothing();
    assert!(lab.journal().contains(&format!("MCP server `lab` of profile `default` {said}")));

    let lab = Lab::with(Vec::new());
    let servers = json!({
        "none": {"argv": ["/no/such/server"]},
        "broken": Lab::server(&["broken"], &json!({})),
        "rude": Lab::server(&["garbage"], &json!({})),
    });
    let tools = ["mcp:none", "mcp:broken:add", "mcp:rude", "mcp:other"];
    let running = lab.goal(&tools, &servers, &json!({}));
    let lab = lab.ended(running);
    assert_eq!(lab.offered(), ["finish"]);
    let journal = lab.journal();
    for (server, why) in [
        ("none", "cannot be started: cannot start `/no/such/server`: "),
        ("broken", said),
        ("rude", "did not answer the handshake within 30 s; it wrote \"Welcome to the lab!\" to "),
    ] {
        let why = format!("MCP server `{server}` of profile `default` {why}");
        assert!(journal.contains(&why), "{why}: {journal}");
    }
    assert!(journal.contains("`mcp:other`: the profile names no such MCP server"), "{journal}");
}

#[test]
fn killed_server_is_started_again_and_its_call_put_to_people() {
    let turns = vec![
        call("mcp__lab__push_and_die", json!({"text": "one"})),
        call("mcp__lab__die_once", json!({})),
        call("mcp__lab__add", json!({"a": 2, "b": 2})),
        call("mcp__lab__die_always", json!({})),
        call("mcp__lab__add", json!({"a": 2, "b": 3})),
    ];
    let lab = Lab::with(turns);
    let server = Lab::server(&[], &json!({"trusted": true}));
    let running = lab.goal(&["mcp:lab"], &json!({"lab": server}), &json!({}));
    let (id, text) = lab.asks();
    assert!(text.starts_with("effect_unknown: call 1/0 of mcp__lab__push_and_die"), "{text}");
    lab.fleet.ok(["answer", &id, "it was pushed, I looked", "--other"]);
    let lab = lab.ended(running);
    let answers = lab.answers();
    assert_eq!(answers[0], "it was pushed, I looked");
    assert_eq!(answers[1..3], ["alive", "4"], "what only reads is called again");
    assert!(answers[3].contains("was ended by signal 9"), "{}", answers[3]);
    assert!(answers[4].contains("is not started any more in this session"), "{}", answers[4]);
    assert_eq!(lab.effects(), "one\n", "nothing is repeated");
}

#[test]
fn killed_host_leaves_no_server_and_its_call_is_in_doubt() {
    let turns = vec![
        call("mcp__lab__push_and_wait", json!({"text": "one"})),
        call("mcp__lab__add", json!({"a": 2, "b": 2})),
    ];
    let lab = Lab::with(turns);
    let servers = json!({"lab": Lab::server(&[], &json!({}))});
    let running = lab.goal(&["mcp:lab"], &servers, &json!({}));
    wait::until("it is pushed", || (lab.effects() == "one\n").then_some(()));
    let before = lab.servers();
    assert!(before.iter().any(|it| it.command.contains("sleep")), "{before:?}");
    let host = lab.fleet.processes().into_iter().find(|it| it.command.contains(" host ")).unwrap();
    kill_process(Pid::from_raw(i32::try_from(host.pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let (id, text) = lab.asks();
    assert!(text.starts_with("effect_unknown: call 1/0 of mcp__lab__push_and_wait"), "{text}");
    let left = lab.servers();
    assert!(
        before.iter().all(|it| !left.iter().any(|now| now.pid == it.pid)),
        "{before:?} {left:?}"
    );
    lab.fleet.ok(["answer", &id, "skip"]);
    let lab = lab.ended(running);
    assert_eq!(lab.answers()[1], "4");
    assert_eq!(lab.effects(), "one\n", "nothing is repeated");
}

#[test]
fn server_over_http_is_shown_its_key() {
    let lab = Lab::with(vec![call("mcp__far__add", json!({"a": 2, "b": 2}))]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(python());
    command.args([&script("served.py"), "http", &port.to_string()]).env("LAB_KEY", SECRET);
    let far = Program::start(command.current_dir(&lab.work));
    wait::until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let url = format!("http://127.0.0.1:{port}/mcp");
    let keyed =
        json!({"url": url, "keyFrom": "env:LAB_SECRET", "header": "X-Lab-Key", "required": true});
    let keyless = json!({"url": url});
    let nobody = json!({"url": "http://127.0.0.1:1/mcp"});
    let servers = json!({"far": keyed, "other": keyless, "nobody": nobody});
    let running = lab.goal(&["mcp:far", "mcp:other", "mcp:nobody"], &servers, &json!({}));
    let lab = lab.ended(running);
    assert_eq!(lab.answers(), ["4"]);
    let journal = lab.journal();
    for part in
        ["`other` of profile `default` did not take the handshake: ", "401", "`nobody` of profile"]
    {
        assert!(journal.contains(part), "{part}: {journal}");
    }
    assert!(!journal.contains(SECRET), "{journal}");
    drop(far);
}
