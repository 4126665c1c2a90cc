//! A fleet to decide on: an owner's records with a clock that is set, and short ways to say who
//! asks for what. Every commit is checked on its way.

use serde_json::{Value, json};

use crate::agent::{Agent, DEFAULT_PROFILE, Mode};
use crate::brief::{Outcome, RunResult, Tools};
use crate::budget::Limits;
use crate::check::{check, check_entry};
use crate::error::DenialReason;
use crate::id::{
    AgentId, CommitId, Domain, EpicId, HostName, HumanName, NodeId, Principal, ProjectName,
    RequestId, RunId, Ulid, sha256_hex,
};
use crate::ledger::Entry;
use crate::mail::{Mail, MailBody, OpReply, SpawnAnswer};
use crate::owner::{Group, Input, Policy, decide};
use crate::plan::schema::{self, PlanFile};
use crate::plan::{NodeState, PlacementWish};
use crate::records::Records;
use crate::request::{
    HostJoin, Op, ProjectCreate, Report, Request, RequestBody, Sender, SpawnRequest, SubagentWish,
    TaskWish,
};
use crate::role::Role;
use crate::time::BusTime;

/// An owner's records, checked after every commit.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) records: Records,
    pub(crate) policy: Policy,
    pub(crate) now: BusTime,
    pub(crate) ledger: Vec<Entry>,
    asked: u64,
}

pub(crate) fn id(text: &str) -> AgentId {
    text.parse().unwrap()
}

pub(crate) fn node(text: &str) -> NodeId {
    text.parse().unwrap()
}

pub(crate) fn human() -> Principal {
    Principal::Human(HumanName::new("Shai").unwrap())
}

pub(crate) fn project() -> ProjectName {
    ProjectName::new("demo").unwrap()
}

pub(crate) fn po() -> AgentId {
    AgentId::Po(project())
}

/// A plan that comes with a default profile, so that each piece of its work has one.
pub(crate) fn equipped(mut plan: PlanFile) -> PlanFile {
    let own = plan.profiles.iter().any(|profile| profile.name.as_str() == DEFAULT_PROFILE);
    if !own {
        let document = json!({"name": DEFAULT_PROFILE, "argv": ["head", "-n", "1"]});
        plan.profiles.push(schema::parse_profile(&document).unwrap());
    }
    plan
}

/// Whose processes an entry has killed, in their order.
pub(crate) fn killed(entry: &Entry) -> Vec<&AgentId> {
    let orders = entry.mail.iter().filter_map(|mail| {
        if let MailBody::Kill(order) = &mail.body { Some(&order.agent) } else { None }
    });
    orders.collect()
}

pub(crate) fn success(text: &str) -> RunResult {
    RunResult { deliverable: text.to_owned(), ..RunResult::ended(Outcome::Success, "") }
}

pub(crate) fn wish(role: Role) -> SubagentWish {
    SubagentWish {
        role,
        domain: role.has_domain().then(|| Domain::new("api").unwrap()),
        task: TaskWish::Task("do it".to_owned()),
        suggested_actor_id: String::new(),
        local_max_depth: None,
        budget: Limits::default(),
        wall: None,
        tools: None,
        profile: None,
        placement: PlacementWish::default(),
    }
}

pub(crate) fn request(epic: EpicId, on: &str, subagents: Vec<SubagentWish>) -> SpawnRequest {
    SpawnRequest {
        epic,
        node: (on != "-").then(|| node(on)),
        parent: None,
        requested_by: None,
        reason: "because".to_owned(),
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents,
        ack_required: true,
        wait: false,
    }
}

pub(crate) fn join(instance: &str, lease_epoch: u64, capacity: u32) -> Op {
    Op::HostJoin(HostJoin {
        instance: instance.to_owned(),
        lease_epoch,
        labels: vec![("zone".to_owned(), "a".to_owned())],
        capacity,
        address: "here".to_owned(),
    })
}

pub(crate) fn create(external: bool) -> ProjectCreate {
    ProjectCreate {
        project: project(),
        mode: Mode::Orchestrator,
        external,
        tools: Tools::every(),
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    }
}

