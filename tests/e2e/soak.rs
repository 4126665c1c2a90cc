//! Plan after plan in one fleet: each finishes, and what has ended costs its processes a bounded amount of memory (spec
//! 02, Streams; spec 10, growth). `SOAK_PLANS` says how many (48); what was measured is told on a line that begins
//! `soak`.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::records::Records;
use tetrarch_tests::{Fleet, Ledger, Process};

use crate::chaos::number;
use crate::storm::{pillars, resident};

/// Plans under way at once.
const AT_ONCE: usize = 6;
/// Tasks of each, one after the other two.
const TASKS: usize = 3;
/// What a process of the product may grow by for each plan that has ended, in KiB, once half of all have. One of owner
/// and host was seen to take 48 in a debug build.
const GROWTH_KIB: f64 = 160.0;
/// What nats-server may: it keeps message ids for two minutes, and the place of the last message of each subject for as
/// long as that is kept. It was seen to take 430 to 540 in the first 200 plans.
const SERVER_GROWTH_KIB: f64 = 1_024.0;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_plans_finish_with_bounded_memory() {
    let plans = usize::try_from(number("SOAK_PLANS", 48)).unwrap();
    let fleet = Fleet::prepared().with_option("--capacity", "32").started();
    let plan = plan(&fleet);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let began = Instant::now();
    let before = pillars(&fleet);
    let mut sizes = vec![(0, sizes(&before))];
    let mut given = 0;
    while given < plans {
        let wave = AT_ONCE.min(plans - given);
        for _ in 0..wave {
            fleet.ok(["goal", "create", "--project", "soak", plan.to_str().unwrap()]);
        }
        given += wave;
        let over = |records: &Records| {
            let goals = records.goal_states.values();
            let done = goals.filter(|goal| goal.status == GoalStatus::Completed).count();
            (done == given).then_some(())
        };
        ledger.until(&format!("{given} plans"), over).await;
        sizes.push((given, self::sizes(&before)));
    }
    assert_eq!(pillars(&fleet), before, "the same processes");
    fleet.ok(["doctor", "--check-ledger"]);
    tell(plans, began.elapsed().as_secs_f64(), &before, &sizes);
    let (warm, last) = (&sizes[sizes.len() / 2], sizes.last().unwrap());
    let ended = (last.0 - warm.0) as f64;
    for (process, (then, now)) in before.iter().zip(warm.1.iter().zip(&last.1)) {
        let grown = now.saturating_sub(*then) as f64 / ended;
        let server = process.command.contains("nats-server");
        let most = if server { SERVER_GROWTH_KIB } else { GROWTH_KIB };
        assert!(grown < most, "{} grew by {grown:.0} KiB a plan", process.command);
    }
}

fn plan(fleet: &Fleet) -> std::path::PathBuf {
    let task = |number: usize| {
        let deps: Vec<String> = match number {
            TASKS => (1..TASKS).map(|other| format!("T1.{other}")).collect(),
            _ => Vec::new(),
        };
        json!({"id": format!("T1.{number}"), "name": "say", "profile": "say", "deps": deps,
               "acceptance": ["it is said"]})
    };
    let plan = json!({
        "project": "soak",
        "output": format!("T1.{TASKS}"),
        "goal": {"title": "One of many"},
        "phases": [{"id": "P1", "name": "Say", "tasks": (1..=TASKS).map(task).collect::<Vec<_>>()}],
        "profiles": {"say": {"argv": ["echo", "said"]}},
    });
    fleet.file("soak.json", &plan.to_string())
}

/// What each process holds, in KiB.
fn sizes(of: &[Process]) -> Vec<u64> {
    of.iter().map(resident).collect()
}

#[expect(clippy::print_stdout, reason = "what was measured is for whoever runs it")]
fn tell(plans: usize, seconds: f64, of: &[Process], sizes: &[(usize, Vec<u64>)]) {
    let name = |process: &Process| {
        let words: Vec<&str> = process.command.split(' ').collect();
        let program = Path::new(words[0]).file_name().unwrap_or_default().to_string_lossy();
        let verb = words.iter().find(|word| ["serve", "host"].contains(word));
        format!("{program} {}", verb.unwrap_or(&""))
    };
    let processes: Vec<String> = of.iter().map(name).collect();
    let step = (sizes.len() / 8).max(1);
    let kib: Vec<_> = sizes.iter().step_by(step).chain(sizes.last()).collect();
    println!(
        "soak {}",
        json!({"plans": plans, "seconds": seconds, "processes": processes, "resident_kib": kib})
    );
}
