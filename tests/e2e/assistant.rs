//! A person's assistant: the published client of the Model Context Protocol in another language, with `tetrarch mcp`
//! as its server.

use std::process::Command;

use serde_json::{Value, json};
use tetrarch_tests::{Ended, Fleet, Program, python};

use crate::gate::{Repository, change, id, work};
use crate::script;

/// What the assistant saw.
fn assistant(fleet: &Fleet, arguments: &[&str]) -> Value {
    let own = fleet.command(["mcp"]);
    let environment = own.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new(python());
    command.arg(script("assistant.py")).arg(own.get_program()).args(arguments).env_clear();
    command.envs(environment).current_dir(fleet.cwd());
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
}

fn said<'a>(saw: &'a Value, call: &str, error: bool) -> &'a str {
    assert_eq!(saw[call]["error"], error, "{call}: {}", saw[call]);
    saw[call]["text"].as_str().unwrap()
}

#[test]
fn assistant_runs_a_plan_and_approves_only_the_change_it_was_shown() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let change = id(&change(&fleet, "T1.1"));
    let saw = assistant(&fleet, &[&change]);
    assert_eq!(saw["server"], "tetrarch");
    assert!(saw["instructions"].as_str().unwrap().contains("goal_create"));
    assert_eq!(saw["tools"]["tree"]["readOnlyHint"], true);
    assert_eq!(saw["tools"]["goal_cancel"]["destructiveHint"], true);
    assert_eq!(saw["status"]["data"]["deadLetters"], json!({}), "{}", saw["status"]);
    assert!(said(&saw, "wrong", true).contains("phazes: is an unknown key"), "{}", saw["wrong"]);
    said(&saw, "goal", false);
    said(&saw, "waited", false);
    assert!(
        saw["progress"][0][1].as_str().unwrap().starts_with("running for"),
        "{}",
        saw["progress"]
    );
    let nodes = saw["nodes"]["data"]["items"].as_array().unwrap();
    let is_task = |it: &&Value| it["node"]["id"].as_str().is_some_and(|id| id.starts_with('T'));
    let tasks: Vec<&Value> = nodes.iter().filter(is_task).collect();
    assert_eq!(tasks.len(), 2, "{nodes:?}");
    assert!(tasks.iter().all(|it| it["status"] == "done"), "{tasks:?}");
    assert!(said(&saw, "missing", true).contains("not found"), "{}", saw["missing"]);
    assert_eq!(
        said(&saw, "stranger", true),
        "al: unknown argument; allowed: project, human, epic, all"
    );
    assert_eq!(said(&saw, "unseen", true), "digest: is missing");
    assert!(said(&saw, "other", true).contains("E_CONFLICT"), "{}", saw["other"]);
    said(&saw, "approved", false);
    assert_eq!(repository.read("a"), "one\ntwo\nthree\nfour\n");
}

#[test]
fn read_only_assistant_has_no_tool_that_changes() {
    let fleet = Fleet::up();
    let saw = assistant(&fleet, &["none", "--read-only"]);
    let tools: Vec<&str> =
        saw["tools"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(tools.contains(&"describe") && !tools.contains(&"goal_create"), "{tools:?}");
    let roots = saw["tree"]["data"]["items"].as_array().unwrap();
    assert_eq!(roots[0]["agent"]["id"], "GO", "{roots:?}");
}
