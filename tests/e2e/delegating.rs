//! A model that delegates on a real fleet: it is told mode and profiles, gives a whole brief, and its child has the
//! named profile, its parent's model, and nothing of its parent's conversation.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Ended, Fleet};

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

/// Runs a plan whose one task is a specialist's, a model that has workers with the profile `hands`.
fn led(fleet: &Fleet, url: &str, tools: &[&str], hands: &Value) -> Ended {
    let mut hands = hands.clone();
    hands["runner"] = "llm".into();
    let plan = json!({
        "project": "leaves", "output": "T1.1", "goal": {"title": "count"},
        "phases": [{"id": "P1", "name": "Do", "tasks": [
            {"id": "T1.1", "name": "have them counted", "role": "specialist", "domain": "leaves",
             "profile": "lead", "acceptance": ["a number"]},
        ]}],
        "profiles": {
            "lead": {
                "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{url}/v1"),
                "tools": tools, "prompt": OF_THE_LEAD,
            },
            "hands": hands,
        },
    });
    let file = fleet.file("leaves.json", &plan.to_string());
    fleet.run(["run", file.to_str().unwrap()])
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
    let hands = json!({"prompt": "You have hands.", "description": "counts what is there"});
    let ended = led(&fleet, &url, &["agent_spawn", "mail_wait"], &hands);
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

/// The specialist asks for a worker and waits for it in the same turn, and says what it was told.
fn waiting(request: &Value) -> Words {
    let messages = request["messages"].as_array().unwrap();
    if !content(&messages[0]).contains(OF_THE_LEAD) {
        return Words { text: "counted: 3".to_owned(), ..Words::default() };
    }
    if turn_of(request) == 1 {
        let agent = json!({"role": "worker", "task": "count the leaves", "profile": "hands"});
        let spawn = ("agent_spawn", json!({"reason": "two do more", "agents": [agent]}));
        let calls = vec![spawn, ("agent_wait", json!({"seconds": 60}))];
        return Words { calls, ..Words::default() };
    }
    let answers = messages.iter().filter(|message| message["role"] == "tool");
    let text = answers.map(content).collect::<Vec<&str>>().join("\n");
    Words { text, ..Words::default() }
}

#[test]
fn model_waits_for_its_worker_and_is_told_what_it_came_to() {
    let url = serve_model(|request| Some(waiting(request)));
    let fleet = Fleet::up();
    let hands = json!({"prompt": "You have hands."});
    let ended = led(&fleet, &url, &["agent_spawn", "agent_wait"], &hands);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("1 of 1 ended"), "{}", ended.out);
    assert!(
        ended.out.contains(r#""outcome":"success","deliverable":"counted: 3""#),
        "{}",
        ended.out
    );
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
    let calls = |calls| Words { calls, ..Words::default() };
    let said = |text: String| Words { text, ..Words::default() };
    let wait = || calls(vec![("mail_wait", json!({"seconds": 5}))]);
    if !content(&messages[0]).contains(OF_THE_LEAD) {
        return if heard("say plum") { said("plum".to_owned()) } else { wait() };
    }
    match (turn_of(request), worker_in(messages)) {
        (1, _) => {
            let agent = json!({"role": "worker", "task": "wait for a word", "profile": "hands"});
            calls(vec![("agent_spawn", json!({"reason": "it waits", "agents": [agent]}))])
        }
        (2, _) => calls(vec![("agent_verb", json!({"agent": "PO-leaves", "verb": "pause"}))]),
        (_, Some(_)) if heard("plum\"") => {
            let seen = [
                ("PO-leaves; only its parent or a human may request this", "refused"),
                ("steer is queued for W:", "queued"),
            ];
            let seen = seen.into_iter().filter(|(text, _)| heard(text)).map(|(_, word)| word);
            said(seen.collect::<Vec<_>>().join(", "))
        }
        (_, Some(worker)) if !heard("is queued for") => calls(vec![(
            "agent_verb",
            json!({"agent": worker, "verb": "steer", "text": "say plum"}),
        )]),
        (_, _) => wait(),
    }
}

#[test]
fn model_steers_its_child_and_nobody_above_it() {
    let url = serve_model(|request| Some(steering(request)));
    let fleet = Fleet::up();
    let hands = json!({"prompt": "You wait.", "tools": ["mail_wait"]});
    let ended = led(&fleet, &url, &["agent_spawn", "agent_verb", "mail_wait"], &hands);
    assert_eq!((ended.out.trim(), ended.code), ("refused, queued", Some(0)), "{}", ended.err);
    fleet.ok(["doctor", "--check-ledger"]);
}

/// The specialist stops its worker, which waits for what does not come, and hears how it ended.
fn stopping(request: &Value) -> Words {
    let messages = request["messages"].as_array().unwrap();
    let heard = |text: &str| messages.iter().any(|message| content(message).contains(text));
    let calls = |calls| Words { calls, ..Words::default() };
    let wait = || calls(vec![("mail_wait", json!({"seconds": 5}))]);
    if !content(&messages[0]).contains(OF_THE_LEAD) {
        return wait();
    }
    match worker_in(messages) {
        None if turn_of(request) == 1 => {
            let agent = json!({"role": "worker", "task": "wait for a word", "profile": "hands"});
            calls(vec![("agent_spawn", json!({"reason": "it waits", "agents": [agent]}))])
        }
        None => wait(),
        Some(_) if heard("agent.completed") => {
            Words { text: "stopped".to_owned(), ..Words::default() }
        }
        Some(_) if heard("is asked to stop") => wait(),
        Some(worker) => calls(vec![(
            "agent_verb",
            json!({"agent": worker, "verb": "stop", "text": "no word will come"}),
        )]),
    }
}

#[test]
fn child_that_a_model_stops_is_cancelled_and_the_goal_goes_on() {
    let url = serve_model(|request| Some(stopping(request)));
    let fleet = Fleet::up();
    let hands = json!({"prompt": "You wait.", "tools": ["mail_wait"]});
    let ended = led(&fleet, &url, &["agent_spawn", "agent_verb", "mail_wait"], &hands);
    assert_eq!((ended.out.trim(), ended.code), ("stopped", Some(0)), "{}", ended.err);
    let events = fleet.ok(["events"]);
    assert!(events.contains("-> cancelled: stopped by its parent"), "{events}");
    assert!(events.contains("no word will come"), "{events}");
    assert!(!events.contains("-> blocked"), "{events}");
    fleet.ok(["doctor", "--check-ledger"]);
}
