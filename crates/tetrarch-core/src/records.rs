//! The state that entries fold into: every record the ledger knows, with the few indexes that
//! decisions need. Folding is all this does (`evolve` of spec 01); it never refuses. What the overseer
//! looks at is in `overseen`.

mod archived;
mod asked;
mod decided;
mod gated;
mod overseen;
mod placed;
mod reserved;
mod talked;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::queued::QueuedSpawn;
use crate::agent::{Agent, Host, Hosting, Profile, Project};
use crate::assignment::Assignment;
use crate::budget::Spend;
use crate::change::Change;
use crate::conversation::{Turn, TurnId};
use crate::crystallization::Crystallization;
use crate::dispatch::Dispatch;
use crate::goal::{Goal, GoalState};
use crate::graph::GraphRecord;
use crate::held::Held;
use crate::id::{
    AgentId, AssignmentId, ChangeId, DispatchId, DraftId, EpicId, GraphName, HostName, HumanName,
    NodeId, NoteName, ProfileName, ProjectName, QuestionId, RequestId, ReservationId, RunId,
    ScheduleId, Ulid,
};
use crate::ledger::{Decision, Entry, Record, RecordKey};
use crate::liveness::Liveness;
use crate::note::ProjectNote;
use crate::plan::proposal::Proposal;
use crate::plan::{Node, NodeState, Plan};
use crate::planner::Planning;
use crate::question::Question;
use crate::reservation::Reservation;
use crate::role::Role;
use crate::run::{Run, RunState, RunStatus};
use crate::schedule::Schedule;
use crate::snapshot::Snapshot;
use crate::time::BusTime;

/// Every record, by kind and key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// The epoch of the last entry's owner.
    pub epoch: u64,
    /// Requests up to this sequence are decided.
    pub intake_seq: u64,
    /// Agents.
    pub agents: BTreeMap<AgentId, Agent>,
    /// Hosts.
    pub hosts: BTreeMap<HostName, Host>,
    /// Projects.
    pub projects: BTreeMap<ProjectName, Project>,
    /// Profiles.
    pub profiles: BTreeMap<(ProjectName, ProfileName), Profile>,
    /// Runs' definitions.
    pub runs: BTreeMap<RunId, Run>,
    /// Runs' states.
    pub run_status: BTreeMap<RunId, RunStatus>,
    /// Goals' definitions.
    pub goals: BTreeMap<EpicId, Goal>,
    /// Goals' states.
    pub goal_states: BTreeMap<EpicId, GoalState>,
    /// Plans' headers.
    pub plans: BTreeMap<EpicId, Plan>,
    /// Nodes' definitions.
    pub nodes: BTreeMap<EpicId, BTreeMap<NodeId, Node>>,
    /// Nodes' states; leaves only, the rest is derived.
    pub node_states: BTreeMap<EpicId, BTreeMap<NodeId, NodeState>>,
    /// Assignments.
    pub assignments: BTreeMap<AssignmentId, Assignment>,
    /// What was sent for assignments.
    pub dispatches: BTreeMap<DispatchId, Dispatch>,
    /// Questions to the planner.
    pub plannings: BTreeMap<DispatchId, Planning>,
    /// Questions to people.
    pub questions: BTreeMap<QuestionId, Question>,
    /// Proposed changes of plans.
    pub drafts: BTreeMap<EpicId, BTreeMap<DraftId, Proposal>>,
    /// The latest handoffs of nodes, and of the goals themselves.
    pub crystallizations: BTreeMap<EpicId, BTreeMap<Option<NodeId>, Crystallization>>,
    /// What begins at set times.
    pub schedules: BTreeMap<ScheduleId, Schedule>,
    /// Notes of projects.
    pub notes: BTreeMap<(ProjectName, NoteName), ProjectNote>,
    /// State graphs.
    pub graphs: BTreeMap<(ProjectName, GraphName), GraphRecord>,
    /// Turns of conversations.
    pub turns: BTreeMap<TurnId, Turn>,
    /// Paths that sessions hold.
    pub reservations: BTreeMap<ReservationId, Reservation>,
    /// Changes that wait before the branches they are for, and what became of them.
    pub changes: BTreeMap<ChangeId, Change>,
    /// Spawn requests that wait, by their parents and in their order.
    pub queued_spawns: BTreeMap<(AgentId, u64), QueuedSpawn>,
    /// Decisions, each by itself.
    pub decisions: BTreeMap<RequestId, Decision>,
    /// The latest snapshot.
    pub snapshot: Option<Snapshot>,
    /// What is known of records that this version cannot read: that they are there.
    pub held: BTreeMap<RecordKey, Held>,
    indexes: Indexes,
}

