//! The bus is killed below a thousand working agents and started again: from the start of the new
//! server to the first commit that a request causes, and to the host's next renewal. The floor: a
//! bare client that was connected all the time, until its next message is stored.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::HeaderMap;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::{KeyKind, Subject};
use tetrarch_core::brief::RunnerKind;
use tetrarch_core::id::{AgentId, HostName, ProjectName};
use tetrarch_core::ledger::Record;
use tetrarch_core::run::RunState;

use crate::Effort;
use crate::fleet::{Fleet, new_id, profile, soon};
use crate::table::{Aim, Line, Unit};

/// Projects, each with as many workers as a parent may have: a thousand and two agents.
const PROJECTS: usize = 334;
const WORKERS: usize = 3;

/// Measures it.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let projects = if effort.rounds == 1 { 4 } else { PROJECTS };
    let agents = projects * WORKERS;
    let mut renewed = Line::new(
        &format!("bus killed and started again, {agents} agents, to the host's renewal"),
        Unit::Micros,
        Aim::None,
    );
    let mut committed =
        Line::new("the same, to the next commit of the owner", Unit::Micros, Aim::None);
    let mut fleet = Fleet::start(effort.window).await;
    busy(&fleet, projects).await;
    let before = sessions(&fleet).await;
    assert_eq!(before.len(), agents);
    for _ in 0..effort.rounds.min(5) {
        fleet.server.kill().await;
        let at = Instant::now();
        fleet.server.restart().await;
        let (bare, lease, commit) = tokio::join!(stored(&fleet), renewal(&fleet), commit(&fleet));
        renewed.push(micros(lease - at), micros(bare - at));
        committed.push(micros(commit - at), micros(bare - at));
    }
    assert_eq!(sessions(&fleet).await, before, "nobody was replaced");
    fleet.stop().await;
    vec![renewed, committed]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Has every worker of so many projects at work.
async fn busy(fleet: &Fleet, projects: usize) {
    let subject = "$KV.STATE.run_state.>".to_owned();
    let mut states = fleet.control.client().subscribe(subject).await.unwrap();
    fleet.control.client().flush().await.unwrap();
    for number in 0..projects {
        let name = format!("busy{number}");
        let orchestrator = AgentId::Po(ProjectName::new(&name).unwrap());
        let profiles = vec![profile("sleeper", RunnerKind::Process, &["sleep", "3600"])];
        let create = async { drop(fleet.project(&name, false, profiles).await) };
        fleet.active(&orchestrator, create).await;
        fleet.goal(&ProjectName::new(&name).unwrap(), &plan()).await;
    }
    let mut running = std::collections::BTreeSet::new();
    let all = async {
        while running.len() < projects * WORKERS {
            let message = states.next().await.unwrap();
            let read = tetrarch_bus::codec::record_from_json(&message.subject, &message.payload);
            if let Ok((Record::RunStatus(status), _)) = read
                && status.state == RunState::Running
            {
                running.insert(status.id);
            }
        }
    };
    soon("a thousand running agents", all).await;
}

fn plan() -> Value {
    let tasks: Vec<Value> = (1..=WORKERS)
        .map(|n| {
            json!({"id": format!("T1.{n}"), "name": "work", "task": "Work.",
                        "profile": "sleeper", "acceptance": ["it is done"]})
        })
        .collect();
    json!({
        "planVersion": 1,
        "goal": {"title": "Work", "problemStatement": "Is it done?", "successCriteria": ["yes"]},
        "phases": [{"id": "P1", "name": "Work", "tasks": tasks}],
    })
}

/// Everybody's session at work, by agent.
async fn sessions(fleet: &Fleet) -> Vec<(AgentId, u64)> {
    let records = read_records(&fleet.control, &[Select::Kind(KeyKind::Agent)]).await.unwrap();
    let agents = records.records.into_iter().filter_map(|(record, _)| {
        let Record::Agent(agent) = record else { return None };
        agent.work.is_some().then_some((agent.id, agent.epoch))
    });
    let mut agents: Vec<_> = agents.collect();
    agents.sort();
    agents
}

/// When a bare message is stored.
async fn stored(fleet: &Fleet) -> Instant {
    let subject = Subject::Cursor(AgentId::Worker(new_id().0)).to_string();
    let payload = bytes::Bytes::from_static(b"{}");
    let stored = async {
        while fleet
            .control
            .publish_expect(&subject, HeaderMap::new(), payload.clone(), None)
            .await
            .is_err()
        {}
    };
    soon("a stored message", stored).await;
    Instant::now()
}

/// When the host's lease is renewed.
async fn renewal(fleet: &Fleet) -> Instant {
    let subject = Subject::LeaseHost(HostName::new("bench").unwrap()).to_string();
    let mut renewals = fleet.server.control().await.client().subscribe(subject).await.unwrap();
    soon("a renewal", renewals.next()).await.unwrap();
    Instant::now()
}

/// When the owner has answered a request.
async fn commit(fleet: &Fleet) -> Instant {
    let name = format!("after-{}", new_id().to_string().to_lowercase());
    fleet.project(&name, true, Vec::new()).await;
    Instant::now()
}
