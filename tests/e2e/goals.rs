//! Goals and work under the hands of people, with real programs: paused and going on, given up, done
//! with something to show; and what begins at set times, once for each, whoever owns the ledger.

use std::fs::File;
use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::records::Records;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::acting;
use crate::failover::owner_of;

/// Two tasks, the second after the first, each of whose programs waits for its gate.
fn gated(fleet: &Fleet) -> String {
    let gate = |name: &str| fleet.cwd().join(name).to_str().unwrap().to_owned();
    let task = |id: &str, profile: &str, deps: &[&str]| json!({"id": id, "name": id, "profile": profile, "deps": deps, "acceptance": ["it is open"]});
    let profile = |name: &str| json!({"argv": acting(&["gate", &gate(name)]), "wall": "120s"});
    let plan = json!({
        "project": "hands",
        "title": "Open both gates",
        "phases": [{"id": "P1", "name": "Go", "tasks": [
            task("T1.1", "first", &[]), task("T1.2", "second", &["T1.1"]),
        ]}],
        "profiles": {"first": profile("first"), "second": profile("second")},
    });
    let file = fleet.file("gated.json", &plan.to_string());
    fleet.ok(["goal", "create", file.to_str().unwrap()]).trim().to_owned()
}

fn open(fleet: &Fleet, gate: &str) {
    File::create(fleet.cwd().join(gate)).unwrap();
}

/// Where a goal and its two tasks stand.
fn stands(fleet: &Fleet, epic: &str) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let goal = fleet.json(&["goal", "list", "--all"]);
    let goal = goal.as_array().unwrap().iter().find(|goal| goal["id"] == json!(epic)).cloned();
    let nodes = fleet.json(&["work", "list", epic]);
    let node = |id: &str| {
        let mut nodes = nodes.as_array().unwrap().iter();
        text(&nodes.find(|node| node["node"]["id"] == json!(id)).unwrap()["status"])
    };
    [text(&goal.unwrap_or_default()["state"]["status"]), node("T1.1"), node("T1.2")]
}

fn until(fleet: &Fleet, epic: &str, wanted: [&str; 3]) {
    wait::until(&format!("{wanted:?}"), || (stands(fleet, epic) == wanted).then_some(()));
}

/// The exit code of a command.
fn code(fleet: &Fleet, args: &[&str]) -> Option<i32> {
    fleet.run(args).code
}

