//! What schedules say in conversations: beside what a person says, and told to whom the schedule says.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tetrarch_core::schedule::Schedule;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::conversations::{desk, open};

/// Milliseconds until a schedule is due.
fn due_in(schedule: &Schedule) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    schedule.next.unwrap().0.saturating_sub(u64::try_from(now).unwrap())
}

/// Where the first turn of a conversation stands; none before it begins.
fn stands(fleet: &Fleet, conversation: &str) -> Option<Value> {
    let list = fleet.json(&["chat", "--list"]);
    let found = list.as_array()?.iter().find(|it| it["conversation"] == conversation);
    found.map(|it| it["status"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_turn_runs_silently_beside_a_conversation() {
    let fleet = Fleet::up();
    desk(&fleet);
    let schedule = |conversation: &str, more: &[&str]| {
        let say = ["--say", "open it", "-c", conversation, "--project", "desk"];
        let create = ["schedule", "create", "--cron", "* * * * *"];
        fleet.ok([&create[..], &say, more].concat()).trim().to_owned()
    };
    let made = [schedule("night", &[]), schedule("day", &["--tell", "ada"])];
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let id = made[0].parse().unwrap();
    let known = ledger.until("its schedule", |records| records.schedules.get(&id).cloned()).await;
    // A minute, in parts that each have to pass soon.
    for left in [40_000, 20_000] {
        wait::until("time passes", || (due_in(&known) <= left).then_some(()));
    }
    wait::until("its agent runs", || (!fleet.agents().is_empty()).then_some(()));
    for id in &made {
        fleet.ok(["schedule", "delete", id]);
    }
    let said = fleet.ok(["ask", "--project", "desk", "hello"]);
    assert!(said.starts_with("Say what you want done"), "{said}");
    let tree = fleet.ok(["tree", "--human", "ada"]);
    for part in ["night", "day", "background", "open it", "queued", "W:", "main"] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    open(&fleet);
    for conversation in ["night", "day"] {
        let done = || (stands(&fleet, conversation) == Some(json!("done"))).then_some(());
        wait::until("its answer", done);
        let transcript = fleet.ok(["chat", conversation, "--transcript"]);
        assert!(transcript.contains("open it") && transcript.contains("W:"), "{transcript}");
    }
    let mail = fleet.ok(["mail", "list"]);
    assert!(mail.contains("conversation day"), "its schedule says so: {mail}");
    assert!(!mail.contains("conversation night"), "silently: {mail}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn scheduled_turn_needs_a_conversation_and_its_project() {
    let fleet = Fleet::up();
    desk(&fleet);
    let create = ["schedule", "create", "--every", "1h", "--say", "look"];
    for (more, code, why) in [
        (&[][..], 2, "--conversation"),
        (&["-c", "night"], 3, "project main was not found"),
        (&["-c", "night", "--project", "desk", "--graph", "none"], 3, "has no graph none"),
        (&["-c", "a b", "--project", "desk"], 2, "' ' at position 1"),
    ] {
        let refused = fleet.run([&create[..], more].concat());
        assert_eq!(refused.code, Some(code), "{}", refused.err);
        assert!(refused.err.contains(why), "{why}: {}", refused.err);
    }
    let often = ["schedule", "create", "--every", "59s", "--say", "look", "-c", "night"];
    let refused = fleet.run([&often[..], &["--project", "desk"]].concat());
    assert!(refused.err.contains("too often for a goal or a turn"), "{}", refused.err);
    assert_eq!(fleet.json(&["schedule", "list"]), json!([]));
}
