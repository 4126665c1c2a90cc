//! `examples/long-haul` while its owner is killed at random moments (spec 05): every node ends where it
//! would have, with the same evidence, and people are asked the same one question. The plain run of the
//! same plan is `tests/examples/test_long_haul.py`'s. `LONG_HAUL_SEED` names the moments.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tetrarch_bus::watch::{From, plan_events};
use tetrarch_core::id::EpicId;
use tetrarch_tests::dice::Dice;
use tetrarch_tests::{Fleet, wait};

use crate::workspace;

/// Times the owner is killed.
const KILLS: usize = 4;
/// The longest that an owner is left alone, in milliseconds.
const ALONE_MAX: usize = 2_500;

/// The example's fleet, and a seed for when its owner dies.
fn hurried() -> (Fleet, u64) {
    let keys = [
        ("OVERSEER_TICK_EVERY", "1s"),
        ("OVERSEER_IDLE_AFTER", "2s"),
        ("OVERSEER_MIN_RESEND_INTERVAL", "1s"),
        ("OVERSEER_BACKOFF", "base=1s,max=1s"),
        ("RETENTION_GO_TTL", "1s"),
    ];
    let set = |fleet: Fleet, (key, value): (&str, &str)| {
        fleet.with_env(&format!("TETRARCH_{key}"), value)
    };
    let fleet = keys.into_iter().fold(Fleet::prepared(), set).with_option("--capacity", "8");
    let seed = std::env::var("LONG_HAUL_SEED").ok().map(|seed| seed.parse().unwrap());
    (fleet.started(), seed.unwrap_or(7))
}

fn example(name: &str) -> PathBuf {
    workspace().join("examples/long-haul").join(name)
}

/// Kills the owner when chance says so, and looks on until it has another.
fn kill_owners(fleet: &Fleet, dice: &mut Dice) -> usize {
    let mut killed = 0;
    for _ in 0..KILLS {
        let until = Instant::now() + Duration::from_millis(dice.range(100, ALONE_MAX) as u64);
        wait::until("the next kill", || (Instant::now() >= until).then_some(()));
        let all = fleet.processes();
        let owner = all.iter().find(|process| process.command.contains(" serve --global"));
        // Between two owners there is none to be killed.
        let owner = owner.and_then(|owner| i32::try_from(owner.pid).ok());
        if let Some(owner) = owner.and_then(rustix::process::Pid::from_raw) {
            killed += usize::from(kill_process(owner, Signal::KILL).is_ok());
        }
    }
    killed
}

/// A node's name, status and the tests in its evidence.
fn stands(node: &Value) -> (String, Value, Value) {
    let name = node["definition"]["node"]["id"].as_str().unwrap().to_owned();
    let tests = &node["state"]["state"]["result"]["evidence"]["tests"];
    let tests = if tests.is_null() { serde_json::json!([]) } else { tests.clone() };
    (name, node["status"].clone(), tests)
}

#[tokio::test(flavor = "multi_thread")]
async fn goal_with_a_repeatedly_killed_owner_ends_as_without() {
    let (fleet, seed) = hurried();
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = example("plan.yaml");
    let run = ["run", plan.to_str().unwrap(), "--", witness.to_str().unwrap()];
    let running = fleet.spawn(run);
    let killed = kill_owners(&fleet, &mut Dice::new(seed));
    assert!(killed > 1, "seed {seed}: the owner was killed {killed} times");
    let ended = running.ended();
    assert_eq!(ended.code, Some(1), "seed {seed}: {}", ended.err);
    assert!(
        ended.err.contains("asks about T2.1: T2.1 (Fetch the prices) does not go on"),
        "{}",
        ended.err
    );

    let expected = std::fs::read_to_string(example("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let epic = fleet.json(&["get", "goals"])[0]["id"].as_str().unwrap().to_owned();
    let plan = fleet.json(&["plan", "show", &epic]);
    let mut seen = 0;
    for (name, status, tests) in plan["nodes"].as_array().unwrap().iter().map(stands) {
        let Some(wanted) = expected.get(&name) else { continue };
        seen += 1;
        let wanted = (&wanted["status"], &wanted["evidence"]);
        assert_eq!((&status, &tests), wanted, "seed {seed}: {name}\n{}", ended.err);
        let noted = std::fs::read_to_string(witness.join(&name)).unwrap_or_default();
        let works = noted.lines().filter(|line| *line == "work").count();
        assert_eq!(works, usize::from(status == "done"), "seed {seed}: {name}: {noted}");
    }
    assert_eq!(Some(seen), expected.as_object().map(serde_json::Map::len));

    let asked = fleet.json(&["inbox"]);
    let [question] = asked.as_array().unwrap().as_slice() else {
        panic!("seed {seed}: one question, not {asked}");
    };
    assert_eq!(question["node"], "T2.1");
    assert!(question["text"].as_str().unwrap().contains("credential of kind token"), "{question}");
    fleet.ok(["doctor", "--check-ledger"]);
    published(&fleet, plan["nodes"].as_array().unwrap().len(), epic.parse().unwrap()).await;
}

/// Every version was published once, and tells of every node, whichever owner published it.
async fn published(fleet: &Fleet, nodes: usize, epic: EpicId) {
    let control = fleet.control().await;
    let mut events = Box::pin(plan_events(&control, Some(epic), From::Start).await.unwrap());
    for version in 1.. {
        let (_, event) = wait::soon("a version", events.next()).await.unwrap();
        let event = event.unwrap();
        assert_eq!((event.version, event.nodes.len()), (version, nodes));
        if event.percent == 75 {
            return;
        }
    }
}
