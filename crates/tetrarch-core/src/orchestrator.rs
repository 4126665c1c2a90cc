//! The project orchestrator's machine (spec 01, 03, 05): which ready nodes to ask agents for,
//! within its limits; reviewing, sponsoring specialists, blocking what cannot be staffed, and
//! putting the result together. It sees its epics through plan events, decides nothing about
//! records (the owner does), and can be started again at any moment.

mod epic;
mod staffing;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::assignment::Purpose;
use crate::brief::{Artifact, Outcome, RunResult};
use crate::error::{DenialReason, ErrorCode};
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId, Principal, RequestId, SessionId};
use crate::limits::CHILDREN_MAX;
use crate::mail::{Denied, Mail, MailBody, ResultReady, SpawnAnswer, SponsorRequest};
use crate::plan::{Node, NodeStatus, PlanEvent};
use crate::request::{Op, Report, SpawnRequest};
use crate::role::Role;
use crate::time::{BusTime, Millis};

use epic::Epic;
use staffing::{Cure, blocker, cure, due, request};

/// How long a refusal for want of a slot is believed: a project's mode may change meanwhile.
const LIMIT_BELIEVED: Millis = Millis::from_secs(30);

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
        /// Its plan as STATE has it, whole; none when it has none.
        plan: Option<Box<PlanEvent>>,
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
    /// Follow an epic's plan events, from the last one on.
    Watch(EpicId),
    /// Follow an epic no longer: it is over.
    Leave(EpicId),
    /// Read an epic's plan, definitions and results from STATE.
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
    /// Requests without an answer.
    pending: BTreeMap<RequestId, (EpicId, NodeId)>,
    /// Children that were admitted and have not ended, with what they work on.
    children: BTreeMap<AgentId, (EpicId, NodeId)>,
    /// Requests made for specialists.
    sponsored: BTreeMap<RequestId, AgentId>,
    limit: Option<Limit>,
    asked: usize,
}

