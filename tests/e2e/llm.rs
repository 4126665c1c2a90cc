//! The llm runner against a model server that answers as it is scripted (spec 06, Runners): whatever the model
//! and its server do, a brief comes to its end, and what was done stands in the run's journal.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_tests::model::{ModelServer, once, said};
use tetrarch_tests::{Fleet, Program, wait};

/// The key that only the server is shown.
const KEY: &str = "sk-test-0123456789";
/// The variable that holds it.
const VARIABLE: &str = "LLM_TEST_KEY";

fn fleet() -> Fleet {
    Fleet::prepared().with_env(VARIABLE, KEY).with_env("TETRARCH_HOST_CAPACITY", "64")
}

fn profile(server: &ModelServer, provider: &str, more: &Value) -> Value {
    let mut profile = json!({
        "runner": "llm", "provider": provider, "model": "scripted", "baseUrl": format!("{}/v1", server.url()),
        "keyFrom": format!("env:{VARIABLE}"), "prompt": "You are terse.", "wall": "60s",
    });
    for (key, value) in more.as_object().unwrap() {
        profile[key] = value.clone();
    }
    profile
}

/// A goal of one task, whose words are its title's.
fn goal(fleet: &Fleet, title: &str, profile: &Value, task: &Value) -> Program {
    let name = title.replace(' ', "-");
    let mut wanted =
        json!({"id": "T1.1", "name": title, "objective": title, "acceptance": ["it is said"]});
    for (key, value) in task.as_object().unwrap() {
        wanted[key] = value.clone();
    }
    let plan = json!({
        "project": name,
        "output": "T1.1",
        "goal": {"title": title},
        "phases": [{"id": "P1", "name": "Say", "tasks": [wanted]}],
        "profiles": {"default": profile},
    });
    let file = fleet.file(&format!("{name}.json"), &plan.to_string());
    fleet.spawn(["run", file.to_str().unwrap()])
}

