//! The fan-out bomb: an agent that asks for thousands of children, whose children do the same. Each has
//! three at most, those below it none, an orchestrator hears of each asker once, and everybody else is
//! served meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tetrarch_core::id::AgentId;
use tetrarch_core::limits::CHILDREN_MAX;
use tetrarch_core::mail::MailBody;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Ledger};

use crate::acting;
use crate::external::External;

/// What the first asks for, in the ordinary run.
const ASKED: usize = 200;
/// The same with `FAULTS=all`.
const ALL: usize = 10_000;
/// What each of its children asks for.
const BELOW: usize = 60;
/// Control round trips of an idle fleet.
const IDLE: usize = 200;

fn asked() -> usize {
    let all = std::env::var("FAULTS").is_ok_and(|value| value == "all");
    if all { ALL } else { ASKED }
}

/// The time from a question to the owner to its answer.
async fn round_trip(external: &mut External) -> Duration {
    external.beat().await;
    let began = Instant::now();
    let asked = json!({"agent": external.name});
    let answer = external.ask(&format!("op.agent.status.{}", external.name), asked).await;
    assert_eq!(answer["body"]["liveness"], "active", "{answer}");
    began.elapsed()
}

/// How often an orchestrator was told of whom.
fn alerts(ledger: &Ledger) -> BTreeMap<AgentId, usize> {
    let mut found = BTreeMap::new();
    for mail in ledger.entries.iter().flat_map(|(_, entry)| &entry.mail) {
        if let MailBody::Violation { parent, .. } = &mail.body {
            *found.entry(parent.clone()).or_default() += 1;
        }
    }
    found
}

/// Whether the first has ended.
fn is_over(records: &Records) -> bool {
    let first = |agent: &AgentId| matches!(agent, AgentId::Specialist(..));
    records.run_status.values().any(|run| first(&run.agent) && run.state.is_terminal())
}

fn percentile(times: &mut [Duration], of_hundred: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * of_hundred / 100]
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "how long others waited is what a reader looks for")]
async fn agent_spawning_thousands_gets_three_and_one_notice() {
    let mut fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut other = External::join(&fleet, &mut ledger, "other").await;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(round_trip(&mut other).await);
    }

    let plan = json!({
        "project": "bomb",
        "output": "T1.1",
        "goal": {"title": "A bomb"},
        "phases": [{"id": "P1", "name": "Bomb", "tasks": [{
            "id": "T1.1", "name": "ask", "role": "specialist", "domain": "asking", "profile": "bomb",
            "acceptance": ["it tells what it got"],
        }]}],
        "profiles": {
            "bomb": {"argv": acting(&["bomb", &asked().to_string()]), "wall": "300s"},
            "bomblet": {"argv": acting(&["bomb", &BELOW.to_string(), "stay"]), "wall": "300s"},
        },
    });
    let file = fleet.file("bomb.json", &plan.to_string());
    let run = fleet.spawn(["run", file.to_str().unwrap()]);
    let mut busy = Vec::new();
    while !is_over(&ledger.records) {
        for _ in 0..IDLE {
            busy.push(round_trip(&mut other).await);
        }
        let last = control.stream_last_seq(tetrarch_bus::subject::pattern::LEDGER).await.unwrap();
        ledger.until_seq(last).await;
    }
    let ended = tokio::task::spawn_blocking(move || run.ended()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    let denied = asked() - CHILDREN_MAX;
    assert_eq!(told, json!({"depth": 2, "spawn.accepted": CHILDREN_MAX, "spawn.denied": denied}));

    let last = control.stream_last_seq(tetrarch_bus::subject::pattern::LEDGER).await.unwrap();
    ledger.until_seq(last).await;
    let widest = ledger.widest();
    assert!(widest.values().all(|children| *children <= CHILDREN_MAX), "{widest:?}");
    let bombs = widest.keys().filter(|agent| Role::of(agent).takes_slot());
    let wanted: BTreeMap<AgentId, usize> = bombs.map(|bomb| (bomb.clone(), 1)).collect();
    assert_eq!(wanted.len(), 1 + CHILDREN_MAX);
    assert_eq!(alerts(&ledger), wanted, "each is told of once");
    let (idle, busy) = (&mut idle, &mut busy);
    println!(
        "a control round trip: idle p50 {:?} p99 {:?}, beside {} requests p50 {:?} p99 {:?} ({} times)",
        percentile(idle, 50),
        percentile(idle, 99),
        asked() + CHILDREN_MAX * BELOW,
        percentile(busy, 50),
        percentile(busy, 99),
        busy.len(),
    );
    fleet.ok(["doctor", "--check-ledger"]);
    assert_eq!(fleet.stop().code, Some(0));
}
