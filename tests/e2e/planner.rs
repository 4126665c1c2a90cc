//! The planner against a model server that answers as it is scripted (spec 05, The planner): whatever it says,
//! a goal gets a valid plan and is reached; a task that stands still is cut and goes on.

use serde_json::{Value, json};
use tetrarch_tests::model::{ModelServer, once, said};
use tetrarch_tests::{Ended, Fleet, Program, wait};

use crate::acting;

/// The key that the server never sees in anybody's words.
const KEY: &str = "sk-test-0123456789";

fn planned(server: &ModelServer) -> Fleet {
    let keys = [
        ("ENABLED", "true"),
        ("PROVIDER", "openai"),
        ("MODEL", "scripted"),
        ("KEY_FROM", "env:PLANNER_TEST_KEY"),
        ("TIMEOUT", "1s"),
    ];
    let set = |fleet: Fleet, (key, value): (&str, &str)| {
        fleet.with_env(&format!("TETRARCH_PLANNER_{key}"), value)
    };
    let fleet = keys.into_iter().fold(Fleet::prepared(), set);
    let url = format!("{}/v1", server.url());
    fleet
        .with_env("TETRARCH_PLANNER_BASE_URL", url)
        .with_env("PLANNER_TEST_KEY", KEY)
        .with_env("TETRARCH_HOST_CAPACITY", "64")
}

/// A plan of two tasks, one after the other.
fn two_tasks() -> Value {
    json!({"phases": [{"id": "P1", "name": "all of it", "tasks": [
        {"id": "T1.1", "name": "begin", "acceptance": ["it is begun"]},
        {"id": "T1.2", "name": "end", "acceptance": ["it is ended"], "deps": ["T1.1"]},
    ]}], "output": "T1.2"})
}

fn goal(fleet: &Fleet, title: &str, argv: &[String]) -> Program {
    let name = title.replace(' ', "-");
    let goal = json!({
        "project": name,
        "goal": {"title": title},
        "profiles": {"default": {"argv": argv, "wall": "60s"}},
    });
    let file = fleet.file(&format!("{name}.json"), &goal.to_string());
    fleet.spawn(["run", file.to_str().unwrap()])
}

fn reached(title: &str, ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{title}: {}", ended.err);
}

/// How a goal of a title was planned, and how many leaves its plan has.
fn provenance(fleet: &Fleet, title: &str) -> (Value, usize) {
    let goals = fleet.json(&["get", "goals"]);
    let named = |goal: &&Value| goal["goal"]["title"] == *title || goal["title"] == *title;
    let goal = goals.as_array().unwrap().iter().find(named).unwrap_or_else(|| panic!("{goals}"));
    let id = goal["id"].as_str().or_else(|| goal["goal"]["id"].as_str()).unwrap();
    let told = fleet.json(&["plan", "provenance", id]);
    let shown = fleet.json(&["plan", "show", id]);
    (told[0].clone(), shown["nodes"].as_array().unwrap().len() - 1)
}

/// What the server says to each of the goals below.
fn scripts() -> Vec<Value> {
    let valid = two_tasks().to_string();
    let text = |text: &str| json!({"content": text});
    let (fine, calm) = (text(&valid), json!({}));
    let error = |status: u16| json!({"error": {"message": format!("no, {KEY}"), "type": "x"}, "status": status, "retryAfter": 1});
    // A repetition names what was wrong, and nothing else tells goals apart that are planned at one time.
    let mut armed = two_tasks();
    armed["phases"][0]["tasks"][0]["argv"] = json!(["rm", "-r", "/"]);
    vec![
        said("the key \"argv\"", &valid),
        said("the key \"never\"", "{\"never\": 1}"),
        said("the answer is not JSON", &format!("Of course!\n```json\n{valid}\n```\n")),
        said("plainly", &valid),
        said("in prose", "I would begin with the beginning."),
        said("armed", &armed.to_string()),
        said("hopeless", "{\"never\": 1}"),
        once("too many", &error(429), &calm),
        said("too many", &valid),
        once("broken", &error(500), &calm),
        said("broken", &valid),
        json!({"match": {"userMessage": "refused"}, "response": error(401)}),
        once("cut off", &fine, &json!({"disconnectRate": 1})),
        said("cut off", &valid),
        once("garbled", &fine, &json!({"malformedRate": 1})),
        said("garbled", &valid),
        once("late", &fine, &json!({"latencyMs": 4_000})),
        said("late", &valid),
    ]
}

