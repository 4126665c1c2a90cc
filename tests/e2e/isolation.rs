//! Work under isolation as people set it up: the ready profiles do the work of their language, and what is kept
//! from a program is said where its failure is looked for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tetrarch_tests::{Fleet, python};

/// Whether the machine has a program.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Runs one task with the profile that `profile init` writes for a language, in the directory that holds
/// these files; what it printed.
fn with_ready_profile(language: &str, task: &str, files: &[(&str, &str)]) -> String {
    // The tool chains are found in the home of whoever runs the tests.
    let home = std::env::var("HOME").unwrap();
    let fleet = Fleet::prepared().with_env("HOME", home).started();
    write(&fleet.cwd(), files);
    let ready = fleet.ok(["profile", "init", language]);
    fleet.file("ready.yaml", &ready);
    let plan = serde_json::json!({
        "project": "ready",
        "goal": {"title": language},
        "phases": [{"id": "P1", "name": "p", "tasks": [
            {"id": "T1.1", "name": "t", "task": task, "profile": language, "acceptance": ["x"], "maxAttempts": 1},
        ]}],
    });
    fleet.file("plan.json", &plan.to_string());
    fleet.ok(["project", "create", "ready"]);
    fleet.ok(["profile", "apply", "ready", "ready.yaml"]);
    let ended = fleet.run(["run", "plan.json"]);
    assert_eq!(ended.code, Some(0), "{language}: {}\n{}", ended.out, ended.err);
    ended.out
}

#[test]
fn shell_ready_profile_works_under_isolation() {
    let makefile =
        "all:\n\t@echo built > out; cat out; touch \"$$HOME/a\" \"$$(mktemp)\"\ntest: all\n";
    let said = with_ready_profile("shell", "make", &[("Makefile", makefile)]);
    assert!(said.contains("built"), "{said}");
}

#[test]
fn python_ready_profile_works_under_isolation() {
    let test = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n";
    with_ready_profile("python", "run the tests", &[("test_one.py", test)]);
}

#[test]
fn rust_ready_profile_works_under_isolation() {
    let manifest =
        "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    let test = "#[test]\nfn it_holds() {}\n";
    let said = with_ready_profile(
        "rust",
        "run the tests",
        &[("Cargo.toml", manifest), ("src/lib.rs", test)],
    );
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn node_ready_profile_works_under_isolation() {
    if !has("node") {
        return;
    }
    let package = r#"{"name": "one", "version": "1.0.0", "scripts": {"test": "node --test"}}"#;
    let test = "const { test } = require('node:test');\ntest('it', () => {});\n";
    with_ready_profile(
        "node",
        "run the tests",
        &[("package.json", package), ("test/one.test.js", test)],
    );
}

#[test]
fn isolation_refusal_is_shown_in_run_logs_and_describe() {
    let fleet = Fleet::up();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = outside.path().join("file");
    let line = format!("echo x > {}", path.display());
    let plan = serde_json::json!({
        "project": "kept",
        "goal": {"title": "Write outside"},
        "phases": [{"id": "P1", "name": "p", "tasks": [
            {"id": "T1.1", "name": "t", "run": line, "acceptance": ["x"], "maxAttempts": 1},
        ]}],
    });
    let plan = fleet.file("plan.json", &plan.to_string());
    let ended = fleet.run(["run", plan.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(!path.exists(), "it was kept from it");
    let blocked = format!("blocked by isolation: {}", path.display());
    let (logs, shown) = (fleet.ok(["logs", "T1.1"]), fleet.ok(["describe", "@last/T1.1"]));
    for (place, said) in [("run", &ended.err), ("logs", &logs), ("describe", &shown)] {
        assert!(said.contains(&blocked), "{place}: {said}");
        assert!(said.contains("writable"), "{place} says what allows it: {said}");
    }
}

/// A project's goal of one command, run to its end.
fn one_command(fleet: &Fleet, command: &str) -> (Option<i32>, String) {
    let plan = serde_json::json!({
        "project": "kept",
        "goal": {"title": "One command"},
        "phases": [{"id": "P1", "name": "p", "tasks": [
            {"id": "T1.1", "name": "t", "run": command, "acceptance": ["x"], "maxAttempts": 1},
        ]}],
    });
    let plan = fleet.file("plan.json", &plan.to_string());
    let ended = fleet.run(["run", plan.to_str().unwrap()]);
    (ended.code, [ended.out, ended.err].join("\n"))
}

#[test]
fn program_leads_a_session_and_is_first_killed_when_memory_is_short() {
    let fleet = Fleet::up();
    let look = "import os; print('leads', os.getsid(0) == os.getpid(), open('/proc/self/oom_score_adj').read())";
    let (code, said) = one_command(&fleet, &format!("exec {} -c \"{look}\"", python().display()));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("leads True 500"), "{said}");
}

#[test]
fn fork_bomb_fails_its_run_and_the_fleet_goes_on() {
    let fleet = Fleet::prepared().with_env("TETRARCH_RUNS_PROCESSES_MAX", "60").started();
    let doctor = fleet.run(["doctor"]).out;
    if !doctor.lines().any(|line| line.starts_with("cgroup limits") && line.contains("enforced")) {
        return;
    }
    let (code, said) = one_command(&fleet, "f() { f | f & }; f; sleep 60");
    assert_eq!(code, Some(1), "{said}");
    let refused = said.contains("Resource temporarily unavailable") || said.contains("Cannot fork");
    assert!(said.contains("more than 60 processes") || refused, "{said}");
    let (code, said) = one_command(&fleet, "true");
    assert_eq!(code, Some(0), "{said}");
}

/// A server that says hello to whoever connects, and its port.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _much = stream.read(&mut [0; 1024]);
            let _ended = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    port
}

#[test]
fn program_reaches_only_the_destination_its_plan_allows() {
    let fleet = Fleet::up();
    let (allowed, other) = (greeter(), greeter());
    let plan = |tool: &str, port: u16| {
        let asks = format!(
            "import urllib.request as r\ntry: print(r.urlopen('http://127.0.0.1:{port}/').read().decode())\n\
             except OSError as error: raise SystemExit(str(error))"
        );
        let plan = serde_json::json!({
            "project": "reach", "title": "reach", "output": "T1.1",
            "phases": [{"id": "P1", "name": "p", "tasks": [
                {"id": "T1.1", "name": "t", "acceptance": ["it is reached"], "tools": [tool], "maxAttempts": 1},
            ]}],
            "profiles": {"default": {"argv": [python(), "-c", asks]}},
        });
        fleet.file("plan.json", &plan.to_string());
    };
    plan("network:127.0.0.1", allowed);
    let wrong = fleet.run(["plan", "check", "plan.json"]);
    assert!(wrong.err.contains("phases[0].tasks[0].tools[0]"), "{}", wrong.err);
    assert!(wrong.err.contains("network:api.example.org:443"), "{}", wrong.err);

    let entry = format!("network:127.0.0.1:{allowed}");
    plan(&entry, allowed);
    let ended = fleet.run(["run", "plan.json"]);
    let network = fleet.json(&["doctor"]).to_string();
    if network.contains("single destinations cannot be allowed") {
        assert!(
            ended.err.contains("single destinations cannot be allowed on this host"),
            "{}",
            ended.err
        );
        return;
    }
    assert!(network.contains("single destinations can be allowed"), "{network}");
    assert!(ended.out.contains("hello"), "{}{}", ended.out, ended.err);
    plan(&entry, other);
    let ended = fleet.run(["run", "plan.json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.out);
    assert!(ended.err.contains("403"), "{}", ended.err);
}
