//! The roster in a real terminal, as people use it: keys are typed, the screen is read, and a fleet lives meanwhile.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_tests::model::ModelServer;
use tetrarch_tests::{Fleet, Program, python, wait};

use crate::gate::{Repository, change, id, work};
use crate::{acting, script};

/// Begins a command on a terminal of so many columns and lines, which takes each step when its texts are shown.
pub(crate) fn on_screen(fleet: &Fleet, size: &str, steps: &Value, args: &[&str]) -> Program {
    let inner = fleet.command(args);
    let mut command = Command::new(python());
    command.arg(script("screen.py")).args([size.to_owned(), steps.to_string()]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir(fleet.cwd());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Program::start(&mut command)
}

/// What came of it: every step did.
pub(crate) fn told(program: Program) -> Value {
    let ended = program.ended();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(told.get("missing").is_none(), "{}\n{}", told["missing"]["step"], shown(&told));
    told
}

fn shown(told: &Value) -> &str {
    told["missing"]["screen"].as_str().unwrap_or_default()
}

#[test]
fn fleet_is_seen_steered_and_answered_on_the_terminal() {
    let fleet = Fleet::up();
    let witness = fleet.cwd().join("witness");
    let task = |id: &str, name: &str, profile: &str| json!({"id": id, "name": name, "profile": profile, "acceptance": ["x"], "maxAttempts": 1});
    let awake = fleet.cwd().join("awake");
    let result =
        r#"{"type":"result","outcome":"success","deliverable":"9","evidence":{"tests":["x"]}}"#;
    let counting = format!(
        r#"echo '{{"type":"progress","text":"counting sheep"}}'; until test -e {}; do sleep 0.05; done; echo '{result}'"#,
        awake.display()
    );
    let plan = json!({
        "project": "steered",
        "output": "T1.2",
        "goal": {"title": "Be told where to go"},
        "phases": [{"id": "P1", "name": "Go", "tasks": [
            task("T1.1", "drive", "helm"), task("T1.2", "wonder", "wondering"),
            task("T1.3", "sleep", "counting"),
        ]}],
        "profiles": {
            "helm": {"argv": acting(&["helm", witness.to_str().unwrap()])},
            "wondering": {"argv": acting(&["wonder"]), "wall": "60s"},
            "counting": {"argv": ["sh", "-c", counting]},
        },
    });
    let plan = fleet.file("plan.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    wait::until("its program is up", || witness.exists().then_some(()));
    let steps = json!([
        {"see": ["live", "awaiting-input", "input", "running", "PO-steered", "counting sheep"], "type": "/drive\r"},
        {"see": ["/drive", "running"], "gone": "awaiting-input", "type": "sgo left\r"},
        {"see": ["queued", "delivered", "effective"], "type": "\r"},
        {"see": ["transcript", "go left", "effective by"], "type": "2"},
        {"see": ["node", "T1.1 drive (in_progress)", "runner"], "resize": [80, 24]},
        {"see": ["T1.1 drive (in_progress)", "? help q quit"], "type": "\u{1b}"},
        {"see": "STATE", "type": "a"},
        {"see": ["Which one?", "1 A", "2 B"], "type": "2"},
        {"see": "And when?", "type": "\r"},
        {"see": "answer qst_", "type": "now\r"},
        {"see": "Nothing waits for you", "type": "P"},
        {"see": ["Be told where to go", "critical path", "T1.2", "done"], "type": "?"},
        {"see": ["Keys", "conversations of people"], "type": "\u{1b}"},
        {"see": "critical path", "make": awake, "type": "q"},
    ]);
    let told = told(on_screen(&fleet, "120x40", &steps, &["roster"]));
    assert_eq!((&told["code"], &told["restored"]), (&json!(0), &json!(true)), "{told}");
    assert_eq!(told["left"].as_str().unwrap().trim_start_matches("\u{1b}[?25h"), "");
    assert_eq!(std::fs::read_to_string(&witness).unwrap(), "up 1\nsteer go left\n");
    let worker = fleet.json(&["get", "agents", "--project", "steered"]);
    let worker = worker.as_array().unwrap().iter().find(|agent| agent["label"] == "drive").unwrap();
    fleet.ok(["steer", worker["id"].as_str().unwrap(), "end"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&result["which"], &result["when"]), (&json!("B"), &json!("now")));
}

#[test]
fn change_is_read_approved_and_merged_on_the_terminal() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("printf '4\\033[2J\n' >> a", json!({}))]);
    let made = change(&fleet, "T1.1");
    let (id, digest) = (id(&made), made["digest"].as_str().unwrap().to_owned());
    let start = format!("{}…", &digest[..12]);
    let steps = json!([
        {"see": ["live", "1 for you"], "type": "a"},
        {"see": [id, digest, "+4\\u{1b}[2J"], "type": "y"},
        {"see": [format!("Approve {id} with digest {start}?"), "Y yes"], "type": "Y"},
        {"see": [format!("approve {id}:"), "state      approved"], "type": "m"},
        {"see": format!("Merge {id}"), "type": "Y"},
        {"see": "Nothing waits for you", "type": "q"},
    ]);
    let told = told(on_screen(&fleet, "120x40", &steps, &["roster"]));
    assert_eq!((&told["code"], &told["restored"]), (&json!(0), &json!(true)), "{told}");
    assert_eq!(repository.read("a"), "one\ntwo\nthree\n4\u{1b}[2J\n");
    assert_eq!(change(&fleet, "T1.1")["status"], "applied");
}

