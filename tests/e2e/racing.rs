//! Spawn requests that race, and requests that come twice (spec 03, Spawn protocol; spec 10,
//! invariants 2 to 4): however many ask at once, three are accepted, and an id is decided once.

use std::collections::BTreeSet;

use async_nats::HeaderMap;
use serde_json::{Value, json};
use tetrarch_core::records::Records;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::external::External;
use crate::new_ulid;

/// Requests at once.
const RACERS: usize = 64;
/// How often they race.
const ROUNDS: usize = 4;

fn request(id: &str, reason: &str) -> Value {
    json!({
        "requestId": id,
        "spawnReason": reason,
        "requestedSubagents": [{"role": "worker", "task": "wait"}],
    })
}

fn parsed(answer: &[u8]) -> Value {
    serde_json::from_slice(answer).unwrap()
}

/// Three agents of its project run, each in one process; none else.
fn three_processes(fleet: &Fleet, names: &BTreeSet<String>) {
    wait::until("a process for every accepted agent", || {
        let running = fleet.agents();
        let agents: BTreeSet<String> = running.iter().filter_map(|p| p.agent.clone()).collect();
        names.is_subset(&agents).then_some(())
    });
    let running = fleet.agents();
    for name in names {
        let own: Vec<_> = running.iter().filter(|p| p.agent.as_ref() == Some(name)).collect();
        assert_eq!(own.len(), 1, "{own:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_three_of_64_concurrent_requests_are_accepted() {
    let fleet = Fleet::prepared().with_option("--capacity", "64");
    let fleet = fleet.started();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut started = BTreeSet::new();
    for round in 0..ROUNDS {
        let project = format!("race{round}");
        let mut agent = External::join(&fleet, &mut ledger, &project).await;
        let epic = agent.goal().await;
        let subject = format!("spawn.request.{epic}.-.{}", agent.name);
        let ids: Vec<String> = (0..RACERS).map(|_| new_ulid()).collect();
        let racing = ids.iter().map(|id| {
            let payload = request(id, "at once").to_string().into();
            agent.bus.publish_expect(&subject, HeaderMap::new(), payload, None)
        });
        for stored in futures::future::join_all(racing).await {
            stored.unwrap();
        }
        let answers = agent.answers(&ids).await;
        let mut names = BTreeSet::new();
        for answer in answers.values().flatten() {
            let answer = parsed(answer);
            let body = &answer["body"];
            if answer["topic"] == "spawn.accepted" {
                names.insert(body["spawnedAgents"][0]["actorId"].as_str().unwrap().to_owned());
            } else {
                assert_eq!(answer["topic"], "spawn.denied");
                assert_eq!(body["deniedAgents"][0]["reason"], "children_limit_exceeded", "{body}");
            }
        }
        assert_eq!((answers.len(), names.len()), (RACERS, 3), "round {round}");
        three_processes(&fleet, &names);
        started.extend(names);
    }
    assert_eq!(fleet.agents().len(), 3 * ROUNDS, "{:?}", fleet.agents());
    ledger
        .until("every run is started", |records| {
            let running =
                |status: &&tetrarch_core::run::RunStatus| status.state == RunState::Running;
            (records.run_status.values().filter(running).count() == started.len()).then_some(())
        })
        .await;
    assert!(ledger.widest().values().all(|slots| *slots <= 3), "{:?}", ledger.widest());
    assert_eq!(ledger.records.runs.len(), started.len(), "one run for each that was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_is_answered_the_same_and_starts_one_process() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut agent = External::join(&fleet, &mut ledger, "twice").await;
    let epic = agent.goal().await;
    let subject = format!("spawn.request.{epic}.-.{}", agent.name);

    let id = new_ulid();
    let body = request(&id, "once is enough");
    for _ in 0..3 {
        agent.publish(&subject, &body).await;
    }
    let answers = agent.answers(&[id.clone(), id.clone(), id.clone()]).await;
    let answers = &answers[&id];
    assert!(answers.iter().all(|answer| answer == &answers[0]), "byte for byte");
    let answer = parsed(&answers[0]);
    assert_eq!(answer["topic"], "spawn.accepted");
    let child = answer["body"]["spawnedAgents"][0]["actorId"].as_str().unwrap().to_owned();

    // Long after the decision, and between others.
    let refused = agent.ask(&subject, json!({"requestedSubagents": []})).await;
    assert_eq!(refused["body"]["reason"], "invalid_request", "{refused}");
    agent.publish(&subject, &body).await;
    let again = agent.answers(std::slice::from_ref(&id)).await;
    assert_eq!(again[&id][0], answers[0], "byte for byte");

    agent.publish(&subject, &request(&id, "something else")).await;
    let other = agent.answers(std::slice::from_ref(&id)).await;
    let other = parsed(&other[&id][0]);
    assert_eq!(other["topic"], "spawn.denied", "{other}");
    assert!(other.to_string().contains("E_CONFLICT"), "{other}");
    agent.publish(&subject, &body).await;
    let still = agent.answers(std::slice::from_ref(&id)).await;
    assert_eq!(still[&id][0], answers[0], "a conflict does not change what was decided");

    three_processes(&fleet, &BTreeSet::from([child]));
    assert_eq!(fleet.agents().len(), 1, "{:?}", fleet.agents());
    let running = |records: &Records| {
        let mut states = records.run_status.values().map(|status| status.state);
        states.any(|state| state == RunState::Running).then_some(())
    };
    ledger.until("the run is started", running).await;
    assert_eq!(ledger.records.agents[&agent.name.parse().unwrap()].slots.len(), 1);
    assert_eq!(ledger.records.runs.len(), 1);
    fleet.ok(["doctor", "--check-ledger"]);
}
