//! Bad input at the command line: every error says what, why and what is allowed or to do, and
//! exits with its documented code (spec 08).

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use tetrarch_tests::{Ended, Fleet};

/// The error has its code and every one of the words, on standard error, and nothing on
/// standard output.
#[track_caller]
fn refused(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.out, ended.err);
    assert!(ended.out.is_empty(), "{}", ended.out);
    assert!(ended.err.contains("error: "), "{}", ended.err);
    for word in words {
        assert!(ended.err.contains(word), "{word:?} in\n{}", ended.err);
    }
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}

fn run_plan(fleet: &Fleet, name: &str, text: &str) -> Ended {
    let path = fleet.file(name, text);
    fleet.run(["run", path.to_str().unwrap()])
}

#[test]
fn malformed_plan_is_refused_with_every_position_before_a_start() {
    let fleet = Fleet::prepared();
    let plan = "\
goal: {title: Bad}
colour: red
phases:
  - id: P1
    name: One
    tasks:
      - {id: T1.1, name: first, deps: [T1.2], acceptance: [x]}
      - {id: T1.2, name: second, deps: [T1.1], acceptance: [x]}
      - {id: T2.9, name: astray, acceptance: [x]}
      - {id: T1.3, name: third, deps: [T7.7], role: emperor, acceptance: [x]}
profiles:
  odd: {runner: docker, argv: [x]}
";
    let ended = run_plan(&fleet, "bad.yaml", plan);
    refused(&ended, 2, &["bad.yaml", "colour", "T1.1 -> T1.2 -> T1.1", "allowed", "next:"]);
    for place in ["phases[0].tasks[2].id", "phases[0].tasks[3].deps[0]", "phases[0].tasks[3].role"]
    {
        refused(&ended, 2, &[place]);
    }
    refused(&ended, 2, &["emperor", "specialist", "T7.7", "docker", "process"]);

    let ended = run_plan(&fleet, "syntax.yaml", "goal: {title: x\nphases: [\n");
    refused(&ended, 2, &["syntax.yaml", ":"]);
    let ended = run_plan(&fleet, "syntax.json", "{\"goal\": }");
    refused(&ended, 2, &["syntax.json", "1"]);
    let ended = run_plan(&fleet, "syntax.toml", "goal = [");
    refused(&ended, 2, &["syntax.toml", "1"]);
    let ended = run_plan(&fleet, "plan.txt", "goal");
    refused(&ended, 2, &["plan.txt", "yaml"]);
    let ended = run_plan(&fleet, "empty.yaml", "");
    refused(&ended, 2, &["empty.yaml"]);
    std::fs::write(fleet.cwd().join("bytes.yaml"), b"goal: \xff\xfe").unwrap();
    let ended = fleet.run(["run", "bytes.yaml"]);
    refused(&ended, 2, &["bytes.yaml"]);
    let ended = fleet.run(["run", "absent.yaml"]);
    refused(&ended, 2, &["absent.yaml"]);
    assert_eq!(std::fs::read_dir(fleet.data_dir()).unwrap().count(), 0, "nothing was started");
}

