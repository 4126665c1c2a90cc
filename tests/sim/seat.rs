//! The sessions of a host: shells around core's orchestrator and hosted machines that perform
//! effects in order and stop at the first that is fenced.

use std::collections::{BTreeMap, VecDeque};

use tetrarch_core::brief::Artifact;
use tetrarch_core::cursor::{Claim, ClaimOutcome};
use tetrarch_core::hosted::{self, Hosted};
use tetrarch_core::id::{AgentId, EpicId, Principal, RequestId, SessionId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::mail::{Launch, Mail};
use tetrarch_core::orchestrator::{self, Collected, Orchestrator};
use tetrarch_core::order::{Order, Start};
use tetrarch_core::request::{Report, RequestBody, Sender};
use tetrarch_core::run::Run;

use crate::bus::Reader;
use crate::host::advance;
use crate::program::Program;
use crate::wire::{Reach, Wire};
use crate::work::one_worker;

/// Times an agent of one node may end badly, so that its attempts are not used up.
const FAILURES_MAX: usize = 3;

/// A session.
#[derive(Debug)]
pub(crate) enum Seat {
    Agent(Box<Agent>),
    Project(Box<Project>),
}

impl Seat {
    pub(crate) fn agent(agent: Agent) -> Self {
        Self::Agent(Box::new(agent))
    }

    pub(crate) fn project(project: Project) -> Self {
        Self::Project(Box::new(project))
    }

    pub(crate) fn session(&self) -> SessionId {
        match self {
            Self::Agent(agent) => agent.own.session,
            Self::Project(project) => project.own.session,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Self::Agent(agent) => agent.own.epoch,
            Self::Project(project) => project.own.epoch,
        }
    }

    /// Where it stands, for people.
    pub(crate) fn stands(&self) -> String {
        match self {
            Self::Agent(agent) => format!("{} {:?}", agent.own.id, agent.program),
            Self::Project(project) => format!("{} {:?}", project.own.id, project.machine),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Agent(agent) => agent.over,
            Self::Project(project) => project.over,
        }
    }
}

/// Who a session is.
#[derive(Debug)]
struct Own {
    id: AgentId,
    session: SessionId,
    epoch: u64,
    claim: Claim,
    life: u64,
    reader: Reader,
    reports: usize,
}

impl Own {
    fn of(launch: &Launch, claim: Claim, life: u64) -> Self {
        Self {
            id: launch.agent.clone(),
            session: launch.session,
            epoch: launch.epoch,
            claim,
            life,
            reader: Reader::default(),
            reports: 0,
        }
    }

    fn claim(&mut self, reach: &mut Reach<'_>) -> ClaimOutcome {
        let (outcome, reader) = reach.bus.claim(&self.id, self.epoch, &self.claim);
        self.reader = reader;
        if outcome != ClaimOutcome::Claimed {
            reach.tally.note("claim refused");
        }
        outcome
    }

    fn sender(&self) -> Sender {
        Sender {
            from: Principal::Agent(self.id.clone()),
            via: Some(self.claim.host.clone()),
            session: Some(self.session),
            epoch: self.epoch,
        }
    }

    fn request(&self, id: RequestId, body: RequestBody, reach: &mut Reach<'_>) {
        reach.send(Wire::request(self.sender(), id, body), self.life);
    }

    fn report(&mut self, report: Report, reach: &mut Reach<'_>) {
        self.reports += 1;
        let seed = format!("{} {}", self.session, report.kind());
        let id = RequestId::derive(reach.now, &seed, "report", self.reports);
        self.request(id, RequestBody::Report(report), reach);
    }

    fn can_read(&self, reach: &Reach<'_>) -> bool {
        let who = Principal::Agent(self.id.clone());
        reach.bus.next(&who, self.reader.positions).is_some()
    }

    /// The next message that is new.
    fn read(&mut self, reach: &mut Reach<'_>) -> Option<(Principal, Mail)> {
        let who = Principal::Agent(self.id.clone());
        let (lane, stored) = reach.bus.next(&who, self.reader.positions)?;
        let stored = stored.clone();
        advance(&mut self.reader.positions, lane);
        if !self.reader.is_new(lane, &stored) {
            reach.tally.note("mail repeated, dropped");
            return None;
        }
        reach.tell(format_args!("{} reads {}", self.id, stored.mail.body.topic()));
        Some((stored.from, stored.mail))
    }

    fn save(&self, reach: &mut Reach<'_>) -> bool {
        reach.bus.save(&self.id, self.epoch, &self.claim, self.reader)
    }
}

/// An agent that executes a brief.
#[derive(Debug)]
pub(crate) struct Agent {
    own: Own,
    run: Run,
    machine: Hosted,
    program: Option<Program>,
    over: bool,
}

impl Agent {
    pub(crate) fn start(
        launch: Launch,
        run: Run,
        claim: Claim,
        life: u64,
        reach: &mut Reach<'_>,
    ) -> Option<Self> {
        let own = Own::of(&launch, claim, life);
        let host = own.claim.host.to_string();
        let machine = Hosted::new(launch, run.clone(), host, None, None);
        let mut agent = Self { own, run, machine, program: None, over: false };
        let begin = agent.machine.begin();
        agent.perform(begin, reach);
        (!agent.over).then_some(agent)
    }

    /// What can happen to it: reading, its program, a deadline.
    pub(crate) fn can(&self, reach: &Reach<'_>) -> (bool, bool) {
        let steps = self.program.as_ref().is_some_and(Program::can_step);
        (!self.over && self.own.can_read(reach), !self.over && steps)
    }

    pub(crate) fn deadline(&self) -> Option<tetrarch_core::time::BusTime> {
        self.machine.next_deadline()
    }

    pub(crate) fn tick(&mut self, reach: &mut Reach<'_>) {
        self.step(hosted::Input::Tick, reach);
    }

    pub(crate) fn read(&mut self, reach: &mut Reach<'_>) {
        let Some((from, mail)) = self.own.read(reach) else { return };
        self.hear(from, mail, reach);
        // The positions go with the journal entry that the message caused.
        let _fenced_writers_find_out_by_their_journal = self.own.save(reach);
    }

    pub(crate) fn hear(&mut self, from: Principal, mail: Mail, reach: &mut Reach<'_>) {
        let json = "{}".to_owned();
        self.step(hosted::Input::Mail { from, mail: Box::new(mail), json }, reach);
    }

    pub(crate) fn run_program(&mut self, reach: &mut Reach<'_>) {
        let Some(event) = self.program.as_mut().and_then(|program| program.step(reach.dice)) else {
            return;
        };
        reach.tell(format_args!("{} {event:?}", self.own.id));
        self.step(hosted::Input::Runner(event), reach);
    }

    pub(crate) fn kill_program(&mut self) {
        self.program = None;
        self.over = true;
    }

    fn step(&mut self, input: hosted::Input, reach: &mut Reach<'_>) {
        let effects = self.machine.step(reach.now, input);
        self.perform(effects, reach);
    }

    fn perform(&mut self, effects: Vec<hosted::Effect>, reach: &mut Reach<'_>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let input = match effect {
                hosted::Effect::Claim => Some(hosted::Input::Claimed(self.own.claim(reach))),
                hosted::Effect::Journal(event) => {
                    if reach.bus.append(self.run.id, event) {
                        None
                    } else {
                        reach.tally.note("session fenced");
                        reach.tell(format_args!("{} is fenced", self.own.id));
                        queue.clear();
                        Some(hosted::Input::Fenced)
                    }
                }
                hosted::Effect::ReadSpawn { json } => {
                    let wanted = Box::new(one_worker(self.run.epic, None));
                    let bad = json == "bad";
                    let read = if bad { Err("not JSON".to_owned()) } else { Ok((None, wanted)) };
                    Some(hosted::Input::SpawnRead(read))
                }
                hosted::Effect::Store(keep) => {
                    let stored = keep.iter().map(|_| Artifact {
                        name: "kept".to_owned(),
                        sha256: String::new(),
                        size: 1,
                        media_type: String::new(),
                    });
                    Some(hosted::Input::Stored(stored.collect()))
                }
                hosted::Effect::End => {
                    self.over = true;
                    return;
                }
                told @ (hosted::Effect::Order(_)
                | hosted::Effect::Report(_)
                | hosted::Effect::Request(..)
                | hosted::Effect::Mail(_)
                | hosted::Effect::Stream(_)) => {
                    self.tell(told, reach);
                    None
                }
            };
            if let Some(input) = input {
                for effect in self.machine.step(reach.now, input).into_iter().rev() {
                    queue.push_front(effect);
                }
            }
        }
    }

    fn tell(&mut self, effect: hosted::Effect, reach: &mut Reach<'_>) {
        match effect {
            hosted::Effect::Order(order) => self.order(*order, reach),
            hosted::Effect::Report(report) => self.own.report(*report, reach),
            hosted::Effect::Request(id, request) => {
                self.own.request(id, RequestBody::Spawn(*request), reach);
            }
            hosted::Effect::Mail(mail) => {
                reach.send(Wire::mail(self.own.id.clone(), *mail), self.own.life);
            }
            hosted::Effect::Stream(_)
            | hosted::Effect::Claim
            | hosted::Effect::Journal(_)
            | hosted::Effect::ReadSpawn { .. }
            | hosted::Effect::Store(_)
            | hosted::Effect::End => {}
        }
    }

    fn order(&mut self, order: Order, reach: &mut Reach<'_>) {
        if !matches!(order, Order::Start(_)) {
            reach.tell(format_args!("{} is told {order:?}", self.own.id));
        }
        match (order, &mut self.program) {
            (Order::Start(start), None) => self.start_program(&start, reach),
            (Order::Deliver { line, .. }, Some(program)) => program.hear(&line),
            (Order::Stop { .. }, Some(program)) => program.stop(),
            (Order::Kill { .. }, Some(program)) => program.kill(),
            (_, _) => {}
        }
    }

    /// Invariants 4, 7 and 12: one start for an epoch, of a claimed cursor, with its journal begun.
    fn start_program(&mut self, start: &Start, reach: &mut Reach<'_>) {
        let Own { id, epoch, claim, .. } = &self.own;
        let broken = &mut reach.watch.broken;
        if !reach.watch.starts.insert((id.clone(), *epoch)) {
            broken.push(format!("invariant 4: epoch {epoch} of {id} was started twice"));
        }
        if !reach.bus.holds(id, *epoch, claim) {
            broken.push(format!("invariant 7: {id} was started without its cursor"));
        }
        let begun = reach.bus.journals.get(&start.run).and_then(|journal| journal.first());
        if !matches!(begun, Some(JournalEvent::Starting { .. })) {
            broken.push(format!("invariant 14: {} was started before its journal", start.run));
        }
        let node = (start.epic, start.node);
        let failed = reach.watch.failures.entry(node).or_default();
        let added = reach.truth.nodes.get(&start.epic);
        let attempts = added.and_then(|nodes| nodes.get(&start.node)).map_or(1, |n| n.max_attempts);
        let may_fail = reach.faulty && *failed < FAILURES_MAX && attempts > 1;
        if may_fail {
            *failed += 1;
        }
        self.program = Some(Program::of(start, may_fail, reach.faulty, reach.dice));
    }
}

