//! Real coding agents as workers, against a model server that answers as it is scripted (docs/agents.md): what each of
//! them has to do, told by what the program itself did. Skipped, and said to be, where a program is not installed.

pub(super) mod outcomes;
pub(super) mod tooling;

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_core::agent::Agent;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::coding_agents::program_of;
use tetrarch_tests::model::ModelServer;
use tetrarch_tests::{Fleet, Ledger, Process, Program, wait};

/// The key that only the server is shown.
const KEY: &str = "sk-test-0123456789";
/// The variable of the host that holds it.
const VARIABLE: &str = "CODING_TEST_KEY";

/// A coding agent, as the tests have to know it.
pub(super) struct Coder {
    /// Its program.
    pub(super) program: &'static str,
    /// Its runner.
    pub(super) runner: &'static str,
    /// Its arguments after those of its program.
    pub(super) arguments: &'static [&'static str],
    /// What is in the command of its process.
    pub(super) mark: &'static str,
    /// What its profile says besides.
    pub(super) profile: fn(&ModelServer) -> Value,
    /// Its tool for commands, and its arguments for one.
    pub(super) shell: (&'static str, fn(&str) -> Value),
    /// Words that it is told when it is started again in its first turn.
    pub(super) goes_on: &'static str,
    /// How far a steer comes while a tool is at work.
    pub(super) steers: &'static str,
}

/// What stands in a file of the workspace.
pub(super) const NOTES: &str = "notes of somebody else";

/// The stages of a verb that its program took.
pub(super) const ALL: [&str; 3] = ["queued", "delivered", "effective"];

/// One task for a coding agent, on a fleet of its own.
pub(super) struct Task {
    pub(super) fleet: Fleet,
    pub(super) server: ModelServer,
    running: Program,
    pub(super) work: PathBuf,
}

/// What the model answers to a message that has these words in it.
pub(super) fn says(words: &str, text: &str) -> Value {
    json!({"match": {"userMessage": words}, "response": {"content": text, "usage": usage(30, 9)}})
}

/// The same after a tool was used.
pub(super) fn then(call: &str, text: &str) -> Value {
    json!({"match": {"toolCallId": call}, "response": {"content": text, "usage": usage(20, 7)}})
}

/// It wants to use a tool.
pub(super) fn uses(words: &str, call: &str, tool: &str, arguments: Value) -> Value {
    json!({"match": {"userMessage": words}, "response": called(call, tool, &arguments)})
}

pub(super) fn called(call: &str, tool: &str, arguments: &Value) -> Value {
    let calls = json!([{"id": call, "name": tool, "arguments": arguments}]);
    json!({"toolCalls": calls, "usage": usage(10, 5)})
}

pub(super) fn usage(read: u64, written: u64) -> Value {
    json!({"input_tokens": read, "output_tokens": written})
}

impl Coder {
    #[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
    fn installed(&self) -> Option<PathBuf> {
        let (name, program) = (self.program, program_of(self.program));
        if program.is_none() {
            println!(
                "skipped: {name} is not installed; tests/run installs it where the package index has it"
            );
        }
        program
    }

    /// It wants to run a command.
    pub(super) fn runs(&self, words: &str, call: &str, command: &str) -> Value {
        json!({"match": {"userMessage": words}, "response": self.command(call, command)})
    }

    /// The same after another tool was used.
    pub(super) fn then_runs(&self, before: &str, call: &str, command: &str) -> Value {
        json!({"match": {"toolCallId": before}, "response": self.command(call, command)})
    }

    fn command(&self, call: &str, command: &str) -> Value {
        let (tool, arguments) = self.shell;
        called(call, tool, &arguments(command))
    }
}

