//! The real fleet in this process: a nats-server of its own, the owner, one host with its
//! runner, a human who sets things up. Only setting up and ending; what is measured is elsewhere.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::send::send_request;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::topology::Ages;
use tetrarch_bus::watch::Replies;
use tetrarch_bus::{Bus, codec};
use tetrarch_core::agent::{Mode, Profile};
use tetrarch_core::brief::{RunnerKind, Tools};
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{
    AgentId, EpicId, HostName, HumanName, Principal, ProfileName, ProjectName, RequestId,
};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{MailBody, OpReply};
use tetrarch_core::order::StopWithin;
use tetrarch_core::owner::Policy;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_core::snapshot::Retention;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_engine::{GlobalConfig, HostConfig, HostStop, serve_global, serve_host};
use tetrarch_tests::Server;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::lead;

/// Longest wait for anything at all; nothing that is measured comes near it.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Orders and observations between the host and its runner that wait, as in the product.
const CHANNEL: usize = 256;
/// Agents the host takes: more than any measurement has.
const CAPACITY: u32 = 100_000;

/// Waits for something that has to happen.
///
/// # Panics
/// It did not happen in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {SOON:?}"),
    }
}

/// A running fleet.
pub(crate) struct Fleet {
    /// Its server.
    pub(crate) server: Server,
    /// Its operator.
    pub(crate) human: Principal,
    /// The operator's connection.
    pub(crate) desk: Bus,
    /// A connection that may see everything.
    pub(crate) control: Bus,
    stop: watch::Sender<bool>,
    parts: Vec<JoinHandle<()>>,
    /// The liveness window.
    pub(crate) window: Duration,
}

impl Fleet {
    /// Starts a fleet and waits until its host has joined.
    pub(crate) async fn start(window: Duration) -> Self {
        let server = tetrarch_tests::server().await;
        let (stop, stopped) = watch::channel(false);
        let mut parts = vec![owner(&server, window, stopped.clone()).await];
        parts.extend(host(&server, window, stopped).await);
        let name = HumanName::new("bench").unwrap();
        let desk = server.bus(&CredentialHolder::Human(name.clone())).await;
        let control = server.control().await;
        Self { server, human: Principal::Human(name), desk, control, stop, parts, window }
    }

    /// Stops everything and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        for part in self.parts {
            soon("the end of a part of the fleet", part).await.unwrap();
        }
    }

    /// Has the owner do something, as the operator.
    pub(crate) async fn operate(&self, op: &Op) -> OpReply {
        let id = new_id();
        let payload = codec::encode_op(op, id).unwrap();
        ask(&self.desk, &self.human, OpName::of(op), id, payload).await
    }

    /// A project whose agents are executed by these profiles, with an orchestrator of the host's
    /// or, when it is `external`, of the caller's.
    pub(crate) async fn project(
        &self,
        name: &str,
        external: bool,
        profiles: Vec<Profile>,
    ) -> ProjectName {
        let project = ProjectName::new(name).unwrap();
        let create = ProjectCreate {
            project: project.clone(),
            mode: Mode::default(),
            external,
            tools: Tools::default(),
            budget: Limits::default(),
            local_max_depth: None,
            placement: PlacementWish::default(),
        };
        self.operate(&Op::ProjectCreate(create)).await;
        for profile in profiles {
            let profile = Box::new(profile);
            self.operate(&Op::ProfileApply { project: project.clone(), profile }).await;
        }
        project
    }

    /// A goal of a project, with its plan.
    pub(crate) async fn goal(&self, project: &ProjectName, plan: &Value) -> EpicId {
        let id = new_id();
        let payload = codec::encode_goal_create(id, project, plan).unwrap();
        let op = "goal.create".parse().unwrap();
        ask(&self.desk, &self.human, op, id, payload).await.epic.unwrap()
    }

    /// Waits until an agent is active, as STATE says.
    pub(crate) async fn active<T>(&self, agent: &AgentId, cause: impl Future<Output = T>) -> T {
        let subject = Subject::State(RecordKey::Agent(agent.clone())).to_string();
        let mut states = self.control.client().subscribe(subject).await.unwrap();
        self.control.client().flush().await.unwrap();
        let caused = cause.await;
        let active = async {
            while let Some(message) = states.next().await {
                let read = codec::record_from_json(&message.subject, &message.payload);
                if let Ok((Record::Agent(agent), _)) = read
                    && agent.liveness == Liveness::Active
                {
                    return;
                }
            }
        };
        soon("an active agent", active).await;
        caused
    }
}

/// Asks for an operation and gives its reply.
pub(crate) async fn ask(
    bus: &Bus,
    from: &Principal,
    op: OpName,
    id: RequestId,
    payload: Vec<u8>,
) -> OpReply {
    let mut replies = Replies::open(bus, from).await.unwrap();
    let subject = Subject::Op { op, from: from.clone(), via: None };
    let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
    let headers = envelope.headers(&subject);
    send_request(bus, &subject, headers, payload.into(), Some(SOON)).await.unwrap();
    let mail = replies.wait(id, SOON).await.unwrap();
    let MailBody::Reply(reply) = mail.body else { panic!("{subject} was not answered by a reply") };
    assert_eq!(reply.error, None, "{subject}: {}", reply.detail);
    reply
}

