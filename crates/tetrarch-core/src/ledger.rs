//! The ledger's vocabulary: records, their keys, and the entry that one commit is (spec 02).
//! Folding entries into state is in `records`; deciding what they say is in `owner`.

use crate::admission::queued::QueuedSpawn;
use crate::agent::{Agent, Host, Profile, Project};
use crate::assignment::{Assignment, AssignmentStatus};
use crate::audit::Act;
use crate::change::Change;
use crate::conversation::{Turn, TurnId};
use crate::crystallization::Crystallization;
use crate::dispatch::Dispatch;
use crate::goal::{Goal, GoalState, GoalStatus};
use crate::graph::GraphRecord;
use crate::held::Held;
use crate::id::{
    AgentId, AssignmentId, ChangeId, CommitId, DispatchId, DraftId, EpicId, GraphName, HostName,
    NodeId, NoteName, Principal, ProfileName, ProjectName, QuestionId, RequestId, ReservationId,
    RunId, ScheduleId, SessionId,
};
use crate::liveness::Liveness;
use crate::mail::{Mail, MailBody};
use crate::note::ProjectNote;
use crate::plan::proposal::{PlanReview, Proposal};
use crate::plan::{Node, NodeState, NodeStatus, Plan, PlanEvent};
use crate::planner::Planning;
use crate::question::Question;
use crate::reservation::Reservation;
use crate::run::{Run, RunState, RunStatus};
use crate::schedule::Schedule;
use crate::snapshot::Snapshot;
use crate::time::BusTime;
use crate::words::words;

/// The after-image of something the ledger knows. Definitions and states are separate records,
/// so a change of status is small (spec 05).
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// `agent.<agent>`.
    Agent(Box<Agent>),
    /// `host.<host>`.
    Host(Host),
    /// `project.<project>`.
    Project(Project),
    /// `profile.<project>.<name>`.
    Profile(ProjectName, Box<Profile>),
    /// `run.<run>`.
    Run(Box<Run>),
    /// `run_state.<run>`.
    RunStatus(Box<RunStatus>),
    /// `goal.<epic>`.
    Goal(Box<Goal>),
    /// `goal_state.<epic>`.
    GoalState(Box<GoalState>),
    /// `plan.<epic>`.
    Plan(Box<Plan>),
    /// `node.<epic>.<node>`.
    Node(EpicId, Box<Node>),
    /// `node_state.<epic>.<node>`.
    NodeState(EpicId, Box<NodeState>),
    /// `assignment.<assignment>`.
    Assignment(Box<Assignment>),
    /// `dispatch.<dispatch>`.
    Dispatch(Box<Dispatch>),
    /// A question to the planner.
    Planning(Box<Planning>),
    /// `question.<question>`.
    Question(Box<Question>),
    /// `draft.<epic>.<draft>`.
    Draft(Box<Proposal>),
    /// `crystallization.<epic>.<node>`, with `-` for the goal itself.
    Crystallization(Box<Crystallization>),
    /// `schedule.<schedule>`.
    Schedule(Box<Schedule>),
    /// `graph.<project>.<name>`.
    Graph(Box<GraphRecord>),
    /// `note.<project>.<name>`.
    Note(Box<ProjectNote>),
    /// `turn.<human>.<conversation>.<number>`.
    Turn(Box<Turn>),
    /// `reservation.<reservation>`.
    Reservation(Box<Reservation>),
    /// `change.<change>`.
    Change(Box<Change>),
    /// `queued_spawn.<parent>.<place>`.
    QueuedSpawn(Box<QueuedSpawn>),
    /// `decision.<request>`.
    Decision(Box<Decision>),
    /// `snapshot.main`: the latest one.
    Snapshot(Box<Snapshot>),
}

/// What names a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// An agent.
    Agent(AgentId),
    /// A host.
    Host(HostName),
    /// A project.
    Project(ProjectName),
    /// A profile.
    Profile(ProjectName, ProfileName),
    /// A run's definition.
    Run(RunId),
    /// A run's state.
    RunStatus(RunId),
    /// A goal's definition.
    Goal(EpicId),
    /// A goal's state.
    GoalState(EpicId),
    /// A plan's header.
    Plan(EpicId),
    /// A node's definition.
    Node(EpicId, NodeId),
    /// A node's state.
    NodeState(EpicId, NodeId),
    /// An assignment.
    Assignment(AssignmentId),
    /// Something that was sent for an assignment.
    Dispatch(DispatchId),
    /// A question to the planner.
    Planning(DispatchId),
    /// A question to people.
    Question(QuestionId),
    /// A proposed change of a plan.
    Draft(EpicId, DraftId),
    /// The latest handoff of a node, or of the goal itself.
    Crystallization(EpicId, Option<NodeId>),
    /// What begins at set times.
    Schedule(ScheduleId),
    /// A state graph.
    Graph(ProjectName, GraphName),
    /// A note.
    Note(ProjectName, NoteName),
    /// A turn of a conversation.
    Turn(TurnId),
    /// Paths that a session holds.
    Reservation(ReservationId),
    /// A change that waits before the branch it is for.
    Change(ChangeId),
    /// A spawn request that waits, by its parent and its place there.
    QueuedSpawn(AgentId, u64),
    /// A decision on a request.
    Decision(RequestId),
    /// The latest snapshot.
    Snapshot,
}

