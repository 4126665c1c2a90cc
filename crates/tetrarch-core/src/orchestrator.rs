//! The project orchestrator's machine (spec 01, 03, 05): which ready nodes to ask agents for,
//! within its limits; reviewing, sponsoring specialists, blocking what cannot be staffed, and
//! putting the result together. It sees its epics through plan events, decides nothing about
//! records (the owner does), and can be started again at any moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::assignment::Purpose;
use crate::brief::{Artifact, Outcome, RunResult};
use crate::budget::Limits;
use crate::error::DenialReason;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId, Principal, RequestId, SessionId};
use crate::limits::{CHILDREN_MAX, DELIVERABLE_BYTES_MAX};
use crate::mail::{Denied, Mail, MailBody, ResultReady, SpawnAnswer, SponsorRequest};
use crate::plan::{Blocker, Node, NodeStatus, NodeView, PlacementWish, PlanEvent};
use crate::request::{Op, Report, SpawnRequest, SubagentWish, TaskWish};
use crate::role::Role;
use crate::time::{BusTime, Millis};

/// First wait after a refusal that time may cure; doubled with each further one.
const RETRY_FIRST: Millis = Millis(250);
/// Longest wait after a refusal that time may cure.
const RETRY_MAX: Millis = Millis::from_secs(30);

/// What a project orchestrator learns.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// It is to work on an epic.
    TakeOn(EpicId),
    /// What an epic's plan is like now.
    Plan(Box<PlanEvent>),
    /// A message from its inbox.
    Mail {
        /// Who wrote it.
        from: Principal,
        /// What it says.
        mail: Box<Mail>,
    },
    /// What was asked for with [`Effect::Collect`].
    Collected {
        /// The epic.
        epic: EpicId,
        /// The definitions that STATE has.
        nodes: Vec<Node>,
        /// The results that STATE has.
        results: Vec<(NodeId, Collected)>,
    },
    /// Time has passed.
    Tick,
}

/// What a node came to, as far as the whole needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Its deliverable.
    pub deliverable: String,
    /// Its artifacts.
    pub artifacts: Vec<Artifact>,
}

/// What a project orchestrator does.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Follow an epic's plan events, from the present state on.
    Watch(EpicId),
    /// Read an epic's definitions and results from STATE.
    Collect(EpicId),
    /// Ask the governor for an agent.
    Request {
        /// The idempotency key.
        id: RequestId,
        /// The request.
        request: Box<SpawnRequest>,
        /// The trace it belongs to.
        trace: Option<String>,
    },
    /// Ask the owner for something else.
    Op {
        /// The idempotency key.
        id: RequestId,
        /// The operation.
        op: Box<Op>,
    },
    /// Report to the owner.
    Report(Box<Report>),
    /// Write to somebody.
    Mail(Box<Mail>),
}

/// A project orchestrator.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    id: AgentId,
    session: SessionId,
    epics: BTreeMap<EpicId, Epic>,
    pending: BTreeMap<RequestId, (EpicId, NodeId)>,
    children: BTreeSet<AgentId>,
    full: bool,
    asked: usize,
}

#[derive(Debug, Clone, Default)]
struct Epic {
    plan: Option<PlanEvent>,
    nodes: BTreeMap<NodeId, Node>,
    results: BTreeMap<NodeId, Collected>,
    waits: BTreeMap<NodeId, Wait>,
    collect_at: Option<BusTime>,
    collects: u32,
    reported: bool,
}

/// A node whose request was refused for a reason that time may cure.
#[derive(Debug, Clone, Copy)]
struct Wait {
    until: Option<BusTime>,
    times: u32,
}

impl Orchestrator {
    /// An orchestrator in a new session.
    #[must_use]
    pub fn new(id: AgentId, session: SessionId) -> Self {
        Self {
            id,
            session,
            epics: BTreeMap::new(),
            pending: BTreeMap::new(),
            children: BTreeSet::new(),
            full: false,
            asked: 0,
        }
    }

