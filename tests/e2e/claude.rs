//! The real `claude` as a worker, against a model server that answers as it is scripted (docs/agents.md): the cells of
//! its capability table, each by what the program itself did. Skipped, and said to be, where it is not installed.

mod outcomes;

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_core::agent::Agent;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::coding_agents::claude;
use tetrarch_tests::model::ModelServer;
use tetrarch_tests::{Fleet, Ledger, Process, Program, wait};

/// The key that only the server is shown.
const KEY: &str = "sk-test-0123456789";
/// The variable of the host that holds it.
const VARIABLE: &str = "CLAUDE_TEST_KEY";

/// What stands in a file of the workspace.
const NOTES: &str = "notes of somebody else";

/// The stages of a verb that its program took.
const ALL: [&str; 3] = ["queued", "delivered", "effective"];

/// One task for `claude`, on a fleet of its own.
struct Task {
    fleet: Fleet,
    server: ModelServer,
    running: Program,
    work: PathBuf,
}

/// What the model answers to a message that has these words in it.
fn says(words: &str, text: &str) -> Value {
    json!({"match": {"userMessage": words}, "response": {"content": text, "usage": usage(30, 9)}})
}

/// The same after a tool was used.
fn then(call: &str, text: &str) -> Value {
    json!({"match": {"toolCallId": call}, "response": {"content": text, "usage": usage(20, 7)}})
}

/// It wants to use a tool.
fn uses(words: &str, call: &str, tool: &str, arguments: Value) -> Value {
    json!({"match": {"userMessage": words}, "response": called(call, tool, &arguments)})
}

fn called(call: &str, tool: &str, arguments: &Value) -> Value {
    let calls = json!([{"id": call, "name": tool, "arguments": arguments}]);
    json!({"toolCalls": calls, "usage": usage(10, 5)})
}

fn usage(read: u64, written: u64) -> Value {
    json!({"input_tokens": read, "output_tokens": written})
}

#[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
fn installed() -> Option<PathBuf> {
    let program = claude();
    if program.is_none() {
        println!(
            "skipped: claude is not installed; tests/run installs it where the package index has it"
        );
    }
    program
}

/// A fleet that has the key, and a workspace.
fn fleet() -> Fleet {
    let fleet =
        Fleet::prepared().with_env(VARIABLE, KEY).with_env("TETRARCH_RUNS_DRAIN", "10s").started();
    // What a repository says in its own settings allows nothing.
    let settings = fleet.cwd().join("work/.claude");
    std::fs::create_dir_all(&settings).unwrap();
    let allows = json!({"permissions": {"allow": ["Bash", "Read", "Write"]}}).to_string();
    std::fs::write(settings.join("settings.json"), allows).unwrap();
    std::fs::write(fleet.cwd().join("work/notes.txt"), NOTES).unwrap();
    fleet
}

/// A profile of `claude` with this server; `more` is added to it.
fn profile_of(program: &Path, server: &ModelServer, work: &Path, more: &Value) -> Value {
    let mut profile = json!({
        "runner": "claude", "argv": [program], "baseUrl": server.url(), "workspace": work,
        "keyFrom": format!("env:{VARIABLE}"), "tools": [], "wall": "90s", "model": "claude-opus-5-5",
    });
    added(&mut profile, more);
    let address = server.url().trim_start_matches("http://").to_owned();
    profile["tools"].as_array_mut().unwrap().push(json!(format!("network:{address}")));
    profile
}

/// A plan of one task; `more` is added to the task.
fn plan_of(project: &str, objective: &str, profile: Value, more: &Value) -> Value {
    let mut task = json!({
        "id": "T1.1", "name": "task", "objective": objective, "maxAttempts": 1, "acceptance": ["it is said"],
    });
    added(&mut task, more);
    json!({
        "project": project, "output": "T1.1", "goal": {"title": "Use what one has"},
        "phases": [{"id": "P1", "name": "Say", "tasks": [task]}],
        "profiles": {"default": profile},
    })
}

fn added(value: &mut Value, more: &Value) {
    for (key, it) in more.as_object().unwrap() {
        value[key] = it.clone();
    }
}

impl Task {
    /// Starts it for this objective. None where the program is not installed.
    fn start(scripts: &[Value], tools: &[&str], objective: &str) -> Option<Self> {
        installed().map(|program| Self::with(&program, scripts, tools, objective))
    }

