//! People and their interaction orchestrators: a request is delegated and answered whatever is killed meanwhile,
//! nothing is said twice, and what runs in the background delays nobody.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::acting;
use crate::failover::owner_of;

/// A project `desk` whose agents end when their gate is open.
pub(crate) fn desk(fleet: &Fleet) {
    fleet.ok(["project", "create", "desk"]);
    let gate = fleet.cwd().join("gate");
    let argv = acting(&["gate", gate.to_str().unwrap()]);
    let profile = json!({"name": "default", "argv": argv, "wall": "120s"});
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
}

pub(crate) fn open(fleet: &Fleet) {
    File::create(fleet.cwd().join("gate")).unwrap();
}

/// The only turn of its number.
fn turn(records: &Records, number: u64) -> Option<&Turn> {
    records.turns.values().find(|turn| turn.id.number == number)
}

fn io(records: &Records) -> Option<&tetrarch_core::agent::Agent> {
    records.agents.values().find(|agent| matches!(agent.id, AgentId::Io(_)))
}

fn host_of(fleet: &Fleet) -> Pid {
    let all = fleet.processes();
    let host = all.iter().find(|it| it.command.contains(" host --with-parent")).unwrap();
    Pid::from_raw(i32::try_from(host.pid).unwrap()).unwrap()
}