/// What the model says in its n-th turn about a title.
fn turn(title: &str, n: u64, response: &Value) -> Value {
    json!({"match": {"userMessage": title, "turnIndex": n}, "response": response})
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let all: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| json!({"id": format!("c{n}"), "name": name, "arguments": arguments}))
        .collect();
    json!({"toolCalls": all, "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
}

fn error(status: u16) -> Value {
    json!({"error": {"message": format!("no, {KEY}"), "type": "x"}, "status": status, "retryAfter": 1})
}

/// What the server says to each of the goals below.
fn scripts() -> Vec<Value> {
    let (fine, calm) = (json!({"content": "half of it and the rest"}), json!({}));
    let finish = |deliverable: Value| {
        calls(&[("finish", json!({"outcome": "success", "deliverable": deliverable}))])
    };
    let update =
        |summary: &str| ("todo_update", json!({"status": "in_progress", "summary": summary}));
    vec![
        said("The context is nearly full", "noted so far: one"),
        said("noted so far: one", "talked long"),
        turn("long talk", 0, &calls(&[update("one")])),
        said("plainly", "done plainly"),
        said("cleverly", "done cleverly"),
        turn("by schema", 0, &finish(json!({"n": "one"}))),
        turn("by schema", 1, &finish(json!({"n": 1}))),
        turn("both at once", 0, &calls(&[update("one"), update("two")])),
        turn("both at once", 1, &json!({"content": "both were said"})),
        turn("strange tool", 0, &calls(&[("rm_rf", json!({"path": "/"}))])),
        turn("strange tool", 1, &json!({"content": "there is none"})),
        turn("strange words", 0, &calls(&[("finish", json!("[1]"))])),
        turn("strange words", 1, &json!({"content": "now in words"})),
        once("too many", &error(429), &calm),
        said("too many", "let in"),
        once("broken", &error(500), &calm),
        said("broken", "mended"),
        json!({"match": {"userMessage": "refused"}, "response": error(401)}),
        json!({"match": {"userMessage": "cut off", "sequenceIndex": 0}, "response": fine, "chunkSize": 4, "truncateAfterChunks": 2}),
        said("cut off", "half of it and the rest"),
    ]
}

#[test]
fn brief_ends_whatever_the_model_says() {
    let server = ModelServer::start(&scripts());
    let prices = json!({"models": {"openai/scripted": {"input": 1_000_000, "output": 10_000_000}}});
    let fleet = fleet();
    let file = fleet.file("prices.json", &prices.to_string());
    let fleet = fleet.with_env("TETRARCH_PRICES_FILE", file.to_str().unwrap()).started();
    let (none, plain) = (json!({}), profile(&server, "openai", &json!({})));
    let claude = profile(&server, "anthropic", &json!({}));
    let telling = profile(&server, "openai", &json!({"tools": ["todo_update"]}));
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let schema = json!({"outputSchema": schema});
    let dear = profile(&server, "openai", &json!({"budget": {"tokens": 2_000}}));
    let narrow = json!({"contextTokens": 120, "tools": ["todo_update"]});
    let narrow = profile(&server, "openai", &narrow);
    let rows = [
        ("plainly", &plain, &none, Ok("done plainly")),
        ("cleverly", &claude, &none, Ok("done cleverly")),
        ("by schema", &plain, &schema, Ok("{\"n\":1}")),
        ("both at once", &telling, &none, Ok("both were said")),
        ("strange tool", &plain, &none, Ok("there is none")),
        ("strange words", &plain, &none, Ok("now in words")),
        ("too many", &plain, &none, Ok("let in")),
        ("broken", &plain, &none, Ok("mended")),
        ("refused", &plain, &none, Err("HTTP 401")),
        ("too dear", &dear, &none, Err("budget_exceeded")),
        ("long talk", &narrow, &none, Ok("talked long")),
        ("cut off", &plain, &none, Ok("half of it and the rest")),
    ];
    let running: Vec<Program> =
        rows.iter().map(|(title, profile, task, _)| goal(&fleet, title, profile, task)).collect();
    for ((title, _, _, expected), program) in rows.iter().zip(running) {
        let ended = program.ended();
        match expected {
            Ok(words) => assert_eq!(
                (ended.out.trim(), ended.code),
                (*words, Some(0)),
                "{title}: {}",
                ended.err
            ),
            Err(why) => {
                assert_eq!(ended.code, Some(1), "{title}: {}{}", ended.out, ended.err);
                let told = fleet.ok(["events"]);
                assert!(told.contains(why), "{title}: {told}");
            }
        }
    }
    told_rightly(&server.got());
    let of_first = |title: &str| journal_of(&fleet, title).contains("call turn-1: 0 tokens");
    assert!(of_first("broken"), "a request that was refused costs nothing");
    assert!(!of_first("cut off"), "an answer that broke off has its price");
    let events = fleet.ok(["events"]);
    assert!(events.contains("rate_limited") && events.contains("model_unavailable"), "{events}");
    assert!(events.contains(VARIABLE) && events.contains("compaction_ended"), "{events}");
    assert!(!events.contains(KEY), "{events}");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// What there is to read of a goal's run.
fn journal_of(fleet: &Fleet, title: &str) -> String {
    let runs = fleet.json(&["get", "runs"]);
    let mut ids = runs.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap());
    let title = format!("\n  {title}\n");
    ids.find_map(|id| Some(fleet.ok(["describe", id])).filter(|told| told.contains(&title)))
        .unwrap()
}

/// What the server was told.
fn told_rightly(got: &[Value]) {
    let all = |words: &str| -> Vec<&Value> {
        let about = |body: &&Value| body["messages"].to_string().contains(words);
        got.iter().filter(about).collect()
    };
    let plainly = all("plainly");
    assert_eq!(plainly.len(), 1, "{plainly:?}");
    let system = plainly[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You are terse.\n") && system.contains("finish"), "{system}");
    let brief = plainly[0]["messages"][1]["content"].as_str().unwrap();
    for part in ["# Goal\n", "# Success criteria\n- it is said", "# Deliverable\nText."] {
        assert!(brief.contains(part), "{brief}");
    }
    let names = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(plainly[0]), ["finish"], "no list means no tools");
    assert_eq!(names(all("both at once")[0]), ["finish", "todo_update"]);
    let answers = |words: &str| -> String {
        let last = all(words).last().unwrap()["messages"].as_array().unwrap().clone();
        let tools = last.iter().filter(|message| message["role"] == "tool");
        tools.map(|message| message["content"].as_str().unwrap()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(answers("both at once"), "noted; noted");
    assert!(answers("strange tool").contains("unknown tool rm_rf; available: finish"));
    assert!(answers("strange words").contains("the arguments are not a JSON object"));
    assert!(
        answers("by schema").contains("/n: \"one\" is not of type \"integer\""),
        "{}",
        answers("by schema")
    );
    for words in ["too many", "broken", "cut off"] {
        assert_eq!(all(words).len(), 2, "{words}");
    }
    // A node has two attempts, and each asks once.
    assert_eq!(all("refused").len(), 2, "a refusal of the key is not asked again");
    assert_eq!(all("too dear").len(), 0, "what does not fit is not asked");
}

/// What the journal of the first run says.
fn journal(fleet: &Fleet) -> String {
    let runs = fleet.json(&["get", "runs"]);
    let first = runs.as_array().and_then(|runs| runs.first()).and_then(|run| run["id"].as_str());
    first.map(|id| fleet.ok(["describe", id])).unwrap_or_default()
}

#[test]
fn run_of_a_dead_host_resumes_from_its_record() {
    let note = calls(&[("todo_update", json!({"status": "in_progress", "summary": "one"}))]);
    let slow = json!({
        "match": {"userMessage": "go on", "turnIndex": 1, "sequenceIndex": 0},
        "response": {"content": "too late"}, "chaos": {"latencyMs": 30_000},
    });
    let scripts = [turn("go on", 0, &note), slow, turn("go on", 1, &json!({"content": "went on"}))];
    let server = ModelServer::start(&scripts);
    let mut fleet = fleet().started();
    let telling = profile(&server, "openai", &json!({"tools": ["todo_update"]}));
    let running = goal(&fleet, "go on", &telling, &json!({}));
    // The server tells of a request when it has answered it: the second is under way.
    wait::until("the first turn is made", || journal(&fleet).contains("noted").then_some(()));
    drop(running);
    fleet.stop();
    fleet.start();
    let got = wait::until("the turn is asked for again", || {
        let got = server.got();
        (got.len() >= 2).then_some(got)
    });
    let last = got.last().unwrap()["messages"].as_array().unwrap();
    let roles: Vec<&str> = last.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"], "{last:?}");
    let first = got.iter().filter(|body| body["messages"].as_array().unwrap().len() == 2);
    assert_eq!(first.count(), 1, "the first turn is not asked for again");
    let reached = || fleet.json(&["get", "goals"]).to_string().contains("completed").then_some(());
    wait::until("the goal is reached", reached);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn call_with_unknown_effect_is_put_to_people() {
    let secret = format!("sk-{}", "x9Y".repeat(12));
    let python = tetrarch_tests::python();
    let python = python.to_str().unwrap();
    let push =
        format!("import time; open('pushed', 'a').write('once {secret}\\n'); time.sleep(600)");
    let push = calls(&[("run_command", json!({"argv": [python, "-c", push]}))]);
    let look = calls(&[("read_file", json!({"path": "pushed"}))]);
    let scripts = [
        turn("push it", 0, &push),
        turn("push it", 1, &look),
        turn("push it", 2, &json!({"content": "it was pushed"})),
    ];
    let server = ModelServer::start(&scripts);
    let fleet = fleet().started();
    let work = fleet.cwd().join("work");
    std::fs::create_dir(&work).unwrap();
    let tools =
        json!({"tools": [format!("run:{python}"), "read"], "workspace": work.to_str().unwrap()});
    let running = goal(&fleet, "push it", &profile(&server, "openai", &tools), &json!({}));
    // It is there before what is written into it.
    let pushed = || std::fs::read_to_string(work.join("pushed")).unwrap_or_default();
    wait::until("it is pushed", || pushed().ends_with('\n').then_some(()));
    let host = fleet.processes().into_iter().find(|it| it.command.contains(" host ")).unwrap();
    kill_process(Pid::from_raw(i32::try_from(host.pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let (id, text) = wait::until("people are asked", || {
        let listed = fleet.json(&["inbox"]);
        let first = listed.as_array().unwrap().first()?.clone();
        Some((first["id"].as_str()?.to_owned(), first["text"].as_str()?.to_owned()))
    });
    assert!(text.starts_with("effect_unknown: call 1/0 of run_command"), "{text}");
    fleet.ok(["answer", &id, "it was pushed, I looked", "--other"]);
    let ended = running.ended();
    assert_eq!((ended.out.trim(), ended.code), ("it was pushed", Some(0)), "{}", ended.err);
    assert_eq!(std::fs::read_to_string(work.join("pushed")).unwrap(), format!("once {secret}\n"));
    let got = server.got();
    let last = got.last().unwrap()["messages"].to_string();
    assert!(last.contains("it was pushed, I looked") && last.contains("once [redacted:api_key]"));
    assert!(!last.contains(&secret), "{last}");
    assert_eq!(got.len(), 3, "no turn is asked for again");
    assert!(!text.contains(&secret) && text.contains("[redacted:api_key]"), "{text}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn rule_on_arguments_asks_people_or_denies() {
    let make = |file: &str| ("run_command", json!({"argv": ["touch", file]}));
    let scripts = [
        turn("make files", 0, &calls(&[make("a"), make("keys/b"), make("c")])),
        turn("make files", 1, &json!({"content": "one of three"})),
    ];
    let server = ModelServer::start(&scripts);
    let fleet = fleet().started();
    let work = fleet.cwd().join("work");
    std::fs::create_dir_all(work.join("keys")).unwrap();
    let rules = json!([
        {"tool": "run", "match": ["**", "keys/*"], "action": "deny"},
        {"tool": "run", "match": ["touch"], "action": "ask"},
    ]);
    let more =
        json!({"tools": ["run:touch"], "workspace": work.to_str().unwrap(), "permissions": rules});
    let running = goal(&fleet, "make files", &profile(&server, "openai", &more), &json!({}));
    for (file, answer) in [("a", "allow"), ("c", "deny")] {
        let call = format!("May it use run_command? {{\"argv\":[\"touch\",\"{file}\"]}}");
        let id = wait::until("people are asked", || {
            let listed = fleet.json(&["inbox"]);
            let first = listed.as_array().unwrap().first()?.clone();
            let asks = first["text"].as_str()?.starts_with(&call);
            asks.then(|| first["id"].as_str().unwrap().to_owned())
        });
        assert!(!work.join(file).exists(), "it waits for the answer");
        fleet.ok(["answer", &id, answer]);
    }
    let ended = running.ended();
    assert_eq!((ended.out.trim(), ended.code), ("one of three", Some(0)), "{}", ended.err);
    let made = ["a", "keys/b", "c"].map(|file| work.join(file).exists());
    assert_eq!(made, [true, false, false]);
    let told = server.got().last().unwrap()["messages"].to_string();
    assert!(told.contains("denied by a rule of its profile: deny run ** keys/*"), "{told}");
    assert!(told.contains("a person refused it: deny"), "{told}");
    fleet.ok(["doctor", "--check-ledger"]);
}