    fn with(program: &Path, scripts: &[Value], tools: &[&str], objective: &str) -> Self {
        let (server, fleet) = (ModelServer::start(scripts), fleet());
        let work = fleet.cwd().join("work");
        let profile = profile_of(program, &server, &work, &json!({"tools": tools}));
        let plan = plan_of("owned", objective, profile, &json!({}));
        let file = fleet.file("plan.json", &plan.to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        Self { fleet, server, running, work }
    }

    /// Its one worker, once it is at work.
    async fn worker(&self, ledger: &mut Ledger) -> String {
        ledger.until("a worker", |records| Some(worker(records)?.id.to_string())).await
    }

    async fn ledger(&self) -> Ledger {
        Ledger::follow(&self.fleet.control().await)
    }

    /// Waits until a file of the workspace is there.
    fn made(&self, name: &str) {
        let path = self.work.join(name);
        wait::until("a file of the workspace", || path.exists().then_some(()));
    }

    /// The process of its fleet that has this in its command.
    fn pid(&self, mark: &str) -> Pid {
        let process = wait::until("a process", || {
            self.fleet.processes().into_iter().find(|it| it.command.contains(mark))
        });
        Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap()
    }

    /// Its run, for people.
    fn described(&self) -> String {
        let runs = self.fleet.json(&["get", "runs"]);
        let id =
            runs.as_array().and_then(|all| all.last()).unwrap()["id"].as_str().unwrap().to_owned();
        self.fleet.ok(["describe", &format!("run/{id}")])
    }

    /// The stages that a verb came to, as the command tells them.
    fn stages(&self, verb: &[&str]) -> Vec<String> {
        let out = self.fleet.ok(verb.iter().copied().chain(["-o", "json"]));
        let stage = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["stage"].as_str().unwrap().to_owned()
        };
        out.lines().map(stage).collect()
    }

    /// What it came to: what was printed, and that nothing of it is left.
    fn ended(self, code: i32) -> (String, String) {
        let ended = self.running.ended();
        assert_eq!(ended.code, Some(code), "{}\n{}", ended.out, ended.err);
        assert_eq!(self.fleet.agents(), [], "all of it is gone");
        self.fleet.ok(["doctor", "--check-ledger"]);
        (ended.out.trim().to_owned(), ended.err)
    }
}