/// Where events of a kind are in the ledger, with their words.
fn told(ledger: &Ledger, kind: EventKind) -> Vec<(u64, String)> {
    let all = ledger.entries.iter();
    let all = all.flat_map(|(seq, entry)| entry.events.iter().map(|event| (*seq, event)));
    let of_kind = all.filter(|(_, event)| event.kind == kind);
    of_kind.map(|(seq, event)| (seq, event.reason.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn goal_is_paused_resumed_and_cancelled() {
    let fleet = Fleet::prepared().with_env("TETRARCH_RUNS_DRAIN", "300ms").started();
    let epic = gated(&fleet);
    until(&fleet, &epic, ["active", "in_progress", "todo"]);
    fleet.ok(["goal", "pause", &epic, "--reason", "lunch"]);
    assert_eq!(code(&fleet, &["goal", "pause", &epic]), Some(5), "it is paused");
    open(&fleet, "first");
    until(&fleet, &epic, ["paused", "done", "queued"]);
    let shown = fleet.ok(["goal", "show", &epic]);
    assert!(shown.contains("paused") && shown.contains("50%"), "{shown}");

    fleet.ok(["goal", "resume", &epic]);
    until(&fleet, &epic, ["active", "done", "in_progress"]);
    let running = wait::until("its program runs", || fleet.agents().first().map(|it| it.pid));
    assert!(running > 0);
    assert_eq!(code(&fleet, &["goal", "archive", &epic]), Some(5), "it is not over");
    let said = fleet.ok(["goal", "cancel", &epic, "--yes", "--reason", "not wanted any more"]);
    assert!(said.contains("1 at work are asked to stop"), "{said}");
    until(&fleet, &epic, ["cancelled", "done", "cancelled"]);
    wait::until("nothing runs", || fleet.agents().is_empty().then_some(()));
    fleet.ok(["goal", "archive", &epic]);
    until(&fleet, &epic, ["archived", "done", "cancelled"]);

    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let away = |records: &Records| {
        records.goal_states.values().find(|state| state.status == GoalStatus::Archived).map(drop)
    };
    ledger.until("the goal's end", away).await;
    let moves = told(&ledger, EventKind::GoalStatus);
    let words: Vec<&str> = moves.iter().map(|(_, words)| words.as_str()).collect();
    assert_eq!(words[0], "active -> paused: lunch");
    assert!(words[2].starts_with("active -> cancelled: not wanted"), "{words:?}");
    let begun = told(&ledger, EventKind::AgentAdmitted);
    let [_, (second, _)] = begun.as_slice() else { panic!("{begun:?}") };
    assert!(*second > moves[1].0, "nothing began before it went on");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn goal_says_its_context_and_is_updated() {
    let fleet = Fleet::up();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(fleet.cwd()).args([
            "-c",
            "user.name=ada",
            "-c",
            "user.email=ada@localhost",
        ]);
        let ended = git.args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    git(&["init", "-q", "-b", "trunk"]);
    fleet.file("README.md", "a shop");
    git(&["add", "README.md"]);
    git(&["commit", "-q", "-m", "Open the shop"]);
    let plan = json!({
        "project": "shop",
        "goal": {"title": "Tidy", "assumptions": ["it is closed"], "stakeholders": ["eve"],
                 "origin": {"channel": "irc", "thread": "17"},
                 "risks": [{"risk": "dust", "impact": "sneezing", "mitigation": "a mask"}]},
        "phases": [{"id": "P1", "name": "Go", "tasks": [{"id": "T1.1", "name": "sweep",
            "run": "sleep 600", "expectedOutcome": "no dust", "estimatedEffort": "an hour",
            "riskLevel": "high"}]}],
    });
    let file = fleet.file("shop.json", &plan.to_string());
    let epic = fleet.ok(["goal", "create", file.to_str().unwrap()]).trim().to_owned();
    let shown = fleet.ok(["goal", "show", &epic]);
    for told in [
        "it is closed",
        "eve",
        "channel irc",
        "thread 17",
        "sneezing",
        "a mask",
        "branch trunk",
        "Open the shop",
        "README.md",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let node = fleet.ok(["describe", &format!("{epic}/T1.1")]);
    for told in ["no dust", "an hour", "high"] {
        assert!(node.contains(told), "{told}: {node}");
    }
    let worker = wait::until("it is worked on", || {
        let agents = fleet.json(&["get", "agents"]);
        let mut ids = agents.as_array().unwrap().iter().filter_map(|it| it["id"].as_str());
        ids.find(|id| id.starts_with("W:")).map(str::to_owned)
    });
    let agent = fleet.ok(["describe", &worker]);
    assert!(agent.contains("channel irc") && agent.contains("thread 17"), "{agent}");
    let version = || fleet.json(&["plan", "show", &epic])["plan"]["version"].as_u64().unwrap();
    let before = version();
    let said =
        fleet.ok(["goal", "update", &epic, "--title", "Tidy twice", "--criterion", "it shines"]);
    assert_eq!(said.trim(), format!("{epic}: updated"));
    let shown = fleet.ok(["goal", "show", &epic]);
    assert!(
        shown.contains("Tidy twice") && shown.contains("it shines") && shown.contains("eve"),
        "{shown}"
    );
    assert!(version() > before);
    let wrong = fleet.file("wrong.json", &json!({"titel": "x"}).to_string());
    let ended = fleet.run(["goal", "update", &epic, wrong.to_str().unwrap()]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("did you mean title?"), "{}", ended.err);
    assert_eq!(code(&fleet, &["goal", "update", &epic]), Some(2), "nothing is said");
    fleet.ok(["goal", "cancel", &epic, "--yes"]);
    assert_eq!(code(&fleet, &["goal", "update", &epic, "--title", "late"]), Some(5));
}

#[test]
fn work_done_needs_evidence_and_ends_running_programs() {
    let fleet = Fleet::up();
    let epic = gated(&fleet);
    fleet.ok(["work", "priority", &epic, "T1.2=urgent", "T1.1=low"]);
    let best = fleet.json(&["advise", &epic, "--limit", "1"]);
    assert_eq!(best["recommended"][0]["id"], json!("T1.2"));
    assert_eq!(best["recommended"][0]["parts"]["userPriority"], json!(1.0));
    until(&fleet, &epic, ["active", "in_progress", "todo"]);
    wait::until("its program runs", || (!fleet.agents().is_empty()).then_some(()));

    let done = ["work", "done", &epic, "T1.1", "--reason", "I opened it by hand"];
    let bare = fleet.run(done);
    assert_eq!(bare.code, Some(2), "{}", bare.err);
    assert!(bare.err.contains("E_INVALID_PLAN: T1.1: done without evidence"), "{}", bare.err);
    assert_eq!(code(&fleet, &["work", "done", &epic, "T9.9", "--reason", "r"]), Some(3));
    let shown = ["--summary", "it stands open", "--test", "walked through: ok"];
    let said = fleet.ok(done.into_iter().chain(shown));
    assert!(said.starts_with(&format!("{epic}: T1.1 is done; W:")), "{said}");
    until(&fleet, &epic, ["active", "done", "in_progress"]);
    let node = fleet.json(&["work", "show", &epic, "T1.1"]);
    assert_eq!(
        node["nodeState"]["state"]["result"]["evidence"]["tests"],
        json!(["walked through: ok"])
    );
    let why = fleet.ok(["why", &format!("{epic}/T1.1")]);
    assert!(why.contains("I opened it by hand"), "{why}");
    wait::until("one program runs", || (fleet.agents().len() == 1).then_some(()));

    open(&fleet, "second");
    until(&fleet, &epic, ["completed", "done", "done"]);
    let goal = wait::until("its result", || {
        let goal = fleet.json(&["goal", "show", &epic]);
        let deliverable = goal["goalState"]["result"]["deliverable"].as_str().map(str::to_owned);
        deliverable.filter(|text| !text.is_empty())
    });
    assert!(goal.contains("it stands open"), "{goal}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn refused_schedule_brings_no_project_into_being() {
    let fleet = Fleet::up();
    let profiles = fleet.file("profiles.json", &json!({"default": {"argv": ["true"]}}).to_string());
    let goal = ["schedule", "create", "--title", "count", "--project", "ticks"];
    let refused = fleet.run([&goal[..], &["--every", "1h"]].concat());
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("T1.1 needs the profile \"default\""), "{}", refused.err);
    let goal = [&goal[..], &["--profiles", profiles.to_str().unwrap()]].concat();
    for when in [["--every", "59s"], ["--cron", "x y"]] {
        let refused = fleet.run([&goal[..], &when].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.err);
    }
    let elsewhere = ["--cron", "0 6 * * *", "--zone", "Mars/Olympus"];
    assert_eq!(code(&fleet, &[&goal[..], &elsewhere].concat()), Some(2));
    assert_eq!(fleet.json(&["project", "list", "--all"]), json!([]));
    fleet.ok([&goal[..], &["--every", "1m"]].concat());
    assert_eq!(fleet.json(&["project", "list"]).as_array().map(Vec::len), Some(1));
    fleet.ok(["stop", "PO-ticks"]);
    wait::until("its orchestrator ended", || {
        fleet.ok(["project", "list"]).contains("stopped").then_some(())
    });
    assert_eq!(code(&fleet, &[&goal[..], &["--cron", "x y"]].concat()), Some(2));
    assert!(fleet.ok(["project", "list"]).contains("stopped"), "it stays so");
}

#[tokio::test(flavor = "multi_thread")]
async fn due_schedule_starts_once_despite_a_killed_owner() {
    let fleet = Fleet::up();
    let create = ["schedule", "create", "--every", "1s"];
    let mail = ["--mail-to", "human:ada", "--text", "look"];
    let id = fleet.ok([&create[..], &mail].concat()).trim().to_owned();
    assert_eq!(code(&fleet, &create), Some(2), "what?");
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let id_of = id.parse().unwrap();
    let fired =
        |records: &Records| records.schedules.get(&id_of).map_or(0, |schedule| schedule.fired);
    ledger.until("it began once", |records| (fired(records) >= 1).then_some(())).await;
    kill_process(owner_of(&fleet), Signal::KILL).unwrap();
    let second = |records: &Records| {
        records.agents.get(&AgentId::Go).filter(|go| go.epoch == 2).map(|_| fired(records))
    };
    let before = ledger.until("the next owner", second).await;
    let two_more = |records: &Records| (fired(records) >= before + 2).then_some(());
    ledger.until("it began twice more", two_more).await;
    let shown = fleet.json(&["schedule", "show", &id]);
    assert_eq!(shown["everyMs"], json!(1000));
    fleet.ok(["schedule", "delete", &id]);
    assert_eq!(code(&fleet, &["schedule", "delete", &id]), Some(3));
    assert_eq!(fleet.json(&["schedule", "list"]), json!([]));

    let deleted = |records: &Records| records.schedules.is_empty().then_some(());
    ledger.until("its end", deleted).await;
    let begun = told(&ledger, EventKind::ScheduleFired);
    let sent = fleet.json(&["mail", "list"]);
    assert_eq!(sent.as_array().map(Vec::len), Some(begun.len()), "one message each: {begun:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}
