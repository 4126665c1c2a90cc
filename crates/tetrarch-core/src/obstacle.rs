//! What keeps work from starting, read off the records (spec 03, 04, 05): each obstacle in one sentence,
//! with how much it holds up and the commands that help. Every view tells the same; nothing is decided
//! here. How they are found is in `finding`.

mod finding;
mod placing;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::assignment::Purpose;
use crate::budget::Counter;
use crate::id::{AgentId, ChangeId, EpicId, HostName, NodeId, ProjectName, QuestionId, RunId};
use crate::limits::{OBSTACLE_BORNE, RETURN_AWAITED};
use crate::liveness::Liveness;
use crate::plan::{Node, NodeState, NodeStatus, graph};
use crate::records::Records;
use crate::time::{BusTime, Millis};
use crate::words::words;

use finding::Finder;

/// What is to be known beside the records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// Whether somebody holds the lease of the ledger's owner.
    pub owner: bool,
    /// Why the owner takes no work at present; none while it does.
    pub halted: Option<String>,
}

words! {
    /// What kind of obstacle it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ObstacleKind {
        /// Nobody owns the ledger, so nothing is decided.
        OwnerAbsent = "owner_absent",
        /// The owner takes no work.
        Halted = "halted",
        /// The project's orchestrator has ended for good.
        OrchestratorEnded = "orchestrator_ended",
        /// The project's orchestrator is a program that has to register.
        OrchestratorAbsent = "orchestrator_absent",
        /// Restart intensity tripped.
        CircuitOpen = "circuit_open",
        /// No host is up.
        NoHost = "no_host",
        /// No host that is up is one that the placement allows.
        NoHostFits = "no_host_fits",
        /// Every host that the placement allows is full.
        HostsFull = "hosts_full",
        /// The project's mode allows no agents.
        NoSlots = "no_slots",
        /// Every agent that the orchestrator may have works for other goals.
        SlotsTaken = "slots_taken",
        /// The orchestrator's budget does not cover what is asked for.
        BudgetUsed = "budget_used",
        /// The goal is paused.
        GoalPaused = "goal_paused",
        /// Somebody paused the agent that works on it.
        AgentPaused = "agent_paused",
        /// An agent waits for an answer.
        QuestionOpen = "question_open",
        /// A change waits for somebody to decide on it.
        ChangeWaiting = "change_waiting",
        /// A change waited for too long.
        ChangeExpired = "change_expired",
        /// The project has no profile of that name.
        ProfileMissing = "profile_missing",
        /// Work is blocked.
        WorkBlocked = "work_blocked",
        /// Work depends on what is cancelled.
        DependencyCancelled = "dependency_cancelled",
    }
}

impl ObstacleKind {
    /// How long whoever follows the work bears it while nothing else goes on; none where waiting is all
    /// that is needed, or somebody is expected to answer.
    #[must_use]
    pub fn borne(self) -> Option<Millis> {
        match self {
            Self::OrchestratorEnded
            | Self::CircuitOpen
            | Self::NoHostFits
            | Self::NoSlots
            | Self::ProfileMissing
            | Self::WorkBlocked
            | Self::DependencyCancelled => Some(OBSTACLE_BORNE),
            Self::OrchestratorAbsent | Self::NoHost => Some(RETURN_AWAITED),
            Self::OwnerAbsent
            | Self::Halted
            | Self::HostsFull
            | Self::SlotsTaken
            | Self::BudgetUsed
            | Self::GoalPaused
            | Self::AgentPaused
            | Self::QuestionOpen
            | Self::ChangeWaiting
            | Self::ChangeExpired => None,
        }
    }
}

/// What an obstacle is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An agent.
    Agent(AgentId),
    /// A goal.
    Goal(EpicId),
    /// Work.
    Node(EpicId, NodeId),
    /// A project.
    Project(ProjectName),
    /// A question.
    Question(QuestionId),
    /// A change.
    Change(ChangeId),
    /// The hosts of the installation.
    Hosts,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(id) => id.fmt(f),
            Self::Goal(epic) => epic.fmt(f),
            Self::Node(epic, node) => write!(f, "{epic}/{node}"),
            Self::Project(name) => write!(f, "project/{name}"),
            Self::Question(id) => id.fmt(f),
            Self::Change(id) => id.fmt(f),
            Self::Hosts => f.write_str("hosts"),
        }
    }
}

