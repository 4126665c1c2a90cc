//! What others ask of the owner and report to it (spec 02: `spawn.request`, `op`, `report`),
//! after decoding. Nothing here decides. What is asked about goals, work and schedules stands in a file
//! for each.

pub mod conversations;
pub mod goals;
pub mod schedules;
pub mod verbs;
pub mod work;

mod budget;
mod files;
mod gate;
mod hosts;
mod notes;
mod reading;

use crate::agent::{Mode, Profile};
use crate::brief::{RunResult, Tools, Usage, Verdict, Worktree};
use crate::budget::{Counter, Limits, Spend};
use crate::change::{ApplyOutcome, Made};
use crate::id::{
    AgentId, ChangeId, DispatchId, Domain, EpicId, HostName, HumanName, NodeId, NoteName,
    Principal, ProfileName, ProjectName, QuestionId, RequestId, RunId, SessionId,
};
use crate::mail::receipt::SetAside;
use crate::overseer::Telemetry;
use crate::plan::schema::PlanFile;
use crate::plan::{Blocker, PlacementWish};
use crate::role::Role;
use crate::run::RunEvent;
use crate::time::{BusTime, Millis};
use crate::verb::{Stage, Verb};
use goals::{GoalOp, GoalUpdate};
use schedules::ScheduleOp;
use verbs::VerbOp;
use work::WorkOp;

pub mod planning;

use planning::PlanOp;

pub use budget::BudgetOp;
pub use files::FileOp;
pub use gate::{GateOp, GateVerdict};
pub use hosts::{HostDrain, HostJoin};
pub use notes::NoteOp;
pub use reading::Page;

/// Who sent something, as the subject and the headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The subject's last identity token.
    pub from: Principal,
    /// The host token, when an HO published it for an agent it hosts.
    pub via: Option<HostName>,
    /// `Tetrarch-Session`.
    pub session: Option<SessionId>,
    /// `Tetrarch-Epoch`; 1 when absent.
    pub epoch: u64,
}

/// One message of `REQUESTS`, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its sequence in `REQUESTS`.
    pub seq: u64,
    /// Who sent it.
    pub sender: Sender,
    /// The idempotency key.
    pub id: RequestId,
    /// Tells the same request from another under the same id: the first [`DIGEST_HALF`] characters of the
    /// lower-case hexadecimal sha256 of the body's bytes, then as many of what it was read as. Requests
    /// are the same when one of the halves is: bytes stay what they are when a version reads them
    /// in another way, and what is read is the same however it was written.
    pub digest: String,
    /// A W3C `traceparent`.
    pub trace: Option<String>,
    /// The public key of the user whose connection it came by, as the server said; none when it did not.
    pub credential: Option<String>,
    /// What is asked or reported.
    pub body: RequestBody,
}

/// Characters of each half of [`Request::digest`].
pub const DIGEST_HALF: usize = 32;

impl Request {
    /// The id that its sender gave it, if any could be read.
    #[must_use]
    pub fn given_id(&self) -> Option<RequestId> {
        let nameless = matches!(self.body, RequestBody::Malformed { nameless: true, .. });
        (!nameless).then_some(self.id)
    }
}

/// What is asked or reported.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestBody {
    /// `spawn.request.<epic>.<node>.<sender>`.
    Spawn(SpawnRequest),
    /// `op.<name>.<from>`.
    Op(Op),
    /// `report.<from>`.
    Report(Report),
    /// It could not be read; the sender is told.
    Malformed {
        /// What it was meant to be.
        kind: MalformedKind,
        /// What is wrong, with the field.
        error: String,
        /// Whether its id cannot be read either: the one that it has is this process's own.
        nameless: bool,
    },
}

/// What an unreadable request was meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MalformedKind {
    /// A spawn request.
    Spawn,
    /// `goal.create`, whose plan breaks a rule (spec 05, `E_INVALID_PLAN`).
    Plan,
    /// An operation or a report.
    Other,
}

/// A spawn request (spec 03, Spawn protocol).
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnRequest {
    /// The epic, from the subject.
    pub epic: EpicId,
    /// The node, from the subject; none for `-`.
    pub node: Option<NodeId>,
    /// For whom; the sender unless said.
    pub parent: Option<AgentId>,
    /// On whose behalf a sponsor asks.
    pub requested_by: Option<Principal>,
    /// Why.
    pub reason: String,
    /// The sender's idea of its depth.
    pub caller_depth: Option<u8>,
    /// The sender's idea of its `max_depth`.
    pub caller_max_depth: Option<u8>,
    /// The sender's idea of its `local_max_depth`.
    pub caller_local_max_depth: Option<u8>,
    /// Who is wanted, 1 to 16.
    pub subagents: Vec<SubagentWish>,
    /// Whether an answer is wanted.
    pub ack_required: bool,
    /// Whether it waits where nothing is missing but a free slot or a place on a host.
    pub wait: bool,
}

