//! Plans: the records of an epic's three tiers, the node's status machine and the public
//! plan event (spec 05). Reading plan files is in `schema`, derived statuses in `rollup`,
//! readiness and cycles in `graph`, changes of a plan in `change`, proposed ones in `proposal`, what leaves
//! it in `folding`, how its events show it in `view`.

pub mod advice;
pub mod change;
pub mod examination;
pub mod folding;
pub mod graph;
pub mod insight;
pub mod placeholder;
pub mod profiles;
pub mod proposal;
pub mod rollup;
pub mod schema;
pub mod splitting;
pub mod tidying;
pub mod view;

use std::collections::BTreeMap;

use crate::assignment::Purpose;
use crate::brief::{Artifact, Evidence, Tools};
use crate::budget::Limits;
use crate::goal::{GoalResult, GoalStatus};
use crate::id::{
    AgentId, AssignmentId, Domain, EpicId, NodeId, PlanId, Principal, ProfileName, ProjectName,
    RunId,
};
use crate::intensity::Failures;
use crate::overseer::policy::RecoveryPolicy;
use crate::priority::Priorities;
use crate::role::Role;
use crate::time::{BusTime, Millis};
use crate::words::{parsed_words, words};

use folding::FoldedChildren;
use rollup::NodeCounts;

parsed_words! {
    /// Where a work node stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NodeStatus {
        /// Not ready.
        Todo = "todo",
        /// Ready, waiting for an agent.
        Queued = "queued",
        /// Worked on.
        InProgress = "in_progress",
        /// Cannot go on until something holds.
        Blocked = "blocked",
        /// Accepted.
        Done = "done",
        /// Given up on purpose.
        Cancelled = "cancelled",
    }
}

/// Why a node may not move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// A pair that is not in the table.
    #[error("illegal_transition: node {from} -> {to}")]
    Illegal {
        /// The status it has.
        from: NodeStatus,
        /// The status that was asked for.
        to: NodeStatus,
    },
    /// Done without anything to show.
    #[error("evidence_required: done needs a crystallization or evidence anchors")]
    EvidenceRequired,
}

impl NodeStatus {
    /// Whether nothing can happen to it any more.
    #[must_use]
    pub fn is_settled(self) -> bool {
        match self {
            Self::Done | Self::Cancelled => true,
            Self::Todo | Self::Queued | Self::InProgress | Self::Blocked => false,
        }
    }

    /// The next status, when the pair is in the table of spec 05. `evidence`: there is a
    /// crystallization or an evidence anchor.
    ///
    /// # Errors
    /// The pair, when it is not in the table; missing evidence for `done`.
    pub fn to(self, to: Self, evidence: bool) -> Result<Self, NodeError> {
        let legal = match (self, to) {
            (Self::Todo | Self::Blocked | Self::InProgress, Self::Queued)
            | (Self::Queued, Self::InProgress)
            | (Self::Queued | Self::InProgress, Self::Blocked)
            | (Self::InProgress, Self::Done) => true,
            (from, Self::Cancelled) => !from.is_settled(),
            (
                Self::Todo
                | Self::Queued
                | Self::InProgress
                | Self::Blocked
                | Self::Done
                | Self::Cancelled,
                Self::Todo | Self::Queued | Self::InProgress | Self::Blocked | Self::Done,
            ) => false,
        };
        if !legal {
            return Err(NodeError::Illegal { from: self, to });
        }
        if to == Self::Done && !evidence {
            return Err(NodeError::EvidenceRequired);
        }
        Ok(to)
    }
}

/// The header of one epic's plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The epic.
    pub epic: EpicId,
    /// The plan's own id.
    pub id: PlanId,
    /// The project.
    pub project: ProjectName,
    /// 1 when created, then one more with every change.
    pub version: u32,
    /// Who changed it last.
    pub source: PlanSource,
    /// Why.
    pub reason: PlanReason,
    /// The node whose deliverable is the plan's.
    pub output: Option<NodeId>,
    /// What left it.
    pub folded: FoldedChildren,
    /// The trace of the request it comes from, a W3C `traceparent`.
    pub trace: Option<String>,
    /// When it was created.
    pub created: BusTime,
    /// When it last changed.
    pub updated: BusTime,
}