/// A command that helps. Words in capitals are for the reader to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Close an agent's circuit.
    CloseCircuit(AgentId),
    /// Try blocked work again.
    Unblock(EpicId, NodeId),
    /// See what a run did.
    Logs(RunId),
    /// Mend or add a profile.
    ApplyProfile(ProjectName),
    /// Let a goal go on.
    ResumeGoal(EpicId),
    /// Let an agent go on.
    ResumeAgent(AgentId),
    /// Answer a question.
    Answer(QuestionId),
    /// See what a change does.
    ShowChange(ChangeId),
    /// Approve a change and merge it.
    Approve(ChangeId),
    /// Merge an approved change.
    Apply(ChangeId),
    /// Discard the worktree of a run on a host, with work that is nowhere else.
    RemoveWorktree(RunId, HostName),
    /// Put a closed goal away.
    ArchiveGoal(EpicId),
    /// Start an owner of the ledger.
    StartOwner,
    /// Start a host with this name and these labels.
    StartHost(Option<HostName>, Vec<(String, String)>),
    /// Let a project have agents.
    Delegate(ProjectName),
    /// Bring a project's orchestrator back.
    CreateProject(ProjectName),
    /// Let an agent spend more, by so much of a counter.
    RaiseBudget(AgentId, Counter, u64),
    /// Give up a goal.
    CancelGoal(EpicId),
    /// Change a plan.
    ChangePlan(EpicId),
    /// See everything about an agent.
    Describe(AgentId),
    /// Look over the machine.
    Doctor,
}

impl Remedy {
    /// The words of its command line, without the program's name.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let split = |text: String| text.split(' ').map(str::to_owned).collect();
        match self {
            Self::CloseCircuit(agent) => split(format!("circuit close {agent}")),
            Self::Unblock(epic, node) => split(format!("work unblock {epic} {node}")),
            Self::Logs(run) => split(format!("logs {run}")),
            Self::ApplyProfile(project) => split(format!("profile apply {project} FILE")),
            Self::ResumeGoal(epic) => split(format!("goal resume {epic}")),
            Self::ResumeAgent(agent) => split(format!("resume {agent}")),
            Self::Answer(question) => split(format!("answer {question} TEXT")),
            Self::ShowChange(change) => split(format!("change show {change}")),
            Self::Approve(change) => split(format!("approve {change} --apply")),
            Self::Apply(change) => split(format!("apply {change}")),
            Self::RemoveWorktree(run, host) => {
                split(format!("worktree remove {run} --host {host} --force"))
            }
            Self::ArchiveGoal(epic) => split(format!("goal archive {epic}")),
            Self::StartOwner => split("serve --global".to_owned()),
            Self::StartHost(name, labels) => {
                let mut words = vec!["host".to_owned()];
                words.extend(name.iter().flat_map(|name| ["--name".to_owned(), name.to_string()]));
                let label = |(key, value): &(String, String)| {
                    ["--label".to_owned(), format!("{key}={value}")]
                };
                words.extend(labels.iter().flat_map(label));
                words
            }
            Self::Delegate(project) => split(format!("project mode {project} orchestrator")),
            Self::CreateProject(project) => split(format!("project create {project}")),
            Self::RaiseBudget(agent, counter, by) => {
                let more = match counter {
                    Counter::Tokens => format!("--tokens {by}"),
                    Counter::CostMicro => {
                        format!("--cost-usd {}.{:06}", by / 1_000_000, by % 1_000_000)
                    }
                    Counter::Turns => format!("--turns {by}"),
                };
                split(format!("budget raise {agent} {more}"))
            }
            Self::CancelGoal(epic) => split(format!("goal cancel {epic}")),
            Self::ChangePlan(epic) => split(format!("plan apply {epic} FILE --reason TEXT")),
            Self::Describe(agent) => split(format!("describe {agent}")),
            Self::Doctor => split("doctor".to_owned()),
        }
    }
}

/// Something that keeps work from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Which kind.
    pub kind: ObstacleKind,
    /// What it is about.
    pub subject: Subject,
    /// Since when, where that is known.
    pub since: Option<BusTime>,
    /// What it is and why, in one sentence.
    pub what: String,
    /// The work that waits for it and for nothing else.
    pub nodes: BTreeSet<(EpicId, NodeId)>,
    /// Leaves that do not go on before it is gone: those, and what depends on them.
    pub holds_up: usize,
    /// What helps, in the order in which it is to be done.
    pub remedies: Vec<Remedy>,
}