    /// When something is due without any input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<BusTime> {
        let waits =
            self.epics.values().flat_map(|epic| epic.waits.values().filter_map(|wait| wait.until));
        let collects = self.epics.values().filter_map(|epic| epic.collect_at);
        waits.chain(collects).min()
    }

    /// Learns something and says what to do about it.
    pub fn step(&mut self, now: BusTime, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::TakeOn(epic) => {
                if let std::collections::btree_map::Entry::Vacant(vacant) = self.epics.entry(epic) {
                    vacant.insert(Epic::default());
                    effects.push(Effect::Watch(epic));
                }
            }
            Input::Plan(event) => self.learn_plan(*event, &mut effects),
            Input::Mail { from, mail } => self.read_mail(now, &from, *mail, &mut effects),
            Input::Collected { epic, nodes, results } => {
                self.learn_collected(now, epic, nodes, results);
            }
            Input::Tick => {}
        }
        self.recollect(now, &mut effects);
        self.staff(now, &mut effects);
        self.aggregate(&mut effects);
        effects
    }

    fn learn_plan(&mut self, mut event: PlanEvent, effects: &mut Vec<Effect>) {
        let Some(epic) = self.epics.get_mut(&event.epic) else { return };
        if epic.plan.as_ref().is_some_and(|known| known.version >= event.version) {
            return;
        }
        for node in std::mem::take(&mut event.definitions) {
            epic.nodes.insert(node.id, node);
        }
        // Definitions of versions that were published before this session began.
        let unknown = event.nodes.iter().any(|view| !epic.nodes.contains_key(&view.id));
        if unknown && epic.collect_at.is_none() {
            effects.push(Effect::Collect(event.epic));
        }
        epic.plan = Some(event);
    }

    fn learn_collected(
        &mut self,
        now: BusTime,
        id: EpicId,
        nodes: Vec<Node>,
        results: Vec<(NodeId, Collected)>,
    ) {
        let Some(epic) = self.epics.get_mut(&id) else { return };
        for node in nodes {
            epic.nodes.entry(node.id).or_insert(node);
        }
        for (node, result) in results {
            epic.results.entry(node).or_insert(result);
        }
        // STATE is written after mail and plan events: what is missing is read again.
        epic.collect_at = if epic.lacks_anything() {
            epic.collects += 1;
            Some(now + backoff(epic.collects))
        } else {
            None
        };
    }

    fn recollect(&mut self, now: BusTime, effects: &mut Vec<Effect>) {
        for (id, epic) in &mut self.epics {
            if epic.collect_at.is_some_and(|at| at <= now) {
                epic.collect_at = None;
                effects.push(Effect::Collect(*id));
            }
        }
    }

    fn read_mail(&mut self, now: BusTime, from: &Principal, mail: Mail, effects: &mut Vec<Effect>) {
        match mail.body {
            MailBody::TakeOn { epic } => effects.extend(self.step(now, Input::TakeOn(epic))),
            MailBody::SpawnAnswer(answer) => self.read_answer(now, answer, mail.trace, effects),
            MailBody::Sponsor(request) => {
                self.sponsor(from, mail.epic, request, mail.trace, effects)
            }
            MailBody::ResultReady(ready) => self.read_result(mail.epic, *ready),
            MailBody::AgentCompleted { agent, .. } => {
                self.children.remove(&agent);
                self.full = false;
            }
            MailBody::SponsorAnswer(_)
            | MailBody::Launch(_)
            | MailBody::Kill(_)
            | MailBody::Stop(_)
            | MailBody::Superseded(_)
            | MailBody::Violation { .. }
            | MailBody::AgentLost { .. }
            | MailBody::Question { .. }
            | MailBody::Answer { .. }
            | MailBody::Reply(_)
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Info { .. }
            | MailBody::Unknown { .. } => {}
        }
    }

    fn read_result(&mut self, epic: Option<EpicId>, ready: ResultReady) {
        let Some(epic) = epic.and_then(|epic| self.epics.get_mut(&epic)) else { return };
        let judged = Role::of(&ready.agent) == Role::Reviewer
            && epic.nodes.get(&ready.node).is_some_and(|node| node.role != Role::Reviewer);
        if judged || ready.result.outcome != Outcome::Success {
            return;
        }
        let ResultReady { node, result, .. } = ready;
        let RunResult { deliverable, artifacts, .. } = result;
        epic.results.insert(node, Collected { deliverable, artifacts });
    }

    /// The governor's decision: on a request of its own, or one made for a specialist, which
    /// any incarnation passes on (spec 03, Specialists escalate).
    fn read_answer(
        &mut self,
        now: BusTime,
        answer: SpawnAnswer,
        trace: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let own = answer.parent.as_ref().is_none_or(|parent| *parent == self.id);
        if !own {
            if let Some(specialist) = answer.parent.clone() {
                effects.push(self.relay(specialist, trace, answer));
            }
            return;
        }
        let pending = self.pending.remove(&answer.request);
        self.children.extend(answer.spawned.into_iter().map(|spawned| spawned.agent));
        let (Some((id, node)), Some(denied)) = (pending, answer.denied.first()) else { return };
        match cure(denied.reason) {
            Cure::Slot => self.full = true,
            Cure::Plan => {}
            Cure::Time => {
                if let Some(epic) = self.epics.get_mut(&id) {
                    let times = epic.waits.get(&node).map_or(1, |wait| wait.times + 1);
                    let until = Some(now + backoff(times));
                    epic.waits.insert(node, Wait { until, times });
                }
            }
            Cure::None => {
                let op = Op::WorkBlock { epic: id, node, blocker: blocker(denied) };
                let request = self.next_id(now, "block");
                effects.push(Effect::Op { id: request, op: Box::new(op) });
            }
        }
    }

    /// A specialist asks for agents of its own: agreed while it works on an open epic.
    fn sponsor(
        &mut self,
        from: &Principal,
        epic: Option<EpicId>,
        request: SponsorRequest,
        trace: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(specialist) = from.agent().cloned() else { return };
        let id = epic.unwrap_or(request.wanted.epic);
        let works = self.epics.get(&id).and_then(|epic| epic.plan.as_ref()).is_some_and(|plan| {
            plan.goal == GoalStatus::Active
                && plan.nodes.iter().any(|node| node.assignee.as_ref() == Some(&specialist))
        });
        if !works {
            let answer = SpawnAnswer {
                epic: Some(id),
                request: request.request,
                parent: Some(specialist.clone()),
                spawned: Vec::new(),
                denied: Vec::new(),
                reason: DenialReason::Unauthorized.as_str().to_owned(),
                suggestion: "you have no work in an open epic of this project".to_owned(),
                retry: false,
                corrections: Vec::new(),
            };
            effects.push(self.relay(specialist, trace, answer));
            return;
        }
        let forwarded = SpawnRequest {
            epic: id,
            parent: Some(specialist.clone()),
            requested_by: Some(Principal::Agent(specialist)),
            caller_depth: None,
            caller_max_depth: None,
            caller_local_max_depth: None,
            ack_required: true,
            ..request.wanted
        };
        let request = request.request;
        effects.push(Effect::Request { id: request, request: Box::new(forwarded), trace });
    }

    fn relay(&self, to: AgentId, trace: Option<String>, answer: SpawnAnswer) -> Effect {
        Effect::Mail(Box::new(Mail {
            to: Principal::Agent(to),
            epic: answer.epic,
            correlation: Some(answer.request),
            cause: self.id.to_string(),
            ack_required: false,
            trace,
            body: MailBody::SponsorAnswer(answer),
        }))
    }

    /// Asks for agents for as many ready nodes as there are free slots, reviews first: they
    /// are what others wait for.
    fn staff(&mut self, now: BusTime, effects: &mut Vec<Effect>) {
        if self.full {
            return;
        }
        let free = CHILDREN_MAX.saturating_sub(self.children.len() + self.pending.len());
        let mut wanted = Vec::new();
        for (id, epic) in &mut self.epics {
            for wait in epic.waits.values_mut() {
                wait.until = wait.until.filter(|until| *until > now);
            }
            let Some(plan) = epic.plan.as_ref().filter(|plan| plan.goal == GoalStatus::Active)
            else {
                continue;
            };
            for view in &plan.nodes {
                let waits = epic.waits.get(&view.id).is_some_and(|wait| wait.until.is_some());
                let asked = self.pending.values().any(|pending| *pending == (*id, view.id));
                if let (Some(node), false, false) = (epic.nodes.get(&view.id), waits, asked)
                    && let Some(purpose) = due(view, node)
                {
                    wanted.push((
                        purpose == Purpose::Execute,
                        *id,
                        request(*id, node, purpose),
                        plan.trace.clone(),
                    ));
                }
            }
        }
        wanted.sort_by_key(|(execute, ..)| *execute);
        for (_, epic, request, trace) in wanted.into_iter().take(free) {
            let id = self.next_id(now, "spawn");
            if let Some(node) = request.node {
                self.pending.insert(id, (epic, node));
            }
            effects.push(Effect::Request { id, request: Box::new(request), trace });
        }
    }

    /// Puts the result of a reached goal together, once everything it needs is there.
    fn aggregate(&mut self, effects: &mut Vec<Effect>) {
        for (id, epic) in &mut self.epics {
            let Some(plan) = epic.plan.as_ref() else { continue };
            if epic.reported || plan.goal != GoalStatus::Completed || plan.result.is_some() {
                continue;
            }
            if epic.lacks_anything() {
                if epic.collect_at.is_none() && epic.collects == 0 {
                    epic.collects = 1;
                    effects.push(Effect::Collect(*id));
                }
                continue;
            }
            epic.reported = true;
            let result = epic.put_together(plan);
            effects.push(Effect::Report(Box::new(Report::Result {
                run: None,
                epic: Some(*id),
                result,
            })));
        }
    }

    fn next_id(&mut self, now: BusTime, label: &str) -> RequestId {
        self.asked += 1;
        RequestId::derive(now, &self.session.to_string(), label, self.asked)
    }
}