/// The domain of the reviewer of a node that has none itself and says only that it is judged.
pub const REVIEW_DOMAIN: &str = "general";

/// How finished work on a node is judged before it counts as done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The reviewer's domain.
    pub domain: Domain,
    /// The reviewer's profile.
    pub profile: Option<ProfileName>,
}

/// A node's definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// In one line.
    pub name: String,
    /// What is to be reached, or the task's text.
    pub objective: String,
    /// How one can tell.
    pub acceptance: Vec<String>,
    /// What there is afterwards.
    pub expected_outcome: String,
    /// When it may be called done.
    pub definition_of_done: String,
    /// How much work it may be, roughly and in words.
    pub estimated_effort: String,
    /// How likely it goes wrong.
    pub risk_level: Option<RiskLevel>,
    /// Nodes that have to be done first.
    pub depends_on: Vec<NodeId>,
    /// Who is to do it.
    pub role: Role,
    /// The domain, for specialists and reviewers.
    pub domain: Option<Domain>,
    /// The profile; none means the project's default.
    pub profile: Option<ProfileName>,
    /// Tools the work needs.
    pub tools: Tools,
    /// What the agent is to know besides.
    pub key_facts: Vec<String>,
    /// JSON Schema of the deliverable, as JSON text; none means text.
    pub output_schema: Option<String>,
    /// Paths it may change.
    pub scope_paths: Vec<String>,
    /// What it may spend.
    pub budget: Limits,
    /// Longest run.
    pub wall: Option<Millis>,
    /// Attempts before it is blocked.
    pub max_attempts: u32,
    /// Judged by a reviewer before it is done.
    pub review: Option<Review>,
    /// Host labels or name it must run on.
    pub placement: PlacementWish,
    /// What becomes of assignments to it that stand still, where it says so.
    pub recovery: RecoveryPolicy,
    /// It came with a child that was asked for without a node, so it leaves the plan some time after its end.
    pub spawned: bool,
    /// The plan's version that it came with; 0 before it belongs to a plan.
    pub added: u32,
    /// The plan's version that gave it this definition, or these subtasks.
    pub defined: u32,
}

parsed_words! {
    /// How likely a node goes wrong, as its author sees it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RiskLevel {
        /// Hardly.
        Low = "low",
        /// It may.
        Medium = "medium",
        /// It is to be expected.
        High = "high",
    }
}

/// What a request says about where to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementWish {
    /// Exactly this host.
    pub host: Option<crate::id::HostName>,
    /// All of these labels.
    pub labels: Vec<(String, String)>,
}

/// Why a node cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Which kind, for programs.
    pub kind: String,
    /// In words.
    pub detail: String,
    /// What would resolve it.
    pub needs: String,
}

/// The blocker of a node whose attempts are used up (spec 05).
pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";
/// The blocker of a node whose run was stopped.
pub const STOPPED: &str = "stopped";
/// The blocker of a node that was ready, and waits again since its plan changed.
pub const DEPENDS: &str = "depends";
/// The blocker of a node that waits for the answer to an escalation (spec 05, The tick).
pub const ESCALATED: &str = "escalated";

/// The blocker of a node whose work needs a credential: it says which kind and where it is configured,
/// never the credential (spec 05, Records).
pub const CREDENTIAL_MISSING: &str = "credential_missing";

/// What the work on a node came to.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeResult {
    /// The run that did it; none when somebody said that it is done.
    pub run: Option<RunId>,
    /// Text, or JSON as text.
    pub deliverable: String,
    /// Stored files.
    pub artifacts: Vec<Artifact>,
    /// What shows it.
    pub evidence: Evidence,
    /// Summary for whoever goes on from here.
    pub crystallization: String,
}