/// A project orchestrator.
#[derive(Debug)]
pub(crate) struct Project {
    own: Own,
    machine: Orchestrator,
    /// How far each epic's plan events are read.
    watched: BTreeMap<EpicId, usize>,
    collects: VecDeque<EpicId>,
    unsaved: bool,
    over: bool,
}

/// What a project orchestrator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Read,
    Plan(EpicId),
    Collect,
    Save,
}

impl Project {
    pub(crate) fn start(
        launch: Launch,
        epics: Vec<EpicId>,
        claim: Claim,
        life: u64,
        reach: &mut Reach<'_>,
    ) -> Option<Self> {
        let own = Own::of(&launch, claim, life);
        let machine = Orchestrator::new(launch.agent, launch.session);
        let (watched, collects) = (BTreeMap::new(), VecDeque::new());
        let mut project = Self { own, machine, watched, collects, unsaved: false, over: false };
        if project.own.claim(reach) != ClaimOutcome::Claimed {
            return None;
        }
        if launch.epoch > 1 {
            reach.tally.note("project orchestrator replaced");
        }
        project.own.report(Report::Ready, reach);
        for epic in epics {
            project.step(orchestrator::Input::TakeOn(epic), reach);
        }
        Some(project)
    }

    pub(crate) fn turns(&self, reach: &Reach<'_>) -> Vec<Turn> {
        let mut turns = Vec::new();
        if self.over {
            return turns;
        }
        if self.own.can_read(reach) {
            turns.push(Turn::Read);
        }
        for (epic, read) in &self.watched {
            if reach.bus.plans.get(epic).is_some_and(|events| events.len() > *read) {
                turns.push(Turn::Plan(*epic));
            }
        }
        if !self.collects.is_empty() {
            turns.push(Turn::Collect);
        }
        if self.unsaved {
            turns.push(Turn::Save);
        }
        turns
    }

