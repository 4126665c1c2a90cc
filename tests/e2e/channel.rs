//! A channel of a person in another language draws the tree of their conversation while agents work, from what the bus
//! tells everybody.

use std::process::Command;

use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Ended, Fleet, Program, python};

use crate::script;

/// A project `desk` whose model waits for mail, writes a line and then answers.
fn desk(fleet: &Fleet) {
    let url = serve_model(|request| {
        let waits = vec![("mail_wait", json!({"seconds": 1}))];
        Some(match turn_of(request) {
            turn @ 1..=2 => {
                Words { calls: waits, text: format!("step {turn}\n"), ..Words::default() }
            }
            _ => Words { text: "it took its time".to_owned(), ..Words::default() },
        })
    });
    fleet.ok(["project", "create", "desk", "--tools", "mail_wait"]);
    let profile = json!({
        "name": "default", "runner": "llm", "provider": "openai", "model": "scripted",
        "baseUrl": format!("{url}/v1"), "tools": ["mail_wait"], "budget": {"turns": 5},
    });
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
}

#[test]
fn foreign_channel_draws_the_tree_of_a_conversation_live() {
    let fleet = Fleet::up();
    desk(&fleet);
    fleet.ok(["creds", "issue", "human:ada", "--role", "admin"]);
    let credential = fleet.credentials(&CredentialHolder::Human("ada".parse().unwrap()));
    let mut command = Command::new(python());
    command.arg(script("channel.py")).arg(fleet.url()).arg(credential);
    command.args(["ada", "desk", "take your time"]);
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["answer"], json!("it took its time"), "{told}");
    let drawn: Vec<&str> =
        told["seen"].as_array().unwrap().iter().map(|tree| tree.as_str().unwrap()).collect();
    let first = |part: &str| {
        drawn.iter().position(|tree| tree.contains(part)).unwrap_or_else(|| panic!("{part}: {out}"))
    };
    let stages = [
        "IO@ada\n  main\n    turn 1 ",
        "      W running: take your time",
        ", turn 1 of 5: take your time",
        ", turn 2 of 5: take your time",
        "turn 1 done: take your time\n      W done, turn 3 of 5, ended with success: take your time",
    ];
    let order: Vec<usize> = stages.iter().map(|part| first(part)).collect();
    assert!(order.is_sorted(), "{order:?}: {out}");
    let later = told["later"].as_str().unwrap();
    let known = "turn 1 done: take your time\n      W done, ended with success: take your time";
    assert!(later.contains(known), "{later}");
    let words = told["words"].as_array().unwrap();
    let [session] = words.as_slice() else { panic!("one session spoke: {told}") };
    let numbers: Vec<u64> =
        session.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
    assert!(numbers.len() >= 2, "{told}");
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<u64>>(), "no gap unseen");
}
