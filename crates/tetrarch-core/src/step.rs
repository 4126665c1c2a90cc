//! One decision in the making: a view of the records with what has been written so far on top,
//! and the finished [`Step`] (spec 01). Nothing outside is changed until the step is committed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{Agent, Host, Placement};
use crate::assignment::Assignment;
use crate::conversation::{Turn, TurnId};
use crate::crystallization::Crystallization;
use crate::dispatch::{Dispatch, DispatchMode};
use crate::goal::GoalState;
use crate::id::{
    AgentId, AssignmentId, DispatchId, DraftId, EpicId, HostName, NodeId, Principal, QuestionId,
    RequestId, RunId,
};
use crate::ledger::{Event, EventKind, Record, RecordKey, Seal};
use crate::mail::{Mail, MailBody};
use crate::plan::folding::FoldedChildren;
use crate::plan::proposal::{Proposal, ReviewAsk};
use crate::plan::{Node, NodeChange, NodeState, NodeStatus, PlanReason, PlanSource};
use crate::planner::Planning;
use crate::question::{Question, QuestionStatus};
use crate::records::Records;
use crate::run::{Run, RunStatus};
use crate::time::BusTime;

/// What one decision changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// After-images, the last one of each record.
    pub records: BTreeMap<RecordKey, Record>,
    /// Records that are no longer kept.
    pub dropped: Vec<RecordKey>,
    /// What happened.
    pub events: Vec<Event>,
    /// Cursors to seal.
    pub seals: Vec<Seal>,
    /// Mail to send.
    pub mail: Vec<Mail>,
    /// Epics whose plan changed.
    pub plans: BTreeMap<EpicId, PlanTouch>,
    /// Plans that people should look at, with why.
    pub reviews: Vec<(EpicId, ReviewAsk)>,
    /// The sequence of `REQUESTS` after which reading goes on, when it is not after what was decided.
    pub intake: Option<u64>,
}

impl Step {
    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.dropped.is_empty()
            && self.events.is_empty()
            && self.seals.is_empty()
            && self.mail.is_empty()
            && self.plans.is_empty()
            && self.reviews.is_empty()
            && self.intake.is_none()
    }
}

/// What one decision, or one group of them, did to a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTouch {
    /// Who changed it.
    pub source: PlanSource,
    /// Why; of a group's reasons the first that is a change, else the first.
    pub reason: PlanReason,
    /// What moved.
    pub changes: Vec<NodeChange>,
    /// Nodes whose definition is new.
    pub defined: Vec<NodeId>,
    /// The trace of the request behind it.
    pub trace: Option<String>,
}

/// A decision in the making.
#[derive(Debug)]
pub struct Draft<'a> {
    base: &'a Records,
    /// When it is decided.
    pub now: BusTime,
    /// Whose doing it is.
    pub actor: Principal,
    /// The request behind it.
    pub request: Option<RequestId>,
    /// That request's trace.
    pub trace: Option<String>,
    step: Step,
}

impl<'a> Draft<'a> {
    /// A decision that has written nothing.
    #[must_use]
    pub fn new(base: &'a Records, now: BusTime, actor: Principal) -> Self {
        Self { base, now, actor, request: None, trace: None, step: Step::default() }
    }

