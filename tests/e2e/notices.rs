//! People who do not look are told: by a webhook that is signed and may be away for a while, by a program, once each,
//! whatever is killed meanwhile, and by the channel that a request names alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_tests::{Fleet, wait};

use crate::acting;
use crate::conversations::{desk, open};

/// What a server was sent.
struct Posted {
    head: String,
    body: Value,
}

/// Takes one request and answers it with a status.
fn take(stream: &mut TcpStream, status: &str) -> Posted {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).unwrap();
    Posted { head, body: serde_json::from_slice(&body).unwrap() }
}

/// A server that is not ready for its first request.
fn serve() -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}/secret-place", listener.local_addr().unwrap());
    let (tell, posted) = channel();
    std::thread::spawn(move || {
        let mut status = "503 Service Unavailable";
        for stream in listener.incoming() {
            let taken = take(&mut stream.unwrap(), status);
            status = "200 OK";
            if tell.send(taken).is_err() {
                return;
            }
        }
    });
    (at, posted)
}

fn next(posted: &Receiver<Posted>) -> Posted {
    posted.recv_timeout(Duration::from_secs(60)).unwrap()
}

fn header<'h>(posted: &'h Posted, name: &str) -> &'h str {
    posted.head.split(&format!("{name}: ")).nth(1).unwrap().lines().next().unwrap()
}