/// What can be derived from the records but is asked too often to search for.
#[derive(Debug, Clone, PartialEq, Default)]
struct Indexes {
    /// What has a process, by host and that host's epoch; no set is empty, so that equal records
    /// are equal however they came about.
    placed: BTreeMap<(HostName, u64), BTreeSet<AgentId>>,
    /// How many of these take a place; none is 0.
    places: BTreeMap<(HostName, u64), usize>,
    children: BTreeMap<AgentId, BTreeSet<AgentId>>,
    offline: BTreeSet<AgentId>,
    /// Those with lost runs, or grants of ended children, that are not settled.
    unsettled: BTreeSet<AgentId>,
    /// Runs that have not ended, of sessions that are to go on, by where they stand and since when.
    standing: BTreeSet<(RunState, BusTime, RunId)>,
    /// External agents that have to register again, by since when.
    unregistered: BTreeSet<(BusTime, AgentId)>,
    ending: BTreeSet<(BusTime, AgentId)>,
    asked: BTreeMap<AgentId, BTreeSet<QuestionId>>,
    /// Questions that are open.
    open: BTreeSet<QuestionId>,
    /// Questions to the planner for which something is set aside.
    set_aside: BTreeSet<DispatchId>,
    /// How many runs and assignments an epic has; none is 0.
    worked: BTreeMap<EpicId, usize>,
    /// Interaction orchestrators that are active.
    people: BTreeSet<AgentId>,
    /// Changes that are not over, by until when.
    waiting: BTreeSet<(BusTime, ChangeId)>,
    /// Changes by the runs that made them.
    made: BTreeSet<(RunId, ChangeId)>,
    /// Reservations, by until when.
    reserved: BTreeSet<(BusTime, ReservationId)>,
    /// Reservations of each project, also those that are over and not yet forgotten.
    reserved_in: BTreeMap<ProjectName, BTreeSet<ReservationId>>,
    /// Records of decisions, by when the first one in each was made.
    decided: BTreeSet<(BusTime, RequestId)>,
    /// The others in these records; none is empty.
    decided_with: BTreeMap<RequestId, Vec<RequestId>>,
    /// Assignments that somebody works on, by since when nothing was sent and nothing heard.
    quiet: BTreeSet<(BusTime, AssignmentId)>,
    /// The same of those whose nodes say themselves how long they may be, by when that is over.
    quiet_by_own_time: BTreeSet<(BusTime, AssignmentId)>,
    /// Those whose agents said when they would be heard of again, by when.
    expected: BTreeSet<(BusTime, AssignmentId)>,
    dispatched: BTreeMap<AssignmentId, BTreeSet<DispatchId>>,
    ended: BTreeSet<(BusTime, Ended)>,
    /// Runs that have ended and whose journals are not kept, by since when.
    unarchived: BTreeSet<(BusTime, RunId)>,
    closed: BTreeSet<(BusTime, EpicId)>,
    /// Turns that have not ended; no set is empty.
    talking: BTreeMap<HumanName, BTreeSet<TurnId>>,
    /// Turns by the goals that are worked on for them.
    worked_for: BTreeMap<EpicId, TurnId>,
    /// Schedules, by when they are due next.
    due: BTreeSet<(BusTime, ScheduleId)>,
}

/// Something that is over and is forgotten some time later. Names that are used again keep their
/// epochs, so they are never among these (spec 02, Streams).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// A terminated sub-agent of a host.
    Agent(AgentId),
    /// A run.
    Run(RunId),
    /// An assignment.
    Assignment(AssignmentId),
    /// A question that is answered or withdrawn.
    Question(QuestionId),
    /// A change that waits no more.
    Change(ChangeId),
    /// A turn of a conversation.
    Turn(TurnId),
}

