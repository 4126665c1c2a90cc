//! A model that delegates on a real fleet: it is told mode and profiles, gives a whole brief, and its child has the
//! named profile, its parent's model, and nothing of its parent's conversation.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tetrarch_tests::Fleet;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};

/// What only the specialist has in its prompt.
const OF_THE_LEAD: &str = "the lead alone knows of the orchid";
/// What it says before it delegates.
const SAID: &str = "I have thought of the orchid";

fn content(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// The specialist asks for a worker and waits for its result; the worker answers at once.
fn words(request: &Value) -> Words {
    let messages = request["messages"].as_array().unwrap();
    if !content(&messages[0]).contains(OF_THE_LEAD) {
        return Words { text: "counted: 3".to_owned(), ..Words::default() };
    }
    let agent = json!({
        "role": "worker", "task": "count the leaves", "profile": "hands", "keyFacts": ["there are few"],
        "successCriteria": ["a number is given"], "tools": [], "budget": {"turns": 3},
    });
    let text = SAID.to_owned();
    if turn_of(request) == 1 {
        let calls = vec![("agent_spawn", json!({"reason": "two do more", "agents": [agent]}))];
        return Words { text, calls, ..Words::default() };
    }
    let heard = messages.iter().any(|message| content(message).contains("counted: 3"));
    if heard {
        return Words { text: "the worker counted 3".to_owned(), ..Words::default() };
    }
    Words { text, calls: vec![("mail_wait", json!({"seconds": 20}))], ..Words::default() }
}

#[test]
fn model_delegates_with_a_whole_brief_to_a_named_profile() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let url = serve_model(move |request| {
        told.lock().unwrap().push(request.clone());
        Some(words(request))
    });
    let fleet = Fleet::up();
    let plan = json!({
        "project": "leaves", "output": "T1.1", "goal": {"title": "count"},
        "phases": [{"id": "P1", "name": "Do", "tasks": [
            {"id": "T1.1", "name": "have them counted", "role": "specialist", "domain": "leaves",
             "profile": "lead", "acceptance": ["a number"]},
        ]}],
        "profiles": {
            "lead": {
                "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{url}/v1"),
                "tools": ["agent_spawn", "mail_wait"], "prompt": OF_THE_LEAD,
            },
            "hands": {"runner": "llm", "prompt": "You have hands.", "description": "counts what is there"},
        },
    });
    let file = fleet.file("leaves.json", &plan.to_string());
    let ended = fleet.run(["run", file.to_str().unwrap()]);
    assert_eq!((ended.out.trim(), ended.code), ("the worker counted 3", Some(0)), "{}", ended.err);
    let asked = asked.lock().unwrap();
    let of_lead = |request: &&Value| content(&request["messages"][0]).contains(OF_THE_LEAD);
    let lead = asked.iter().find(of_lead).unwrap();
    let prompt = content(&lead["messages"][0]);
    assert!(prompt.contains("# Mode orchestrator\nDelegate by default"), "{prompt}");
    assert!(lead["tools"].to_string().contains("hands: counts what is there"), "{}", lead["tools"]);
    let children: Vec<&Value> = asked.iter().filter(|request| !of_lead(request)).collect();
    let [child] = children.as_slice() else { panic!("{children:?}") };
    let all = child.to_string();
    assert_eq!(child["model"], "scripted", "its parent's");
    for given in ["You have hands.", "count the leaves", "there are few", "a number is given"] {
        assert!(all.contains(given), "{given}: {all}");
    }
    for kept in ["orchid", "two do more", "have them counted", "# Mode"] {
        assert!(!all.contains(kept), "{kept}: {all}");
    }
    fleet.ok(["doctor", "--check-ledger"]);
}

/// The id of the worker that somebody was told of.
fn worker_in(messages: &[Value]) -> Option<String> {
    let told = messages.iter().map(content).find_map(|text| text.split_once("\"W:"))?.1;
    Some(format!("W:{}", told.split('"').next()?))
}

/// The specialist tries to pause its orchestrator, then steers its worker, which waits for a word.
fn steering(request: &Value) -> Words {
    let messages = request["messages"].as_array().unwrap();
    let heard = |text: &str| messages.iter().any(|message| content(message).contains(text));
    let call = |tool: &'static str, arguments| Words {
        calls: vec![(tool, arguments)],
        ..Words::default()
    };
    let said = |text: &str| Words { text: text.to_owned(), ..Words::default() };
    if !content(&messages[0]).contains(OF_THE_LEAD) {
        return if heard("say plum") {
            said("plum")
        } else {
            call("mail_wait", json!({"seconds": 5}))
        };
    }
    match (turn_of(request), worker_in(messages)) {
        (1, _) => {
            let agent = json!({"role": "worker", "task": "wait for a word", "profile": "hands"});
            call("agent_spawn", json!({"reason": "it waits", "agents": [agent]}))
        }
        (2, _) => call("agent_verb", json!({"agent": "PO-leaves", "verb": "pause"})),
        (_, Some(_)) if heard("plum\"") => said(&format!(
            "{}, {}",
            if heard("PO-leaves; only its parent or a human may request this") {
                "refused"
            } else {
                "?"
            },
            if heard("steer is queued for W:") { "queued" } else { "?" },
        )),
        (_, Some(worker)) if !heard("is queued for") => {
            call("agent_verb", json!({"agent": worker, "verb": "steer", "text": "say plum"}))
        }
        (_, _) => call("mail_wait", json!({"seconds": 20})),
    }
}

#[test]
fn model_steers_its_child_and_nobody_above_it() {
    let url = serve_model(|request| Some(steering(request)));
    let fleet = Fleet::up();
    let model = json!({"runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{url}/v1")});
    let profile = |tools: Value, prompt: &str| {
        let mut profile = model.clone();
        profile["tools"] = tools;
        profile["prompt"] = prompt.into();
        profile
    };
    let plan = json!({
        "project": "leaves", "output": "T1.1", "goal": {"title": "steer"},
        "phases": [{"id": "P1", "name": "Do", "tasks": [
            {"id": "T1.1", "name": "have it said", "role": "specialist", "domain": "leaves",
             "profile": "lead", "acceptance": ["a word"]},
        ]}],
        "profiles": {
            "lead": profile(json!(["agent_spawn", "agent_verb", "mail_wait"]), OF_THE_LEAD),
            "hands": profile(json!(["mail_wait"]), "You wait."),
        },
    });
    let file = fleet.file("leaves.json", &plan.to_string());
    let ended = fleet.run(["run", file.to_str().unwrap()]);
    assert_eq!((ended.out.trim(), ended.code), ("refused, queued", Some(0)), "{}", ended.err);
    fleet.ok(["doctor", "--check-ledger"]);
}