    pub(crate) fn deadline(&self) -> Option<tetrarch_core::time::BusTime> {
        self.machine.next_deadline()
    }

    pub(crate) fn tick(&mut self, reach: &mut Reach<'_>) {
        self.step(orchestrator::Input::Tick, reach);
    }

    pub(crate) fn turn(&mut self, turn: Turn, reach: &mut Reach<'_>) {
        match turn {
            Turn::Read => {
                self.unsaved = true;
                if let Some((from, mail)) = self.own.read(reach) {
                    let mail = Box::new(mail);
                    self.step(orchestrator::Input::Mail { from, mail }, reach);
                }
            }
            Turn::Plan(epic) => {
                let read = self.watched.entry(epic).or_default();
                let event = reach.bus.plans.get(&epic).and_then(|events| events.get(*read));
                let Some((_, event)) = event.cloned() else { return };
                *read += 1;
                self.step(orchestrator::Input::Plan(Box::new(event)), reach);
            }
            Turn::Collect => {
                let Some(epic) = self.collects.pop_front() else { return };
                let state = &reach.bus.state;
                let nodes: Vec<_> = state
                    .nodes
                    .get(&epic)
                    .into_iter()
                    .flat_map(|all| all.values().cloned())
                    .collect();
                let states = state.node_states.get(&epic).into_iter().flatten();
                let results = states.filter_map(|(id, state)| {
                    let result = state.result.as_ref()?;
                    let deliverable = result.deliverable.clone();
                    Some((*id, Collected { deliverable, artifacts: result.artifacts.clone() }))
                });
                let results = results.collect();
                if reach.bus.state_through < reach.bus.ledger.len() {
                    reach.tally.note("state read too early");
                }
                self.step(orchestrator::Input::Collected { epic, nodes, results }, reach);
            }
            Turn::Save => {
                self.unsaved = false;
                reach.keep(&self.own.id, self.own.life);
                if !self.own.save(reach) {
                    reach.tally.note("session fenced");
                    self.over = true;
                }
            }
        }
    }

    fn step(&mut self, input: orchestrator::Input, reach: &mut Reach<'_>) {
        for effect in self.machine.step(reach.now, input) {
            match effect {
                orchestrator::Effect::Watch(epic) => drop(self.watched.insert(epic, 0)),
                orchestrator::Effect::Collect(epic) => self.collects.push_back(epic),
                orchestrator::Effect::Request { id, request, .. } => {
                    self.own.request(id, RequestBody::Spawn(*request), reach);
                }
                orchestrator::Effect::Op { id, op } => {
                    self.own.request(id, RequestBody::Op(*op), reach);
                }
                orchestrator::Effect::Report(report) => self.own.report(*report, reach),
                orchestrator::Effect::Mail(mail) => {
                    reach.send(Wire::mail(self.own.id.clone(), *mail), self.own.life);
                }
            }
        }
    }
}