    /// The records as they were before this decision.
    #[must_use]
    pub fn base(&self) -> &'a Records {
        self.base
    }

    /// What was written.
    #[must_use]
    pub fn finish(self) -> Step {
        self.step
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> &Step {
        &self.step
    }

    /// The seed from which the ids of what this decision makes are derived.
    #[must_use]
    pub fn seed(&self, otherwise: &str) -> String {
        self.request.map_or_else(|| otherwise.to_owned(), |id| id.to_string())
    }

    /// An agent as it would be.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        match self.step.records.get(&RecordKey::Agent(id.clone())) {
            Some(Record::Agent(agent)) => Some(agent),
            Some(_) | None => self.base.agents.get(id),
        }
    }

    /// A run's definition as it would be.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&Run> {
        match self.step.records.get(&RecordKey::Run(id)) {
            Some(Record::Run(run)) => Some(run),
            Some(_) | None => self.base.runs.get(&id),
        }
    }

    /// A run's state as it would be.
    #[must_use]
    pub fn run_status(&self, id: RunId) -> Option<&RunStatus> {
        match self.step.records.get(&RecordKey::RunStatus(id)) {
            Some(Record::RunStatus(status)) => Some(status),
            Some(_) | None => self.base.run_status.get(&id),
        }
    }

    /// A node's definition as it would be.
    #[must_use]
    pub fn node(&self, epic: EpicId, id: NodeId) -> Option<&Node> {
        match self.step.records.get(&RecordKey::Node(epic, id)) {
            Some(Record::Node(_, node)) => Some(node),
            Some(_) | None => self.base.nodes.get(&epic)?.get(&id),
        }
    }

    /// A leaf's state as it would be.
    #[must_use]
    pub fn node_state(&self, epic: EpicId, id: NodeId) -> Option<&NodeState> {
        match self.step.records.get(&RecordKey::NodeState(epic, id)) {
            Some(Record::NodeState(_, state)) => Some(state),
            Some(_) | None if self.is_forgotten(&RecordKey::NodeState(epic, id)) => None,
            Some(_) | None => self.base.node_states.get(&epic)?.get(&id),
        }
    }

    /// The handoff of a node, or of the goal itself, as it would be.
    #[must_use]
    pub fn crystallization(&self, epic: EpicId, node: Option<NodeId>) -> Option<&Crystallization> {
        match self.step.records.get(&RecordKey::Crystallization(epic, node)) {
            Some(Record::Crystallization(it)) => Some(it),
            Some(_) | None => self.base.crystallizations.get(&epic)?.get(&node),
        }
    }

    /// A goal's state as it would be.
    #[must_use]
    pub fn goal_state(&self, epic: EpicId) -> Option<&GoalState> {
        match self.step.records.get(&RecordKey::GoalState(epic)) {
            Some(Record::GoalState(state)) => Some(state),
            Some(_) | None => self.base.goal_states.get(&epic),
        }
    }

    /// An assignment as it would be.
    #[must_use]
    pub fn assignment(&self, id: AssignmentId) -> Option<&Assignment> {
        match self.step.records.get(&RecordKey::Assignment(id)) {
            Some(Record::Assignment(assignment)) => Some(assignment),
            Some(_) | None => self.base.assignments.get(&id),
        }
    }

    /// A dispatch as it would be.
    #[must_use]
    pub fn dispatch(&self, id: DispatchId) -> Option<&Dispatch> {
        if let Some(Record::Dispatch(dispatch)) = self.step.records.get(&RecordKey::Dispatch(id)) {
            return Some(dispatch);
        }
        let launches = self.step.records.values().filter_map(first_launch);
        let written = { launches }.find(|launch| launch.id == id);
        written.or_else(|| self.base.dispatches.get(&id))
    }

    /// A question to the planner as it would be.
    #[must_use]
    pub fn planning(&self, id: DispatchId) -> Option<&Planning> {
        match self.step.records.get(&RecordKey::Planning(id)) {
            Some(Record::Planning(planning)) => Some(planning),
            Some(_) | None => self.base.plannings.get(&id),
        }
    }

    /// A question as it would be.
    #[must_use]
    pub fn question(&self, id: QuestionId) -> Option<&Question> {
        match self.step.records.get(&RecordKey::Question(id)) {
            Some(Record::Question(question)) => Some(question),
            Some(_) | None => self.base.questions.get(&id),
        }
    }

    /// A turn of a conversation as it would be.
    #[must_use]
    pub fn turn(&self, id: &TurnId) -> Option<&Turn> {
        match self.step.records.get(&RecordKey::Turn(id.clone())) {
            Some(Record::Turn(turn)) => Some(turn),
            Some(_) | None => self.base.turns.get(id),
        }
    }

    /// What an agent asked and would be open.
    #[must_use]
    pub fn open_questions(&self, agent: &AgentId) -> Vec<Question> {
        let mut ids: BTreeSet<QuestionId> =
            self.base.asked_by(agent).map(|question| question.id).collect();
        for record in self.step.records.values() {
            if let Record::Question(question) = record
                && question.agent == *agent
            {
                ids.insert(question.id);
            }
        }
        let all = ids.into_iter().filter_map(|id| self.question(id));
        all.filter(|question| question.status == QuestionStatus::Open).cloned().collect()
    }

    /// The version that an epic's plan gets by this decision, if it changes it: one more than it has,
    /// whatever else is decided in the same commit.
    #[must_use]
    pub fn next_version(&self, epic: EpicId) -> u32 {
        self.base.plans.get(&epic).map_or(0, |plan| plan.version) + 1
    }

    /// Whether an epic's plan changes with this.
    #[must_use]
    pub fn is_touched(&self, epic: EpicId) -> bool {
        self.step.plans.contains_key(&epic)
    }

    /// Every draft of an epic as it would be.
    #[must_use]
    pub fn proposals(&self, epic: EpicId) -> BTreeMap<DraftId, Proposal> {
        let mut proposals = self.base.drafts.get(&epic).cloned().unwrap_or_default();
        for record in self.step.records.values() {
            if let Record::Draft(proposal) = record
                && proposal.epic == epic
            {
                proposals.insert(proposal.id, (**proposal).clone());
            }
        }
        proposals.retain(|id, _| !self.step.dropped.contains(&RecordKey::Draft(epic, *id)));
        proposals
    }

    /// Every host as it would be.
    #[must_use]
    pub fn hosts(&self) -> BTreeMap<&HostName, &Host> {
        let mut hosts: BTreeMap<_, _> = self.base.hosts.iter().collect();
        for record in self.step.records.values() {
            if let Record::Host(host) = record {
                hosts.insert(&host.name, host);
            }
        }
        hosts
    }

    /// How many places of one life of a host would be taken.
    #[must_use]
    pub fn places_taken(&self, placement: &Placement) -> usize {
        let there = |agent: &Agent| {
            let here = agent.has_process() && agent.placement.as_ref() == Some(placement);
            here && agent.takes_place()
        };
        let mut count = self.base.places_taken(placement);
        for record in self.step.records.values() {
            if let Record::Agent(agent) = record {
                let before = self.base.agents.get(&agent.id).is_some_and(there);
                count = (count + usize::from(there(agent))).saturating_sub(usize::from(before));
            }
        }
        count
    }

    /// Every node's definition of an epic as it would be.
    #[must_use]
    pub fn nodes(&self, epic: EpicId) -> Cow<'a, BTreeMap<NodeId, Node>> {
        static NONE: BTreeMap<NodeId, Node> = BTreeMap::new();
        let mut nodes = Cow::Borrowed(self.base.nodes.get(&epic).unwrap_or(&NONE));
        for record in self.step.records.values() {
            if let Record::Node(of, node) = record
                && *of == epic
            {
                nodes.to_mut().insert(node.id, (**node).clone());
            }
        }
        nodes
    }

    /// What left an epic's plan.
    #[must_use]
    pub fn folded(&self, epic: EpicId) -> &'a FoldedChildren {
        static NONE: FoldedChildren = FoldedChildren::new();
        self.base.plans.get(&epic).map_or(&NONE, |plan| &plan.folded)
    }

    /// Where every leaf of an epic would stand.
    #[must_use]
    pub fn leaf_statuses(&self, epic: EpicId) -> BTreeMap<NodeId, NodeStatus> {
        let before = self.base.node_states.get(&epic).into_iter().flatten();
        let mut statuses: BTreeMap<NodeId, NodeStatus> =
            before.map(|(id, state)| (*id, state.status)).collect();
        for key in &self.step.dropped {
            if let RecordKey::NodeState(of, id) = key
                && *of == epic
            {
                statuses.remove(id);
            }
        }
        for record in self.step.records.values() {
            if let Record::NodeState(of, state) = record
                && *of == epic
            {
                statuses.insert(state.id, state.status);
            }
        }
        for key in &self.step.dropped {
            if let RecordKey::NodeState(of, id) = key
                && *of == epic
            {
                statuses.remove(id);
            }
        }
        statuses
    }

    /// Writes an after-image. A dispatch that launches an assignment first is kept in that one's record, and
    /// changes by this alone.
    pub fn put(&mut self, mut record: Record) {
        if let Record::Dispatch(dispatch) = &record
            && let Some(mut assignment) = self.launched_by(dispatch).cloned()
        {
            assignment.launch = Some(dispatch.clone());
            record = Record::Assignment(Box::new(assignment));
        } else if let Record::Assignment(assignment) = &mut record {
            let known = self.assignment(assignment.id);
            assignment.launch = known.and_then(|known| known.launch.clone());
        }
        self.step.records.insert(record.key(), record);
    }

    /// The assignment whose first launch a dispatch is.
    fn launched_by(&self, dispatch: &Dispatch) -> Option<&Assignment> {
        let assignment = self.assignment(dispatch.assignment)?;
        let launches = dispatch.mode == DispatchMode::Spawn && dispatch.rung.is_none();
        let first = || self.base.dispatched_for(assignment.id).next().is_none();
        let is_this = match &assignment.launch {
            Some(known) => known.id == dispatch.id,
            None => launches && first(),
        };
        is_this.then_some(assignment)
    }

    fn is_forgotten(&self, key: &RecordKey) -> bool {
        self.step.dropped.contains(key)
    }

    /// Asks people to look at a plan.
    pub fn review(&mut self, epic: EpicId, ask: ReviewAsk) {
        self.step.reviews.push((epic, ask));
    }

    /// Forgets a record.
    pub fn forget(&mut self, key: RecordKey) {
        self.step.dropped.push(key);
    }

    /// Orders a seal.
    pub fn seal(&mut self, seal: Seal) {
        self.step.seals.push(seal);
    }

    /// The death that led to an agent's next session is charged to its program: what that was handling
    /// counts as failed.
    pub fn blame(&mut self, agent: &AgentId) {
        for seal in self.step.seals.iter_mut().filter(|seal| seal.agent == *agent) {
            seal.blames = true;
        }
    }

    /// Writes mail from GO. The correlation is the request behind the decision.
    pub fn mail(&mut self, to: Principal, epic: Option<EpicId>, body: MailBody) {
        let cause = self.step.events.last().map_or("request", |event| event.kind.as_str());
        self.step.mail.push(Mail {
            to,
            epic,
            correlation: self.request,
            cause: cause.to_owned(),
            ack_required: false,
            trace: self.trace.clone(),
            body,
        });
    }

    /// Sends mail as it was decided before.
    pub fn mail_again(&mut self, mail: Mail) {
        self.step.mail.push(mail);
    }

    /// The answer this decision gives to whoever asked.
    #[must_use]
    pub fn answer_to(&self, sender: &Principal) -> Option<&Mail> {
        self.step.mail.iter().find(|mail| {
            let answers = matches!(mail.body, MailBody::SpawnAnswer(_) | MailBody::Reply(_));
            answers && mail.to == *sender && mail.correlation == self.request
        })
    }

    /// Notes what happened; the caller fills in what it is about.
    pub fn event(&mut self, kind: EventKind, rule: &str, reason: impl Into<String>) -> &mut Event {
        self.step.events.push(Event {
            kind,
            actor: self.actor.clone(),
            agent: None,
            run: None,
            epic: None,
            node: None,
            request: self.request,
            reason: reason.into(),
            rule: rule.to_owned(),
        });
        let last = self.step.events.len() - 1;
        &mut self.step.events[last]
    }

    /// Has requests be read on after this sequence of `REQUESTS`, whatever was decided before.
    pub fn move_intake(&mut self, after: u64) {
        self.step.intake = Some(after);
    }

    /// Marks a plan as changed.
    pub fn touch(&mut self, epic: EpicId, reason: PlanReason) -> &mut PlanTouch {
        let source = PlanSource::of(&self.actor);
        let trace = self.trace.clone();
        self.step.plans.entry(epic).or_insert(PlanTouch {
            source,
            reason,
            changes: Vec::new(),
            defined: Vec::new(),
            trace,
        })
    }
}

/// The dispatch that a record keeps beside its own content.
fn first_launch(record: &Record) -> Option<&Dispatch> {
    if let Record::Assignment(assignment) = record { assignment.launch.as_deref() } else { None }
}