#[test]
fn goal_gets_a_valid_plan_whatever_the_model_server_says() {
    let server = ModelServer::start(&scripts());
    let fleet = planned(&server).started();
    // Status, answers, problems that are told in this order, leaves and what is above them.
    let rows: [(&str, &str, u64, &[&str], usize); 10] = [
        ("plainly", "accepted", 1, &[], 2),
        ("in prose", "accepted", 2, &["answer 1: the answer is not JSON"], 2),
        ("armed", "accepted", 2, &["answer 1: phases[0].tasks[0]: has the key \"argv\""], 2),
        (
            "hopeless",
            "refused",
            3,
            &["answer 1: the answer: has the key \"never\"", "answer 1: phases"],
            1,
        ),
        ("too many", "accepted", 1, &["HTTP 429: "], 2),
        ("broken", "accepted", 1, &["HTTP 500: "], 2),
        ("refused", "refused", 0, &["no answer after 1 requests: HTTP 401: "], 1),
        ("cut off", "accepted", 1, &[""], 2),
        ("garbled", "accepted", 1, &[""], 2),
        ("late", "accepted", 1, &["no answer within 1s"], 2),
    ];
    let argv = ["echo".to_owned(), "done".to_owned()];
    let running: Vec<Program> = rows.iter().map(|row| goal(&fleet, row.0, &argv)).collect();
    for (row, program) in rows.iter().zip(running) {
        reached(row.0, &program.ended());
    }
    for (title, status, answers, problems, leaves) in rows {
        let (told, nodes) = provenance(&fleet, title);
        let asked = told["attempts"].as_u64().unwrap_or(0);
        assert_eq!((&told["status"], asked), (&json!(status), answers), "{told}");
        assert_eq!(nodes, leaves, "{title}: {told}");
        let found = told["problems"].as_array().cloned().unwrap_or_default();
        assert!(
            found.len() >= problems.len() && (found.is_empty() == problems.is_empty()),
            "{told}"
        );
        for (problem, expected) in found.iter().zip(problems) {
            assert!(problem.as_str().unwrap().starts_with(expected), "{title}: {problem}");
        }
        assert_eq!(
            (&told["model"], &told["template"]),
            (&json!("openai scripted"), &json!("plan.2"))
        );
        assert!(!told.to_string().contains(KEY), "{told}");
    }
    assert!(!fleet.ok(["events"]).contains(KEY));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn stalled_task_is_split_and_its_parts_finish() {
    let part = |name: &str, after: Value| json!({"name": name, "objective": "the key is in the vault", "acceptance": ["open"], "after": after});
    let cut = json!({"diagnosis": "nobody said where the key is", "subtasks": [
        part("find the key", json!([])), part("turn it", json!([1])),
    ]});
    let server = ModelServer::start(&[said("standsStill", &cut.to_string())]);
    let keys = [
        ("TICK_EVERY", "1s"),
        ("IDLE_AFTER", "1s"),
        ("MAX_RETRIES", "1"),
        ("MIN_RESEND_INTERVAL", "1s"),
        ("BACKOFF", "base=1s,max=1s"),
    ];
    let set = |fleet: Fleet, (key, value): (&str, &str)| {
        fleet.with_env(&format!("TETRARCH_OVERSEER_{key}"), value)
    };
    let fleet = keys.into_iter().fold(planned(&server), set).started();
    let witness = fleet.cwd().join("witness");
    let plan = json!({
        "output": "T1.1",
        "goal": {"title": "Come in"},
        "phases": [{"id": "P1", "name": "Go in", "tasks": [
            {"id": "T1.1", "name": "open it", "profile": "acting", "acceptance": ["it is open"]},
        ]}],
        "profiles": {"acting": {"argv": acting(&["silent", witness.to_str().unwrap()]), "wall": "120s"}},
    });
    let plan = fleet.file("cut.json", &plan.to_string());
    let ended = fleet.spawn(["run", plan.to_str().unwrap()]).ended();
    reached("Come in", &ended);
    assert_eq!(ended.out.trim(), "opened", "its last part brings what the task was to bring");
    let agents = std::fs::read_to_string(&witness).unwrap();
    assert_eq!(agents.lines().count(), 3, "the task's agent, then one for each part: {agents}");
    let why = fleet.ok(["why", agents.lines().next().unwrap()]);
    assert!(why.contains("replan: asking did not help"), "{why}");
    let (told, _) = provenance(&fleet, "Come in");
    assert_eq!((&told["status"], &told["node"]), (&json!("accepted"), &json!("T1.1")), "{told}");
    assert_eq!(told["template"], "split.2");
    assert_eq!(fleet.json(&["inbox"]), json!([]), "nobody had to be asked");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn owner_killed_while_asking_is_followed_by_one_that_asks_again() {
    let fine = json!({"content": two_tasks().to_string()});
    // No request is answered while the first owner lives.
    let scripts = [
        once("again", &fine, &json!({"latencyMs": 8_000})),
        said("again", &two_tasks().to_string()),
    ];
    let server = ModelServer::start(&scripts);
    let mut fleet = planned(&server).with_env("TETRARCH_PLANNER_TIMEOUT", "1h").started();
    let argv = ["echo".to_owned(), "done".to_owned()];
    let running = goal(&fleet, "again", &argv);
    wait::until("the planner is asked", || {
        fleet.ok(["events"]).contains("planner.asked").then_some(())
    });
    fleet.stop();
    drop(running);
    fleet.start();
    let ask = || provenance_when_known(&fleet);
    let told = wait::until("the goal has its plan", ask);
    assert_eq!((&told["status"], &told["attempts"]), (&json!("accepted"), &json!(1)), "{told}");
    let events = fleet.ok(["events"]);
    assert_eq!(events.matches("planner.asked").count(), 1, "it is the same question: {events}");
    fleet.ok(["doctor", "--check-ledger"]);
}

fn provenance_when_known(fleet: &Fleet) -> Option<Value> {
    let goals = fleet.json(&["get", "goals"]);
    let known = !goals.as_array()?.is_empty();
    known.then(|| provenance(fleet, "again").0)
}

#[test]
fn planning_cost_is_charged_to_its_project_and_capped() {
    let usage = json!({"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100});
    let counted = json!({"content": two_tasks().to_string(), "usage": usage});
    let server =
        ModelServer::start(&[json!({"match": {"userMessage": "goal"}, "response": counted})]);
    let fleet = planned(&server);
    let price = json!({"input": 2_000_000, "output": 10_000_000});
    let prices = json!({"models": {"openai/scripted": price}}).to_string();
    let prices = fleet.file("prices.json", &prices);
    let fleet = fleet.with_env("TETRARCH_PRICES_FILE", prices.to_str().unwrap()).started();
    let argv = ["echo".to_owned(), "done".to_owned()];
    // A question may cost more than 8192 tokens, which is what may be answered.
    for (title, tokens) in [("rich", "200000"), ("poor", "8192")] {
        fleet.ok(["project", "create", title, "--tokens", tokens]);
        reached(title, &goal(&fleet, title, &argv).ended());
    }
    let agents = fleet.json(&["get", "agents"]);
    let spent = |po: &str| {
        let po = agents.as_array().unwrap().iter().find(|agent| agent["id"] == *po);
        po.unwrap_or_else(|| panic!("{agents}"))["account"].clone()
    };
    let (rich, _) = provenance(&fleet, "rich");
    let took = json!({"tokens": 1100, "costMicro": 3000, "turns": 1});
    assert_eq!((&rich["status"], &rich["used"]), (&json!("accepted"), &took), "{rich}");
    let account = spent("PO-rich");
    assert_eq!(account["spent"], took, "its programs use nothing: {account}");
    let (poor, leaves) = provenance(&fleet, "poor");
    assert_eq!((&poor["status"], leaves), (&json!("refused"), 1), "{poor}");
    let why = poor["reason"].as_str().unwrap();
    assert!(
        why.contains("not asked: the account of PO-poor") && why.contains("8192 free"),
        "{why}"
    );
    assert!(fleet.ok(["why", "PO-poor"]).contains("not asked"), "people are told");
    let asked = server.got();
    assert!(asked.len() == 1 && asked[0].to_string().contains("rich"), "{asked:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn missing_variable_is_named() {
    let keys = [
        ("ENABLED", "true"),
        ("PROVIDER", "openai"),
        ("MODEL", "m"),
        ("KEY_FROM", "env:NO_SUCH_KEY"),
    ];
    let set = |fleet: Fleet, (key, value): (&str, &str)| {
        fleet.with_env(&format!("TETRARCH_PLANNER_{key}"), value)
    };
    let fleet = keys.into_iter().fold(Fleet::prepared(), set);
    let ended = fleet.run(["up"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("the environment variable NO_SUCH_KEY is missing"), "{}", ended.err);
    let doctor = fleet.run(["doctor"]);
    assert!(doctor.out.contains("set it to the key of openai"), "{}", doctor.out);
    let half = Fleet::prepared().with_env("TETRARCH_PLANNER_ENABLED", "true").run(["doctor"]);
    assert!(
        half.err.contains("a planner needs a provider and a model"),
        "{}{}",
        half.out,
        half.err
    );
}