/// One sub-agent that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentWish {
    /// Its role.
    pub role: Role,
    /// Its domain.
    pub domain: Option<Domain>,
    /// What it is to do.
    pub task: TaskWish,
    /// A name for people.
    pub suggested_actor_id: String,
    /// The subtree's limit, clamped to the parent's.
    pub local_max_depth: Option<u8>,
    /// What it may spend.
    pub budget: Limits,
    /// Longest run.
    pub wall: Option<Millis>,
    /// What it may use; none means the profile's.
    pub tools: Option<Tools>,
    /// The profile that executes it; none means the project's default.
    pub profile: Option<ProfileName>,
    /// Where.
    pub placement: PlacementWish,
}

/// What a sub-agent is to do: a bare task, expanded at admission, or a whole brief.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskWish {
    /// The goal only.
    Task(String),
    /// Everything but the runner, which is the profile's.
    Brief(BriefWish),
}

/// A brief as a requester writes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BriefWish {
    /// One paragraph, falsifiable.
    pub goal: String,
    /// What the child has to know.
    pub key_facts: Vec<String>,
    /// Notes of the project that it has to know.
    pub notes: Vec<NoteName>,
    /// JSON Schema of the deliverable, as JSON text; none means text.
    pub output_schema: Option<String>,
    /// How one can tell that it succeeded.
    pub success_criteria: Vec<String>,
    /// When it may call itself done.
    pub definition_of_done: String,
    /// Directory it works in; empty means the profile's.
    pub workspace: String,
    /// Paths it may change.
    pub scope_paths: Vec<String>,
    /// Longest turn.
    pub turn_timeout: Option<Millis>,
    /// Where it works; none: as the profile says.
    pub worktree: Option<Worktree>,
}