#[test]
fn tool_and_words_of_a_model_are_seen_as_they_come() {
    let turn = |n: u64| json!({"userMessage": "be terse", "turnIndex": n});
    let fleet = Fleet::prepared().with_env("LLM_TEST_KEY", "sk-test").started();
    let go = fleet.cwd().join("go");
    let waits = format!("until test -e {}; do sleep 0.05; done", go.display());
    let call = json!({"argv": ["sh", "-c", waits]}).to_string();
    let call = json!({"toolCalls": [{"id": "c0", "name": "run_command", "arguments": call}]});
    // The runner passes words on line by line.
    let words = json!({"content": "alpha beta\ngamma delta\nepsilon omega"});
    let server = ModelServer::start(&[
        json!({"match": turn(0), "response": call}),
        json!({"match": turn(1), "response": words, "chunkSize": 6, "latency": 500}),
    ]);
    let plan = json!({
        "project": "terse",
        "goal": {"title": "be terse"},
        "phases": [{"id": "P1", "name": "Say", "tasks": [
            {"id": "T1.1", "name": "be terse", "objective": "be terse", "acceptance": ["it is said"]},
        ]}],
        "profiles": {"default": {
            "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{}/v1", server.url()),
            "keyFrom": "env:LLM_TEST_KEY", "tools": ["run:sh"], "worktree": "none", "wall": "60s",
        }},
    });
    let plan = fleet.file("terse.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let steps = json!([
        {"see": ["live", "TOOL", "scripted", "run_command"], "type": "/scripted\r"},
        {"see": "/scripted", "type": "\r"},
        {"see": ["run_command", "(at work)", "sleep 0.05"], "make": go},
        {"see": "alpha beta", "gone": "omega"},
        {"see": ["epsilon omega", "result"], "type": "q"},
    ]);
    let told = told(on_screen(&fleet, "200x40", &steps, &["roster"]));
    assert_eq!((&told["code"], &told["restored"]), (&json!(0), &json!(true)), "{told}");
    assert_eq!(running.ended().code, Some(0));
}

#[test]
fn roster_is_stale_while_the_bus_is_away_and_goes_on_by_itself() {
    let fleet = Fleet::up();
    let [seen, lost] = ["seen", "lost"].map(|name| fleet.cwd().join(name));
    let steps = json!([
        {"see": ["live", "HO@h1"], "make": seen},
        {"see": ["STALE for", "the bus is away", "HO@h1"], "make": lost},
        {"see": ["live", "PO-later"], "gone": "STALE", "type": "q"},
    ]);
    // Its name alone opens it.
    let program = on_screen(&fleet, "80x24", &steps, &[]);
    let signal = |signal| {
        let all = fleet.processes();
        let server = all.iter().find(|process| process.command.contains("nats-server"));
        let server = server.unwrap_or_else(|| panic!("{all:?}"));
        kill_process(Pid::from_raw(i32::try_from(server.pid).unwrap()).unwrap(), signal).unwrap();
    };
    wait::until("it was seen", || seen.exists().then_some(()));
    signal(Signal::STOP);
    wait::until("the loss was seen", || lost.exists().then_some(()));
    signal(Signal::CONT);
    fleet.ok(["project", "create", "later"]);
    let told = told(program);
    assert_eq!((&told["code"], &told["restored"]), (&json!(0), &json!(true)), "{told}");
}

#[test]
fn roster_without_terminal_or_fleet_says_what_to_do() {
    let fleet = Fleet::prepared();
    let help = fleet.run::<&str>([]);
    assert_eq!(help.code, Some(2), "{}", help.out);
    assert!(help.err.contains("Usage: tetrarch"), "{}", help.err);
    let none = fleet.run(["roster"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
    assert!(
        none.err.contains("needs a terminal") && none.err.contains("tetrarch tree"),
        "{}",
        none.err
    );
    let steps = json!([]);
    let ended = told(on_screen(&fleet, "80x24", &steps, &[]));
    assert_eq!((&ended["code"], &ended["restored"]), (&json!(2), &json!(false)), "{ended}");
    assert!(ended["left"].as_str().unwrap().contains("Run fleets of agents"), "{ended}");
}