/// The obstacles of one goal, what holds up most first. It needs the records of agents, hosts, projects
/// and profiles, and of the goal those of its definition, state, nodes, questions and changes; of
/// assignments where runs are to be named.
#[must_use]
pub fn of_epic(records: &Records, telemetry: &Telemetry, epic: EpicId) -> Vec<Obstacle> {
    let mut finder = Finder::new(records, telemetry);
    finder.look_at(epic);
    let project = records.goals.get(&epic).map(|goal| &goal.project);
    finder.circuits(|agent| agent.project.as_ref() == project);
    finish(records, finder)
}

/// The obstacles of every goal that is not put away, and every open circuit; what holds up most first.
#[must_use]
pub fn of_fleet(records: &Records, telemetry: &Telemetry) -> Vec<Obstacle> {
    let mut finder = Finder::new(records, telemetry);
    for epic in records.goal_states.keys() {
        finder.look_at(*epic);
    }
    finder.circuits(|_| true);
    finish(records, finder)
}

fn finish(records: &Records, finder: Finder<'_>) -> Vec<Obstacle> {
    let mut found = finder.found;
    for obstacle in &mut found {
        obstacle.holds_up = held_up(records, &obstacle.nodes);
    }
    found.sort_by_key(|it| (Reverse(it.holds_up), it.kind, it.subject.clone(), it.since));
    found
}

/// How long a goal's obstacles are borne by whoever follows it, when nothing of it goes on and all that
/// is ready waits for one of them; none while something goes on, or may by itself.
#[must_use]
pub fn standstill(records: &Records, obstacles: &[Obstacle], epic: EpicId) -> Option<Millis> {
    let states = records.node_states.get(&epic)?;
    let mut longest = None;
    for state in states.values() {
        if is_worked_on(records, state) {
            return None;
        }
        if !is_waiting(records, state) {
            continue;
        }
        let over = obstacles.iter().filter(|it| it.nodes.contains(&(epic, state.id)));
        let borne = over.filter_map(|it| it.kind.borne()).max()?;
        longest = longest.max(Some(borne));
    }
    longest
}

/// Whether a leaf is ready and has nobody, or has somebody whose process is lost.
fn is_waiting(records: &Records, state: &NodeState) -> bool {
    let unassigned = state.assignment.is_none();
    match state.status {
        NodeStatus::Queued => unassigned,
        NodeStatus::InProgress => {
            unassigned && state.purpose == Purpose::Review || is_stranded(records, state)
        }
        NodeStatus::Todo | NodeStatus::Blocked | NodeStatus::Done | NodeStatus::Cancelled => false,
    }
}

fn is_stranded(records: &Records, state: &NodeState) -> bool {
    let agent = state.assignee.as_ref().and_then(|id| records.agents.get(id));
    state.assignment.is_some() && agent.is_some_and(|it| it.liveness == Liveness::Offline)
}

fn is_worked_on(records: &Records, state: &NodeState) -> bool {
    state.assignment.is_some()
        && state.status == NodeStatus::InProgress
        && !is_stranded(records, state)
}

/// How many unsettled leaves are these, or depend on them directly or through others.
fn held_up(records: &Records, starts: &BTreeSet<(EpicId, NodeId)>) -> usize {
    let epics: BTreeSet<EpicId> = starts.iter().map(|(epic, _)| *epic).collect();
    let of_epic = |epic: EpicId| {
        let own = starts.iter().filter(move |(of, _)| *of == epic).map(|(_, node)| *node);
        let Some(nodes) = records.nodes.get(&epic) else { return own.count() };
        let states = records.node_states.get(&epic);
        let unsettled = |id: &NodeId| {
            let state = states.and_then(|states| states.get(id));
            state.is_none_or(|state| !state.status.is_settled())
        };
        dependents(nodes, own.collect()).iter().filter(|id| unsettled(id)).count()
    };
    epics.into_iter().map(of_epic).sum()
}

/// These leaves and all that depend on them.
fn dependents(nodes: &BTreeMap<NodeId, Node>, starts: BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let lineage = |id: NodeId| std::iter::successors(Some(id), |id| id.parent());
    let mut held = starts;
    let mut within: BTreeSet<NodeId> = held.iter().flat_map(|id| lineage(*id)).collect();
    let mut rest: Vec<NodeId> =
        graph::leaves(nodes).into_iter().filter(|id| !held.contains(id)).collect();
    loop {
        let waits = |id: &NodeId| !graph::dependencies(nodes, *id).is_disjoint(&within);
        let (next, others): (Vec<NodeId>, Vec<NodeId>) = rest.into_iter().partition(waits);
        if next.is_empty() {
            return held;
        }
        within.extend(next.iter().flat_map(|id| lineage(*id)));
        held.extend(next);
        rest = others;
    }
}