/// An operation (spec 02).
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// `host.join`: a host orchestrator begins a life.
    HostJoin(HostJoin),
    /// `human.join`: an interaction orchestrator for a human.
    HumanJoin {
        /// The human.
        human: HumanName,
    },
    /// `project.create`.
    ProjectCreate(ProjectCreate),
    /// `project.mode`.
    ProjectMode {
        /// The project.
        project: ProjectName,
        /// Its new mode.
        mode: Mode,
    },
    /// `project.retire`.
    ProjectRetire {
        /// The project.
        project: ProjectName,
    },
    /// `profile.apply`.
    ProfileApply {
        /// The project it belongs to.
        project: ProjectName,
        /// The profile.
        profile: Box<Profile>,
    },
    /// `agent.register`: an external agent begins a session.
    AgentRegister,
    /// `agent.retire`: an agent and its children end.
    AgentRetire {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// `agent.replace`: a lost or hung session gives way to the next one of the same name.
    AgentReplace {
        /// Who.
        agent: AgentId,
        /// Which session; one that was replaced is answered with its successor.
        session: SessionId,
        /// Rather end its attempt as failed.
        give_up: bool,
        /// Why.
        reason: String,
    },
    /// `agent.rotate`: a session ends at a boundary, and the next one of the same name goes on.
    AgentRotate {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// `host.drain`: a host takes no more agents and its own go on elsewhere, or it takes agents again.
    HostDrain(HostDrain),
    /// `goal.update`.
    GoalUpdate(Box<GoalUpdate>),
    /// `circuit.close`: an agent's children may be started again.
    CircuitClose {
        /// Whose circuit.
        agent: AgentId,
    },
    /// `agent.steer`, `agent.interrupt`, `agent.pause`, `agent.resume`.
    Verb(VerbOp),
    /// `agent.status`.
    AgentStatus {
        /// Who.
        agent: AgentId,
    },
    /// `goal.create`, with the whole plan.
    GoalCreate {
        /// The project that is to work on it.
        project: ProjectName,
        /// The plan; one task with the goal's words when none was given.
        plan: Box<PlanFile>,
    },
    /// `todo.plan`, `todo.add`, `todo.split`, `todo.merge`, `todo.draft`: changes of plans.
    Plan(PlanOp),
    /// `question.answer`: a human, or whom it was put to, answers a question.
    QuestionAnswer {
        /// The question.
        question: QuestionId,
        /// In words.
        text: String,
    },
    /// `overseer.tick`: the overseer looks at everything now and says what it did.
    OverseerTick(Telemetry),
    /// About a goal that there is.
    Goal(GoalOp),
    /// About the work of a goal.
    Work(WorkOp),
    /// About what begins at set times.
    Schedule(ScheduleOp),
    /// `conversation.*`, `graph.apply`: what people say and how it is routed.
    Conversation(conversations::ConversationOp),
    /// `file.*`: reservations of files.
    File(FileOp),
    /// `note.*`: notes of a project.
    Note(NoteOp),
    /// `approval.decide`, `apply.request`: changes that wait before their branches.
    Gate(GateOp),
    /// `budget.raise`: a grant grows while its run goes on.
    Budget(BudgetOp),
    /// `work.block`: a ready node cannot be worked on.
    WorkBlock {
        /// The epic.
        epic: EpicId,
        /// The node.
        node: NodeId,
        /// Why.
        blocker: Blocker,
    },
}

impl Op {
    /// Whether only humans may ask for it.
    #[must_use]
    pub fn is_administration(&self) -> bool {
        match self {
            Self::ProjectCreate(_)
            | Self::ProjectMode { .. }
            | Self::ProjectRetire { .. }
            | Self::ProfileApply { .. }
            | Self::HostDrain(_)
            | Self::CircuitClose { .. }
            | Self::Gate(_)
            | Self::Budget(_)
            | Self::OverseerTick(_) => true,
            Self::Conversation(op) => matches!(op, conversations::ConversationOp::Graph(_)),
            Self::HostJoin(_)
            | Self::HumanJoin { .. }
            | Self::AgentRegister
            | Self::AgentRetire { .. }
            | Self::AgentReplace { .. }
            | Self::AgentRotate { .. }
            | Self::Verb(_)
            | Self::AgentStatus { .. }
            | Self::GoalCreate { .. }
            | Self::Plan(_)
            | Self::QuestionAnswer { .. }
            | Self::Goal(_)
            | Self::GoalUpdate(_)
            | Self::Work(_)
            | Self::Schedule(_)
            | Self::File(_)
            | Self::Note(_)
            | Self::WorkBlock { .. } => false,
        }
    }

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::HostJoin(_) => "host.join",
            Self::HumanJoin { .. } => "human.join",
            Self::ProjectCreate(_) => "project.create",
            Self::ProjectMode { .. } => "project.mode",
            Self::ProjectRetire { .. } => "project.retire",
            Self::ProfileApply { .. } => "profile.apply",
            Self::AgentRegister => "agent.register",
            Self::AgentRetire { .. } => "agent.retire",
            Self::AgentReplace { .. } => "agent.replace",
            Self::AgentRotate { .. } => "agent.rotate",
            Self::HostDrain(_) => "host.drain",
            Self::CircuitClose { .. } => "circuit.close",
            Self::Verb(op) => op.name(),
            Self::AgentStatus { .. } => "agent.status",
            Self::GoalCreate { .. } => "goal.create",
            Self::GoalUpdate(_) => "goal.update",
            Self::Plan(op) => op.name(),
            Self::QuestionAnswer { .. } => "question.answer",
            Self::OverseerTick(_) => "overseer.tick",
            Self::Goal(op) => op.name(),
            Self::Work(op) => op.name(),
            Self::Schedule(op) => op.name(),
            Self::Conversation(op) => op.name(),
            Self::File(op) => op.name(),
            Self::Note(op) => op.name(),
            Self::Gate(op) => op.name(),
            Self::Budget(op) => op.name(),
            Self::WorkBlock { .. } => "work.block",
        }
    }
}

/// `op.project.create`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectCreate {
    /// Its name.
    pub project: ProjectName,
    /// How it delegates.
    pub mode: Mode,
    /// Its orchestrator is a program of somebody else's that speaks NATS.
    pub external: bool,
    /// What its agents may use.
    pub tools: Tools,
    /// What it may spend.
    pub budget: Limits,
    /// Depth below it that it allows.
    pub local_max_depth: Option<u8>,
    /// Where its orchestrator is to run.
    pub placement: PlacementWish,
}

/// The cause of a crash that is the restart of the session's host (spec 04, Hosts).
pub const HOST_RESTART: &str = "host_restart";

