//! Plans that change while they run (spec 05, Plan events), as people and agents meet them: a replan, a
//! split, a conflict, a draft of a program in no language of ours that people approve.

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::acting;
use crate::external::External;

fn task(id: &str, deps: &[&str]) -> Value {
    json!({"id": id, "name": id, "deps": deps, "acceptance": ["it is done"], "profile": "quick"})
}

fn plan(tasks: &[Value], fleet: &Fleet) -> String {
    let gate = fleet.cwd().join("gate");
    let plan = json!({
        "project": "moving",
        "goal": {"title": "Come to another end"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": tasks}],
        "profiles": {
            "slow": {"argv": acting(&["gate", gate.to_str().unwrap()]), "wall": "120s"},
            "quick": {"argv": ["echo", "quick"]},
        },
    });
    plan.to_string()
}

/// Where the nodes of a plan stand, as `plan show` says it.
fn statuses(fleet: &Fleet, epic: &str) -> Value {
    let shown = fleet.json(&["plan", "show", epic]);
    let nodes = shown["nodes"].as_array().unwrap().iter();
    let word = |node: &Value| {
        (node["definition"]["node"]["id"].as_str().unwrap().to_owned(), node["status"].clone())
    };
    nodes.map(word).collect::<serde_json::Map<_, _>>().into()
}

const WHY: [&str; 2] = ["--reason", "the fourth comes first"];

/// Changes that are refused while the first task runs, and two that are not.
fn split_and_merge(fleet: &Fleet, epic: &str) {
    let part = |name: &str| json!({"name": name, "profile": "quick", "acceptance": ["it is"]});
    let parts = json!([part("half"), part("rest")]);
    let parts = fleet.file("parts.json", &parts.to_string());
    let split = |on: &str| {
        fleet.run([&["plan", "split", epic, on, parts.to_str().unwrap()], &WHY[..]].concat())
    };
    let refused = split("T1.1");
    assert_eq!(refused.code, Some(5), "{}", refused.err);
    assert!(refused.err.contains("T1.1 is in progress (W:"), "{}", refused.err);
    let done = split("T1.2");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.contains("added S1.2.1 S1.2.2; split T1.2"), "{}", done.out);
    let unknown = fleet.run([&["plan", "merge", epic, "T1.2", "T1.9"], &WHY[..]].concat());
    assert_eq!(unknown.code, Some(3), "{}", unknown.err);
    let both = ["plan", "merge", epic, "S1.2.1", "S1.2.2", "--name", "both"];
    fleet.ok([&both, &WHY[..]].concat());
}

/// What lies between the version before all changes and the end.
fn assert_told(fleet: &Fleet, epic: &str, base: &str) {
    let diff = fleet.json(&["plan", "diff", epic, base]);
    let line =
        |it: &Value| format!("{} {}", it["node"].as_str().unwrap(), it["what"].as_str().unwrap());
    let lines: Vec<String> = diff.as_array().unwrap().iter().map(line).collect();
    let expected = [
        "P1 moved",
        "T1.1 moved",
        "T1.2 redefined",
        "S1.2.1 added",
        "S1.2.2 added",
        "T1.3 gave up",
        "T1.4 added",
    ];
    assert_eq!(lines, expected);
    assert_eq!(diff[2]["fields"]["dependsOn"]["to"], json!(["T1.1", "T1.4"]));
    assert!(diff[5]["why"].to_string().contains("the fourth comes first"), "{diff}");
    let history = fleet.ok(["plan", "history", epic]);
    assert!(history.contains("replan") && history.contains("manual_override"), "{history}");
    let none = fleet.run(["plan", "diff", epic, "1", "999"]);
    assert_eq!(none.code, Some(3), "{}", none.err);
}

