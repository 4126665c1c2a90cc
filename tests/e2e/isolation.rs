//! Work under isolation as people set it up: the ready profiles do the work of their language, and what is kept
//! from a program is said where its failure is looked for.

use std::path::Path;
use std::process::Command;

use tetrarch_tests::Fleet;

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
fn the_ready_profile_for_shell_works_under_isolation() {
    let makefile =
        "all:\n\t@echo built > out; cat out; touch \"$$HOME/a\" \"$$(mktemp)\"\ntest: all\n";
    let said = with_ready_profile("shell", "make", &[("Makefile", makefile)]);
    assert!(said.contains("built"), "{said}");
}

#[test]
fn the_ready_profile_for_python_works_under_isolation() {
    let test = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n";
    with_ready_profile("python", "run the tests", &[("test_one.py", test)]);
}

#[test]
fn the_ready_profile_for_rust_works_under_isolation() {
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
fn the_ready_profile_for_node_works_under_isolation() {
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
fn what_isolation_keeps_a_program_from_is_said_in_run_logs_and_describe() {
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