/// A report of an agent or its HO (spec 02).
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The session is up: its first heartbeat.
    Ready,
    /// The session's process is gone, on purpose.
    Gone {
        /// Why.
        cause: String,
    },
    /// The session's process died.
    Crashed {
        /// Which exit or signal.
        cause: String,
    },
    /// The run moved.
    Run {
        /// The run.
        run: RunId,
        /// What happened.
        event: RunEvent,
        /// Why, in words.
        reason: String,
        /// What it has used so far.
        usage: Usage,
    },
    /// The run ended.
    Result {
        /// The run; none when a project orchestrator reports an epic's.
        run: Option<RunId>,
        /// The epic, when a project orchestrator reports.
        epic: Option<EpicId>,
        /// What it ended with.
        result: RunResult,
    },
    /// A question to the goal's owner.
    Ask {
        /// The run.
        run: RunId,
        /// What the question is called from now on; the owner finds a name when there is none.
        id: Option<QuestionId>,
        /// In words.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// A dispatch was consumed.
    Consumed {
        /// The run.
        run: RunId,
        /// Which.
        dispatch: DispatchId,
    },
    /// A status update (`overseerUpdate`, spec 05).
    Update {
        /// The run.
        run: RunId,
        /// The dispatch it answers; none when nobody asked.
        dispatch: Option<DispatchId>,
        /// The object as JSON text, or words with a fenced `json` block that holds it.
        update: String,
        /// When it will be heard of again, at the latest.
        expected: Option<BusTime>,
    },
    /// How far a verb has come.
    Verb {
        /// The run.
        run: RunId,
        /// The request that asked for it.
        id: RequestId,
        /// Which verb.
        verb: Verb,
        /// How far.
        stage: Stage,
        /// Why it was refused; empty otherwise.
        why: String,
    },
    /// A message of its inbox was set aside.
    SetAside(SetAside),
    /// What a run changed in its worktree.
    Change {
        /// The run.
        run: RunId,
        /// What it is.
        made: Box<Made>,
    },
    /// What came of an order to merge a change; its host's.
    Settled {
        /// Which.
        change: ChangeId,
        /// What came of it.
        outcome: ApplyOutcome,
    },
    /// The agent may have children and draws its own spending ahead (spec 06, Budgets).
    Draw {
        /// The run.
        run: RunId,
        /// What all runs of the brief are to have drawn then.
        total: Spend,
    },
    /// Most of a counter's grant is used.
    BudgetWarning {
        /// The run.
        run: RunId,
        /// Which counter.
        counter: Counter,
        /// What all runs of the brief used of it.
        used: u64,
        /// The grant.
        limit: u64,
    },
    /// A sponsor did not answer a specialist within its time.
    SponsorSilent {
        /// The request that stayed unanswered.
        request: RequestId,
        /// The sponsor.
        sponsor: AgentId,
    },
}

impl Report {
    /// The same fact without its texts, for when they are too many; a result says so.
    #[must_use]
    pub fn bare(&self, why: &str) -> Self {
        match self {
            Self::Result { run, epic, result } => {
                let mut bare = RunResult::ended(result.outcome, why);
                bare.usage = result.usage;
                bare.verdict = result
                    .verdict
                    .as_ref()
                    .map(|verdict| Verdict { judgement: verdict.judgement, findings: Vec::new() });
                Self::Result { run: *run, epic: *epic, result: bare }
            }
            Self::Update { run, dispatch, expected, .. } => Self::Update {
                run: *run,
                dispatch: *dispatch,
                update: "{}".to_owned(),
                expected: *expected,
            },
            Self::Ask { run, id, .. } => {
                Self::Ask { run: *run, id: *id, question: why.to_owned(), options: Vec::new() }
            }
            Self::Ready
            | Self::Gone { .. }
            | Self::Crashed { .. }
            | Self::Run { .. }
            | Self::Consumed { .. }
            | Self::Verb { .. }
            | Self::SetAside(_)
            | Self::Change { .. }
            | Self::Settled { .. }
            | Self::Draw { .. }
            | Self::BudgetWarning { .. }
            | Self::SponsorSilent { .. } => self.clone(),
        }
    }

    /// The kind in the body.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Gone { .. } => "gone",
            Self::Crashed { .. } => "crashed",
            Self::Run { .. } => "run",
            Self::Result { .. } => "result",
            Self::Ask { .. } => "ask",
            Self::Consumed { .. } => "consumed",
            Self::Update { .. } => "update",
            Self::Verb { .. } => "verb",
            Self::SetAside(_) => "set_aside",
            Self::Change { .. } => "change",
            Self::Settled { .. } => "settled",
            Self::Draw { .. } => "budget.draw",
            Self::BudgetWarning { .. } => "budget.warning",
            Self::SponsorSilent { .. } => "sponsor_silent",
        }
    }
}