/// A node's state.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    /// The node.
    pub id: NodeId,
    /// Where it stands.
    pub status: NodeStatus,
    /// Who works on it.
    pub assignee: Option<AgentId>,
    /// The assignment that is open on it.
    pub assignment: Option<AssignmentId>,
    /// What the open or next assignment is for.
    pub purpose: Purpose,
    /// Attempts begun.
    pub attempts: u32,
    /// What the last attempt failed of, told to the next one.
    pub findings: Vec<String>,
    /// Why it is blocked.
    pub blocker: Option<Blocker>,
    /// What it came to; under review while it is in progress.
    pub result: Option<NodeResult>,
    /// Since when it stands there.
    pub since: BusTime,
    /// Charged failures of those who worked on it (spec 04, Restart intensity).
    pub failures: Failures,
    /// The latest assignment, open or ended; the next one follows it.
    pub latest: Option<AssignmentId>,
    /// The plan's version in which it last became `in_progress`; 0 when it never did.
    pub begun: u32,
    /// The plan's version in which it was settled; 0 while it is not.
    pub settled: u32,
    /// What was said of how urgent it is.
    pub priorities: Priorities,
    /// When it came into the plan.
    pub created: BusTime,
    /// When work on it began for the first time.
    pub started: Option<BusTime>,
}

impl NodeState {
    /// When it was settled; none while it is not.
    #[must_use]
    pub fn ended(&self) -> Option<BusTime> {
        self.status.is_settled().then_some(self.since)
    }
}

words! {
    /// Who changed a plan.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PlanSource {
        /// GO.
        Overseer = "overseer",
        /// An agent's request.
        Agent = "agent",
        /// A human's request.
        Human = "human",
    }
}

impl PlanSource {
    /// Which of them a principal is.
    #[must_use]
    pub fn of(principal: &Principal) -> Self {
        match principal {
            Principal::Human(_) => Self::Human,
            Principal::Agent(AgentId::Go) => Self::Overseer,
            Principal::Agent(_) => Self::Agent,
        }
    }
}

words! {
    /// Why a plan changed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PlanReason {
        /// It was made.
        InitialCreate = "initial_create",
        /// It was made anew.
        Replan = "replan",
        /// A guard was violated.
        GuardViolation = "guard_violation",
        /// Work ended.
        TaskCompletion = "task_completion",
        /// An agent was admitted.
        Spawn = "spawn",
        /// A human said so.
        ManualOverride = "manual_override",
    }
}

impl PlanReason {
    /// Whether it says more than that work went on: of several reasons in one version, such a one is
    /// told.
    #[must_use]
    pub fn is_a_change(self) -> bool {
        match self {
            Self::InitialCreate | Self::Replan | Self::GuardViolation | Self::ManualOverride => {
                true
            }
            Self::TaskCompletion | Self::Spawn => false,
        }
    }
}

/// One node's move, as a plan event tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    /// The node.
    pub node: NodeId,
    /// Before; none when it is new.
    pub from: Option<NodeStatus>,
    /// After.
    pub to: NodeStatus,
    /// Why.
    pub why: String,
}

/// A node as a plan event shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// The node.
    pub id: NodeId,
    /// In one line.
    pub title: String,
    /// Where it stands; derived for tasks with subtasks and for phases.
    pub status: NodeStatus,
    /// Who works on it.
    pub assignee: Option<AgentId>,
    /// What the open or next assignment is for.
    pub purpose: Purpose,
    /// Attempts begun.
    pub attempts: u32,
    /// What the last attempt failed of.
    pub findings: Vec<String>,
    /// What was said of how urgent it is; of leaves only.
    pub priorities: Priorities,
    /// When it came into the plan; of leaves only.
    pub created: BusTime,
}

