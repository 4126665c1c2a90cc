//! What a model does by its agent's authority on a real fleet: it writes to its parent, reserves files, looks at
//! its goal's work and proposes some, and is told what came of each.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Fleet, wait};

/// Its calls, and what the model is told of each.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    let task = json!({
        "parent": "P1", "name": "look again", "objective": "to be sure", "acceptance": ["it was seen"],
        "reason": "once is not enough",
    });
    vec![
        ("mail_send", json!({"to": "parent", "text": "half is done"}), "\"to\":\"PO-own\""),
        ("mail_send", json!({"to": "nobody", "text": "hello"}), "\"nobody\" is not an agent"),
        ("mail_send", json!({"to": "po"}), "`text` is missing"),
        ("file_reserve", json!({"paths": ["src/**"], "reason": "I change it"}), "\"fencing\":"),
        ("file_reserve", json!({"paths": ["/etc"], "reason": "x"}), "invalid_request paths[0]"),
        ("file_release", json!({"reservation": "nonsense"}), "invalid_request"),
        ("agent_status", json!({}), "\"liveness\":\"active\""),
        ("todo_list", json!({}), "do it by own tools"),
        ("todo_add", task, "drf_"),
        ("note_put", json!({"name": "build", "text": "run make first"}), "build is version "),
        ("note_search", json!({"words": "MAKE"}), "run make first"),
        ("plan_review", json!({"reason": "half of it is done"}), "people are told"),
        ("progress", json!({"text": "three of four", "done": 3, "total": 4}), "noted"),
        ("progress", json!({"text": "x", "done": -1}), "a number of steps is needed"),
        ("artifact_put", json!({"path": "/etc/passwd"}), "outside the working directory"),
        (
            "artifact_get",
            json!({"sha256": "0".repeat(64)}),
            "neither by your brief nor by your mail",
        ),
        ("agent_wait", json!({}), "you have asked for no agents"),
        ("agent_wait", json!({"agent": "GO"}), "is none of yours"),
        ("mail_inbox", json!({}), "no new mail"),
    ]
}

/// The note that the model wrote is found, replaced and deleted by a person.
fn people_use_notes(fleet: &Fleet) {
    let listed = fleet.ok(["note", "list", "own", "first", "make"]);
    assert!(listed.contains("build") && listed.contains("W:"), "{listed}");
    assert!(!fleet.ok(["note", "list", "own", "elsewhere"]).contains("build"));
    let file = fleet.file("note.txt", "run make twice");
    let file = file.to_str().unwrap();
    let stale = fleet.run(["note", "put", "own", "build", file, "--expect", "0"]);
    let version = stale.err.split_once("build is version ").and_then(|(_, it)| it.split_once(','));
    let Some((version, _)) = version else { panic!("{}", stale.err) };
    let written = fleet.ok(["note", "put", "own", "build", file, "--expect", version]);
    assert!(written.contains("build is version "), "{written}");
    let shown = fleet.ok(["note", "show", "own", "build"]);
    assert!(shown.contains("run make twice") && shown.contains("human:"), "{shown}");
    fleet.ok(["note", "delete", "own", "build"]);
    let gone = fleet.run(["note", "show", "own", "build"]);
    assert!(gone.err.contains("`tetrarch note list own` lists them"), "{}", gone.err);
}

#[test]
fn model_uses_its_tools_and_sees_their_results() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let url = serve_model(move |request| {
        told.lock().unwrap().push(request.clone());
        let calls = calls().into_iter().map(|(tool, arguments, _)| (tool, arguments)).collect();
        Some(match turn_of(request) {
            1 => Words { calls, ..Words::default() },
            _ => Words { text: "all was told".to_owned(), ..Words::default() },
        })
    });
    let fleet = Fleet::up();
    let tools = [
        "mail_send",
        "file_reserve",
        "file_release",
        "agent_status",
        "todo_list",
        "todo_add",
        "note_put",
        "note_search",
        "plan_review",
        "progress",
        "artifact_put",
        "artifact_get",
        "agent_wait",
        "mail_inbox",
    ];
    let plan = json!({
        "project": "own", "output": "T1.1", "goal": {"title": "own tools"},
        "phases": [{"id": "P1", "name": "Do", "tasks": [
            {"id": "T1.1", "name": "do it by own tools", "acceptance": ["it is told"]},
        ]}],
        "profiles": {"default": {
            "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{url}/v1"),
            "tools": tools,
        }},
    });
    let file = fleet.file("own.json", &plan.to_string());
    let ended = fleet.run(["run", file.to_str().unwrap()]);
    assert_eq!((ended.out.trim(), ended.code), ("all was told", Some(0)), "{}", ended.err);
    let asked = asked.lock().unwrap();
    let [_, last] = asked.as_slice() else { panic!("{asked:?}") };
    let messages = last["messages"].as_array().unwrap().iter();
    let answers: Vec<&str> = messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(answers.len(), calls().len(), "{last}");
    for ((tool, _, expected), answer) in calls().iter().zip(answers) {
        assert!(answer.contains(expected), "{tool}: {answer}");
    }
    let epic = fleet.json(&["get", "goals"])[0]["id"].as_str().unwrap().to_owned();
    let drafts = fleet.json(&["plan", "drafts", &epic]);
    assert!(drafts.to_string().contains("once is not enough"), "{drafts}");
    people_use_notes(&fleet);
    let asked = wait::until("people are asked to look at the plan", || {
        let mail = fleet.ok(["mail", "list"]);
        mail.contains("half of it is done").then_some(mail)
    });
    assert!(asked.contains("plan.review_needed"), "{asked}");
    fleet.ok(["doctor", "--check-ledger"]);
}