impl Epic {
    /// Whether a definition, or a result of a reached goal, has not been seen yet.
    fn lacks_anything(&self) -> bool {
        let Some(plan) = &self.plan else { return false };
        let definitions = plan.nodes.iter().any(|view| !self.nodes.contains_key(&view.id));
        let results = plan.goal == GoalStatus::Completed
            && self.wanted_results(plan).any(|node| !self.results.contains_key(&node));
        definitions || results
    }

    /// The nodes whose results the whole is made of: the output node, else every done leaf.
    fn wanted_results<'a>(&'a self, plan: &'a PlanEvent) -> impl Iterator<Item = NodeId> + 'a {
        let leaf = |id: NodeId| !plan.nodes.iter().any(|view| view.id.parent() == Some(id));
        let done =
            plan.nodes.iter().filter(move |view| view.status == NodeStatus::Done && leaf(view.id));
        done.map(|view| view.id).filter(|id| plan.output.is_none_or(|output| output == *id))
    }

    fn put_together(&self, plan: &PlanEvent) -> RunResult {
        let parts: Vec<(NodeId, &Collected)> =
            self.wanted_results(plan).filter_map(|id| Some((id, self.results.get(&id)?))).collect();
        let whole = match (plan.output, parts.first()) {
            (Some(_), Some((_, output))) => output.deliverable.clone(),
            (_, _) => {
                let sections = parts.iter().map(|(id, part)| {
                    let name = self.nodes.get(id).map_or("", |node| node.name.as_str());
                    format!("## {id} {name}\n\n{}\n", part.deliverable)
                });
                sections.collect::<Vec<_>>().join("\n")
            }
        };
        let fits = whole.len() <= DELIVERABLE_BYTES_MAX;
        let listed = || {
            let ids: Vec<String> = parts.iter().map(|(id, _)| id.to_string()).collect();
            format!("too large to repeat; the results stand with {}", ids.join(", "))
        };
        let mut result = RunResult::ended(Outcome::Success, "");
        result.crystallization = format!("{} results, plan version {}", parts.len(), plan.version);
        result.artifacts = parts.iter().flat_map(|(_, part)| part.artifacts.clone()).collect();
        result.deliverable = if fits { whole } else { listed() };
        result
    }
}