impl Fleet {
    /// An owner in its first epoch, and nothing else.
    pub(crate) fn new() -> Self {
        let mut fleet = Self {
            records: Records::default(),
            policy: Policy::default(),
            now: BusTime(1_000_000),
            ledger: Vec::new(),
            asked: 0,
        };
        fleet.one(Input::Started { epoch: 1, instance: "one".to_owned() });
        fleet
    }

    /// A host `h1` with room for 20, a project `demo` whose orchestrator is active.
    pub(crate) fn ready() -> Self {
        let mut fleet = Self::new();
        fleet.join("h1", "life1", 20);
        let made = fleet.op(&human(), Op::ProjectCreate(create(false)));
        assert_eq!(made.error, None, "{made:?}");
        fleet.report(&po(), Report::Ready);
        fleet
    }

    /// A ready fleet with a goal of this plan.
    pub(crate) fn with_goal(plan: Value) -> (Self, EpicId) {
        let mut fleet = Self::ready();
        let epic = fleet.goal(plan);
        (fleet, epic)
    }

    /// Decides on inputs as one group and commits them as one entry.
    pub(crate) fn group(&mut self, inputs: Vec<Input>) -> Entry {
        let before = self.records.clone();
        let mut group = Group::default();
        for input in inputs {
            let seq = if let Input::Request(request) = &input { request.seq } else { 0 };
            let step = decide(&self.records, &self.policy, self.now, &input);
            let again = decide(&self.records, &self.policy, self.now, &input);
            assert_eq!(step, again, "deciding again gives the same");
            group.add(&mut self.records, step, seq);
        }
        let epoch = self.records.agents.get(&AgentId::Go).map_or(1, |go| go.epoch);
        let commit = CommitId(Ulid(self.ledger.len() as u128));
        let entry = group.finish(&mut self.records, commit, epoch, self.now);
        let seq = self.ledger.len() as u64 + 1;
        assert_eq!(check_entry(&before, seq, &entry), []);
        assert_eq!(check(&self.records), []);
        let mut replayed = before;
        replayed.apply(&entry);
        assert_eq!(replayed, self.records, "a replay gives the same records");
        self.ledger.push(entry.clone());
        self.now.0 += 10;
        entry
    }

    /// Decides on one input and commits it.
    pub(crate) fn one(&mut self, input: Input) -> Entry {
        self.group(vec![input])
    }

    /// A message of `REQUESTS`, sent by who the records say is current.
    pub(crate) fn ask(&mut self, from: &Principal, body: RequestBody) -> Request {
        self.asked += 1;
        let agent = from.agent().and_then(|id| self.records.agents.get(id));
        let via = match from {
            Principal::Agent(AgentId::Ho(host)) => Some(host.clone()),
            Principal::Agent(_) | Principal::Human(_) => {
                agent.and_then(|agent| agent.placement.as_ref()).map(|place| place.host.clone())
            }
        };
        Request {
            seq: self.asked,
            sender: Sender {
                from: from.clone(),
                via,
                session: agent.and_then(|agent| agent.session),
                epoch: agent.map_or(1, |agent| agent.epoch),
            },
            id: RequestId(Ulid(u128::from(self.asked) << 8)),
            digest: sha256_hex(format!("{body:?}").as_bytes()),
            trace: None,
            credential: None,
            body,
        }
    }

    pub(crate) fn asking(&mut self, from: &Principal, body: RequestBody) -> Input {
        Input::Request(Box::new(self.ask(from, body)))
    }

    pub(crate) fn op(&mut self, from: &Principal, op: Op) -> OpReply {
        let input = self.asking(from, RequestBody::Op(op));
        reply(&self.one(input))
    }

    pub(crate) fn join(&mut self, host: &str, life: &str, capacity: u32) -> Entry {
        let ho = AgentId::Ho(HostName::new(host).unwrap());
        let epoch = self.records.agents.get(&ho).map_or(1, |ho| ho.epoch + 1);
        let input =
            self.asking(&Principal::Agent(ho), RequestBody::Op(join(life, epoch, capacity)));
        let entry = self.one(input);
        assert_eq!(reply(&entry).error, None);
        entry
    }

    pub(crate) fn goal(&mut self, plan: Value) -> EpicId {
        let plan = Box::new(equipped(schema::parse(&plan).unwrap()));
        let made = self.op(&human(), Op::GoalCreate { project: project(), plan });
        assert_eq!(made.error, None, "{made:?}");
        made.epic.unwrap()
    }