/// The public event: `plan.created` for version 1, else `plan.updated` (spec 05).
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEvent {
    /// The epic.
    pub epic: EpicId,
    /// The plan.
    pub plan: PlanId,
    /// The project.
    pub project: ProjectName,
    /// Exactly one more than the event before.
    pub version: u32,
    /// Who changed it.
    pub source: PlanSource,
    /// Why.
    pub reason: PlanReason,
    /// What moved.
    pub changes: Vec<NodeChange>,
    /// Whether `nodes` is every node of the plan.
    pub full: bool,
    /// The nodes that changed as they now are, or every one, in the plan's order. Not kept on the ledger
    /// ([`view`]).
    pub nodes: Vec<NodeView>,
    /// Nodes that are in the plan no more.
    pub folded: Vec<NodeId>,
    /// Where the plan's leaves stand, those with it that are in the plan no more.
    pub counts: NodeCounts,
    /// Definitions: all of them in `plan.created`, else those that are new or changed.
    pub definitions: Vec<Node>,
    /// The goal's title, in `plan.created` only.
    pub title: String,
    /// The node whose deliverable is the plan's.
    pub output: Option<NodeId>,
    /// Where the goal stands.
    pub goal: GoalStatus,
    /// Leaves done of leaves not cancelled, in percent.
    pub percent: u8,
    /// What the goal came to, once its project orchestrator has put it together.
    pub result: Option<GoalResult>,
    /// What was said of how urgent the goal is.
    pub priorities: Priorities,
    /// The trace of the request it comes from, a W3C `traceparent`.
    pub trace: Option<String>,
    /// When the change was committed.
    pub at: BusTime,
}

impl PlanEvent {
    /// The plan as it is with this event, for whoever knows how it was before: a whole one stands for itself,
    /// any other goes on from the version before it. What one event alone tells is that event's.
    ///
    /// # Errors
    /// Versions between the two are missing; the event as it was.
    pub fn onto(self, before: Option<&Self>) -> Result<Self, Box<Self>> {
        if self.full {
            return Ok(self);
        }
        let Some(before) = before.filter(|it| it.version.checked_add(1) == Some(self.version))
        else {
            return Err(Box::new(self));
        };
        let mut nodes: BTreeMap<NodeId, NodeView> =
            before.nodes.iter().map(|view| (view.id, view.clone())).collect();
        nodes.retain(|id, _| !self.folded.contains(id));
        nodes.extend(self.nodes.into_iter().map(|view| (view.id, view)));
        Ok(Self { full: true, nodes: nodes.into_values().collect(), ..self })
    }

    /// Whether a node of a whole plan is one that agents are assigned to: no phase, and nothing below it.
    #[must_use]
    pub fn is_leaf(&self, id: NodeId) -> bool {
        let after = self.nodes.partition_point(|view| view.id <= id);
        let next = self.nodes.get(after).and_then(|view| view.id.parent());
        id.parent().is_some() && next != Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_transitions_are_legal() {
        use NodeStatus::{Blocked, Cancelled, Done, InProgress, Queued, Todo};
        let legal = [
            (Todo, Queued),
            (Queued, InProgress),
            (InProgress, Done),
            (Queued, Blocked),
            (InProgress, Blocked),
            (Blocked, Queued),
            (InProgress, Queued),
            (Todo, Cancelled),
            (Queued, Cancelled),
            (InProgress, Cancelled),
            (Blocked, Cancelled),
        ];
        for from in NodeStatus::ALL {
            for to in NodeStatus::ALL {
                assert_eq!(
                    from.to(to, true).is_ok(),
                    legal.contains(&(from, to)),
                    "{from} -> {to}"
                );
            }
        }
    }

    #[test]
    fn done_needs_evidence() {
        let got = NodeStatus::InProgress.to(NodeStatus::Done, false);
        assert_eq!(got, Err(NodeError::EvidenceRequired));
    }
}