impl Records {
    /// Folds one entry in.
    pub fn apply(&mut self, entry: &Entry) {
        self.epoch = self.epoch.max(entry.epoch);
        self.intake_seq = entry.decided(self.intake_seq);
        for record in &entry.records {
            self.put(record.clone());
        }
        for key in &entry.dropped {
            self.remove(key);
        }
        for held in &entry.held {
            self.hold(held.clone());
        }
    }

    /// Forgets what was known of a record: it is one that this version cannot read now.
    pub fn hold(&mut self, held: Held) {
        if let Some(key) = held.key.clone() {
            self.remove(&key);
            self.held.insert(key, held);
        }
    }

    /// Sets one record.
    pub fn put(&mut self, record: Record) {
        if !self.held.is_empty() {
            self.held.remove(&record.key());
        }
        match record {
            Record::Agent(agent) => self.put_agent(*agent),
            Record::Host(host) => drop(self.hosts.insert(host.name.clone(), host)),
            Record::Project(project) => {
                self.projects.insert(project.name.clone(), project);
            }
            Record::Profile(project, profile) => {
                self.profiles.insert((project, profile.name.clone()), *profile);
            }
            Record::Run(run) => {
                self.remove(&RecordKey::Run(run.id));
                *self.indexes.worked.entry(run.epic).or_default() += 1;
                self.runs.insert(run.id, *run);
            }
            Record::RunStatus(status) => {
                let id = status.id;
                self.unindex_run(id);
                self.run_status.insert(id, *status);
                self.index_run(id);
            }
            Record::Goal(goal) => drop(self.goals.insert(goal.id, *goal)),
            Record::GoalState(state) => {
                self.remove(&RecordKey::GoalState(state.id));
                if state.status.is_closed() {
                    self.indexes.closed.insert((state.since, state.id));
                }
                self.goal_states.insert(state.id, *state);
            }
            Record::Plan(plan) => drop(self.plans.insert(plan.epic, *plan)),
            Record::Node(epic, node) => {
                self.nodes.entry(epic).or_default().insert(node.id, *node);
            }
            Record::NodeState(epic, state) => {
                self.node_states.entry(epic).or_default().insert(state.id, *state);
            }
            Record::Assignment(assignment) => self.put_assignment(*assignment),
            Record::Dispatch(dispatch) => self.put_dispatch(*dispatch),
            Record::Planning(planning) => {
                self.remove(&RecordKey::Planning(planning.id));
                if planning.set_aside != Spend::default() {
                    self.indexes.set_aside.insert(planning.id);
                }
                self.plannings.insert(planning.id, *planning);
            }
            Record::Question(question) => self.put_question(*question),
            Record::Draft(draft) => {
                self.drafts.entry(draft.epic).or_default().insert(draft.id, *draft);
            }
            Record::Crystallization(it) => {
                self.crystallizations.entry(it.epic).or_default().insert(it.node, *it);
            }
            Record::Schedule(schedule) => self.put_schedule(*schedule),
            Record::Graph(graph) => self.put_graph(*graph),
            Record::Note(note) => self.put_note(*note),
            Record::Turn(turn) => self.put_turn(*turn),
            Record::Reservation(it) => self.put_reservation(*it),
            Record::Change(change) => self.put_change(*change),
            Record::QueuedSpawn(queued) => self.put_queued_spawn(*queued),
            Record::Decision(decision) => self.put_decision(*decision),
            Record::Snapshot(snapshot) => self.snapshot = Some(*snapshot),
        }
    }

