//! The real `claude` as a worker, against a model server that answers as it is scripted (docs/agents.md): the cells of
//! its capability table, each by what the program itself did. Skipped, and said to be, where it is not installed.

use std::path::PathBuf;

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
const KEY: &str = "sk-ant-0123456789abcdef";
/// The variable of the host that holds it.
const VARIABLE: &str = "CLAUDE_TEST_KEY";

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

impl Task {
    /// Starts it; `more` is of its profile, `task` of its node. None where the program is not installed.
    fn start(scripts: &[Value], tools: &[&str], more: &Value, task: &Value) -> Option<Self> {
        let program = installed()?;
        let server = ModelServer::start(scripts);
        let fleet = Fleet::prepared()
            .with_env(VARIABLE, KEY)
            .with_env("TETRARCH_RUNS_DRAIN", "10s")
            .started();
        let work = fleet.cwd().join("work");
        std::fs::create_dir(&work).unwrap();
        let address = server.url().trim_start_matches("http://").to_owned();
        let mut tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
        tools.push(format!("network:{address}"));
        let mut profile = json!({
            "runner": "claude", "argv": [program], "baseUrl": server.url(), "workspace": work,
            "keyFrom": format!("env:{VARIABLE}"), "tools": tools, "wall": "90s", "model": "claude-opus-5-5",
        });
        let mut node =
            json!({"id": "T1.1", "name": "task", "maxAttempts": 1, "acceptance": ["it is said"]});
        for (value, more) in [(&mut profile, more), (&mut node, task)] {
            for (key, it) in more.as_object().unwrap() {
                value[key] = it.clone();
            }
        }
        let plan = json!({
            "project": "owned", "output": "T1.1", "goal": {"title": "Use what one has"},
            "phases": [{"id": "P1", "name": "Say", "tasks": [node]}],
            "profiles": {"default": profile},
        });
        let file = fleet.file("plan.json", &plan.to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        Some(Self { fleet, server, running, work })
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

    /// Its program's id.
    fn pid(&self) -> Pid {
        let program = wait::until("the program", || {
            self.fleet.agents().into_iter().find(|it| it.command.contains("--input-format"))
        });
        Pid::from_raw(i32::try_from(program.pid).unwrap()).unwrap()
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

#[tokio::test(flavor = "multi_thread")]
async fn claude_answers_with_its_text_and_its_usage_is_charged() {
    let task = json!({"objective": "Say a greeting"});
    let Some(it) = Task::start(&[says("a greeting", "hello back")], &[], &json!({}), &task) else {
        return;
    };
    let mut ledger = it.ledger().await;
    let used = |records: &Records| {
        let run = records.run_status.values().find(|status| status.state == RunState::Done)?;
        Some(run.usage)
    };
    let used = ledger.until("its run is done", used).await;
    let charged = (used.tokens_in, used.tokens_out, used.turns, used.cost_micro > 0);
    assert_eq!(charged, (30, 9, 1, true), "{used:?}");
    assert_eq!(it.ended(0).0, "hello back");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_writes_a_file_by_a_shell_tool_that_the_brief_allows() {
    let write = json!({"command": "echo hi > made.txt", "description": "writes"});
    let scripts = [then("c1", "it is written"), uses("a file", "c1", "Bash", write)];
    let task = json!({"objective": "Write a file"});
    let Some(it) = Task::start(&scripts, &["run"], &json!({}), &task) else { return };
    it.made("made.txt");
    assert_eq!(std::fs::read_to_string(it.work.join("made.txt")).unwrap(), "hi\n");
    assert_eq!(it.ended(0).0, "it is written");
}

/// It is refused in words, and agents of its own are none of its tools.
#[tokio::test(flavor = "multi_thread")]
async fn claude_is_refused_what_the_brief_does_not_allow() {
    let write = json!({"command": "echo hi > made.txt", "description": "writes"});
    let scripts = [then("c1", "it is refused"), uses("a file", "c1", "Bash", write)];
    let task = json!({"objective": "Write a file"});
    let Some(it) = Task::start(&scripts, &["run:git", "read"], &json!({}), &task) else { return };
    let (got, made) = wait::until("its last words", || {
        let got = it.server.got();
        (got.len() >= 2).then(|| (got, it.work.join("made.txt").exists()))
    });
    assert!(!made, "it was not run");
    let told = got.last().unwrap()["messages"].to_string();
    assert!(told.contains("only these programs may be run: git"), "{told}");
    // One of them stands for those that it would load later; agents of its own are not among them.
    let tools: Vec<&str> = got[0]["tools"].as_array().unwrap().iter().map(name_of).collect();
    assert_eq!(tools, ["Bash", "DeferredToolPlaceholder", "Read"]);
    let described = it.described();
    assert!(described.contains("refused Bash"), "{described}");
    assert_eq!(it.ended(0).0, "it is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_gives_a_typed_result_which_is_checked() {
    let schema = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    });
    let scripts = [uses("a number", "c1", "StructuredOutput", json!({"n": 4}))];
    let task = json!({"objective": "Give a number", "outputSchema": schema});
    let Some(it) = Task::start(&scripts, &[], &json!({}), &task) else { return };
    assert_eq!(it.ended(0).0, "{\"n\":4}");

    // What its tool for results does not take is in its last words, which are handed back once.
    let scripts = [says("does not satisfy the schema", "4"), says("a number", "four")];
    let task = json!({"objective": "Give a number", "outputSchema": {"type": "integer"}});
    let Some(it) = Task::start(&scripts, &[], &json!({}), &task) else { return };
    assert_eq!(it.ended(0).0, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_goes_on_with_its_conversation_after_kill_9() {
    let slow = json!({"command": "echo one >> made.txt; sleep 60", "description": "writes"});
    let scripts = [says("Go on where you were", "went on"), uses("a file", "c1", "Bash", slow)];
    let task = json!({"objective": "Write a file"});
    let Some(it) = Task::start(&scripts, &["run"], &json!({}), &task) else { return };
    it.made("made.txt");
    kill_process(it.pid(), Signal::KILL).unwrap();
    let last = wait::until("its next session", || {
        it.server.got().into_iter().find(|it| it.to_string().contains("Go on where you were"))
    });
    let said = last["messages"].to_string();
    assert!(said.contains("Write a file") && said.contains("outcome is unknown"), "{said}");
    let made = std::fs::read_to_string(it.work.join("made.txt")).unwrap();
    assert_eq!(made, "one\n", "what it did is not repeated");
    assert_eq!(it.ended(0).0, "went on");
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
    let task = json!({"objective": "Take a walk"});
    let Some(it) = Task::start(&scripts, &["run"], &json!({}), &task) else { return };
    let mut ledger = it.ledger().await;
    let worker = it.worker(&mut ledger).await;
    it.made("begun");
    // It reads the text when its tool has ended, and not before.
    it.fleet.ok(["steer", &worker, "to the left", "--wait", "delivered"]);
    assert!(!it.described().contains("steer       effective"), "its tool is at work");
    std::fs::write(it.work.join("go"), "").unwrap();
    it.made("long");
    assert!(it.described().contains("steer       effective"), "{}", it.described());
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
        let task = json!({"objective": "Take a walk"});
        let Some(it) = Task::start(&scripts, &["run"], &json!({}), &task) else { return };
        let mut ledger = it.ledger().await;
        let worker = it.worker(&mut ledger).await;
        if moment == "starting" {
            it.pid();
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

#[tokio::test(flavor = "multi_thread")]
async fn claude_without_a_way_to_its_model_is_not_started() {
    let Some(program) = installed() else { return };
    let fleet = Fleet::prepared().with_env(VARIABLE, KEY).started();
    let plan = |more: Value| {
        let mut profile =
            json!({"runner": "claude", "argv": [program], "keyFrom": format!("env:{VARIABLE}")});
        for (key, it) in more.as_object().unwrap() {
            profile[key] = it.clone();
        }
        json!({
            "project": "owned", "output": "T1.1", "goal": {"title": "Use what one has"},
            "phases": [{"id": "P1", "name": "Say", "tasks": [
                {"id": "T1.1", "name": "task", "maxAttempts": 1, "acceptance": ["it is said"]},
            ]}],
            "profiles": {"default": profile},
        })
    };
    for (more, why) in [
        (json!({}), "add `network:api.anthropic.com:443` to `tools`"),
        (json!({"baseUrl": "nowhere"}), "is no address of a model"),
    ] {
        let file = fleet.file("plan.json", &plan(more).to_string());
        let ended = fleet.run(["run", file.to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.out);
        assert!(ended.err.contains(why), "{}", ended.err);
    }
}