/// What a node needs an agent for now.
fn due(view: &NodeView, node: &Node) -> Option<Purpose> {
    if view.assignee.is_some() {
        return None;
    }
    match (view.status, view.purpose) {
        (NodeStatus::Queued, Purpose::Execute) => Some(Purpose::Execute),
        (NodeStatus::InProgress, Purpose::Review) if node.review.is_some() => Some(Purpose::Review),
        (_, _) => None,
    }
}

fn request(epic: EpicId, node: &Node, purpose: Purpose) -> SpawnRequest {
    let text = if node.objective.is_empty() { &node.name } else { &node.objective };
    let review = node.review.as_ref().filter(|_| purpose == Purpose::Review);
    let (role, domain, profile, task) = match review {
        Some(review) => (
            Role::Reviewer,
            Some(review.domain.clone()),
            review.profile.clone(),
            format!("Review {}: judge its result against its criteria. {text}", node.id),
        ),
        None => (node.role, node.domain.clone(), None, text.clone()),
    };
    SpawnRequest {
        epic,
        node: Some(node.id),
        parent: None,
        requested_by: None,
        reason: format!("{} is ready", node.id),
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents: vec![SubagentWish {
            role,
            domain,
            task: TaskWish::Task(task),
            suggested_actor_id: node.name.clone(),
            local_max_depth: None,
            budget: Limits::default(),
            wall: None,
            tools: None,
            profile,
            placement: PlacementWish::default(),
        }],
        ack_required: true,
    }
}