impl RecordKey {
    /// The node that it is the definition or the state of; none of any other record.
    #[must_use]
    pub fn node(&self) -> Option<(EpicId, NodeId)> {
        if let Self::Node(epic, id) | Self::NodeState(epic, id) = self {
            Some((*epic, *id))
        } else {
            None
        }
    }
}

impl Record {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Agent(agent) => RecordKey::Agent(agent.id.clone()),
            Self::Host(host) => RecordKey::Host(host.name.clone()),
            Self::Project(project) => RecordKey::Project(project.name.clone()),
            Self::Profile(project, profile) => {
                RecordKey::Profile(project.clone(), profile.name.clone())
            }
            Self::Run(run) => RecordKey::Run(run.id),
            Self::RunStatus(status) => RecordKey::RunStatus(status.id),
            Self::Goal(goal) => RecordKey::Goal(goal.id),
            Self::GoalState(state) => RecordKey::GoalState(state.id),
            Self::Plan(plan) => RecordKey::Plan(plan.epic),
            Self::Node(epic, node) => RecordKey::Node(*epic, node.id),
            Self::NodeState(epic, state) => RecordKey::NodeState(*epic, state.id),
            Self::Assignment(assignment) => RecordKey::Assignment(assignment.id),
            Self::Dispatch(dispatch) => RecordKey::Dispatch(dispatch.id),
            Self::Planning(planning) => RecordKey::Planning(planning.id),
            Self::Question(question) => RecordKey::Question(question.id),
            Self::Draft(draft) => RecordKey::Draft(draft.epic, draft.id),
            Self::Crystallization(it) => RecordKey::Crystallization(it.epic, it.node),
            Self::Schedule(schedule) => RecordKey::Schedule(schedule.id),
            Self::Graph(graph) => RecordKey::Graph(graph.project.clone(), graph.name.clone()),
            Self::Note(note) => RecordKey::Note(note.project.clone(), note.name.clone()),
            Self::Turn(turn) => RecordKey::Turn(turn.id.clone()),
            Self::Reservation(reservation) => RecordKey::Reservation(reservation.id),
            Self::Change(change) => RecordKey::Change(change.id),
            Self::QueuedSpawn(queued) => {
                RecordKey::QueuedSpawn(queued.parent.clone(), queued.place)
            }
            Self::Decision(decision) => RecordKey::Decision(decision.request),
            Self::Snapshot(_) => RecordKey::Snapshot,
        }
    }
}

impl Record {
    /// Whether it is of work that goes on, so that another image of it is near; nobody waits for this one. What
    /// stands still, has ended or is wrong is looked at.
    #[must_use]
    pub fn changes_soon(&self) -> bool {
        match self {
            Self::Agent(agent) => {
                matches!(agent.liveness, Liveness::Register | Liveness::Active)
            }
            Self::RunStatus(status) => {
                matches!(status.state, RunState::Queued | RunState::Spawning | RunState::Running)
            }
            Self::NodeState(_, state) => {
                matches!(state.status, NodeStatus::Queued | NodeStatus::InProgress)
            }
            Self::Assignment(assignment) => matches!(
                assignment.status,
                AssignmentStatus::Queued | AssignmentStatus::Dispatched | AssignmentStatus::Active
            ),
            Self::GoalState(state) => state.status == GoalStatus::Active,
            Self::Plan(_) => true,
            Self::Host(_)
            | Self::Project(_)
            | Self::Profile(..)
            | Self::Run(_)
            | Self::Goal(_)
            | Self::Node(..)
            | Self::Dispatch(_)
            | Self::Planning(_)
            | Self::Question(_)
            | Self::Draft(_)
            | Self::Crystallization(_)
            | Self::Schedule(_)
            | Self::Graph(_)
            | Self::Note(_)
            | Self::Turn(_)
            | Self::Reservation(_)
            | Self::Change(_)
            | Self::QueuedSpawn(_)
            | Self::Decision(_)
            | Self::Snapshot(_) => false,
        }
    }