/// The name of a tool that the model was offered.
fn name_of(tool: &Value) -> &str {
    tool["function"]["name"].as_str().unwrap()
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

fn state(records: &Records) -> Option<RunState> {
    let run = worker(records)?.work.as_ref()?.run;
    Some(records.run_status.get(&run)?.state)
}

/// It is refused in words, also what the program would do without asking, and agents of its own are none of its tools.
#[tokio::test(flavor = "multi_thread")]
async fn claude_is_refused_what_the_brief_does_not_allow() {
    let read = json!({"command": "cat notes.txt", "description": "reads"});
    let scripts = [then("c1", "it is refused"), uses("a file", "c1", "Bash", read)];
    let Some(it) = Task::start(&scripts, &["run:git", "read"], "Look at a file") else { return };
    let got = wait::until("its last words", || {
        let got = it.server.got();
        (got.len() >= 2).then_some(got)
    });
    let told = got.last().unwrap()["messages"].to_string();
    assert!(told.contains("`cat` is not allowed; allowed: git"), "{told}");
    assert!(!told.contains(NOTES), "it was not run: {told}");
    // One of them stands for those that it would load later; agents of its own are not among them.
    let tools: Vec<&str> = got[0]["tools"].as_array().unwrap().iter().map(name_of).collect();
    assert_eq!(tools, ["Bash", "DeferredToolPlaceholder", "Read"]);
    let described = it.described();
    assert!(described.contains("refused Bash"), "{described}");
    assert_eq!(it.ended(0).0, "it is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_asks_people_for_what_the_brief_does_not_allow() {
    let write =
        |file: &str| json!({"command": format!("echo hi > {file}"), "description": "writes"});
    let scripts = [
        then("c2", "one of two"),
        json!({"match": {"toolCallId": "c1"}, "response": called("c2", "Bash", &write("b.txt"))}),
        uses("a file", "c1", "Bash", write("a.txt")),
    ];
    let Some(it) = Task::start(&scripts, &["read", "ask_human"], "Write a file") else { return };
    for (file, answer) in [("a.txt", "allow"), ("b.txt", "not today")] {
        let question = wait::until("a question", || {
            let waiting = it.fleet.json(&["inbox"]);
            let is = |one: &&Value| one["text"].as_str().is_some_and(|text| text.contains(file));
            waiting.as_array()?.iter().find(is).map(|one| one["id"].as_str().unwrap().to_owned())
        });
        assert!(!it.work.join(file).exists(), "it waits for the answer");
        it.fleet.ok(["answer", &question, answer]);
    }
    let told = wait::until("its last words", || {
        it.server.got().last().map(Value::to_string).filter(|said| said.contains("not today"))
    });
    assert!(told.contains("a person refused it"), "{told}");
    assert_eq!((it.work.join("a.txt").exists(), it.work.join("b.txt").exists()), (true, false));
    assert_eq!(it.ended(0).0, "one of two");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_goes_on_with_its_conversation_after_kill_9() {
    let slow = json!({"command": "echo one >> made.txt; sleep 60", "description": "writes"});
    for (killed, mark) in [("its program", "--input-format"), ("its host", " host ")] {
        let scripts =
            [says("Go on where you were", "went on"), uses("a file", "c1", "Bash", slow.clone())];
        let Some(it) = Task::start(&scripts, &["run"], "Write a file") else { return };
        it.made("made.txt");
        kill_process(it.pid(mark), Signal::KILL).unwrap();
        let last = wait::until("its next session", || {
            it.server.got().into_iter().find(|it| it.to_string().contains("Go on where you were"))
        });
        let said = last["messages"].to_string();
        // Its own transcript may lack what it did last; the checkpoint does not.
        let knows = said.contains("Write a file") && said.contains("echo one >> made.txt");
        assert!(knows, "{killed}: {}", last["messages"].as_array().unwrap().last().unwrap());
        let made = std::fs::read_to_string(it.work.join("made.txt")).unwrap();
        assert_eq!(made, "one\n", "{killed}: what it did is not repeated");
        assert_eq!(it.ended(0).0, "went on", "{killed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_is_steered_and_interrupted_at_work() {
    let slow = json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.1; done", "description": "waits"});
    let long = json!({"command": "touch long; sleep 61", "description": "waits"});
    let scripts = [
        says("to the right", "right it is"),
        json!({"match": {"toolCallId": "c1"}, "response": called("c2", "Bash", &long)}),
        uses("a walk", "c1", "Bash", slow),
    ];
    let task = "Take a walk";
    let Some(it) = Task::start(&scripts, &["run"], task) else { return };
    let mut ledger = it.ledger().await;
    let worker = it.worker(&mut ledger).await;
    it.made("begun");
    // It reads the text when its tool has ended, and not before.
    it.fleet.ok(["steer", &worker, "to the left", "--wait", "delivered"]);
    assert!(!it.described().contains("steer       effective"), "its tool is at work");
    std::fs::write(it.work.join("go"), "").unwrap();
    it.made("long");
    wait::until("it has read it", || {
        it.described().contains("steer       effective").then_some(())
    });
    assert_eq!(it.stages(&["interrupt", &worker, "--reason", "wrong way"]), ALL);
    let waits = |records: &Records| (state(records)? == RunState::AwaitingInput).then_some(());
    ledger.until("it waits for input", waits).await;
    let left = |it: &Process| it.command.contains("sleep 61");
    wait::until("its tool is gone", || (!it.fleet.agents().iter().any(left)).then_some(()));
    assert_eq!(it.stages(&["steer", &worker, "to the right"]), ALL);
    assert_eq!(it.ended(0).0, "right it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_is_stopped_at_each_moment_and_leaves_nothing() {
    let slow = json!({"command": "touch begun; setsid sleep 60", "description": "waits"});
    for moment in ["starting", "in a tool", "waiting"] {
        let scripts = [uses("a walk", "c1", "Bash", slow.clone())];
        let task = "Take a walk";
        let Some(it) = Task::start(&scripts, &["run"], task) else { return };
        let mut ledger = it.ledger().await;
        let worker = it.worker(&mut ledger).await;
        if moment == "starting" {
            it.pid("--input-format");
        } else {
            it.made("begun");
        }
        if moment == "waiting" {
            assert_eq!(it.stages(&["interrupt", &worker, "--reason", "wait"]), ALL);
        }
        it.fleet.ok(["stop", &worker, "--reason", "enough", "--timeout", "30s"]);
        assert_eq!(it.fleet.agents(), [], "{moment}: all of it is gone");
        let (_, err) = it.ended(1);
        assert!(err.contains("enough"), "{moment}: {err}");
    }
}