    pub(crate) fn report(&mut self, from: &AgentId, report: Report) -> Entry {
        let input = self.asking(&Principal::Agent(from.clone()), RequestBody::Report(report));
        self.one(input)
    }

    /// A spawn request by an agent for itself.
    pub(crate) fn spawn(&mut self, from: &AgentId, wanted: SpawnRequest) -> SpawnAnswer {
        let input = self.asking(&Principal::Agent(from.clone()), RequestBody::Spawn(wanted));
        answer(&self.one(input))
    }

    /// Admits one worker of the project's orchestrator for a node and lets it come up.
    pub(crate) fn worker(&mut self, epic: EpicId, on: &str) -> AgentId {
        self.member(epic, on, Role::Worker)
    }

    pub(crate) fn member(&mut self, epic: EpicId, on: &str, role: Role) -> AgentId {
        let answer = self.spawn(&po(), request(epic, on, vec![wish(role)]));
        assert!(answer.accepted(), "{answer:?}");
        let agent = answer.spawned[0].agent.clone();
        self.report(&agent, Report::Ready);
        agent
    }

    /// A worker below a specialist, asked for by the specialist's sponsor.
    pub(crate) fn sponsored(&mut self, epic: EpicId, specialist: &AgentId) -> SpawnAnswer {
        let mut wanted = request(epic, "-", vec![wish(Role::Worker)]);
        wanted.parent = Some(specialist.clone());
        wanted.requested_by = Some(specialist.clone().into());
        self.spawn(&po(), wanted)
    }

    /// The agent's run ends with this.
    pub(crate) fn end(&mut self, agent: &AgentId, result: RunResult) -> Entry {
        let run = Some(self.run_of(agent));
        self.report(agent, Report::Result { run, epic: None, result })
    }

    pub(crate) fn agent(&self, id: &AgentId) -> &Agent {
        &self.records.agents[id]
    }

    pub(crate) fn run_of(&self, id: &AgentId) -> RunId {
        self.agent(id).work.as_ref().unwrap().run
    }

    pub(crate) fn node(&self, epic: EpicId, on: &str) -> &NodeState {
        &self.records.node_states[&epic][&node(on)]
    }
}

/// The reply that an entry gives to an operation.
pub(crate) fn reply(entry: &Entry) -> OpReply {
    let found = entry.mail.iter().find_map(|mail| {
        if let MailBody::Reply(reply) = &mail.body { Some(reply.clone()) } else { None }
    });
    found.expect("the operation is answered")
}

/// The answer that an entry gives to a spawn request.
pub(crate) fn answer(entry: &Entry) -> SpawnAnswer {
    let found = entry.mail.iter().find_map(|mail| {
        if let MailBody::SpawnAnswer(answer) = &mail.body { Some(answer.clone()) } else { None }
    });
    found.expect("the request is answered")
}

/// The reasons of a refusal, by index.
pub(crate) fn reasons(answer: &SpawnAnswer) -> Vec<DenialReason> {
    answer.denied.iter().map(|denied| denied.reason).collect()
}

/// What an entry sends to somebody, by topic.
pub(crate) fn topics(entry: &Entry, to: &AgentId) -> Vec<String> {
    let own = entry.mail.iter().filter(|mail: &&Mail| mail.to.agent() == Some(to));
    own.map(|mail| mail.body.topic().to_owned()).collect()
}

/// A plan of one phase with these tasks.
pub(crate) fn plan_of(tasks: &[Value]) -> Value {
    json!({"title": "goal", "phases": [{"id": "P1", "name": "phase", "tasks": tasks}]})
}

/// A task with some fields besides.
pub(crate) fn task(id: &str, fields: Value) -> Value {
    let mut task = json!({"id": id, "name": id, "acceptance": ["it holds"]});
    let Value::Object(fields) = fields else { panic!("fields are a mapping") };
    task.as_object_mut().unwrap().extend(fields);
    task
}

/// This many tasks that wait for nothing.
pub(crate) fn tasks(count: usize) -> Value {
    let tasks: Vec<Value> = (1..=count).map(|n| task(&format!("T1.{n}"), json!({}))).collect();
    plan_of(&tasks)
}