/// What a program that reads lines said, given some.
fn typed(fleet: &Fleet, args: &[&str], lines: &str) -> (Option<i32>, String) {
    let mut command = fleet.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_is_answered_once_though_owner_and_host_are_killed() {
    let fleet = Fleet::up();
    desk(&fleet);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let asking: Program = fleet.spawn(["ask", "--project", "desk", "open the gate"]);
    let working = |records: &Records| turn(records, 1).filter(|turn| turn.working).map(drop);
    ledger.until("it is delegated", working).await;
    wait::until("its agent runs", || (!fleet.agents().is_empty()).then_some(()));

    kill_process(owner_of(&fleet), Signal::KILL).unwrap();
    let next =
        |records: &Records| records.agents.get(&AgentId::Go).filter(|go| go.epoch == 2).map(drop);
    ledger.until("the next owner", next).await;
    let before = ledger.until("its orchestrator", |records| io(records).map(|io| io.epoch)).await;
    kill_process(host_of(&fleet), Signal::KILL).unwrap();
    let again = |records: &Records| {
        io(records).filter(|io| io.epoch > before && io.liveness == Liveness::Active).map(drop)
    };
    ledger.until("its orchestrator's next session", again).await;
    open(&fleet);
    let ended = asking.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("\"agent\":\"W:"), "{}", ended.out);
    for said in ["delegation: asking project desk for an agent", "goes on in its next session"] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }

    let done =
        |records: &Records| turn(records, 1).filter(|it| it.status == TurnStatus::Done).cloned();
    let first = ledger.until("its end", done).await;
    assert_eq!(ended.out.trim(), first.answer);
    let count = |kind: EventKind| ledger.events(kind).len();
    assert_eq!((count(EventKind::TurnSaid), count(EventKind::GoalCreated)), (1, 1));
    assert_eq!((count(EventKind::TurnMoved), count(EventKind::TurnEnded)), (2, 1), "none twice");

    assert!(fleet.ok(["ask", "hello"]).starts_with("Say what you want done"));
    let list = fleet.json(&["chat", "--list"]);
    assert_eq!((&list[0]["conversation"], &list[0]["number"]), (&json!("main"), &json!(2)));
    let said: Vec<Value> = fleet.json(&["chat", "--transcript"]).as_array().unwrap().clone();
    let said: Vec<&str> = said.iter().map(|turn| turn["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["open the gate", "hello"]);
    let transcript = fleet.ok(["chat", "main", "--transcript"]);
    assert!(
        transcript.contains("open the gate") && transcript.contains(&first.answer),
        "{transcript}"
    );
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn two_terminals_in_one_conversation_take_turns_and_hear_their_own() {
    let fleet = Fleet::up();
    desk(&fleet);
    let first: Program = fleet.spawn(["ask", "--project", "desk", "open the gate"]);
    wait::until("its agent runs", || (!fleet.agents().is_empty()).then_some(()));
    let second: Program = fleet.spawn(["ask", "hello"]);
    wait::until("the second waits", || {
        let list = fleet.json(&["chat", "--list"]);
        (list[0]["status"] == "queued").then_some(())
    });
    open(&fleet);
    let (first, second) = (first.ended(), second.ended());
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{}{}", first.err, second.err);
    assert!(second.err.contains("queued: 1 before it"), "{}", second.err);
    assert!(second.out.starts_with("Say what you want done"), "{}", second.out);
    assert!(first.out.contains("W:") && !second.out.contains("W:"), "{}{}", first.out, second.out);
}

#[test]
fn words_about_failed_work_are_no_answer() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "broken"]);
    let profile = json!({"name": "default", "argv": ["false"], "wall": "20s"});
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "broken", file.to_str().unwrap()]);
    fleet.ok(["project", "create", "flat", "--max-depth", "1"]);
    fleet.ok(["profile", "apply", "flat", file.to_str().unwrap()]);
    for (project, why) in [("broken", "exit code 1"), ("flat", "depth")] {
        let ended = fleet.run(["ask", "-c", project, "--project", project, "count the files"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
        for part in ["not done", "tetrarch describe", why] {
            assert!(ended.err.contains(part), "{part}: {}", ended.err);
        }
    }
    fleet.ok(["project", "create", "bare"]);
    let never = fleet.run(["ask", "-c", "bare", "--project", "bare", "count the files"]);
    assert_eq!((never.code, never.out.as_str()), (Some(1), ""), "{}", never.err);
    assert!(
        never.err.contains("not done") && never.err.contains("profile apply bare"),
        "{}",
        never.err
    );
}

#[test]
fn new_conversation_without_its_project_is_told_which_there_are() {
    let fleet = Fleet::up();
    let unread = fleet.run(["chat", "site", "--transcript"]);
    assert!(unread.err.contains("conversation site was not found"), "{}", unread.err);
    let none = fleet.run(["ask", "hello"]);
    assert_eq!(none.code, Some(3), "{}", none.err);
    assert!(
        none.err.contains("next: create it with `tetrarch project create main"),
        "{}",
        none.err
    );
    fleet.ok(["project", "create", "shed"]);
    fleet.ok(["project", "create", "shop"]);
    let other = fleet.run(["ask", "hello"]);
    assert_eq!(other.code, Some(3), "{}", other.err);
    assert!(other.err.contains("next: name a project with --project: shed, shop"), "{}", other.err);
    fleet.ok(["ask", "--project", "shop", "hello"]);
    let pinned = fleet.run(["ask", "--project", "shed", "hello"]);
    assert_eq!(pinned.code, Some(5), "{}", pinned.err);
    assert!(pinned.err.contains("begin another one with `-c NAME`"), "{}", pinned.err);
    assert!(!pinned.err.contains("--help"), "{}", pinned.err);
    let file = fleet.file("lines", "count the files\n");
    let mut chat = fleet.command(["chat", "--project", "shed"]);
    let piped = chat.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    assert_eq!(piped.status.code(), Some(5), "{}", String::from_utf8_lossy(&piped.stderr));
}

#[test]
fn goal_is_created_from_what_a_conversation_said() {
    let fleet = Fleet::up();
    desk(&fleet);
    fleet.ok(["ask", "-c", "shop", "--project", "desk", "hello"]);
    for (title, parts) in [(None, ["desk", "hello"]), (Some("Tidy up"), ["Tidy up", "hello"])] {
        let named = title.into_iter().flat_map(|title| ["--title", title]);
        let create = ["goal", "create", "--from", "shop"].into_iter().chain(named);
        let shown = fleet.ok(["describe", fleet.ok(create).trim()]);
        for part in parts.into_iter().chain(["session turn 1 of ada's conversation shop", "to ada"])
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    let missing = fleet.run(["goal", "create", "--from", "shed"]);
    assert_eq!(missing.code, Some(3), "{}", missing.err);
    assert!(missing.err.contains("conversation shed was not found"), "{}", missing.err);
}

#[test]
fn background_turn_delays_no_conversation() {
    let fleet = Fleet::up();
    desk(&fleet);
    let ask = ["ask", "--background", "--conversation", "night", "--project", "desk", "open it"];
    assert!(fleet.ok(ask).contains("its answer comes by mail"));
    wait::until("its agent runs", || (!fleet.agents().is_empty()).then_some(()));
    let said = fleet.ok(["ask", "--project", "desk", "hello"]);
    assert!(said.starts_with("Say what you want done"), "{said}");
    let tree = fleet.ok(["tree", "--human", "ada"]);
    for part in ["night", "open it", "running", "W:", "main", "hello", "done"] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    open(&fleet);
    wait::until("its answer", || {
        let list = fleet.json(&["chat", "--list"]);
        let night = list.as_array().unwrap().iter().find(|it| it["conversation"] == "night");
        (night.unwrap()["status"] == "done").then_some(())
    });
    let mail = fleet.ok(["mail", "list"]);
    assert!(mail.contains("conversation night"), "{mail}");
    let wonders = json!({"name": "default", "argv": acting(&["wonder"]), "wall": "120s"});
    let file = fleet.file("wonders.json", &wonders.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
    fleet.ok(["ask", "--background", "--conversation", "day", "--project", "desk", "choose"]);
    wait::until("what its agent asks is passed on", || {
        let mail = fleet.ok(["mail", "list", "-o", "wide"]);
        let asked = mail.lines().find(|line| line.contains("Which one?"))?.to_owned();
        asked.contains("IO@ada").then_some(())
    });
}

#[test]
fn model_says_what_is_wanted_and_another_what_is_answered() {
    let fleet = Fleet::up();
    desk(&fleet);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let heard = std::sync::Arc::clone(&seen);
    let url = serve_model(move |request| {
        let asked = request["messages"].to_string();
        heard.lock().unwrap().clone_from(&asked);
        let text = match asked.contains("Say what this person wants") {
            // It is told of the fence again when it is asked about the hole.
            true if asked.contains("a hole") => r#"{"intent": "work", "confidence": 0.9}"#,
            true => r#"{"intent": "paint", "confidence": 0.9}"#,
            false => "it is painted",
        };
        Some(Words { text: text.to_owned(), ..Words::default() })
    });
    for name in ["router", "poet"] {
        let profile = json!({
            "name": name, "runner": "llm", "provider": "openai", "model": name,
            "baseUrl": format!("{url}/v1"), "tools": [], "budget": {"turns": 2},
        });
        let file = fleet.file(&format!("{name}.json"), &profile.to_string());
        fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
    }
    let routed = json!({"name": "routed", "nodes": [
        {"name": "route", "entry": {"classify": {"intents": ["paint", "work"], "profile": "router"}},
         "edges": [{"to": "paint", "guard": "intent == 'paint' && confidence > 0.5"}, {"to": "end"}]},
        {"name": "paint", "entry": {"compose": {"task": "Praise {text}", "profile": "poet"}}, "edges": [{"to": "end"}]},
        {"name": "end", "entry": "answer", "terminal": true},
    ]});
    let routed = fleet.file("routed.json", &routed.to_string());
    fleet.ok(["graph", "apply", "desk", routed.to_str().unwrap()]);
    let new =
        ["ask", "--conversation", "routed", "--project", "desk", "--graph", "routed", "a fence"];
    assert_eq!(fleet.ok(new), "it is painted\n");
    let other = fleet.ok(["ask", "--conversation", "routed", "a hole"]);
    assert!(other.contains("\"intent\""), "nobody painted it: {other}");
    let asked = seen.lock().unwrap().clone();
    assert!(asked.contains("turn 1: ada said: a fence\\ndone: it is painted"), "{asked}");
}

#[test]
fn graph_of_a_project_is_checked_applied_and_asks_back() {
    let fleet = Fleet::up();
    desk(&fleet);
    let node = |name: &str, to: &str, entry: Value| json!({"name": name, "entry": entry, "edges": [{"to": to}]});
    let graph = |end: &str| {
        json!({"name": "choose", "nodes": [
            node("ask", "end", json!({"ask": "which one?"})),
            {"name": end, "entry": {"answer": "{result} it is"}, "terminal": true},
        ]})
    };
    let wrong = fleet.file("wrong.json", &graph("other").to_string());
    let refused = fleet.run(["graph", "check", wrong.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("wrong.json:1:"), "{}", refused.err);
    assert!(
        refused.err.contains("leads to the unknown node end; allowed: ask, other"),
        "{}",
        refused.err
    );

    let file = fleet.file("choose.json", &graph("end").to_string());
    let file = file.to_str().unwrap();
    assert!(fleet.ok(["graph", "check", file]).contains("graph choose, 2 nodes"));
    let tested = fleet.ok(["graph", "test", file, "--say", "x", "--result", "the blue one"]);
    assert_eq!(tested, "ask asks: which one?\nask -> end\nanswer: the blue one it is\n");
    assert!(fleet.ok(["graph", "apply", "desk", file]).contains("choose is version 1"));
    let shown = fleet.ok(["graph", "show", "--project", "desk", "--name", "choose", "--mermaid"]);
    assert!(shown.contains("flowchart TD") && shown.contains("n0 --> n1"), "{shown}");
    let listed = fleet.json(&["graph", "list", "desk"]);
    assert_eq!(listed[0]["versions"][0]["version"], json!(1));

    let chat = ["chat", "paint", "--project", "desk", "--graph", "choose"];
    let (code, said) = typed(&fleet, &chat, "begin\nthe blue one\n/status\n");
    assert_eq!((code, said.as_str()), (Some(0), "which one?\nthe blue one it is\n"));
    let asked = fleet.run(["ask", "--conversation", "paint", "again"]);
    assert_eq!((asked.code, asked.out.as_str()), (Some(1), ""), "a question is no answer");
    assert!(asked.err.contains("asks: which one?"), "{}", asked.err);
    let waiting = fleet.json(&["inbox"]);
    let waiting = waiting.as_array().unwrap().iter().map(|one| (&one["kind"], &one["command"]));
    let waiting: Vec<(&Value, &Value)> = waiting.collect();
    let [(kind, command)] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!(**kind, json!("conversation"));
    assert!(command.as_str().unwrap().ends_with("ask --conversation paint TEXT"), "{command}");
    let (code, said) = typed(&fleet, &["chat", "paint"], "the red one\n/quit\n");
    assert_eq!((code, said.as_str()), (Some(0), "which one?\nthe red one it is\n"), "it goes on");
    assert_eq!(fleet.json(&["inbox"]), json!([]), "it is answered");
    let fixed = fleet.run(["ask", "--conversation", "paint", "--graph", "default", "x"]);
    assert_eq!(fixed.code, Some(5), "{}", fixed.err);
    assert!(fixed.err.contains("conversation paint has the graph choose"), "{}", fixed.err);
}

#[test]
fn turn_tells_what_its_agent_says_and_every_two_seconds_how_far_it_is() {
    let url = serve_model(|request| {
        let waits = vec![("mail_wait", json!({"seconds": 7}))];
        Some(match turn_of(request) {
            1 => Words { calls: waits, text: "I shall wait\n".to_owned(), ..Words::default() },
            _ => Words { text: "it took its time".to_owned(), ..Words::default() },
        })
    });
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "desk", "--tools", "mail_wait"]);
    let profile = json!({
        "name": "default", "runner": "llm", "provider": "openai", "model": "scripted",
        "baseUrl": format!("{url}/v1"), "tools": ["mail_wait"], "budget": {"turns": 5},
    });
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
    let ended = fleet.run(["ask", "--project", "desk", "take your time"]);
    assert_eq!((ended.out.trim(), ended.code), ("it took its time", Some(0)), "{}", ended.err);
    let seconds = |line: &str| {
        let (_, last) = line.rsplit_once('(')?;
        last.strip_suffix(" s)")?.parse::<u64>().ok()
    };
    let told: Vec<u64> = ended.err.lines().filter_map(seconds).collect();
    assert!(told.len() >= 3 && told.windows(2).all(|pair| pair[1] - pair[0] <= 4), "{}", ended.err);
    assert!(ended.err.contains(" in turn 1 of 5"), "{}", ended.err);
    // The words of the agent are said as they come, though they are not in the answer.
    assert!(ended.err.contains("\n  I shall wait\n"), "{}", ended.err);
}

#[test]
fn watched_session_tree_is_shown_again_when_it_changes() {
    let fleet = Fleet::up();
    desk(&fleet);
    fleet.ok(["ask", "--project", "desk", "--background", "open the gate"]);
    let mut command = fleet.command(["tree", "--human", "ada", "--watch", "-o", "json"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let states = BufReader::new(watching.stdout.take().unwrap()).lines().map(|line| {
        let tree: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let turn = &tree["conversations"][0]["turns"][0];
        let agents = turn["agents"].as_array().unwrap().len();
        (turn["turn"]["status"].as_str().unwrap().to_owned(), agents)
    });
    let mut seen = Vec::new();
    for (status, agents) in states {
        if status == "running" && agents == 1 {
            open(&fleet);
        }
        seen.push((status.clone(), agents));
        if status == "done" {
            break;
        }
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(seen.contains(&("running".to_owned(), 1)), "{seen:?}");
    assert_eq!(seen.last(), Some(&("done".to_owned(), 1)));
}