/// A fleet that has the key, and a workspace.
fn fleet() -> Fleet {
    let fleet = Fleet::prepared();
    // The model of each of them, by whichever name it has.
    let price = json!({"input": 1_000_000, "output": 10_000_000});
    let prices = json!({"models": {"claude-opus-5-5": price, "gpt-5.1-codex": price, "m": price}});
    let prices = fleet.file("prices.json", &prices.to_string());
    let fleet = fleet
        .with_env("TETRARCH_PRICES_FILE", prices.to_str().unwrap())
        .with_env(VARIABLE, KEY)
        .with_env("GEMINI_API_KEY", KEY)
        .with_env("TETRARCH_RUNS_DRAIN", "10s")
        .started();
    // What a repository says in its own settings allows nothing, and starts nothing.
    let work = fleet.cwd().join("work");
    let claude = json!({"permissions": {"allow": ["Bash", "Read", "Write"]}}).to_string();
    let evil = work.join("evil");
    let codex = format!("[mcp_servers.evil]\ncommand = \"touch\"\nargs = [{evil:?}]\n");
    let rules = ["cat", "/bin/bash", "touch"]
        .map(|it| format!("prefix_rule(pattern=[{it:?}], decision=\"allow\")\n"));
    for (name, text) in [
        (".claude/settings.json", claude),
        (".codex/config.toml", codex),
        (".codex/rules/default.rules", rules.concat()),
        ("notes.txt", NOTES.to_owned()),
    ] {
        let path = work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    fleet
}

/// A profile with this server; `more` is added to it.
fn profile_of(
    coder: &Coder,
    program: &Path,
    server: &ModelServer,
    work: &Path,
    more: &Value,
) -> Value {
    let mut argv = vec![program.to_str().unwrap()];
    argv.extend(coder.arguments);
    let mut profile = json!({
        "runner": coder.runner, "argv": argv, "workspace": work,
        "keyFrom": format!("env:{VARIABLE}"), "tools": [], "wall": "90s",
    });
    added(&mut profile, &(coder.profile)(server));
    added(&mut profile, more);
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
    pub(super) fn start(
        coder: &Coder,
        scripts: &[Value],
        tools: &[&str],
        objective: &str,
    ) -> Option<Self> {
        Self::ruled(coder, scripts, &json!({"tools": tools}), objective)
    }

    /// The same; `more` is added to its profile.
    fn ruled(coder: &Coder, scripts: &[Value], more: &Value, objective: &str) -> Option<Self> {
        let task = (objective, &json!({}));
        coder.installed().map(|program| Self::of(coder, &program, scripts, more, task))
    }

    /// The same; more is added to its task.
    fn expecting(
        coder: &Coder,
        scripts: &[Value],
        tools: &[&str],
        task: (&str, &Value),
    ) -> Option<Self> {
        let more = json!({"tools": tools});
        coder.installed().map(|program| Self::of(coder, &program, scripts, &more, task))
    }

    fn of(
        coder: &Coder,
        program: &Path,
        scripts: &[Value],
        more: &Value,
        (objective, of_task): (&str, &Value),
    ) -> Self {
        let (server, fleet) = (ModelServer::start(scripts), fleet());
        let work = fleet.cwd().join("work");
        let profile = profile_of(coder, program, &server, &work, more);
        let plan = plan_of("owned", objective, profile, of_task);
        let file = fleet.file("plan.json", &plan.to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        Self { fleet, server, running, work }
    }

    /// Its one worker, once it is at work.
    pub(super) async fn worker(&self, ledger: &mut Ledger) -> String {
        ledger.until("a worker", |records| Some(worker(records)?.id.to_string())).await
    }

    pub(super) async fn ledger(&self) -> Ledger {
        Ledger::follow(&self.fleet.control().await)
    }

    /// Waits until a file of the workspace is there.
    pub(super) fn made(&self, name: &str) {
        let path = self.work.join(name);
        wait::until("a file of the workspace", || path.exists().then_some(()));
    }

    /// The process of its fleet that has this in its command.
    pub(super) fn pid(&self, mark: &str) -> Pid {
        let process = wait::until("a process", || {
            self.fleet.processes().into_iter().find(|it| it.command.contains(mark))
        });
        Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap()
    }

    /// Its run, for people.
    pub(super) fn described(&self) -> String {
        self.fleet.ok(["describe", &format!("run/{}", last_run(&self.fleet))])
    }

    /// The stages that a verb came to, as the command tells them.
    pub(super) fn stages(&self, verb: &[&str]) -> Vec<String> {
        let out = self.fleet.ok(verb.iter().copied().chain(["-o", "json"]));
        let stage = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["stage"].as_str().unwrap().to_owned()
        };
        out.lines().map(stage).collect()
    }

    /// What it came to: what was printed, and that nothing of it is left.
    pub(super) fn ended(self, code: i32) -> (String, String) {
        let ended = self.running.ended();
        assert_eq!(ended.code, Some(code), "{}\n{}", ended.out, ended.err);
        assert_eq!(self.fleet.agents(), [], "all of it is gone");
        assert!(!self.work.join("evil").exists(), "the repository's own settings started nothing");
        self.fleet.ok(["doctor", "--check-ledger"]);
        (ended.out.trim().to_owned(), ended.err)
    }
}

/// The id of its last run.
fn last_run(fleet: &Fleet) -> String {
    let runs = fleet.json(&["get", "runs"]);
    runs.as_array().and_then(|all| all.last()).unwrap()["id"].as_str().unwrap().to_owned()
}

/// The names of the tools that the model was offered.
pub(super) fn tools_of(request: &Value) -> Vec<&str> {
    let all = request["tools"].as_array().into_iter().flatten();
    all.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

pub(super) fn state(records: &Records) -> Option<RunState> {
    let run = worker(records)?.work.as_ref()?.run;
    Some(records.run_status.get(&run)?.state)
}

/// A use of `tool` is refused in words, also where a repository's own settings allow it. The model was offered these
/// `tools`, where that is known.
pub(super) fn refuses(coder: &Coder, tool: &str, tools: Option<&[&str]>) {
    let scripts = [
        says("was refused", "it is refused"),
        then("c1", "it is refused"),
        coder.runs("a file", "c1", "cat notes.txt"),
    ];
    let task = "Look at a file";
    let Some(it) = Task::start(coder, &scripts, &["run:git", "write"], task) else { return };
    let got = wait::until("its last words", || {
        let got = it.server.got();
        got.last().is_some_and(|last| last.to_string().contains("is not allowed")).then_some(got)
    });
    let told = got.last().unwrap()["messages"].to_string();
    assert!(told.contains("`cat` is not allowed; allowed: git"), "{told}");
    assert!(!told.contains(NOTES), "it was not run: {told}");
    if let Some(tools) = tools {
        assert_eq!(tools_of(&got[0]), tools);
    }
    let described = it.described();
    assert!(described.contains(&format!("refused {tool}")), "{described}");
    assert_eq!(it.ended(0).0, "it is refused");
}

/// People are asked for what the list does not cover, and for what a rule puts to them, one use at a time.
pub(super) fn asks_people(coder: &Coder) {
    let scripts = [
        says("a person refused it", "one of two"),
        then("c3", "one of two"),
        coder.then_runs("c2", "c3", "touch c.txt"),
        coder.then_runs("c1", "c2", "echo hi > b.txt"),
        coder.runs("a file", "c1", "echo hi > a.txt"),
    ];
    let task = "Write a file";
    let rule = json!({"tool": "run", "match": ["touch"], "action": "ask"});
    let more = json!({"tools": ["read", "run:touch", "ask_human"], "permissions": [rule]});
    let Some(it) = Task::ruled(coder, &scripts, &more, task) else { return };
    for (file, answer) in [("a.txt", "allow"), ("b.txt", "allow"), ("c.txt", "not today")] {
        let question = wait::until("a question", || {
            let waiting = it.fleet.json(&["inbox"]);
            let is = |one: &&Value| one["text"].as_str().is_some_and(|text| text.contains(file));
            let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
            waiting.as_array()?.iter().find(is).map(|one| (text(one, "id"), text(one, "text")))
        });
        let (question, words) = question;
        assert!(words.contains("[rule: ask run touch]"), "{words}");
        assert!(!it.work.join(file).exists(), "it waits for the answer");
        it.fleet.ok(["answer", &question, answer, "--other"]);
    }
    let told = wait::until("its last words", || {
        it.server.got().last().map(Value::to_string).filter(|said| said.contains("not today"))
    });
    assert!(told.contains("a person refused it"), "{told}");
    let made = ["a.txt", "b.txt", "c.txt"].map(|file| it.work.join(file).exists());
    assert_eq!(made, [true, true, false]);
    assert_eq!(it.ended(0).0, "one of two");
}

/// It calls the fleet's tools that its brief lists, by the names that its program gives them, and is offered no others.
pub(super) fn reaches_the_fleet(coder: &Coder, prefix: &str) {
    let name = |tool: &str| format!("{prefix}{tool}");
    let next = |before: &str, call: &str, tool: &str, arguments: Value| json!({"match": {"toolCallId": before}, "response": called(call, &name(tool), &arguments)});
    let scripts = [
        then("c3", "it was told"),
        next("c2", "c3", "mail_send", json!({"to": "po", "text": "we go left"})),
        next(
            "c1",
            "c2",
            "ask_human",
            json!({"question": "Which way?", "options": ["left", "right"]}),
        ),
        uses("the fleet", "c1", &name("todo_list"), json!({})),
    ];
    let tools = ["todo_list", "ask_human", "mail_send"];
    let Some(it) = Task::start(coder, &scripts, &tools, "Ask the fleet") else { return };
    let question = wait::until("a question", || {
        let waiting = it.fleet.json(&["inbox"]);
        let is =
            |one: &&Value| one["text"].as_str().is_some_and(|text| text.contains("Which way?"));
        waiting.as_array()?.iter().find(is).map(|one| one["id"].as_str().unwrap().to_owned())
    });
    let got = it.server.got();
    assert!(got.last().unwrap()["messages"].to_string().contains("T1.1"), "its goal's work");
    let offered: Vec<&str> = got.iter().flat_map(tools_of).collect();
    // codex offers them in a namespace, of which the server does not tell.
    let told = if coder.runner == "codex" { &[][..] } else { &tools };
    for tool in told {
        assert!(offered.contains(&name(tool).as_str()), "{tool}: {offered:?}");
    }
    assert!(!offered.contains(&name("agent_spawn").as_str()), "{offered:?}");
    it.fleet.ok(["answer", &question, "left"]);
    let told = wait::until("its last words", || {
        let got = it.server.got();
        let last = got.last()?["messages"].to_string();
        last.contains("we go left").then_some(last)
    });
    assert!(told.contains("left") && told.contains("PO-owned"), "{told}");
    assert_eq!(it.ended(0).0, "it was told");
}

/// It goes on with its conversation after its program or its host was killed.
pub(super) fn goes_on(coder: &Coder) {
    let kills = [("its program", coder.mark), ("its host", " host ")];
    for (killed, mark) in kills.into_iter().cycle().take(2 * times()) {
        let scripts = [
            says(coder.goes_on, "went on"),
            coder.runs("a file", "c1", "echo one >> made.txt; sleep 60"),
        ];
        let Some(it) = Task::start(coder, &scripts, &["run"], "Write a file") else { return };
        it.made("made.txt");
        kill_process(it.pid(mark), Signal::KILL).unwrap();
        let last = wait::until("its next session", || {
            it.server.got().into_iter().find(|it| it.to_string().contains(coder.goes_on))
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

/// It is steered between two tools, interrupted in one, and steered again.
pub(super) async fn is_steered_and_interrupted(coder: &Coder) {
    let long = "touch long; sleep 61";
    // A steer is beside the tool's result, or is the next turn.
    let after = match coder.steers {
        "delivered" => coder.then_runs("c1", "c2", long),
        _ => then("c1", "that was all"),
    };
    let scripts = [
        says("to the right", "right it is"),
        coder.runs("to the left", "c2", long),
        after,
        coder.runs("a walk", "c1", "touch begun; while [ ! -e go ]; do sleep 0.1; done"),
    ];
    let task = "Take a walk";
    let Some(it) = Task::start(coder, &scripts, &["run"], task) else { return };
    let mut ledger = it.ledger().await;
    let worker = it.worker(&mut ledger).await;
    it.made("begun");
    // It reads the text when its tool has ended, and not before.
    it.fleet.ok(["steer", &worker, "to the left", "--wait", coder.steers]);
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

/// How often the tests that kill and stop do so: once, or as often as `STOPS` says, a number, for a long search.
fn times() -> usize {
    let given = std::env::var("STOPS").ok();
    given.map_or(1, |times| times.parse().unwrap())
}

/// It is stopped at several moments, and nothing of it is left.
pub(super) async fn is_stopped_at_each_moment(coder: &Coder) {
    for moment in ["starting", "in a tool", "waiting"].into_iter().cycle().take(3 * times()) {
        let scripts = [coder.runs("a walk", "c1", "touch begun; setsid sleep 60")];
        let task = "Take a walk";
        let Some(it) = Task::start(coder, &scripts, &["run"], task) else { return };
        let mut ledger = it.ledger().await;
        let worker = it.worker(&mut ledger).await;
        if moment == "starting" {
            it.pid(coder.mark);
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