/// A fleet with a webhook and a program, and what the program was given so far.
fn told_fleet(hook: &str) -> (Fleet, PathBuf) {
    let fleet = Fleet::prepared();
    let heard = fleet.cwd().join("heard");
    let text = format!("cat >> '{0}'\necho >> '{0}'\n", heard.display());
    let script = fleet.file("page.sh", &text);
    let channels = format!("hook={hook},pager=run:/bin/sh {}", script.display());
    let fleet = fleet.with_env("TETRARCH_PEOPLE_CHANNELS", &channels);
    let fleet = fleet.with_env("TETRARCH_PEOPLE_CHANNEL_KEY", "env:HOOK_KEY");
    (fleet.with_env("HOOK_KEY", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").started(), heard)
}

fn paged(heard: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(heard).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|notice| notice["kind"].as_str().unwrap()).collect()
}

fn kill_notifier(fleet: &Fleet) {
    let notifier = || {
        let all = fleet.processes().into_iter();
        { all }.find(|it| it.command.contains(" notify --with-parent"))
    };
    let found = wait::until("the notifier runs", notifier);
    let pid = Pid::from_raw(i32::try_from(found.pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Waits until a notice is on the records of both channels: one that is not would be told again.
fn recorded(fleet: &Fleet, id: &str) {
    wait::until("both channels have it on record", || {
        let listed = fleet.json(&["notify", "--list"]);
        let known = listed.as_array().unwrap().iter().filter(|it| it["id"] == id).count();
        (known == 2).then_some(())
    });
}

fn curious(fleet: &Fleet, origin: &Value) -> PathBuf {
    let plan = json!({
        "project": "curious",
        "output": "T1.1",
        "goal": {"title": "Wonder", "origin": origin},
        "phases": [{"id": "P1", "name": "Ask", "tasks": [
            {"id": "T1.1", "name": "wonder", "profile": "wondering", "acceptance": ["it was told"]},
        ]}],
        "profiles": {"wondering": {"argv": acting(&["wonder"]), "wall": "60s"}},
    });
    fleet.file("curious.json", &plan.to_string())
}

#[test]
fn question_and_end_of_a_goal_reach_every_channel_once_over_kills() {
    let (hook, posted) = serve();
    let (fleet, heard) = told_fleet(&hook);
    let plan = curious(&fleet, &json!({}));
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let (refused, taken) = (next(&posted), next(&posted));
    for part in ["webhook-id", "webhook-signature", "webhook-timestamp", "content-type"] {
        assert!(taken.head.contains(part), "{}", taken.head);
    }
    assert!(header(&taken, "webhook-signature").starts_with("v1,"), "{}", taken.head);
    assert_eq!(header(&taken, "webhook-id"), header(&refused, "webhook-id"));
    let notice = &taken.body;
    assert_eq!((&notice["kind"], &notice["title"]), (&json!("question"), &json!("Wonder")));
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("asks: Which one? (A | B) [Wonder]"), "{text}");
    let which = notice["id"].as_str().unwrap();
    let command = notice["command"].as_str().unwrap();
    assert!(command.starts_with(&format!("tetrarch answer {which} TEXT --data-dir ")), "{command}");

    recorded(&fleet, which);
    kill_notifier(&fleet);
    fleet.ok(["answer", which, "B"]);
    let when = next(&posted).body;
    assert_eq!(when["kind"], "question", "{when}");
    recorded(&fleet, when["id"].as_str().unwrap());
    kill_notifier(&fleet);
    fleet.ok(["answer", when["id"].as_str().unwrap(), "now"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let ended = wait::until("the goal's end is told", || {
        posted.try_recv().ok().map(|posted| posted.body).filter(|body| body["kind"] == "goal")
    });
    assert!(ended["text"].as_str().unwrap().contains("is completed [Wonder]"), "{ended}");
    let all = wait::until("the program was told too", || {
        Some(paged(&heard)).filter(|all| kinds(all).contains(&"goal"))
    });
    let listed = fleet.json(&["notify", "--list"]);
    let listed = listed.as_array().unwrap();
    for (channel, least) in [("hook", 2), ("pager", 1)] {
        let of: Vec<&Value> = listed.iter().filter(|it| it["channel"] == channel).collect();
        let mut ids: Vec<&str> = of.iter().map(|it| it["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), of.len(), "{channel}: each once: {of:?}");
        assert!(of.iter().all(|it| it["delivered"] == true), "{of:?}");
        let first = of.iter().find(|it| it["id"] == which).unwrap();
        assert_eq!(first["attempts"], least, "{first}");
    }
    assert!(all.iter().any(|it| it["id"] == which), "{all:?}");
    assert!(!format!("{listed:?}").contains("secret-place"), "an address may be a secret");
    let beside = fleet.run(["notify"]);
    assert_eq!(beside.code, Some(5), "{}", beside.err);
}

#[test]
fn blocked_task_is_told_to_the_owner_of_its_goal() {
    let (hook, posted) = serve();
    let (fleet, heard) = told_fleet(&hook);
    let plan = json!({
        "project": "doomed",
        "goal": {"title": "Fail"},
        "phases": [{"id": "P1", "name": "Fail", "tasks": [
            {"id": "T1.1", "name": "fail", "profile": "failing", "maxAttempts": 1, "acceptance": ["x"]},
        ]}],
        "profiles": {"failing": {"argv": ["/bin/false"], "wall": "60s"}},
    });
    let plan = fleet.file("doomed.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    let told = wait::until("the program is told", || {
        Some(paged(&heard)).filter(|all| kinds(all).contains(&"blocked"))
    });
    let blocked = told.iter().find(|it| it["kind"] == "blocked").unwrap();
    let text = blocked["text"].as_str().unwrap();
    assert!(text.starts_with("T1.1 is blocked: ") && text.ends_with(" [Fail]"), "{text}");
    drop((running, posted));
}

#[test]
fn request_is_told_of_by_the_channel_that_it_names_alone() {
    let (hook, posted) = serve();
    let (fleet, heard) = told_fleet(&hook);
    desk(&fleet);
    fleet.ok(["ask", "--project", "desk", "--channel", "pager", "hello"]);
    let all =
        wait::until("the program is told", || Some(paged(&heard)).filter(|it| !it.is_empty()));
    assert_eq!(kinds(&all), ["turn"]);
    assert!(all[0]["text"].as_str().unwrap().contains("conversation main: Say what you want"));
    open(&fleet);
    fleet.ok(["ask", "--project", "desk", "open the gate"]);
    let elsewhere = curious(&fleet, &json!({"channel": "slack"}));
    let running = fleet.spawn(["run", elsewhere.to_str().unwrap()]);
    let asked = wait::until("the question is in the inbox", || {
        let listed = fleet.json(&["inbox"]);
        listed.as_array().unwrap().first().map(|it| it["id"].as_str().unwrap().to_owned())
    });
    let named = curious(&fleet, &json!({"channel": "hook"}));
    let other = fleet.spawn(["run", named.to_str().unwrap()]);
    let (refused, taken) = (next(&posted), next(&posted));
    assert_eq!(header(&taken, "webhook-id"), header(&refused, "webhook-id"));
    assert_ne!(taken.body["id"], asked.as_str());
    assert_eq!(taken.body["origin"], json!({"channel": "hook"}));
    // A channel tells one thing after the other.
    fleet.ok(["ask", "--project", "desk", "--channel", "pager", "hello"]);
    let last = |all: &[Value]| all.last().is_some_and(|it| it["id"] == "turn-main-3-1");
    let all = wait::until("the last turn is told", || Some(paged(&heard)).filter(|all| last(all)));
    assert_eq!(kinds(&all), ["turn", "turn"], "neither a turn without a channel nor another's");
    drop((running, other));
}

#[test]
fn fleet_without_the_key_of_its_channels_says_that_nobody_is_told_and_why() {
    let fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_CHANNELS", "pager=run:/bin/true");
    let fleet = fleet.with_env("TETRARCH_PEOPLE_CHANNEL_KEY", "env:TETRARCH_NO_KEY");
    let mut fleet = fleet.started();
    let why = "the environment variable TETRARCH_NO_KEY is missing";
    let doctor = fleet.json(&["doctor"]);
    let pager = doctor.as_array().unwrap().iter().find(|it| it["check"] == "channel pager");
    let pager = pager.unwrap();
    assert_eq!(pager["verdict"], "warn", "{pager}");
    assert!(pager["what"].as_str().unwrap().contains(why), "{pager}");
    let ended = fleet.stop();
    let line = ended.out.lines().find(|line| line.contains("notifies by: ")).unwrap();
    assert!(line.contains("notifies by: none (") && line.contains(why), "{line}");
    assert!(!ended.err.contains("CliError"), "{}", ended.err);
}

#[test]
fn channel_that_cannot_be_used_is_refused_with_what_is_allowed() {
    let fleet = Fleet::prepared();
    let none = fleet.run(["notify", "--test"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
    assert!(none.err.contains("people.channels is empty"), "{}", none.err);
    for (channels, why) in [
        ("a=http://hooks.example/x", "a goes beyond this machine without TLS"),
        ("a=run:page", "a names no program by its whole path"),
        ("a b=bell", "channel name"),
    ] {
        let fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_CHANNELS", channels);
        let refused = fleet.run(["notify"]);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains(why), "{why}: {}", refused.err);
    }
    let fleet = fleet.with_env("TETRARCH_PEOPLE_CHANNELS", "good=run:/bin/true,bad=run:/bin/false");
    let tested = fleet.run(["notify", "--test"]);
    assert_eq!(tested.code, Some(1), "{}", tested.err);
    assert!(tested.out.contains("good: delivered"), "{}", tested.out);
    assert!(
        tested.out.contains("bad: failed: /bin/false ended with exit status: 1"),
        "{}",
        tested.out
    );
    let unknown = fleet.with_env("TETRARCH_PEOPLE_NOTIFY", "goals").run(["notify", "--test"]);
    assert!(unknown.err.contains("\"goals\" is no kind of notice"), "{}", unknown.err);
}