#[test]
fn wrong_command_line_or_configuration_names_the_mistake() {
    let fleet = Fleet::prepared();
    let ended = fleet.run(["dance"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let ended = fleet.run(["up", "--port", "70000"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    fleet.file("tetrarch.toml", "[liveness]\nwindow = \"soon\"\n");
    let ended = fleet.run(["--config", "tetrarch.toml", "status"]);
    refused(&ended, 2, &["tetrarch.toml:2", "liveness.window", "soon"]);
    fleet.file("tetrarch.toml", "[liveness]\nwidow = \"5s\"\n");
    let ended = fleet.run(["--config", "tetrarch.toml", "status"]);
    refused(&ended, 2, &["tetrarch.toml:2", "widow", "window"]);
}

#[test]
fn unreachable_bus_is_exit_code_six() {
    let mut fleet = Fleet::prepared();
    let ended = fleet.run(["status"]);
    refused(&ended, 6, &["tetrarch up"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("nats://{free}");
    // Only who has a credential comes as far as the bus.
    fleet.ok(["config", "operator"]);
    let ended = fleet.run(["get", "agents", "--url", &url]);
    refused(&ended, 6, &[&url, "next:"]);
    fleet.start();
    fleet.ok(["status"]);
    fleet.stop();
    // What only reads starts the bus for the moment of the question; what asks the owner cannot.
    for args in [&["status"][..], &["tree"], &["get", "goals"]] {
        fleet.ok(args);
    }
    refused(&fleet.run(["project", "create", "x"]), 6, &["next:", "tetrarch up"]);
}

#[test]
fn directory_or_port_in_use_is_a_conflict_naming_its_user() {
    let fleet = Fleet::up();
    let up = fleet.processes().into_iter().find(|p| p.command.contains(" up ")).map(|p| p.pid);
    let second = fleet.run(["up"]);
    refused(&second, 5, &["already runs", &format!("process {}", up.unwrap())]);
    fleet.ok(["status"]);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let other = Fleet::prepared();
    let ended = other.run(["up", "--port", &port]);
    refused(&ended, 5, &[&port, "choose another"]);
    assert_eq!(other.processes(), []);
}

#[test]
fn unusable_nats_server_is_named() {
    let old = Fleet::prepared();
    let script = old.file("old-server", "#!/bin/sh\necho 'nats-server: v2.9.1'\n");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let old = old.with_env("TETRARCH_NATS_SERVER", script.to_str().unwrap());
    let ended = old.run(["up"]);
    refused(&ended, 1, &["2.9.1", "2.14.5", "old-server"]);

    let none = Fleet::prepared().with_env("TETRARCH_NATS_SERVER", "/nowhere/nats-server");
    let ended = none.run(["up"]);
    refused(&ended, 1, &["/nowhere/nats-server", "TETRARCH_NATS_SERVER"]);

    let bare = Fleet::prepared();
    let mut command = bare.command(["up"]);
    command.env_remove("TETRARCH_NATS_SERVER").env("PATH", "/nowhere");
    let mut up = tetrarch_tests::Program::start(&mut command);
    up.close_input();
    let ended = up.ended();
    refused(&ended, 1, &["was not found", "pip", "Install", "TETRARCH_NATS_SERVER"]);
    assert_eq!(bare.processes(), []);

    // `run` needs one as well, and says the same.
    let mut command = bare.command(["run", "plan.yaml"]);
    bare.file("plan.yaml", "goal: {title: x}\nphases: [{id: P1, name: x, tasks: [{id: T1.1, name: x, acceptance: [x]}]}]\nprofiles: {default: {argv: [/bin/sh, -c, exit 0]}}\n");
    command.env_remove("TETRARCH_NATS_SERVER").env("PATH", "/nowhere");
    let ended = tetrarch_tests::Program::start(&mut command).ended();
    refused(&ended, 1, &["was not found", "Install"]);
}

#[test]
fn undoable_plan_ends_with_the_list_of_its_work() {
    let fleet = Fleet::prepared();
    let plan = "\
goal: {title: Fail}
phases:
  - id: P1
    name: One
    tasks:
      - {id: T1.1, name: works, profile: good, acceptance: [x]}
      - {id: T1.2, name: fails, profile: bad, maxAttempts: 1, acceptance: [x]}
      - {id: T1.3, name: waits, profile: good, deps: [T1.2], acceptance: [x]}
profiles:
  good: {argv: ['true']}
  bad: {argv: [sh, -c, 'echo no such luck >&2; exit 3']}
";
    let path = fleet.file("fail.yaml", plan);
    let ended = fleet.run(["run", path.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    let list = &ended.err[ended.err.find("error: ").unwrap()..];
    assert!(
        list.contains("T1.2 fails is blocked (attempts_exhausted)") && list.contains("T1.3 waits"),
        "{list}"
    );
    assert!(!list.contains("T1.1") && list.contains("next:"), "{list}");
    assert_eq!(fleet.processes(), []);
}

#[test]
fn not_found_is_exit_code_three_and_denied_four() {
    let fleet = Fleet::up();
    refused(&fleet.run(["describe", "PO-nobody"]), 3, &["PO-nobody"]);
    refused(&fleet.run(["project", "retire", "nothing", "--yes"]), 3, &["nothing"]);
    refused(&fleet.run(["describe", "X:1"]), 3, &["X:1"]);
    fleet.ok(["project", "create", "tight", "--mode", "solo"]);
    refused(&fleet.run(["project", "create", "tight"]), 5, &["PO-tight", "h1"]);
    let plan = fleet.file(
        "solo.yaml",
        "goal: {title: x}\nphases: [{id: P1, name: x, tasks: [{id: T1.1, name: x, acceptance: [x]}]}]\nprofiles: {default: {argv: ['true']}}\n",
    );
    // One agent does the plan; nobody may delegate to another. It is stopped, and tells how to go on.
    fleet.ok(["run", "--project", "tight", plan.to_str().unwrap()]);
    let text = std::fs::read_to_string(&plan).unwrap().replace("['true']", "[sleep, '600']");
    let plan = fleet.file("solo.yaml", &text);
    let mut run = fleet.spawn(["run", "--wait", "--project", "tight", plan.to_str().unwrap()]);
    let line = run.line(|line| line.contains("v1"));
    assert!(line.contains('x'), "{line}");
    let goals = fleet.json(&["get", "goals"]);
    let open = goals.as_array().unwrap().iter().find(|goal| goal["state"]["status"] == "active");
    let epic = open.unwrap_or_else(|| panic!("{goals}"))["id"].as_str().unwrap().to_owned();
    let ended = fleet.run(["spawn", "PO-tight", "worker", "--task", "x", "--epic", &epic]);
    assert_eq!(ended.code, Some(4), "{}{}", ended.out, ended.err);
    let said = format!("{}{}", ended.out, ended.err);
    assert!(said.contains("children_limit_exceeded"), "{said}");
    run.signal(Signal::INT);
    assert_eq!(run.ended().code, Some(130));
}
