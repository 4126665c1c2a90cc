//! A fleet that has one of everything that a command line can name.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_tests::{Ended, Fleet, Program, wait};

use crate::{acting, workspace};

/// The fleet, and the names of what is in it.
pub(super) struct Shop {
    pub(super) fleet: Fleet,
    names: BTreeMap<&'static str, String>,
}

fn git(fleet: &Fleet, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
    let done = git.current_dir(fleet.cwd()).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
}

fn task(id: &str, profile: &str, deps: &[&str]) -> Value {
    json!({"id": id, "name": id, "profile": profile, "deps": deps, "acceptance": ["it is done"]})
}

/// A plan with something done, something that can be steered, something that asks, and what waits.
fn plan(fleet: &Fleet, project: &str, profile: [&str; 3]) -> Value {
    let helm = acting(&["helm", fleet.cwd().join(project).to_str().unwrap()]);
    json!({
        "project": project,
        "goal": {"title": format!("Keep {project} in order")},
        "phases": [
            {"id": "P1", "name": "Begin", "tasks": [
                task("T1.1", profile[0], &[]), task("T1.2", profile[1], &["T1.1"]),
                task("T1.3", profile[2], &["T1.1"]),
            ]},
            {"id": "P2", "name": "End", "tasks": [task("T2.1", "quick", &["T1.2"])]},
        ],
        "profiles": {
            "quick": {"argv": ["echo", "done"], "wall": "60s"},
            "default": {"argv": ["echo", "done"], "wall": "60s"},
            "helm": {"argv": helm, "wall": "300s"},
            "wondering": {"argv": acting(&["wonder"]), "wall": "300s"},
            "change": {
                "argv": ["sh", "-c", "date +%N > \"$TETRARCH_RUN\""], "wall": "60s",
                "workspace": fleet.cwd(), "worktree": "isolated",
            },
        },
    })
}

impl Shop {
    /// Opens it.
    pub(super) fn open() -> Self {
        let fleet = Fleet::prepared()
            .with_env("TETRARCH_HOST_CAPACITY", "64")
            .with_env("TETRARCH_HOST_NAME", "h1")
            .started();
        let coder = "name = 'coder'\nargv = ['echo', 'coded']\n";
        fleet.file("coder.toml", coder);
        fleet.file("rust.yaml", "name: rust\nargv: [echo, built]\n");
        fleet.file("orchestrator.json", r#"{"name": "orchestrator", "argv": ["echo", "told"]}"#);
        fleet.file("profiles.yaml", "default: {argv: [echo, done]}\n");
        fleet.file("parts.yaml", "- {name: half, profile: quick, acceptance: [it is]}\n- {name: rest, profile: quick, acceptance: [it is]}\n");
        fleet.file("work.json", "{}");
        for name in ["plan.yaml", "release.yaml"] {
            fleet.file(name, &plan(&fleet, "demo", ["quick"; 3]).to_string());
        }
        git(&fleet, &["init", "--quiet", "--initial-branch=main"]);
        git(&fleet, &["add", "coder.toml"]);
        git(&fleet, &["commit", "--quiet", "-m", "first"]);
        let mut shop = Self { fleet, names: BTreeMap::new() };
        shop.fill();
        shop
    }

    fn fill(&mut self) {
        let fleet = &self.fleet;
        for project in ["demo", "logs"] {
            fleet.ok(["project", "create", project]);
        }
        fleet.ok(["profile", "apply", "demo", "coder.toml"]);
        let changes = plan(fleet, "changes", ["change"; 3]).to_string();
        fleet.file("changes.json", &changes);
        fleet.ok(["run", "changes.json"]);
        fleet.file("site.json", &plan(fleet, "site", ["quick", "helm", "wondering"]).to_string());
        let goal = fleet.ok(["run", "site.json", "--detach"]).trim().to_owned();
        fleet.ok(["mail", "send", "PO-demo", "good morning"]);
        fleet.ok(["schedule", "create", "plan.yaml", "--every", "6h"]);
        let mut other = plan(fleet, "site", ["quick", "helm", "wondering"]);
        other["phases"][1]["tasks"][0]["name"] = json!("another end");
        fleet.file("other.json", &other.to_string());
        fleet.ok(["plan", "draft", &goal, "other.json", "--reason", "what do you think?"]);
        let work = wait::until("work is steered and asks", || {
            let runs = fleet.json(&["get", "runs", "--state", "running"]);
            let run = runs.as_array()?.iter().find(|run| run["node"] == "T1.2")?.clone();
            let asked = fleet.json(&["inbox"]);
            let asked = asked.as_array()?.iter().find(|it| it["text"] == "Which one?")?.clone();
            let all = fleet.json(&["get", "runs"]);
            let kept = all.as_array()?.iter().find_map(|run| run["state"]["archive"].as_str())?;
            Some((run, asked, kept.to_owned()))
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let first = |args: &[&str], name: &str| text(&fleet.json(args)[0][name]);
        let seq = fleet.json(&["status"])["ledger"]["last"].to_string();
        self.names = BTreeMap::from([
            ("{WORKER}", text(&work.0["agent"])),
            ("{RUN}", text(&work.0["id"])),
            ("{QUESTION}", text(&work.1["id"])),
            ("{CHANGE}", first(&["change", "list"], "id")),
            ("{DRAFT}", first(&["plan", "drafts", &goal], "id")),
            ("{SCHEDULE}", first(&["schedule", "list"], "id")),
            ("{AGENT}", "PO-demo".to_owned()),
            ("{HOST}", "h1".to_owned()),
            ("{DIGEST}", work.2.clone()),
            ("{JOURNAL}", work.2),
            ("{KEPT}", first(&["change", "list"], "run")),
            ("{MAIL}", fleet.json(&["mail", "list"])[0]["seq"].to_string()),
            ("{REPOSITORY}", fleet.cwd().display().to_string()),
            ("{DATA}", fleet.data_dir().display().to_string()),
            ("{SEQ}", seq),
            ("{GOAL}", goal),
        ]);
    }

    /// A line with names of what there is; what changes something has a thing of its own.
    pub(super) fn named(&mut self, words: &[String], _own: bool) -> Vec<String> {
        let name = |word: &String| {
            let named =
                self.names.iter().fold(word.clone(), |word, (kind, name)| word.replace(kind, name));
            let top = workspace();
            match named.split_once('/') {
                Some(("examples", _)) => top.join(named).display().to_string(),
                Some(("vectors", file)) => {
                    let file = file.replace('*', "node");
                    top.join("tests/golden/vectors").join(file).display().to_string()
                }
                _ => named,
            }
        };
        words.iter().map(name).collect()
    }

    /// Types a line and waits for its end. Whoever sits at a terminal is asked whether they are sure.
    pub(super) fn typed(&self, words: &[String]) -> Ended {
        let ended = self.fleet.run(words);
        if ended.code == Some(2) && ended.err.contains("--yes") {
            return self.fleet.run(words.iter().map(String::as_str).chain(["--yes"]));
        }
        ended
    }

    /// Types a line that lasts, and interrupts it once it has said something.
    pub(super) fn last(&self, words: &[String]) -> Ended {
        let mut program: Program = self.fleet.spawn(words);
        program.line(|line| !line.trim().is_empty());
        program.signal(Signal::INT);
        program.ended()
    }
}