/// What a refusal for want of a slot told.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// Slots there are.
    cap: usize,
    /// Slots held by children of an earlier session, which this one does not know.
    unknown: usize,
    until: BusTime,
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
            children: BTreeMap::new(),
            sponsored: BTreeMap::new(),
            limit: None,
            asked: 0,
        }
    }

    /// When something is due without any input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<BusTime> {
        let epics = self.epics.values().filter_map(Epic::next_deadline);
        epics.chain(self.limit.map(|limit| limit.until)).min()
    }

    /// Learns something and says what to do about it.
    pub fn step(&mut self, now: BusTime, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::TakeOn(epic) => self.take_on(epic, &mut effects),
            Input::Plan(event) => self.learn_plan(*event, &mut effects),
            Input::Mail { from, mail } => self.read_mail(now, &from, *mail, &mut effects),
            Input::Collected { epic: id, plan, nodes, results } => {
                if let Some(epic) = self.epics.get_mut(&id) {
                    if let Some(plan) = plan {
                        epic.learn_plan(*plan);
                    }
                    epic.learn(now, nodes, results);
                }
                self.sponsor_held(id, &mut effects);
            }
            Input::Tick => {}
        }
        self.limit = self.limit.filter(|limit| limit.until > now);
        for (id, epic) in &mut self.epics {
            epic.wake(now);
            if epic.must_collect(now) {
                effects.push(Effect::Collect(*id));
            }
        }
        self.staff(now, &mut effects);
        self.aggregate(&mut effects);
        self.leave(&mut effects);
        effects
    }

    fn take_on(&mut self, epic: EpicId, effects: &mut Vec<Effect>) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.epics.entry(epic) {
            vacant.insert(Epic::default());
            effects.push(Effect::Watch(epic));
        }
    }

    fn learn_plan(&mut self, event: PlanEvent, effects: &mut Vec<Effect>) {
        let id = event.epic;
        if let Some(epic) = self.epics.get_mut(&id) {
            epic.learn_plan(event);
            self.sponsor_held(id, effects);
        }
    }

    /// Decides on what specialists asked for before their plan was known.
    fn sponsor_held(&mut self, id: EpicId, effects: &mut Vec<Effect>) {
        let Some(epic) = self.epics.get_mut(&id).filter(|epic| epic.plan.is_some()) else { return };
        for (specialist, request, trace) in std::mem::take(&mut epic.held) {
            self.sponsor(specialist, id, request, trace, effects);
        }
    }

    fn read_mail(&mut self, now: BusTime, from: &Principal, mail: Mail, effects: &mut Vec<Effect>) {
        match mail.body {
            MailBody::TakeOn { epic } => self.take_on(epic, effects),
            MailBody::SpawnAnswer(answer) => self.read_answer(now, answer, mail.trace, effects),
            MailBody::Sponsor(request) => {
                if let Some(specialist) = from.agent().cloned() {
                    let epic = mail.epic.unwrap_or(request.wanted.epic);
                    self.sponsor(specialist, epic, request, mail.trace, effects);
                }
            }
            MailBody::ResultReady(ready) => self.read_result(mail.epic, *ready),
            MailBody::AgentCompleted { agent, .. } => {
                if self.children.remove(&agent).is_none()
                    && let Some(limit) = &mut self.limit
                {
                    limit.unknown = limit.unknown.saturating_sub(1);
                }
            }
            MailBody::SponsorAnswer(_)
            | MailBody::Launch(_)
            | MailBody::Kill(_)
            | MailBody::Stop(_)
            | MailBody::Rotate(_)
            | MailBody::Verb(_)
            | MailBody::BudgetRaised(_)
            | MailBody::Apply(_)
            | MailBody::Superseded(_)
            | MailBody::Violation { .. }
            | MailBody::Alert { .. }
            | MailBody::AgentLost { .. }
            | MailBody::StatusRequest(_)
            | MailBody::TurnDue(_)
            | MailBody::Question { .. }
            | MailBody::Answer { .. }
            | MailBody::Reply(_)
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Receipt(_)
            | MailBody::Dead(_)
            | MailBody::Unknown { .. } => {}
            MailBody::Info { .. } => {
                // The owner says that something has changed: what was refused may be granted now.
                if *from == Principal::Agent(AgentId::Go) {
                    self.epics.values_mut().for_each(Epic::hurry);
                }
            }
        }
    }

    /// Keeps a result. Whose it is, the worker's or its reviewer's, is told by the definition;
    /// while that is unknown, STATE is read instead.
    fn read_result(&mut self, epic: Option<EpicId>, ready: ResultReady) {
        let Some(epic) = epic.and_then(|epic| self.epics.get_mut(&epic)) else { return };
        let Some(node) = epic.nodes.get(&ready.node) else { return };
        let judged = Role::of(&ready.agent) == Role::Reviewer && node.role != Role::Reviewer;
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
        let sponsored = answer.request.and_then(|id| self.sponsored.remove(&id));
        let other = answer.parent.clone().filter(|parent| *parent != self.id);
        if let Some(specialist) = other.or(sponsored) {
            effects.push(self.relay(specialist, trace, answer));
            return;
        }
        // An answer that comes again must not bring back a child that has ended since.
        let pending = answer.request.and_then(|request| self.pending.remove(&request));
        let Some((id, node)) = pending else { return };
        for spawned in &answer.spawned {
            self.children.insert(spawned.agent.clone(), (id, node));
        }
        if let Some(denied) = answer.denied.first() {
            self.read_denial(now, id, node, denied, effects);
        } else if answer.accepted() {
            if let Some(epic) = self.epics.get_mut(&id) {
                epic.waits.remove(&node);
            }
        } else {
            // Refused as a whole: under its id, its session or its form it is not decided.
            let malformed = answer.reason == ErrorCode::InvalidRequest.as_str();
            let reason =
                if malformed { DenialReason::InvalidRequest } else { DenialReason::Conflict };
            let detail = answer.suggestion;
            let (role, limit, current) = (Role::Worker, None, None);
            let denied = Denied { index: 0, role, reason, limit, current, detail };
            self.read_denial(now, id, node, &denied, effects);
        }
    }

    fn read_denial(
        &mut self,
        now: BusTime,
        id: EpicId,
        node: NodeId,
        denied: &Denied,
        effects: &mut Vec<Effect>,
    ) {
        let block = match cure(denied.reason) {
            Cure::Slot => {
                let count = |n: Option<u64>| usize::try_from(n.unwrap_or(0)).unwrap_or(usize::MAX);
                let unknown = count(denied.current).saturating_sub(self.children.len());
                let until = now + LIMIT_BELIEVED;
                self.limit = Some(Limit { cap: count(denied.limit), unknown, until });
                return;
            }
            Cure::Plan | Cure::Time => false,
            Cure::Return => !self.anybody_works(),
            Cure::None => true,
        };
        let Some(epic) = self.epics.get_mut(&id) else { return };
        // Also for what is blocked now: the plan that shows it is on its way.
        epic.wait(now, node);
        if block {
            let op = Op::WorkBlock { epic: id, node, blocker: blocker(denied) };
            let request = self.next_id(now, "block");
            effects.push(Effect::Op { id: request, op: Box::new(op) });
        }
    }

    /// Whether an agent of any epic is at work that will give back what it was granted.
    fn anybody_works(&self) -> bool {
        let mut plans = self.epics.values().filter_map(|epic| epic.plan.as_ref());
        let at_work = |plan: &PlanEvent| {
            plan.nodes
                .iter()
                .any(|view| view.status == NodeStatus::InProgress && view.assignee.is_some())
        };
        !self.children.is_empty() || plans.any(at_work)
    }

    /// A specialist asks for agents of its own: agreed while it works on an open epic.
    fn sponsor(
        &mut self,
        specialist: AgentId,
        id: EpicId,
        request: SponsorRequest,
        trace: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(epic) = self.epics.get_mut(&id).filter(|epic| epic.plan.is_none()) {
            epic.held.push((specialist, request, trace));
            return;
        }
        if !self.works(&specialist, id) {
            let answer = SpawnAnswer {
                epic: Some(id),
                request: Some(request.request),
                parent: Some(specialist.clone()),
                reason: DenialReason::Unauthorized.as_str().to_owned(),
                suggestion: "you have no work in an open epic of this project".to_owned(),
                ..SpawnAnswer::default()
            };
            effects.push(self.relay(specialist, trace, answer));
            return;
        }
        self.sponsored.insert(request.request, specialist.clone());
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

    /// Whether an agent works on an active epic, as the plan or the governor's answer says.
    fn works(&self, agent: &AgentId, id: EpicId) -> bool {
        let Some(epic) = self.epics.get(&id).filter(|epic| epic.is_active()) else { return false };
        let mut views = epic.plan.iter().flat_map(|plan| &plan.nodes);
        let admitted = self.children.get(agent).is_some_and(|(epic, _)| *epic == id);
        admitted || views.any(|view| view.assignee.as_ref() == Some(agent))
    }

    fn relay(&self, to: AgentId, trace: Option<String>, answer: SpawnAnswer) -> Effect {
        Effect::Mail(Box::new(Mail {
            to: Principal::Agent(to),
            epic: answer.epic,
            correlation: answer.request,
            cause: self.id.to_string(),
            ack_required: false,
            trace,
            body: MailBody::SponsorAnswer(answer),
        }))
    }

    /// Asks for agents for as many ready nodes as there are free slots, reviews first: they
    /// are what others wait for. Then the more urgent goal, and in a plan of which somebody said what is
    /// urgent, the better recommended node; where nobody said anything, the plan's order.
    fn staff(&mut self, now: BusTime, effects: &mut Vec<Effect>) {
        let free = self.free_slots();
        if free == 0 {
            return;
        }
        let mut wanted = Vec::new();
        for (id, epic) in &self.epics {
            let Some(plan) = epic.plan.as_ref().filter(|_| epic.is_active()) else { continue };
            let (weight, ranks) = (plan.priorities.weight(), epic.ranks(now));
            for view in &plan.nodes {
                let busy =
                    !plan.is_leaf(view.id) || epic.waits(view.id) || self.is_staffed(*id, view.id);
                if let (Some(node), false) = (epic.nodes.get(&view.id), busy)
                    && let Some(purpose) = due(view, node)
                {
                    let request = request(*id, node, purpose);
                    let rank = ranks.get(&view.id).copied().unwrap_or_default();
                    let order = (purpose == Purpose::Execute, Reverse(weight), *id, rank);
                    wanted.push((order, request, plan.trace.clone()));
                }
            }
        }
        wanted.sort_by_key(|(order, ..)| *order);
        for ((_, _, epic, _), request, trace) in wanted.into_iter().take(free) {
            let id = self.next_id(now, "spawn");
            if let Some(node) = request.node {
                self.pending.insert(id, (epic, node));
            }
            effects.push(Effect::Request { id, request: Box::new(request), trace });
        }
    }

    fn free_slots(&self) -> usize {
        let (cap, unknown) = self
            .limit
            .map_or((CHILDREN_MAX, 0), |limit| (limit.cap.min(CHILDREN_MAX), limit.unknown));
        cap.saturating_sub(self.children.len() + self.pending.len() + unknown)
    }

    /// Whether an agent for a node was asked for or admitted; the plan tells it later.
    fn is_staffed(&self, epic: EpicId, node: NodeId) -> bool {
        self.pending.values().chain(self.children.values()).any(|known| *known == (epic, node))
    }

    /// Puts the result of a reached goal together, once everything it needs is there.
    fn aggregate(&mut self, effects: &mut Vec<Effect>) {
        for (id, epic) in &mut self.epics {
            let Some(plan) = epic.plan.as_ref() else { continue };
            let reached = plan.goal == GoalStatus::Completed && plan.result.is_none();
            if epic.reported || !reached || epic.lacks_anything() {
                continue;
            }
            let result = epic.put_together(plan);
            epic.reported = true;
            effects.push(Effect::Report(Box::new(Report::Result {
                run: None,
                epic: Some(*id),
                result,
            })));
        }
    }

    /// Forgets what is over: a project may see any number of epics in its time.
    fn leave(&mut self, effects: &mut Vec<Effect>) {
        let over = self.epics.extract_if(.., |_, epic| epic.is_over());
        effects.extend(over.map(|(id, _)| Effect::Leave(id)));
    }

    fn next_id(&mut self, now: BusTime, label: &str) -> RequestId {
        self.asked += 1;
        RequestId::derive(now, &self.session.to_string(), label, self.asked)
    }
}