    /// Forgets one record.
    pub fn remove(&mut self, key: &RecordKey) {
        self.held.remove(key);
        match key {
            RecordKey::Agent(id) => {
                self.unindex(id);
                self.agents.remove(id);
            }
            RecordKey::Host(host) => drop(self.hosts.remove(host)),
            RecordKey::Project(project) => drop(self.projects.remove(project)),
            RecordKey::Profile(project, name) => {
                self.profiles.remove(&(project.clone(), name.clone()));
            }
            RecordKey::Run(run) => {
                if let Some(run) = self.runs.remove(run) {
                    self.indexes.unwork(run.epic);
                }
            }
            RecordKey::RunStatus(run) => {
                self.unindex_run(*run);
                self.run_status.remove(run);
            }
            RecordKey::Goal(epic) => drop(self.goals.remove(epic)),
            RecordKey::GoalState(epic) => {
                if let Some(state) = self.goal_states.remove(epic) {
                    self.indexes.closed.remove(&(state.since, state.id));
                }
            }
            RecordKey::Plan(epic) => drop(self.plans.remove(epic)),
            RecordKey::Node(epic, node) => take_of(&mut self.nodes, *epic, node),
            RecordKey::NodeState(epic, node) => take_of(&mut self.node_states, *epic, node),
            RecordKey::Assignment(id) => self.remove_assignment(*id),
            RecordKey::Dispatch(id) => self.remove_dispatch(*id),
            RecordKey::Planning(id) => {
                self.plannings.remove(id);
                self.indexes.set_aside.remove(id);
            }
            RecordKey::Question(id) => self.remove_question(*id),
            RecordKey::Draft(epic, id) => take_of(&mut self.drafts, *epic, id),
            RecordKey::Crystallization(epic, node) => {
                take_of(&mut self.crystallizations, *epic, node);
            }
            RecordKey::Schedule(id) => self.remove_schedule(*id),
            RecordKey::Graph(project, name) => self.remove_graph(project, name),
            RecordKey::Note(project, name) => self.remove_note(project, name),
            RecordKey::Turn(id) => self.remove_turn(id),
            RecordKey::Reservation(id) => self.remove_reservation(*id),
            RecordKey::Change(id) => self.remove_change(*id),
            RecordKey::QueuedSpawn(parent, place) => self.remove_queued_spawn(parent, *place),
            RecordKey::Decision(request) => self.remove_decision(*request),
            RecordKey::Snapshot => self.snapshot = None,
        }
    }

    fn put_agent(&mut self, agent: Agent) {
        self.unindex(&agent.id);
        self.indexes.index_place(&agent);
        if agent.liveness != Liveness::Terminated
            && let Some(parent) = &agent.parent
        {
            let children = self.indexes.children.entry(parent.clone()).or_default();
            children.insert(agent.id.clone());
        }
        // A host orchestrator waits for nobody but a process of its own host (spec 04).
        let placed = agent.hosting == Hosting::Hosted && Role::of(&agent.id) != Role::Host;
        if agent.liveness == Liveness::Offline && placed {
            self.indexes.offline.insert(agent.id.clone());
        }
        if agent.liveness == Liveness::Terminated && placed && Role::of(&agent.id).takes_slot() {
            self.indexes.ended.insert((agent.since, Ended::Agent(agent.id.clone())));
        }
        if !agent.unsettled.is_empty() {
            self.indexes.unsettled.insert(agent.id.clone());
        }
        if agent.liveness == Liveness::Active && Role::of(&agent.id) == Role::Interaction {
            self.indexes.people.insert(agent.id.clone());
        }
        let external = agent.hosting == Hosting::External && agent.session.is_some();
        if agent.liveness == Liveness::Offline && external {
            self.indexes.unregistered.insert((agent.since, agent.id.clone()));
        }
        let run = agent.work.as_ref().map(|work| work.run);
        if let Some(ending) = &agent.ending {
            self.indexes.ending.insert((ending.until, agent.id.clone()));
        }
        self.agents.insert(agent.id.clone(), agent);
        if let Some(run) = run {
            self.unindex_run(run);
            self.index_run(run);
        }
    }

    /// A run whose session is lost or ordered to end is not waited for: what becomes of it is
    /// decided with the session.
    fn index_run(&mut self, id: RunId) {
        let Some(status) = self.run_status.get(&id) else { return };
        if status.state.is_terminal() {
            self.indexes.ended.insert((status.since, Ended::Run(id)));
            if status.archive.is_none() {
                self.indexes.unarchived.insert((status.since, id));
            }
            return;
        }
        let decided = self.agents.get(&status.agent).is_some_and(|agent| {
            matches!(agent.liveness, Liveness::Offline | Liveness::Terminated)
                || agent.ending.is_some()
        });
        if !decided {
            self.indexes.standing.insert((status.state, status.waiting_since(), id));
        }
    }

