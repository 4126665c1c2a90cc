//! A fleet that has one of everything that a command line can name.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_tests::{Ended, Fleet, Program, wait};

use crate::{acting, workspace};

/// The fleet, and the names of what is in it.
pub(super) struct Shop {
    pub(super) fleet: Fleet,
    names: BTreeMap<&'static str, String>,
    /// How many lines had something of their own.
    made: usize,
}

fn git(fleet: &Fleet, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
    let done = git.current_dir(fleet.cwd()).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
}

/// A port that nobody listens on.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn task(id: &str, profile: &str, deps: &[&str]) -> Value {
    json!({"id": id, "name": id, "profile": profile, "deps": deps, "acceptance": ["it is done"]})
}

/// A plan with something done, something that can be steered, something that asks, and what waits.
fn plan(fleet: &Fleet, project: &str, profile: [&str; 3]) -> Value {
    let helm = acting(&["helm", fleet.cwd().join(project).to_str().unwrap()]);
    let mut first = task("T1.1", profile[0], &[]);
    if profile[0] == "nowhere" {
        first["profile"] = json!("quick");
        first["placement"] = json!({"labels": {"gpu": "yes"}});
    }
    json!({
        "project": project,
        "goal": {"title": format!("Keep {project} in order")},
        "phases": [
            {"id": "P1", "name": "Begin", "tasks": [
                first, task("T1.2", profile[1], &["T1.1"]),
                task("T1.3", profile[2], &["T1.1"]),
            ]},
            {"id": "P2", "name": "End", "tasks": [task("T2.1", "quick", &["T1.2"])]},
        ],
        "profiles": {
            "quick": {"argv": ["echo", "done"], "wall": "60s"},
            "typo": {"argv": [if project == "typo" { "pythn3" } else { "echo" }], "wall": "60s"},
            "fails": {"argv": ["false"], "wall": "60s"},
            "default": {"argv": ["echo", "done"], "wall": "60s"},
            "helm": {"argv": helm, "wall": "300s", "budget": {"tokens": 1000, "costUsd": 1}},
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
        for name in ["rust", "claude"] {
            fleet.file(&format!("{name}.yaml"), &format!("name: {name}\nargv: [echo, built]\n"));
        }
        fleet.file("orchestrator.json", r#"{"name": "orchestrator", "argv": ["echo", "told"]}"#);
        fleet.file("profiles.yaml", "default: {argv: [echo, done]}\n");
        fleet.file("parts.yaml", "- {name: half, profile: quick, acceptance: [it is]}\n- {name: rest, profile: quick, acceptance: [it is]}\n");
        fleet.file("work.json", "{}");
        fleet.file("goal.yaml", "title: Other words\n");
        for name in ["plan.yaml", "release.yaml"] {
            fleet.file(name, &plan(&fleet, "demo", ["quick"; 3]).to_string());
        }
        git(&fleet, &["init", "--quiet", "--initial-branch=main"]);
        git(&fleet, &["add", "coder.toml"]);
        git(&fleet, &["commit", "--quiet", "-m", "first"]);
        let mut shop = Self { fleet, names: BTreeMap::new(), made: 0 };
        shop.fill();
        shop
    }

    fn fill(&mut self) {
        let fleet = &self.fleet;
        fleet.ok(["project", "create", "logs"]);
        let limits = ["--tokens", "1000000", "--turns", "50", "--cost-usd", "10"];
        fleet.ok(["project", "create", "demo"].iter().chain(&limits));
        fleet.ok(["profile", "apply", "demo", "coder.toml"]);
        fleet.file("default.yaml", "name: default\nargv: [echo, done]\n");
        fleet.ok(["profile", "apply", "demo", "default.yaml"]);
        let graph = workspace().join("examples/conversation/graph.yaml");
        std::fs::copy(graph, fleet.cwd().join("graph.yaml")).unwrap();
        fleet.ok(["graph", "apply", "demo", "graph.yaml"]);
        let mut changes = plan(fleet, "changes", ["change"; 3]);
        changes["phases"][1]["tasks"] =
            (1..=6).map(|at| task(&format!("T2.{at}"), "change", &[])).collect();
        fleet.file("changes.json", &changes.to_string());
        let done = fleet.ok(["run", "changes.json", "--detach"]).trim().to_owned();
        fleet.ok(["wait", &done, "--for", "completed", "--timeout", "60s"]);
        fleet.file("typo.json", &plan(fleet, "typo", ["typo"; 3]).to_string());
        fleet
            .file("failing.json", &plan(fleet, "failing", ["quick", "fails", "quick"]).to_string());
        std::fs::create_dir(fleet.cwd().join("empty")).unwrap();
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
            let kept = all.as_array()?.iter().find_map(|run| {
                let sha256 = run["state"]["archive"].as_str()?;
                Some((sha256.to_owned(), run["id"].as_str()?.to_owned()))
            })?;
            Some((run, asked, kept))
        });
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
            ("{DIGEST}", work.2.0.clone()),
            ("{JOURNAL}", format!("{}/{}", work.2.0, work.2.1)),
            (
                "{KEPT}",
                text(&fleet.json(&["change", "list"]).as_array().unwrap().last().unwrap()["run"]),
            ),
            ("{MAIL}", fleet.json(&["mail", "list"])[0]["seq"].to_string()),
            ("{REPOSITORY}", fleet.cwd().display().to_string()),
            ("{DATA}", fleet.data_dir().display().to_string()),
            ("{SEQ}", seq),
            ("{GOAL}", goal),
            ("{DONE}", done),
            ("{OPEN}", "PO-typo".to_owned()),
            ("{NEW}", "newest".to_owned()),
            ("{URL}", fleet.url()),
            ("{CREDENTIALS}", fleet.credentials(&CredentialHolder::Control).display().to_string()),
            ("{PORT}", free_port()),
        ]);
        self.fleet.ok(["ask", "--conversation", "site", "--project", "demo", "hello"]);
    }

    /// A line with names of what there is; what changes something has things of its own.
    pub(super) fn named(&mut self, words: &[String], own: bool) -> Vec<String> {
        if own {
            self.prepare(words);
        }
        let name = |word: &String| {
            let given = |word: String, (kind, name): (&&str, &String)| word.replace(kind, name);
            let named = self.names.iter().fold(word.clone(), given);
            let top = workspace();
            match named.split_once('/') {
                Some(("examples", _)) => top.join(named).display().to_string(),
                Some(("vectors", file)) => {
                    let file = file.replace('*', "node");
                    top.join("tests/golden/vectors").join(file).display().to_string()
                }
                Some(("~", below)) => self.fleet.cwd().join(below).display().to_string(),
                Some(_) | None => named,
            }
        };
        words.iter().map(name).collect()
    }

    /// Sees that there is what a line changes.
    fn prepare(&mut self, words: &[String]) {
        self.made += 1;
        let said = words.join(" ");
        let has = |kind: &str| said.contains(kind);
        let project = match words[0].as_str() {
            "spawn" | "plan" | "approve" | "deny" => "demo".to_owned(),
            _ if words.iter().any(|word| word == "site") => "site".to_owned(),
            _ => format!("own-{}", self.made),
        };
        let own = words[0] != "wait" && words[0] != "attach";
        let site = words[0] == "goal" && words[1] == "cancel" && has("site");
        if own && (has("{GOAL}") || has("{DRAFT}") || has("@last") || site) {
            let goal = self.goal(&project, ["nowhere", "quick", "quick"]);
            self.names.insert("{GOAL}", goal);
        }
        if has("{DRAFT}") {
            let goal = self.names["{GOAL}"].clone();
            self.fleet.ok(["plan", "draft", &goal, "plan.yaml", "--reason", "what do you think?"]);
            let draft = text(&self.fleet.json(&["plan", "drafts", &goal])[0]["id"]);
            self.names.insert("{DRAFT}", draft);
        }
        if has("{CHANGE}") {
            self.change(words[0] == "apply");
        }
        if has("{OTHER}") {
            self.goal(&project, ["helm", "quick", "quick"]);
            let worker = wait::until("another worker", || {
                let runs = self.fleet.json(&["get", "runs", "--state", "running"]);
                Some(text(&runs.as_array()?.last()?["agent"]))
            });
            self.names.insert("{OTHER}", worker);
        }
        if has("{OPEN}") {
            self.fleet.run(["run", "typo.json"]);
            self.fleet.run(["run", "typo.json"]);
        }
        if has("{FAILED}") {
            self.fleet.run(["run", "failing.json"]);
            let goal = text(&self.fleet.json(&["get", "goals", "--project", "failing"])[0]["id"]);
            self.names.insert("{FAILED}", goal);
        }
        if words[0] == "agent" && words[1] == "add" {
            self.names.insert("{AGENT}", format!("PO-{project}"));
        }
        if said.starts_with("wait T1.2") {
            self.fleet.ok(["steer", &self.names["{WORKER}"], "end"]);
        }
        if said.starts_with("wait @last") {
            self.answered();
        }
    }

    /// Answers what is still asked.
    fn answered(&self) {
        wait::until("the goal is reached", || {
            let goals = self.fleet.json(&["get", "goals"]);
            if goals.as_array()?.iter().all(|goal| goal["state"]["status"] == "completed") {
                return Some(());
            }
            let asked = self.fleet.json(&["inbox"]);
            for question in asked.as_array()?.iter().filter(|it| it["kind"] == "question") {
                self.fleet.run(["answer", &text(&question["id"]), "now", "--other"]);
            }
            None
        });
    }

    /// A goal of a project.
    fn goal(&self, project: &str, profiles: [&str; 3]) -> String {
        let file = format!("{project}-{}.json", self.made);
        self.fleet.file(&file, &plan(&self.fleet, project, profiles).to_string());
        self.fleet.ok(["run", &file, "--detach"]).trim().to_owned()
    }

    /// Takes the next change that waits, approved or not.
    fn change(&mut self, approved: bool) {
        let all = self.fleet.json(&["change", "list"]);
        let waits = all.as_array().unwrap().iter().find(|it| it["status"] == "proposed");
        let change = waits.unwrap_or_else(|| panic!("no change is left: {all}"));
        let id = text(&change["id"]);
        if approved {
            self.fleet.ok(["approve", &id]);
            self.names.insert("{APPLIED}", id.clone());
        }
        self.names.insert("3fb9...e1", text(&change["digest"]));
        self.names.insert("{CHANGE}", id);
    }

    /// Types a line and waits for its end. Whoever sits at a terminal is asked whether they are sure.
    pub(super) fn typed(&self, words: &[String]) -> Ended {
        let run = |words: &[String]| {
            let mut program = Program::start(self.command(words).args(words));
            program.close_input();
            program.ended()
        };
        let ended = run(words);
        if ended.code == Some(2) && ended.err.contains("confirmation is required") {
            return run(&[words, &["--yes".to_owned()]].concat());
        }
        ended
    }

    /// Types a line that lasts, and interrupts it once it has said something.
    pub(super) fn last(&self, words: &[String]) -> Ended {
        let mut program = Program::start(self.command(words).args(words));
        if words[0] == "events" {
            // It tells what happens from when it is there.
            for _ in 0..4 {
                self.fleet.ok(["budget", "raise", "PO-demo", "--tokens", "+1k"]);
            }
        }
        let serves = matches!(words[0].as_str(), "host" | "up");
        let line = program.line(|line| {
            line.starts_with("error:")
                || line.contains("ready") && !line.contains(" INFO ")
                || !serves && !line.trim().is_empty()
        });
        if !line.starts_with("error:") {
            program.signal(Signal::INT);
        }
        program.ended()
    }

    /// The program, where and as what a line of such words is typed.
    fn command(&self, words: &[String]) -> Command {
        let mut command = self.fleet.command::<&str>([]);
        let (empty, another) = (self.fleet.cwd().join("empty"), self.fleet.cwd().join("another"));
        if words.iter().take(2).any(|word| word == "init") {
            command.current_dir(empty);
        } else if words[0] == "up" {
            command.env("TETRARCH_BUS_DATA_DIR", another);
        } else if words == ["host"] {
            command.env("TETRARCH_HOST_NAME", "third");
        }
        command
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
