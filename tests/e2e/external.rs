//! An external project orchestrator in Rust, for what has to happen at one moment: it registers,
//! lives, and reads the answers as the bytes they are.

use std::collections::BTreeMap;

use async_nats::{HeaderMap, Subscriber};
use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::{new_ulid, sleeping};

/// The agent.
pub(crate) struct External {
    /// Its name.
    pub(crate) name: String,
    /// Its connection.
    pub(crate) bus: Bus,
    inbox: Subscriber,
    vitals: String,
}

impl External {
    /// Adds it with the command people use, and a profile for what it spawns, registers it and waits until it is active.
    pub(crate) async fn join(fleet: &Fleet, ledger: &mut Ledger, project: &str) -> Self {
        let name = format!("PO-{project}");
        fleet.ok(["agent", "add", &name, "--external"]);
        let profile = sleeping(fleet, "60");
        fleet.ok(["profile", "apply", project, profile.to_str().unwrap()]);
        let id = name.parse().unwrap();
        let bus = fleet.bus(&CredentialHolder::External(id)).await;
        let inbox = bus.client().subscribe(format!("mail.{name}.>")).await.unwrap();
        let mut agent = Self { name, bus, inbox, vitals: String::new() };
        let answer = agent.ask(&format!("op.agent.register.{}", agent.name), json!({})).await;
        agent.vitals = json!({"session": answer["body"]["session"], "epoch": 1}).to_string();
        agent.beat().await;
        let id = agent.name.parse().unwrap();
        ledger
            .until("the external agent is active", |records| {
                let known = records.agents.get(&id)?;
                (known.liveness.as_str() == "active").then_some(())
            })
            .await;
        agent
    }

    /// Says that it lives.
    pub(crate) async fn beat(&self) {
        let vitals = self.vitals.clone().into();
        self.bus.client().publish(format!("hb.{}", self.name), vitals).await.unwrap();
    }

    /// Gives its project a goal and gives the epic's id.
    pub(crate) async fn goal(&mut self) -> String {
        let project = self.name.trim_start_matches("PO-");
        let plan = json!({
            "goal": {"title": "a goal"},
            "phases": [{"id": "P1", "name": "work", "tasks": [
                {"id": "T1.1", "name": "seed", "acceptance": ["it is there"]}
            ]}],
        });
        let body = json!({"project": project, "plan": plan});
        let subject = format!("op.goal.create.{}", self.name);
        let answer = self.ask(&subject, body).await;
        answer["body"]["epic"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Sends a request and gives the mail that answers it.
    pub(crate) async fn ask(&mut self, subject: &str, mut body: Value) -> Value {
        let id = new_ulid();
        body["requestId"] = json!(id);
        self.publish(subject, &body).await;
        let payload = self.answers(&[id]).await.into_values().next().unwrap().remove(0);
        serde_json::from_slice(&payload).unwrap()
    }

    /// The next mail of a topic; others are passed by.
    pub(crate) async fn letter(&mut self, topic: &str) -> Value {
        loop {
            let message = self.inbox.next().await.unwrap();
            let mail: Value = serde_json::from_slice(&message.payload).unwrap();
            if mail["topic"] == topic {
                return mail;
            }
        }
    }

    /// Publishes bytes that the stream has to store.
    pub(crate) async fn publish(&self, subject: &str, body: &Value) {
        let payload = body.to_string().into();
        self.bus.publish_expect(subject, HeaderMap::new(), payload, None).await.unwrap();
    }

    /// Waits for one answer to each time a request stands in the list; the bytes as they came.
    pub(crate) async fn answers(&mut self, requests: &[String]) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut found: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        let mut left = requests.to_vec();
        wait::soon("all answers", async {
            while !left.is_empty() {
                let message = self.inbox.next().await.unwrap();
                let mail: Value = serde_json::from_slice(&message.payload).unwrap();
                let about = mail["correlation"].as_str().unwrap_or_default().to_owned();
                if let Some(at) = left.iter().position(|request| *request == about) {
                    left.swap_remove(at);
                    found.entry(about).or_default().push(message.payload.to_vec());
                }
            }
        })
        .await;
        found
    }
}
