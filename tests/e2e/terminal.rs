//! What a person sees on a terminal: a line that says how far a goal is and goes away, and questions that are
//! answered by a key.

use std::process::Command;

use serde_json::{Value, json};
use tetrarch_tests::{Fleet, Program, python};

use crate::script;

/// What begins each drawing of the line: the one before it is erased.
const ERASED: &str = "\u{1b}[2K";

/// Runs a command on a terminal of 60 columns, taking each step when its text is shown; its code and what was
/// shown.
fn on_terminal(fleet: &Fleet, steps: &Value, args: &[&str]) -> (i64, String) {
    let inner = fleet.command(args);
    let mut command = Command::new(python());
    command.arg(script("terminal.py")).arg(steps.to_string());
    command.arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir(fleet.cwd());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Program::start(&mut command).ended();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    (told["code"].as_i64().unwrap(), told["shown"].as_str().unwrap().to_owned())
}

/// A plan whose first task waits for a file and then does this; the second one depends on it.
fn waiting(fleet: &Fleet, then: &str) -> String {
    let line = format!("until test -e {}/go; do sleep 0.05; done; {then}", fleet.cwd().display());
    let task = |id: &str, line: &str| json!({"id": id, "name": id, "run": line, "acceptance": ["x"], "maxAttempts": 1});
    let (one, mut two) = (task("T1.1", &line), task("T1.2", "true"));
    two["deps"] = json!(["T1.1"]);
    let plan = json!({
        "project": "site",
        "goal": {"title": "Look"},
        "phases": [{"id": "P1", "name": "all", "tasks": [one, two]}],
    });
    fleet.file("look.json", &plan.to_string()).to_str().unwrap().to_owned()
}

#[test]
fn terminal_run_shows_one_transient_progress_line() {
    let fleet = Fleet::up();
    let plan = waiting(&fleet, "true");
    let steps = json!([{"see": "0/2 done  1 at work  0:0", "make": fleet.cwd().join("go")}]);
    let (code, shown) = on_terminal(&fleet, &steps, &["run", &plan]);
    assert_eq!(code, 0, "{shown}");
    let last = shown.rsplit(ERASED).next().unwrap();
    assert!(last.contains("Figures") && !last.contains("at work"), "{shown}");
    let drawn = shown.split(ERASED).filter(|drawn| drawn.contains("/2 done  "));
    let widths: Vec<usize> = drawn.map(|line| line.trim_end_matches('\r').len()).collect();
    assert!(!widths.is_empty() && widths.iter().all(|width| *width < 60), "{widths:?} of {shown}");
    let beside = fleet.run(["run", &plan]);
    assert!(!beside.err.contains("at work"), "without a terminal there is none: {}", beside.err);
}

#[test]
fn terminal_run_shows_why_work_failed_and_what_helps() {
    let fleet = Fleet::up();
    let plan = waiting(&fleet, "echo the disk is full >&2; exit 3");
    let steps = json!([{"see": "1 at work", "make": fleet.cwd().join("go")}]);
    let (code, shown) = on_terminal(&fleet, &steps, &["run", &plan]);
    assert_eq!(code, 1, "{shown}");
    let last = shown.rsplit(ERASED).next().unwrap();
    assert!(last.contains("the disk is full") && last.contains("work unblock"), "{last}");
}

#[test]
fn confirmation_is_read_from_the_terminal() {
    let fleet = Fleet::up();
    let plan = waiting(&fleet, "true");
    fleet.ok(["run", &plan, "--detach"]);
    let state = || fleet.json(&["goal", "list", "--all"])[0]["state"]["status"].clone();
    for (typed, code, then) in [("n\n", 1, "active"), ("\n", 1, "active"), ("y\n", 0, "cancelled")]
    {
        let steps = json!([{"see": "? [y/N] ", "type": typed}]);
        let (ended, shown) = on_terminal(&fleet, &steps, &["goal", "cancel", "site"]);
        assert_eq!((ended, &state()), (code, &json!(then)), "{typed:?}: {shown}");
    }
}
