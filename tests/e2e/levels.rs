//! Four levels and no fifth; specialists have children only through their sponsor (spec 03, Who
//! may be the parent of whom).

use std::path::PathBuf;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::HeaderMap;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::agent::Agent;
use tetrarch_core::id::HostName;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::{acting, new_ulid};

/// A plan whose specialist asks for a worker, which asks for one more.
fn plan(fleet: &Fleet, act: &[&str]) -> PathBuf {
    let plan = json!({
        "project": "levels",
        "output": "T1.1",
        "goal": {"title": "Four levels"},
        "phases": [{"id": "P1", "name": "Nest", "tasks": [{
            "id": "T1.1", "name": "A specialist with a worker", "role": "specialist",
            "domain": "nesting", "profile": "nest", "acceptance": ["it tells what it heard"],
        }]}],
        "profiles": {
            "nest": {"argv": acting(act), "wall": "60s"},
            "deeper": {"argv": acting(&["deeper"]), "wall": "60s"},
        },
    });
    fleet.file("levels.json", &plan.to_string())
}

fn of_role(records: &Records, role: Role) -> Option<Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == role).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn specialist_gets_a_worker_through_its_sponsor_and_the_worker_none() {
    let fleet = Fleet::up();
    let plan = plan(&fleet, &["nest"]);
    let told = fleet.ok(["run", "--quiet", plan.to_str().unwrap()]);
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(told["depth"], 2);
    let heard = told["heard"].as_array().unwrap();
    let topic = |wanted: &str| heard.iter().find(|mail| mail["topic"] == wanted);
    let granted = topic("spawn.sponsor.answer").or_else(|| topic("spawn.accepted")).unwrap();
    assert_eq!(granted["from"], "PO-levels", "its sponsor tells it");
    assert_eq!(granted["body"]["spawnedAgents"][0]["depth"], 3);

    // What the worker below it was answered, as it told its specialist.
    let result = &topic("result.ready").unwrap()["body"]["result"];
    let deeper = &result["deliverable"];
    let deeper: Value = match deeper.as_str() {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => deeper.clone(),
    };
    assert_eq!(deeper["depth"], 3);
    assert_eq!(deeper["answer"]["topic"], "spawn.denied", "{deeper}");
    let denied = &deeper["answer"]["body"]["deniedAgents"][0];
    assert_eq!(denied["reason"], "spawn_depth_exceeded", "{deeper}");

    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let ended = |records: &Records| {
        let worker = of_role(records, Role::Worker)?;
        Some((worker, of_role(records, Role::Specialist)?))
    };
    let (worker, specialist) = ledger.until("both are known", ended).await;
    assert_eq!(worker.parent, Some(specialist.id.clone()));
    assert_eq!(worker.requested_by, specialist.id.into());
    assert_eq!((specialist.depth, worker.depth), (2, 3));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn specialist_asking_the_owner_directly_is_refused() {
    let fleet = Fleet::up();
    let gate = fleet.cwd().join("gate");
    let plan = plan(&fleet, &["gate", gate.to_str().unwrap()]);
    let running = fleet.spawn(["run", "--quiet", plan.to_str().unwrap()]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let specialist = ledger
        .until("the specialist works", |records| {
            let agent = of_role(records, Role::Specialist)?;
            (agent.liveness.as_str() == "active").then_some(agent)
        })
        .await;
    let epic = specialist.work.as_ref().unwrap().epic;

    // Its host may publish for it; a host that forwards it past the sponsor changes nothing.
    let host = HostName::new("h1").unwrap();
    let bus = fleet.bus(&CredentialHolder::Host(host.clone())).await;
    let mut inbox = control.client().subscribe(format!("mail.{}.>", specialist.id)).await.unwrap();
    control.client().flush().await.unwrap();
    let id = new_ulid();
    let body = json!({
        "requestId": id,
        "spawnReason": "nobody needs to know",
        "requestedSubagents": [{"role": "worker", "task": "a part", "runner": "deeper"}],
    });
    let subject = format!("spawn.request.{epic}.-.{}.{host}", specialist.id);
    let mut headers = HeaderMap::new();
    headers.insert("Tetrarch-Session", specialist.session.unwrap().to_string());
    headers.insert("Tetrarch-Epoch", specialist.epoch.to_string());
    bus.publish_expect(&subject, headers, body.to_string().into(), None).await.unwrap();
    let answer: Value = wait::soon("the answer", async {
        loop {
            let mail = inbox.next().await.unwrap();
            let mail: Value = serde_json::from_slice(&mail.payload).unwrap();
            if mail["correlation"] == id.as_str() {
                return mail;
            }
        }
    })
    .await;
    assert_eq!(answer["topic"], "spawn.denied", "{answer}");
    assert_eq!(answer["body"]["deniedAgents"][0]["reason"], "role_not_allowed", "{answer}");

    // A sponsor may ask for it: the human above all.
    let said = fleet.run(
        ["spawn", specialist.id.to_string().as_str(), "worker", "--task", "a part"]
            .into_iter()
            .chain(["--epic", &epic.to_string(), "--profile", "deeper"]),
    );
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let worker = ledger.until("the worker", |records| of_role(records, Role::Worker)).await;
    assert_eq!((worker.parent, worker.depth), (Some(specialist.id), 3));
    std::fs::write(gate, "open").unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}