#[test]
fn plan_is_changed_while_it_runs_and_reaches_its_new_end() {
    let fleet = Fleet::up();
    let mut slow = task("T1.1", &[]);
    slow["profile"] = json!("slow");
    let before = [slow.clone(), task("T1.2", &["T1.1"]), task("T1.3", &["T1.2"])];
    let file = fleet.file("before.json", &plan(&before, &fleet));
    let running = fleet.spawn(["run", file.to_str().unwrap()]);
    let epic = wait::until("the first task is worked on", || {
        let goals = fleet.json(&["get", "goals"]);
        let epic = goals.as_array()?.first()?["id"].as_str()?.to_owned();
        (statuses(&fleet, &epic)["T1.1"] == "in_progress").then_some(epic)
    });
    let shown = fleet.json(&["plan", "show", &epic]);
    let base = shown["plan"]["version"].as_u64().unwrap().to_string();
    let after = [slow, task("T1.2", &["T1.1", "T1.4"]), task("T1.4", &[])];
    let file = fleet.file("after.json", &plan(&after, &fleet));
    let apply = |file: &str| {
        fleet.run([&["plan", "apply", &epic, file, "--base", &base], &WHY[..]].concat())
    };
    let done = apply(file.to_str().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.contains("added T1.4; redefined T1.2; gave up T1.3"), "{}", done.out);
    wait::until("what is new is worked on", || {
        (statuses(&fleet, &epic)["T1.4"] == "done").then_some(())
    });
    // Made for a plan that is no more.
    let renamed = fleet.file("renamed.json", &plan(&[task("T1.1", &[])], &fleet));
    let refused = apply(renamed.to_str().unwrap());
    assert_eq!(refused.code, Some(5), "{}", refused.err);
    for words in ["E_CONFLICT", "T1.2 was redefined in version", "plan history"] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    split_and_merge(&fleet, &epic);

    fleet.file("gate", "");
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let end = json!({"P1": "done", "T1.1": "done", "T1.2": "done", "S1.2.1": "done",
        "S1.2.2": "cancelled", "T1.3": "cancelled", "T1.4": "done"});
    assert_eq!(statuses(&fleet, &epic), end);
    assert_told(&fleet, &epic, &base);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_draft_is_put_to_people_and_applied_by_approval() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut reviews = control.client().subscribe("plan.review_needed.>").await.unwrap();
    let mut agent = External::join(&fleet, &mut ledger, "foreign").await;
    let epic = agent.goal().await;
    let wanted = json!({"title": "a goal", "phases": [{"id": "P1", "name": "work", "tasks": [
        {"id": "T1.1", "name": "seed", "acceptance": ["it is there"]},
        {"id": "T1.2", "name": "water", "deps": ["T1.1"], "acceptance": ["it is wet"]},
    ]}]});
    let body = |mode: &str| json!({"epic": epic, "mode": mode, "baseVersion": 1, "plan": wanted, "reason": "it is dry"});
    let subject = format!("op.todo.plan.{}", agent.name);
    let refused = agent.ask(&subject, body("apply")).await;
    assert_eq!(refused["body"]["error"], "E_UNAUTHORIZED", "{refused}");
    let kept = agent.ask(&subject, body("draft")).await;
    assert_eq!(kept["body"]["version"], 1, "{kept}");
    let data: Value = serde_json::from_str(kept["body"]["data"].as_str().unwrap()).unwrap();
    let draft = data["draft"].as_str().unwrap().to_owned();

    let asked = wait::soon("people are asked", reviews.next()).await.unwrap();
    let asked: Value = serde_json::from_slice(&asked.payload).unwrap();
    assert_eq!((&asked["epicId"], &asked["version"]), (&json!(epic), &json!(1)));
    assert_eq!((&asked["source"], &asked["reason"]), (&json!("agent"), &json!("replan")));
    assert_eq!(asked["asks"][0]["draft"], json!(draft));

    let listed = fleet.ok(["plan", "drafts", &epic]);
    assert!(
        listed.contains(&draft) && listed.contains("defines T1.2") && listed.contains("it is dry"),
        "{listed}"
    );
    let waiting = fleet.json(&["inbox"]);
    assert_eq!(
        (&waiting[0]["kind"], &waiting[0]["id"]),
        (&json!("draft"), &json!(draft)),
        "{waiting}"
    );
    let bound = fleet.run(["approve", &draft, "--digest", &"0".repeat(64)]);
    assert_eq!(bound.code, Some(2), "{}{}", bound.out, bound.err);
    assert!(bound.err.contains("has no digest"), "{}", bound.err);
    let approved = fleet.json(&["approve", &draft]);
    assert_eq!((&approved["version"], &approved["detail"]), (&json!(2), &json!("added T1.2")));
    assert_eq!(statuses(&fleet, &epic)["T1.2"], "todo");
    let told = wait::soon("the agent is told", async { agent.letter("info").await }).await;
    assert!(told["body"]["text"].as_str().unwrap().contains("is approved by human:ada"), "{told}");
    assert_eq!(fleet.json(&["plan", "drafts", &epic]), json!([]));
    let twice = fleet.run(["plan", "reject", &draft, "--reason", "too late"]);
    assert_eq!(twice.code, Some(5), "{}", twice.err);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn failed_command_is_repaired_in_its_file() {
    let fleet = Fleet::up();
    let text = |run: &str| {
        let task = json!({"id": "T1.1", "name": "say it", "run": run, "maxAttempts": 1});
        json!({"title": "Say it", "phases": [{"id": "P1", "name": "Say", "tasks": [task]}]})
    };
    let file = fleet.file("say.json", &text("echo what; exit 3").to_string());
    let file = file.to_str().unwrap();
    let epic = fleet.ok(["run", file, "--detach"]).trim().to_owned();
    fleet.ok(["wait", "T1.1", "--for", "blocked", "--timeout", "30s"]);
    let inbox = fleet.ok(["inbox"]);
    assert!(inbox.contains(&format!("plan apply {epic} FILE")), "{inbox}");
    assert!(!inbox.contains("profile apply"), "its author knows no profile: {inbox}");
    let apply = ["plan", "apply", &epic, file, "--reason", "a typing error"];
    assert!(fleet.ok(apply).contains("the plan does not change"));
    fleet.file("say.json", &text("echo repaired").to_string());
    let applied = fleet.ok(apply);
    assert!(applied.contains("redefined T1.1; left blocked T1.1"), "{applied}");
    assert!(applied.contains("next: tetrarch"), "{applied}");
    assert!(applied.contains(&format!("work unblock {epic}/T1.1")), "{applied}");
    fleet.ok(["work", "unblock", &epic, "T1.1"]);
    fleet.ok(["wait", &epic, "--for", "completed", "--timeout", "30s"]);
    assert!(fleet.ok(["attach", &epic, "--quiet"]).contains("repaired"), "it was stuck once");
}