/// What may cure a refusal.
enum Cure {
    /// A child that ends.
    Slot,
    /// The plan as it really is, which is on its way.
    Plan,
    /// Time.
    Time,
    /// Nothing this orchestrator can do.
    None,
}

fn cure(reason: DenialReason) -> Cure {
    match reason {
        DenialReason::ChildrenLimitExceeded => Cure::Slot,
        DenialReason::NodeNotAssignable | DenialReason::UnknownEpic | DenialReason::Conflict => {
            Cure::Plan
        }
        DenialReason::NoHostAvailable
        | DenialReason::ParentNotActive
        | DenialReason::CircuitOpen
        | DenialReason::DuplicateIdentity => Cure::Time,
        DenialReason::SpawnDepthExceeded
        | DenialReason::DepthLimitExceeded
        | DenialReason::RoleNotAllowed
        | DenialReason::BudgetExceeded
        | DenialReason::ToolNotAllowed
        | DenialReason::UnknownParent
        | DenialReason::Unauthorized
        | DenialReason::InvalidRequest => Cure::None,
    }
}

fn blocker(denied: &Denied) -> Blocker {
    Blocker {
        kind: denied.reason.as_str().to_owned(),
        detail: denied.detail.clone(),
        needs: "a change of the plan, its profiles or its budget".to_owned(),
    }
}

fn backoff(times: u32) -> Millis {
    let factor = 1u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
    Millis(RETRY_FIRST.0.saturating_mul(factor).min(RETRY_MAX.0))
}