    fn unindex_run(&mut self, id: RunId) {
        if let Some(status) = self.run_status.get(&id) {
            self.indexes.standing.remove(&(status.state, status.waiting_since(), id));
            self.indexes.ended.remove(&(status.since, Ended::Run(id)));
            self.indexes.unarchived.remove(&(status.since, id));
        }
    }

    fn unindex(&mut self, id: &AgentId) {
        let Some(before) = self.agents.get(id) else { return };
        self.indexes.offline.remove(id);
        self.indexes.people.remove(id);
        self.indexes.unsettled.remove(id);
        self.indexes.unregistered.remove(&(before.since, id.clone()));
        self.indexes.ended.remove(&(before.since, Ended::Agent(id.clone())));
        if let Some(ending) = &before.ending {
            self.indexes.ending.remove(&(ending.until, id.clone()));
        }
        self.indexes.unindex_place(before);
        if let Some(parent) = &before.parent {
            take(&mut self.indexes.children, parent, id);
        }
    }

    /// Hosted agents that wait for a host that can take them.
    pub fn offline(&self) -> impl Iterator<Item = &AgentId> {
        self.indexes.offline.iter()
    }

    /// Interaction orchestrators that are active: who people hear from.
    pub fn people(&self) -> impl Iterator<Item = &AgentId> {
        self.indexes.people.iter()
    }

    /// Agents with something that is not settled yet.
    pub fn unsettled(&self) -> impl Iterator<Item = &AgentId> {
        self.indexes.unsettled.iter()
    }

    /// Runs that stand in a state, with since when nothing was done about it, longest first;
    /// without those whose session is lost or ordered to end.
    pub fn standing(&self, state: RunState) -> impl Iterator<Item = (BusTime, RunId)> {
        let all = (state, BusTime(0), RunId(Ulid(0)))
            ..=(state, BusTime(u64::MAX), RunId(Ulid(u128::MAX)));
        self.indexes.standing.range(all).map(|(_, since, run)| (*since, *run))
    }

    /// External agents that are offline, with since when, longest first.
    pub fn unregistered(&self) -> impl Iterator<Item = (BusTime, &AgentId)> {
        self.indexes.unregistered.iter().map(|(since, agent)| (*since, agent))
    }

    /// Agents whose session was ordered to end, with the time by which its host has to have said
    /// that it did, the earliest first.
    pub fn ending(&self) -> impl Iterator<Item = (BusTime, &AgentId)> {
        self.indexes.ending.iter().map(|(until, id)| (*until, id))
    }

    /// Children that are not terminated.
    pub fn children_of(&self, parent: &AgentId) -> impl Iterator<Item = &AgentId> {
        self.indexes.children.get(parent).into_iter().flatten()
    }

    /// What is over, with since when, longest first.
    pub fn ended(&self) -> impl ExactSizeIterator<Item = (BusTime, &Ended)> {
        self.indexes.ended.iter().map(|(since, ended)| (*since, ended))
    }

    /// Closed goals, with since when, longest first.
    pub fn closed(&self) -> impl ExactSizeIterator<Item = (BusTime, EpicId)> + DoubleEndedIterator {
        self.indexes.closed.iter().copied()
    }
}

/// Takes something out of an epic and leaves no empty epic behind.
fn take_of<K: Ord, T>(of: &mut BTreeMap<EpicId, BTreeMap<K, T>>, epic: EpicId, key: &K) {
    if let Some(all) = of.get_mut(&epic) {
        all.remove(key);
        if all.is_empty() {
            of.remove(&epic);
        }
    }
}

/// Takes an agent out of an index and leaves no empty set behind.
fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<AgentId>>, key: &K, id: &AgentId) {
    if let Some(set) = index.get_mut(key) {
        set.remove(id);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
