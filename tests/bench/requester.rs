//! An external project orchestrator: a program with a connection of its own that asks for agents
//! and reads its mail, as any client in any language does.

use bytes::Bytes;
use futures::StreamExt;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::brief::RunnerKind;
use tetrarch_core::budget::Limits;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{AgentId, EpicId, Principal, ProjectName, RequestId};
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, SpawnRequest, SubagentWish, TaskWish};
use tetrarch_core::role::Role;
use tetrarch_core::vitals::Vitals;
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval};

use crate::fleet::{Fleet, ask, new_id, plan, profile};

/// Signs of life in one window, those of the product.
const BEATS: u32 = 3;

/// A message that is ready to go.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    /// Where to.
    pub(crate) subject: String,
    /// Beside the body.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) payload: Bytes,
}

impl Outgoing {
    /// Sends it and does not wait until it is stored.
    pub(crate) async fn send(self, bus: &Bus) {
        bus.start_publish(&self.subject, self.headers, self.payload, None).await.unwrap();
    }
}

/// An external project orchestrator.
#[derive(Debug)]
pub(crate) struct Requester {
    /// Its connection.
    pub(crate) bus: Bus,
    /// Who it is.
    pub(crate) agent: AgentId,
    project: ProjectName,
    epoch: u64,
    mail: async_nats::Subscriber,
    beating: AbortHandle,
}

/// Without signs of life it would be stale while others are measured, and ask for nothing.
impl Drop for Requester {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

impl Requester {
    /// Makes a project whose agents give their brief back, and registers as its orchestrator.
    pub(crate) async fn join(fleet: &Fleet, name: &str) -> Self {
        let profiles = vec![profile("default", RunnerKind::Echo, &[])];
        let project = fleet.project(name, true, profiles).await;
        let agent = AgentId::Po(project.clone());
        let bus = fleet.server.bus(&CredentialHolder::External(agent.clone())).await;
        let from = Principal::Agent(agent.clone());
        let id = new_id();
        let payload = codec::encode_op(&Op::AgentRegister, id).unwrap();
        let reply = ask(&bus, &from, OpName::of(&Op::AgentRegister), id, payload).await;
        let (session, epoch) = (reply.session.unwrap(), reply.agent_epoch.unwrap());
        let vitals = Vitals {
            agent: agent.clone(),
            session,
            epoch,
            run_state: None,
            positions: Positions::default(),
            progress: 0,
            tokens: 0,
            tokens_out: 0,
            turns: 0,
            cost_micro: 0,
            burn: Default::default(),
            tool: String::new(),
            words: String::new(),
        };
        let beat = codec::encode_heartbeat(&vitals).unwrap();
        let subject = Subject::Heartbeat(agent.clone()).to_string();
        let (client, every) = (bus.client().clone(), fleet.window / BEATS);
        let heartbeats = async {
            let beating = tokio::spawn(async move {
                let mut times = interval(every);
                loop {
                    times.tick().await;
                    client.publish(subject.clone(), beat.clone().into()).await.unwrap();
                }
            });
            beating.abort_handle()
        };
        let beating = fleet.active(&agent, heartbeats).await;
        let mail = bus.client().subscribe(Subject::inbox(Lane::Mail, &from)).await.unwrap();
        bus.client().flush().await.unwrap();
        Self { bus, agent, project, epoch, mail, beating }
    }

    /// A goal whose one task stays undone, so that it stays open.
    pub(crate) async fn goal(&self, fleet: &Fleet) -> EpicId {
        fleet.goal(&self.project, &plan("specialist", "default")).await
    }

    /// A request for one worker.
    pub(crate) fn request(&self, epic: EpicId) -> (RequestId, Outgoing) {
        let wish = SubagentWish {
            role: Role::Worker,
            domain: None,
            task: TaskWish::Task("give this back".to_owned()),
            suggested_actor_id: String::new(),
            local_max_depth: None,
            budget: Limits::default(),
            wall: None,
            tools: None,
            profile: None,
            placement: PlacementWish::default(),
        };
        let wanted = SpawnRequest {
            epic,
            node: None,
            parent: None,
            requested_by: None,
            reason: "to measure".to_owned(),
            caller_depth: None,
            caller_max_depth: None,
            caller_local_max_depth: None,
            subagents: vec![wish],
            ack_required: true,
            wait: false,
        };
        let id = new_id();
        let from = Principal::Agent(self.agent.clone());
        let subject = Subject::SpawnRequest { epic, node: None, from, via: None };
        let payload = codec::encode_spawn_request(&wanted, id).unwrap().into();
        let headers = self.envelope(&id.to_string()).headers(&subject);
        (id, Outgoing { subject: subject.to_string(), headers, payload })
    }

    /// What its messages carry beside their bodies.
    pub(crate) fn envelope(&self, id: &str) -> Envelope {
        Envelope { msg_id: Some(id.to_owned()), epoch: Some(self.epoch), ..Envelope::default() }
    }

    /// The next message of its mail, and when it came.
    pub(crate) async fn read(&mut self) -> (Mail, Instant) {
        let message = self.mail.next().await.unwrap();
        let at = Instant::now();
        let headers = message.headers.unwrap_or_default();
        (codec::decode_mail(&message.subject, &headers, &message.payload).unwrap().0, at)
    }
}