    /// Whether it says that a goal is reached or given up: its orchestrator reads everything of it then.
    #[must_use]
    pub fn ends_goal(&self) -> bool {
        matches!(self, Self::GoalState(state) if state.status.is_closed())
    }
}

/// What was decided on a request, kept so that the same request is answered the same again.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The request.
    pub request: RequestId,
    /// Lower-case hexadecimal sha256 of its body.
    pub digest: String,
    /// Who asked.
    pub sender: Principal,
    /// The answer; none when none was wanted.
    pub answer: Option<Box<Mail>>,
    /// When it was decided.
    pub at: BusTime,
    /// What the audit is told of it; none when it was no privileged act.
    pub act: Option<Box<Act>>,
    /// Others of the same commit that are kept in its record: of requests of agents, which are many.
    pub also: Vec<Decision>,
}

impl Decision {
    /// Whether one record may keep it with others: nobody but the owner looks for it.
    #[must_use]
    pub fn is_kept_with_others(&self) -> bool {
        self.sender.agent().is_some() && self.act.is_none() && self.also.is_empty()
    }

    /// It and those that are kept in its record, each by itself.
    pub fn each(mut self) -> impl Iterator<Item = Self> {
        let also = std::mem::take(&mut self.also);
        std::iter::once(self).chain(also)
    }
}

/// What happened, for "why did it do that".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Whose doing.
    pub actor: Principal,
    /// The agent it is about.
    pub agent: Option<AgentId>,
    /// The run it is about.
    pub run: Option<RunId>,
    /// The epic it is about.
    pub epic: Option<EpicId>,
    /// The node it is about.
    pub node: Option<NodeId>,
    /// The request that caused it.
    pub request: Option<RequestId>,
    /// In words, with the numbers.
    pub reason: String,
    /// The rule of the spec that was applied.
    pub rule: String,
}

words! {
    /// The kinds of events.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum EventKind {
        /// An owner began its epoch.
        OwnerStarted = "owner.started",
        /// A host orchestrator joined.
        HostJoined = "host.joined",
        /// A host orchestrator ended.
        HostLeft = "host.left",
        /// A project was made.
        ProjectCreated = "project.created",
        /// A project's mode was set.
        ProjectMode = "project.mode",
        /// A project was retired.
        ProjectRetired = "project.retired",
        /// A profile was set.
        ProfileApplied = "profile.applied",
        /// An agent was admitted.
        AgentAdmitted = "agent.admitted",
        /// A spawn was refused.
        SpawnDenied = "spawn.denied",
        /// A spawn request waits for a slot or a place.
        SpawnQueued = "spawn.queued",
        /// An agent's liveness changed.
        AgentLiveness = "agent.liveness",
        /// An agent's session was ordered to end, so that its next one can go on.
        AgentEnding = "agent.ending",
        /// An agent got its next session.
        AgentReplaced = "agent.replaced",
        /// A verb was asked for, or has come further.
        AgentVerb = "agent.verb",
        /// A run's state changed.
        RunState = "run.state",
        /// A goal was given.
        GoalCreated = "goal.created",
        /// A goal's status changed.
        GoalStatus = "goal.status",
        /// A node was added.
        NodeAdded = "node.added",
        /// A plan was changed on request: nodes added, redefined, split or given up.
        PlanChanged = "plan.changed",
        /// A change of a plan was proposed.
        DraftProposed = "draft.proposed",
        /// Somebody decided on a proposed change, or a later one took its place.
        DraftDecided = "draft.decided",
        /// A node's status changed.
        NodeStatus = "node.status",
        /// A node was called done by somebody who did not work on it.
        NodeOverride = "node.override",
        /// It was said how urgent a node is.
        NodePriority = "node.priority",
        /// It was said how urgent a goal is.
        GoalPriority = "goal.priority",
        /// A goal's definition changed.
        GoalUpdated = "goal.updated",
        /// Something is to begin at set times.
        ScheduleCreated = "schedule.created",
        /// Nothing is to begin at those times any more.
        ScheduleDeleted = "schedule.deleted",
        /// Its time had come.
        ScheduleFired = "schedule.fired",
        /// A state graph was applied.
        GraphApplied = "graph.applied",
        /// A note was written.
        NoteWritten = "note.written",
        /// A note was deleted.
        NoteDeleted = "note.deleted",
        /// A person said something in a conversation.
        TurnSaid = "turn.said",
        /// A turn was moved in its graph.
        TurnMoved = "turn.moved",
        /// A turn ended.
        TurnEnded = "turn.ended",
        /// An assignment's status changed.
        AssignmentStatus = "assignment.status",
        /// The overseer found an assignment standing still and did something about it, or its agent
        /// answered.
        Recovery = "assignment.recovery",
        /// The planner is asked.
        PlannerAsked = "planner.asked",
        /// The planner answered, or did not.
        PlannerAnswered = "planner.answered",
        /// A reviewer judged.
        Verdict = "review.verdict",
        /// An operation or report was refused.
        Refused = "request.refused",
        /// A question was asked.
        Question = "question.asked",
        /// A question was answered.
        QuestionAnswered = "question.answered",
        /// Nobody waits for a question's answer any more.
        QuestionWithdrawn = "question.withdrawn",
        /// Paths were reserved.
        FilesReserved = "files.reserved",
        /// A reservation ended.
        FilesReleased = "files.released",
        /// A run made a change that waits for a decision.
        ChangeProposed = "change.proposed",
        /// Somebody decided on a change.
        ChangeDecided = "change.decided",
        /// A change's host was ordered to merge it.
        ChangeOrdered = "change.ordered",
        /// What became of a change that waited.
        ChangeSettled = "change.settled",
        /// People drained a host, or had it take agents again.
        HostDrained = "host.drained",
        /// A circuit was closed.
        CircuitClosed = "circuit.closed",
        /// An ended run is no longer kept: its one milestone.
        RunArchived = "run.archived",
        /// A closed goal is no longer kept: its one milestone.
        GoalArchived = "goal.archived",
        /// A snapshot of all records was taken.
        LedgerSnapshot = "ledger.snapshot",
        /// Reading requests went on elsewhere: the stream ends before what was decided of it.
        IntakeMoved = "intake.moved",
        /// People accepted a ledger that is not the one that was remembered.
        LedgerAccepted = "ledger.accepted",
        /// Mail to GO was taken in.
        MailRead = "mail.read",
        /// A message was set aside by its reader.
        MailSetAside = "mail.set_aside",
        /// A grant was drawn on or settled.
        Budget = "budget",
        /// Something is wrong.
        Alert = "alert",
    }
}