/// A fresh id.
pub(crate) fn new_id() -> RequestId {
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
    RequestId(tetrarch_core::id::Ulid(u128::from_be_bytes(random)))
}

/// A profile of this name.
pub(crate) fn profile(name: &str, kind: RunnerKind, argv: &[&str]) -> Profile {
    Profile {
        name: ProfileName::new(name).unwrap(),
        description: String::new(),
        kind,
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        env: Vec::new(),
        pass_env: Vec::new(),
        writable: Vec::new(),
        model: String::new(),
        served: Default::default(),
        permissions: Default::default(),
        mcp_servers: Vec::new(),
        prompt: String::new(),
        tools: Tools::default(),
        budget: Limits::default(),
        wall: None,
        workspace: String::new(),
        worktree: None,
    }
}

/// A plan of one task for a role's agent of this profile.
pub(crate) fn plan(role: &str, profile: &str) -> Value {
    json!({
        "planVersion": 1,
        "goal": {"title": "Measure", "problemStatement": "How long does it take?",
                 "successCriteria": ["it was measured"]},
        "phases": [{"id": "P1", "name": "Measure", "tasks": [
            {"id": "T1.1", "name": "Lead", "task": "Have it measured.", "role": role,
             "domain": "bench", "profile": profile, "acceptance": ["it is done"]}]}],
    })
}

async fn owner(server: &Server, window: Duration, stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let bus = server.control().await;
    let config = GlobalConfig {
        data_dir: None,
        instance: "bench-owner".to_owned(),
        address: "here".to_owned(),
        ttl_secs: 10,
        window,
        register_deadline: 6 * window,
        mass: MassPolicy::default(),
        replicas: 1,
        halted: tokio::sync::watch::channel(None).1,
        reloads: tokio::sync::watch::channel(None).1,
        policy: Policy { requests_per_second: 1_000_000, ..Policy::default() },
        tick_every: None,
        planner: None,
        retention: Retention::default(),
        ages: Ages::default(),
    };
    let (tell, mut ready) = watch::channel(false);
    let owner = tokio::spawn(async move { serve_global(bus, config, stop, tell).await.unwrap() });
    soon("an owner", async { ready.wait_for(|ready| *ready).await.map(drop) }).await.unwrap();
    owner
}

async fn host(
    server: &Server,
    window: Duration,
    stop: watch::Receiver<bool>,
) -> [JoinHandle<()>; 3] {
    let name = HostName::new("bench").unwrap();
    let bus = server.bus(&CredentialHolder::Host(name.clone())).await;
    let life = new_id().0;
    let mark = tetrarch_runner::HostLife::new(&name, "bench-host", life);
    let config = HostConfig {
        name,
        instance: "bench-host".to_owned(),
        life,
        labels: Vec::new(),
        capacity: CAPACITY,
        address: "here".to_owned(),
        window,
        stop_within: StopWithin::default(),
        artifact_max: 1 << 20,
    };
    let (orders, ordered) = mpsc::channel(CHANNEL);
    let (tell_observed, observed) = mpsc::channel(CHANNEL);
    let (passed_on, to_runner) = mpsc::channel(CHANNEL);
    let leads = tokio::spawn(lead::serve(ordered, passed_on, tell_observed.clone()));
    let runner = runner(mark, &server.data_dir().join("work"));
    let runner = tokio::spawn(tetrarch_runner::serve(runner, to_runner, tell_observed));
    let (tell, mut ready) = watch::channel(false);
    let (ending, stop_host) = watch::channel(HostStop::No);
    let mut stop = stop;
    tokio::spawn(async move {
        let _ended = stop.wait_for(|stop| *stop).await;
        ending.send_replace(HostStop::Now);
    });
    // The host is its process's main task, never one that moves between threads.
    let runtime = tokio::runtime::Handle::current();
    let host = tokio::task::spawn_blocking(move || {
        let (renewed, _) = watch::channel(None);
        runtime
            .block_on(serve_host(bus, config, orders, observed, stop_host, tell, renewed))
            .unwrap();
    });
    soon("a host", async { ready.wait_for(|ready| *ready).await.map(drop) }).await.unwrap();
    [host, leads, runner]
}

fn runner(life: tetrarch_runner::HostLife, workspace_dir: &Path) -> tetrarch_runner::RunnerConfig {
    tetrarch_runner::RunnerConfig {
        life,
        workspace_dir: workspace_dir.to_owned(),
        output_limit: 1 << 20,
        turn_timeout: None,
        artifact_max: 1 << 20,
        cgroup_parent: None,
        containment: tetrarch_runner::Containment::default(),
        worktrees_dir: std::env::temp_dir().join("tetrarch-no-worktrees"),
        worktrees_max: 1,
        prices: Default::default(),
    }
}
