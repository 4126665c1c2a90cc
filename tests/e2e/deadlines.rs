//! Nothing stays in a state for ever: programs that do not go on, and hosts that do not answer
//! (spec 04, Crash recovery; spec 06, The run's state machine).

use std::time::Duration;

use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::codec::{self, HostLease};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::lease::{Lease, LeaseKey, LeaseRequest, RenewError};
use tetrarch_bus::send::send_request;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_core::agent::Agent;
use tetrarch_core::id::{AgentId, HostName, Principal, RequestId};
use tetrarch_core::ledger::EventKind;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::request::{HostJoin, Op};
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger, Program, wait};
use tokio::task::JoinHandle;

use crate::{acting, new_ulid};

fn plan(argv: &[String]) -> String {
    let plan = json!({
        "project": "patient",
        "output": "T1.1",
        "goal": {"title": "Come to an end"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            {"id": "T1.1", "name": "wait", "profile": "waiting", "maxAttempts": 1,
             "acceptance": ["it ends"]},
        ]}],
        "profiles": {"waiting": {"argv": argv, "wall": "60s"}},
    });
    plan.to_string()
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

fn start(fleet: &Fleet, act: &[&str]) -> Program {
    let file = fleet.file("patient.json", &plan(&acting(act)));
    fleet.spawn(["run", file.to_str().unwrap()])
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_stays_blocked_fails_and_its_program_is_ended() {
    let fleet = Fleet::prepared().with_env("TETRARCH_DEADLINES_BLOCKED", "1s").started();
    let _running = start(&fleet, &["stuck"]);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let status = ledger
        .until("the run is over", |records| {
            let status = records.run_status.values().find(|status| status.state.is_terminal())?;
            Some(status.clone())
        })
        .await;
    assert_eq!(status.state, RunState::Failed);
    let result = status.result.unwrap();
    assert!(result.error.contains("was blocked for"), "{}", result.error);
    let moved = ledger.events(EventKind::RunState);
    assert!(moved.iter().any(|event| event.reason.contains("running -> blocked")), "{moved:?}");
    assert!(ledger.events(EventKind::Alert).iter().any(|e| e.reason.contains("run.overdue")));
    wait::until("its program is gone", || fleet.agents().is_empty().then_some(()));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deaf_program_is_killed_within_the_stop_deadline() {
    let fleet = Fleet::prepared()
        .with_env("TETRARCH_RUNS_DRAIN", "500ms")
        .with_env("TETRARCH_RUNS_KILL_GRACE", "500ms")
        .started();
    let witness = fleet.cwd().join("witness");
    let _running = start(&fleet, &["mute", witness.to_str().unwrap()]);
    wait::until("it is deaf", || witness.exists().then_some(()));
    let mut ledger = Ledger::follow(&fleet.control().await);
    let agent = ledger
        .until("it runs", |records| {
            let worker = worker(records)?;
            (worker.liveness == Liveness::Active).then(|| worker.id.to_string())
        })
        .await;
    fleet.ok(["stop", &agent, "--reason", "enough", "--timeout", "10s"]);
    assert_eq!(fleet.agents(), [], "its program is gone");
    let kind = ledger
        .until("its node is blocked", |records| {
            let states = records.node_states.values().flat_map(|states| states.values());
            states.filter_map(|state| state.blocker.as_ref()).map(|b| b.kind.clone()).next()
        })
        .await;
    assert_eq!(kind, "stopped");
    let moved = ledger.events(EventKind::RunState);
    assert!(moved.iter().any(|event| event.reason.contains("cancelling -> failed")), "{moved:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// Short enough for a test, long enough for a machine that is busy.
const WINDOW: Duration = Duration::from_millis(400);

/// A host that keeps its lease and does nothing it is told. Gives when its lease was lost.
async fn idle_host(bus: Bus, name: &HostName) -> JoinHandle<RenewError> {
    let owner = Principal::Agent(AgentId::Ho(name.clone()));
    let body = HostLease { capacity: 64, ..HostLease::default() };
    let body = codec::encode_host_lease(&body).unwrap();
    let claim = LeaseRequest {
        key: LeaseKey::Host(name.clone()),
        instance: "idle".to_owned(),
        address: "nowhere".to_owned(),
        floor: 0,
        ttl_secs: None,
        now_unix_ms: 1,
        body: body.clone(),
    };
    let mut lease = Lease::acquire(&bus, claim).await.unwrap();
    let op = Op::HostJoin(HostJoin {
        instance: "idle".to_owned(),
        lease_epoch: lease.epoch(),
        labels: Vec::new(),
        capacity: 64,
        address: "nowhere".to_owned(),
    });
    let id: RequestId = new_ulid().parse().unwrap();
    let subject = Subject::Op { op: OpName::of(&op), from: owner, via: Some(name.clone()) };
    let epoch = Some(lease.epoch());
    let envelope = Envelope { msg_id: Some(id.to_string()), epoch, ..Envelope::default() };
    let payload = codec::encode_op(&op, id).unwrap().into();
    send_request(&bus, &subject, envelope.headers(&subject), payload, None).await.unwrap();
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(WINDOW / 3);
        loop {
            beat.tick().await;
            if let Err(lost) = lease.renew(body.clone()).await {
                return lost;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_host_loses_its_lease_and_its_work_goes_on_elsewhere() {
    let window = format!("{}ms", WINDOW.as_millis());
    let fleet = Fleet::prepared()
        .with_env("TETRARCH_LIVENESS_WINDOW", window)
        .with_env("TETRARCH_RUNS_DRAIN", "300ms")
        .with_env("TETRARCH_RUNS_KILL_GRACE", "300ms")
        .started();
    fleet.ok(["project", "create", "patient"]);
    let idle = HostName::new("idle").unwrap();
    let lost = idle_host(fleet.bus(&CredentialHolder::Host(idle.clone())).await, &idle).await;
    let mut ledger = Ledger::follow(&fleet.control().await);
    ledger.until("it joined", |records| records.hosts.get(&idle).cloned()).await;

    let gate = fleet.file("gate", "");
    let running = start(&fleet, &["gate", gate.to_str().unwrap()]);
    let on = |records: &Records, host: &str| {
        let agent = worker(records)?;
        let placed = agent.placement.as_ref().is_some_and(|place| place.host.as_str() == host);
        placed.then(|| agent.clone())
    };
    ledger.until("it is placed where there is room", |records| on(records, "idle")).await;
    let ordered = ledger.until("it is ordered to end", |records| on(records, "idle")?.ending).await;
    assert!(ordered.reason.contains("did not begin to start it"), "{}", ordered.reason);
    let lost = lost.await.unwrap();
    assert!(matches!(lost, RenewError::Lost { .. }), "{lost}");
    let next = ledger.until("it goes on elsewhere", |records| on(records, "h1")).await;
    assert_eq!(next.epoch, 2);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    fleet.ok(["doctor", "--check-ledger"]);
}