/// The owner's order to seal an agent's cursor for a new session, and the old run's journal
/// with it (spec 02, Outbox, class 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Whose cursor.
    pub agent: AgentId,
    /// The new session.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// The run that goes with it.
    pub run: Option<RunId>,
    /// The run whose journal ends here.
    pub ends: Option<RunId>,
    /// Whether the session before it died by its program's own doing: what it was handling counts.
    pub blames: bool,
}

impl Seal {
    /// Whether it is that of a new agent, whose first claim does without: its launch is among this mail.
    #[must_use]
    pub fn is_of_new(&self, mail: &[Mail]) -> bool {
        mail.iter().any(|mail| {
            matches!(&mail.body, MailBody::Launch(launch)
                if launch.is_first() && launch.agent == self.agent && launch.epoch == self.epoch)
        })
    }
}

/// One entry of the ledger: everything that changes together, in one message.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id, by which an unknown outcome is resolved.
    pub commit: CommitId,
    /// The owner's epoch; grows with every owner.
    pub epoch: u64,
    /// When it was decided, in bus time.
    pub at: BusTime,
    /// Every request up to this sequence of `REQUESTS` is decided.
    pub intake_seq: u64,
    /// What happened.
    pub events: Vec<Event>,
    /// What it is like now.
    pub records: Vec<Record>,
    /// Records of it that this version cannot read. They are never written again.
    pub held: Vec<Held>,
    /// What is no longer kept.
    pub dropped: Vec<RecordKey>,
    /// Cursors to seal.
    pub seals: Vec<Seal>,
    /// Mail to send; the position in this list is part of its identity.
    pub mail: Vec<Mail>,
    /// Plan events to publish.
    pub plans: Vec<PlanEvent>,
    /// Plans that people should look at, at most one event for each.
    pub reviews: Vec<PlanReview>,
}

impl Entry {
    /// An entry that changes nothing.
    #[must_use]
    pub fn empty(commit: CommitId, epoch: u64, at: BusTime, intake_seq: u64) -> Self {
        Self {
            commit,
            epoch,
            at,
            intake_seq,
            events: Vec::new(),
            records: Vec::new(),
            held: Vec::new(),
            dropped: Vec::new(),
            seals: Vec::new(),
            mail: Vec::new(),
            plans: Vec::new(),
            reviews: Vec::new(),
        }
    }

    /// Whether it has an event of a kind.
    #[must_use]
    pub fn tells(&self, kind: EventKind) -> bool {
        self.events.iter().any(|event| event.kind == kind)
    }

    /// Up to where requests are decided after it, given up to where they were before. They only
    /// go back where reading went on elsewhere.
    #[must_use]
    pub fn decided(&self, before: u64) -> u64 {
        if self.tells(EventKind::IntakeMoved) {
            self.intake_seq
        } else {
            self.intake_seq.max(before)
        }
    }
}
