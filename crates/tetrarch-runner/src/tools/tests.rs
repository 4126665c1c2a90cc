//! The tools as a model calls them: real files, real programs. Each test has a workspace of its
//! own, and something outside of it that must stay as it is.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use serde_json::{Value, json};
use tempfile::TempDir;
use tetrarch_core::id::{HostName, RunId, Ulid};
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule};

use super::*;

mod commands;
mod files;
mod hostile;

/// What lies outside and must be neither shown nor changed.
const SECRET: &str = "the secret outside";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An id that no other test has.
fn fresh() -> Ulid {
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let place = (u128::from(std::process::id()) << 32) | number;
    Ulid::from_parts(u64::try_from(now).unwrap(), place)
}

struct Bench {
    place: TempDir,
    toolbox: Toolbox,
}

impl Bench {
    fn new() -> Self {
        Self::with(&["*"], &[])
    }

    fn with(tools: &[&str], scope_paths: &[&str]) -> Self {
        Self::ruled(tools, scope_paths, &[])
    }

    fn ruled(tools: &[&str], scope_paths: &[&str], rules: &[(&str, &[&str])]) -> Self {
        // As a host is: what a program leaves comes to this process.
        crate::sweep::become_subreaper().unwrap();
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("work");
        fs::create_dir(&root).unwrap();
        fs::create_dir(place.path().join("work-beside")).unwrap();
        for secret in ["secret.txt", "work-beside/secret.txt"] {
            fs::write(place.path().join(secret), SECRET).unwrap();
        }
        let scope: Vec<String> = scope_paths.iter().map(|path| (*path).to_owned()).collect();
        let rule = |(tool, words): &(&str, &[&str])| PermissionRule {
            tool: (*tool).to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            action: PermissionAction::Deny,
        };
        let rules = rules.iter().map(rule).collect();
        let toolbox = Toolbox::new(ToolboxConfig {
            workspace: &root,
            tools: &tools.iter().copied().collect(),
            permissions: &[PermissionList { rules }],
            servers: &[],
            scope_paths: &scope,
            run: RunId(fresh()),
            life: &HostLife::new(&HostName::new("bench").unwrap(), "i", Ulid::from_parts(1, 1)),
            containment: &Containment::default(),
            variables: Vec::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            profile: "coder",
            cgroup: None,
            trace: None,
        });
        Self { toolbox: toolbox.unwrap(), place }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join("work").join(path)
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn pipe(&self, path: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    async fn ok(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.toolbox.call(tool, &arguments).await;
        assert!(!outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.text
    }

    async fn error(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.toolbox.call(tool, &arguments).await;
        assert!(outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.text
    }
}

#[tokio::test]
async fn tool_absent_from_the_brief_is_absent() {
    let bench = Bench::with(&[], &[]);
    assert!(bench.toolbox.definitions().is_empty());
    assert_eq!(
        bench.error("read_file", json!({"path": "a"})).await,
        "the tool `read_file` is not allowed; allowed: none"
    );
    let bench = Bench::with(&["read", "run:git"], &[]);
    let names: Vec<&str> = bench.toolbox.definitions().iter().map(|one| one.name).collect();
    assert_eq!(names, ["read_file", "run_command"]);
    let refused = bench.error("write_file", json!({"path": "a", "content": ""})).await;
    assert!(refused.ends_with("allowed: read_file, run_command"), "{refused}");
    bench.error("rm", json!({})).await;
}

#[test]
fn every_tool_describes_its_arguments_and_repeat_effect() {
    let definitions = Bench::new().toolbox.definitions();
    let effects: Vec<(&str, Effect)> =
        definitions.iter().map(|definition| (definition.name, definition.effect)).collect();
    assert_eq!(
        effects,
        [
            ("read_file", Effect::ReadOnly),
            ("list_files", Effect::ReadOnly),
            ("search_files", Effect::ReadOnly),
            ("write_file", Effect::Idempotent),
            ("edit_file", Effect::Effectful),
            ("run_command", Effect::Effectful),
        ]
    );
    for definition in definitions {
        jsonschema::meta::validate(&definition.schema).unwrap();
        assert!(!jsonschema::is_valid(&definition.schema, &json!({"no": "such key"})));
    }
}

#[tokio::test]
async fn rule_on_paths_holds_over_links_and_in_searches() {
    let rules: &[(&str, &[&str])] = &[
        ("read", &["keys"]),
        ("search", &["keys"]),
        ("list", &["keys/**"]),
        ("run", &["git", "push"]),
    ];
    let bench = Bench::ruled(&["*"], &[], rules);
    bench.put("keys/a", "secret words\n");
    bench.put("src/a", "words\n");
    std::os::unix::fs::symlink("../keys/a", bench.path("src/link")).unwrap();
    std::os::unix::fs::symlink("../keys", bench.path("src/place")).unwrap();
    for (tool, arguments, denied) in [
        ("read_file", json!({"path": "src/a"}), false),
        ("read_file", json!({"path": "keys/a"}), true),
        ("read_file", json!({"path": "./keys/./a"}), true),
        ("read_file", json!({"path": "src/link"}), true),
        ("read_file", json!({"path": "src/place/a"}), true),
        ("read_file", json!({"path": "keys/none"}), true),
        ("read_file", json!({"path": "src/none"}), false),
        ("read_file", json!({"path": "../out"}), true),
        ("write_file", json!({"path": "keys/a", "content": ""}), false),
        ("search_files", json!({"pattern": "words"}), false),
        ("search_files", json!({"pattern": "words", "path": "keys"}), true),
        ("run_command", json!({"argv": ["git", "push"]}), true),
        ("run_command", json!({"argv": ["git", "log"]}), false),
        ("run_command", json!({"argv": "git log"}), true),
        ("agent_spawn", json!({}), false),
    ] {
        let rule = bench.toolbox.rule(tool, arguments.as_object().unwrap());
        assert_eq!(rule.is_some(), denied, "{tool} {arguments}: {rule:?}");
    }
    let found = bench.ok("search_files", json!({"pattern": "words"})).await;
    assert!(found.contains("src/a:1") && !found.contains("secret"), "{found}");
    assert!(found.contains("restrict"), "{found}");
    let listed = bench.ok("list_files", json!({"pattern": "**"})).await;
    assert!(listed.contains("src/a") && !listed.contains("keys/a"), "{listed}");
}

/// What a schema refuses, reading the arguments refuses too, and what it takes is taken.
#[tokio::test]
async fn schema_and_argument_parsing_agree() {
    let bench = Bench::new();
    bench.put("a", "x\n");
    let definitions = bench.toolbox.definitions();
    for (tool, arguments, fits) in [
        ("read_file", json!({"path": "a", "offset": 1, "limit": 10_000}), true),
        ("read_file", json!({"path": "a", "offset": 0}), false),
        ("read_file", json!({"path": "a", "limit": 0}), false),
        ("read_file", json!({"path": "a", "limit": 10_001}), false),
        ("read_file", json!({"path": 1}), false),
        ("read_file", json!({}), false),
        ("read_file", json!("a"), false),
        ("read_file", Value::Null, false),
        ("list_files", json!({}), true),
        ("list_files", json!({"path": "", "pattern": "*", "ignored": true}), true),
        ("list_files", json!({"ignored": "yes"}), false),
        ("search_files", json!({"pattern": "x", "files": "*", "ignore_case": true}), true),
        ("search_files", json!({"path": "a"}), false),
        ("write_file", json!({"path": "b", "content": ""}), true),
        ("write_file", json!({"path": "b"}), false),
        ("edit_file", json!({"path": "a", "old": "x", "new": "y"}), true),
        ("edit_file", json!({"path": "a", "old": "", "new": "y"}), false),
        ("run_command", json!({"argv": ["true"], "timeout_seconds": 3600}), true),
        ("run_command", json!({"argv": []}), false),
        ("run_command", json!({"argv": "true"}), false),
        ("run_command", json!({"argv": ["true"], "timeout_seconds": 0}), false),
        ("run_command", json!({"argv": ["true"], "timeout_seconds": 3601}), false),
    ] {
        let schema = &definitions.iter().find(|one| one.name == tool).unwrap().schema;
        assert_eq!(jsonschema::is_valid(schema, &arguments), fits, "{tool} {arguments}");
        let outcome = bench.toolbox.call(tool, &arguments).await;
        assert_eq!(!outcome.is_error, fits, "{tool} {arguments}: {}", outcome.text);
    }
}

#[test]
fn every_listable_tool_entry_exists_once() {
    let entries = tool_entries();
    for entry in ["read", "run", "network", "ask_human", "todo_list", "*"] {
        assert_eq!(entries.iter().filter(|it| **it == entry).count(), 1, "{entry}: {entries:?}");
    }
    assert!(!entries.contains(&"read_file"), "a model's word for it is no entry");
}
